/* kern/quant_pack.c - blocks of eight rows -> a group, and back; see quantise.h
 *
 * Both directions are one function per type that moves a unit of columns (32,
 * or 256) of one row: `to` says which way. So they cannot disagree.
 *
 * They go byte by byte, and packing is what a first start waits for. So for the
 * types that come in files there is a second packer that moves four columns at
 * a time; the tests take its groups apart again with the first.
 */
#include <string.h>

#include "kern/quant.h"
#include "kern/quantise.h"

enum way { PACK, UNPACK };

static void move8(uint8_t *group, uint8_t *row, enum way to)
{
    if (to == PACK)
        *group = *row;
    else
        *row = *group;
}

static void move16(uint16_t *group, uint16_t *row, enum way to)
{
    if (to == PACK)
        *group = *row;
    else
        *row = *group;
}

/* The bits of `mask` at some place in one byte <-> in another. */
static void move_bits(uint8_t *group, size_t shift_g, uint8_t *row,
                      size_t shift_r, unsigned mask, enum way to)
{
    uint8_t *src = to == PACK ? row : group, *dst = to == PACK ? group : row;
    size_t from = to == PACK ? shift_r : shift_g;
    size_t at = to == PACK ? shift_g : shift_r;

    *dst = (uint8_t)((*dst & ~(mask << at)) | ((unsigned)*src >> from & mask)
                                                  << at);
}

/* Where column c of 32 lies in a vector of halves of bytes. */
static uint8_t *nibble_at(uint8_t q[4][8][4], size_t r, size_t c)
{
    return &q[c % 16 / 4][r][c % 4];
}

static void unit_q8_0(void *group, void *row, size_t r, enum way to)
{
    struct sl_q8_0_group *g = group;
    struct sl_q8_0_block *b = row;

    move16(&g->d[r], &b->d, to);
    for (size_t c = 0; c < 32; c++) {
        uint8_t *u = &g->q[c / 4][r][c % 4];

        if (to == PACK)
            *u = (uint8_t)(b->q[c] + 128);
        else
            b->q[c] = (int8_t)(*u - 128);
    }
}

static void unit_q4_0(void *group, void *row, size_t r, enum way to)
{
    struct sl_q4_0_group *g = group;
    struct sl_q4_0_block *b = row;

    move16(&g->d[r], &b->d, to);
    for (size_t c = 0; c < 16; c++)
        move8(nibble_at(g->q, r, c), &b->q[c], to);
}

/* Bytes whose order is the same: a group holds row r's four at a time. */
static void unit_bytes4(uint8_t (*group)[8][4], uint8_t *row, size_t n,
                        size_t r, enum way to)
{
    for (size_t i = 0; i < n; i++)
        move8(&group[i / 4][r][i % 4], &row[i], to);
}

/* One more bit of 32 elements; bit i % 8 of byte i / 8 in a block. */
static void unit_extra(uint8_t h[8][4], uint8_t row[4], size_t r, enum way to)
{
    for (size_t c = 0; c < 32; c++)
        move_bits(&h[r][c % 4], c / 4, &row[c / 8], c % 8, 1, to);
}

static void unit_q4_1(void *group, void *row, size_t r, enum way to)
{
    struct sl_q4_1_group *g = group;
    struct sl_q4_1_block *b = row;

    move16(&g->d[r], &b->d, to);
    move16(&g->m[r], &b->m, to);
    unit_bytes4(g->q, b->q, 16, r, to);
}

static void unit_q5_0(void *group, void *row, size_t r, enum way to)
{
    struct sl_q5_0_group *g = group;
    struct sl_q5_0_block *b = row;

    move16(&g->d[r], &b->d, to);
    unit_extra(g->h, b->h, r, to);
    unit_bytes4(g->q, b->q, 16, r, to);
}

