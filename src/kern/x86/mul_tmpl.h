/* kern/x86/mul_tmpl.h - products with a weight matrix, for one type of weight
 *
 * Included once per type by mul_avx2.c, which defines
 *   T         the element
 *   NAME(x)   the name of x for this type
 *   LOAD(p, s)  eight elements at p as floats, s their scale if SCALED
 *   SCALED    1: there is a scale per SL_FP8_BLOCK columns
 */

/* m tokens by g groups of eight rows; both are constants where this is inlined,
 * so that the m * g chains live in registers. `rows` counts from the first
 * group and ends in the last. */
SL_INLINE void NAME(block)(size_t m, size_t g, float *restrict y, size_t ldy,
                           const T *restrict w, const float *restrict scale,
                           const float *restrict x, size_t ldx, size_t rows,
                           size_t cols)
{
    const size_t n_scale = (cols + SL_FP8_BLOCK - 1) / SL_FP8_BLOCK;
    __m256 acc[MAX_M][MAX_G], s[MAX_G];
    size_t c = 0;

    UNROLL
    for (size_t t = 0; t < m; t++)
        UNROLL
    for (size_t i = 0; i < g; i++)
        acc[t][i] = _mm256_setzero_ps();
    while (c < cols) {
        size_t end = SCALED ? sl_min(c + SL_FP8_BLOCK, cols) : cols;

        UNROLL
        for (size_t i = 0; i < g; i++)
            s[i] = SCALED
                       ? _mm256_set1_ps(scale[i * n_scale + c / SL_FP8_BLOCK])
                       : _mm256_setzero_ps();
        for (; c < end; c++) {
            __m256 v[MAX_G];

            UNROLL
            for (size_t i = 0; i < g; i++)
                v[i] = LOAD(w + (i * cols + c) * SL_GROUP, s[i]);
            UNROLL
            for (size_t t = 0; t < m; t++) {
                __m256 xc = _mm256_broadcast_ss(x + t * ldx + c);

                UNROLL
                for (size_t i = 0; i < g; i++)
                    acc[t][i] = _mm256_fmadd_ps(v[i], xc, acc[t][i]);
            }
        }
    }
    UNROLL
    for (size_t t = 0; t < m; t++)
        UNROLL
    for (size_t i = 0; i < g; i++)
        store_n(y + t * ldy + i * SL_GROUP, acc[t][i], rows - i * SL_GROUP);
}

/* m tokens, any number of rows: as many groups at once as keep the chains in
 * registers, then one by one. */
SL_INLINE void NAME(strip)(size_t m, size_t g, float *restrict y, size_t ldy,
                           const T *restrict w, const float *restrict scale,
                           const float *restrict x, size_t ldx, size_t rows,
                           size_t cols)
{
    const size_t n_scale = (cols + SL_FP8_BLOCK - 1) / SL_FP8_BLOCK;
    size_t r = 0;

    for (; r + (g - 1) * SL_GROUP < rows; r += g * SL_GROUP)
        NAME(block)
    (m, g, y + r, ldy, w + r * cols,
     SCALED ? scale + r / SL_GROUP * n_scale : scale, x, ldx, rows - r, cols);
    for (; g > 1 && r < rows; r += SL_GROUP)
        NAME(block)
    (m, 1, y + r, ldy, w + r * cols,
     SCALED ? scale + r / SL_GROUP * n_scale : scale, x, ldx, rows - r, cols);
}

/* m tokens, all rows: m becomes a constant. */
static void NAME(strips)(size_t m, float *restrict y, size_t ldy,
                         const T *restrict w, const float *restrict scale,
                         const float *restrict x, size_t ldx, size_t rows,
                         size_t cols)
{
    switch (m) {
    case 1:
        NAME(strip)(1, 4, y, ldy, w, scale, x, ldx, rows, cols);
        break;
    case 2:
        NAME(strip)(2, 4, y, ldy, w, scale, x, ldx, rows, cols);
        break;
    case 3:
        NAME(strip)(3, 3, y, ldy, w, scale, x, ldx, rows, cols);
        break;
    case 4:
        NAME(strip)(4, 2, y, ldy, w, scale, x, ldx, rows, cols);
        break;
    case 5:
        NAME(strip)(5, 2, y, ldy, w, scale, x, ldx, rows, cols);
        break;
    case 6:
        NAME(strip)(6, 2, y, ldy, w, scale, x, ldx, rows, cols);
        break;
    }
}

static void NAME(mul)(float *restrict y, size_t ldy, const void *restrict w,
                      const float *restrict scale, const float *restrict x,
                      size_t ldx, size_t n_tok, size_t rows, size_t cols)
{
    const size_t n_scale = (cols + SL_FP8_BLOCK - 1) / SL_FP8_BLOCK;
    size_t chunk = sl_max(X_BYTES / (sl_max(cols, 1) * sizeof(float)), MAX_M);
    size_t step = n_tok <= MAX_M ? sl_max(rows, 1) : STRIP_ROWS;

    for (size_t t0 = 0; t0 < n_tok; t0 += chunk) {
        size_t end = sl_min(t0 + chunk, n_tok);

        for (size_t r = 0; r < rows; r += step) {
            const float *sr = SCALED ? scale + r / SL_GROUP * n_scale : scale;
            const T *wr = (const T *)w + r * cols;
            size_t m;

            for (size_t t = t0; t < end; t += m) {
                m = share(end - t);
                NAME(strips)
                (m, y + t * ldy + r, ldy, wr, sr, x + t * ldx, ldx,
                 sl_min(step, rows - r), cols);
            }
        }
    }
}
