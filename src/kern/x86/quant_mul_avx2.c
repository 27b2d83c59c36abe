/* kern/x86/quant_mul_avx2.c - products with quantised weights
 *
 * A vector of weights holds four columns of eight output rows (kern/quant.h),
 * so one broadcast of four activations meets all of them, and an output stays
 * in its lane. The instruction for bytes (maddubs) takes unsigned numbers from
 * one side and signed ones from the other, and adds neighbouring products in 16
 * bits WITH SATURATION. What is stored is unsigned; how much fits:
 *
 *   4 bits   2 * 15 * 127 = 3,810 per step; a lane may add 8 steps, which is
 *            the whole block of 32 columns: 30,480 < 32,768
 *   5 bits   7,874 per step, and 8 steps of u - 16: 16 * 16 * 127 = 32,512
 *   6 bits   16,002 per step, and 4 steps of u - 32, which are the sixteen
 *            columns of a scale: 8 * 32 * 127 = 32,512; the widening
 *            multiplication (madd) multiplies by the scale at no cost
 *   8 bits   as magnitudes, with their signs moved to the activations:
 *            2 * 128 * 127 = 32,512; each step is widened. So do iq4_nl and
 *            iq4_xs after their table, which is one shuffle
 *
 * The plain addition of 16 bits wraps, so only the whole sum has to fit. That
 * is what lets 5 and 6 bits wait: a lane begins with minus 16 or 32 times the
 * activations that will pass through it, which no weight changes and `prepare`
 * adds up once for all rows. Integers are exact, so none of this is in the
 * contract; the fused multiply-adds at the end of a block are, and they are the
 * same everywhere.
 *
 * What bounds it on a core with one multiplier for bytes (Zen 1: 2 cycles for a
 * register): 8 maddubs, a madd, and the scale's multiplication and fused
 * multiply-add, half of which go to the same unit, are 20 cycles for 256
 * products, 32 GMAC/s at 2.5 GHz.
 *
 * Two ways through a matrix. For few tokens (`max_direct` says how many)
 * weights are unpacked in registers and used at once (`direct`): this is where
 * memory is the limit. For more, a panel of two groups is unpacked into the
 * first-level cache, NARROW where tokens are few, and all tokens pass over it
 * in blocks of MAX_M (`tile`). Both do a block of columns by the same function,
 * `step`: MAX_M tokens by two groups, so that a vector of weights serves MAX_M
 * products and a broadcast two. Between panels the accumulators rest in y.
 */
#include <immintrin.h>

#include "kern/quant.h"
#include "kern/x86/quant_unpack_avx2.h"
#include "kern/x86/x86.h"

enum {
    G = 2,                /* groups of eight rows at a time */
    STRIP = G * SL_GROUP, /* output rows of them */
    MAX_M = 4, /* tokens at a time: 4 x 2 sums, 2 weights, 1 broadcast */
    FEW = 8, /* tokens for which a panel is NARROW: weights come from memory */
    NARROW = 256,
    UNPACK_TWICE = 7, /* tokens for which any type is unpacked at each use */
    /* Columns of a panel: 2 * 32 * 320 bytes, so that it and the activations
     * of four tokens stay in the first-level cache. */
    PANEL = 1024,
    /* Tokens that share an unpacked panel: they stay in the second-level
     * cache. */
    CHUNK = SL_SMALL ? FEW : 128,
    N_PREP = CHUNK * PANEL / 32,
    AHEAD = 16384, /* bytes that weights are asked for before their use; 6 to 32
                      KB are alike */
};

/* 32 columns of a group. */
struct blk {
    __m256i w[8]; /* u; 8-bit types: signed, u - 128 */
    /* scale; bfp: unit of columns 0 to 15 */
    __m256 s0;
    /* q4_k, q5_k, q4_1, q5_1: minimum; bfp: unit of columns 16 to 31; q6_k,
     * q3_k, q2_k: the two scales as pairs of int16, q2_k's with minima */
    __m256 s1;
    __m256 s2; /* q2_k: dmin */
};

/* Where a block's weights come from, for G groups: unpacked, or packed and
 * unpacked at each use. Which is a constant where this is inlined. */
struct from {
    const struct blk *blk; /* [G], or NULL */
    const void *unit[G];
    const struct scales *scales; /* [G] */
    size_t b;
};

