/* kern/wide/quant_mul_tmpl.h - products with quantised weights, by dot4
 *
 * A register of weights holds four columns of VEC output rows (kern/quant.h),
 * so one broadcast of four activations meets all of them, and an output stays
 * in its lane. dot4 adds four products of bytes to 32 bits without saturation,
 * so integers are exact whatever the type.
 *
 * Zero points cost nothing: the sum of integers does not begin with 0 but with
 * minus the zero point times the sum of the activations. Where dot4 takes
 * signed weights, those of 8 bits have theirs taken off by turning a bit.
 *
 * The ways through a matrix are those of x86/quant_mul_avx2.c: few tokens
 * unpack weights in registers, many share a panel in the first-level cache. A
 * strip is G registers of rows; groups that it has beyond the matrix are the
 * last one again, and are not stored.
 *
 * Integer scales of halves (q6_k, q3_k, q2_k) multiply as floats, where a
 * multiplication takes half of what one of 32 bits does: a half is at most
 * 16 * 32 * 127 and its scale 128, so both together stay below 2^24 and no
 * float in between is rounded.
 *
 * Includer: defines the operations of wide.h, and ISA(x).
 */
#include "kern/quant.h"
#include "kern/wide/wide.h"

enum {
    G = 2,           /* registers of rows at a time */
    STRIP = G * VEC, /* output rows of them */
    /* Tokens at a time: their sums stay in registers, what is accumulated over
     * blocks rests in the first-level cache where there are no more. */
    MAX_M = REGS == 32 ? 8 : 4,
    /* Tokens up to which weights are unpacked at each use, twice at most where
     * registers are many. */
    MAX_DIRECT = REGS == 32 ? 2 * MAX_M : 8,
    /* Columns of a panel: 22 KB with the scales. */
    PANEL = 8192 / VEC,
    /* Tokens that share an unpacked panel: they stay in the second-level
     * cache. */
    CHUNK = SL_SMALL ? MAX_DIRECT : 128,
    N_PREP = CHUNK * PANEL / 32, /* blocks of a chunk over a panel */
    AHEAD = 16384, /* bytes that weights are asked for before their use, as for
                      AVX2; 6 to 32 KB are alike */
};

/* 32 columns of VEC rows. */
struct blk {
    vi w[8];
    /* Scale, and minimum (has_min); units of the halves (bfp); scale, and the
     * integer scales of the halves (q6_k, q3_k); d, dmin, and the bytes of both
     * halves' scales and minima (q2_k). */
    vf s[3];
};

/* What the blocks of a unit share. */
struct scales {
    vf d, dmin;
    /* [part][half][block % 4][row]: q4_k, q5_k: scales of blocks 0 to 3, their
     * minima, scales of blocks 4 to 7, their minima; q3_k: sixteen scales + 32,
     * a block being a half of one; iq4_xs: eight scales + 32 */
    uint8_t sc[4][HALVES][4][8];
};

/* Blocks of 32 columns in what one struct of kern/quant.h holds. */
SL_INLINE size_t n_sub(enum sl_dtype t)
{
    return t == SL_Q4_K || t == SL_Q5_K || t == SL_Q6_K || t == SL_Q3_K ||
                   t == SL_Q2_K || t == SL_IQ4_XS
               ? 8
               : 1;
}

/* A scale and a minimum of a block. */
SL_INLINE bool has_min(enum sl_dtype t)
{
    return t == SL_Q4_K || t == SL_Q5_K || t == SL_Q4_1 || t == SL_Q5_1;
}