static void unit_q5_1(void *group, void *row, size_t r, enum way to)
{
    struct sl_q5_1_group *g = group;
    struct sl_q5_1_block *b = row;

    move16(&g->d[r], &b->d, to);
    move16(&g->m[r], &b->m, to);
    unit_extra(g->h, b->h, r, to);
    unit_bytes4(g->q, b->q, 16, r, to);
}

static void unit_mxfp4(void *group, void *row, size_t r, enum way to)
{
    struct sl_mxfp4_group *g = group;
    struct sl_mxfp4_block *b = row;

    move8(&g->e[r], &b->e, to);
    unit_bytes4(g->q, b->q, 16, r, to);
}

/* Scales of six bits, four low bits of sub-block i in half i % 2 of a byte. */
static void unit_iq4_xs(void *group, void *row, size_t r, enum way to)
{
    struct sl_iq4_xs_group *g = group;
    struct sl_iq4_xs_block *b = row;
    uint8_t sh[2] = {(uint8_t)b->sh, (uint8_t)(b->sh >> 8)};

    move16(&g->d[r], &b->d, to);
    for (size_t i = 0; i < 8; i++) {
        move_bits(&g->s[i % 4][r], i / 4 * 4, &b->sl[i / 2], i % 2 * 4, 15, to);
        move_bits(&g->s[4 + i % 2][r], i / 2 * 2, &sh[i / 4], i % 4 * 2, 3, to);
    }
    b->sh = (uint16_t)(sh[0] | sh[1] << 8);
    unit_bytes4(g->q[0], b->q, 128, r, to);
}

/* The low four bits of 256 elements: those of a byte are 32 columns apart in a
 * block, 16 in a group. */
static void unit_k_nibbles(uint8_t q[8][4][8][4], uint8_t row[128], size_t r,
                           enum way to)
{
    for (size_t i = 0; i < 256; i++) {
        size_t b = i / 32, c = i % 32;

        move_bits(nibble_at(q[b], r, c), c / 16 * 4, &row[b / 2 * 32 + c],
                  b % 2 * 4, 15, to);
    }
}

/* One more bit of 256 elements, a byte for every 32nd one in a block. */
static void unit_k_extra(uint8_t h[8][8][4], uint8_t row[32], size_t r,
                         enum way to)
{
    for (size_t i = 0; i < 256; i++)
        move_bits(&h[i / 32][r][i % 4], i % 32 / 4, &row[i % 32], i / 32, 1,
                  to);
}

/* Two bits of 256 elements. */
static void unit_k_two_bits(uint8_t q[8][2][8][4], uint8_t row[64], size_t r,
                            enum way to)
{
    for (size_t i = 0; i < 256; i++)
        move_bits(&q[i / 32][i % 32 / 16][r][i % 4], i % 16 / 4 * 2,
                  &row[i / 128 * 32 + i % 32], i / 32 % 4 * 2, 3, to);
}

static void unit_q3_k(void *group, void *row, size_t r, enum way to)
{
    struct sl_q3_k_group *g = group;
    struct sl_q3_k_block *b = row;

    move16(&g->d[r], &b->d, to);
    for (size_t i = 0; i < 12; i++)
        move8(&g->s[i][r], &b->s[i], to);
    unit_k_extra(g->h, b->h, r, to);
    unit_k_two_bits(g->q, b->q, r, to);
}

static void unit_q2_k(void *group, void *row, size_t r, enum way to)
{
    struct sl_q2_k_group *g = group;
    struct sl_q2_k_block *b = row;

    move16(&g->d[r], &b->d, to);
    move16(&g->dmin[r], &b->dmin, to);
    for (size_t i = 0; i < 16; i++)
        move8(&g->s[i][r], &b->s[i], to);
    unit_k_two_bits(g->q, b->q, r, to);
}

static void unit_q4_k(void *group, void *row, size_t r, enum way to)
{
    struct sl_q4_k_group *g = group;
    struct sl_q4_k_block *b = row;

    move16(&g->d[r], &b->d, to);
    move16(&g->dmin[r], &b->dmin, to);
    for (size_t i = 0; i < 12; i++)
        move8(&g->s[i][r], &b->s[i], to);
    unit_k_nibbles(g->q, b->q, r, to);
}

