/* text/vocab.h - the tokens of a model, and which pairs of them merge
 *
 * In files a token is text in the byte-level alphabet: one character stands
 * for one byte (GPT-2, Radford et al. 2019). In memory it is the bytes. A
 * token with a character outside of the alphabet (only added ones have that)
 * is `literal`: its bytes are its text.
 *
 * Read-only after init; any number of threads.
 */
#ifndef SL_TEXT_VOCAB_H
#define SL_TEXT_VOCAB_H

#include "base/buf.h"

/* Ids are below this. The largest vocabularies have a quarter of it. */
#define SL_VOCAB_MAX_IDS (1 << 20)
#define SL_VOCAB_MAX_MERGES (1 << 21)
/* Bytes of one token. The longest real one has 256. */
#define SL_VOCAB_MAX_TOKEN 4096

/* What a token is; a set. 0: no token has this id. */
enum sl_tok {
    SL_TOK_EXISTS = 1,
    SL_TOK_ADDED = 2,      /* found in text before anything else */
    SL_TOK_SPECIAL = 4,    /* left out of decoded text on request */
    SL_TOK_NORMALIZED = 8, /* added, and found in normalised text */
    SL_TOK_LITERAL = 16,   /* set by init */
};

/* Borrowed bytes. */
struct sl_span {
    const char *p;
    size_t len;
};

/* One rank of the merge list: two tokens by text, as in files. */
struct sl_merge_text {
    struct sl_span a, b;
};

/* One rank of the merge list: two tokens by id, as in packed files. */
struct sl_merge_ids {
    int32_t a, b;
};

/* All that makes a vocabulary. Everything is borrowed for the call. */
struct sl_vocab_spec {
    size_t n_ids;
    const struct sl_span *text; /* [n_ids] in the byte-level alphabet */
    const uint8_t *kind;        /* [n_ids] of enum sl_tok */
    size_t n_merges;
    const struct sl_merge_text *merge_text; /* [n_merges], or NULL and ... */
    const struct sl_merge_ids *merge_ids;   /* [n_merges] */
    bool lax; /* leave out merges of or to what is no token */
};

struct sl_merge_slot {
    uint64_t pair; /* left id << 32 | right id; all ones: empty */
    uint32_t rank;
    int32_t id; /* what the pair becomes */
};

struct sl_vocab {
    size_t n_ids;
    char *bytes;       /* of all tokens, one behind the other */
    uint32_t *off;     /* [n_ids + 1] into bytes */
    uint8_t *kind;     /* [n_ids] */
    uint32_t *by_text; /* [text_mask + 1] see vocab.c; 0: empty */
    size_t text_mask;
    struct sl_merge_slot *merge; /* [merge_mask + 1] */
    size_t merge_mask;
    uint64_t seed;     /* of both tables */
    int32_t byte[256]; /* the token of a single byte; -1: none */
};

/* SL_EFORMAT when two ids have one text, or a merge names no token, or makes
 * none. */
int sl_vocab_init(struct sl_vocab *v, const struct sl_vocab_spec *spec,
                  struct sl_err *err);
void sl_vocab_deinit(struct sl_vocab *v);

static inline bool sl_vocab_has(const struct sl_vocab *v, int32_t id)
{
    return id >= 0 && (size_t)id < v->n_ids && v->kind[id];
}

/* The bytes of a token that exists. */
static inline struct sl_span sl_vocab_bytes(const struct sl_vocab *v,
                                            int32_t id)
{
    return (struct sl_span){v->bytes + v->off[id], v->off[id + 1] - v->off[id]};
}

/* Find a token by its text in the byte-level alphabet. */
bool sl_vocab_find(const struct sl_vocab *v, const char *text, size_t len,
                   int32_t *id);

/* The merges that count, by rank: of a pair that was listed twice the last. The
 * caller ends *out with sl_mem_free. */
int sl_vocab_merges(struct sl_merge_slot **out, size_t *n,
                    const struct sl_vocab *v, struct sl_err *err);

/* Append the text of a token, as files write it. */
void sl_vocab_text(const struct sl_vocab *v, int32_t id, struct sl_buf *out);

static inline uint64_t sl_vocab_pair(int32_t a, int32_t b)
{
    return (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
}

/* Where a pair is in `merge`, or behind it. */
static inline size_t sl_vocab_pair_slot(const struct sl_vocab *v, uint64_t pair)
{
    return (size_t)((pair ^ pair >> 29) * v->seed >> 32) & v->merge_mask;
}

/* What a pair becomes; NULL when it does not merge. */
static inline const struct sl_merge_slot *
sl_vocab_merge(const struct sl_vocab *v, int32_t a, int32_t b)
{
    uint64_t pair = sl_vocab_pair(a, b);
    size_t i = sl_vocab_pair_slot(v, pair);

    while (v->merge[i].pair != pair) {
        if (v->merge[i].pair == UINT64_MAX)
            return NULL;
        i = (i + 1) & v->merge_mask;
    }
    return &v->merge[i];
}

#endif