/* Its bytes. */
SL_INLINE size_t unit_bytes(enum sl_dtype t)
{
    const size_t bytes[SL_N_DTYPE] = {[SL_Q8_0] = sizeof(struct sl_q8_0_group),
                                      [SL_Q6_K] = sizeof(struct sl_q6_k_group),
                                      [SL_Q5_K] = sizeof(struct sl_q5_k_group),
                                      [SL_Q4_K] = sizeof(struct sl_q4_k_group),
                                      [SL_Q4_0] = sizeof(struct sl_q4_0_group),
                                      [SL_BFP8] = sizeof(struct sl_bfp8_group),
                                      [SL_BFP4] = sizeof(struct sl_bfp4_group),
                                      [SL_Q4_1] = sizeof(struct sl_q4_1_group),
                                      [SL_Q5_0] = sizeof(struct sl_q5_0_group),
                                      [SL_Q5_1] = sizeof(struct sl_q5_1_group),
                                      [SL_Q3_K] = sizeof(struct sl_q3_k_group),
                                      [SL_Q2_K] = sizeof(struct sl_q2_k_group),
                                      [SL_IQ4_NL] = sizeof(struct sl_q4_0_group),
                                      [SL_IQ4_XS] = sizeof(struct sl_iq4_xs_group),
                                      [SL_MXFP4] = sizeof(struct sl_mxfp4_group)};

    return bytes[t];
}

SL_INLINE void put_bytes(uint8_t (*p)[4][8], vi v)
{
    store_n((float *)(void *)p, floats(v), VEC);
}

/* sl_quant_k_scale and sl_quant_k_min of four blocks at once, a byte each. */
SL_INLINE void k_scales(struct scales *s, const struct at *p, size_t off)
{
    const vi x = pair_bytes(p, off), y = pair_bytes(p, off + 32);
    const vi z = pair_bytes(p, off + 64);
    const vi six = iset(0x3f3f3f3f), four = iset(0x0f0f0f0f);
    const vi top = iset(0x30303030);

    put_bytes(s->sc[0], iand(x, six));
    put_bytes(s->sc[1], iand(y, six));
    put_bytes(s->sc[2], ior(iand(z, four), iand(ishr(x, 2), top)));
    put_bytes(s->sc[3], ior(iand(ishr(z, 4), four), iand(ishr(y, 2), top)));
}

/* Scale b of part k, of every row. */
SL_INLINE vi byte_scale(const struct scales *s, size_t k, size_t b)
{
    struct at p = {{s->sc[k][0][b], s->sc[k][HALVES - 1][b]}};

    return pair_u8(&p, 0);
}

/* sl_quant_six of n scales, for every row. */
SL_INLINE void six_scales(struct scales *s, const struct at *p, size_t off,
                          size_t n)
{
    for (size_t k = 0; k < n; k++)
        for (size_t h = 0; h < HALVES; h++)
            sl_quant_six_rows(s->sc[k / 4][h][k % 4], p->p[h] + off, n, k);
}

SL_INLINE void open_unit(enum sl_dtype t, struct scales *s, const struct at *p)
{
    if (t == SL_Q4_K || t == SL_Q5_K) {
        s->d = pair_f16(p, offsetof(struct sl_q4_k_group, d));
        s->dmin = pair_f16(p, offsetof(struct sl_q4_k_group, dmin));
        k_scales(s, p, offsetof(struct sl_q4_k_group, s));
    } else if (n_sub(t) > 1) { /* all others begin with d */
        s->d = pair_f16(p, offsetof(struct sl_q6_k_group, d));
    }
    if (t == SL_Q2_K)
        s->dmin = pair_f16(p, offsetof(struct sl_q2_k_group, dmin));
    if (t == SL_Q3_K)
        six_scales(s, p, offsetof(struct sl_q3_k_group, s), 16);
    if (t == SL_IQ4_XS)
        six_scales(s, p, offsetof(struct sl_iq4_xs_group, s), 8);
}

/* Vector i of halves of bytes that begin at `off`. */
SL_INLINE vi nibbles(const struct at *p, size_t off, size_t i)
{
    vi v = pair_bytes(p, off + 32 * (i % 4));

    return iand(i < 4 ? v : ishr(v, 4), iset(0x0f0f0f0f));
}

/* v shifted so that its bit `from` comes to bit `to`, of every byte. */
SL_INLINE vi move_bit(vi v, size_t from, size_t to)
{
    return from < to ? ishl(v, (int)(to - from)) : ishr(v, (int)(from - to));
}

SL_INLINE vi whole(const struct at *p, size_t off)
{
    vi v = pair_bytes(p, off);

    return WEIGHTS_SIGNED ? ixor(v, iset((int)0x80808080)) : v;
}

