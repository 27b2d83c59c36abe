/* kern/x86/math_avx2.h - math.c, eight at a time
 *
 * Line by line the operations of kern/math.c, so every lane has the bits of
 * the scalar function. Branches there are choices here.
 */
#ifndef SL_KERN_X86_MATH_AVX2_H
#define SL_KERN_X86_MATH_AVX2_H

#include <math.h>

#include "kern/coef.h"
#include "kern/x86/vec_avx2.h"

SL_INLINE __m256 set(float x)
{
    return _mm256_set1_ps(x);
}

SL_INLINE __m256 negate(__m256 x)
{
    return _mm256_xor_ps(x, set(-0.0f));
}

/* 2^n for normal results. */
SL_INLINE __m256 vec_pow2(__m256i n)
{
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

SL_INLINE __m256 vec_exp(__m256 x)
{
    const __m256 magic = set(SL_ROUND_MAGIC);
    __m256 t, n, r, p;
    __m256i k, half;

    /* min and max return the second operand when one is NaN. */
    x = _mm256_min_ps(set(SL_EXP_MAX), x);
    x = _mm256_max_ps(set(SL_EXP_MIN), x);
    t = _mm256_fmadd_ps(x, set(SL_LOG2E), magic);
    n = _mm256_sub_ps(t, magic);
    k = _mm256_sub_epi32(_mm256_castps_si256(t),
                         _mm256_set1_epi32(SL_ROUND_MAGIC_BITS));
    r = _mm256_fmadd_ps(n, set(-SL_LN2_HI), x);
    r = _mm256_fmadd_ps(n, set(-SL_LN2_LO), r);
    p = _mm256_fmadd_ps(set(SL_EXP_C6), r, set(SL_EXP_C5));
    p = _mm256_fmadd_ps(p, r, set(SL_EXP_C4));
    p = _mm256_fmadd_ps(p, r, set(SL_EXP_C3));
    p = _mm256_fmadd_ps(p, r, set(SL_EXP_C2));
    p = _mm256_fmadd_ps(p, r, set(1));
    p = _mm256_fmadd_ps(p, r, set(1));
    half = _mm256_srai_epi32(k, 1);
    /* A NaN went through p, and stays one whatever it is multiplied with. */
    p = _mm256_mul_ps(p, vec_pow2(half));
    return _mm256_mul_ps(p, vec_pow2(_mm256_sub_epi32(k, half)));
}

SL_INLINE __m256 vec_log_tail(__m256 f, __m256 e)
{
    __m256 z = _mm256_mul_ps(f, f), y;
    __m256 p = _mm256_fmadd_ps(set(SL_LOG_C10), f, set(SL_LOG_C9));

    p = _mm256_fmadd_ps(p, f, set(SL_LOG_C8));
    p = _mm256_fmadd_ps(p, f, set(SL_LOG_C7));
    p = _mm256_fmadd_ps(p, f, set(SL_LOG_C6));
    p = _mm256_fmadd_ps(p, f, set(SL_LOG_C5));
    p = _mm256_fmadd_ps(p, f, set(SL_LOG_C4));
    p = _mm256_fmadd_ps(p, f, set(SL_LOG_C3));
    y = _mm256_mul_ps(_mm256_mul_ps(p, f), z);
    y = _mm256_fmadd_ps(e, set(SL_LN2_LO), y);
    y = _mm256_fmadd_ps(set(-0.5f), z, y);
    y = _mm256_add_ps(f, y);
    return _mm256_fmadd_ps(e, set(SL_LN2_HI), y);
}

SL_INLINE __m256 vec_log1p(__m256 x)
{
    const __m256 inf = set(INFINITY);
    __m256 u = _mm256_add_ps(set(1), x);
    __m256i ub = _mm256_castps_si256(u);
    __m256i e = _mm256_srai_epi32(
        _mm256_sub_epi32(ub, _mm256_set1_epi32(SL_SQRT_HALF_BITS)), 23);
    __m256 m =
        _mm256_castsi256_ps(_mm256_sub_epi32(ub, _mm256_slli_epi32(e, 23)));
    __m256 scale = vec_pow2(_mm256_sub_epi32(_mm256_setzero_si256(), e));
    __m256 f = _mm256_fmadd_ps(x, scale, _mm256_sub_ps(scale, set(1)));
    __m256i big = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(63));
    __m256 y;

    f = choose(_mm256_castsi256_ps(big), _mm256_sub_ps(m, set(1)), f);
    y = vec_log_tail(f, _mm256_cvtepi32_ps(e));
    y = choose(_mm256_cmp_ps(u, set(0), _CMP_NGT_UQ), set(NAN), y);
    y = choose(_mm256_cmp_ps(u, set(0), _CMP_EQ_OQ), set(-INFINITY), y);
    return choose(_mm256_cmp_ps(u, inf, _CMP_EQ_OQ), inf, y);
}

