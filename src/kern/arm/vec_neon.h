/* kern/arm/vec_neon.h - wide.h on NEON: two registers of four lanes side by side
 *
 * So a register of the templates is a pair, and a group of eight rows is one of
 * them, as with AVX2. Products of bytes take what the includer allows by its
 * flags: dotprod has an instruction, without it products of 16 bits are added in
 * pairs, which is exact too. i8mm has one for two rows by two tokens. All of
 * them take signed numbers.
 */
#ifndef SL_KERN_ARM_VEC_NEON_H
#define SL_KERN_ARM_VEC_NEON_H

#include <arm_neon.h>
#include <string.h>

#include "kern/wide/wide.h"

#define REGS 16
enum { VEC = 8, HALVES = 1, WEIGHTS_SIGNED = 1 };

typedef struct {
    float32x4_t lo, hi;
} vf;
typedef struct {
    int32x4_t lo, hi;
} vi;
typedef struct {
    uint32x4_t lo, hi;
} vm;

SL_INLINE vf set(float x)
{
    return (vf){vdupq_n_f32(x), vdupq_n_f32(x)};
}

SL_INLINE vf vadd(vf a, vf b)
{
    return (vf){vaddq_f32(a.lo, b.lo), vaddq_f32(a.hi, b.hi)};
}

SL_INLINE vf vsub(vf a, vf b)
{
    return (vf){vsubq_f32(a.lo, b.lo), vsubq_f32(a.hi, b.hi)};
}

SL_INLINE vf vmul(vf a, vf b)
{
    return (vf){vmulq_f32(a.lo, b.lo), vmulq_f32(a.hi, b.hi)};
}

SL_INLINE vf vdiv(vf a, vf b)
{
    return (vf){vdivq_f32(a.lo, b.lo), vdivq_f32(a.hi, b.hi)};
}

SL_INLINE vf vfma(vf a, vf b, vf c)
{
    return (vf){vfmaq_f32(c.lo, a.lo, b.lo), vfmaq_f32(c.hi, a.hi, b.hi)};
}

SL_INLINE vf vfnma(vf a, vf b, vf c)
{
    return (vf){vfmsq_f32(c.lo, a.lo, b.lo), vfmsq_f32(c.hi, a.hi, b.hi)};
}

SL_INLINE vf negate(vf x)
{
    return (vf){vnegq_f32(x.lo), vnegq_f32(x.hi)};
}

SL_INLINE vm gt(vf a, vf b)
{
    return (vm){vcgtq_f32(a.lo, b.lo), vcgtq_f32(a.hi, b.hi)};
}

SL_INLINE vm eq(vf a, vf b)
{
    return (vm){vceqq_f32(a.lo, b.lo), vceqq_f32(a.hi, b.hi)};
}

SL_INLINE vf choose(vm m, vf yes, vf no)
{
    return (vf){vbslq_f32(m.lo, yes.lo, no.lo),
                vbslq_f32(m.hi, yes.hi, no.hi)};
}

/* The instruction for it would let a NaN win. */
SL_INLINE vf vmin(vf a, vf b)
{
    return choose(gt(b, a), a, b);
}

SL_INLINE vf vmax(vf a, vf b)
{
    return choose(gt(a, b), a, b);
}

SL_INLINE vm first(size_t n)
{
    static const uint32_t lane[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32x4_t count = vdupq_n_u32((uint32_t)sl_min(n, VEC));

    return (vm){vcltq_u32(vld1q_u32(lane), count),
                vcltq_u32(vld1q_u32(lane + 4), count)};
}

SL_INLINE vi iset(int x)
{
    return (vi){vdupq_n_s32(x), vdupq_n_s32(x)};
}

SL_INLINE vi iadd(vi a, vi b)
{
    return (vi){vaddq_s32(a.lo, b.lo), vaddq_s32(a.hi, b.hi)};
}

SL_INLINE vi isub(vi a, vi b)
{
    return (vi){vsubq_s32(a.lo, b.lo), vsubq_s32(a.hi, b.hi)};
}

SL_INLINE vi iand(vi a, vi b)
{
    return (vi){vandq_s32(a.lo, b.lo), vandq_s32(a.hi, b.hi)};
}

SL_INLINE vi ior(vi a, vi b)
{
    return (vi){vorrq_s32(a.lo, b.lo), vorrq_s32(a.hi, b.hi)};
}

SL_INLINE vi ixor(vi a, vi b)
{
    return (vi){veorq_s32(a.lo, b.lo), veorq_s32(a.hi, b.hi)};
}

/* Shifts by a register: constants become immediates by themselves. */
SL_INLINE vi ishl(vi v, int n)
{
    int32x4_t by = vdupq_n_s32(n);

    return (vi){vshlq_s32(v.lo, by), vshlq_s32(v.hi, by)};
}

SL_INLINE vi isra(vi v, int n)
{
    return ishl(v, -n);
}

SL_INLINE vi ishr(vi v, int n)
{
    int32x4_t by = vdupq_n_s32(-n);

    return (vi){
        vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(v.lo), by)),
        vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(v.hi), by))};
}

