/* tests/fuzz/fuzz_http.c - requests, cut anywhere
 *
 * The first byte says how large the pieces are; what the message becomes must
 * not depend on it, nothing may be taken behind its end, and every string of a
 * whole message lies inside of its buffer.
 */
#include "server/message.h"

#define MAX_BODY 4096

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static size_t feed(struct sl_message *m, const char *p, size_t n, size_t step)
{
    size_t at = 0;

    sl_message_reset(m);
    while (at < n && m->state < SL_MESSAGE_DONE) {
        size_t k = sl_min(step, n - at), used = sl_message_feed(m, p + at, k);

        SL_CHECK(used <= k);
        SL_CHECK(used == k || m->state >= SL_MESSAGE_DONE);
        at += used;
    }
    return at;
}

static void check_whole(const struct sl_message *m)
{
    SL_CHECK(m->state != SL_MESSAGE_BAD || (m->status >= 400 && m->why));
    SL_CHECK(m->n_line <= SL_MESSAGE_MAX_LINES && m->body.len <= MAX_BODY);
    SL_CHECK(m->head.len <= SL_MESSAGE_MAX_HEAD);
    if (m->state != SL_MESSAGE_DONE)
        return;
    for (uint32_t i = 0; i < m->n_line; i++) {
        SL_CHECK(m->line[i].name < m->line[i].value);
        SL_CHECK(m->line[i].value <= m->head.len);
        SL_CHECK(m->head.p[m->line[i].value - 1] == 0);
        SL_CHECK(!strchr(m->head.p + m->line[i].name, ' '));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static struct sl_message a, b;
    const char *text = (const char *)p + 1;
    size_t used;

    if (n < 2)
        return 0;
    sl_message_init(&a, MAX_BODY);
    sl_message_init(&b, MAX_BODY);
    used = feed(&a, text, n - 1, n);
    check_whole(&a);
    SL_CHECK(feed(&b, text, n - 1, (size_t)p[0] % 7 + 1) <= n - 1);
    check_whole(&b);
    SL_CHECK(a.state == b.state && a.status == b.status);
    if (a.state == SL_MESSAGE_DONE) {
        SL_CHECK(feed(&b, text, used, 1) == used);
        SL_CHECK(b.state == SL_MESSAGE_DONE && a.keep == b.keep);
        SL_CHECK(a.n_line == b.n_line);
        SL_CHECK(a.head.len == b.head.len && a.body.len == b.body.len);
        SL_CHECK(!memcmp(a.head.p, b.head.p, a.head.len));
        SL_CHECK(!a.body.len || !memcmp(a.body.p, b.body.p, a.body.len));
    }
    sl_message_deinit(&a);
    sl_message_deinit(&b);
    return 0;
}
