/* kern/quant.h - quantised weights: blocks of one row, and groups of eight
 *
 * A quantised matrix is known in two forms.
 *
 * Blocks, as in files: each row by itself, 16, 32 or 256 elements of the input
 * dimension to a block. The formats whose names begin with q are those of GGUF
 * (struct sl_q4_k_block, ...): little endian, f16 scales, no padding. bfp8 and
 * bfp4 are Tenstorrent's BFP8_b and BFP4_b with the sixteen elements that share
 * an exponent taken along the row.
 *
 * Groups, as in memory and in the packed file: eight rows interleaved, so that
 * one vector of 32 bytes holds four neighbouring columns of eight output rows,
 * one 32-bit lane to a row, and a sum over columns never crosses a lane:
 *
 *        byte   0    1    2    3  | 4    5    6    7  | ... | 28   29   30   31
 *        row    0    0    0    0  | 1    1    1    1  |     | 7    7    7    7
 *        column c   c+1  c+2  c+3 | c   c+1  c+2  c+3 |     | c   c+1  c+2  c+3
 *
 * Every scale is stored as eight neighbours, one per row. One struct holds 32
 * columns, or 256 for the types with super-blocks; a group of eight rows is
 * their sequence along the columns, a matrix the sequence of its groups, the
 * last one padded with rows that are zero. A group takes exactly the bytes of
 * the eight rows it was made of, and packing moves bits without changing any
 * (but for the sign of a zero in bfp8 and bfp4, which no encoder writes): from
 * a group the blocks can be had back (kern/quantise.h does both).
 *
 * The layout is the same for every instruction set. Nibbles are stored so that
 * the low halves of a vector are columns c to c+3 and the high halves c+16 to
 * c+19: one mask and one shift unpack them, no shuffle.
 *
 * Elements are stored as unsigned numbers u. Below, i is a vector of four
 * columns (column 4 i + j of its 32), r the row, j the byte of the lane.
 *
 *   type  value of an element                          u
 *   q8_0  d * (u - 128)                                0 to 255
 *   q6_k  d * sc * (u - 32), sc per 16 columns         0 to 63
 *   q5_k  d * sc * u - dmin * m, per 32 columns        0 to 31
 *   q4_k  d * sc * u - dmin * m, per 32 columns        0 to 15
 *   q4_0  d * (u - 8)                                  0 to 15
 *   q5_0  d * (u - 16)                                 0 to 31
 *   q4_1  d * u + m                                    0 to 15
 *   q5_1  d * u + m                                    0 to 31
 *   q3_k  d * (sc - 32) * (u - 4), sc per 16 columns   0 to 7
 *   q2_k  d * sc * u - dmin * m, both per 16 columns   0 to 3
 *   iq4_nl  d * t[u]                                   0 to 15
 *   iq4_xs  d * (sc - 32) * t[u], sc per 32 columns    0 to 15
 *   mxfp4 2^(e - 128) * t[u], e per 32 columns         0 to 15
 *   bfp8  2^(e - 133) * (u - 128), e per 16 columns    1 to 255
 *   bfp4  2^(e - 129) * (u - 8), e per 16 columns      1 to 15
 *
 * (bfp: with e = 0 the power counts as 0; the encoder flushes denormals. t are
 * sl_quant_iq4 and sl_quant_e2m1.)
 * Kernels are defined for every pattern of bits, the impossible ones included.
 */
#ifndef SL_KERN_QUANT_H
#define SL_KERN_QUANT_H

#include "base/base.h"
#include "base/dtype.h"

#define SL_QBLOCK 32  /* columns that share a scale of the activations */
#define SL_QSUPER 256 /* columns of a block with scales of scales */

/* --- blocks of one row --- */

struct sl_q8_0_block {
    uint16_t d; /* f16 */
    int8_t q[32];
};

struct sl_q4_0_block {
    uint16_t d;
    uint8_t q[16]; /* low half: element j, high half: element j + 16 */
};

/* Eight scales and minima of six bits in twelve bytes:
 *   b < 4:  sc = s[b] & 63                         m = s[b + 4] & 63
 *   b >= 4: sc = s[b + 4] & 15 | s[b - 4] >> 6 << 4
 *           m  = s[b + 4] >> 4 | s[b] >> 6 << 4 */
