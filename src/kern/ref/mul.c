/* kern/ref/mul.c - products with a weight matrix
 *
 * The formula is the same for every type of weight; only the function that
 * fetches w(r, c) differs.
 */
#include <math.h>

#include "kern/math.h"
#include "kern/ref/ref.h"

/* Element (r, c) in its group of eight rows. */
static size_t at(size_t r, size_t c, size_t cols)
{
    return (r / SL_GROUP * cols + c) * SL_GROUP + r % SL_GROUP;
}

typedef float weight_fn(const void *w, const float *scale, size_t r, size_t c,
                        size_t cols);

static float weight_f32(const void *w, const float *scale, size_t r, size_t c,
                        size_t cols)
{
    (void)scale;
    return ((const float *)w)[at(r, c, cols)];
}

static float weight_bf16(const void *w, const float *scale, size_t r, size_t c,
                         size_t cols)
{
    (void)scale;
    return sl_bf16_f32(((const uint16_t *)w)[at(r, c, cols)]);
}

static float weight_f16(const void *w, const float *scale, size_t r, size_t c,
                        size_t cols)
{
    (void)scale;
    return sl_f16_f32(((const uint16_t *)w)[at(r, c, cols)]);
}

static float weight_fp8(const void *w, const float *scale, size_t r, size_t c,
                        size_t cols)
{
    size_t blocks = (cols + SL_FP8_BLOCK - 1) / SL_FP8_BLOCK; /* in a row */
    float s = scale[r / SL_GROUP * blocks + c / SL_FP8_BLOCK];

    return sl_e4m3_f32(((const uint8_t *)w)[at(r, c, cols)]) * s;
}

/* y[t][r] = sum over c of w(r, c) * x[t][c], one chain per output */
static void mul(weight_fn *weight, float *restrict y, size_t ldy,
                const void *restrict w, const float *restrict scale,
                const float *restrict x, size_t ldx, size_t n_tok, size_t rows,
                size_t cols)
{
    for (size_t t = 0; t < n_tok; t++) {
        for (size_t r = 0; r < rows; r++) {
            float acc = 0;

            for (size_t c = 0; c < cols; c++)
                acc = fmaf(weight(w, scale, r, c, cols), x[t * ldx + c], acc);
            y[t * ldy + r] = acc;
        }
    }
}

static void mul_f32(float *restrict y, size_t ldy, const void *restrict w,
                    const float *restrict scale, const float *restrict x,
                    size_t ldx, size_t n_tok, size_t rows, size_t cols)
{
    mul(weight_f32, y, ldy, w, scale, x, ldx, n_tok, rows, cols);
}

static void mul_bf16(float *restrict y, size_t ldy, const void *restrict w,
                     const float *restrict scale, const float *restrict x,
                     size_t ldx, size_t n_tok, size_t rows, size_t cols)
{
    mul(weight_bf16, y, ldy, w, scale, x, ldx, n_tok, rows, cols);
}

static void mul_f16(float *restrict y, size_t ldy, const void *restrict w,
                    const float *restrict scale, const float *restrict x,
                    size_t ldx, size_t n_tok, size_t rows, size_t cols)
{
    mul(weight_f16, y, ldy, w, scale, x, ldx, n_tok, rows, cols);
}

static void mul_fp8(float *restrict y, size_t ldy, const void *restrict w,
                    const float *restrict scale, const float *restrict x,
                    size_t ldx, size_t n_tok, size_t rows, size_t cols)
{
    mul(weight_fp8, y, ldy, w, scale, x, ldx, n_tok, rows, cols);
}

/* y[c] = w(row, c) */
static void row(weight_fn *weight, float *restrict y, const void *restrict w,
                const float *restrict scale, size_t r, size_t cols)
{
    for (size_t c = 0; c < cols; c++)
        y[c] = weight(w, scale, r, c, cols);
}

static void row_f32(float *restrict y, const void *restrict w,
                    const float *restrict scale, size_t r, size_t cols)
{
    row(weight_f32, y, w, scale, r, cols);
}

static void row_bf16(float *restrict y, const void *restrict w,
                     const float *restrict scale, size_t r, size_t cols)
{
    row(weight_bf16, y, w, scale, r, cols);
}

static void row_f16(float *restrict y, const void *restrict w,
                    const float *restrict scale, size_t r, size_t cols)
{
    row(weight_f16, y, w, scale, r, cols);
}

static void row_fp8(float *restrict y, const void *restrict w,
                    const float *restrict scale, size_t r, size_t cols)
{
    row(weight_fp8, y, w, scale, r, cols);
}

void sl_kern_init_ref_mul(struct sl_kern *k)
{
    k->mul[SL_F32] = mul_f32;
    k->mul[SL_BF16] = mul_bf16;
    k->mul[SL_F16] = mul_f16;
    k->mul[SL_FP8] = mul_fp8;
    k->row[SL_F32] = row_f32;
    k->row[SL_BF16] = row_bf16;
    k->row[SL_F16] = row_f16;
    k->row[SL_FP8] = row_fp8;
}
