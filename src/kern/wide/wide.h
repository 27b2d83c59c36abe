/* kern/wide/wide.h - what the kernels of all wide instruction sets are made of
 *
 * A kernel whose algorithm does not depend on the instruction set is written
 * once, in a file *_tmpl.h of this folder, on top of a small set of operations
 * on registers of eight or sixteen numbers. An instruction set supplies them in
 * one header, arch/vec_NAME.h, and each of its files includes that header and
 * one template. The operations are one instruction each, or nearly, so nothing
 * is lost; and as every output has one lane, the width cannot be seen in the
 * bits (D2).
 *
 * (AVX2 has no product of bytes that cannot saturate, and is tuned by itself;
 * it has its own files.)
 *
 * What vec_NAME.h defines:
 *
 *   VEC            numbers of one register, 8 or 16
 *   HALVES         VEC / 8
 *   REGS           registers: 16 or 32, for the preprocessor
 *   WEIGHTS_SIGNED 1: dot4 takes signed weights, 0: unsigned ones
 *   vf vi vm       VEC floats, VEC 32-bit integers (or 4 VEC bytes), a mask
 *
 *   set vadd vsub vmul vdiv           (any NaN for any NaN)
 *   vfma(a, b, c)  a * b + c        vfnma(a, b, c)  c - a * b, one rounding
 *   vmin vmax      a < b ? a : b, a > b ? a : b; so b if one is a NaN
 *   negate         the other sign
 *   gt eq          floats to a mask  igt ieq        integers to a mask
 *   choose(m, yes, no)               first(n)       the first n lanes
 *   iset iadd isub iand ior ixor
 *   ishl ishr isra(v, n)             lanes of 32 bits, by a constant
 *   bits floats    the same bits as the other type
 *   to_float to_int                  to_int rounds to nearest even
 *   load store     floats            load_n store_n min(n, VEC) of them, the
 *                                    other lanes are 0 and no byte is touched
 *   load_bf16 load_i8 load_u8        VEC elements; as floats, floats, integers
 *   spread(p)      four bytes in every lane
 *   look_up(t, v)  t[b] for every byte b of v, all below 16
 *   dot4(acc, w, a)  acc + the sum of four products of bytes, exact
 *   top(v)         the largest lane, no NaN among them
 *   lowest(v)      lane 0
 *   lanes_sum(v)   the tree of the contract over 16 / VEC registers
 *   store_bf16_n   min(n, VEC) floats, rounded to nearest even, NaN quiet
 *
 * and the same for groups of eight rows, which lie apart: a register of sixteen
 * takes eight elements from each of two places (struct at), one of eight takes
 * them from the first.
 *
 *   pair_f32 pair_bf16 pair_fp8 pair_f16(at, byte offset)      floats
 *   pair_u8                          eight bytes of each as integers
 *   pair_i16                         eight signed numbers of 16 bits as integers
 *   pair_bytes                       32 bytes of each
 *   pair_set(a, b)                   a for the first eight lanes, b for others
 *
 * With HAVE_MM2 also zip_columns, mm2 and of_token; see arm/vec_neon.h.
 */
#ifndef SL_KERN_WIDE_WIDE_H
#define SL_KERN_WIDE_WIDE_H

#include "base/base.h"
#include "kern/kern.h"
#include "kern/wide/inline.h"

/* Where the groups of a register lie. */
struct at {
    const uint8_t *p[2];
};

/* Fill a part of a table, for one instruction set; see x86/ and arm/. */
#define SL_WIDE_INIT(isa)                                                      \
    void sl_kern_init_mul__##isa(struct sl_kern *k);                           \
    void sl_kern_init_row__##isa(struct sl_kern *k);                           \
    void sl_kern_init_gdn__##isa(struct sl_kern *k);                           \
    void sl_kern_init_attn__##isa(struct sl_kern *k);                          \
    void sl_kern_init_quant_act__##isa(struct sl_kern *k);                     \
    void sl_kern_init_quant_mul__##isa(struct sl_kern *k)

#endif