static void unit_q5_k(void *group, void *row, size_t r, enum way to)
{
    struct sl_q5_k_group *g = group;
    struct sl_q5_k_block *b = row;

    move16(&g->d[r], &b->d, to);
    move16(&g->dmin[r], &b->dmin, to);
    for (size_t i = 0; i < 12; i++)
        move8(&g->s[i][r], &b->s[i], to);
    unit_k_nibbles(g->q, b->q, r, to);
    unit_k_extra(g->h, b->h, r, to);
}

static void unit_q6_k(void *group, void *row, size_t r, enum way to)
{
    struct sl_q6_k_group *g = group;
    struct sl_q6_k_block *b = row;

    move16(&g->d[r], &b->d, to);
    for (size_t i = 0; i < 16; i++)
        move8((uint8_t *)&g->sc[i / 2][r][i % 2], (uint8_t *)&b->sc[i], to);
    for (size_t i = 0; i < 256; i++) {
        size_t half = i / 128, part = i / 32 % 4, l = i % 32;
        size_t s = i / 32, c = i % 32;

        move_bits(nibble_at(g->q[s], r, c), c / 16 * 4,
                  &b->ql[64 * half + 32 * (part % 2) + l], part / 2 * 4, 15,
                  to);
    }
    unit_k_two_bits(g->h, b->qh, r, to);
}

/* A sign and a magnitude of `width` bits <-> an offset number. */
static uint8_t to_offset(unsigned code, unsigned width)
{
    unsigned m = code & ((1u << width) - 1), zero = 1u << width;

    return (uint8_t)(code >> width ? zero - m : zero + m);
}

static unsigned from_offset(unsigned u, unsigned width)
{
    unsigned zero = 1u << width;

    return u < zero ? zero | (zero - u) : u - zero;
}

static void unit_bfp8(void *group, void *row, size_t r, enum way to)
{
    struct sl_bfp8_group *g = group;
    struct sl_bfp8_block *b = row;

    for (size_t c = 0; c < 32; c++) {
        uint8_t *u = &g->q[c / 4][r][c % 4], *q = &b[c / 16].q[c % 16];

        move8(&g->e[c / 16][r], &b[c / 16].e, to);
        if (to == PACK)
            *u = to_offset(*q, 7);
        else
            *q = (uint8_t)from_offset(*u, 7);
    }
}

static void unit_bfp4(void *group, void *row, size_t r, enum way to)
{
    struct sl_bfp4_group *g = group;
    struct sl_bfp4_block *b = row;

    for (size_t c = 0; c < 32; c++) {
        uint8_t *u = nibble_at(g->q, r, c), *q = &b[c / 16].q[c % 16 / 2];
        size_t at = c / 16 * 4, from = c % 2 * 4;

        move8(&g->e[c / 16][r], &b[c / 16].e, to);
        if (to == PACK)
            *u = (uint8_t)((*u & ~(15u << at)) |
                           (unsigned)to_offset((unsigned)*q >> from & 15, 3)
                               << at);
        else
            *q = (uint8_t)((*q & ~(15u << from)) |
                           (from_offset((unsigned)*u >> at & 15, 3) & 15u)
                               << from);
    }
}

/* --- packing, four columns at a time --- */

#define LOW 0x0f0f0f0fu /* the low halves of four bytes */

