/* kern/x86/mul_avx2.c - products with a weight matrix
 *
 * A register holds one column of eight output rows; an output's chain of fused
 * multiply-adds lives in one lane. One chain is as slow as the latency of the
 * fma, so several run at once: groups of rows for one token, groups times
 * tokens for more. Twelve chains, two or three columns of weights and one
 * broadcast activation fill the sixteen registers.
 *
 * For up to six tokens the weights are read once, from memory, and turned into
 * floats in registers. For more this is done in strips that stay in the
 * second-level cache, or the third where a row is long. FP8 takes too many
 * operations to unpack it for every six tokens, so that all tokens of a chunk
 * share this: a panel, two groups by 128 columns, is unpacked into the first-
 * level cache and every block of six tokens passes over it; between panels the
 * chains wait in y, in fp32 as they are. No choice of these changes the
 * operations of an output, hence not its bits. (One Zen 3 core, 32 to 256
 * tokens, strips against panels, GMAC/s: bf16 40 and 34, FP16 41 and 33, FP8
 * 20 and 33; at 7 and 8 tokens even or better.)
 *
 * Most functions below take the type and the number of tokens and groups as
 * constants and are inlined where these are known.
 */
#include <immintrin.h>

#include "kern/x86/vec_avx2.h"
#include "kern/x86/x86.h"

enum {
    MAX_M = 6, /* tokens of one block */
    MAX_G = 4, /* groups of one block */
    LINE_BYTES = 64,
    /* Tokens up to which the weights are slower than the arithmetic, and how
     * far ahead they are asked for. On a Zen 1 core with 16 to 17 GB/s: 13.1
     * GB/s without, 14 GB/s with 256 to 1,024 bytes. */
    PREFETCH_M = 2,
    PREFETCH_BYTES = 512,
    PANEL_GROUPS = 2,
    /* Columns of a panel: 8 KB of fp32, half of the smallest first-level cache
     * with room for activations; and one scale of FP8 per group. */
    PANEL_COLS = SL_FP8_BLOCK,
    STRIP_ROWS = 48, /* whole blocks of two and of three groups */
    /* Tokens of a chunk: 96 KB of activations of a panel stay in the
     * second-level cache. Chosen, not measured. */
    CHUNK_TOKENS = 192,
};

/* A product, or the part of one that is left to do. */
struct part {
    float *y;
    const unsigned char *w; /* the first group */
    const float *scale;     /* its first scale, or NULL */
    const float *x;
    size_t ldy, ldx;
    size_t ld_w;     /* elements from group to group */
    size_t ld_scale; /* scales from group to group */
    size_t rows, cols;
};

SL_INLINE size_t element_bytes(enum sl_dtype type)
{
    return type == SL_F32 ? 4 : type == SL_FP8 ? 1 : 2;
}

/* Eight E4M3 bytes with their scale. As the same bits of an IEEE half, shifted
 * to its exponent, a byte is 2^-8 times its value; 0x7f must become a NaN: it
 * alone carries into bit 14 when 0x80 is added, and that bit is all its
 * exponent lacks. */
SL_INLINE __m256 load_fp8(const void *p, __m256 scale)
{
    __m128i b = _mm_cvtepi8_epi16(_mm_loadl_epi64(p));
    __m128i h = _mm_and_si128(_mm_slli_epi16(b, 7), _mm_set1_epi16(~0x4000));
    __m128i nan = _mm_and_si128(_mm_add_epi16(h, _mm_set1_epi16(0x80)),
                                _mm_set1_epi16(0x4000));
    __m256 v = _mm256_cvtph_ps(_mm_or_si128(h, nan));

    return _mm256_mul_ps(_mm256_mul_ps(v, _mm256_set1_ps(256)), scale);
}

/* Eight weights at p. */
SL_INLINE __m256 weights(enum sl_dtype type, const void *p, __m256 scale)
{
    if (type == SL_F32)
        return _mm256_loadu_ps(p);
    if (type == SL_BF16)
        return load_bf16(p);
    if (type == SL_F16)
        return _mm256_cvtph_ps(_mm_loadu_si128(p));
    return load_fp8(p, scale);
}

/* load_bf16 for a loop that has no register left for the order of the shuffle:
 * a compiler that gives it one keeps a chain in memory instead. */
