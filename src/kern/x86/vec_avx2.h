/* kern/x86/vec_avx2.h - loads and stores of up to eight floats, and sums
 *
 * A loop over n elements goes in steps of eight and passes what is left: the
 * last step touches no byte beyond it (masked loads do not fault).
 */
#ifndef SL_KERN_X86_VEC_AVX2_H
#define SL_KERN_X86_VEC_AVX2_H

#include <immintrin.h>

#include "base/base.h"
#include "kern/wide/inline.h"

enum { VEC = 8 }; /* floats of one register */

/* The first n of eight lanes all ones; n >= 8 gives all. */
SL_INLINE __m256i first(size_t n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    int count = n < VEC ? (int)n : VEC;

    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane);
}

/* min(n, 8) floats; the other lanes are 0. */
SL_INLINE __m256 load_n(const float *p, size_t n)
{
    return n >= VEC ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, first(n));
}

SL_INLINE void store_n(float *p, __m256 v, size_t n)
{
    if (n >= VEC)
        _mm256_storeu_ps(p, v);
    else
        _mm256_maskstore_ps(p, first(n), v);
}

/* yes where the mask is set, else no */
SL_INLINE __m256 choose(__m256 mask, __m256 yes, __m256 no)
{
    return _mm256_blendv_ps(no, yes, mask);
}

/* Eight bf16 as floats: each lane takes four of them and puts zeros below. One
 * shuffle, where widening and shifting would be two. */
SL_INLINE __m256 load_bf16(const uint16_t *p)
{
    const __m256i up = _mm256_setr_epi8(
        -1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7, /* low lane */
        -1, -1, 8, 9, -1, -1, 10, 11, -1, -1, 12, 13, -1, -1, 14, 15);
    __m128i h = _mm_loadu_si128((const __m128i *)(const void *)p);

    return _mm256_castsi256_ps(
        _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(h), up));
}

/* The tree over sixteen virtual lanes: lane j += lane j + 8, then 4, 2, 1. */
SL_INLINE float lanes_sum(__m256 lo, __m256 hi)
{
    __m256 v = _mm256_add_ps(lo, hi);
    __m128 s =
        _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    s = _mm_add_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
}

/* Eight bytes as numbers. The address is opaque: a compiler that knows them in a
 * wider register moves them by an instruction that valgrind 3.19 does not know.
 */
SL_INLINE __m256i load_u8(const void *p)
{
    __asm__("" : "+r"(p));
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

/* sl_quant_bfp_unit of eight exponents */
SL_INLINE __m256 bfp_unit(const uint8_t e[8], float one)
{
    __m256i u = _mm256_slli_epi32(load_u8(e), 23);

    return _mm256_mul_ps(_mm256_castsi256_ps(u), _mm256_set1_ps(one));
}

#endif
