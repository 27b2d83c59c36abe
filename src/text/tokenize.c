/* text/tokenize.c - text to token ids
 *
 * The way of a text, in the order of the reference:
 *
 *   text -> added tokens, found in the raw text         (added.c)
 *     between them -> NFC                               (nfc.c)
 *       -> added tokens that are marked "normalized"    (added.c)
 *         between them -> pieces                        (pretoken.c)
 *           -> bytes -> merges -> ids                   (bpe.c, vocab.c)
 *
 * Every stage takes time linear in its input (merging: n log n), whatever the
 * input is. A piece of at most 26 bytes is remembered with its ids in a table
 * of the encoder, in which a new word simply replaces the old one: in English
 * 19 of 20 words are found there.
 *
 * The tokenizer is never written after open. Encoders belong to one thread.
 */
#include "text/tokenize.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/added.h"
#include "text/bpe.h"
#include "text/nfc.h"
#include "text/pretoken.h"
#include "text/unidata.h"

/* An entry of the word table is one cache line. */
#define WORD_BYTES 26
#define WORD_IDS 9
#if SL_SMALL
#define N_WORDS 4
#define KEEP_BYTES 23
#define FIRST_IDS 2
#else
#define N_WORDS 8192 /* 512 KiB per encoder; chosen, not measured */
/* Work space for a longer piece is given back after the call. */
#define KEEP_BYTES 65536
#define FIRST_IDS 64
#endif

struct sl_tokenizer {
    struct sl_vocab vocab;
    uint8_t *bits; /* [SL_UNI_MAX], see unidata.h */
    struct sl_pretoken pretoken;
    struct sl_added raw, normalized;
    char *pattern;
    size_t n_pattern;
    bool nfc;
    int32_t eos, pad, bos; /* -1: none */
};

struct word {
    char key[WORD_BYTES]; /* zeros behind len */
    uint8_t len;          /* 0: free */
    uint8_t n;
    int32_t id[WORD_IDS];
};
_Static_assert(sizeof(struct word) == 64, "a word is one cache line");

struct sl_encoder {
    const struct sl_tokenizer *t; /* borrowed until close */
    struct sl_pretoken_walk walk;
    struct sl_nfc nfc;
    struct sl_bpe bpe;
    struct word *words; /* [N_WORDS] */
};

/* ---- the tokenizer ---- */

static int check_bytes(const struct sl_vocab *v, struct sl_err *err)
{
    for (int b = 0; b < 256; b++)
        if (v->byte[b] < 0)
            return sl_fail(err, SL_EUNSUP,
                           "the vocabulary has no token for the byte 0x%02x; "
                           "only byte-level vocabularies are supported",
                           (unsigned)b);
    return 0;
}

static int check_id(const struct sl_vocab *v, int32_t id, const char *what,
                    struct sl_err *err)
{
    if (id == -1 || sl_vocab_has(v, id))
        return 0;
    return sl_fail(err, SL_EFORMAT,
                   "the %s token is %d, which is not in the vocabulary", what,
                   (int)id);
}

static int fill(struct sl_tokenizer *t, const struct sl_tokenizer_spec *spec,
                struct sl_err *err)
{
    int rc = sl_vocab_init(&t->vocab, &spec->vocab, err);

    if (!rc)
        rc = check_bytes(&t->vocab, err);
    if (!rc)
        rc = sl_mem_alloc(&t->bits, SL_UNI_MAX, 1, "character classes", err);
    if (rc)
        return rc;
    sl_unidata_fill(t->bits);
    rc = sl_pretoken_init(&t->pretoken, spec->pattern.p, spec->pattern.len,
                          t->bits, false, err);
    if (!rc)
        rc = sl_added_init(&t->raw, &t->vocab, false, NULL, err);
    if (!rc)
        rc = sl_added_init(&t->normalized, &t->vocab, true,
                           spec->nfc ? t->bits : NULL, err);
    if (!rc)
        rc = sl_mem_dup(&t->pattern, spec->pattern.p, spec->pattern.len, err);
    t->n_pattern = spec->pattern.len;
    t->nfc = spec->nfc;
    t->eos = spec->eos;
    t->pad = spec->pad;
    t->bos = spec->bos;
    if (!rc)
        rc = check_id(&t->vocab, t->eos, "end", err);
    if (!rc)
        rc = check_id(&t->vocab, t->pad, "padding", err);
    if (!rc)
        rc = check_id(&t->vocab, t->bos, "start", err);
    return rc;
}