/* Bit i of every byte of a vector, moved to `to`. */
SL_INLINE vi extra(const struct at *p, size_t off, size_t i, size_t to)
{
    return iand(move_bit(pair_bytes(p, off), i, to),
                iset((int)(0x01010101u << to)));
}

/* Bits 2 i, 2 i + 1 of the two vectors at `off`, i < 4 for each, moved to `to`.
 */
SL_INLINE vi two_bits(const struct at *p, size_t off, size_t i, size_t to)
{
    return iand(move_bit(pair_bytes(p, off + 32 * (i / 4)), 2 * (i % 4), to),
                iset((int)(0x03030303u << to)));
}

/* Levels of iq4_nl and iq4_xs. */
SL_INLINE vi levels(const struct at *p, size_t off, size_t i)
{
    vi v = look_up(sl_quant_iq4, nibbles(p, off, i));

    return WEIGHTS_SIGNED ? v : ixor(v, iset((int)0x80808080));
}

/* Vector i of block b of a unit, as dot4 takes it: u, t[u] + 12 for mxfp4. */
SL_INLINE vi weight(enum sl_dtype t, const struct at *p, size_t b, size_t i)
{
    static const int8_t e2m1[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                    12, 11, 10, 9,  8,  6,  4,  0};

    if (t == SL_Q8_0)
        return whole(p, offsetof(struct sl_q8_0_group, q) + 32 * i);
    if (t == SL_BFP8)
        return whole(p, offsetof(struct sl_bfp8_group, q) + 32 * i);
    if (t == SL_Q4_0)
        return nibbles(p, offsetof(struct sl_q4_0_group, q), i);
    if (t == SL_BFP4)
        return nibbles(p, offsetof(struct sl_bfp4_group, q), i);
    if (t == SL_Q4_1)
        return nibbles(p, offsetof(struct sl_q4_1_group, q), i);
    if (t == SL_Q4_K)
        return nibbles(p, offsetof(struct sl_q4_k_group, q) + 128 * b, i);
    if (t == SL_IQ4_NL)
        return levels(p, offsetof(struct sl_q4_0_group, q), i);
    if (t == SL_IQ4_XS)
        return levels(p, offsetof(struct sl_iq4_xs_group, q) + 128 * b, i);
    if (t == SL_MXFP4)
        return look_up(e2m1,
                       nibbles(p, offsetof(struct sl_mxfp4_group, q), i));
    if (t == SL_Q5_0)
        return ior(nibbles(p, offsetof(struct sl_q5_0_group, q), i),
                   extra(p, offsetof(struct sl_q5_0_group, h), i, 4));
    if (t == SL_Q5_1)
        return ior(nibbles(p, offsetof(struct sl_q5_1_group, q), i),
                   extra(p, offsetof(struct sl_q5_1_group, h), i, 4));
    if (t == SL_Q5_K)
        return ior(nibbles(p, offsetof(struct sl_q5_k_group, q) + 128 * b, i),
                   extra(p, offsetof(struct sl_q5_k_group, h) + 32 * b, i, 4));
    if (t == SL_Q2_K)
        return two_bits(p, offsetof(struct sl_q2_k_group, q) + 64 * b, i, 0);
    if (t == SL_Q3_K)
        return ior(two_bits(p, offsetof(struct sl_q3_k_group, q) + 64 * b, i, 0),
                   extra(p, offsetof(struct sl_q3_k_group, h) + 32 * b, i, 2));
    return ior(nibbles(p, offsetof(struct sl_q6_k_group, q) + 128 * b, i),
               two_bits(p, offsetof(struct sl_q6_k_group, h) + 64 * b, i, 4));
}

/* sl_quant_bfp_unit of the exponents at `off` */
SL_INLINE vf bfp_units(const struct at *p, size_t off, float one)
{
    return vmul(floats(ishl(pair_u8(p, off), 23)), set(one));
}