SL_INLINE __m256i get_halves(enum sl_dtype t, const struct from *f, size_t g,
                             size_t i)
{
    const void *p = f->unit[g];

    if (f->blk)
        return _mm256_setzero_si256();
    /* An address of its own, or the compiler keeps the vector of the low halves
     * for the high ones, in a register that it does not have. */
    if (i >= 4)
        __asm__("" : "+r"(p));
    return both_halves(t, p, f->b, i % 4);
}

SL_INLINE __m256i get_w(enum sl_dtype t, __m256i halves, const struct from *f,
                        size_t g, size_t i)
{
    return f->blk ? f->blk[g].w[i] : weight(t, halves, f->unit[g], f->b, i);
}

SL_INLINE __m256 get_s0(enum sl_dtype t, const struct from *f, size_t g)
{
    return f->blk ? f->blk[g].s0 : scale0(t, &f->scales[g], f->unit[g], f->b);
}

SL_INLINE __m256 get_s1(enum sl_dtype t, const struct from *f, size_t g)
{
    return f->blk ? f->blk[g].s1 : scale1(t, &f->scales[g], f->unit[g], f->b);
}

SL_INLINE __m256 get_dmin(const struct from *f, size_t g)
{
    return f->blk ? f->blk[g].s2 : f->scales[g].dmin;
}

/* --- sums of integers, m tokens by G groups --- */

/* What 32 activations of a token contribute that no weight changes. */
struct prep {
    float scale; /* a */
    float min;   /* has_min: a * (sum q) */
    /* Pairs of int16: minus what the zero point adds, for each half of the
     * columns, or for all. q5_k, q5_1: the second gives it back. q2_k: the
     * first is the sums of both halves. */
    int32_t off[2];
};

/* Activations from some column on. */
struct act {
    const int8_t *q;
    const struct prep *p;
    size_t ld, ld_p;
};

typedef __m256i sums[MAX_M][G];

/* The value is needed here and now. Without this the compiler, which may add
 * integers in any order, computes all products first, to add them in pairs, and
 * runs out of registers. */
SL_INLINE __m256i keep(__m256i v)
{
    __asm__("" : "+x"(v));
    return v;
}

/* Vector i of weights w in 16 bits, on top of s, or of off[half]. */
SL_INLINE void add16(enum sl_dtype type, size_t m, sums s, const __m256i w[G],
                     const struct act *x, size_t i, bool is_first, size_t half)
{
    UNROLL
    for (size_t t = 0; t < m; t++) {
        __m256i a = spread(x->q + t * x->ld + 4 * i), off;

        if (is_first && zero_point(type))
            off = spread(&x->p[t * x->ld_p].off[half]);
        UNROLL
        for (size_t g = 0; g < G; g++) {
            __m256i p = _mm256_maddubs_epi16(w[g], a);

            if (!is_first)
                p = _mm256_add_epi16(s[t][g], p);
            else if (zero_point(type))
                p = _mm256_add_epi16(off, p);
            s[t][g] = keep(p);
        }
    }
}

/* The 32 columns; what halves of bytes share is loaded once. */
SL_INLINE void sum16(enum sl_dtype type, size_t m, sums s, const struct from *f,
                     const struct act *x)
{
    __m256i v[G];

    UNROLL
    for (size_t i = 0; i < 8; i++) {
        const size_t at = i / 2 + 4 * (i % 2);
        __m256i w[G];

        UNROLL
        for (size_t g = 0; g < G; g++) {
            if (i % 2 == 0)
                v[g] = get_halves(type, f, g, at);
            w[g] = get_w(type, v[g], f, g, at);
        }
        add16(type, m, s, w, x, at, i == 0, 0);
    }
}

/* Sixteen of them. */
SL_INLINE void sum16_half(enum sl_dtype type, size_t m, sums s,
                          const struct from *f, const struct act *x,
                          size_t half)
{
    UNROLL
    for (size_t i = 0; i < 4; i++) {
        __m256i w[G];

        UNROLL
        for (size_t g = 0; g < G; g++)
            w[g] = get_w(type, get_halves(type, f, g, i + 4 * half), f, g,
                         i + 4 * half);
        add16(type, m, s, w, x, 4 * half + i, i == 0, half);
    }
}