SL_INLINE __m256 load_bf16_full(const void *p)
{
    static const SL_ALIGNED(32) int8_t up[32] = {
        -1, -1, 0, 1, -1, -1, 2,  3,  -1, -1, 4,  5,  -1, -1, 6,  7,
        -1, -1, 8, 9, -1, -1, 10, 11, -1, -1, 12, 13, -1, -1, 14, 15};
    __m256i v = _mm256_broadcastsi128_si256(_mm_loadu_si128(p));

    __asm__("vpshufb %1, %0, %0" : "+x"(v) : "m"(up));
    return _mm256_castsi256_ps(v);
}

/* The scales of column c of g groups. */
SL_INLINE void scales(enum sl_dtype type, size_t g, const struct part *p,
                      size_t c, __m256 *s)
{
    UNROLL
    for (size_t i = 0; i < g; i++)
        s[i] = type == SL_FP8 ? _mm256_broadcast_ss(p->scale + i * p->ld_scale +
                                                    c / SL_FP8_BLOCK)
                              : _mm256_setzero_ps();
}

/* A column of all groups and tokens of a block. Distances in bytes. */
struct place {
    const unsigned char *w;
    const unsigned char *x, *x3; /* tokens 0 to 2, and 3 to 5 */
    size_t ld_w, ld_x;
};

SL_INLINE struct place place_of(enum sl_dtype type, const struct part *p,
                                size_t c)
{
    const float *x = p->x + c;

    return (struct place){
        .w = p->w + c * SL_GROUP * element_bytes(type),
        .x = (const unsigned char *)x,
        .x3 = (const unsigned char *)(x + 3 * p->ldx),
        .ld_w = p->ld_w * element_bytes(type),
        .ld_x = p->ldx * sizeof(*x),
    };
}

/* n columns on. The addresses are opaque: a compiler that knows how they arise
 * keeps one for each token, and has not the registers. Thus two and a distance,
 * which an address may contain once or twice, reach all six. */
SL_INLINE void advance_column(enum sl_dtype type, size_t m, size_t n,
                              struct place *a)
{
    a->w += n * SL_GROUP * element_bytes(type);
    a->x += n * sizeof(float);
    __asm__("" : "+r"(a->w), "+r"(a->x));
    if (m > 3) {
        a->x3 += n * sizeof(float);
        __asm__("" : "+r"(a->x3));
    }
}

SL_INLINE const float *input(const struct place *a, size_t t)
{
    return (const void *)((t < 3 ? a->x : a->x3) + t % 3 * a->ld_x);
}

/* Ask for what lies ahead of each group. */
SL_INLINE void prefetch(size_t g, const struct place *a)
{
    UNROLL
    for (size_t i = 0; i < g; i++)
        _mm_prefetch(a->w + i * a->ld_w + PREFETCH_BYTES, _MM_HINT_T0);
}

/* acc[t][i] += w(c) x(t, c): m tokens, g groups. */
SL_INLINE void column(enum sl_dtype type, size_t m, size_t g, struct place *a,
                      const __m256 *s, __m256 acc[MAX_M][MAX_G])
{
    __m256 v[MAX_G];

    UNROLL
    for (size_t i = 0; i < g; i++)
        v[i] = type == SL_BF16 && m == 4 && g == 3
                   ? load_bf16_full(a->w + i * a->ld_w)
                   : weights(type, a->w + i * a->ld_w, s[i]);
    UNROLL
    for (size_t t = 0; t < m; t++) {
        __m256 x = _mm256_broadcast_ss(input(a, t));

        UNROLL
        for (size_t i = 0; i < g; i++)
            acc[t][i] = _mm256_fmadd_ps(v[i], x, acc[t][i]);
    }
    advance_column(type, m, 1, a);
}

/* Columns c0 to c1. What lies ahead of each group is asked for, line by line.
 */
SL_INLINE void columns(enum sl_dtype type, size_t m, size_t g,
                       const struct part *p, size_t c0, size_t c1,
                       __m256 acc[MAX_M][MAX_G])
{
    const size_t line = LINE_BYTES / (SL_GROUP * element_bytes(type));
    struct place a = place_of(type, p, c0);
    __m256 s[MAX_G];
    size_t c = c0;

    scales(type, g, p, c0, s);
    for (; m <= PREFETCH_M && c + line <= c1; c += line) {
        prefetch(g, &a);
        UNROLL
        for (size_t j = 0; j < line; j++)
            column(type, m, g, &a, s, acc);
    }
    for (; c < c1; c++)
        column(type, m, g, &a, s, acc);
}