SL_INLINE vm igt(vi a, vi b)
{
    return (vm){vcgtq_s32(a.lo, b.lo), vcgtq_s32(a.hi, b.hi)};
}

SL_INLINE vm ieq(vi a, vi b)
{
    return (vm){vceqq_s32(a.lo, b.lo), vceqq_s32(a.hi, b.hi)};
}

SL_INLINE vi bits(vf v)
{
    return (vi){vreinterpretq_s32_f32(v.lo), vreinterpretq_s32_f32(v.hi)};
}

SL_INLINE vf floats(vi v)
{
    return (vf){vreinterpretq_f32_s32(v.lo), vreinterpretq_f32_s32(v.hi)};
}

SL_INLINE vf to_float(vi v)
{
    return (vf){vcvtq_f32_s32(v.lo), vcvtq_f32_s32(v.hi)};
}

SL_INLINE vi to_int(vf v)
{
    return (vi){vcvtnq_s32_f32(v.lo), vcvtnq_s32_f32(v.hi)};
}

SL_INLINE int32x4_t dot4_half(int32x4_t acc, int32x4_t w, int32x4_t a)
{
    int8x16_t x = vreinterpretq_s8_s32(w), y = vreinterpretq_s8_s32(a);
#ifdef __ARM_FEATURE_DOTPROD
    return vdotq_s32(acc, x, y);
#else
    int16x8_t p = vmull_s8(vget_low_s8(x), vget_low_s8(y));
    int16x8_t q = vmull_high_s8(x, y);

    return vaddq_s32(acc, vpaddq_s32(vpaddlq_s16(p), vpaddlq_s16(q)));
#endif
}

SL_INLINE vi dot4(vi acc, vi w, vi a)
{
    return (vi){dot4_half(acc.lo, w.lo, a.lo), dot4_half(acc.hi, w.hi, a.hi)};
}

#ifdef __ARM_FEATURE_MATMUL_INT8
#define HAVE_MM2

/* Columns of a and b next to each other: rows 0 to 3 in z[0], others in z[1]. */
SL_INLINE void zip_columns(vi z[2], vi a, vi b)
{
    z[0] = (vi){vzip1q_s32(a.lo, b.lo), vzip2q_s32(a.lo, b.lo)};
    z[1] = (vi){vzip1q_s32(a.hi, b.hi), vzip2q_s32(a.hi, b.hi)};
}

/* Eight columns of the tokens at q0 and q1. Lanes of the sums: row 0 by both
 * tokens, then row 1, and so on. */
SL_INLINE void mm2(vi c[2], const vi w[2], const int8_t *q0, const int8_t *q1)
{
    int8x16_t q = vcombine_s8(vld1_s8(q0), vld1_s8(q1));

    UNROLL
    for (int i = 0; i < 2; i++) {
        c[i].lo = vmmlaq_s32(c[i].lo, vreinterpretq_s8_s32(w[i].lo), q);
        c[i].hi = vmmlaq_s32(c[i].hi, vreinterpretq_s8_s32(w[i].hi), q);
    }
}

SL_INLINE vi of_token(const vi c[2], size_t t)
{
    if (t == 0)
        return (vi){vuzp1q_s32(c[0].lo, c[0].hi), vuzp1q_s32(c[1].lo, c[1].hi)};
    return (vi){vuzp2q_s32(c[0].lo, c[0].hi), vuzp2q_s32(c[1].lo, c[1].hi)};
}
#endif

/* --- sums and the largest of lanes --- */

SL_INLINE float lowest(vf v)
{
    return vgetq_lane_f32(v.lo, 0);
}

/* The tree over sixteen lanes: lane j += lane j + 8, then 4, 2, 1. */
SL_INLINE float lanes_sum(const vf v[2])
{
    vf s = vadd(v[0], v[1]);
    float32x4_t a = vaddq_f32(s.lo, s.hi);
    float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));

    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}

SL_INLINE float top(vf v)
{
    return vmaxvq_f32(vmaxq_f32(v.lo, v.hi));
}

/* --- loads and stores --- */

SL_INLINE vf load(const float *p)
{
    return (vf){vld1q_f32(p), vld1q_f32(p + 4)};
}

SL_INLINE void store(float *p, vf v)
{
    vst1q_f32(p, v.lo);
    vst1q_f32(p + 4, v.hi);
}