int sl_tokenizer_open(struct sl_tokenizer **out,
                      const struct sl_tokenizer_spec *spec, struct sl_err *err)
{
    struct sl_tokenizer *t;
    int rc = sl_mem_alloc(&t, 1, sizeof(*t), "a tokenizer", err);

    if (rc)
        return rc;
    rc = fill(t, spec, err);
    if (rc)
        sl_tokenizer_close(&t);
    else
        *out = t;
    return rc;
}

void sl_tokenizer_close(struct sl_tokenizer **t)
{
    if (!*t)
        return;
    sl_vocab_deinit(&(*t)->vocab);
    sl_pretoken_deinit(&(*t)->pretoken);
    sl_added_deinit(&(*t)->raw);
    sl_added_deinit(&(*t)->normalized);
    sl_mem_free((*t)->bits);
    sl_mem_free((*t)->pattern);
    sl_mem_free(*t);
    *t = NULL;
}

size_t sl_tokenizer_n_ids(const struct sl_tokenizer *t)
{
    return t->vocab.n_ids;
}

bool sl_tokenizer_has(const struct sl_tokenizer *t, int32_t id)
{
    return sl_vocab_has(&t->vocab, id);
}

struct sl_span sl_tokenizer_bytes(const struct sl_tokenizer *t, int32_t id)
{
    if (!sl_vocab_has(&t->vocab, id))
        return (struct sl_span){0};
    return sl_vocab_bytes(&t->vocab, id);
}

void sl_tokenizer_text(const struct sl_tokenizer *t, int32_t id,
                       struct sl_buf *out)
{
    SL_ASSERT(sl_vocab_has(&t->vocab, id));
    sl_vocab_text(&t->vocab, id, out);
}

struct sl_span sl_tokenizer_pattern(const struct sl_tokenizer *t)
{
    return (struct sl_span){t->pattern, t->n_pattern};
}

bool sl_tokenizer_nfc(const struct sl_tokenizer *t)
{
    return t->nfc;
}

unsigned sl_tokenizer_kind(const struct sl_tokenizer *t, int32_t id)
{
    return sl_vocab_has(&t->vocab, id) ? t->vocab.kind[id] : 0;
}

int sl_tokenizer_merges(struct sl_merge_slot **out, size_t *n,
                        const struct sl_tokenizer *t, struct sl_err *err)
{
    return sl_vocab_merges(out, n, &t->vocab, err);
}

bool sl_tokenizer_find(const struct sl_tokenizer *t, const char *text,
                       size_t len, int32_t *id)
{
    return sl_vocab_find(&t->vocab, text, len, id);
}

bool sl_tokenizer_is_special(const struct sl_tokenizer *t, int32_t id)
{
    return sl_vocab_has(&t->vocab, id) && t->vocab.kind[id] & SL_TOK_SPECIAL;
}

bool sl_tokenizer_is_added(const struct sl_tokenizer *t, int32_t id)
{
    return sl_vocab_has(&t->vocab, id) && t->vocab.kind[id] & SL_TOK_ADDED;
}

static bool named(int32_t have, int32_t *id)
{
    if (have < 0)
        return false;
    *id = have;
    return true;
}

bool sl_tokenizer_eos(const struct sl_tokenizer *t, int32_t *id)
{
    return named(t->eos, id);
}

bool sl_tokenizer_pad(const struct sl_tokenizer *t, int32_t *id)
{
    return named(t->pad, id);
}

bool sl_tokenizer_bos(const struct sl_tokenizer *t, int32_t *id)
{
    return named(t->bos, id);
}

/* ---- lists of ids ---- */