struct sl_q4_k_block {
    uint16_t d, dmin;
    uint8_t s[12];
    uint8_t q[128]; /* byte 32 p + l: element l of sub-blocks 2 p, 2 p + 1 */
};

struct sl_q5_k_block {
    uint16_t d, dmin;
    uint8_t s[12];
    uint8_t
        h[32]; /* bit b of byte l: the fifth bit of element l, sub-block b */
    uint8_t q[128];
};

struct sl_q6_k_block {
    uint8_t ql[128]; /* see model.md 10.5 for the order */
    uint8_t qh[64];
    int8_t sc[16];
    uint16_t d;
};

struct sl_q4_1_block {
    uint16_t d, m;
    uint8_t q[16]; /* as q4_0's */
};

struct sl_q5_0_block {
    uint16_t d;
    uint8_t h[4]; /* bit i % 8 of byte i / 8: the fifth bit of element i */
    uint8_t q[16];
};

struct sl_q5_1_block {
    uint16_t d, m;
    uint8_t h[4];
    uint8_t q[16];
};

struct sl_q3_k_block {
    uint8_t h[32]; /* as q5_k's: the third bit */
    uint8_t q[64]; /* as q6_k's qh */
    uint8_t s[12]; /* sl_quant_six of 16 */
    uint16_t d;
};

struct sl_q2_k_block {
    uint8_t s[16]; /* scale, above it minimum, of 16 elements each */
    uint8_t q[64];
    uint16_t d, dmin;
};

/* (iq4_nl has the struct of q4_0.) */
struct sl_iq4_xs_block {
    uint16_t d;
    uint16_t sh;   /* bits 2 b, 2 b + 1: the top of the scale of sub-block b */
    uint8_t sl[4]; /* low half: sub-block 2 i, high half: 2 i + 1 */
    uint8_t q[128];
};

struct sl_mxfp4_block {
    uint8_t e;
    uint8_t q[16]; /* as q4_0's */
};

/* Sign in the top bit, magnitude below it; never minus zero. */
struct sl_bfp8_block {
    uint8_t e;
    uint8_t q[16];
};

struct sl_bfp4_block {
    uint8_t e;
    uint8_t q[8]; /* low half: element 2 j, high half: element 2 j + 1 */
};

/* --- groups of eight rows --- */

struct sl_q8_0_group {  /* 32 columns */
    uint16_t d[8];      /*   0   16  f16 */
    uint8_t q[8][8][4]; /*  16  256  [i][r][j] */
};

struct sl_q4_0_group {  /* 32 columns */
    uint16_t d[8];      /*   0   16 */
    uint8_t q[4][8][4]; /*  16  128  low: column 4 i + j, high: + 16 */
};

/* 256 columns; s[k][r] is byte k of the twelve of row r. q[b] is like q4_0's
 * for sub-block b. */
struct sl_q4_k_group {
    uint16_t d[8], dmin[8]; /*   0    32 */
    uint8_t s[12][8];       /*  32    96 */
    uint8_t q[8][4][8][4];  /* 128  1024 */
};

/* Bit i of h[b][r][j] is the fifth bit of column 4 i + j of sub-block b. */
struct sl_q5_k_group {
    uint16_t d[8], dmin[8]; /*   0    32 */
    uint8_t s[12][8];       /*  32    96 */
    uint8_t h[8][8][4];     /* 128   256 */
    uint8_t q[8][4][8][4];  /* 384  1024 */
};

/* Bits 2 i, 2 i + 1 of h[b][k][r][j] are the top of column 16 k + 4 i + j. */
struct sl_q6_k_group {
    uint16_t d[8];         /*   0    16 */
    int8_t sc[8][8][2];    /*  16   128  [b][r][half of the 32 columns] */
    uint8_t h[8][2][8][4]; /* 144   512 */
    uint8_t q[8][4][8][4]; /* 656  1024 */
};