/* sl_quant_mxfp4_unit of the exponents */
SL_INLINE vf mxfp4_units(const struct at *p)
{
    vi e = pair_u8(p, offsetof(struct sl_mxfp4_group, e));
    vi a = iadd(ishr(e, 1), iset(63));
    vi b = iadd(ishr(iadd(e, iset(1)), 1), iset(63));

    return vmul(floats(ishl(a, 23)), floats(ishl(b, 23)));
}

/* s of struct blk. */
SL_INLINE vf scale(enum sl_dtype t, const struct scales *s, const struct at *p,
                   size_t b, size_t i)
{
    const size_t at_s = offsetof(struct sl_q2_k_group, s) + 16 * b;

    if (t == SL_MXFP4)
        return i ? set(0) : mxfp4_units(p);
    if (t == SL_BFP8)
        return i > 1 ? set(0) : bfp_units(p, 8 * i, 0x1p-6f);
    if (t == SL_BFP4)
        return i > 1 ? set(0) : bfp_units(p, 8 * i, 0x1p-2f);
    if (t == SL_Q6_K) { /* neighbours in a pair of bytes */
        vi v = pair_i16(p, offsetof(struct sl_q6_k_group, sc) + 16 * b);

        v = i == 1 ? isra(ishl(v, 24), 24) : isra(v, 8);
        return i == 0 ? s->d : to_float(v);
    }
    if (t == SL_Q3_K)
        return i == 0 ? s->d
                      : to_float(iadd(byte_scale(s, b / 2, b % 2 * 2 + i - 1),
                                      iset(-32)));
    if (t == SL_Q2_K)
        return i == 0   ? s->d
               : i == 1 ? s->dmin
                        : floats(ior(pair_u8(p, at_s),
                                     ishl(pair_u8(p, at_s + 8), 8)));
    if (t == SL_Q4_1 || t == SL_Q5_1) /* m lies where q4_1 has it */
        return i == 0   ? pair_f16(p, 0)
               : i == 1 ? vmul(pair_f16(p, offsetof(struct sl_q4_1_group, m)),
                               set(-1))
                        : set(0);
    if (n_sub(t) == 1)
        return i ? set(0) : pair_f16(p, offsetof(struct sl_q4_0_group, d));
    if (t == SL_IQ4_XS)
        return i ? set(0)
                 : vmul(s->d, to_float(iadd(byte_scale(s, b / 4, b % 4),
                                            iset(-32))));
    if (i == 0)
        return vmul(s->d, to_float(byte_scale(s, b / 4 * 2, b % 4)));
    return i == 1 ? vmul(s->dmin, to_float(byte_scale(s, b / 4 * 2 + 1, b % 4)))
                  : set(0);
}

/* Where a block's weights come from, for G registers: unpacked, or packed and
 * unpacked at each use. Which is a constant where this is inlined. */
struct from {
    const struct blk *blk; /* [G], or NULL */
    struct at unit[G];
    const struct scales *scales; /* [G] */
    size_t b;
};

SL_INLINE vi get_w(enum sl_dtype t, const struct from *f, size_t g, size_t i)
{
    return f->blk ? f->blk[g].w[i] : weight(t, &f->unit[g], f->b, i);
}

SL_INLINE vf get_s(enum sl_dtype t, const struct from *f, size_t g, size_t i)
{
    return f->blk ? f->blk[g].s[i]
                  : scale(t, &f->scales[g], &f->unit[g], f->b, i);
}

/* Activations from some column on, and what they contribute that no weight
 * changes: for each block, `off` of both halves and `min`. */
struct act {
    const int8_t *q;
    const float *scale, *min;
    const int32_t *off;
    size_t ld, ld_scale, ld_prep;
};

typedef vi sums[MAX_M][G];
typedef vf accs[MAX_M][G];

SL_INLINE int zero_point(enum sl_dtype t)
{
    const int zero[SL_N_DTYPE] = {[SL_Q4_0] = 8,  [SL_BFP4] = 8,
                                  [SL_Q5_0] = 16, [SL_Q6_K] = 32,
                                  [SL_Q3_K] = 4,  [SL_MXFP4] = 12};

    if (t == SL_Q8_0 || t == SL_BFP8 || t == SL_IQ4_NL || t == SL_IQ4_XS)
        return WEIGHTS_SIGNED ? 0 : 128;
    return zero[t];
}

