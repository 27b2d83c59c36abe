/* kern/wide/attn_tmpl.h - keys and values into pages, and attention over them
 *
 * The algorithm of x86/attn_avx2.c: scores have positions in lanes and the
 * dimension in time, the mix of values has dimensions in lanes and positions in
 * time, and queries of one block share each load. With 32 registers a whole
 * page of keys is in flight for any number of queries.
 *
 * Includer: defines the operations of wide.h, and ISA(x).
 */
#include <string.h>

#include "kern/math.h"
#include "kern/quant.h"
#include "kern/wide/math_tmpl.h"

enum {
    N = SL_TILE / VEC, /* registers of a tile */
    MAX_Q = 4,         /* queries of one block */
    MAX_K = 8,         /* registers of keys of one block */
    MAX_V = 8,         /* registers of dimensions of one block */
    /* Positions whose values are mixed before the next dimensions, as for AVX2.
     * Divides a page. */
    MIX_STEP = 16,
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
    vf v = set(-INFINITY);
    float m;

    for (size_t p = 0; p < n; p += VEC)
        v = vmax(choose(first(n - p), load(s + p), v), v);
    m = top(v);
    for (size_t p = 0; m == 0 && p < n; p++)
        if (s[p] == 0)
            return s[p];
    return m;
}

/* e_p = exp(s_p - m) in place; returns m, and l = lanes(e). s has room for a
 * whole block. The zeros of empty lanes do not matter: a sum that starts from 0
 * and never meets a negative number is not -0. */
static float softmax(float *s, size_t n, float *l)
{
    float m = maximum(s, n);
    vf acc[N];

    UNROLL
    for (size_t j = 0; j < N; j++)
        acc[j] = set(0);
    for (size_t p = 0; p < n; p += SL_TILE) {
        UNROLL
        for (size_t j = 0; j < N; j++) {
            size_t i = p + j * VEC;
            vf e = vec_exp(vsub(load(s + i), set(m)));

            e = choose(first(i < n ? n - i : 0), e, set(0));
            store(s + i, e);
            acc[j] = vadd(acc[j], e);
        }
    }
    *l = lanes_sum(acc);
    return m;
}

/* Keys of VEC positions, dimension d, from register h of the tiles of a page
 * on. `unit` is theirs for the block of d (bfp8). */
SL_INLINE vf keys(enum sl_dtype type, const void *page, size_t dim, size_t h,
                  size_t d, vf unit)
{
    const size_t tile = h / N;
    size_t i = (tile * dim + d) * SL_TILE + h % N * VEC;

    if (type == SL_F32)
        return load((const float *)page + i);
    if (type == SL_BF16)
        return load_bf16((const uint16_t *)page + i);
    /* Each block so far, this one too, has a row of exponents before it. */
    i += (tile * (dim / SL_BFP) + d / SL_BFP + 1) * SL_TILE;
    return vmul(load_i8((const int8_t *)page + i), unit);
}

/* The units of these positions in the block that begins with dimension d. */
SL_INLINE vf key_unit(const void *page, size_t dim, size_t h, size_t d)
{
    const size_t block = (h / N * dim + d) / SL_BFP;
    const uint8_t *e = (const uint8_t *)page +
                       block * (SL_BFP + 1) * SL_TILE + h % N * VEC;

    return vmul(floats(ishl(load_u8(e), 23)), set(0x1p-6f));
}

/* min(n, VEC) dimensions from d on of the value of a position of the page. */
SL_INLINE vf values(enum sl_dtype type, const void *page, size_t dim,
                    size_t pos, size_t d, size_t n)
{
    const uint8_t *at;

    if (type == SL_F32)
        return load_n((const float *)page + pos * dim + d, n);
    if (type == SL_BF16) {
        const uint16_t *p = (const uint16_t *)page + pos * dim + d;
        uint16_t part[VEC] = {0};

        if (n >= VEC)
            return load_bf16(p);
        memcpy(part, p, n * sizeof(*p));
        return load_bf16(part);
    }
    /* Dimensions come by sixteen. */
    at = (const uint8_t *)page + pos * (dim / SL_BFP + dim);
    return vmul(load_i8((const int8_t *)at + dim / SL_BFP + d),
                set(sl_quant_bfp_unit(at[d / SL_BFP], 6)));
}