struct sl_q4_1_group { /* 32 columns; q like q4_0's from here on */
    uint16_t d[8], m[8];
    uint8_t q[4][8][4];
};

struct sl_q5_0_group { /* 32 columns */
    uint16_t d[8];
    uint8_t h[8][4]; /* like one h[b] of q5_k */
    uint8_t q[4][8][4];
};

struct sl_q5_1_group { /* 32 columns */
    uint16_t d[8], m[8];
    uint8_t h[8][4];
    uint8_t q[4][8][4];
};

/* h is like q5_k's, q like q6_k's h. */
struct sl_q3_k_group {
    uint16_t d[8];
    uint8_t s[12][8];
    uint8_t h[8][8][4];
    uint8_t q[8][2][8][4];
};

struct sl_q2_k_group {
    uint16_t d[8], dmin[8];
    uint8_t s[16][8];
    uint8_t q[8][2][8][4];
};

struct sl_iq4_xs_group {
    uint16_t d[8];
    uint8_t s[6][8]; /* sl_quant_six of 8 */
    uint8_t q[8][4][8][4];
};

struct sl_mxfp4_group { /* 32 columns */
    uint8_t e[8];
    uint8_t q[4][8][4];
};

struct sl_bfp8_group {  /* 32 columns */
    uint8_t e[2][8];    /*   0   16  exponent of columns 0-15, 16-31 */
    uint8_t q[8][8][4]; /*  16  256 */
};

struct sl_bfp4_group {  /* 32 columns */
    uint8_t e[2][8];    /*   0   16 */
    uint8_t q[4][8][4]; /*  16  128 */
};

_Static_assert(sizeof(struct sl_q8_0_block) == 34, "GGUF");
_Static_assert(sizeof(struct sl_q4_0_block) == 18, "GGUF");
_Static_assert(sizeof(struct sl_q4_k_block) == 144, "GGUF");
_Static_assert(sizeof(struct sl_q5_k_block) == 176, "GGUF");
_Static_assert(sizeof(struct sl_q6_k_block) == 210, "GGUF");
_Static_assert(offsetof(struct sl_q4_k_block, q) == 16, "GGUF");
_Static_assert(offsetof(struct sl_q5_k_block, q) == 48, "GGUF");
_Static_assert(offsetof(struct sl_q6_k_block, d) == 208, "GGUF");
_Static_assert(sizeof(struct sl_q4_1_block) == 20, "GGUF");
_Static_assert(sizeof(struct sl_q5_0_block) == 22, "GGUF");
_Static_assert(sizeof(struct sl_q5_1_block) == 24, "GGUF");
_Static_assert(sizeof(struct sl_q3_k_block) == 110, "GGUF");
_Static_assert(sizeof(struct sl_q2_k_block) == 84, "GGUF");
_Static_assert(sizeof(struct sl_iq4_xs_block) == 136, "GGUF");
_Static_assert(sizeof(struct sl_mxfp4_block) == 17, "GGUF");
_Static_assert(sizeof(struct sl_bfp8_block) == 17, "BFP8_b");
_Static_assert(sizeof(struct sl_bfp4_block) == 9, "BFP4_b");
_Static_assert(sizeof(struct sl_q8_0_group) == 8 * 34, "bytes of 8 rows");
_Static_assert(sizeof(struct sl_q4_0_group) == 8 * 18, "bytes of 8 rows");
_Static_assert(sizeof(struct sl_q4_k_group) == 8 * 144, "bytes of 8 rows");
_Static_assert(sizeof(struct sl_q5_k_group) == 8 * 176, "bytes of 8 rows");
_Static_assert(sizeof(struct sl_q6_k_group) == 8 * 210, "bytes of 8 rows");
_Static_assert(sizeof(struct sl_q4_1_group) == 8 * 20, "bytes of 8 rows");
_Static_assert(sizeof(struct sl_q5_0_group) == 8 * 22, "bytes of 8 rows");
_Static_assert(sizeof(struct sl_q5_1_group) == 8 * 24, "bytes of 8 rows");
_Static_assert(sizeof(struct sl_q3_k_group) == 8 * 110, "bytes of 8 rows");
_Static_assert(sizeof(struct sl_q2_k_group) == 8 * 84, "bytes of 8 rows");
_Static_assert(sizeof(struct sl_iq4_xs_group) == 8 * 136, "bytes of 8 rows");
_Static_assert(sizeof(struct sl_mxfp4_group) == 8 * 17, "bytes of 8 rows");
_Static_assert(sizeof(struct sl_bfp8_group) == 8 * 2 * 17, "bytes of 8 rows");
_Static_assert(sizeof(struct sl_bfp4_group) == 8 * 2 * 9, "bytes of 8 rows");
_Static_assert(offsetof(struct sl_q4_k_group, q) == 128, "layout");
_Static_assert(offsetof(struct sl_q5_k_group, h) == 128, "layout");
_Static_assert(offsetof(struct sl_q5_k_group, q) == 384, "layout");
_Static_assert(offsetof(struct sl_q6_k_group, h) == 144, "layout");
_Static_assert(offsetof(struct sl_q6_k_group, q) == 656, "layout");

