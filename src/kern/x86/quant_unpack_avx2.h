/* kern/x86/quant_unpack_avx2.h - blocks of quantised weights in registers
 *
 * What the products of quant_mul_avx2.c are made of: the bytes of four columns
 * of eight rows, and the scales of a block, for every type of kern/quant.h. The
 * type is a constant where these are inlined, so nothing of the others is left.
 */
#ifndef SL_KERN_X86_QUANT_UNPACK_AVX2_H
#define SL_KERN_X86_QUANT_UNPACK_AVX2_H

#include <immintrin.h>

#include "kern/quant.h"
#include "kern/x86/vec_avx2.h"

/* Scales of a unit of columns that is read at once. */
struct scales {
    __m256 d, dmin;
    /* q4_k, q5_k: eight scales, eight minima; q3_k: sixteen scales, iq4_xs:
     * eight, + 32 */
    uint8_t sc[16][8];
};

SL_INLINE __m256i load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

SL_INLINE __m256 load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* Four bytes in every lane. */
SL_INLINE __m256i spread(const void *p)
{
    int32_t v;

    __builtin_memcpy(&v, p, sizeof(v));
    return _mm256_set1_epi32(v);
}

/* Blocks of 32 columns in what one struct of kern/quant.h holds. */
SL_INLINE size_t n_sub(enum sl_dtype t)
{
    return t == SL_Q4_K || t == SL_Q5_K || t == SL_Q6_K || t == SL_Q3_K ||
                   t == SL_Q2_K || t == SL_IQ4_XS
               ? 8
               : 1;
}

/* The zero point that the beginning of a sum in 16 bits takes off. */
SL_INLINE int zero_point(enum sl_dtype t)
{
    const int zero[SL_N_DTYPE] = {
        [SL_Q4_0] = 8,  [SL_BFP4] = 8,  [SL_Q5_K] = 16, [SL_Q5_0] = 16,
        [SL_Q5_1] = 16, [SL_Q6_K] = 32, [SL_Q3_K] = 4,  [SL_MXFP4] = 12};

    return zero[t];
}

/* A scale and a minimum of a block. */
SL_INLINE bool has_min(enum sl_dtype t)
{
    return t == SL_Q4_K || t == SL_Q5_K || t == SL_Q4_1 || t == SL_Q5_1;
}

/* Its bytes. */
SL_INLINE size_t unit_bytes(enum sl_dtype t)
{
    const size_t bytes[SL_N_DTYPE] = {
        [SL_Q8_0] = sizeof(struct sl_q8_0_group),
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

/* The twelve vectors of eight bytes -> eight scales and minima for each row
 * (sl_quant_k_scale, sl_quant_k_min). */
SL_INLINE void k_scales(struct scales *s, const uint8_t p[12][8])
{
    const __m256i low6 = _mm256_set1_epi8(63), low4 = _mm256_set1_epi8(15);
    const __m256i top = _mm256_set1_epi8(0x30);
    __m256i a = load(p[0]), b = load(p[4]), c = load(p[8]);
    __m256i a4 = _mm256_and_si256(_mm256_srli_epi16(a, 2), top);
    __m256i b4 = _mm256_and_si256(_mm256_srli_epi16(b, 2), top);
    __m256i c4 = _mm256_and_si256(_mm256_srli_epi16(c, 4), low4);

    _mm256_storeu_si256((__m256i *)s->sc[0], _mm256_and_si256(a, low6));
    _mm256_storeu_si256((__m256i *)s->sc[8], _mm256_and_si256(b, low6));
    _mm256_storeu_si256((__m256i *)s->sc[4],
                        _mm256_or_si256(_mm256_and_si256(c, low4), a4));
    _mm256_storeu_si256((__m256i *)s->sc[12], _mm256_or_si256(c4, b4));
}

/* What the blocks of the unit at p share. */
SL_INLINE void open_unit(enum sl_dtype t, struct scales *s, const void *p)
{
    const struct sl_q4_k_group *k = p;  /* q5_k begins like q4_k */
    const struct sl_q6_k_group *k6 = p; /* q3_k and iq4_xs like it */
    const struct sl_q2_k_group *k2 = p;
    const struct sl_q3_k_group *k3 = p;
    const struct sl_iq4_xs_group *x4 = p;

    if (t == SL_Q4_K || t == SL_Q5_K) {
        s->d = load_f16(k->d);
        s->dmin = load_f16(k->dmin);
        k_scales(s, k->s);
    } else if (t == SL_Q2_K) {
        s->d = load_f16(k2->d);
        s->dmin = load_f16(k2->dmin);
    } else if (n_sub(t) > 1) {
        s->d = load_f16(k6->d);
    }
    UNROLL
    for (size_t i = 0; i < 16; i++) {
        if (t == SL_Q3_K)
            sl_quant_six_rows(s->sc[i], k3->s[0], 16, i);
        else if (t == SL_IQ4_XS && i < 8)
            sl_quant_six_rows(s->sc[i], x4->s[0], 8, i);
    }
}

/* Low or high halves of bytes. */
SL_INLINE __m256i nibbles(__m256i v, size_t i)
{
    const __m256i low = _mm256_set1_epi8(15);

    return _mm256_and_si256(i < 4 ? v : _mm256_srli_epi16(v, 4), low);
}

/* v shifted so that its bit `from` comes to bit `to`, of every byte. */
SL_INLINE __m256i move_bit(__m256i v, size_t from, size_t to)
{
    return from < to ? _mm256_slli_epi16(v, (int)(to - from))
                     : _mm256_srli_epi16(v, (int)(from - to));
}

/* Vector i of values of a table. */
SL_INLINE __m256i look_up(const int8_t table[16], __m256i q, size_t i)
{
    __m128i t = _mm_loadu_si128((const __m128i *)(const void *)table);

    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), nibbles(q, i));
}

