/* kern/x86/vec_avx512.h - wide.h on AVX-512 F, BW, VL and VNNI */
#ifndef SL_KERN_X86_VEC_AVX512_H
#define SL_KERN_X86_VEC_AVX512_H

#include <immintrin.h>

#include "kern/wide/wide.h"

#define REGS 32
enum { VEC = 16, HALVES = 2, WEIGHTS_SIGNED = 0 };

#define ISA(x) x##__avx512

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

/* --- arithmetic --- */

SL_INLINE vf set(float x)
{
    return _mm512_set1_ps(x);
}

SL_INLINE vf vadd(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

SL_INLINE vf vsub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

SL_INLINE vf vmul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

SL_INLINE vf vdiv(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

SL_INLINE vf vfma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

SL_INLINE vf vfnma(vf a, vf b, vf c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

SL_INLINE vf vmin(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

SL_INLINE vf vmax(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

SL_INLINE vm gt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

SL_INLINE vm eq(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}

SL_INLINE vf choose(vm m, vf yes, vf no)
{
    return _mm512_mask_mov_ps(no, m, yes);
}

SL_INLINE vm first(size_t n)
{
    return (vm)(n >= VEC ? 0xffff : (1u << n) - 1);
}

SL_INLINE vi iset(int x)
{
    return _mm512_set1_epi32(x);
}

SL_INLINE vi iadd(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}

SL_INLINE vi isub(vi a, vi b)
{
    return _mm512_sub_epi32(a, b);
}

SL_INLINE vi iand(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}

SL_INLINE vi ior(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}

SL_INLINE vi ixor(vi a, vi b)
{
    return _mm512_xor_si512(a, b);
}

SL_INLINE vi ishl(vi v, int n)
{
    return _mm512_slli_epi32(v, (unsigned)n);
}

SL_INLINE vi ishr(vi v, int n)
{
    return _mm512_srli_epi32(v, (unsigned)n);
}

SL_INLINE vi isra(vi v, int n)
{
    return _mm512_srai_epi32(v, (unsigned)n);
}

SL_INLINE vm igt(vi a, vi b)
{
    return _mm512_cmpgt_epi32_mask(a, b);
}

SL_INLINE vm ieq(vi a, vi b)
{
    return _mm512_cmpeq_epi32_mask(a, b);
}

SL_INLINE vi bits(vf v)
{
    return _mm512_castps_si512(v);
}

SL_INLINE vf floats(vi v)
{
    return _mm512_castsi512_ps(v);
}

SL_INLINE vf negate(vf x)
{
    return floats(ixor(bits(x), iset(INT32_MIN)));
}

SL_INLINE vf to_float(vi v)
{
    return _mm512_cvtepi32_ps(v);
}

SL_INLINE vi look_up(const int8_t t[16], vi v)
{
    __m128i all = _mm_loadu_si128((const __m128i *)(const void *)t);

    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(all), v);
}

SL_INLINE vi dot4(vi acc, vi w, vi a)
{
    return _mm512_dpbusd_epi32(acc, w, a);
}

/* --- sums and the largest of lanes --- */

SL_INLINE __m256 low(vf v)
{
    return _mm512_castps512_ps256(v);
}

SL_INLINE __m256 high(vf v)
{
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
}

SL_INLINE float lowest(vf v)
{
    return _mm512_cvtss_f32(v);
}

/* The tree over sixteen lanes: lane j += lane j + 8, then 4, 2, 1. */
SL_INLINE float lanes_sum(const vf v[1])
{
    __m256 a = _mm256_add_ps(low(v[0]), high(v[0]));
    __m128 s =
        _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));

    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    s = _mm_add_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
}

SL_INLINE float top(vf v)
{
    __m256 a = _mm256_max_ps(low(v), high(v));
    __m128 s =
        _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));

    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    s = _mm_max_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
}

/* --- loads and stores --- */

