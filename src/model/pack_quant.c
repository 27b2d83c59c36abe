/* model/pack_quant.c - rows of a file -> quantised groups of eight rows
 *
 * A row of numbers is read in the internal order and quantised by itself. A row
 * of blocks is taken as it is when the type in memory is the same; only when
 * the plan asks for another type it is read as numbers and quantised again.
 * Eight rows are interleaved (kern/quantise.h).
 */
#include "kern/quantise.h"
#include "model/pack.h"

#define G 8 /* rows of a group */

static size_t row_bytes(const struct sl_pack_mat *m)
{
    return sl_dtype_bytes(m->type, m->cols);
}

bool sl_pack_is_blocks(const struct sl_pack_mat *m)
{
    return m->src && sl_dtype_get(m->src_type)->block > 1;
}

size_t sl_pack_scratch(const struct sl_pack_mat *m)
{
    return sl_quant_is(m->type) ? m->cols * sizeof(float) + G * row_bytes(m)
                                : 0;
}

/* --- scales that are not finite --- */

/* Where blocks have their f16 numbers; those that end with one from the end. */
static void halves(enum sl_dtype t, size_t at[2], size_t *n)
{
    size_t last = sl_dtype_get(t)->bytes - 2;

    *n = 1;
    at[0] = at[1] = 0;
    switch (t) {
    case SL_Q6_K:
    case SL_Q3_K:
        at[0] = last;
        break;
    case SL_Q2_K:
        *n = 2;
        at[0] = last - 2;
        at[1] = last;
        break;
    case SL_Q4_K:
    case SL_Q5_K:
    case SL_Q4_1:
    case SL_Q5_1:
        *n = 2;
        at[1] = 2;
        break;
    case SL_MXFP4:
        *n = 0;
        break;
    default:
        break;
    }
}

/* The first block of a row with a scale that is not finite; or NULL. */
static const unsigned char *bad_block(const struct sl_pack_mat *m,
                                      const unsigned char *row)
{
    const struct sl_dtype_info *d = sl_dtype_get(m->src_type);
    size_t at[2], n;

    halves(m->src_type, at, &n);
    for (size_t i = 0; i < m->cols / d->block; i++) {
        const unsigned char *b = row + i * d->bytes;

        for (size_t k = 0; k < n; k++)
            if ((b[at[k] + 1] & 0x7c) == 0x7c)
                return b;
        /* Beyond it 12 units overflow, and the NaN of the format is there. */
        if (m->src_type == SL_MXFP4 && b[0] > 252)
            return b;
    }
    return NULL;
}

const unsigned char *sl_pack_quant_bad(const struct sl_pack_mat *m, size_t g0,
                                       size_t g1)
{
    size_t end = sl_min(g1 * G, m->rows);

    for (size_t r = g0 * G; r < end; r++) {
        const unsigned char *b = bad_block(m, sl_pack_src_row(m, r));

        if (b)
            return b;
    }
    return NULL;
}

/* --- one group --- */

/* The blocks of row `row`, in the file or in `room`. */
static const void *blocks_of(const struct sl_pack_mat *m, size_t row,
                             unsigned char *room, float *x, bool *good)
{
    const unsigned char *src;

    if (sl_pack_is_blocks(m)) {
        src = sl_pack_src_row(m, row);
        *good &= !bad_block(m, src);
        if (m->src_type == m->type)
            return src;
    }
    *good &= sl_pack_row(m, row, x);
    if (m->quick)
        sl_quantise_quick(m->type, room, x, m->cols);
    else
        sl_quantise_row(m->type, room, x, m->importance, m->cols);
    return room;
}

static void quantise_group(const struct sl_pack_mat *m, size_t g, float *x,
                           bool *good)
{
    unsigned char *blocks = (unsigned char *)(x + m->cols);
    unsigned char *dst = (unsigned char *)m->dst + g * G * row_bytes(m);
    const void *rows[G] = {NULL};

    for (size_t i = 0; i < G && g * G + i < m->rows; i++)
        rows[i] = blocks_of(m, g * G + i, blocks + i * row_bytes(m), x, good);
    sl_quant_pack(m->type, dst, rows, m->cols);
}

bool sl_pack_quant_groups(const struct sl_pack_mat *m, size_t g0, size_t g1,
                          void *scratch)
{
    size_t bytes = G * row_bytes(m);
    unsigned char *dst = m->dst;
    bool good = true;

    for (size_t g = g0; g < g1; g++) {
        /* Random weights need not all differ: one group of a run, repeated. */
        if (!m->src && g > g0 && (g + 1) * G <= m->rows)
            memcpy(dst + g * bytes, dst + g0 * bytes, bytes);
        else
            quantise_group(m, g, scratch, &good);
    }
    return good;
}
