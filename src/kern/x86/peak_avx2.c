/* kern/x86/peak_avx2.c - multiply-adds from registers; see sl_peak_fn
 *
 * The instructions of the products: bytes by maddubs, added in 16 bits and
 * widened by madd every eighth time, as quant_mul_avx2.c does at best, and
 * fused multiply-adds for floats. Chains hide the longest latency of any of
 * them and leave registers for the rest (the loops are unrolled, or the sums
 * would lie in memory); OPAQUE keeps the compiler from computing a round once.
 */
#include "kern/x86/vec_avx2.h"
#include "kern/x86/x86.h"

#define CHAINS 8
#define OPAQUE(x) __asm__ volatile("" : "+x"(x))

static uint64_t peak_int8(uint64_t n)
{
    enum { N = 4, STEPS = 8 };
    const uint64_t step = N * STEPS * 32, rounds = n / step + 1;
    const __m256i one = _mm256_set1_epi16(1);
    __m256i w = _mm256_set1_epi8(3), x = _mm256_set1_epi8(5), acc[N], s[N];

    UNROLL
    for (int c = 0; c < N; c++)
        acc[c] = _mm256_setzero_si256();
    for (uint64_t i = 0; i < rounds; i++) {
        UNROLL
        for (int k = 0; k < STEPS; k++) {
            UNROLL
            for (int c = 0; c < N; c++) {
                __m256i p;

                OPAQUE(x);
                p = _mm256_maddubs_epi16(w, x);
                s[c] = k ? _mm256_add_epi16(s[c], p) : p;
                OPAQUE(s[c]);
            }
        }
        UNROLL
        for (int c = 0; c < N; c++)
            acc[c] = _mm256_add_epi32(acc[c], _mm256_madd_epi16(s[c], one));
    }
    UNROLL
    for (int c = 0; c < N; c++)
        OPAQUE(acc[c]);
    return rounds * step;
}

static uint64_t peak_fp32(uint64_t n)
{
    const uint64_t step = CHAINS * 8, rounds = n / step + 1;
    __m256 w = _mm256_set1_ps(0.5f), acc[CHAINS];

    UNROLL
    for (int c = 0; c < CHAINS; c++)
        acc[c] = _mm256_setzero_ps();
    for (uint64_t i = 0; i < rounds; i++)
        UNROLL
    for (int c = 0; c < CHAINS; c++) {
        acc[c] = _mm256_fmadd_ps(acc[c], w, w);
        OPAQUE(acc[c]);
    }
    return rounds * step;
}

void sl_kern_init_peak__avx2(struct sl_kern *k)
{
    k->peak_int8 = peak_int8;
    k->peak_fp32 = peak_fp32;
}
