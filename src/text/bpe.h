/* text/bpe.h - merging the bytes of one piece into tokens */
#ifndef SL_TEXT_BPE_H
#define SL_TEXT_BPE_H

#include "text/vocab.h"

struct sl_bpe_sym {
    int32_t id;
    int32_t prev, next; /* index; -1: none */
    bool merged;        /* part of an earlier symbol now */
};

struct sl_bpe_cand {
    uint64_t key; /* rank << 32 | index of the left symbol */
    int32_t id;   /* what the pair becomes */
};

/* Work space of one caller; zero is an empty one. */
struct sl_bpe {
    struct sl_bpe_sym *sym;   /* [cap] */
    struct sl_bpe_cand *heap; /* [3 * cap] */
    size_t cap, n_heap;
};

void sl_bpe_deinit(struct sl_bpe *w);

/* Write the tokens of a piece to out [len] and count them in *n. Every single
 * byte has a token in `v`. */
int sl_bpe_merge(struct sl_bpe *w, const struct sl_vocab *v, const char *piece,
                 size_t len, int32_t *out, size_t *n, struct sl_err *err);

#endif