/* Where the sum of token t over n halves from h on begins. */
SL_INLINE vi begin(enum sl_dtype type, const struct act *x, size_t t, size_t h)
{
    return zero_point(type) ? spread(&x->off[2 * t * x->ld_prep + h]) : iset(0);
}

#ifdef HAVE_MM2
/* sum_halves for an even number of tokens: two rows of weights by two tokens,
 * eight columns at once. Two vectors of four columns are zipped to one of eight
 * for that, which all tokens share. */
SL_INLINE void sum_pairs(enum sl_dtype type, size_t m, sums s,
                         const struct from *f, const struct act *x, size_t h,
                         size_t n)
{
    vi c[MAX_M / 2][G][2];

    UNROLL
    for (size_t t = 0; t < m / 2; t++) {
        UNROLL
        for (size_t g = 0; g < G; g++)
            c[t][g][0] = c[t][g][1] = iset(0);
    }
    UNROLL
    for (size_t i = 4 * h; i < 4 * (h + n); i += 2) {
        vi w[G][2];

        UNROLL
        for (size_t g = 0; g < G; g++)
            zip_columns(w[g], get_w(type, f, g, i), get_w(type, f, g, i + 1));
        UNROLL
        for (size_t t = 0; t < m / 2; t++) {
            const int8_t *q = x->q + 2 * t * x->ld + 4 * i;

            UNROLL
            for (size_t g = 0; g < G; g++)
                mm2(c[t][g], w[g], q, q + x->ld);
        }
    }
    UNROLL
    for (size_t t = 0; t < m; t++) {
        vi start = begin(type, x, t, h);

        UNROLL
        for (size_t g = 0; g < G; g++)
            s[t][g] = iadd(start, of_token(c[t / 2][g], t % 2));
    }
}
#endif

/* Sums over n halves of a block, from half h on: m tokens by G registers. */
SL_INLINE void sum_halves(enum sl_dtype type, size_t m, sums s,
                          const struct from *f, const struct act *x, size_t h,
                          size_t n)
{
#ifdef HAVE_MM2
    if (m % 2 == 0) {
        sum_pairs(type, m, s, f, x, h, n);
        return;
    }
#endif
    UNROLL
    for (size_t t = 0; t < m; t++) {
        vi start = begin(type, x, t, h);

        UNROLL
        for (size_t g = 0; g < G; g++)
            s[t][g] = start;
    }
    UNROLL
    for (size_t i = 4 * h; i < 4 * (h + n); i++) {
        vi w[G];

        UNROLL
        for (size_t g = 0; g < G; g++)
            w[g] = get_w(type, f, g, i);
        UNROLL
        for (size_t t = 0; t < m; t++) {
            vi a = spread(x->q + t * x->ld + 4 * i);

            UNROLL
            for (size_t g = 0; g < G; g++)
                s[t][g] = dot4(s[t][g], w[g], a);
        }
    }
}

/* acc = fma(scale * a, i, acc) */
SL_INLINE vf fma_int(vf scale, vf a, vf i, vf acc)
{
    return vfma(vmul(scale, a), i, acc);
}

SL_INLINE vf scale_of(const struct act *x, size_t t)
{
    return set(x->scale[t * x->ld_scale]);
}

/* All 32 columns have one scale; some types a minimum too. */
SL_INLINE void step_one(enum sl_dtype type, size_t m, accs acc,
                        const struct from *f, const struct act *x)
{
    sums s;

    sum_halves(type, m, s, f, x, 0, 2);
    UNROLL
    for (size_t g = 0; g < G; g++) {
        vf d = get_s(type, f, g, 0), min = set(0);

        if (has_min(type))
            min = get_s(type, f, g, 1);
        UNROLL
        for (size_t t = 0; t < m; t++) {
            acc[t][g] =
                fma_int(d, scale_of(x, t), to_float(s[t][g]), acc[t][g]);
            if (has_min(type))
                acc[t][g] =
                    vfnma(min, set(x->min[t * x->ld_prep]), acc[t][g]);
        }
    }
}

