/* ops/attend.h - grouped-query attention over pages
 *
 * Rows of a step attend to everything before them in their sequence and to
 * themselves; keys and values of the whole step are in their pages first, each
 * rounded to its stored type, so that a position is the same whether it was
 * written in this step or long ago (D2).
 */
#ifndef SL_OPS_ATTEND_H
#define SL_OPS_ATTEND_H

#include "ops/run.h"

/* One sequence's part of a step, or of a drafter's pass. Rows row0 .. row0 + n_row - 1 have positions
 * pos0, pos0 + 1, ... */
struct sl_attend_seq {
    uint32_t row0, n_row;
    uint64_t pos0;
    uint64_t first; /* positions before it are not seen */
    const uint32_t *page; /* page numbers; page[pos / 64] holds pos */
};

struct sl_attend {
    uint32_t n_head, n_kv_head, head_dim, rot_dim;
    float eps;
    const float *q_norm, *k_norm; /* [head_dim], 1 + weight */
    const float *inv_freq;        /* [rot_dim / 2] */
    enum sl_dtype kv_type;        /* F32 or BF16 */
    /* Page p of KV head h: keys at base + p * page_bytes + h * head_bytes, and
     * the values head_bytes / 2 behind them. */
    unsigned char *base;
    size_t page_bytes, head_bytes;

    /* Drafters: a position sees the last `window` ones, itself among them; 0:
     * all. In a block every row sees the others behind it, too. */
    uint32_t window;
    bool is_block;

    size_t n_row;
    bool no_gate;
    bool has_keys; /* they are in the pages: k and v are not read */
    float *qg; /* [n_row][n_head][query, gate: head_dim each], or no_gate and
                  [n_row][n_head][query] */
    float *k;  /* [n_row][n_kv_head * head_dim]; normed and rotated in place */
    const float *v; /* [n_row][n_kv_head * head_dim] */
    const struct sl_attend_seq *seq;
    size_t n_seq;
    const uint32_t *seq_of_row; /* [n_row] */

    float *out; /* [n_row][n_head * head_dim], gated if there is a gate */

    /* Work space. */
    float *q;   /* [n_kv_head][n_row][n_head / n_kv_head][head_dim] */
    float *acc; /* the same shape: running output */
    float *ml;  /* [n_kv_head][n_row][n_head / n_kv_head][2]: m, l */
    float *part; /* [max_part] blocks' results, see sl_attend_part_floats */
    size_t max_part;
    float *scratch; /* [n_thread][SL_ATTEND_ROWS * group][256] */
};

/* Rows of one sequence that share a pass over its keys. */
#define SL_ATTEND_ROWS 16

/* Floats of one block's result. */
static inline size_t sl_attend_part_floats(uint32_t group, uint32_t head_dim)
{
    return (size_t)SL_ATTEND_ROWS * group * ((size_t)head_dim + 2);
}

/* Only put keys and values of the rows into their pages; queries, outputs and
 * work space are not looked at. */
void sl_attend_put(const struct sl_run *r, const struct sl_attend *a);

void sl_attend_run(const struct sl_run *r, const struct sl_attend *a);

#endif