SL_INLINE __m256 vec_sin_poly(__m256 r)
{
    __m256 z = _mm256_mul_ps(r, r);
    __m256 p = _mm256_fmadd_ps(set(SL_SIN_C7), z, set(SL_SIN_C5));

    p = _mm256_fmadd_ps(p, z, set(SL_SIN_C3));
    return _mm256_fmadd_ps(_mm256_mul_ps(r, z), p, r);
}

SL_INLINE __m256 vec_cos_poly(__m256 r)
{
    __m256 z = _mm256_mul_ps(r, r);
    __m256 p = _mm256_fmadd_ps(set(SL_COS_C8), z, set(SL_COS_C6));

    p = _mm256_fmadd_ps(p, z, set(SL_COS_C4));
    return _mm256_fmadd_ps(_mm256_mul_ps(z, z), p,
                           _mm256_fmadd_ps(set(-0.5f), z, set(1)));
}

/* y with its sign turned where bit 1 of n is set. */
SL_INLINE __m256 turn(__m256 y, __m256i n)
{
    __m256i bit = _mm256_and_si256(n, _mm256_set1_epi32(2));

    return _mm256_xor_ps(y, _mm256_castsi256_ps(_mm256_slli_epi32(bit, 30)));
}

SL_INLINE void vec_sincos(__m256 x, __m256 *s, __m256 *c)
{
    const __m256 magic = set(SL_ROUND_MAGIC);
    const __m256i one = _mm256_set1_epi32(1);
    __m256 t = _mm256_fmadd_ps(x, set(SL_TWO_OVER_PI), magic);
    __m256 n = _mm256_sub_ps(t, magic);
    __m256i q = _mm256_castps_si256(t);
    __m256 odd =
        _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(q, one), one));
    __m256 r = _mm256_fmadd_ps(n, set(-SL_PIO2_1), x);
    __m256 sr, cr;

    r = _mm256_fmadd_ps(n, set(-SL_PIO2_2), r);
    r = _mm256_fmadd_ps(n, set(-SL_PIO2_3), r);
    sr = vec_sin_poly(r);
    cr = vec_cos_poly(r);
    *s = turn(choose(odd, cr, sr), q);
    *c = turn(choose(odd, sr, cr), _mm256_add_epi32(q, one));
}

SL_INLINE __m256 vec_sigmoid(__m256 x)
{
    return _mm256_div_ps(set(1), _mm256_add_ps(set(1), vec_exp(negate(x))));
}

SL_INLINE __m256 vec_silu(__m256 x)
{
    return _mm256_div_ps(x, _mm256_add_ps(set(1), vec_exp(negate(x))));
}

SL_INLINE __m256 vec_softplus(__m256 x)
{
    __m256 big = _mm256_cmp_ps(x, set(20), _CMP_GT_OQ);

    return choose(big, x, vec_log1p(vec_exp(x)));
}

#endif
