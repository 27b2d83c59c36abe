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

#include "kern/quant.h"
#include "kern/x86/math_avx2.h"
#include "kern/x86/x86.h"

enum {
    MAX_Q = 4,     /* queries of one block: more do not fit the registers */
    MAX_TILES = 4, /* tiles of keys of one block: those of a page */
    MAX_V = 8,     /* registers of dimensions of one block */
    /* Positions whose values are mixed before the next dimensions: 8 KB of
     * bf16 at dimension 256. Divides a page. Chosen, not measured. */
    MIX_STEP = 16,
    UNITS = 16, /* bfp8: units of a position that are made ahead */
};

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

/* exp(s - m) in the first n of eight lanes, 0 in the others; in place. */
SL_INLINE __m256 weigh(float *s, float m, size_t n)
{
    __m256 e = vec_exp(_mm256_sub_ps(_mm256_loadu_ps(s), set(m)));

    e = _mm256_and_ps(e, _mm256_castsi256_ps(first(n)));
    _mm256_storeu_ps(s, e);
    return e;
}

/* e_p = exp(s_p - m) in place; returns m, and l = lanes(e). s has room for a
 * whole block. The zeros of empty lanes do not matter: a sum that starts from 0
 * and never meets a negative number is not -0. */
static float softmax(float *s, size_t n, float *l)
{
    __m256 lo = _mm256_setzero_ps(), hi = lo;
    float m = maximum(s, n);

    for (size_t p = 0; p < n; p += 2 * VEC) {
        size_t left = n - p;

        lo = _mm256_add_ps(lo, weigh(s + p, m, left));
        hi = _mm256_add_ps(hi,
                           weigh(s + p + VEC, m, left > VEC ? left - VEC : 0));
    }
    *l = lanes_sum(lo, hi);
    return m;
}

/* Eight int8 as floats. */
SL_INLINE __m256 load_int8(const int8_t *p)
{
    __m128i x = _mm_loadl_epi64((const __m128i *)(const void *)p);

    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x));
}

/* Bytes of one dimension of a tile of keys, and of the tile. */
SL_INLINE size_t key_bytes(enum sl_dtype type)
{
    return SL_TILE * (type == SL_F32 ? 4 : type == SL_BF16 ? 2 : 1);
}

SL_INLINE size_t tile_bytes(enum sl_dtype type, size_t dim)
{
    /* Each block of bfp8 begins with a row of exponents. */
    return (type == SL_BFP8 ? dim + dim / SL_BFP : dim) * key_bytes(type);
}

/* One dimension of the keys of eight positions, the half h of the tile whose
 * row lies at p. `unit` is theirs for the block (bfp8). */
SL_INLINE __m256 keys(enum sl_dtype type, const uint8_t *p, size_t h,
                      __m256 unit)
{
    p += h * key_bytes(type) / 2;
    if (type == SL_F32)
        return _mm256_loadu_ps((const float *)(const void *)p);
    if (type == SL_BF16)
        return load_bf16((const uint16_t *)(const void *)p);
    return _mm256_mul_ps(load_int8((const int8_t *)p), unit);
}

/* Bytes of the value of a position. */
SL_INLINE size_t value_bytes(enum sl_dtype type, size_t dim)
{
    return type == SL_F32    ? 4 * dim
           : type == SL_BF16 ? 2 * dim
                             : dim + dim / SL_BFP;
}

/* Dimensions d to d + 7 of the value at `at`; `unit` is theirs (bfp8). */
SL_INLINE __m256 values(enum sl_dtype type, const uint8_t *at, size_t dim,
                        size_t d, const float *unit)
{
    if (type == SL_F32)
        return _mm256_loadu_ps((const float *)(const void *)at + d);
    if (type == SL_BF16)
        return load_bf16((const uint16_t *)(const void *)at + d);
    return _mm256_mul_ps(load_int8((const int8_t *)at + dim / SL_BFP + d),
                         _mm256_broadcast_ss(unit));
}

