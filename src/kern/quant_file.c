/* kern/quant_file.c - blocks of other programs; see quant_file.h */
#include "kern/quant_file.h"

#include "kern/math.h"
#include "kern/quant.h"

static uint16_t load16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static float f16(const uint8_t *p)
{
    return sl_f16_f32(load16(p));
}

/* Element i of 32 in 16 bytes: low halves first. */
static unsigned nibble(const uint8_t *q, size_t i)
{
    return (unsigned)q[i % 16] >> i / 16 * 4 & 15;
}

/* The fifth bit of element i of 32 in 4 bytes. */
static unsigned fifth(const uint8_t *h, size_t i)
{
    return ((unsigned)h[i / 8] >> i % 8 & 1) << 4;
}

/* --- integers of elements --- */

static int u_q5_0(const uint8_t *b, size_t i)
{
    return (int)(nibble(b + 6, i) | fifth(b + 2, i)) - 16;
}

/* 2-bit element i of 256 in 64 bytes. */
static unsigned two_bits(const uint8_t *q, size_t i)
{
    return (unsigned)q[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3;
}

static int u_q3_k(const uint8_t *b, size_t i)
{
    unsigned high = (unsigned)b[i % 32] >> i / 32 & 1;

    return (int)(two_bits(b + 32, i) | high << 2) - 4;
}

/* --- what blocks mean --- */

static void row_q4_1(float *y, const uint8_t *b)
{
    for (size_t i = 0; i < 32; i++)
        y[i] = f16(b) * (float)nibble(b + 4, i) + f16(b + 2);
}

static void row_q5_0(float *y, const uint8_t *b)
{
    for (size_t i = 0; i < 32; i++)
        y[i] = f16(b) * (float)u_q5_0(b, i);
}

static void row_q5_1(float *y, const uint8_t *b)
{
    for (size_t i = 0; i < 32; i++)
        y[i] =
            f16(b) * (float)(nibble(b + 8, i) | fifth(b + 4, i)) + f16(b + 2);
}

static void row_q2_k(float *y, const uint8_t *b)
{
    for (size_t i = 0; i < 256; i++) {
        float d = f16(b + 80) * (float)(b[i / 16] & 15);
        float m = f16(b + 82) * (float)(b[i / 16] >> 4);

        y[i] = d * (float)two_bits(b + 16, i) - m;
    }
}

static void row_q3_k(float *y, const uint8_t *b)
{
    for (size_t i = 0; i < 256; i++)
        y[i] = f16(b + 108) *
               ((float)sl_quant_six(b + 96, 1, 16, i / 16) - 32) *
               (float)u_q3_k(b, i);
}

static void row_iq4_nl(float *y, const uint8_t *b)
{
    for (size_t i = 0; i < 32; i++)
        y[i] = f16(b) * (float)sl_quant_iq4[nibble(b + 2, i)];
}

static void row_iq4_xs(float *y, const uint8_t *b)
{
    unsigned sh = load16(b + 2);

    for (size_t k = 0; k < 8; k++) {
        int s = (int)(((unsigned)b[4 + k / 2] >> k % 2 * 4 & 15) |
                      (sh >> 2 * k & 3) << 4) -
                32;

        for (size_t i = 0; i < 32; i++)
            y[32 * k + i] = f16(b) * (float)s *
                            (float)sl_quant_iq4[nibble(b + 8 + 16 * k, i)];
    }
}

static void row_mxfp4(float *y, const uint8_t *b)
{
    for (size_t i = 0; i < 32; i++)
        y[i] =
            sl_quant_mxfp4_unit(b[0]) * (float)sl_quant_e2m1[nibble(b + 1, i)];
}

/* --- by type --- */

typedef void row_fn(float *y, const uint8_t *b);

static row_fn *const rows[SL_N_DTYPE] = {
    [SL_Q4_1] = row_q4_1,     [SL_Q5_0] = row_q5_0,  [SL_Q5_1] = row_q5_1,
    [SL_Q2_K] = row_q2_k,     [SL_Q3_K] = row_q3_k,  [SL_IQ4_NL] = row_iq4_nl,
    [SL_IQ4_XS] = row_iq4_xs, [SL_MXFP4] = row_mxfp4};

bool sl_quant_file_is(enum sl_dtype t)
{
    return (size_t)t < SL_N_DTYPE && rows[t] != NULL;
}

void sl_quant_file_row(enum sl_dtype t, float *y, const void *src, size_t n)
{
    const struct sl_dtype_info *d = sl_dtype_get(t);
    const uint8_t *b = src;

    SL_CHECK(sl_quant_file_is(t) && n % d->block == 0);
    for (size_t i = 0; i < n / d->block; i++)
        rows[t](y + i * d->block, b + i * d->bytes);
}