/* Bytes of one dimension of a tile of keys, and of the tile. */
SL_INLINE size_t key_bytes(enum sl_dtype type)
{
    return SL_TILE * (type == SL_F32 ? 4 : type == SL_BF16 ? 2 : 1);
}

SL_INLINE size_t tile_bytes(enum sl_dtype type, size_t dim)
{
    return (type == SL_BFP8 ? dim + dim / SL_BFP : dim) * key_bytes(type);
}

/* Where tile i of n lies; behind the last one, the first values. */
SL_INLINE const uint8_t *tile_at(enum sl_dtype type, const struct sl_attn *a,
                                 size_t i, size_t n)
{
    const size_t per = SL_KV_PAGE / SL_TILE;

    return i < n ? (const uint8_t *)a->k[i / per] +
                       i % per * tile_bytes(type, a->dim)
                 : (const uint8_t *)a->v[0];
}

/* Scores of nq queries from t0 on against nk registers of keys from register i
 * on, all in one page; both numbers are constants where this is inlined.
 * Meanwhile as much from `next` on is asked for: a tile is over before the
 * processor has seen where it reads. */
SL_INLINE void score(enum sl_dtype type, size_t nq, size_t nk,
                     const struct sl_attn *a, size_t t0, size_t i,
                     const uint8_t *next)
{
    const void *page = a->k[i * VEC / SL_KV_PAGE];
    const size_t h0 = i % (SL_KV_PAGE / VEC);
    const float *q = a->q + t0 * a->ld_q;
    float *s = a->scratch + t0 * SL_KV_BLOCK + i * VEC;
    vf acc[MAX_Q][MAX_K], qd[MAX_Q], unit[MAX_K];

    UNROLL
    for (size_t h = 0; h < nk; h++) {
        unit[h] = set(0);
        UNROLL
        for (size_t t = 0; t < nq; t++)
            acc[t][h] = set(0);
    }
    for (size_t d = 0; d < a->dim; d++) {
        if (d * key_bytes(type) % 64 == 0) {
            UNROLL
            for (size_t h = 0; h < nk / N; h++)
                __builtin_prefetch(next + h * tile_bytes(type, a->dim) +
                                   d * key_bytes(type), 0, 2);
        }
        if (type == SL_BFP8 && d % SL_BFP == 0) {
            UNROLL
            for (size_t h = 0; h < nk; h++)
                unit[h] = key_unit(page, a->dim, h0 + h, d);
        }
        UNROLL
        for (size_t t = 0; t < nq; t++)
            qd[t] = set(q[t * a->ld_q + d]);
        UNROLL
        for (size_t h = 0; h < nk; h++) {
            vf kd = keys(type, page, a->dim, h0 + h, d, unit[h]);

            UNROLL
            for (size_t t = 0; t < nq; t++)
                acc[t][h] = vfma(qd[t], kd, acc[t][h]);
        }
    }
    UNROLL
    for (size_t t = 0; t < nq; t++) {
        UNROLL
        for (size_t h = 0; h < nk; h++)
            store(s + t * SL_KV_BLOCK + h * VEC,
                  vmul(acc[t][h], set(a->scale)));
    }
}

/* Against all tiles that hold the first n positions. */
SL_INLINE void scores(enum sl_dtype type, size_t nq, size_t nk,
                      const struct sl_attn *a, size_t t, size_t n)
{
    size_t n_tile = (n + SL_TILE - 1) / SL_TILE, i = 0;

    /* nk divides the registers of a page, so they never leave it. */
    for (; i + nk <= n_tile * N; i += nk)
        score(type, nq, nk, a, t, i, tile_at(type, a, (i + nk) / N, n_tile));
    for (; i < n_tile * N; i += N)
        score(type, nq, N, a, t, i, tile_at(type, a, i / N + 1, n_tile));
}