SL_INLINE vf load_n(const float *p, size_t n)
{
    float v[VEC] = {0};

    if (n >= VEC)
        return load(p);
    memcpy(v, p, n * sizeof(*p));
    return load(v);
}

SL_INLINE void store_n(float *p, vf x, size_t n)
{
    float v[VEC];

    if (n >= VEC) {
        store(p, x);
        return;
    }
    store(v, x);
    memcpy(p, v, n * sizeof(*p));
}

SL_INLINE vi spread(const void *p)
{
    int32_t v;

    memcpy(&v, p, sizeof(v));
    return iset(v);
}

SL_INLINE vf load_bf16(const uint16_t *p)
{
    uint16x8_t h = vld1q_u16(p);

    return (vf){
        vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16)),
        vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(h), 16))};
}

SL_INLINE vi widen_s16(int16x8_t v)
{
    return (vi){vmovl_s16(vget_low_s16(v)), vmovl_s16(vget_high_s16(v))};
}

SL_INLINE vf load_i8(const int8_t *p)
{
    return to_float(widen_s16(vmovl_s8(vld1_s8(p))));
}

SL_INLINE vi load_u8(const uint8_t *p)
{
    return widen_s16(vreinterpretq_s16_u16(vmovl_u8(vld1_u8(p))));
}

SL_INLINE vi look_up(const int8_t t[16], vi v)
{
    int8x16_t all = vld1q_s8(t);

    return (vi){vreinterpretq_s32_s8(vqtbl1q_s8(all, vreinterpretq_u8_s32(v.lo))),
                vreinterpretq_s32_s8(vqtbl1q_s8(all, vreinterpretq_u8_s32(v.hi)))};
}

/* --- one group of eight rows --- */

SL_INLINE vf half_floats(uint16x8_t h)
{
    float16x8_t f = vreinterpretq_f16_u16(h);

    return (vf){vcvt_f32_f16(vget_low_f16(f)), vcvt_f32_f16(vget_high_f16(f))};
}

SL_INLINE uint16x8_t load_u16(const void *p)
{
    return vreinterpretq_u16_u8(vld1q_u8(p));
}

SL_INLINE vi pair_bytes(const struct at *a, size_t off)
{
    const uint8_t *p = a->p[0] + off;

    return (vi){vreinterpretq_s32_u8(vld1q_u8(p)),
                vreinterpretq_s32_u8(vld1q_u8(p + 16))};
}

SL_INLINE vf pair_f32(const struct at *a, size_t off)
{
    return floats(pair_bytes(a, off));
}

SL_INLINE vf pair_bf16(const struct at *a, size_t off)
{
    return load_bf16((const uint16_t *)(const void *)(a->p[0] + off));
}

SL_INLINE vf pair_f16(const struct at *a, size_t off)
{
    return half_floats(load_u16(a->p[0] + off));
}

/* See load_fp8 of x86/mul_avx2.c. */
SL_INLINE vf pair_fp8(const struct at *a, size_t off)
{
    int16x8_t b = vmovl_s8(vreinterpret_s8_u8(vld1_u8(a->p[0] + off)));
    uint16x8_t h = vandq_u16(vreinterpretq_u16_s16(vshlq_n_s16(b, 7)),
                             vdupq_n_u16(0xbfff));
    uint16x8_t nan = vandq_u16(vaddq_u16(h, vdupq_n_u16(0x80)),
                               vdupq_n_u16(0x4000));

    return vmul(half_floats(vorrq_u16(h, nan)), set(256));
}

SL_INLINE vi pair_u8(const struct at *a, size_t off)
{
    return load_u8(a->p[0] + off);
}

SL_INLINE vi pair_i16(const struct at *a, size_t off)
{
    return widen_s16(vreinterpretq_s16_u8(vld1q_u8(a->p[0] + off)));
}

SL_INLINE vf pair_set(float a, float b)
{
    (void)b;
    return set(a);
}

/* --- storing bf16 --- */

SL_INLINE uint16x4_t round_bf16(float32x4_t v)
{
    uint32x4_t u = vreinterpretq_u32_f32(v), up = vshrq_n_u32(u, 16);
    uint32x4_t sum = vaddq_u32(vandq_u32(up, vdupq_n_u32(1)),
                               vdupq_n_u32(0x7fff));
    uint32x4_t h = vshrq_n_u32(vaddq_u32(u, sum), 16);

    return vmovn_u32(
        vbslq_u32(vceqq_f32(v, v), h, vorrq_u32(up, vdupq_n_u32(0x40))));
}

SL_INLINE void store_bf16_n(uint16_t *p, vf v, size_t n)
{
    uint16_t h[VEC];

    vst1q_u16(h, vcombine_u16(round_bf16(v.lo), round_bf16(v.hi)));
    memcpy(p, h, sl_min(n, VEC) * sizeof(*h));
}

#endif