/* The first g groups of p for m tokens; chains go on from y if they resume. */
SL_INLINE void block(enum sl_dtype type, size_t m, size_t g, bool resume,
                     const struct part *p)
{
    __m256 acc[MAX_M][MAX_G];
    size_t c = 0;

    UNROLL
    for (size_t t = 0; t < m; t++) {
        UNROLL
        for (size_t i = 0; i < g; i++)
            acc[t][i] = resume ? load_n(p->y + t * p->ldy + i * SL_GROUP,
                                        p->rows - i * SL_GROUP)
                               : _mm256_setzero_ps();
    }
    for (size_t end; c < p->cols; c = end) { /* once where there is no scale */
        end = type == SL_FP8 ? sl_min(c + SL_FP8_BLOCK, p->cols) : p->cols;
        columns(type, m, g, p, c, end, acc);
    }
    UNROLL
    for (size_t t = 0; t < m; t++) {
        UNROLL
        for (size_t i = 0; i < g; i++)
            store_n(p->y + t * p->ldy + i * SL_GROUP, acc[t][i],
                    p->rows - i * SL_GROUP);
    }
}

/* p without its first g groups. */
SL_INLINE void advance(enum sl_dtype type, size_t g, struct part *p)
{
    size_t rows = sl_min(g * SL_GROUP, p->rows);

    p->y += rows;
    p->w += g * p->ld_w * element_bytes(type);
    p->scale = type == SL_FP8 ? p->scale + g * p->ld_scale : NULL;
    p->rows -= rows;
}

/* Whether g groups at once leave none alone that could have gone in a pair: 4
 * are 2 + 2, because a third of the chains is slower than half of them. */
SL_INLINE bool is_whole(size_t rows, size_t g)
{
    const size_t n = (rows + SL_GROUP - 1) / SL_GROUP;

    return n >= g && !(g == 3 && n == 4);
}

/* All rows of p for m tokens: as many groups at once as fill the registers. */
SL_INLINE void strip(enum sl_dtype type, size_t m, size_t g, bool resume,
                     struct part p)
{
    for (; is_whole(p.rows, g); advance(type, g, &p))
        block(type, m, g, resume, &p);
    for (; g > 2 && p.rows > SL_GROUP; advance(type, 2, &p))
        block(type, m, 2, resume, &p);
    for (; p.rows > 0; advance(type, 1, &p))
        block(type, m, 1, resume, &p);
}

/* The same with m as a constant. Four groups give one token enough chains for
 * what memory gives; for more, as many as there are registers. */
SL_INLINE void few(enum sl_dtype type, size_t m, const struct part *p)
{
    switch (m) {
    case 1:
        strip(type, 1, 4, false, *p);
        break;
    case 2:
        strip(type, 2, 4, false, *p);
        break;
    case 3:
        strip(type, 3, 3, false, *p);
        break;
    case 4:
        strip(type, 4, 3, false, *p);
        break;
    case 5:
        strip(type, 5, 2, false, *p);
        break;
    case 6:
        strip(type, 6, 2, false, *p);
        break;
    }
}

typedef void few_fn(size_t m, const struct part *p);

/* Not inlined: each but that of FP8 is used from two places. */
static void few_f32(size_t m, const struct part *p)
{
    few(SL_F32, m, p);
}

static void few_bf16(size_t m, const struct part *p)
{
    few(SL_BF16, m, p);
}

static void few_f16(size_t m, const struct part *p)
{
    few(SL_F16, m, p);
}

static void few_fp8(size_t m, const struct part *p)
{
    few(SL_FP8, m, p);
}

/* Tokens of the next block when n are left: blocks as even as possible, because
 * 4 + 4 has more chains in flight than 6 + 2. */
static size_t share(size_t n)
{
    size_t blocks = (n + MAX_M - 1) / MAX_M;

    return (n + blocks - 1) / blocks;
}

/* n tokens, strip by strip: the weights come from memory for the first block
 * and from the cache for the others. */
SL_INLINE void strips(enum sl_dtype type, few_fn *block_of, size_t n,
                      struct part p)
{
    for (; p.rows > 0; advance(type, STRIP_ROWS / SL_GROUP, &p)) {
        struct part q = p;
        size_t m;

        q.rows = sl_min(p.rows, STRIP_ROWS);
        for (size_t left = n; left > 0; left -= m) {
            m = share(left);
            block_of(m, &q);
            q.x += m * q.ldx;
            q.y += m * q.ldy;
        }
    }
}

