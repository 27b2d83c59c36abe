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

/* Where a stop text lies. */
struct hit {
    size_t at, end;
};

/* The stop text that ends first, of those that begin first. */
static bool find(struct sl_stop *s, const char *p, size_t len, struct hit *out)
{
    bool found = false;

    for (uint32_t i = 0; i < s->n; i++) {
        size_t n = strlen(s->text[i]), at, end;
        const char *hit = memmem(p, len, s->text[i], n);

        if (!hit)
            continue;
        at = (size_t)(hit - p);
        end = at + n;
        if (found && (end > out->end || (end == out->end && at >= out->at)))
            continue;
        *out = (struct hit){at, end};
        s->hit = i;
        found = true;
        len = end; /* a later one cannot win */
    }
    return found;
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

/* Give out all that begins no stop text. */
static void give(struct sl_stop *s, struct sl_buf *out)
{
    struct sl_buf *h = &s->held;
    size_t keep;

    if (h->len == 0)
        return;
    keep = open_tail(s, h->p, h->len);
    sl_buf_add(out, h->p, h->len - keep);
    memmove(h->p, h->p + h->len - keep, keep + 1);
    h->len = keep;
}

bool sl_stop_feed(struct sl_stop *s, struct sl_buf *in, struct sl_buf *out)
{
    struct sl_buf *h = &s->held;
    struct hit hit = {0, 0};

    if (s->n == 0) {
        sl_buf_add(out, in->p, in->len);
        sl_buf_reset(in);
        return false;
    }
    sl_buf_add(h, in->p, in->len);
    sl_buf_reset(in);
    if (h->len > 0 && find(s, h->p, h->len, &hit)) {
        sl_buf_add(out, h->p, s->include ? hit.end : hit.at);
        sl_buf_reset(h);
        return true;
    }
    give(s, out);
    return false;
}

void sl_stop_pass(struct sl_stop *s, struct sl_buf *in, struct sl_buf *out)
{
    sl_buf_add(&s->held, in->p, in->len);
    sl_buf_reset(in);
    give(s, out);
}

void sl_stop_flush(struct sl_stop *s, struct sl_buf *out)
{
    sl_buf_add(out, s->held.p, s->held.len);
    sl_buf_reset(&s->held);
}