SL_INLINE __m128i load16(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

SL_INLINE __m256i load32(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

SL_INLINE vf load(const float *p)
{
    return _mm512_loadu_ps(p);
}

SL_INLINE void store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}

SL_INLINE vf load_n(const float *p, size_t n)
{
    return n >= VEC ? load(p) : _mm512_maskz_loadu_ps(first(n), p);
}

SL_INLINE void store_n(float *p, vf v, size_t n)
{
    if (n >= VEC)
        store(p, v);
    else
        _mm512_mask_storeu_ps(p, first(n), v);
}

SL_INLINE vi spread(const void *p)
{
    int32_t v;

    __builtin_memcpy(&v, p, sizeof(v));
    return _mm512_set1_epi32(v);
}

SL_INLINE vf widen_bf16(__m256i h)
{
    return floats(ishl(_mm512_cvtepu16_epi32(h), 16));
}

SL_INLINE vf load_bf16(const uint16_t *p)
{
    return widen_bf16(load32(p));
}

SL_INLINE vf load_i8(const int8_t *p)
{
    return to_float(_mm512_cvtepi8_epi32(load16(p)));
}

SL_INLINE vi load_u8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(load16(p));
}

/* --- two groups of eight rows --- */

SL_INLINE vi join(__m256i a, __m256i b)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

SL_INLINE __m128i join8(const uint8_t *a, const uint8_t *b)
{
    return _mm_unpacklo_epi64(
        _mm_loadl_epi64((const __m128i *)(const void *)a),
        _mm_loadl_epi64((const __m128i *)(const void *)b));
}

SL_INLINE __m256i join16(const uint8_t *a, const uint8_t *b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(a)),
                                   load16(b), 1);
}

SL_INLINE vi pair_bytes(const struct at *a, size_t off)
{
    return join(load32(a->p[0] + off), load32(a->p[1] + off));
}

SL_INLINE vf pair_f32(const struct at *a, size_t off)
{
    return floats(pair_bytes(a, off));
}

SL_INLINE vf pair_bf16(const struct at *a, size_t off)
{
    return widen_bf16(join16(a->p[0] + off, a->p[1] + off));
}

SL_INLINE vf pair_f16(const struct at *a, size_t off)
{
    return _mm512_cvtph_ps(join16(a->p[0] + off, a->p[1] + off));
}

/* See load_fp8 of mul_avx2.c. */
SL_INLINE vf pair_fp8(const struct at *a, size_t off)
{
    __m256i b = _mm256_cvtepi8_epi16(join8(a->p[0] + off, a->p[1] + off));
    __m256i h =
        _mm256_and_si256(_mm256_slli_epi16(b, 7), _mm256_set1_epi16(~0x4000));
    __m256i nan = _mm256_and_si256(_mm256_add_epi16(h, _mm256_set1_epi16(0x80)),
                                   _mm256_set1_epi16(0x4000));

    return vmul(_mm512_cvtph_ps(_mm256_or_si256(h, nan)), set(256));
}

SL_INLINE vi pair_u8(const struct at *a, size_t off)
{
    return _mm512_cvtepu8_epi32(join8(a->p[0] + off, a->p[1] + off));
}

SL_INLINE vi pair_i16(const struct at *a, size_t off)
{
    return _mm512_cvtepi16_epi32(join16(a->p[0] + off, a->p[1] + off));
}

SL_INLINE vf pair_set(float a, float b)
{
    return floats(join(_mm256_castps_si256(_mm256_set1_ps(a)),
                       _mm256_castps_si256(_mm256_set1_ps(b))));
}

/* --- storing bf16 --- */

SL_INLINE void store_bf16_n(uint16_t *p, vf v, size_t n)
{
    vi u = bits(v), up = ishr(u, 16);
    vi sum = iadd(u, iadd(iand(up, iset(1)), iset(0x7fff)));
    vm nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    uint32_t h[VEC];

    v = choose(nan, floats(ior(up, iset(0x40))), floats(ishr(sum, 16)));
    store((float *)(void *)h, v);
    for (size_t i = 0; i < sl_min(n, VEC); i++)
        p[i] = (uint16_t)h[i];
}

#endif