/* Scale and minimum of sub-block b of q4_k and q5_k; s is byte 0 of the twelve
 * and `step` the distance of its bytes (1 in a block, 8 in a group). */
static inline unsigned sl_quant_k_scale(const uint8_t *s, size_t step, size_t b)
{
    if (b < 4)
        return s[b * step] & 63u;
    return (s[(b + 4) * step] & 15u) | (s[(b - 4) * step] & 0xc0u) >> 2;
}

static inline unsigned sl_quant_k_min(const uint8_t *s, size_t step, size_t b)
{
    if (b < 4)
        return s[(b + 4) * step] & 63u;
    return (unsigned)s[(b + 4) * step] >> 4 | (s[b * step] & 0xc0u) >> 2;
}

/* Scale k of n = 8 or 16, of six bits, in n / 2 + n / 4 bytes: the low four
 * bits first, those of scale k + n / 2 above those of k, then the others, of k
 * + n / 4 above those of k. */
static inline unsigned sl_quant_six(const uint8_t *s, size_t step, size_t n,
                                    size_t k)
{
    unsigned low = s[k % (n / 2) * step], top = s[(n / 2 + k % (n / 4)) * step];

    return (low >> k / (n / 2) * 4 & 15) | (top >> k / (n / 4) * 2 & 3) << 4;
}

/* The same, of eight rows of a group at once. */
static inline void sl_quant_six_rows(uint8_t out[8], const uint8_t *s, size_t n,
                                     size_t k)
{
    const uint64_t byte = 0x0101010101010101u;
    uint64_t low, top;

    __builtin_memcpy(&low, s + k % (n / 2) * 8, 8);
    __builtin_memcpy(&top, s + (n / 2 + k % (n / 4)) * 8, 8);
    low = (low >> k / (n / 2) * 4 & 15 * byte) |
          (top >> k / (n / 4) * 2 & 3 * byte) << 4;
    __builtin_memcpy(out, &low, 8);
}

/* Levels of iq4_nl and iq4_xs; and of mxfp4, twice those of E2M1. */
static const int8_t sl_quant_iq4[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t sl_quant_e2m1[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                         0, -1, -2, -3, -4, -6, -8, -12};

/* 2^(e - 128), for every e, denormal ones included: the product of the powers
 * of both halves. */
static inline float sl_quant_mxfp4_unit(unsigned e)
{
    uint32_t a = (e / 2 + 63) << 23, b = ((e + 1) / 2 + 63) << 23;
    float f, g;

    __builtin_memcpy(&f, &a, sizeof(f));
    __builtin_memcpy(&g, &b, sizeof(g));
    return f * g;
}

/* 2^(e - 127 - bits) for e > 0, else 0: the worth of one unit of a bfp element
 * with `bits` = 6 (bfp8) or 2 (bfp4). Exact. */
static inline float sl_quant_bfp_unit(unsigned e, unsigned bits)
{
    uint32_t u = (uint32_t)e << 23;
    float f;

    __builtin_memcpy(&f, &u, sizeof(f));
    return f * (bits == 6 ? 0x1p-6f : 0x1p-2f);
}

#endif
