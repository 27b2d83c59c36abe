/* text/added.c - finding added tokens in text
 *
 * The tokens are sorted, so those that agree with the text so far are one
 * range, which each byte narrows; the one that ends here, if any, is the first
 * of the range. A family member has 33 tokens of at most 22 bytes, nearly all
 * starting with '<', so this is a scan for one byte. The cost per byte of text
 * is bounded by the longest token, whatever the text.
 */
#include "text/added.h"

#include "base/mem.h"
#include "text/nfc.h"

static int by_text(const void *x, const void *y)
{
    const struct sl_added_tok *a = x, *b = y;
    int c = memcmp(a->text.p, b->text.p, sl_min(a->text.len, b->text.len));

    if (c)
        return c;
    return (a->text.len > b->text.len) - (a->text.len < b->text.len);
}

/* Append the text of one token, normalised if bits is given. */
static int put_text(struct sl_added *a, const struct sl_vocab *v, int32_t id,
                    struct sl_nfc *nfc, const uint8_t *bits, struct sl_err *err)
{
    const char *s;
    size_t len, from = a->text.len;
    struct sl_buf raw;
    int rc;

    if (!bits) {
        sl_vocab_text(v, id, &a->text);
        a->tok[a->n].text.len = a->text.len - from;
        return sl_buf_check(&a->text, "the added tokens", err);
    }
    sl_buf_init(&raw, SL_VOCAB_MAX_TOKEN);
    sl_vocab_text(v, id, &raw);
    rc = sl_buf_check(&raw, "an added token", err);
    if (!rc)
        rc = sl_nfc_run(nfc, bits, raw.p, raw.len, &s, &len, err);
    if (!rc) {
        sl_buf_add(&a->text, s, len);
        a->tok[a->n].text.len = len;
        rc = sl_buf_check(&a->text, "the added tokens", err);
    }
    sl_buf_deinit(&raw);
    return rc;
}

/* The buffer has its final place: point the tokens at it, sort, index. */
static void index_tokens(struct sl_added *a)
{
    size_t at = 0, i = 0;

    for (size_t k = 0; k < a->n; k++) {
        a->tok[k].text.p = a->text.p + at;
        at += a->tok[k].text.len;
    }
    if (a->n)
        qsort(a->tok, a->n, sizeof(*a->tok), by_text);
    for (unsigned b = 0; b < 256; b++) {
        a->first[b] = (uint32_t)i;
        while (i < a->n && (unsigned char)a->tok[i].text.p[0] == b)
            i++;
    }
    a->first[256] = (uint32_t)i;
}

int sl_added_init(struct sl_added *a, const struct sl_vocab *v, bool normalized,
                  const uint8_t *bits, struct sl_err *err)
{
    struct sl_nfc nfc;
    size_t n = 0;
    int rc;

    *a = (struct sl_added){0};
    sl_buf_init(&a->text, SIZE_MAX / 2);
    sl_nfc_init(&nfc);
    for (size_t id = 0; id < v->n_ids; id++)
        n += (v->kind[id] & SL_TOK_ADDED) != 0;
    rc = sl_mem_alloc(&a->tok, n, sizeof(*a->tok), "added tokens", err);
    for (size_t id = 0; id < v->n_ids && !rc; id++) {
        if (!(v->kind[id] & SL_TOK_ADDED) ||
            !!(v->kind[id] & SL_TOK_NORMALIZED) != normalized)
            continue;
        a->tok[a->n].id = (int32_t)id;
        rc = put_text(a, v, (int32_t)id, &nfc, bits, err);
        a->n++;
    }
    sl_nfc_deinit(&nfc);
    if (rc)
        sl_added_deinit(a);
    else
        index_tokens(a);
    return rc;
}

void sl_added_deinit(struct sl_added *a)
{
    sl_mem_free(a->tok);
    sl_buf_deinit(&a->text);
    *a = (struct sl_added){0};
}

/* Narrow tok[*lo..*hi), which agree in `depth` bytes, to those that go on with
 * byte c. None of them ends at depth. */
static void narrow(const struct sl_added *a, size_t *lo, size_t *hi,
                   size_t depth, unsigned char c)
{
    size_t l = *lo, h = *hi;

    while (l < h) {
        size_t mid = l + (h - l) / 2;

        if ((unsigned char)a->tok[mid].text.p[depth] < c)
            l = mid + 1;
        else
            h = mid;
    }
    *lo = l;
    h = *hi;
    while (l < h) {
        size_t mid = l + (h - l) / 2;

        if ((unsigned char)a->tok[mid].text.p[depth] <= c)
            l = mid + 1;
        else
            h = mid;
    }
    *hi = l;
}

/* The longest token that starts at s; NULL if none does. */
static const struct sl_added_tok *longest(const struct sl_added *a,
                                          const char *s, size_t left)
{
    const struct sl_added_tok *best = NULL;
    unsigned char c = (unsigned char)s[0];
    size_t lo = a->first[c], hi = a->first[c + 1];

    for (size_t depth = 1; lo < hi; depth++) {
        while (lo < hi && a->tok[lo].text.len == depth)
            best = &a->tok[lo++];
        if (lo == hi || depth == left)
            break;
        narrow(a, &lo, &hi, depth, (unsigned char)s[depth]);
    }
    return best;
}

bool sl_added_next(const struct sl_added *a, const char *s, size_t len,
                   size_t from, size_t *at, size_t *end, int32_t *id)
{
    if (a->n == 0)
        return false;
    for (size_t i = from; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        const struct sl_added_tok *t;

        if (a->first[c] == a->first[c + 1])
            continue;
        t = longest(a, s + i, len - i);
        if (!t)
            continue;
        *at = i;
        *end = i + t->text.len;
        *id = t->id;
        return true;
    }
    return false;
}