/* Lanes of 16 bits, widened. */
SL_INLINE void widen(size_t m, sums s)
{
    const __m256i one = _mm256_set1_epi16(1);

    UNROLL
    for (size_t t = 0; t < m; t++)
        UNROLL
    for (size_t g = 0; g < G; g++)
        s[t][g] = _mm256_madd_epi16(s[t][g], one);
}

/* Signed weights: magnitudes, the signs on the activations. */
SL_INLINE void sum8(enum sl_dtype type, size_t m, sums s, const struct from *f,
                    const struct act *x, size_t i0, size_t n)
{
    const __m256i one = _mm256_set1_epi16(1);

    UNROLL
    for (size_t i = 0; i < n; i++) {
        __m256i w[G];

        UNROLL
        for (size_t g = 0; g < G; g++)
            w[g] =
                get_w(type, get_halves(type, f, g, (i0 + i) % 4), f, g, i0 + i);
        UNROLL
        for (size_t t = 0; t < m; t++) {
            __m256i a = spread(x->q + t * x->ld + 4 * (i0 + i));

            UNROLL
            for (size_t g = 0; g < G; g++) {
                __m256i p = _mm256_maddubs_epi16(_mm256_abs_epi8(w[g]),
                                                 _mm256_sign_epi8(a, w[g]));

                p = _mm256_madd_epi16(p, one);
                s[t][g] = keep(i ? _mm256_add_epi32(s[t][g], p) : p);
            }
        }
    }
}

/* Of the pairs of scales in v, the first or the second one twice. */
SL_INLINE __m256i one_of_two(__m256i v, size_t second)
{
    return second ? _mm256_blend_epi16(v, _mm256_srli_epi32(v, 16), 0x55)
                  : _mm256_blend_epi16(v, _mm256_slli_epi32(v, 16), 0xaa);
}

/* Each half by its scale. */
SL_INLINE void sum_q6(enum sl_dtype type, size_t m, sums s,
                      const struct from *f, const struct act *x)
{
    sums h;

    UNROLL
    for (size_t half = 0; half < 2; half++) {
        sum16_half(type, m, h, f, x, half);
        UNROLL
        for (size_t g = 0; g < G; g++) {
            __m256i sc = _mm256_castps_si256(get_s1(type, f, g));

            if (type == SL_Q2_K)
                sc = _mm256_and_si256(sc, _mm256_set1_epi16(15));
            sc = one_of_two(sc, half);
            UNROLL
            for (size_t t = 0; t < m; t++) {
                __m256i p = _mm256_madd_epi16(h[t][g], sc);

                s[t][g] = keep(half ? _mm256_add_epi32(s[t][g], p) : p);
            }
        }
    }
}

/* --- a block: sums, then what the contract says --- */

typedef __m256 accs[MAX_M][G];

SL_INLINE __m256 fma_int(__m256 s, __m256 a, __m256i i, __m256 acc)
{
    return _mm256_fmadd_ps(_mm256_mul_ps(s, a), _mm256_cvtepi32_ps(i), acc);
}

SL_INLINE __m256 scale_of(const struct act *x, size_t t)
{
    return _mm256_broadcast_ss(&x->p[t * x->ld_p].scale);
}

/* Those with one scale and a zero point, or an integer scale for each half. */
SL_INLINE void step_zero(enum sl_dtype type, size_t m, accs acc,
                         const struct from *f, const struct act *x)
{
    sums s;

    if (type == SL_Q8_0 || type == SL_IQ4_NL || type == SL_IQ4_XS)
        sum8(type, m, s, f, x, 0, 8);
    else if (type == SL_Q6_K || type == SL_Q3_K)
        sum_q6(type, m, s, f, x);
    else
        sum16(type, m, s, f, x), widen(m, s);
    UNROLL
    for (size_t t = 0; t < m; t++) {
        __m256 a = scale_of(x, t);

        UNROLL
        for (size_t g = 0; g < G; g++)
            acc[t][g] = fma_int(get_s0(type, f, g), a, s[t][g], acc[t][g]);
    }
}