void sl_ids_init(struct sl_ids *ids, size_t max)
{
    *ids = (struct sl_ids){.max = max};
}

void sl_ids_deinit(struct sl_ids *ids)
{
    sl_mem_free(ids->p);
    *ids = (struct sl_ids){0};
}

/* Room for `more` ids, which may be above the ceiling: a piece is merged in
 * place and has fewer ids than bytes. */
static int reserve(struct sl_ids *ids, size_t more, struct sl_err *err)
{
    size_t cap = sl_max(FIRST_IDS, ids->cap);
    int rc;

    if (ids->cap - ids->len >= more)
        return 0;
    while (cap - ids->len < more)
        cap *= 2;
    rc = sl_mem_resize(&ids->p, cap, sizeof(*ids->p), "token ids", err);
    if (!rc)
        ids->cap = cap;
    return rc;
}

static int check_max(const struct sl_ids *ids, size_t more, struct sl_err *err)
{
    if (ids->len <= ids->max && more <= ids->max - ids->len)
        return 0;
    return sl_fail(err, SL_EARG,
                   "the text has more than %zu tokens; send shorter text",
                   ids->max);
}

int sl_ids_push(struct sl_ids *ids, int32_t id, struct sl_err *err)
{
    int rc = check_max(ids, 1, err);

    if (!rc)
        rc = reserve(ids, 1, err);
    if (!rc)
        ids->p[ids->len++] = id;
    return rc;
}

/* ---- encoding ---- */

int sl_encoder_open(struct sl_encoder **out, const struct sl_tokenizer *t,
                    struct sl_err *err)
{
    struct sl_encoder *e;
    int rc = sl_mem_alloc(&e, 1, sizeof(*e), "an encoder", err);

    if (rc)
        return rc;
    e->t = t;
    sl_nfc_init(&e->nfc);
    rc = sl_pretoken_walk_init(&e->walk, &t->pretoken, err);
    if (!rc)
        rc = sl_mem_alloc(&e->words, N_WORDS, sizeof(*e->words), "an encoder",
                          err);
    if (rc)
        sl_encoder_close(&e);
    else
        *out = e;
    return rc;
}

void sl_encoder_close(struct sl_encoder **e)
{
    if (!*e)
        return;
    sl_pretoken_walk_deinit(&(*e)->walk);
    sl_nfc_deinit(&(*e)->nfc);
    sl_bpe_deinit(&(*e)->bpe);
    sl_mem_free((*e)->words);
    sl_mem_free(*e);
    *e = NULL;
}

/* The slot of a short piece; *key becomes the piece with zeros behind. The
 * table loses a word when two meet, so nobody gains by making them meet. */
static struct word *word_slot(struct sl_encoder *e, const char *s, size_t len,
                              char key[32])
{
    uint64_t h = len, x;

    memset(key, 0, 32);
    memcpy(key, s, len);
    for (size_t i = 0; i < 32; i += sizeof(x)) {
        memcpy(&x, key + i, sizeof(x));
        h = (h ^ x) * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio, odd */
        h ^= h >> 29;
    }
    return &e->words[h & (N_WORDS - 1)];
}

/* Merge a piece straight into the list. */
static int merge(struct sl_encoder *e, const char *s, size_t len,
                 struct sl_ids *ids, struct sl_err *err)
{
    size_t n;
    int rc = reserve(ids, len, err);

    if (!rc)
        rc = sl_bpe_merge(&e->bpe, &e->t->vocab, s, len, ids->p + ids->len, &n,
                          err);
    if (!rc)
        rc = check_max(ids, n, err);
    if (!rc)
        ids->len += n;
    return rc;
}

static int encode_piece(struct sl_encoder *e, const char *s, size_t len,
                        struct sl_ids *ids, struct sl_err *err)
{
    size_t from = ids->len;
    char key[32];
    struct word *w;
    int rc;

