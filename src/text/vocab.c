/* text/vocab.c - the tokens of a model, and which pairs of them merge
 *
 * A quarter of a million tokens and as many merges are read at every start,
 * and a merge is looked up for every pair of neighbours in a text. So both
 * tables are flat arrays with linear probing, at most half full: uthash would
 * take 56 bytes and one allocation per entry. Where an entry lands depends on
 * a random seed, because the tokens come from a file that somebody may have
 * made to collide; nothing else depends on it.
 *
 * 248,044 tokens take 1.6 MB for their bytes, 1 MB for offsets, 2 MB for the
 * table of texts and 8 MB for the merges.
 *
 * Two ids never have one text. A pair that occurs twice in the merge list has
 * the later rank, as in the reference.
 */
#include "text/vocab.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"

#define FIRST_EXTRA 256 /* where the alphabet puts what it cannot print */

/* ---- the alphabet ---- */

/* A byte that stands for itself: printable in Latin-1. */
static bool is_printable(unsigned b)
{
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
}

/* The 68 others are numbered from U+0100 on, in order. */
static void alphabet(uint16_t cp_of[256])
{
    uint16_t next = FIRST_EXTRA;

    for (unsigned b = 0; b < 256; b++)
        cp_of[b] = is_printable(b) ? (uint16_t)b : next++;
}

#define N_EXTRA 68

/* The byte that cp stands for; -1 if none. */
static int byte_of(uint32_t cp)
{
    /* U+0100.. in order: 0..32, 127..160, 173. */
    if (cp < FIRST_EXTRA)
        return is_printable(cp) ? (int)cp : -1;
    cp -= FIRST_EXTRA;
    if (cp <= 32)
        return (int)cp;
    if (cp <= 66)
        return (int)cp - 33 + 127;
    return cp == N_EXTRA - 1 ? 173 : -1;
}

/* Text in the alphabet to bytes. dst has room for len bytes. Returns the
 * bytes, or copies and sets *literal when a character is not in the alphabet.
 * s is valid UTF-8. */
static size_t to_bytes(char *dst, const char *s, size_t len, bool *literal)
{
    size_t n = 0, i = 0;

    *literal = false;
    while (i < len) {
        uint32_t cp;
        int b;

        i += sl_utf8_get(&cp, s + i, len - i);
        b = byte_of(cp);
        if (b < 0) {
            *literal = true;
            memcpy(dst, s, len);
            return len;
        }
        dst[n++] = (char)b;
    }
    return n;
}

void sl_vocab_text(const struct sl_vocab *v, int32_t id, struct sl_buf *out)
{
    struct sl_span s = sl_vocab_bytes(v, id);
    uint16_t cp_of[256];
    char c[4];

    if (v->kind[id] & SL_TOK_LITERAL) {
        sl_buf_add(out, s.p, s.len);
        return;
    }
    alphabet(cp_of);
    for (size_t i = 0; i < s.len; i++)
        sl_buf_add(out, c, sl_utf8_put(c, cp_of[(unsigned char)s.p[i]]));
}

/* ---- tokens ---- */

static uint64_t hash_bytes(uint64_t seed, const char *p, size_t len,
                           bool literal)
{
    uint64_t h = seed ^ (literal ? UINT64_MAX : len);

    for (size_t i = 0; i < len; i++) {
        h = (h ^ (unsigned char)p[i]) * seed;
        h ^= h >> 32;
    }
    return h;
}

/* A slot is id + 1 in its low bits and, above them, bits of the hash that the
 * index does not use, so that most wrong tokens are passed without a look. */
#define ID_BITS 21
#define TAG_MASK (UINT32_MAX << ID_BITS)
_Static_assert(SL_VOCAB_MAX_IDS < 1 << ID_BITS, "an id fits beside its tag");

static int32_t slot_id(uint32_t slot)
{
    return (int32_t)(slot & ~TAG_MASK) - 1;
}

static bool is_token(const struct sl_vocab *v, int32_t id, const char *p,
                     size_t len, bool literal)
{
    struct sl_span s = sl_vocab_bytes(v, id);

    return s.len == len && memcmp(s.p, p, len) == 0 &&
           !!(v->kind[id] & SL_TOK_LITERAL) == literal;
}

/* The slot of a token: the one it is in, or the empty one where it belongs.
 * *tag: the bits of its hash. */
static size_t text_slot(const struct sl_vocab *v, const char *p, size_t len,
                        bool literal, uint32_t *tag)
{
    uint64_t h = hash_bytes(v->seed, p, len, literal);
    size_t i = (size_t)h & v->text_mask;

    *tag = (uint32_t)(h >> 32) & TAG_MASK;
    for (; v->by_text[i]; i = (i + 1) & v->text_mask)
        if ((v->by_text[i] & TAG_MASK) == *tag &&
            is_token(v, slot_id(v->by_text[i]), p, len, literal))
            break;
    return i;
}

