/* kern/quant_file.h - blocks of GGUF files that our quantiser does not write
 *
 * What they mean: the same operations in the same order as the reference
 * dequantiser of the gguf package. Kernels take them as they are, in groups.
 *
 *   type    bytes of a block                       value of an element
 *   q4_1    f16 d, f16 m, u8 q[16]                 d * u + m
 *   q5_0    f16 d, u8 h[4], u8 q[16]               d * (u - 16)
 *   q5_1    f16 d, f16 m, u8 h[4], u8 q[16]        d * u + m
 *   q2_k    u8 s[16], u8 q[64], f16 d, f16 dmin    (d * (s & 15)) * u
 *                                                    - dmin * (s >> 4)
 *   q3_k    u8 h[32], u8 q[64], u8 s[12], f16 d    (d * (s - 32)) * (u - 4)
 *   iq4_nl  f16 d, u8 q[16]                        d * t[u]
 *   iq4_xs  f16 d, u16 sh, u8 sl[4], u8 q[128]     (d * (s - 32)) * t[u]
 *   mxfp4   u8 e, u8 q[16]                         2^(e - 128) * t[u]
 *
 * Pure functions of plain pointers without alignment.
 */
#ifndef SL_KERN_QUANT_FILE_H
#define SL_KERN_QUANT_FILE_H

#include "base/base.h"
#include "base/dtype.h"

bool sl_quant_file_is(enum sl_dtype t);

/* Blocks -> what they mean; n is a multiple of the block. */
void sl_quant_file_row(enum sl_dtype t, float *y, const void *src, size_t n);

#endif