/* A scale and a minimum. */
SL_INLINE void step_min(enum sl_dtype type, size_t m, accs acc,
                        const struct from *f, const struct act *x)
{
    sums s;

    sum16(type, m, s, f, x), widen(m, s);
    UNROLL
    for (size_t t = 0; t < m; t++) {
        const struct prep *p = &x->p[t * x->ld_p];
        __m256 a = _mm256_broadcast_ss(&p->scale);
        __m256 min = _mm256_broadcast_ss(&p->min);

        UNROLL
        for (size_t g = 0; g < G; g++) {
            if (zero_point(type))
                s[t][g] = _mm256_add_epi32(s[t][g], spread(&p->off[1]));
            acc[t][g] = fma_int(get_s0(type, f, g), a, s[t][g], acc[t][g]);
            acc[t][g] = _mm256_fnmadd_ps(get_s1(type, f, g), min, acc[t][g]);
        }
    }
}

/* q2_k: an integer scale and an integer minimum for each half. */
SL_INLINE void step_q2(enum sl_dtype type, size_t m, accs acc,
                       const struct from *f, const struct act *x)
{
    sums s;

    sum_q6(type, m, s, f, x);
    UNROLL
    for (size_t t = 0; t < m; t++) {
        __m256 a = scale_of(x, t);
        __m256i halves = spread(&x->p[t * x->ld_p].off[0]);

        UNROLL
        for (size_t g = 0; g < G; g++) {
            __m256i min =
                _mm256_srli_epi16(_mm256_castps_si256(get_s1(type, f, g)), 4);

            min = _mm256_madd_epi16(min, halves);
            acc[t][g] = fma_int(get_s0(type, f, g), a, s[t][g], acc[t][g]);
            acc[t][g] = _mm256_fnmadd_ps(
                get_dmin(f, g), _mm256_mul_ps(a, _mm256_cvtepi32_ps(min)),
                acc[t][g]);
        }
    }
}

/* bfp8 and bfp4: a unit for each half. */
SL_INLINE void step_bfp(enum sl_dtype type, size_t m, accs acc,
                        const struct from *f, const struct act *x)
{
    UNROLL
    for (size_t h = 0; h < 2; h++) {
        sums s;

        if (type == SL_BFP8)
            sum8(type, m, s, f, x, 4 * h, 4);
        else
            sum16_half(type, m, s, f, x, h), widen(m, s);
        UNROLL
        for (size_t t = 0; t < m; t++) {
            __m256 a = scale_of(x, t);

            UNROLL
            for (size_t g = 0; g < G; g++)
                acc[t][g] = fma_int(h ? get_s1(type, f, g) : get_s0(type, f, g),
                                    a, s[t][g], acc[t][g]);
        }
    }
}

/* 32 columns, m tokens, G groups; x moves on to the next block. */
SL_INLINE void step(enum sl_dtype type, size_t m, accs acc,
                    const struct from *f, struct act *x)
{
    if (has_min(type))
        step_min(type, m, acc, f, x);
    else if (type == SL_Q2_K)
        step_q2(type, m, acc, f, x);
    else if (type == SL_BFP8 || type == SL_BFP4)
        step_bfp(type, m, acc, f, x);
    else
        step_zero(type, m, acc, f, x);
    x->q += 32;
    x->p += 1;
}

/* --- ways through a matrix --- */

/* Where a product goes: rows beyond `rows` are padding. */
struct out {
    float *y;
    size_t ldy, rows;
};

SL_INLINE void store(size_t m, const struct out *o, accs acc)
{
    UNROLL
    for (size_t t = 0; t < m; t++)
        UNROLL
    for (size_t g = 0; g < G; g++)
        if (o->rows > g * SL_GROUP)
            store_n(o->y + t * o->ldy + g * SL_GROUP, acc[t][g],
                    o->rows - g * SL_GROUP);
}

SL_INLINE void start(size_t m, const struct out *o, accs acc, bool from_y)
{
    UNROLL
    for (size_t t = 0; t < m; t++)
        UNROLL
    for (size_t g = 0; g < G; g++)
        acc[t][g] = from_y && o->rows > g * SL_GROUP
                        ? load_n(o->y + t * o->ldy + g * SL_GROUP,
                                 o->rows - g * SL_GROUP)
                        : _mm256_setzero_ps();
}

/* Ask for `bytes` at p, into the second-level cache: on Zen 4 too few lines can
 * be on their way to the first. */