/* q6_k and q3_k: an integer scale for each half; q2_k: and an integer minimum.
 */
SL_INLINE vf half_scale(enum sl_dtype type, const struct from *f, size_t g,
                        size_t h)
{
    if (type == SL_Q2_K)
        return to_float(
            iand(ishr(bits(get_s(type, f, g, 2)), h ? 8 : 0), iset(15)));
    return get_s(type, f, g, 1 + h);
}

/* The minima of q2_k. */
SL_INLINE void step_q2_min(size_t m, accs acc, const struct from *f,
                           const struct act *x)
{
    UNROLL
    for (size_t g = 0; g < G; g++) {
        vf dmin = get_s(SL_Q2_K, f, g, 1);
        vi v = bits(get_s(SL_Q2_K, f, g, 2));
        vf m0 = to_float(iand(ishr(v, 4), iset(15)));
        vf m1 = to_float(ishr(v, 12));

        UNROLL
        for (size_t t = 0; t < m; t++) {
            const int32_t *off = &x->off[2 * t * x->ld_prep];
            vf i = vfma(m0, set((float)off[0]), vmul(m1, set((float)off[1])));

            acc[t][g] = vfnma(dmin, vmul(scale_of(x, t), i), acc[t][g]);
        }
    }
}

SL_INLINE void step_q6(enum sl_dtype type, size_t m, accs acc,
                       const struct from *f, const struct act *x)
{
    vf both[MAX_M][G];

    UNROLL
    for (size_t h = 0; h < 2; h++) {
        sums s;

        sum_halves(type, m, s, f, x, h, 1);
        UNROLL
        for (size_t g = 0; g < G; g++) {
            vf sc = half_scale(type, f, g, h);

            UNROLL
            for (size_t t = 0; t < m; t++)
                both[t][g] = h ? vfma(to_float(s[t][g]), sc, both[t][g])
                               : vmul(to_float(s[t][g]), sc);
        }
    }
    UNROLL
    for (size_t g = 0; g < G; g++) {
        vf d = get_s(type, f, g, 0);

        UNROLL
        for (size_t t = 0; t < m; t++)
            acc[t][g] = fma_int(d, scale_of(x, t), both[t][g], acc[t][g]);
    }
    if (type == SL_Q2_K)
        step_q2_min(m, acc, f, x);
}

/* bfp8 and bfp4: a unit for each half. */
SL_INLINE void step_bfp(enum sl_dtype type, size_t m, accs acc,
                        const struct from *f, const struct act *x)
{
    UNROLL
    for (size_t h = 0; h < 2; h++) {
        sums s;

        sum_halves(type, m, s, f, x, h, 1);
        UNROLL
        for (size_t g = 0; g < G; g++) {
            vf unit = get_s(type, f, g, h);

            UNROLL
            for (size_t t = 0; t < m; t++)
                acc[t][g] =
                    fma_int(unit, scale_of(x, t), to_float(s[t][g]), acc[t][g]);
        }
    }
}

/* 32 columns; x moves on to the next block. */
SL_INLINE void step(enum sl_dtype type, size_t m, accs acc,
                    const struct from *f, struct act *x)
{
    if (type == SL_Q6_K || type == SL_Q3_K || type == SL_Q2_K)
        step_q6(type, m, acc, f, x);
    else if (type == SL_BFP8 || type == SL_BFP4)
        step_bfp(type, m, acc, f, x);
    else
        step_one(type, m, acc, f, x);
    x->q += 32;
    x->scale += 1;
    x->min += 1;
    x->off += 2;
}

/* --- ways through a matrix --- */

/* Where a product goes: rows beyond `rows` are not stored. */
struct out {
    float *y;
    size_t ldy, rows;
};

SL_INLINE void start(size_t m, const struct out *o, accs acc, bool from_y)
{
    UNROLL
    for (size_t t = 0; t < m; t++) {
        UNROLL
        for (size_t g = 0; g < G; g++)
            acc[t][g] = from_y && o->rows > g * VEC
                            ? load_n(o->y + t * o->ldy + g * VEC,
                                     o->rows - g * VEC)
                            : set(0);
    }
}