/* Bit i of every byte of h, moved to `to`. */
SL_INLINE __m256i extra(const uint8_t h[8][4], size_t i, size_t to)
{
    return _mm256_and_si256(move_bit(load(h), i, to),
                            _mm256_set1_epi8((char)(1 << to)));
}

/* Bits 2 i, 2 i + 1 of every byte of h, moved to `to`. */
SL_INLINE __m256i two_bits(const uint8_t h[8][4], size_t i, size_t to)
{
    return _mm256_and_si256(move_bit(load(h), 2 * i, to),
                            _mm256_set1_epi8((char)(3 << to)));
}

/* The vector that the halves of bytes of vectors i and i + 4 of block b lie in
 * together, i < 4; q2_k and q3_k have none. */
SL_INLINE __m256i both_halves(enum sl_dtype t, const void *p, size_t b,
                              size_t i)
{
    switch (t) {
    case SL_Q4_0:
    case SL_IQ4_NL:
        return load(((const struct sl_q4_0_group *)p)->q[i]);
    case SL_Q4_1:
        return load(((const struct sl_q4_1_group *)p)->q[i]);
    case SL_Q5_0:
        return load(((const struct sl_q5_0_group *)p)->q[i]);
    case SL_Q5_1:
        return load(((const struct sl_q5_1_group *)p)->q[i]);
    case SL_BFP4:
        return load(((const struct sl_bfp4_group *)p)->q[i]);
    case SL_MXFP4:
        return load(((const struct sl_mxfp4_group *)p)->q[i]);
    case SL_Q4_K:
        return load(((const struct sl_q4_k_group *)p)->q[b][i]);
    case SL_Q5_K:
        return load(((const struct sl_q5_k_group *)p)->q[b][i]);
    case SL_Q6_K:
        return load(((const struct sl_q6_k_group *)p)->q[b][i]);
    case SL_IQ4_XS:
        return load(((const struct sl_iq4_xs_group *)p)->q[b][i]);
    default:
        return _mm256_setzero_si256();
    }
}

/* Vector i of block b of the unit at p, v its halves of bytes: u; 8-bit types:
 * signed, u - 128, and iq4_nl and iq4_xs with them; mxfp4: t[u] + 12. */
SL_INLINE __m256i weight(enum sl_dtype t, __m256i v, const void *p, size_t b,
                         size_t i)
{
    static const int8_t e2m1[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                    12, 11, 10, 9,  8,  6,  4,  0};
    const struct sl_q6_k_group *k6 = p;
    const struct sl_q3_k_group *k3 = p;
    const struct sl_q2_k_group *k2 = p;

    if (t == SL_Q8_0)
        return _mm256_xor_si256(load(((const struct sl_q8_0_group *)p)->q[i]),
                                _mm256_set1_epi8((char)0x80));
    if (t == SL_BFP8)
        return _mm256_xor_si256(load(((const struct sl_bfp8_group *)p)->q[i]),
                                _mm256_set1_epi8((char)0x80));
    if (t == SL_IQ4_NL || t == SL_IQ4_XS)
        return look_up(sl_quant_iq4, v, i);
    if (t == SL_MXFP4)
        return look_up(e2m1, v, i);
    if (t == SL_Q5_0)
        return _mm256_or_si256(
            nibbles(v, i), extra(((const struct sl_q5_0_group *)p)->h, i, 4));
    if (t == SL_Q5_1)
        return _mm256_or_si256(
            nibbles(v, i), extra(((const struct sl_q5_1_group *)p)->h, i, 4));
    if (t == SL_Q5_K)
        return _mm256_or_si256(
            nibbles(v, i),
            extra(((const struct sl_q5_k_group *)p)->h[b], i, 4));
    if (t == SL_Q6_K)
        return _mm256_or_si256(nibbles(v, i),
                               two_bits(k6->h[b][i / 4], i % 4, 4));
    if (t == SL_Q2_K)
        return two_bits(k2->q[b][i / 4], i % 4, 0);
    if (t == SL_Q3_K)
        return _mm256_or_si256(two_bits(k3->q[b][i / 4], i % 4, 0),
                               extra(k3->h[b], i, 2));
    return nibbles(v, i);
}

