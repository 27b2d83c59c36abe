/* model/pack_quant.c - rows of a file -> quantised groups of eight rows
 *
 * Each row is read as numbers in the internal order, quantised by itself, and
 * eight of them are interleaved (kern/quantise.h).
 */
#include "kern/quantise.h"
#include "model/pack.h"

#define G 8 /* rows of a group */

static size_t row_bytes(const struct sl_pack_mat *m)
{
    return sl_dtype_bytes(m->type, m->cols);
}

size_t sl_pack_scratch(const struct sl_pack_mat *m)
{
    return sl_quant_is(m->type) ? m->cols * sizeof(float) + G * row_bytes(m)
                                : 0;
}

static void quantise_group(const struct sl_pack_mat *m, size_t g, float *x,
                           bool *good)
{
    unsigned char *blocks = (unsigned char *)(x + m->cols);
    unsigned char *dst = (unsigned char *)m->dst + g * G * row_bytes(m);
    const void *rows[G] = {NULL};

    for (size_t i = 0; i < G && g * G + i < m->rows; i++) {
        *good &= sl_pack_row(m, g * G + i, x);
        sl_quantise_row(m->type, blocks + i * row_bytes(m), x, m->cols);
        rows[i] = blocks + i * row_bytes(m);
    }
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