static uint32_t load4(const void *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static void store4(void *p, uint32_t v)
{
    memcpy(p, &v, sizeof(v));
}

static void fast_q8_0(void *group, const void *row, size_t r)
{
    struct sl_q8_0_group *g = group;
    const struct sl_q8_0_block *b = row;

    g->d[r] = b->d;
    for (size_t i = 0; i < 8; i++)
        store4(g->q[i][r], load4(b->q + 4 * i) ^ 0x80808080u);
}

static void fast_q4_0(void *group, const void *row, size_t r)
{
    struct sl_q4_0_group *g = group;
    const struct sl_q4_0_block *b = row;

    g->d[r] = b->d;
    for (size_t i = 0; i < 4; i++)
        store4(g->q[i][r], load4(b->q + 4 * i));
}

static void fast_bytes4(uint8_t (*group)[8][4], const uint8_t *row, size_t n,
                        size_t r)
{
    for (size_t i = 0; i < n / 4; i++)
        store4(group[i][r], load4(row + 4 * i));
}

/* Bits 4 i to 4 i + 3 become bit i of four bytes. */
static void fast_extra(uint8_t h[8][4], const uint8_t row[4], size_t r)
{
    uint32_t v = 0;

    for (size_t i = 0; i < 8; i++) {
        uint32_t four = (uint32_t)row[i / 2] >> i % 2 * 4 & 15;

        /* Bit k of four to bit 8 k: the copies do not meet below the mask. */
        v |= (four * 0x00204081u & 0x01010101u) << i;
    }
    store4(h[r], v);
}

static void fast_q4_1(void *group, const void *row, size_t r)
{
    struct sl_q4_1_group *g = group;
    const struct sl_q4_1_block *b = row;

    g->d[r] = b->d;
    g->m[r] = b->m;
    fast_bytes4(g->q, b->q, 16, r);
}

static void fast_q5_0(void *group, const void *row, size_t r)
{
    struct sl_q5_0_group *g = group;
    const struct sl_q5_0_block *b = row;

    g->d[r] = b->d;
    fast_extra(g->h, b->h, r);
    fast_bytes4(g->q, b->q, 16, r);
}

static void fast_q5_1(void *group, const void *row, size_t r)
{
    struct sl_q5_1_group *g = group;
    const struct sl_q5_1_block *b = row;

    g->d[r] = b->d;
    g->m[r] = b->m;
    fast_extra(g->h, b->h, r);
    fast_bytes4(g->q, b->q, 16, r);
}

static void fast_mxfp4(void *group, const void *row, size_t r)
{
    struct sl_mxfp4_group *g = group;
    const struct sl_mxfp4_block *b = row;

    g->e[r] = b->e;
    fast_bytes4(g->q, b->q, 16, r);
}

static void fast_iq4_xs(void *group, const void *row, size_t r)
{
    struct sl_iq4_xs_group *g = group;
    const struct sl_iq4_xs_block *b = row;

    g->d[r] = b->d;
    for (size_t i = 0; i < 4; i++)
        g->s[i][r] = (uint8_t)((b->sl[i / 2] >> i % 2 * 4 & 15) |
                               (b->sl[2 + i / 2] >> i % 2 * 4 & 15) << 4);
    for (size_t i = 0; i < 2; i++) {
        unsigned v = 0;

        for (size_t k = 0; k < 4; k++)
            v |= ((unsigned)b->sh >> (4 * k + 2 * i) & 3) << 2 * k;
        g->s[4 + i][r] = (uint8_t)v;
    }
    fast_bytes4(g->q[0], b->q, 128, r);
}

static void fast_k_nibbles(uint8_t q[8][4][8][4], const uint8_t row[128],
                           size_t r)
{
    for (size_t p = 0; p < 4; p++)
        for (size_t i = 0; i < 4; i++) {
            uint32_t a = load4(row + 32 * p + 4 * i);
            uint32_t b = load4(row + 32 * p + 16 + 4 * i);

            store4(q[2 * p][i][r], (a & LOW) | (b & LOW) << 4);
            store4(q[2 * p + 1][i][r], (a >> 4 & LOW) | (b & ~LOW));
        }
}

static void fast_k_extra(uint8_t q[8][8][4], const uint8_t row[32], size_t r)
{
    uint32_t h[8];

    for (size_t i = 0; i < 8; i++)
        h[i] = load4(row + 4 * i);
    for (size_t k = 0; k < 8; k++) {
        uint32_t v = 0;

        for (size_t i = 0; i < 8; i++)
            v |= (h[i] >> k & 0x01010101u) << i;
        store4(q[k][r], v);
    }
}

static void fast_k_two_bits(uint8_t q[8][2][8][4], const uint8_t row[64],
                            size_t r)
{
    for (size_t k = 0; k < 16; k++) {
        const uint8_t *p = row + k / 8 * 32 + k % 2 * 16;
        uint32_t v = 0;

        for (size_t i = 0; i < 4; i++)
            v |= (load4(p + 4 * i) >> k / 2 % 4 * 2 & 0x03030303u) << 2 * i;
        store4(q[k / 2][k % 2][r], v);
    }
}

static void fast_q3_k(void *group, const void *row, size_t r)
{
    struct sl_q3_k_group *g = group;
    const struct sl_q3_k_block *b = row;

    g->d[r] = b->d;
    for (size_t i = 0; i < 12; i++)
        g->s[i][r] = b->s[i];
    fast_k_extra(g->h, b->h, r);
    fast_k_two_bits(g->q, b->q, r);
}

static void fast_q2_k(void *group, const void *row, size_t r)
{
    struct sl_q2_k_group *g = group;
    const struct sl_q2_k_block *b = row;

    g->d[r] = b->d;
    g->dmin[r] = b->dmin;
    for (size_t i = 0; i < 16; i++)
        g->s[i][r] = b->s[i];
    fast_k_two_bits(g->q, b->q, r);
}

static void fast_q4_k(void *group, const void *row, size_t r)
{
    struct sl_q4_k_group *g = group;
    const struct sl_q4_k_block *b = row;

    g->d[r] = b->d;
    g->dmin[r] = b->dmin;
    for (size_t i = 0; i < 12; i++)
        g->s[i][r] = b->s[i];
    fast_k_nibbles(g->q, b->q, r);
}

static void fast_q5_k(void *group, const void *row, size_t r)
{
    struct sl_q5_k_group *g = group;
    const struct sl_q5_k_block *b = row;

    g->d[r] = b->d;
    g->dmin[r] = b->dmin;
    for (size_t i = 0; i < 12; i++)
        g->s[i][r] = b->s[i];
    fast_k_nibbles(g->q, b->q, r);
    fast_k_extra(g->h, b->h, r);
}

static void fast_q6_k(void *group, const void *row, size_t r)
{
    struct sl_q6_k_group *g = group;
    const struct sl_q6_k_block *b = row;

    g->d[r] = b->d;
    for (size_t k = 0; k < 8; k++) {
        size_t half = k / 4, part = k % 4, s = part / 2 * 4;
        const uint8_t *lo = b->ql + 64 * half + 32 * (part % 2);

        g->sc[k][r][0] = b->sc[2 * k];
        g->sc[k][r][1] = b->sc[2 * k + 1];
        for (size_t i = 0; i < 4; i++) {
            uint32_t x = load4(lo + 4 * i) >> s & LOW;
            uint32_t y = load4(lo + 16 + 4 * i) >> s & LOW;

            store4(g->q[k][i][r], x | y << 4);
        }
    }
    fast_k_two_bits(g->h, b->qh, r);
}

typedef void fast_fn(void *group, const void *row, size_t r);

/* NULL: the types that no file has. */
static fast_fn *fast_of(enum sl_dtype t)
{
    static fast_fn *const all[SL_N_DTYPE] = {
        [SL_Q8_0] = fast_q8_0, [SL_Q4_0] = fast_q4_0, [SL_Q4_K] = fast_q4_k,
        [SL_Q5_K] = fast_q5_k, [SL_Q6_K] = fast_q6_k, [SL_Q5_1] = fast_q5_1,
        [SL_Q5_0] = fast_q5_0, [SL_Q4_1] = fast_q4_1, [SL_Q3_K] = fast_q3_k,
        [SL_Q2_K] = fast_q2_k, [SL_IQ4_NL] = fast_q4_0,
        [SL_IQ4_XS] = fast_iq4_xs, [SL_MXFP4] = fast_mxfp4};

    return all[t];
}

/* --- by type --- */

typedef void unit_fn(void *group, void *row, size_t r, enum way to);

/* The columns that one call moves. */
static size_t unit_cols(enum sl_dtype t)
{
    return sl_max(sl_dtype_get(t)->block, SL_QBLOCK);
}

static unit_fn *unit_of(enum sl_dtype t)
{
    static unit_fn *const units[SL_N_DTYPE] = {
        [SL_Q8_0] = unit_q8_0, [SL_Q6_K] = unit_q6_k, [SL_Q5_K] = unit_q5_k,
        [SL_Q4_K] = unit_q4_k, [SL_Q4_0] = unit_q4_0, [SL_BFP8] = unit_bfp8,
        [SL_BFP4] = unit_bfp4, [SL_Q5_1] = unit_q5_1, [SL_Q5_0] = unit_q5_0,
        [SL_Q4_1] = unit_q4_1, [SL_Q3_K] = unit_q3_k, [SL_Q2_K] = unit_q2_k,
        [SL_IQ4_NL] = unit_q4_0, [SL_IQ4_XS] = unit_iq4_xs,
        [SL_MXFP4] = unit_mxfp4};

    SL_CHECK(sl_quant_is(t));
    return units[t];
}

/* A copy of the blocks of one unit, aligned for their structs. */
struct unit {
    unsigned char b[sizeof(struct sl_q6_k_block)] SL_ALIGNED(8);
};

/* All units of one group. Sources need no alignment, structs do. */
static void pack_fast(enum sl_dtype t, unsigned char *group,
                      const void *const rows[8], size_t cols)
{
    size_t unit = unit_cols(t), bytes = sl_dtype_bytes(t, unit);
    unsigned char g[8 * sizeof(struct sl_q6_k_block)] SL_ALIGNED(64);
    fast_fn *move = fast_of(t);

    for (size_t i = 0; i < cols / unit; i++) {
        for (size_t r = 0; r < 8; r++) {
            struct unit row = {{0}};

            if (rows[r])
                memcpy(row.b, (const unsigned char *)rows[r] + i * bytes,
                       bytes);
            move(g, row.b, r);
        }
        memcpy(group + i * 8 * bytes, g, 8 * bytes);
    }
}

void sl_quant_pack(enum sl_dtype t, void *group, const void *const rows[8],
                   size_t cols)
{
    size_t unit = unit_cols(t), bytes = sl_dtype_bytes(t, unit);
    unsigned char g[8 * sizeof(struct sl_q6_k_block)] SL_ALIGNED(8);
    unit_fn *move = unit_of(t);

    SL_CHECK(cols % unit == 0);
    if (fast_of(t)) {
        pack_fast(t, group, rows, cols);
        return;
    }
    for (size_t i = 0; i < cols / unit; i++) {
        memset(g, 0, sizeof(g));
        for (size_t r = 0; r < 8; r++) {
            struct unit row = {{0}};

            if (rows[r])
                memcpy(row.b, (const unsigned char *)rows[r] + i * bytes,
                       bytes);
            move(g, row.b, r, PACK);
        }
        memcpy((unsigned char *)group + i * 8 * bytes, g, 8 * bytes);
    }
}

void sl_quant_unpack(enum sl_dtype t, void *row, const void *group, size_t r,
                     size_t cols)
{
    size_t unit = unit_cols(t), bytes = sl_dtype_bytes(t, unit);
    unsigned char g[8 * sizeof(struct sl_q6_k_block)] SL_ALIGNED(8);
    unit_fn *move = unit_of(t);

    SL_CHECK(r < 8 && cols % unit == 0);
    for (size_t i = 0; i < cols / unit; i++) {
        struct unit u = {{0}};

        memcpy(g, (const unsigned char *)group + i * 8 * bytes, 8 * bytes);
        move(g, u.b, r, UNPACK);
        memcpy((unsigned char *)row + i * bytes, u.b, bytes);
    }
}