SL_INLINE void fetch(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)p + i, _MM_HINT_T1);
}

/* The same of what lies AHEAD of p, on the way of a group that ends at `end`;
 * the first group of the next strip follows the last one of this. Where a group
 * is shorter than AHEAD it is a later strip. */
SL_INLINE void fetch_ahead(const uint8_t *p, size_t bytes, const uint8_t *end,
                           size_t group_bytes)
{
    const uint8_t *at = p + AHEAD;

    fetch(at < end ? at : at + (G - 1) * group_bytes, bytes);
}

/* Columns c0 to c0 + n - 1 of two whole groups, m tokens: memory is the limit.
 * c0 is the beginning of a unit. */
SL_INLINE void direct(enum sl_dtype type, size_t m, const struct out *o,
                      const uint8_t *w, struct act x, size_t c0, size_t n,
                      size_t cols)
{
    const size_t sub = n_sub(type), bytes = unit_bytes(type);
    const size_t group_bytes = cols / (32 * sub) * bytes;
    accs acc;

    start(m, o, acc, c0 > 0);
    for (size_t u = c0 / (32 * sub); u < (c0 + n) / (32 * sub); u++) {
        struct scales s[G];
        struct from f = {.scales = s};

        UNROLL
        for (size_t g = 0; g < G; g++) {
            f.unit[g] = w + g * group_bytes + u * bytes;
            open_unit(type, &s[g], f.unit[g]);
        }
        for (; f.b < sub; f.b++) {
            const size_t part = bytes / sub, at = u * bytes + f.b * part;

            UNROLL
            for (size_t g = 0; g < G; g++)
                fetch_ahead(w + g * group_bytes + at, part,
                            w + (g + 1) * group_bytes, group_bytes);
            step(type, m, acc, &f, &x);
        }
    }
    store(m, o, acc);
}

/* An unpacked panel, m tokens. */
SL_INLINE void tile(enum sl_dtype type, size_t m, const struct out *o,
                    const struct blk *panel, struct act x, size_t cols,
                    bool from_y)
{
    struct from f = {.blk = panel};
    accs acc;

    start(m, o, acc, from_y);
    for (size_t b = 0; b < cols / 32; b++, f.blk += G)
        step(type, m, acc, &f, &x);
    store(m, o, acc);
}

/* Block b of the unit at p. */
SL_INLINE void unpack_block(enum sl_dtype type, struct blk *o,
                            const struct scales *s, const void *p, size_t b)
{
    UNROLL
    for (size_t i = 0; i < 8; i++)
        o->w[i] = weight(type, both_halves(type, p, b, i % 4), p, b, i);
    o->s0 = scale0(type, s, p, b);
    o->s1 = scale1(type, s, p, b);
    if (type == SL_Q2_K)
        o->s2 = s->dmin;
}

/* Columns c0 to c0 + n - 1 of G groups; a missing group is zeros. */
SL_INLINE void unpack(enum sl_dtype type, struct blk *panel, const uint8_t *w,
                      size_t n_group, size_t c0, size_t n, size_t cols)
{
    const size_t sub = n_sub(type), bytes = unit_bytes(type);
    const size_t group_bytes = cols / (32 * sub) * bytes;

    for (size_t g = 0; g < G; g++) {
        const uint8_t *p = w + g * group_bytes + c0 / (32 * sub) * bytes;

        for (size_t b = 0; b < n / 32; b += sub, p += bytes) {
            struct scales s;

            if (g >= n_group) {
                for (size_t i = 0; i < sub; i++)
                    __builtin_memset(&panel[(b + i) * G + g], 0,
                                     sizeof(*panel));
                continue;
            }
            open_unit(type, &s, p);
            for (size_t i = 0; i < sub; i++)
                unpack_block(type, &panel[(b + i) * G + g], &s, p, i);
        }
    }
}

/* Pairs of neighbours of four blocks at q, every second pair added over each
 * half of 32: lane i is block i, its first half below, its second above. */