/* o_d += e_p v_pd in order for p0 <= p < p1, all in one page: nq queries from
 * t0 on, nv registers of dimensions from d on, the last of n dimensions. */
SL_INLINE void mix(enum sl_dtype type, size_t nq, size_t nv, size_t n,
                   const struct sl_attn *a, size_t t0, size_t d, size_t p0,
                   size_t p1)
{
    const void *page = a->v[p0 / SL_KV_PAGE];
    const size_t base = p0 / SL_KV_PAGE * SL_KV_PAGE; /* its first position */
    const float *e = a->scratch + t0 * SL_KV_BLOCK;
    float *o = a->o + t0 * a->dim + d;
    vf acc[MAX_Q][MAX_V], ep[MAX_Q];

    UNROLL
    for (size_t t = 0; t < nq; t++) {
        UNROLL
        for (size_t j = 0; j < nv; j++)
            acc[t][j] = load_n(o + t * a->dim + j * VEC, n);
    }
    for (size_t p = p0; p < p1; p++) {
        UNROLL
        for (size_t t = 0; t < nq; t++)
            ep[t] = set(e[t * SL_KV_BLOCK + p]);
        UNROLL
        for (size_t j = 0; j < nv; j++) {
            vf vp = values(type, page, a->dim, p - base, d + j * VEC, n);

            UNROLL
            for (size_t t = 0; t < nq; t++)
                acc[t][j] = vfma(ep[t], vp, acc[t][j]);
        }
    }
    UNROLL
    for (size_t t = 0; t < nq; t++) {
        UNROLL
        for (size_t j = 0; j < nv; j++)
            store_n(o + t * a->dim + j * VEC, acc[t][j], n);
    }
}

/* Bytes of the value of a position. */
SL_INLINE size_t value_bytes(enum sl_dtype type, size_t dim)
{
    return type == SL_F32    ? 4 * dim
           : type == SL_BF16 ? 2 * dim
                             : dim + dim / SL_BFP;
}

/* Ask for as many bytes of the values of MIX_STEP positions from p on as n of
 * their dimensions take, from where d take them; there may be no such positions.
 */
SL_INLINE void fetch_values(enum sl_dtype type, const struct sl_attn *a,
                            size_t p, size_t p1, size_t d, size_t n)
{
    const uint8_t *at;

    if (p >= p1)
        return;
    at = (const uint8_t *)a->v[p / SL_KV_PAGE] +
         p % SL_KV_PAGE * value_bytes(type, a->dim) +
         value_bytes(type, d) * MIX_STEP;
    for (size_t i = 0; i < value_bytes(type, n) * MIX_STEP; i += 64)
        __builtin_prefetch(at + i, 0, 2);
}

/* All dimensions for p0 <= p < p1, a few positions at a time, while the sums
 * wait in the nearest cache. The dimensions of one position are read in turns,
 * a line of each position at a time, which no prefetcher foresees: so the next
 * positions are asked for meanwhile. */
SL_INLINE void mix_all(enum sl_dtype type, size_t nq, size_t nv,
                       const struct sl_attn *a, size_t t, size_t p0, size_t p1)
{
    size_t end;

    for (size_t p = p0; p < p1; p = end) {
        size_t d = 0;

        end = sl_min(p / MIX_STEP * MIX_STEP + MIX_STEP, p1);
        for (; d + nv * VEC <= a->dim; d += nv * VEC) {
            fetch_values(type, a, end, p1, d, nv * VEC);
            mix(type, nq, nv, VEC, a, t, d, p, end);
        }
        for (; d + VEC <= a->dim; d += VEC)
            mix(type, nq, 1, VEC, a, t, d, p, end);
        if (VEC > 8 && d < a->dim) /* half a register; never of bfp8 */
            mix(type, nq, 1, a->dim - d, a, t, d, p, end);
    }
}