/* bfp8: units of n positions whose exponents begin at v, and so on every
 * `bytes`. There are always UNITS bytes, as elements follow. */
SL_INLINE void value_units(float unit[][UNITS], const uint8_t *v, size_t bytes,
                           size_t n)
{
    for (size_t p = 0; p < n; p++, v += bytes) {
        _mm256_storeu_ps(unit[p], bfp_unit(v, 0x1p-6f));
        _mm256_storeu_ps(unit[p] + VEC, bfp_unit(v + VEC, 0x1p-6f));
    }
}

/* Scores of nq queries from t on against nt tiles of keys from tile i on, all
 * in one page; both numbers are constants where this is inlined. Meanwhile as
 * much from `next` on is asked for: a tile is over before the processor has seen
 * where it reads. */
SL_INLINE void score(enum sl_dtype type, size_t nq, size_t nt,
                     const struct sl_attn *a, size_t t0, size_t i,
                     const char *next)
{
    const size_t tile = tile_bytes(type, a->dim);
    const uint8_t *k = (const uint8_t *)a->k[i * SL_TILE / SL_KV_PAGE] +
                       i % (SL_KV_PAGE / SL_TILE) * tile;
    const float *q = a->q + t0 * a->ld_q;
    float *s = a->scratch + t0 * SL_KV_BLOCK + i * SL_TILE;
    __m256 acc[MAX_Q][2 * MAX_TILES], qd[MAX_Q], unit[2 * MAX_TILES];

    UNROLL
    for (size_t h = 0; h < 2 * nt; h++) {
        unit[h] = _mm256_setzero_ps();
        UNROLL
        for (size_t t = 0; t < nq; t++)
            acc[t][h] = _mm256_setzero_ps();
    }
    for (size_t d = 0; d < a->dim; d++, k += key_bytes(type)) {
        if (d * key_bytes(type) % 64 == 0) {
            UNROLL
            for (size_t h = 0; h < nt; h++)
                _mm_prefetch(next + h * tile + d * key_bytes(type),
                             _MM_HINT_T1);
        }
        if (type == SL_BFP8 && d % SL_BFP == 0) {
            UNROLL
            for (size_t h = 0; h < 2 * nt; h++)
                unit[h] = bfp_unit(k + h / 2 * tile + h % 2 * VEC, 0x1p-6f);
            k += SL_TILE;
        }
        UNROLL
        for (size_t t = 0; t < nq; t++)
            qd[t] = _mm256_broadcast_ss(q + t * a->ld_q + d);
        UNROLL
        for (size_t h = 0; h < 2 * nt; h++) {
            __m256 kd = keys(type, k + h / 2 * tile, h % 2, unit[h]);

            UNROLL
            for (size_t t = 0; t < nq; t++)
                acc[t][h] = _mm256_fmadd_ps(qd[t], kd, acc[t][h]);
        }
    }
    UNROLL
    for (size_t t = 0; t < nq; t++) {
        UNROLL
        for (size_t h = 0; h < 2 * nt; h++)
            _mm256_storeu_ps(s + t * SL_KV_BLOCK + h * VEC,
                             _mm256_mul_ps(acc[t][h], set(a->scale)));
    }
}

/* Where tile i of n lies; behind the last one, the first values. */
SL_INLINE const char *tile_at(enum sl_dtype type, const struct sl_attn *a,
                              size_t i, size_t n)
{
    const size_t per = SL_KV_PAGE / SL_TILE;

    return i < n ? (const char *)a->k[i / per] +
                       i % per * tile_bytes(type, a->dim)
                 : (const char *)a->v[0];
}

