/* kern/quantise.h - numbers -> blocks -> groups, and back
 *
 * Each block by itself, with the scales that lose least in a sum of squares, in
 * which the K types of four and five bits count large elements for more. Pure
 * functions of plain pointers; the same input gives the same bytes everywhere.
 * For loading, converting and tests; not part of the token path.
 *
 * Types are the quantised ones (sl_quant_is). Sources and destinations need no
 * alignment. Values must be finite: others give some legal block.
 */
#ifndef SL_KERN_QUANTISE_H
#define SL_KERN_QUANTISE_H

#include "base/base.h"
#include "base/dtype.h"

/* Raised by a commit that changes which blocks numbers become, so that weights
 * which were quantised before and kept are not taken for these. */
#define SL_QUANTISER 1

/* Is it made of quantised blocks: a type of kern/quant.h? */
bool sl_quant_is(enum sl_dtype t);

/* A row of n values -> blocks of q8_0, q6_k, q5_k, q4_k, q4_0, bfp8 or bfp4; n is
 * a multiple of the block. w: how much the
 * error of each column counts, >= 0 (kern/quant_fit.h); NULL: all alike. */
void sl_quantise_row(enum sl_dtype t, void *dst, const float *x, const float *w,
                     size_t n);

/* For weights of which less depends: q4_0 without a search for its scale, five
 * times as fast; other types the same, all columns alike. */
void sl_quantise_quick(enum sl_dtype t, void *dst, const float *x, size_t n);

/* Blocks -> what they mean; the same operations as the kernel table's row[]. */
void sl_dequantise_row(enum sl_dtype t, float *y, const void *src, size_t n);

/* Eight rows of blocks -> one group of kern/quant.h, of 8 *
 * sl_dtype_bytes(t, cols) bytes. rows[i] = NULL: zeros. cols is a multiple of
 * 32, and of the block. */
void sl_quant_pack(enum sl_dtype t, void *group, const void *const rows[8],
                   size_t cols);

/* Row r < 8 of a group -> its blocks, the bytes that were packed. */
void sl_quant_unpack(enum sl_dtype t, void *row, const void *group, size_t r,
                     size_t cols);

#endif
