/* kern/wide/mul_tmpl.h - products with a weight matrix in fp32, bf16, f16 or fp8
 *
 * A register holds one column of VEC output rows; an output's chain of fused
 * multiply-adds lives in one lane, and several chains run at once to hide the
 * latency of the fma: g registers of rows times m tokens.
 *
 * Up to MAX_M tokens read the weights once, from memory, and turn them into
 * floats in registers; so do SEVERAL, a strip of rows at a time, which is in a
 * cache for all blocks but the first. For more, a panel of PANEL_G registers by
 * 128 columns is unpacked into the first-level cache and every block of MAX_M
 * tokens passes over it; between panels the chains wait in y, in fp32 as they
 * are. No choice of these changes the operations of an output, hence not its
 * bits.
 *
 * Groups that a strip has beyond the matrix are the last one again, and are not
 * stored.
 *
 * Includer: defines the operations of wide.h, and ISA(x).
 */
#include "kern/wide/wide.h"

enum {
    MAX_M = REGS == 32 ? 8 : 6, /* tokens of one block */
    MAX_G = 4,                  /* registers of rows of one block */
    /* Tokens that go strip by strip, of so many registers of rows: measured for
     * AVX-512; with fewer registers panels stay. */
    SEVERAL = REGS == 32 ? 24 : 0,
    SEVERAL_G = 3,
    PANEL_G = 2,
    PANEL_COLS = SL_FP8_BLOCK, /* and one scale of FP8 per group */
    /* Tokens of a chunk, as for AVX2; not measured on machines that this is
     * for. */
    CHUNK_TOKENS = 192,
};

/* A product, or the part of one that is left to do. */
struct part {
    float *y;
    const uint8_t *w;   /* the first group */
    const float *scale; /* its first scale, or NULL */
    const float *x;
    size_t ldy, ldx;
    size_t ld_w;     /* bytes from group to group */
    size_t ld_scale; /* scales from group to group */
    size_t rows, cols;
};

SL_INLINE size_t column_bytes(enum sl_dtype type)
{
    return SL_GROUP * (type == SL_F32 ? 4 : type == SL_FP8 ? 1 : 2);
}

/* Registers of rows for m tokens: chains, weights and one activation fit. */
SL_INLINE size_t registers(size_t m)
{
    return REGS == 32 ? m <= 6 ? MAX_G : 3 : m <= 2 ? MAX_G : 2;
}

/* Where register i of the rows of p comes from, in blocks of 128 columns. */
struct source {
    struct at at;
    const float *scale[2];
};

SL_INLINE struct source source(enum sl_dtype type, const struct part *p,
                               size_t i)
{
    const size_t last = (p->rows - 1) / SL_GROUP;
    struct source s = {{{NULL, NULL}}, {NULL, NULL}};

    for (size_t h = 0; h < HALVES; h++) {
        size_t group = sl_min(i * HALVES + h, last);

        s.at.p[h] = p->w + group * p->ld_w;
        s.scale[h] = type == SL_FP8 ? p->scale + group * p->ld_scale : NULL;
    }
    return s;
}

SL_INLINE vf scale_of(enum sl_dtype type, const struct source *s, size_t c)
{
    c /= SL_FP8_BLOCK;
    return type == SL_FP8 ? pair_set(s->scale[0][c], s->scale[HALVES - 1][c])
                          : set(0);
}

SL_INLINE vf weights(enum sl_dtype type, const struct source *s, size_t c,
                     vf scale)
{
    const size_t off = c * column_bytes(type);

    if (type == SL_F32)
        return pair_f32(&s->at, off);
    if (type == SL_BF16)
        return pair_bf16(&s->at, off);
    if (type == SL_F16)
        return pair_f16(&s->at, off);
    return vmul(pair_fp8(&s->at, off), scale);
}

/* acc[t][i] += w(c) x(t, c) for c0 <= c < c1, all in one block of 128. */
SL_INLINE void columns(enum sl_dtype type, size_t m, size_t g,
                       const struct part *p, const struct source *s, size_t c0,
                       size_t c1, vf acc[MAX_M][MAX_G])
{
    vf scale[MAX_G], v[MAX_G];

    UNROLL
    for (size_t i = 0; i < g; i++)
        scale[i] = scale_of(type, &s[i], c0);
    for (size_t c = c0; c < c1; c++) {
        UNROLL
        for (size_t i = 0; i < g; i++)
            v[i] = weights(type, &s[i], c, scale[i]);
        UNROLL
        for (size_t t = 0; t < m; t++) {
            vf x = set(p->x[t * p->ldx + c]);

            UNROLL
            for (size_t i = 0; i < g; i++)
                acc[t][i] = vfma(v[i], x, acc[t][i]);
        }
    }
}