SL_INLINE __m256i pair_sums(const int8_t *q)
{
    const __m256i one = _mm256_set1_epi8(1);
    __m256i a = _mm256_maddubs_epi16(one, load(q));
    __m256i b = _mm256_maddubs_epi16(one, load(q + 32));
    __m256i c = _mm256_maddubs_epi16(one, load(q + 64));
    __m256i d = _mm256_maddubs_epi16(one, load(q + 96));
    __m256i ab = _mm256_add_epi16(_mm256_unpacklo_epi32(a, b),
                                  _mm256_unpackhi_epi32(a, b));
    __m256i cd = _mm256_add_epi16(_mm256_unpacklo_epi32(c, d),
                                  _mm256_unpackhi_epi32(c, d));

    return _mm256_add_epi16(_mm256_unpacklo_epi64(ab, cd),
                            _mm256_unpackhi_epi64(ab, cd));
}

/* What `off` of struct prep holds, of four blocks with these sums. */
SL_INLINE void offsets(enum sl_dtype type, __m128i off[2], const int8_t *q,
                       __m128i halves, __m128i all)
{
    const __m128i minus = _mm_set1_epi16((short)-zero_point(type));
    const __m128i plus = _mm_set1_epi32(zero_point(type));
    __m256i v = pair_sums(q);
    __m128i lo = _mm256_castsi256_si128(v), hi = _mm256_extracti128_si256(v, 1);

    off[0] = halves; /* q2_k */
    off[1] = _mm_setzero_si128();
    if (!zero_point(type))
        return;
    if (type != SL_Q6_K && type != SL_Q3_K && type != SL_BFP4)
        lo = _mm_add_epi16(lo, hi);
    off[0] = _mm_mullo_epi16(lo, minus);
    off[1] =
        has_min(type) ? _mm_mullo_epi32(all, plus) : _mm_mullo_epi16(hi, minus);
}

/* Four blocks at once. Every task does it anew: one by one it was three in a
 * hundred of a prompt's time. */
SL_INLINE void prepare_four(enum sl_dtype type, struct prep p[4],
                            const int8_t *q, const float *scale,
                            const int16_t *sum)
{
    __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)sum);
    __m128i all = _mm_madd_epi16(halves, _mm_set1_epi16(1)), off[2];
    __m128 a = _mm_loadu_ps(scale), min = _mm_mul_ps(a, _mm_cvtepi32_ps(all));
    __m128 c, d;

    offsets(type, off, q, halves, all);
    c = _mm_castsi128_ps(off[0]);
    d = _mm_castsi128_ps(off[1]);
    _MM_TRANSPOSE4_PS(a, min, c, d);
    _mm_storeu_ps((float *)(void *)&p[0], a);
    _mm_storeu_ps((float *)(void *)&p[1], min);
    _mm_storeu_ps((float *)(void *)&p[2], c);
    _mm_storeu_ps((float *)(void *)&p[3], d);
}

/* The same of n < 4 blocks, the last of a row. */
SL_INLINE void prepare_rest(enum sl_dtype type, struct prep *p, const int8_t *q,
                            const float *scale, const int16_t *sum, size_t n)
{
    struct prep p4[4];
    int8_t q4[4 * 32] = {0};
    float scale4[4] = {0};
    int16_t sum4[4 * 2] = {0};

    __builtin_memcpy(q4, q, n * 32);
    __builtin_memcpy(scale4, scale, n * sizeof(*scale));
    __builtin_memcpy(sum4, sum, 2 * n * sizeof(*sum));
    prepare_four(type, p4, q4, scale4, sum4);
    __builtin_memcpy(p, p4, n * sizeof(*p));
}

/* Columns c to c + n - 1 of tokens t to t + n_tok - 1: [n_tok][n / 32]. */
SL_INLINE void prepare(enum sl_dtype type, struct prep *p,
                       const struct sl_qact *x, size_t t, size_t n_tok,
                       size_t c, size_t n)
{
    const size_t n_blk = n / 32, whole = n_blk / 4 * 4;

    for (; n_tok-- > 0; t++, p += n_blk) {
        const int8_t *q = x->q + t * x->ld + c;
        const float *scale = x->scale + (t * x->ld + c) / 32;
        const int16_t *sum = x->sum + (t * x->ld + c) / 16;

        for (size_t b = 0; b < whole; b += 4)
            prepare_four(type, p + b, q + 32 * b, scale + b, sum + 2 * b);
        if (n_blk > whole)
            prepare_rest(type, p + whole, q + 32 * whole, scale + whole,
                         sum + 2 * whole, n_blk - whole);
    }
}

