/* kern/quant_file.c - block formats that files have; see quant_file.h */
#include "kern/quant_file.h"

#include <string.h>

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

/* Levels of iq4_nl and iq4_xs. */
static const int8_t level[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};

/* Twice the values of E2M1. */
static const int8_t e2m1[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                0, -1, -2, -3, -4, -6, -8, -12};

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

/* Scale of elements 16 k to 16 k + 15, -32 to 31. */
static int scale_q3_k(const uint8_t *b, size_t k)
{
    const uint8_t *s = b + 96;
    unsigned low = k < 8 ? s[k] & 15u : (unsigned)s[k - 8] >> 4;

    return (int)(low | ((unsigned)s[8 + k % 4] >> k / 4 * 2 & 3) << 4) - 32;
}

/* 2^(e - 128), denormal for e < 2. */
static float power(unsigned e)
{
    uint32_t u = e < 2 ? 0x00200000u << e : (e - 1) << 23;
    float f;

    memcpy(&f, &u, sizeof(f));
    return f;
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
        y[i] =
            f16(b + 108) * (float)scale_q3_k(b, i / 16) * (float)u_q3_k(b, i);
}

static void row_iq4_nl(float *y, const uint8_t *b)
{
    for (size_t i = 0; i < 32; i++)
        y[i] = f16(b) * (float)level[nibble(b + 2, i)];
}

static void row_iq4_xs(float *y, const uint8_t *b)
{
    unsigned sh = load16(b + 2);

    for (size_t k = 0; k < 8; k++) {
        int s = (int)(((unsigned)b[4 + k / 2] >> k % 2 * 4 & 15) |
                      (sh >> 2 * k & 3) << 4) -
                32;

        for (size_t i = 0; i < 32; i++)
            y[32 * k + i] =
                f16(b) * (float)s * (float)level[nibble(b + 8 + 16 * k, i)];
    }
}

static void row_mxfp4(float *y, const uint8_t *b)
{
    for (size_t i = 0; i < 32; i++)
        y[i] = power(b[0]) * (float)e2m1[nibble(b + 1, i)];
}

/* --- the same values in a type with kernels --- */

static bool widen_q5_0(void *dst, const uint8_t *b)
{
    struct sl_q8_0_block *k = dst;

    k->d = load16(b);
    for (size_t i = 0; i < 32; i++)
        k->q[i] = (int8_t)u_q5_0(b, i);
    return true;
}

static bool widen_iq4_nl(void *dst, const uint8_t *b)
{
    struct sl_q8_0_block *k = dst;

    k->d = load16(b);
    for (size_t i = 0; i < 32; i++)
        k->q[i] = level[nibble(b + 2, i)];
    return true;
}

static bool widen_q3_k(void *dst, const uint8_t *b)
{
    struct sl_q6_k_block *k = dst;

    memset(k, 0, sizeof(*k));
    k->d = load16(b + 108);
    for (size_t i = 0; i < 16; i++)
        k->sc[i] = (int8_t)scale_q3_k(b, i);
    for (size_t i = 0; i < 256; i++) {
        unsigned u = (unsigned)(u_q3_k(b, i) + 32);
        size_t half = i / 128, part = i / 32 % 4, l = i % 32;
        uint8_t *lo = &k->ql[64 * half + 32 * (part % 2) + l];
        uint8_t *hi = &k->qh[32 * half + l];

        *lo = (uint8_t)(*lo | (u & 15) << part / 2 * 4);
        *hi = (uint8_t)(*hi | (u >> 4) << 2 * part);
    }
    return true;
}

/* 2^(e - 128) * t = 2^((e + 5) - 133) * t, the form of bfp8. A block of zeros
 * may have any exponent. */
static bool widen_mxfp4(void *dst, const uint8_t *b)
{
    struct sl_bfp8_block *k = dst;
    bool zero = true;

    for (size_t i = 0; i < 32; i++) {
        int t = e2m1[nibble(b + 1, i)];

        zero &= t == 0;
        k[i / 16].e = (uint8_t)(b[0] + 5);
        k[i / 16].q[i % 16] = (uint8_t)(t < 0 ? 0x80 | -t : t);
    }
    return zero || b[0] < 250;
}

/* --- by type --- */

static const struct {
    void (*row)(float *y, const uint8_t *b);
    bool (*widen)(void *dst, const uint8_t *b);
    enum sl_dtype to;
} types[SL_N_DTYPE] = {
    [SL_Q4_1] = {row_q4_1, NULL, SL_N_DTYPE},
    [SL_Q5_0] = {row_q5_0, widen_q5_0, SL_Q8_0},
    [SL_Q5_1] = {row_q5_1, NULL, SL_N_DTYPE},
    [SL_Q2_K] = {row_q2_k, NULL, SL_N_DTYPE},
    [SL_Q3_K] = {row_q3_k, widen_q3_k, SL_Q6_K},
    [SL_IQ4_NL] = {row_iq4_nl, widen_iq4_nl, SL_Q8_0},
    [SL_IQ4_XS] = {row_iq4_xs, NULL, SL_N_DTYPE},
    [SL_MXFP4] = {row_mxfp4, widen_mxfp4, SL_BFP8},
};

bool sl_quant_file_is(enum sl_dtype t)
{
    return (size_t)t < SL_N_DTYPE && types[t].row != NULL;
}

void sl_quant_file_row(enum sl_dtype t, float *y, const void *src, size_t n)
{
    const struct sl_dtype_info *d = sl_dtype_get(t);
    const uint8_t *b = src;

    SL_CHECK(sl_quant_file_is(t) && n % d->block == 0);
    for (size_t i = 0; i < n / d->block; i++)
        types[t].row(y + i * d->block, b + i * d->bytes);
}

enum sl_dtype sl_quant_file_widened(enum sl_dtype t)
{
    return sl_quant_file_is(t) ? types[t].to : SL_N_DTYPE;
}

bool sl_quant_file_widen(enum sl_dtype t, void *dst, const void *src, size_t n)
{
    const struct sl_dtype_info *d = sl_dtype_get(t);
    const uint8_t *b = src;
    uint8_t block[sizeof(struct sl_q6_k_block)] SL_ALIGNED(8);
    bool good = true;
    size_t bytes;

    SL_CHECK(sl_quant_file_widened(t) != SL_N_DTYPE && n % d->block == 0);
    bytes = sl_dtype_bytes(types[t].to, d->block);
    for (size_t i = 0; i < n / d->block; i++) {
        good &= types[t].widen(block, b + i * d->bytes);
        memcpy((uint8_t *)dst + i * bytes, block, bytes);
    }
    return good;
}