bool sl_vocab_find(const struct sl_vocab *v, const char *text, size_t len,
                   int32_t *id)
{
    char bytes[SL_VOCAB_MAX_TOKEN];
    bool literal;
    size_t n, i;
    uint32_t tag;

    if (len == 0 || len > sizeof(bytes) || sl_utf8_valid(text, len) != len)
        return false;
    n = to_bytes(bytes, text, len, &literal);
    i = text_slot(v, bytes, n, literal, &tag);
    if (!v->by_text[i])
        return false;
    *id = slot_id(v->by_text[i]);
    return true;
}

static int add_token(struct sl_vocab *v, size_t id, struct sl_span text,
                     uint8_t kind, struct sl_err *err)
{
    char *dst = v->bytes + v->off[id];
    bool literal;
    size_t n, i;
    uint32_t tag;
    int rc;

    if (text.len == 0 || text.len > SL_VOCAB_MAX_TOKEN)
        return sl_fail(err, SL_EFORMAT,
                       "token %zu has %zu bytes and must have 1 to %d", id,
                       text.len, SL_VOCAB_MAX_TOKEN);
    rc = sl_utf8_check(text.p, text.len, "a token", err);
    if (rc)
        return rc;
    n = to_bytes(dst, text.p, text.len, &literal);
    v->off[id + 1] = v->off[id] + (uint32_t)n;
    i = text_slot(v, dst, n, literal, &tag);
    if (v->by_text[i])
        return sl_fail(err, SL_EFORMAT,
                       "the tokens %d and %zu have the same text '%.*s'; this "
                       "vocabulary is damaged",
                       (int)slot_id(v->by_text[i]), id,
                       (int)sl_min(text.len, 80), text.p);
    v->by_text[i] = tag | ((uint32_t)id + 1);
    v->kind[id] =
        (uint8_t)(kind | SL_TOK_EXISTS | (literal ? SL_TOK_LITERAL : 0));
    if (n == 1 && !literal)
        v->byte[(unsigned char)dst[0]] = (int32_t)id;
    return 0;
}

/* Memory for everything: `text_bytes` is a bound of the tokens' bytes. */
static int reserve(struct sl_vocab *v, const struct sl_vocab_spec *spec,
                   size_t text_bytes, struct sl_err *err)
{
    size_t cap = 8, slots = 8;
    int rc;

    while (cap < 2 * spec->n_ids)
        cap *= 2;
    while (slots < 2 * spec->n_merges)
        slots *= 2;
    v->text_mask = cap - 1;
    v->merge_mask = slots - 1;
    rc = sl_mem_alloc(&v->bytes, text_bytes + 1, 1, "a vocabulary", err);
    if (!rc)
        rc = sl_mem_alloc(&v->off, spec->n_ids + 1, sizeof(*v->off),
                          "a vocabulary", err);
    if (!rc)
        rc = sl_mem_alloc(&v->kind, spec->n_ids + 1, 1, "a vocabulary", err);
    if (!rc)
        rc = sl_mem_alloc(&v->by_text, cap, sizeof(*v->by_text), "a vocabulary",
                          err);
    if (!rc)
        rc = sl_mem_alloc(&v->merge, slots, sizeof(*v->merge), "a merge table",
                          err);
    if (!rc)
        memset(v->merge, 0xff, slots * sizeof(*v->merge));
    return rc;
}

static int add_tokens(struct sl_vocab *v, const struct sl_vocab_spec *spec,
                      struct sl_err *err)
{
    int rc = 0;

    v->n_ids = spec->n_ids;
    for (int b = 0; b < 256; b++)
        v->byte[b] = -1;
    for (size_t id = 0; id < spec->n_ids && !rc; id++) {
        v->off[id + 1] = v->off[id];
        if (spec->kind[id])
            rc = add_token(v, id, spec->text[id], spec->kind[id], err);
    }
    return rc;
}

/* ---- merges ---- */

static int merge_bad(struct sl_err *err, size_t rank, struct sl_span a,
                     struct sl_span b, const char *why)
{
    return sl_fail(err, SL_EFORMAT,
                   "merge %zu ('%.*s' with '%.*s') %s; this tokenizer is "
                   "damaged",
                   rank, (int)sl_min(a.len, 80), a.p, (int)sl_min(b.len, 80),
                   b.p, why);
}

/* The token that a and b make together, which is most often the one behind
 * the last that was made: files list both in the order of training. -1 if there
 * is none. */
static int32_t joined(const struct sl_vocab *v, struct sl_span a,
                      struct sl_span b, int32_t last)
{
    char both[2 * SL_VOCAB_MAX_TOKEN];
    size_t len = a.len + b.len, slot;
    uint32_t tag;

    memcpy(both, a.p, a.len);
    memcpy(both + a.len, b.p, b.len);
    if (sl_vocab_has(v, last + 1) && is_token(v, last + 1, both, len, false))
        return last + 1;
    slot = text_slot(v, both, len, false, &tag);
    return v->by_text[slot] ? slot_id(v->by_text[slot]) : -1;
}