/* Queries t to t + nq - 1, which may see different numbers of positions: what
 * all see together, the rest one by one. */
SL_INLINE void queries(enum sl_dtype type, size_t nq, size_t nk, size_t nv,
                       const struct sl_attn *a, size_t t)
{
    size_t common = a->n_valid[t], most = common;

    for (size_t i = t + 1; i < t + nq; i++) {
        common = sl_min(common, a->n_valid[i]);
        most = sl_max(most, a->n_valid[i]);
    }
    scores(type, nq, nk, a, t, most);
    for (size_t i = t; a->n_skip && i < t + nq; i++)
        for (size_t p = 0; p < a->n_skip[i] && p < a->n_valid[i]; p++)
            a->scratch[i * SL_KV_BLOCK + p] = -INFINITY;
    for (size_t i = t; i < t + nq; i++)
        a->m[i] =
            softmax(a->scratch + i * SL_KV_BLOCK, a->n_valid[i], &a->l[i]);
    for (size_t i = 0; i < nq * a->dim; i++)
        a->o[t * a->dim + i] = 0;
    mix_all(type, nq, nv, a, t, 0, common);
    for (size_t i = t; i < t + nq; i++)
        if (a->n_valid[i] > common)
            mix_all(type, 1, MAX_V, a, i, common, a->n_valid[i]);
}

/* The numbers of registers fill those there are. */
SL_INLINE void attn(enum sl_dtype type, const struct sl_attn *a)
{
    const bool many = REGS == 32;
    size_t nq;

    for (size_t t = 0; t < a->n_q; t += nq) {
        nq = share(a->n_q - t);
        switch (nq) {
        case 1:
            queries(type, 1, many ? 4 : 8, 8, a, t);
            break;
        case 2:
            queries(type, 2, 4, many ? 8 : 4, a, t);
            break;
        case 3:
            queries(type, 3, many ? 4 : 2, many ? 4 : 2, a, t);
            break;
        case 4:
            queries(type, 4, many ? 4 : 2, many ? 4 : 2, a, t);
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
    vf a = vec_exp(set(*m - max)), b = vec_exp(set(m2 - max));

    *l = lowest(vfma(set(l2), b, vmul(set(*l), a)));
    for (size_t d = 0; d < dim; d += VEC) {
        vf old = vmul(load_n(o + d, dim - d), a);

        store_n(o + d, vfma(load_n(o2 + d, dim - d), b, old), dim - d);
    }
    *m = max;
}

static void put_v_bf16(void *restrict page, size_t pos, const float *v,
                       size_t dim)
{
    uint16_t *out = (uint16_t *)page + pos * dim;

    for (size_t d = 0; d < dim; d += VEC)
        store_bf16_n(out + d, load_n(v + d, dim - d), dim - d);
}

/* Sixteen positions lie between neighbours, so only the rounding goes VEC at a
 * time. */
static void put_k_bf16(void *restrict page, size_t pos, const float *k,
                       size_t dim)
{
    uint16_t *out = (uint16_t *)page + pos / SL_TILE * dim * SL_TILE;

    for (size_t d = 0; d < dim; d += VEC) {
        size_t n = sl_min(dim - d, VEC);
        uint16_t h[VEC];

        store_bf16_n(h, load_n(k + d, n), n);
        for (size_t i = 0; i < n; i++)
            out[(d + i) * SL_TILE + pos % SL_TILE] = h[i];
    }
}

void ISA(sl_kern_init_attn)(struct sl_kern *k)
{
    k->put_k[SL_BF16] = put_k_bf16;
    k->put_v[SL_BF16] = put_v_bf16;
    k->attn[SL_F32] = attn_f32;
    k->attn[SL_BF16] = attn_bf16;
    k->attn[SL_BFP8] = attn_bfp8;
    k->attn_merge = attn_merge;
}
