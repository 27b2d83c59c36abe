/* kern/x86/attn_avx2.c - keys and values into pages, and attention over them
 *
 * Scores have positions in lanes and the dimension in time; the mix of values
 * has dimensions in lanes and positions in time. Queries of one block share
 * each load of keys and values: with four of them and two registers eight
 * chains run at once, which hides the latency of the fma; with fewer queries
 * more registers make up for it.
 */
#include <math.h>
#include <string.h>

#include "kern/x86/math_avx2.h"
#include "kern/x86/x86.h"

enum {
    MAX_Q = 6,     /* queries of one block */
    MAX_TILES = 4, /* tiles of keys of one block: those of a page */
    MAX_V = 8,     /* registers of dimensions of one block */
    /* Positions whose values are mixed before the next dimensions: 8 KB of
     * bf16 at dimension 256. Divides a page. Chosen, not measured. */
    MIX_STEP = 16,
};

#define UNROLL _Pragma("GCC unroll 8")

/* Queries of the next block when `left` are left, as even as possible. */
static size_t share(size_t left)
{
    size_t blocks = (left + MAX_Q - 1) / MAX_Q;

    return (left + blocks - 1) / blocks;
}

/* The maximum as the contract finds it: NaN never wins, and of zeros the first
 * one counts, whatever its sign. */
static float maximum(const float *s, size_t n)
{
    __m256 v = set(-INFINITY);
    __m128 h;
    float m;

    for (size_t p = 0; p < n; p += VEC) {
        __m256 x = _mm256_loadu_ps(s + p);

        x = choose(_mm256_castsi256_ps(first(n - p)), x, v);
        v = _mm256_max_ps(x, v);
    }
    h = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_max_ps(h, _mm_movehl_ps(h, h));
    h = _mm_max_ss(h, _mm_movehdup_ps(h));
    m = _mm_cvtss_f32(h);
    for (size_t p = 0; m == 0 && p < n; p++)
        if (s[p] == 0)
            return s[p];
    return m;
}

/* e_p = exp(s_p - m) in place; returns m, and l = lanes(e). s has room for a
 * whole block. */
static float softmax(float *s, size_t n, float *l)
{
    __m256 lane[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    float m = maximum(s, n);

    for (size_t p = 0; p < n; p += VEC) {
        __m256 mask = _mm256_castsi256_ps(first(n - p));
        __m256 e = vec_exp(_mm256_sub_ps(_mm256_loadu_ps(s + p), set(m)));

        /* A sum from 0 of what is never -0 does not mind another 0. */
        e = _mm256_and_ps(e, mask);
        _mm256_storeu_ps(s + p, e);
        lane[p / VEC % 2] = _mm256_add_ps(lane[p / VEC % 2], e);
    }
    *l = lanes_sum(lane[0], lane[1]);
    return m;
}

#define T float
#define NAME(x) x##_f32
#define LOAD(p) _mm256_loadu_ps(p)
#include "kern/x86/attn_tmpl.h"
#undef T
#undef NAME
#undef LOAD

#define T uint16_t
#define NAME(x) x##_bf16
#define LOAD(p) load_bf16(p)
#include "kern/x86/attn_tmpl.h"

static void attn_merge(float *restrict m, float *restrict l, float *restrict o,
                       float m2, float l2, const float *restrict o2, size_t dim)
{
    float max = m2 > *m ? m2 : *m;
    __m256 ab = vec_exp(_mm256_setr_ps(*m - max, m2 - max, 0, 0, 0, 0, 0, 0));
    __m256 a = set(_mm256_cvtss_f32(ab));
    __m256 b = set(_mm256_cvtss_f32(_mm256_permute_ps(ab, 1)));
    __m128 l_new =
        _mm_fmadd_ss(_mm_set_ss(l2), _mm256_castps256_ps128(b),
                     _mm_mul_ss(_mm_set_ss(*l), _mm256_castps256_ps128(a)));

    *l = _mm_cvtss_f32(l_new);
    for (size_t d = 0; d < dim; d += VEC) {
        __m256 old = _mm256_mul_ps(load_n(o + d, dim - d), a);

        store_n(o + d, _mm256_fmadd_ps(load_n(o2 + d, dim - d), b, old),
                dim - d);
    }
    *m = max;
}

/* Eight floats as bf16, in the low half of each lane: nearest even, NaN quiet.
 */
SL_INLINE __m256i round_bf16(__m256 v)
{
    __m256i u = _mm256_castps_si256(v);
    __m256i top = _mm256_srli_epi32(u, 16);
    __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
    __m256i sum =
        _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i nan = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
    __m256 is_nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);

    return _mm256_castps_si256(
        choose(is_nan, _mm256_castsi256_ps(nan),
               _mm256_castsi256_ps(_mm256_srli_epi32(sum, 16))));
}

/* Eight floats as eight bf16 next to each other. */
SL_INLINE __m128i pack_bf16(__m256 v)
{
    __m256i h = round_bf16(v);

    return _mm_packus_epi32(_mm256_castsi256_si128(h),
                            _mm256_extracti128_si256(h, 1));
}

static void put_v_bf16(void *restrict page, size_t pos, const float *v,
                       size_t dim)
{
    uint16_t *out = (uint16_t *)page + pos * dim;

    for (size_t d = 0; d < dim; d += VEC) {
        uint16_t h[VEC];

        _mm_storeu_si128((__m128i *)(void *)h,
                         pack_bf16(load_n(v + d, dim - d)));
        memcpy(out + d, h, sl_min(dim - d, VEC) * sizeof(*h));
    }
}

void sl_kern_init_attn__avx2(struct sl_kern *k)
{
    k->put_v[SL_BF16] = put_v_bf16;
    k->attn[SL_F32] = attn_f32;
    k->attn[SL_BF16] = attn_bf16;
    k->attn_merge = attn_merge;
}