/* n tokens over an unpacked panel. */
static void panel(size_t n, struct part p)
{
    while (n > 0) {
        size_t m = share(n);

        switch (m) {
        case 1:
            strip(SL_F32, 1, 2, true, p);
            break;
        case 2:
            strip(SL_F32, 2, 2, true, p);
            break;
        case 3:
            strip(SL_F32, 3, 2, true, p);
            break;
        case 4:
            strip(SL_F32, 4, 2, true, p);
            break;
        case 5:
            strip(SL_F32, 5, 2, true, p);
            break;
        case 6:
            strip(SL_F32, 6, 2, true, p);
            break;
        }
        p.x += m * p.ldx;
        p.y += m * p.ldy;
        n -= m;
    }
}

/* Columns c0 to c1 of up to two groups of FP8 as floats. */
static void unpack(float *out, const struct part *p, size_t c0, size_t c1)
{
    size_t g = p->rows > SL_GROUP ? PANEL_GROUPS : 1;
    __m256 s[MAX_G];

    scales(SL_FP8, g, p, c0, s);
    for (size_t i = 0; i < g; i++)
        for (size_t c = c0; c < c1; c++)
            _mm256_storeu_ps(out + (i * PANEL_COLS + c - c0) * SL_GROUP,
                             load_fp8(p->w + i * p->ld_w + c * SL_GROUP, s[i]));
}

/* Columns c0 to c1 of all rows of p, which are FP8, for a chunk of n tokens. */
static void panels(size_t n, struct part p, size_t c0, size_t c1)
{
    /* Beyond what a function should have on its stack (rule O1), because a
     * kernel cannot allocate and smaller panels cost speed. */
    float unpacked[PANEL_GROUPS * PANEL_COLS * SL_GROUP];

    for (; p.rows > 0; advance(SL_FP8, PANEL_GROUPS, &p)) {
        struct part q = p;

        unpack(unpacked, &p, c0, c1);
        q.w = (const unsigned char *)unpacked;
        q.ld_w = PANEL_COLS * SL_GROUP;
        q.x += c0;
        q.cols = c1 - c0;
        q.rows = sl_min(p.rows, PANEL_GROUPS * SL_GROUP);
        panel(n, q);
    }
}

static void clear(float *y, size_t ldy, size_t n, size_t rows)
{
    for (size_t t = 0; t < n; t++)
        for (size_t r = 0; r < rows; r += VEC)
            store_n(y + t * ldy + r, _mm256_setzero_ps(), rows - r);
}

/* FP8 for more than MAX_M tokens, chunk by chunk. */
static void chunks(size_t n_tok, struct part p)
{
    clear(p.y, p.ldy, n_tok, p.rows);
    while (n_tok > 0) {
        size_t n = sl_min(n_tok, CHUNK_TOKENS);

        for (size_t c = 0; c < p.cols; c += PANEL_COLS)
            panels(n, p, c, sl_min(c + PANEL_COLS, p.cols));
        p.x += n * p.ldx;
        p.y += n * p.ldy;
        n_tok -= n;
    }
}

SL_INLINE void mul(enum sl_dtype type, few_fn *block_of, float *y, size_t ldy,
                   const void *w, const float *scale, const float *x,
                   size_t ldx, size_t n_tok, size_t rows, size_t cols)
{
    const struct part p = {
        .y = y,
        .ldy = ldy,
        .w = w,
        .scale = type == SL_FP8 ? scale : NULL,
        .ld_scale = (cols + SL_FP8_BLOCK - 1) / SL_FP8_BLOCK,
        .x = x,
        .ldx = ldx,
        .ld_w = cols * SL_GROUP,
        .rows = rows,
        .cols = cols,
    };

    if (n_tok <= MAX_M)
        block_of(n_tok, &p);
    else if (type == SL_FP8)
        chunks(n_tok, p);
    else
        strips(type, block_of, n_tok, p);
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

void sl_kern_init_mul__avx2(struct sl_kern *k)
{
    k->mul[SL_F32] = mul_f32;
    k->mul[SL_BF16] = mul_bf16;
    k->mul[SL_F16] = mul_f16;
    k->mul[SL_FP8] = mul_fp8;
}