    if (len > WORD_BYTES)
        return merge(e, s, len, ids, err);
    w = word_slot(e, s, len, key);
    if (w->len == len && memcmp(w->key, key, WORD_BYTES) == 0) {
        rc = check_max(ids, w->n, err);
        if (!rc)
            rc = reserve(ids, w->n, err);
        if (!rc) {
            memcpy(ids->p + from, w->id, w->n * sizeof(*w->id));
            ids->len += w->n;
        }
        return rc;
    }
    rc = merge(e, s, len, ids, err);
    if (!rc && ids->len - from <= WORD_IDS) {
        memcpy(w->key, key, WORD_BYTES);
        w->len = (uint8_t)len;
        w->n = (uint8_t)(ids->len - from);
        memcpy(w->id, ids->p + from, w->n * sizeof(*w->id));
    }
    return rc;
}

/* Text without added tokens, normalised. */
static int encode_pieces(struct sl_encoder *e, const char *s, size_t len,
                         struct sl_ids *ids, struct sl_err *err)
{
    size_t at = 0, end;
    int rc = 0;

    sl_pretoken_walk_reset(&e->walk);
    while (at < len && !rc) {
        rc = sl_pretoken_next(&e->walk, s, len, at, &end, err);
        if (!rc)
            rc = encode_piece(e, s + at, end - at, ids, err);
        if (!rc)
            at = end;
    }
    return rc;
}

/* Text that is cut at the tokens of `added` (NULL: nowhere); what lies between
 * them goes on to `rest`. */
typedef int encode_fn(struct sl_encoder *e, const char *s, size_t len,
                      bool parse_special, struct sl_ids *ids,
                      struct sl_err *err);

static int cut(struct sl_encoder *e, const struct sl_added *added,
               encode_fn *rest, const char *s, size_t len, struct sl_ids *ids,
               struct sl_err *err)
{
    size_t from = 0, at, end;
    int32_t id;
    int rc = 0;

    while (!rc && sl_added_next(added, s, len, from, &at, &end, &id)) {
        rc = rest(e, s + from, at - from, true, ids, err);
        if (!rc)
            rc = sl_ids_push(ids, id, err);
        from = end;
    }
    return rc ? rc : rest(e, s + from, len - from, true, ids, err);
}

static int pieces_fn(struct sl_encoder *e, const char *s, size_t len,
                     bool parse_special, struct sl_ids *ids, struct sl_err *err)
{
    (void)parse_special;
    return encode_pieces(e, s, len, ids, err);
}

static int encode_raw(struct sl_encoder *e, const char *s, size_t len,
                      bool parse_special, struct sl_ids *ids,
                      struct sl_err *err)
{
    int rc = 0;

    if (len == 0)
        return 0;
    if (e->t->nfc)
        rc = sl_nfc_run(&e->nfc, e->t->bits, s, len, &s, &len, err);
    if (rc)
        return rc;
    if (parse_special)
        return cut(e, &e->t->normalized, pieces_fn, s, len, ids, err);
    return encode_pieces(e, s, len, ids, err);
}

/* One long piece must not keep its memory in every text thread for ever. */
static void trim(struct sl_encoder *e)
{
    if (e->bpe.cap > KEEP_BYTES)
        sl_bpe_deinit(&e->bpe);
    if (e->nfc.cap > KEEP_BYTES || e->nfc.out.cap > KEEP_BYTES) {
        sl_nfc_deinit(&e->nfc);
        sl_nfc_init(&e->nfc);
    }
}

int sl_tokenize_encode(struct sl_encoder *e, const char *s, size_t len,
                       bool parse_special, struct sl_ids *ids,
                       struct sl_err *err)
{
    size_t before = ids->len;
    int rc;

    if (len > SL_TOKENIZE_MAX_TEXT)
        return sl_fail(err, SL_EARG,
                       "the text has %zu bytes and may have %zu; send shorter "
                       "text",
                       len, SL_TOKENIZE_MAX_TEXT);
    rc = sl_utf8_check(s, len, "the text", err);
    if (rc)
        return rc;
    if (parse_special)
        rc = cut(e, &e->t->raw, encode_raw, s, len, ids, err);
    else
        rc = encode_raw(e, s, len, false, ids, err);
    if (rc)
        ids->len = before;
    trim(e);
    return rc;
}