/* The first g registers of p for m tokens; chains go on from y if they resume.
 */
SL_INLINE void block(enum sl_dtype type, size_t m, size_t g, bool resume,
                     const struct part *p)
{
    vf acc[MAX_M][MAX_G];
    struct source s[MAX_G];

    UNROLL
    for (size_t i = 0; i < g; i++) {
        s[i] = source(type, p, i);
        UNROLL
        for (size_t t = 0; t < m; t++)
            acc[t][i] = resume && p->rows > i * VEC
                            ? load_n(p->y + t * p->ldy + i * VEC,
                                     p->rows - i * VEC)
                            : set(0);
    }
    for (size_t c = 0; c < p->cols; c += SL_FP8_BLOCK)
        columns(type, m, g, p, s, c, sl_min(c + SL_FP8_BLOCK, p->cols), acc);
    UNROLL
    for (size_t t = 0; t < m; t++) {
        UNROLL
        for (size_t i = 0; i < g; i++)
            if (p->rows > i * VEC)
                store_n(p->y + t * p->ldy + i * VEC, acc[t][i],
                        p->rows - i * VEC);
    }
}

/* p without its first g registers of rows. */
SL_INLINE void advance(enum sl_dtype type, size_t g, struct part *p)
{
    size_t rows = sl_min(p->rows, g * VEC);

    p->y += rows;
    p->w += g * HALVES * p->ld_w;
    if (type == SL_FP8)
        p->scale += g * HALVES * p->ld_scale;
    p->rows -= rows;
}

/* All rows of p, m tokens. */
SL_INLINE void strips(enum sl_dtype type, size_t m, size_t g, bool resume,
                      struct part p)
{
    for (; p.rows > (g - 1) * VEC; advance(type, g, &p))
        block(type, m, g, resume, &p);
    for (; g > 3 && p.rows > 2 * VEC; advance(type, 3, &p))
        block(type, m, 3, resume, &p);
    for (; g > 2 && p.rows > VEC; advance(type, 2, &p))
        block(type, m, 2, resume, &p);
    for (; p.rows > 0; advance(type, 1, &p))
        block(type, m, 1, resume, &p);
}

/* The same; the number of tokens becomes a constant. */
SL_INLINE void few(enum sl_dtype type, size_t m, bool resume,
                   const struct part *p)
{
    switch (m) {
    case 1:
        strips(type, 1, resume ? PANEL_G : registers(1), resume, *p);
        break;
    case 2:
        strips(type, 2, resume ? PANEL_G : registers(2), resume, *p);
        break;
    case 3:
        strips(type, 3, resume ? PANEL_G : registers(3), resume, *p);
        break;
    case 4:
        strips(type, 4, resume ? PANEL_G : registers(4), resume, *p);
        break;
    case 5:
        strips(type, 5, resume ? PANEL_G : registers(5), resume, *p);
        break;
    case 6:
        strips(type, 6, resume ? PANEL_G : registers(6), resume, *p);
        break;
#if REGS == 32
    case 7:
        strips(type, 7, resume ? PANEL_G : registers(7), resume, *p);
        break;
    case 8:
        strips(type, 8, resume ? PANEL_G : registers(8), resume, *p);
        break;
#endif
    }
}

typedef void few_fn(size_t m, const struct part *p);

/* Not inlined: each is used from two places. */
static void few_f32(size_t m, const struct part *p)
{
    few(SL_F32, m, false, p);
}

static void few_bf16(size_t m, const struct part *p)
{
    few(SL_BF16, m, false, p);
}

static void few_f16(size_t m, const struct part *p)
{
    few(SL_F16, m, false, p);
}

static void few_fp8(size_t m, const struct part *p)
{
    few(SL_FP8, m, false, p);
}

static void few_panel(size_t m, const struct part *p)
{
    few(SL_F32, m, true, p);
}

/* All n tokens over the rows of p, in blocks as even as possible. */
static void blocks(few_fn *block_of, size_t n, struct part p)
{
    while (n > 0) {
        size_t n_block = (n + MAX_M - 1) / MAX_M;
        size_t m = (n + n_block - 1) / n_block;

        block_of(m, &p);
        p.x += m * p.ldx;
        p.y += m * p.ldy;
        n -= m;
    }
}

SL_INLINE void several(enum sl_dtype type, few_fn *block_of, size_t n,
                       struct part p)
{
    for (; p.rows > 0; advance(type, SEVERAL_G, &p)) {
        struct part q = p;

        q.rows = sl_min(p.rows, SEVERAL_G * VEC);
        blocks(block_of, n, q);
    }
}

