/* tests/golden/gold.h - reads the .gold vectors of make_models.py
 *
 * A .gold file is what the reference computed for one small checkpoint: a
 * list of records, each some rows of fp32 for one sequence of token ids. The
 * format is a table in README.md. A whole file is loaded at once (the largest
 * is below 200 KB); the records borrow from it until gold_close.
 *
 *     struct gold g;
 *     if (gold_open(&g, "tests/golden/vectors/dense-r2.gold", why, sizeof why))
 *         fail(why);
 *     for (size_t i = 0; i < g.n_rec; i++)
 *         if (g.rec[i].kind == GOLD_LOGITS)
 *             compare(&g.rec[i]);
 *     gold_close(&g);
 *
 * No thread of its own, no state outside the struct.
 */
#ifndef GOLD_H
#define GOLD_H

#include <stddef.h>
#include <stdint.h>

/* What a record's rows are; what `pos` counts depends on it. */
enum gold_kind {
    GOLD_LOGITS = 1,    /* logits of a prompt; pos is the row's position */
    GOLD_DECODE = 2,    /* the same, fed token by token after a prompt */
    GOLD_RESIDUAL = 3,  /* last token's residual after layer `pos` */
    GOLD_HIDDEN = 4,    /* after the final norm; pos is the row's position */
    GOLD_MTP = 5,       /* chained MTP logits; pos is the depth, 1 first */
    GOLD_MTP_PRIME = 6, /* MTP logits over a prompt; pos is the MTP row */
};

struct gold_rec {
    enum gold_kind kind;
    uint32_t n_tok, n_row, n_col;
    const int32_t *tok;   /* [n_tok] */
    const uint32_t *pos;  /* [n_row] */
    const float *data;    /* [n_row, n_col] */
};

struct gold {
    size_t n_rec;
    struct gold_rec *rec; /* [n_rec] */
    unsigned char *bytes; /* the file; the records point into it */
};

/* Load and check a whole file. 0, or -1 with the reason in `why`; then *g is
 * empty and needs no gold_close. */
int gold_open(struct gold *g, const char *path, char *why, size_t why_bytes);

/* Release everything; *g is empty afterwards, and may be empty before. */
void gold_close(struct gold *g);

/* The first record of a kind with a prompt of n_tok tokens, or NULL. */
const struct gold_rec *gold_find(const struct gold *g, enum gold_kind kind,
                                 uint32_t n_tok);

#endif
