/* tests/kern/simde.h - AVX-512 and AVX-VNNI on a processor with AVX2
 *
 * Included before everything else when the kernels of these levels are compiled
 * a second time, for kerncheck-simde. SIMDe gives most instructions; below is
 * what its version in Debian 12 lacks. The real header comes first, so that the
 * names are free to be replaced.
 */
#ifndef SL_TESTS_KERN_SIMDE_H
#define SL_TESTS_KERN_SIMDE_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define SIMDE_NO_INLINE /* inlined, a file takes a minute to compile */
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

/* Emulated and unrolled, a file takes minutes to compile. */
#define UNROLL

#define SHIM static inline __attribute__((always_inline, unused))
#define __m512 simde__m512
#define __m512i simde__m512i
#define __mmask16 simde__mmask16

/* Halves of 256 bits. */
SHIM __m512i shim_join(__m256i lo, __m256i hi)
{
    return simde_mm512_inserti64x4(simde_mm512_castsi256_si512(lo), hi, 1);
}

SHIM __m256i shim_half(__m512i v, int i)
{
    return i ? simde_mm512_extracti64x4_epi64(v, 1)
             : simde_mm512_castsi512_si256(v);
}

SHIM __m512 shim_join_ps(__m256 lo, __m256 hi)
{
    return simde_mm512_castsi512_ps(
        shim_join(_mm256_castps_si256(lo), _mm256_castps_si256(hi)));
}

SHIM __m256 shim_half_ps(__m512 v, int i)
{
    return _mm256_castsi256_ps(shim_half(simde_mm512_castps_si512(v), i));
}

/* Lane by lane: no byte of an empty lane is touched. */
SHIM __m512 shim_maskz_loadu_ps(__mmask16 m, const float *p)
{
    float v[16] = {0};

    for (int i = 0; i < 16; i++)
        if (m >> i & 1)
            v[i] = p[i];
    return simde_mm512_loadu_ps(v);
}

SHIM void shim_mask_storeu_ps(float *p, __mmask16 m, __m512 x)
{
    float v[16];

    simde_mm512_storeu_ps(v, x);
    for (int i = 0; i < 16; i++)
        if (m >> i & 1)
            p[i] = v[i];
}

SHIM __m128i shim_upper(__m128i x)
{
    return _mm_unpackhi_epi64(x, x);
}

#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps shim_maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps shim_mask_storeu_ps
#undef _mm512_srai_epi32
#define _mm512_srai_epi32(v, n)                                                \
    shim_join(_mm256_srai_epi32(shim_half(v, 0), (int)(n)),                    \
              _mm256_srai_epi32(shim_half(v, 1), (int)(n)))
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps(v)                                                  \
    shim_join_ps(_mm256_cvtepi32_ps(shim_half(v, 0)),                          \
                 _mm256_cvtepi32_ps(shim_half(v, 1)))
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32(v)                                                \
    shim_join(_mm256_cvtepu8_epi32(v), _mm256_cvtepu8_epi32(shim_upper(v)))
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32(v)                                                \
    shim_join(_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(shim_upper(v)))
#undef _mm512_cvtepi16_epi32
#define _mm512_cvtepi16_epi32(v)                                               \
    shim_join(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(v)),                \
              _mm256_cvtepi16_epi32(_mm256_extracti128_si256(v, 1)))
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32(v)                                               \
    shim_join(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(v)),                \
              _mm256_cvtepu16_epi32(_mm256_extracti128_si256(v, 1)))
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps(v)                                                     \
    shim_join_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(v)),                   \
                 _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)))
#undef _mm512_cvtss_f32
#define _mm512_cvtss_f32(v) _mm256_cvtss_f32(shim_half_ps(v, 0))
#undef _mm256_dpbusd_avx_epi32
#define _mm256_dpbusd_avx_epi32 simde_mm256_dpbusd_epi32

#endif