SL_INLINE void finish(size_t m, const struct out *o, accs acc)
{
    UNROLL
    for (size_t t = 0; t < m; t++) {
        UNROLL
        for (size_t g = 0; g < G; g++)
            if (o->rows > g * VEC)
                store_n(o->y + t * o->ldy + g * VEC, acc[t][g],
                        o->rows - g * VEC);
    }
}

/* The groups of register g of a strip, of which `rows` are left. */
SL_INLINE struct at groups(const uint8_t *w, size_t g, size_t rows,
                           size_t group_bytes)
{
    const size_t last = (rows - 1) / SL_GROUP;
    struct at a = {{NULL, NULL}};

    for (size_t h = 0; h < HALVES; h++)
        a.p[h] = w + sl_min(g * HALVES + h, last) * group_bytes;
    return a;
}

SL_INLINE struct at further(const struct at *a, size_t bytes)
{
    struct at b = {{NULL, NULL}};

    for (size_t h = 0; h < HALVES; h++)
        b.p[h] = a->p[h] + bytes;
    return b;
}

/* Ask for `bytes` at p, into the second-level cache: on Zen 4 too few lines can
 * be on their way to the first. */
SL_INLINE void fetch(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(p + i, 0, 2);
}

/* The same of what lies AHEAD of p, on the way of a group that ends at `end`;
 * the first group of the next strip follows the last one of this. Where a group
 * is shorter than AHEAD it is a later strip. */
SL_INLINE void fetch_ahead(const uint8_t *p, size_t bytes, const uint8_t *end,
                           size_t group_bytes)
{
    const uint8_t *at = p + AHEAD;

    fetch(at < end ? at : at + (STRIP / SL_GROUP - 1) * group_bytes, bytes);
}

/* Columns c0 to c0 + n - 1 of a strip, m tokens: memory is the limit. c0 is the
 * beginning of a unit. */
SL_INLINE void direct(enum sl_dtype type, size_t m, const struct out *o,
                      const uint8_t *w, struct act x, size_t c0, size_t n,
                      size_t cols)
{
    const size_t sub = n_sub(type), bytes = unit_bytes(type);
    const size_t group_bytes = cols / (32 * sub) * bytes, part = bytes / sub;
    struct at row[G];
    accs acc;

    start(m, o, acc, c0 > 0);
    UNROLL
    for (size_t g = 0; g < G; g++)
        row[g] = groups(w, g, o->rows, group_bytes);
    for (size_t u = c0 / (32 * sub); u < (c0 + n) / (32 * sub); u++) {
        struct scales s[G];
        struct from f = {.scales = s};

        UNROLL
        for (size_t g = 0; g < G; g++) {
            f.unit[g] = further(&row[g], u * bytes);
            open_unit(type, &s[g], &f.unit[g]);
        }
        for (; f.b < sub; f.b++) {
            UNROLL
            for (size_t g = 0; g < G; g++)
                for (size_t h = 0; h < HALVES; h++)
                    fetch_ahead(f.unit[g].p[h] + f.b * part, part,
                                row[g].p[h] + group_bytes, group_bytes);
            step(type, m, acc, &f, &x);
        }
    }
    finish(m, o, acc);
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
    finish(m, o, acc);
}

/* Columns c0 to c0 + n - 1 of a strip. */
SL_INLINE void unpack(enum sl_dtype type, struct blk *panel, const uint8_t *w,
                      size_t rows, size_t c0, size_t n, size_t cols)
{
    const size_t sub = n_sub(type), bytes = unit_bytes(type);

    for (size_t g = 0; g < G; g++) {
        struct at p = groups(w, g, rows, cols / (32 * sub) * bytes);

        p = further(&p, c0 / (32 * sub) * bytes);
        for (size_t b = 0; b < n / 32; b += sub, p = further(&p, bytes)) {
            struct scales s;

            open_unit(type, &s, &p);
            for (size_t i = 0; i < sub; i++) {
                struct blk *o = &panel[(b + i) * G + g];

                UNROLL
                for (size_t j = 0; j < 8; j++)
                    o->w[j] = weight(type, &p, i, j);
                UNROLL
                for (size_t j = 0; j < 3; j++)
                    o->s[j] = scale(type, &s, &p, i, j);
            }
        }
    }
}

