/* text/detokenize.c - token ids to text, as they come; see detokenize.h
 *
 * Which bytes become one U+FFFD: the longest start of a valid character, or one
 * byte (Unicode 16, section 3.9, "substitution of maximal subparts"; it is what
 * the reference does). So the bytes E2 82 41 are U+FFFD and A.
 */
#include "text/detokenize.h"

#include "base/utf8.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* A character that straddles tokens has at most four. */
#define PRIME_IDS 4

void sl_detokenize_init(struct sl_detok *d, const struct sl_tokenizer *t,
                        bool skip_special)
{
    *d = (struct sl_detok){.t = t, .skip_special = skip_special};
}

/* One byte more: it completes, continues, or breaks what is held. `out` may be
 * NULL. */
static void push_byte(struct sl_detok *d, char c, struct sl_buf *out)
{
    size_t n = d->n_hold;

    d->hold[n++] = c;
    if (sl_utf8_valid(d->hold, n) == n) {
        if (out)
            sl_buf_add(out, d->hold, n);
        d->n_hold = 0;
    } else if (sl_utf8_partial(d->hold, n) == n) {
        d->n_hold = (uint8_t)n;
    } else {
        if (out)
            sl_buf_str(out, REPLACEMENT);
        d->n_hold = 0;
        if (n > 1)
            push_byte(d, c, out); /* once: nothing is held now */
    }
}

static void push_bytes(struct sl_detok *d, struct sl_span s, struct sl_buf *out)
{
    size_t i = 0;

    for (; i < s.len && d->n_hold; i++)
        push_byte(d, s.p[i], out);
    while (i < s.len) {
        size_t n = sl_utf8_valid(s.p + i, s.len - i);

        if (out)
            sl_buf_add(out, s.p + i, n);
        i += n;
        if (i < s.len)
            push_byte(d, s.p[i++], out);
        for (; i < s.len && d->n_hold; i++)
            push_byte(d, s.p[i], out);
    }
}

void sl_detokenize_prime(struct sl_detok *d, const int32_t *ids, size_t n)
{
    for (size_t i = n > PRIME_IDS ? n - PRIME_IDS : 0; i < n; i++)
        if (!d->skip_special || !sl_tokenizer_is_special(d->t, ids[i]))
            push_bytes(d, sl_tokenizer_bytes(d->t, ids[i]), NULL);
}

int sl_detokenize_push(struct sl_detok *d, int32_t id, struct sl_buf *out,
                       struct sl_err *err)
{
    if (!sl_tokenizer_has(d->t, id))
        return sl_fail(err, SL_EARG,
                       "the token %d is not in the vocabulary of %zu ids",
                       (int)id, sl_tokenizer_n_ids(d->t));
    if (!d->skip_special || !sl_tokenizer_is_special(d->t, id))
        push_bytes(d, sl_tokenizer_bytes(d->t, id), out);
    return 0;
}

void sl_detokenize_flush(struct sl_detok *d, struct sl_buf *out)
{
    if (d->n_hold)
        sl_buf_str(out, REPLACEMENT);
    d->n_hold = 0;
}

int sl_detokenize_all(const struct sl_tokenizer *t, const int32_t *ids,
                      size_t n, bool skip_special, struct sl_buf *out,
                      struct sl_err *err)
{
    struct sl_detok d;
    int rc = 0;

    sl_detokenize_init(&d, t, skip_special);
    for (size_t i = 0; i < n && !rc; i++)
        rc = sl_detokenize_push(&d, ids[i], out, err);
    sl_detokenize_flush(&d, out);
    return rc ? rc : sl_buf_check(out, "decoded text", err);
}
