/* kern/x86/quant_act_avx2.c - activations as int8 */
#include <immintrin.h>

#include "kern/quant.h"
#include "kern/x86/vec_avx2.h"
#include "kern/x86/x86.h"

/* The largest magnitude as the bits of a float: magnitudes sort like integers,
 * with infinities and NaN above all numbers, so the order does not matter. */
SL_INLINE uint32_t max_bits(__m256 x0, __m256 x1, __m256 x2, __m256 x3)
{
    const __m256 mag = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    __m256i m01 = _mm256_max_epi32(_mm256_castps_si256(_mm256_and_ps(x0, mag)),
                                   _mm256_castps_si256(_mm256_and_ps(x1, mag)));
    __m256i m23 = _mm256_max_epi32(_mm256_castps_si256(_mm256_and_ps(x2, mag)),
                                   _mm256_castps_si256(_mm256_and_ps(x3, mag)));
    __m256i m = _mm256_max_epi32(m01, m23);
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(m),
                              _mm256_extracti128_si256(m, 1));

    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(h);
}

/* x / s as integers. */
SL_INLINE __m256i divide(__m256 x, __m256 s)
{
    const __m256 top = _mm256_set1_ps(127), bottom = _mm256_set1_ps(-127);
    __m256 v = _mm256_div_ps(x, s);

    return _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(v, top), bottom));
}

/* Sums of 16 bytes each, of signed numbers. */
SL_INLINE void sums(int16_t sum[2], __m256i q)
{
    const __m256i flip = _mm256_set1_epi8((char)0x80);
    __m256i s =
        _mm256_sad_epu8(_mm256_xor_si256(q, flip), _mm256_setzero_si256());

    s = _mm256_add_epi64(s, _mm256_shuffle_epi32(s, 0x4e));
    sum[0] = (int16_t)(_mm_cvtsi128_si32(_mm256_castsi256_si128(s)) - 16 * 128);
    sum[1] =
        (int16_t)(_mm_cvtsi128_si32(_mm256_extracti128_si256(s, 1)) - 16 * 128);
}

static void quant_act(int8_t *restrict q, float *restrict scale,
                      int16_t *restrict sum, const float *restrict x,
                      size_t cols)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);

    for (size_t b = 0; b < cols / SL_QBLOCK; b++, x += SL_QBLOCK) {
        __m256 x0 = _mm256_loadu_ps(x), x1 = _mm256_loadu_ps(x + 8);
        __m256 x2 = _mm256_loadu_ps(x + 16), x3 = _mm256_loadu_ps(x + 24);
        uint32_t amax = max_bits(x0, x1, x2, x3);
        __m256 s =
            _mm256_div_ps(_mm256_castsi256_ps(_mm256_set1_epi32((int32_t)amax)),
                          _mm256_set1_ps(127));
        __m256i v = _mm256_setzero_si256();

        if (amax >= 0x7f800000u) {
            s = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
        } else if (_mm256_cvtss_f32(s) > 0) {
            v = _mm256_packs_epi16(
                _mm256_packs_epi32(divide(x0, s), divide(x1, s)),
                _mm256_packs_epi32(divide(x2, s), divide(x3, s)));
            v = _mm256_permutevar8x32_epi32(v, order);
        }
        scale[b] = _mm256_cvtss_f32(s);
        _mm256_storeu_si256((__m256i *)(void *)(q + b * SL_QBLOCK), v);
        sums(sum + 2 * b, v);
    }
}

void sl_kern_init_quant_act__avx2(struct sl_kern *k)
{
    k->quant_act = quant_act;
}