/* Against all tiles that hold the first n positions. */
SL_INLINE void scores(enum sl_dtype type, size_t nq, size_t nt,
                      const struct sl_attn *a, size_t t, size_t n)
{
    size_t tiles = (n + SL_TILE - 1) / SL_TILE, i = 0;

    /* nt divides the tiles of a page, so they never leave it. */
    for (; i + nt <= tiles; i += nt)
        score(type, nq, nt, a, t, i, tile_at(type, a, i + nt, tiles));
    for (; i < tiles; i++)
        score(type, nq, 1, a, t, i, tile_at(type, a, i + 1, tiles));
}

/* o_d += e_p v_pd in order for p0 <= p < p1, all in one page: nq queries from t
 * on, nv registers of dimensions from d on. unit: of these dimensions and p0.
 */
SL_INLINE void mix(enum sl_dtype type, size_t nq, size_t nv,
                   const struct sl_attn *a, size_t t0, size_t d, size_t p0,
                   size_t p1, const float *unit)
{
    const size_t bytes = value_bytes(type, a->dim);
    const uint8_t *v =
        (const uint8_t *)a->v[p0 / SL_KV_PAGE] + p0 % SL_KV_PAGE * bytes;
    const float *e = a->scratch + t0 * SL_KV_BLOCK;
    float *o = a->o + t0 * a->dim + d;
    __m256 acc[MAX_Q][MAX_V], ep[MAX_Q];

    UNROLL
    for (size_t t = 0; t < nq; t++) {
        UNROLL
        for (size_t j = 0; j < nv; j++)
            acc[t][j] = _mm256_loadu_ps(o + t * a->dim + j * VEC);
    }
    for (size_t p = p0; p < p1; p++, v += bytes, unit += UNITS) {
        UNROLL
        for (size_t t = 0; t < nq; t++)
            ep[t] = _mm256_broadcast_ss(e + t * SL_KV_BLOCK + p);
        UNROLL
        for (size_t j = 0; j < nv; j++) {
            __m256 vp =
                values(type, v, a->dim, d + j * VEC, unit + j * VEC / SL_BFP);

            UNROLL
            for (size_t t = 0; t < nq; t++)
                acc[t][j] = _mm256_fmadd_ps(ep[t], vp, acc[t][j]);
        }
    }
    UNROLL
    for (size_t t = 0; t < nq; t++) {
        UNROLL
        for (size_t j = 0; j < nv; j++)
            _mm256_storeu_ps(o + t * a->dim + j * VEC, acc[t][j]);
    }
}

/* Ask for as many bytes of the values of MIX_STEP positions from p on as n of their
 * dimensions take, from where d take them; there may be no such positions. */
SL_INLINE void fetch_values(enum sl_dtype type, const struct sl_attn *a,
                            size_t p, size_t p1, size_t d, size_t n)
{
    const char *at;

    if (p >= p1)
        return;
    at = (const char *)a->v[p / SL_KV_PAGE] +
         p % SL_KV_PAGE * value_bytes(type, a->dim) +
         value_bytes(type, d) * MIX_STEP;
    for (size_t i = 0; i < value_bytes(type, n) * MIX_STEP; i += 64)
        _mm_prefetch(at + i, _MM_HINT_T1);
}

/* All dimensions for p0 <= p < p1, a few positions at a time, while the sums
 * wait in the nearest cache. The dimensions of one position are read in turns,
 * a line of each position at a time, which no prefetcher foresees: so the next
 * positions are asked for meanwhile. */
SL_INLINE void mix_all(enum sl_dtype type, size_t nq, size_t nv,
                       const struct sl_attn *a, size_t t, size_t p0, size_t p1)
{
    const size_t bytes = value_bytes(type, a->dim);
    float unit[MIX_STEP][UNITS];
    size_t end;

    for (size_t p = p0; p < p1; p = end) {
        const uint8_t *v =
            (const uint8_t *)a->v[p / SL_KV_PAGE] + p % SL_KV_PAGE * bytes;

        end = sl_min(p / MIX_STEP * MIX_STEP + MIX_STEP, p1);
        for (size_t d = 0, n; d < a->dim; d += n) {
            const float *u = unit[0] + d / SL_BFP % UNITS;

            if (type == SL_BFP8 && d % (UNITS * SL_BFP) == 0)
                value_units(unit, v + d / SL_BFP, bytes, end - p);
            if (d + nv * VEC <= a->dim) {
                n = nv * VEC;
                fetch_values(type, a, end, p1, d, n);
                mix(type, nq, nv, a, t, d, p, end, u);
            } else {
                n = VEC;
                mix(type, nq, 1, a, t, d, p, end, u);
            }
        }
    }
}