/* *last: the token that the merge before this one made. */
static int add_merge(struct sl_vocab *v, size_t rank, struct sl_merge_ids m,
                     int32_t *last, struct sl_err *err)
{
    struct sl_span x = sl_vocab_bytes(v, m.a), y = sl_vocab_bytes(v, m.b);
    uint64_t pair = sl_vocab_pair(m.a, m.b);
    int32_t id;
    size_t i;

    if ((v->kind[m.a] | v->kind[m.b]) & SL_TOK_LITERAL)
        return merge_bad(err, rank, x, y, "is not in the byte alphabet");
    id = joined(v, x, y, *last);
    if (id < 0)
        return merge_bad(err, rank, x, y, "makes no token");
    i = sl_vocab_pair_slot(v, pair);
    while (v->merge[i].pair != UINT64_MAX && v->merge[i].pair != pair)
        i = (i + 1) & v->merge_mask;
    v->merge[i] = (struct sl_merge_slot){pair, (uint32_t)rank, id};
    *last = id;
    return 0;
}

/* The tokens of a rank by id, whichever way the specification has them. */
static int merge_ids(const struct sl_vocab *v, const struct sl_vocab_spec *spec,
                     size_t i, struct sl_merge_ids *m, struct sl_err *err)
{
    if (spec->merge_text) {
        struct sl_span x = spec->merge_text[i].a, y = spec->merge_text[i].b;

        if (sl_vocab_find(v, x.p, x.len, &m->a) &&
            sl_vocab_find(v, y.p, y.len, &m->b))
            return 0;
        return merge_bad(err, i, x, y, "names no token");
    }
    *m = spec->merge_ids[i];
    if (sl_vocab_has(v, m->a) && sl_vocab_has(v, m->b))
        return 0;
    return sl_fail(err, SL_EFORMAT,
                   "merge %zu names the tokens %d and %d, which do not exist; "
                   "this tokenizer is damaged",
                   i, (int)m->a, (int)m->b);
}

static int add_merges(struct sl_vocab *v, const struct sl_vocab_spec *spec,
                      struct sl_err *err)
{
    int32_t last = -1;
    int rc = 0;

    for (size_t i = 0; i < spec->n_merges && !rc; i++) {
        struct sl_merge_ids m;

        rc = merge_ids(v, spec, i, &m, spec->lax ? NULL : err);
        if (!rc)
            rc = add_merge(v, i, m, &last, spec->lax ? NULL : err);
        if (spec->lax)
            rc = 0;
    }
    return rc;
}

static int by_rank(const void *a, const void *b)
{
    const struct sl_merge_slot *x = a, *y = b;

    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

int sl_vocab_merges(struct sl_merge_slot **out, size_t *n,
                    const struct sl_vocab *v, struct sl_err *err)
{
    int rc = sl_mem_alloc(out, v->merge_mask + 1, sizeof(**out), "merges", err);

    *n = 0;
    for (size_t i = 0; !rc && i <= v->merge_mask; i++)
        if (v->merge[i].pair != UINT64_MAX)
            (*out)[(*n)++] = v->merge[i];
    if (!rc)
        qsort(*out, *n, sizeof(**out), by_rank);
    return rc;
}

int sl_vocab_init(struct sl_vocab *v, const struct sl_vocab_spec *spec,
                  struct sl_err *err)
{
    size_t bytes = 0;
    int rc;

    *v = (struct sl_vocab){0};
    if (spec->n_ids == 0 || spec->n_ids > SL_VOCAB_MAX_IDS ||
        spec->n_merges > SL_VOCAB_MAX_MERGES)
        return sl_fail(err, SL_EFORMAT,
                       "a vocabulary of %zu ids and %zu merges is outside of "
                       "1 to %d ids and up to %d merges",
                       spec->n_ids, spec->n_merges, SL_VOCAB_MAX_IDS,
                       SL_VOCAB_MAX_MERGES);
    /* Odd, so that multiplying by it loses nothing. */
    v->seed = (sl_clock_ns() * 0x9e3779b97f4a7c15u ^ (uintptr_t)v) | 1;
    for (size_t i = 0; i < spec->n_ids; i++)
        if (spec->kind[i] && !sl_add_size(&bytes, bytes, spec->text[i].len))
            return sl_fail(err, SL_EFORMAT, "the vocabulary is too large");
    if (bytes > UINT32_MAX / 2)
        return sl_fail(err, SL_EFORMAT,
                       "the vocabulary has %zu bytes of text and may have %u",
                       bytes, UINT32_MAX / 2);
    rc = reserve(v, spec, bytes, err);
    if (!rc)
        rc = add_tokens(v, spec, err);
    if (!rc)
        rc = add_merges(v, spec, err);
    if (rc)
        sl_vocab_deinit(v);
    return rc;
}

void sl_vocab_deinit(struct sl_vocab *v)
{
    sl_mem_free(v->bytes);
    sl_mem_free(v->off);
    sl_mem_free(v->kind);
    sl_mem_free(v->by_text);
    sl_mem_free(v->merge);
    *v = (struct sl_vocab){0};
}
