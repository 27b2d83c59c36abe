/* tests/fuzz/fuzz_stop.c - texts that end an answer, at any cut
 *
 * Bytes up to the first 0xff are up to four stop texts, separated by zeros; the
 * rest is the answer. Fed whole, byte by byte, and in two pieces it gives the
 * same text and the same hit; and that hit is the one that a plain search finds:
 * of all occurrences the one that ends first, of those the one that begins
 * first.
 */
#include "engine/stop.h"

#define MAX_STOP 4
#define MAX_LEN 64

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

struct plain {
    size_t at, end;
    uint32_t hit;
    bool found;
};

static struct plain search(char *const *stop, uint32_t n_stop, const char *s,
                           size_t n)
{
    struct plain best = {0};

    for (size_t end = 1; end <= n; end++)
        for (size_t at = 0; at < end; at++)
            for (uint32_t i = 0; i < n_stop; i++)
                if (!best.found && strlen(stop[i]) == end - at &&
                    !memcmp(s + at, stop[i], end - at))
                    best = (struct plain){at, end, i, true};
    return best;
}

static void check(char *const *stop, uint32_t n_stop, const char *s, size_t n,
                  size_t step, bool include, const struct plain *want)
{
    struct sl_stop x;
    struct sl_buf in, out;
    bool hit = false;
    size_t give = want->found ? include ? want->end : want->at : n;

    sl_stop_init(&x, stop, n_stop);
    x.include = include;
    sl_buf_init(&in, 1 << 16);
    sl_buf_init(&out, 1 << 16);
    for (size_t i = 0; i < n && !hit; i += step) {
        sl_buf_add(&in, s + i, sl_min(step, n - i));
        hit = sl_stop_feed(&x, &in, &out);
    }
    if (!hit)
        sl_stop_flush(&x, &out);
    SL_CHECK(hit == want->found);
    SL_CHECK(!hit || !strcmp(stop[x.hit], stop[want->hit]));
    SL_CHECK(out.len == give && (give == 0 || !memcmp(out.p, s, give)));
    sl_stop_deinit(&x);
    sl_buf_deinit(&in);
    sl_buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    char text[MAX_STOP][MAX_LEN + 1] = {{0}};
    char *stop[MAX_STOP];
    uint32_t n_stop = 0;
    const char *s;
    struct plain want;
    size_t i = 0, len = 0;

    for (; i < n && p[i] != 0xff; i++) {
        if (p[i] == 0 || len == MAX_LEN) {
            n_stop += len > 0 && n_stop < MAX_STOP;
            len = 0;
        } else if (n_stop < MAX_STOP) {
            text[n_stop][len++] = (char)p[i];
            text[n_stop][len] = 0;
        }
    }
    n_stop += len > 0 && n_stop < MAX_STOP;
    for (uint32_t k = 0; k < MAX_STOP; k++)
        stop[k] = text[k];
    i += i < n;
    if (n - i > 200)
        n = i + 200; /* the plain search takes the square of it */
    s = (const char *)p + i;
    want = search(stop, n_stop, s, n - i);
    for (int include = 0; include < 2; include++) {
        check(stop, n_stop, s, n - i, 1, include, &want);
        check(stop, n_stop, s, n - i, 3, include, &want);
        check(stop, n_stop, s, n - i, n - i + 1, include, &want);
    }
    return 0;
}