/* From token t and, within it, column c on. */
SL_INLINE struct act act_at(const struct act *x, size_t t, size_t c)
{
    return (struct act){x->q + t * x->ld + c, x->p + t * x->ld_p + c / 32,
                        x->ld, x->ld_p};
}

/* Tokens up to which weights are unpacked at each use, twice for more than
 * MAX_M: to FEW where that is little more than a mask. */
SL_INLINE size_t max_direct(enum sl_dtype t)
{
    return t == SL_Q8_0 || t == SL_BFP8 || t == SL_Q4_0 || t == SL_Q4_1 ||
                   t == SL_Q4_K || t == SL_BFP4
               ? FEW
               : UNPACK_TWICE;
}

/* Tokens of the next block when `left` are left: as even as possible, 3 + 3
 * rather than 4 + 2. */
SL_INLINE size_t share(size_t left)
{
    size_t blocks = (left + MAX_M - 1) / MAX_M;

    return (left + blocks - 1) / blocks;
}

#define TYPE SL_Q8_0
#define NAME(x) x##_q8_0
#include "kern/x86/quant_mul_tmpl.h"

#define TYPE SL_Q6_K
#define NAME(x) x##_q6_k
#include "kern/x86/quant_mul_tmpl.h"

#define TYPE SL_Q5_K
#define NAME(x) x##_q5_k
#include "kern/x86/quant_mul_tmpl.h"

#define TYPE SL_Q4_K
#define NAME(x) x##_q4_k
#include "kern/x86/quant_mul_tmpl.h"

#define TYPE SL_Q4_0
#define NAME(x) x##_q4_0
#include "kern/x86/quant_mul_tmpl.h"

#define TYPE SL_BFP8
#define NAME(x) x##_bfp8
#include "kern/x86/quant_mul_tmpl.h"

#define TYPE SL_BFP4
#define NAME(x) x##_bfp4
#include "kern/x86/quant_mul_tmpl.h"

#define TYPE SL_Q5_1
#define NAME(x) x##_q5_1
#include "kern/x86/quant_mul_tmpl.h"

#define TYPE SL_Q5_0
#define NAME(x) x##_q5_0
#include "kern/x86/quant_mul_tmpl.h"

#define TYPE SL_Q4_1
#define NAME(x) x##_q4_1
#include "kern/x86/quant_mul_tmpl.h"

#define TYPE SL_Q3_K
#define NAME(x) x##_q3_k
#include "kern/x86/quant_mul_tmpl.h"

#define TYPE SL_Q2_K
#define NAME(x) x##_q2_k
#include "kern/x86/quant_mul_tmpl.h"

#define TYPE SL_IQ4_NL
#define NAME(x) x##_iq4_nl
#include "kern/x86/quant_mul_tmpl.h"

#define TYPE SL_IQ4_XS
#define NAME(x) x##_iq4_xs
#include "kern/x86/quant_mul_tmpl.h"

#define TYPE SL_MXFP4
#define NAME(x) x##_mxfp4
#include "kern/x86/quant_mul_tmpl.h"

void sl_kern_init_quant_mul__avx2(struct sl_kern *k)
{
    k->mulq[SL_Q8_0] = mulq_q8_0;
    k->mulq[SL_Q6_K] = mulq_q6_k;
    k->mulq[SL_Q5_K] = mulq_q5_k;
    k->mulq[SL_Q4_K] = mulq_q4_k;
    k->mulq[SL_Q4_0] = mulq_q4_0;
    k->mulq[SL_BFP8] = mulq_bfp8;
    k->mulq[SL_BFP4] = mulq_bfp4;
    k->mulq[SL_Q5_1] = mulq_q5_1;
    k->mulq[SL_Q5_0] = mulq_q5_0;
    k->mulq[SL_Q4_1] = mulq_q4_1;
    k->mulq[SL_Q3_K] = mulq_q3_k;
    k->mulq[SL_Q2_K] = mulq_q2_k;
    k->mulq[SL_IQ4_NL] = mulq_iq4_nl;
    k->mulq[SL_IQ4_XS] = mulq_iq4_xs;
    k->mulq[SL_MXFP4] = mulq_mxfp4;
}
