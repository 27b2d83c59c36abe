/* kern/x86/attn_tmpl.h - attention over one block, for one type of element
 *
 * Included once per type by attn_avx2.c, which defines T, NAME(x) and LOAD(p),
 * eight elements at p as floats.
 */

/* Scores of nq queries against nt tiles of keys, positions in lanes; both
 * numbers are constants where this is inlined. */
SL_INLINE void NAME(score)(size_t nq, size_t nt, float *s, const T *k,
                           const float *q, size_t ld_q, size_t dim, float scale)
{
    __m256 acc[MAX_Q][2 * MAX_TILES];

    UNROLL
    for (size_t t = 0; t < nq; t++)
        UNROLL
    for (size_t h = 0; h < 2 * nt; h++)
        acc[t][h] = _mm256_setzero_ps();
    for (size_t d = 0; d < dim; d++) {
        __m256 v[2 * MAX_TILES];

        UNROLL
        for (size_t h = 0; h < 2 * nt; h++)
            v[h] = LOAD(k + (h / 2 * dim + d) * SL_TILE + h % 2 * VEC);
        UNROLL
        for (size_t t = 0; t < nq; t++) {
            __m256 qd = _mm256_broadcast_ss(q + t * ld_q + d);

            UNROLL
            for (size_t h = 0; h < 2 * nt; h++)
                acc[t][h] = _mm256_fmadd_ps(qd, v[h], acc[t][h]);
        }
    }
    UNROLL
    for (size_t t = 0; t < nq; t++)
        UNROLL
    for (size_t h = 0; h < 2 * nt; h++)
        _mm256_storeu_ps(s + t * SL_KV_BLOCK + h * VEC,
                         _mm256_mul_ps(acc[t][h], set(scale)));
}

/* Scores of nq queries from t on against the tiles that hold n positions. */
SL_INLINE void NAME(scores)(size_t nq, size_t nt, const struct sl_attn *a,
                            size_t t, size_t n)
{
    const float *q = a->q + t * a->ld_q;
    float *s = a->scratch + t * SL_KV_BLOCK;
    size_t tiles = (n + SL_TILE - 1) / SL_TILE, i = 0;

    while (i < tiles) {
        const T *page = a->k[i * SL_TILE / SL_KV_PAGE];
        const T *k = page + i * SL_TILE % SL_KV_PAGE * a->dim;

        /* i is a multiple of nt, so nt tiles never leave the page. */
        if (tiles - i >= nt) {
            NAME(score)
            (nq, nt, s + i * SL_TILE, k, q, a->ld_q, a->dim, a->scale);
            i += nt;
        } else {
            NAME(score)
            (nq, 1, s + i * SL_TILE, k, q, a->ld_q, a->dim, a->scale);
            i++;
        }
    }
}

/* o_d += e_p v_pd in order for p0 <= p < p1 within a page: nq queries, nv
 * registers of dimensions. */
SL_INLINE void NAME(mix)(size_t nq, size_t nv, float *o, size_t ld_o,
                         const T *v, const float *e, size_t p0, size_t p1,
                         size_t dim)
{
    __m256 acc[MAX_Q][MAX_V];

    UNROLL
    for (size_t t = 0; t < nq; t++)
        UNROLL
    for (size_t j = 0; j < nv; j++)
        acc[t][j] = _mm256_loadu_ps(o + t * ld_o + j * VEC);
    for (size_t p = p0; p < p1; p++) {
        __m256 ep[MAX_Q];

        UNROLL
        for (size_t t = 0; t < nq; t++)
            ep[t] = _mm256_broadcast_ss(e + t * SL_KV_BLOCK + p);
        UNROLL
        for (size_t j = 0; j < nv; j++) {
            __m256 vp = LOAD(v + p * dim + j * VEC);

            UNROLL
            for (size_t t = 0; t < nq; t++)
                acc[t][j] = _mm256_fmadd_ps(ep[t], vp, acc[t][j]);
        }
    }
    UNROLL
    for (size_t t = 0; t < nq; t++)
        UNROLL
    for (size_t j = 0; j < nv; j++)
        _mm256_storeu_ps(o + t * ld_o + j * VEC, acc[t][j]);
}

/* All dimensions, positions p0 to p1 of the block, a few positions at a time so
 * that values are read in one stream and the sums wait in the nearest cache. */
SL_INLINE void NAME(mix_all)(size_t nq, size_t nv, const struct sl_attn *a,
                             size_t t, size_t p0, size_t p1)
{
    float *o = a->o + t * a->dim;
    size_t end;

    for (size_t p = p0; p < p1; p = end) {
        const size_t base = p / SL_KV_PAGE * SL_KV_PAGE;
        const T *v = a->v[p / SL_KV_PAGE];
        const float *e = a->scratch + t * SL_KV_BLOCK + base;
        size_t d = 0;

        end = sl_min(p / MIX_STEP * MIX_STEP + MIX_STEP, p1);
        for (; d + nv * VEC <= a->dim; d += nv * VEC)
            NAME(mix)
        (nq, nv, o + d, a->dim, v + d, e, p - base, end - base, a->dim);
        for (; d < a->dim; d += VEC)
            NAME(mix)
        (nq, 1, o + d, a->dim, v + d, e, p - base, end - base, a->dim);
    }
}

/* Queries t to t + nq - 1, which may see different numbers of positions: what
 * all see together, the rest one by one. */
SL_INLINE void NAME(queries)(size_t nq, size_t nt, size_t nv,
                             const struct sl_attn *a, size_t t)
{
    size_t common = a->n_valid[t], most = common;

    for (size_t i = 1; i < nq; i++) {
        common = sl_min(common, a->n_valid[t + i]);
        most = sl_max(most, a->n_valid[t + i]);
    }
    NAME(scores)(nq, nt, a, t, most);
    for (size_t i = t; i < t + nq; i++)
        a->m[i] =
            softmax(a->scratch + i * SL_KV_BLOCK, a->n_valid[i], &a->l[i]);
    for (size_t i = 0; i < nq * a->dim; i += VEC)
        _mm256_storeu_ps(a->o + t * a->dim + i, _mm256_setzero_ps());
    NAME(mix_all)(nq, nv, a, t, 0, common);
    for (size_t i = t; i < t + nq; i++)
        if (a->n_valid[i] > common)
            NAME(mix_all)(1, 8, a, i, common, a->n_valid[i]);
}

static void NAME(attn)(const struct sl_attn *a)
{
    size_t nq;

    for (size_t t = 0; t < a->n_q; t += nq) {
        nq = share(a->n_q - t);
        switch (nq) {
        case 1:
            NAME(queries)(1, 4, 8, a, t);
            break;
        case 2:
            NAME(queries)(2, 2, 4, a, t);
            break;
        case 3:
            NAME(queries)(3, 1, 2, a, t);
            break;
        case 4:
            NAME(queries)(4, 1, 2, a, t);
            break;
        case 5:
            NAME(queries)(5, 1, 2, a, t);
            break;
        case 6:
            NAME(queries)(6, 1, 1, a, t);
            break;
        }
    }
}
