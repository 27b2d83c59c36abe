/* engine/stop.c - texts that end an answer; see stop.h */
#include "engine/stop.h"

#define MAX_HELD ((size_t)1 << 20) /* bytes; a step adds one token's text */

void sl_stop_init(struct sl_stop *s, char *const *text, uint32_t n)
{
    *s = (struct sl_stop){.text = text, .n = n};
    sl_buf_init(&s->held, MAX_HELD);
}

void sl_stop_deinit(struct sl_stop *s)
{
    sl_buf_deinit(&s->held);
}

/* Offset of the first stop text in p, or len. */
static size_t find(struct sl_stop *s, const char *p, size_t len)
{
    size_t first = len;

    for (uint32_t i = 0; i < s->n; i++) {
        const char *hit = memmem(p, first, s->text[i], strlen(s->text[i]));

        /* A later text may begin earlier only if all of it lies before. */
        if (!hit)
            continue;
        first = (size_t)(hit - p);
        s->hit = i;
    }
    return first;
}

/* Bytes at the end of p that begin a stop text without finishing it. */
static size_t open_tail(const struct sl_stop *s, const char *p, size_t len)
{
    size_t most = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        size_t n = sl_min(strlen(s->text[i]) - 1, len);

        for (; n > most; n--)
            if (memcmp(p + len - n, s->text[i], n) == 0)
                most = n;
    }
    return most;
}

bool sl_stop_feed(struct sl_stop *s, struct sl_buf *in, struct sl_buf *out)
{
    struct sl_buf *h = &s->held;
    size_t keep, at;

    if (s->n == 0) {
        sl_buf_add(out, in->p, in->len);
        sl_buf_reset(in);
        return false;
    }
    sl_buf_add(h, in->p, in->len);
    sl_buf_reset(in);
    if (h->len == 0)
        return false;
    at = find(s, h->p, h->len);
    if (at < h->len) {
        sl_buf_add(out, h->p, at);
        sl_buf_reset(h);
        return true;
    }
    keep = open_tail(s, h->p, h->len);
    sl_buf_add(out, h->p, h->len - keep);
    memmove(h->p, h->p + h->len - keep, keep + 1);
    h->len = keep;
    return false;
}

void sl_stop_flush(struct sl_stop *s, struct sl_buf *out)
{
    sl_buf_add(out, s->held.p, s->held.len);
    sl_buf_reset(&s->held);
}