/* sl_quant_mxfp4_unit of eight exponents */
SL_INLINE __m256 mxfp4_unit(const uint8_t e[8])
{
    __m256i v = load_u8(e), one = _mm256_set1_epi32(1);
    __m256i base = _mm256_set1_epi32(63);
    __m256i a = _mm256_srli_epi32(v, 1);
    __m256i b = _mm256_srli_epi32(_mm256_add_epi32(v, one), 1);

    a = _mm256_slli_epi32(_mm256_add_epi32(a, base), 23);
    b = _mm256_slli_epi32(_mm256_add_epi32(b, base), 23);
    return _mm256_mul_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
}

/* Eight bytes each of p and q, as pairs. */
SL_INLINE __m128i zip(const uint8_t p[8], const uint8_t q[8])
{
    return _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(const void *)p),
                             _mm_loadl_epi64((const __m128i *)(const void *)q));
}

/* s0, s1 and s2 of struct blk. */
SL_INLINE __m256 scale0(enum sl_dtype t, const struct scales *s, const void *p,
                        size_t b)
{
    __m256i sc;

    if (t == SL_BFP8)
        return bfp_unit(((const struct sl_bfp8_group *)p)->e[0], 0x1p-6f);
    if (t == SL_BFP4)
        return bfp_unit(((const struct sl_bfp4_group *)p)->e[0], 0x1p-2f);
    if (t == SL_MXFP4)
        return mxfp4_unit(((const struct sl_mxfp4_group *)p)->e);
    if (n_sub(t) == 1)
        return load_f16(((const struct sl_q4_0_group *)p)->d);
    if (t == SL_Q6_K || t == SL_Q3_K || t == SL_Q2_K)
        return s->d;
    sc = load_u8(s->sc[b]);
    if (t == SL_IQ4_XS)
        sc = _mm256_sub_epi32(sc, _mm256_set1_epi32(32));
    return _mm256_mul_ps(s->d, _mm256_cvtepi32_ps(sc));
}

SL_INLINE __m256 scale1(enum sl_dtype t, const struct scales *s, const void *p,
                        size_t b)
{
    const struct sl_q2_k_group *k2 = p;

    if (t == SL_BFP8)
        return bfp_unit(((const struct sl_bfp8_group *)p)->e[1], 0x1p-6f);
    if (t == SL_BFP4)
        return bfp_unit(((const struct sl_bfp4_group *)p)->e[1], 0x1p-2f);
    if (t == SL_Q6_K)
        return _mm256_castsi256_ps(_mm256_cvtepi8_epi16(_mm_loadu_si128(
            (const __m128i *)(const void *)((const struct sl_q6_k_group *)p)
                ->sc[b])));
    if (t == SL_Q3_K)
        return _mm256_castsi256_ps(_mm256_cvtepi8_epi16(_mm_sub_epi8(
            zip(s->sc[2 * b], s->sc[2 * b + 1]), _mm_set1_epi8(32))));
    if (t == SL_Q2_K)
        return _mm256_castsi256_ps(
            _mm256_cvtepu8_epi16(zip(k2->s[2 * b], k2->s[2 * b + 1])));
    if (t == SL_Q4_K || t == SL_Q5_K)
        return _mm256_mul_ps(s->dmin,
                             _mm256_cvtepi32_ps(load_u8(s->sc[8 + b])));
    if (t == SL_Q4_1 || t == SL_Q5_1) /* m lies where q4_1 has it */
        return _mm256_xor_ps(load_f16(((const struct sl_q4_1_group *)p)->m),
                             _mm256_set1_ps(-0.0f));
    return _mm256_setzero_ps(); /* the others have no second one */
}

#endif