/* Columns c0 to c1 of all rows of p, for a chunk of n tokens. */
SL_INLINE void panels(enum sl_dtype type, size_t n, struct part p, size_t c0,
                      size_t c1)
{
    /* Beyond what a function should have on its stack (rule O1), because a
     * kernel cannot allocate and smaller panels cost speed. */
    float unpacked[PANEL_G * HALVES * PANEL_COLS * SL_GROUP];
    const size_t ld = PANEL_COLS * SL_GROUP;

    for (; p.rows > 0; advance(type, PANEL_G, &p)) {
        struct part q = p;

        for (size_t i = 0; i < PANEL_G; i++) {
            struct source s = source(type, &p, i);
            vf scale = scale_of(type, &s, c0);

            for (size_t c = c0; c < c1; c++) {
                float v[VEC];

                store(v, weights(type, &s, c, scale));
                for (size_t h = 0; h < HALVES; h++)
                    __builtin_memcpy(unpacked + (i * HALVES + h) * ld +
                                         (c - c0) * SL_GROUP,
                                     v + h * SL_GROUP,
                                     SL_GROUP * sizeof(float));
            }
        }
        q.w = (const uint8_t *)unpacked;
        q.ld_w = ld * sizeof(float);
        q.x += c0;
        q.cols = c1 - c0;
        q.rows = sl_min(p.rows, PANEL_G * VEC);
        blocks(few_panel, n, q);
    }
}

static void clear(float *y, size_t ldy, size_t n, size_t rows)
{
    for (size_t t = 0; t < n; t++)
        for (size_t r = 0; r < rows; r += VEC)
            store_n(y + t * ldy + r, set(0), rows - r);
}

SL_INLINE void many(enum sl_dtype type, size_t n_tok, struct part p)
{
    clear(p.y, p.ldy, n_tok, p.rows);
    while (n_tok > 0) {
        size_t n = sl_min(n_tok, CHUNK_TOKENS);

        for (size_t c = 0; c < p.cols; c += PANEL_COLS)
            panels(type, n, p, c, sl_min(c + PANEL_COLS, p.cols));
        p.x += n * p.ldx;
        p.y += n * p.ldy;
        n_tok -= n;
    }
}

SL_INLINE void mul(enum sl_dtype type, few_fn *block_of, float *y, size_t ldy,
                   const void *w, const float *scale, const float *x,
                   size_t ldx, size_t n_tok, size_t rows, size_t cols)
{
    const struct part p = {.y = y,
                           .ldy = ldy,
                           .w = w,
                           .scale = scale,
                           .ld_scale = (cols + SL_FP8_BLOCK - 1) / SL_FP8_BLOCK,
                           .x = x,
                           .ldx = ldx,
                           .ld_w = cols * column_bytes(type),
                           .rows = rows,
                           .cols = cols};

    if (n_tok <= MAX_M)
        block_of(n_tok, &p);
    else if (n_tok <= SEVERAL)
        several(type, block_of, n_tok, p);
    else
        many(type, n_tok, p);
}

static void mul_f32(float *restrict y, size_t ldy, const void *restrict w,
                    const float *restrict scale, const float *restrict x,
                    size_t ldx, size_t n_tok, size_t rows, size_t cols)
{
    mul(SL_F32, few_f32, y, ldy, w, scale, x, ldx, n_tok, rows, cols);
}

static void mul_bf16(float *restrict y, size_t ldy, const void *restrict w,
                     const float *restrict scale, const float *restrict x,
                     size_t ldx, size_t n_tok, size_t rows, size_t cols)
{
    mul(SL_BF16, few_bf16, y, ldy, w, scale, x, ldx, n_tok, rows, cols);
}

static void mul_f16(float *restrict y, size_t ldy, const void *restrict w,
                    const float *restrict scale, const float *restrict x,
                    size_t ldx, size_t n_tok, size_t rows, size_t cols)
{
    mul(SL_F16, few_f16, y, ldy, w, scale, x, ldx, n_tok, rows, cols);
}

static void mul_fp8(float *restrict y, size_t ldy, const void *restrict w,
                    const float *restrict scale, const float *restrict x,
                    size_t ldx, size_t n_tok, size_t rows, size_t cols)
{
    mul(SL_FP8, few_fp8, y, ldy, w, scale, x, ldx, n_tok, rows, cols);
}

void ISA(sl_kern_init_mul)(struct sl_kern *k)
{
    k->mul[SL_F32] = mul_f32;
    k->mul[SL_BF16] = mul_bf16;
    k->mul[SL_F16] = mul_f16;
    k->mul[SL_FP8] = mul_fp8;
}
