/* kern/x86/vec_vnni.h - wide.h on AVX2 with AVX-VNNI, as far as products go
 *
 * Everything else is done by the AVX2 level below.
 */
#ifndef SL_KERN_X86_VEC_VNNI_H
#define SL_KERN_X86_VEC_VNNI_H

#include "kern/wide/wide.h"
#include "kern/x86/vec_avx2.h"

#define REGS 16
enum { HALVES = 1, WEIGHTS_SIGNED = 0 };

#define ISA(x) x##__vnni

typedef __m256 vf;
typedef __m256i vi;

SL_INLINE vf set(float x)
{
    return _mm256_set1_ps(x);
}

SL_INLINE vf vmul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

SL_INLINE vf vfma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

SL_INLINE vf vfnma(vf a, vf b, vf c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

SL_INLINE vi iset(int x)
{
    return _mm256_set1_epi32(x);
}

SL_INLINE vi iadd(vi a, vi b)
{
    return _mm256_add_epi32(a, b);
}

SL_INLINE vi iand(vi a, vi b)
{
    return _mm256_and_si256(a, b);
}

SL_INLINE vi ior(vi a, vi b)
{
    return _mm256_or_si256(a, b);
}

SL_INLINE vi ixor(vi a, vi b)
{
    return _mm256_xor_si256(a, b);
}

SL_INLINE vi ishl(vi v, int n)
{
    return _mm256_slli_epi32(v, n);
}

SL_INLINE vi ishr(vi v, int n)
{
    return _mm256_srli_epi32(v, n);
}

SL_INLINE vi isra(vi v, int n)
{
    return _mm256_srai_epi32(v, n);
}

SL_INLINE vi bits(vf v)
{
    return _mm256_castps_si256(v);
}

SL_INLINE vf floats(vi v)
{
    return _mm256_castsi256_ps(v);
}

SL_INLINE vf to_float(vi v)
{
    return _mm256_cvtepi32_ps(v);
}

SL_INLINE vi spread(const void *p)
{
    int32_t v;

    __builtin_memcpy(&v, p, sizeof(v));
    return _mm256_set1_epi32(v);
}

SL_INLINE vi look_up(const int8_t t[16], vi v)
{
    __m128i all = _mm_loadu_si128((const __m128i *)(const void *)t);

    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(all), v);
}

SL_INLINE vi dot4(vi acc, vi w, vi a)
{
    return _mm256_dpbusd_avx_epi32(acc, w, a);
}

SL_INLINE vf pair_f16(const struct at *a, size_t off)
{
    return _mm256_cvtph_ps(
        _mm_loadu_si128((const __m128i *)(const void *)(a->p[0] + off)));
}

SL_INLINE vi pair_u8(const struct at *a, size_t off)
{
    return load_u8(a->p[0] + off);
}

SL_INLINE vi pair_i16(const struct at *a, size_t off)
{
    return _mm256_cvtepi16_epi32(
        _mm_loadu_si128((const __m128i *)(const void *)(a->p[0] + off)));
}

SL_INLINE vi pair_bytes(const struct at *a, size_t off)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(a->p[0] + off));
}

#endif