/* Queries t to t + nq - 1, which may see different numbers of positions: what
 * all see together, the rest one by one. */
SL_INLINE void queries(enum sl_dtype type, size_t nq, size_t nt, size_t nv,
                       const struct sl_attn *a, size_t t)
{
    size_t common = a->n_valid[t], most = common;

    for (size_t i = t + 1; i < t + nq; i++) {
        common = sl_min(common, a->n_valid[i]);
        most = sl_max(most, a->n_valid[i]);
    }
    scores(type, nq, nt, a, t, most);
    for (size_t i = t; a->n_skip && i < t + nq; i++)
        for (size_t p = 0; p < a->n_skip[i] && p < a->n_valid[i]; p++)
            a->scratch[i * SL_KV_BLOCK + p] = -INFINITY;
    for (size_t i = t; i < t + nq; i++)
        a->m[i] =
            softmax(a->scratch + i * SL_KV_BLOCK, a->n_valid[i], &a->l[i]);
    for (size_t i = 0; i < nq * a->dim; i += VEC)
        _mm256_storeu_ps(a->o + t * a->dim + i, _mm256_setzero_ps());
    mix_all(type, nq, nv, a, t, 0, common);
    for (size_t i = t; i < t + nq; i++)
        if (a->n_valid[i] > common)
            mix_all(type, 1, 8, a, i, common, a->n_valid[i]);
}

/* The numbers of tiles and registers fill the sixteen registers. */
SL_INLINE void attn(enum sl_dtype type, const struct sl_attn *a)
{
    size_t nq;

    for (size_t t = 0; t < a->n_q; t += nq) {
        nq = share(a->n_q - t);
        switch (nq) {
        case 1:
            queries(type, 1, 4, 8, a, t);
            break;
        case 2:
            queries(type, 2, 2, 4, a, t);
            break;
        case 3:
            queries(type, 3, 1, 2, a, t);
            break;
        case 4:
            queries(type, 4, 1, 2, a, t);
            break;
        }
    }
}

static void attn_f32(const struct sl_attn *a)
{
    attn(SL_F32, a);
}

static void attn_bf16(const struct sl_attn *a)
{
    attn(SL_BF16, a);
}

static void attn_bfp8(const struct sl_attn *a)
{
    attn(SL_BFP8, a);
}

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

/* Sixteen positions lie between neighbours, so only the rounding goes eight at
 * a time. */
static void put_k_bf16(void *restrict page, size_t pos, const float *k,
                       size_t dim)
{
    uint16_t *out = (uint16_t *)page + pos / SL_TILE * dim * SL_TILE;

    for (size_t d = 0; d < dim; d += VEC) {
        size_t n = sl_min(dim - d, VEC);
        uint16_t h[VEC];

        _mm_storeu_si128((__m128i *)(void *)h, pack_bf16(load_n(k + d, n)));
        for (size_t i = 0; i < n; i++)
            out[(d + i) * SL_TILE + pos % SL_TILE] = h[i];
    }
}

void sl_kern_init_attn__avx2(struct sl_kern *k)
{
    k->put_k[SL_BF16] = put_k_bf16;
    k->put_v[SL_BF16] = put_v_bf16;
    k->attn[SL_F32] = attn_f32;
    k->attn[SL_BF16] = attn_bf16;
    k->attn[SL_BFP8] = attn_bfp8;
    k->attn_merge = attn_merge;
}
