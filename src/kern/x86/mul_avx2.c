/* kern/x86/mul_avx2.c - products with a weight matrix
 *
 * A register holds one column of eight output rows; an output's chain of fused
 * multiply-adds lives in one lane. One chain is as slow as the latency of the
 * fma, so several run at once: groups of rows for one token, groups times
 * tokens for more. Twelve chains, two columns of weights and one broadcast
 * activation fill the sixteen registers.
 *
 * For up to six tokens the weights are read once, from memory. For more, a
 * strip of two groups stays in the second-level cache while all tokens of a
 * chunk, which stays there too, pass over it. No choice of these changes the
 * operations of an output, hence not its bits.
 */
#include <immintrin.h>

#include "kern/x86/vec_avx2.h"
#include "kern/x86/x86.h"

enum {
    MAX_M = 6,       /* tokens of one block */
    MAX_G = 4,       /* groups of one block */
    STRIP_ROWS = 16, /* two groups */
    /* Activations of one chunk: half of a small second-level cache. Chosen, not
     * measured. */
    X_BYTES = 256 << 10,
};

/* The loops over tokens and groups of a block have constant ends. */
#define UNROLL _Pragma("GCC unroll 8")

/* Tokens of the next block when `left` are left: blocks as even as possible,
 * because 4 + 4 has more chains in flight than 6 + 2. */
static size_t share(size_t left)
{
    size_t blocks = (left + MAX_M - 1) / MAX_M;

    return (left + blocks - 1) / blocks;
}

SL_INLINE __m256 unscaled_f32(const float *p, __m256 scale)
{
    (void)scale;
    return _mm256_loadu_ps(p);
}

SL_INLINE __m256 unscaled_bf16(const uint16_t *p, __m256 scale)
{
    (void)scale;
    return load_bf16(p);
}

/* Eight E4M3 bytes with their scale. As the same bits of an IEEE half, shifted
 * to its exponent, a byte is 2^-8 times its value; 0x7f must become a NaN: it
 * alone carries into bit 14 when 0x80 is added, and that bit is all its
 * exponent lacks. */
SL_INLINE __m256 load_fp8(const uint8_t *p, __m256 scale)
{
    __m128i b = _mm_cvtepi8_epi16(_mm_loadl_epi64((const void *)p));
    __m128i h = _mm_and_si128(_mm_slli_epi16(b, 7), _mm_set1_epi16(~0x4000));
    __m128i nan = _mm_and_si128(_mm_add_epi16(h, _mm_set1_epi16(0x80)),
                                _mm_set1_epi16(0x4000));
    __m256 v = _mm256_cvtph_ps(_mm_or_si128(h, nan));

    return _mm256_mul_ps(_mm256_mul_ps(v, _mm256_set1_ps(256)), scale);
}

#define T float
#define NAME(x) x##_f32
#define LOAD unscaled_f32
#define SCALED 0
#include "kern/x86/mul_tmpl.h"
#undef T
#undef NAME
#undef LOAD
#undef SCALED

#define T uint16_t
#define NAME(x) x##_bf16
#define LOAD unscaled_bf16
#define SCALED 0
#include "kern/x86/mul_tmpl.h"
#undef T
#undef NAME
#undef LOAD
#undef SCALED

#define T uint8_t
#define NAME(x) x##_fp8
#define LOAD load_fp8
#define SCALED 1
#include "kern/x86/mul_tmpl.h"

void sl_kern_init_mul__avx2(struct sl_kern *k)
{
    k->mul[SL_F32] = mul_f32;
    k->mul[SL_BF16] = mul_bf16;
    k->mul[SL_FP8] = mul_fp8;
}