/* Columns c to c + n - 1 of tokens t to t + n_tok - 1: [n_tok][n / 32]. */
SL_INLINE void prepare(enum sl_dtype type, int32_t *off, float *min,
                       const struct sl_qact *x, size_t t, size_t n_tok,
                       size_t c, size_t n)
{
    const bool halves = type == SL_Q6_K || type == SL_Q3_K ||
                        type == SL_Q2_K || type == SL_BFP4 || type == SL_BFP8;
    const int times = type == SL_Q2_K ? 1 : -zero_point(type);

    if (!zero_point(type) && !has_min(type) && type != SL_Q2_K)
        return;
    for (; n_tok-- > 0; t++, off += n / 16, min += n / 32) {
        const float *scale = x->scale + (t * x->ld + c) / 32;
        const int16_t *sum = x->sum + (t * x->ld + c) / 16;

        for (size_t b = 0; b < n / 32; b++) {
            int total = sum[2 * b] + sum[2 * b + 1];

            off[2 * b] = times * (halves ? sum[2 * b] : total);
            off[2 * b + 1] = times * sum[2 * b + 1];
            min[b] = scale[b] * (float)total;
        }
    }
}

/* From token t on. */
SL_INLINE struct act act_at(const struct act *x, size_t t)
{
    struct act a = *x;

    a.q += t * x->ld;
    a.scale += t * x->ld_scale;
    a.min += t * x->ld_prep;
    a.off += 2 * t * x->ld_prep;
    return a;
}

/* Tokens of the next block when `left` are left, as even as possible. */
SL_INLINE size_t share(size_t left)
{
    size_t blocks = (left + MAX_M - 1) / MAX_M;

    return (left + blocks - 1) / blocks;
}

#define TYPE SL_Q8_0
#define NAME(x) x##_q8_0
#include "kern/wide/quant_type_tmpl.h"

#define TYPE SL_Q6_K
#define NAME(x) x##_q6_k
#include "kern/wide/quant_type_tmpl.h"

#define TYPE SL_Q5_K
#define NAME(x) x##_q5_k
#include "kern/wide/quant_type_tmpl.h"

#define TYPE SL_Q4_K
#define NAME(x) x##_q4_k
#include "kern/wide/quant_type_tmpl.h"

#define TYPE SL_Q4_0
#define NAME(x) x##_q4_0
#include "kern/wide/quant_type_tmpl.h"

#define TYPE SL_BFP8
#define NAME(x) x##_bfp8
#include "kern/wide/quant_type_tmpl.h"

#define TYPE SL_BFP4
#define NAME(x) x##_bfp4
#include "kern/wide/quant_type_tmpl.h"

#define TYPE SL_Q5_1
#define NAME(x) x##_q5_1
#include "kern/wide/quant_type_tmpl.h"

#define TYPE SL_Q5_0
#define NAME(x) x##_q5_0
#include "kern/wide/quant_type_tmpl.h"

#define TYPE SL_Q4_1
#define NAME(x) x##_q4_1
#include "kern/wide/quant_type_tmpl.h"

#define TYPE SL_Q3_K
#define NAME(x) x##_q3_k
#include "kern/wide/quant_type_tmpl.h"

#define TYPE SL_Q2_K
#define NAME(x) x##_q2_k
#include "kern/wide/quant_type_tmpl.h"

#define TYPE SL_IQ4_NL
#define NAME(x) x##_iq4_nl
#include "kern/wide/quant_type_tmpl.h"

#define TYPE SL_IQ4_XS
#define NAME(x) x##_iq4_xs
#include "kern/wide/quant_type_tmpl.h"

#define TYPE SL_MXFP4
#define NAME(x) x##_mxfp4
#include "kern/wide/quant_type_tmpl.h"

void ISA(sl_kern_init_quant_mul)(struct sl_kern *k)
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
