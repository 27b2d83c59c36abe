/* model/pack.c - one tensor of a file -> its place in memory; see pack.h
 *
 * This is where a model's start-up time goes, so the common case (eight whole
 * rows) is a transposition of small blocks in 64-bit registers that also tests
 * each word for exponents of all ones: portable C that packs several GB/s per
 * core, so a disk is the limit and not this. What is rare (the last rows of a
 * matrix, FP8 that has to be widened) is written for the eye, one element at a
 * time.
 *
 * Words are put together for little-endian machines, as the files are.
 */
#include "model/pack.h"

#include "kern/kern.h"
#include "kern/math.h"
#include "kern/quantise.h"

#define G SL_GROUP

static size_t element_bytes(enum sl_dtype t)
{
    return sl_dtype_get(t)->bytes;
}

static uint16_t load16(const unsigned char *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static uint32_t load32(const unsigned char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static uint64_t load64(const unsigned char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static void store64(void *p, uint64_t v)
{
    memcpy(p, &v, sizeof(v));
}

static bool is_finite(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return (u & 0x7f800000u) != 0x7f800000u;
}

float sl_pack_f32(const unsigned char *p, enum sl_dtype type, size_t i)
{
    float f;
    uint32_t u;

    if (type == SL_BF16)
        return sl_bf16_f32(load16(p + 2 * i));
    if (type == SL_F16)
        return sl_f16_f32(load16(p + 2 * i));
    SL_ASSERT(type == SL_F32);
    u = load32(p + 4 * i);
    memcpy(&f, &u, sizeof(f));
    return f;
}

/* --- where things are in the file --- */

const unsigned char *sl_pack_src_row(const struct sl_pack_mat *m, size_t row)
{
    return m->src + (m->row0 + sl_perm_src(&m->row_perm, row)) *
                        sl_dtype_bytes(m->src_type, m->cols);
}

/* The scale of element (row, col), both in the internal order. */
static const unsigned char *src_scale(const struct sl_pack_mat *m, size_t row,
                                      size_t col)
{
    size_t n = (m->cols + SL_FP8_BLOCK - 1) / SL_FP8_BLOCK;
    size_t r = m->row0 + sl_perm_src(&m->row_perm, row);
    size_t c = sl_perm_src(&m->col_perm, col);

    return m->scale + (r / SL_FP8_BLOCK * n + c / SL_FP8_BLOCK) *
                          element_bytes(m->scale_type);
}

static float scale_at(const struct sl_pack_mat *m, size_t row, size_t col)
{
    return sl_pack_f32(src_scale(m, row, col), m->scale_type, 0);
}

/* Largest finite e4m3 value; with a scale that large the weight overflows. */
static bool is_good_scale(float s)
{
    return is_finite(s) && is_finite(s * 448.0f);
}

enum sl_dtype sl_pack_type(const struct sl_pack_mat *m)
{
    if (m->src_type != SL_FP8)
        return m->src_type;
    for (size_t r = 0; r < m->rows; r++)
        if (src_scale(m, r, 0) != src_scale(m, r / G * G, 0))
            return SL_F32;
    for (size_t c = 0; c < m->cols; c++)
        if (src_scale(m, 0, c) !=
            src_scale(m, 0, c / SL_FP8_BLOCK * SL_FP8_BLOCK))
            return SL_F32;
    return SL_FP8;
}

/* --- eight whole rows --- */

/* [4][4] 16-bit elements in four words -> the transposed block. */
static void transpose16(uint64_t w[4])
{
    const uint64_t odd = 0xffff0000ffff0000u, high = 0xffffffff00000000u;
    uint64_t t;

    for (int i = 0; i < 4; i += 2) {
        t = (w[i] ^ w[i + 1] << 16) & odd;
        w[i] ^= t;
        w[i + 1] ^= t >> 16;
    }
    for (int i = 0; i < 2; i++) {
        t = (w[i] ^ w[i + 2] << 32) & high;
        w[i] ^= t;
        w[i + 2] ^= t >> 32;
    }
}

/* `exp`: the bits of an element's exponent. All of them set is no number: the
 * lowest of them carries into the sign then. */
static bool pack_u16(uint16_t *dst, const unsigned char *const row[G], size_t n,
                     uint16_t exp_bits)
{
    const uint64_t each = 0x0001000100010001u;
    const uint64_t exp = exp_bits * each, one = (exp_bits & -exp_bits) * each;
    const uint64_t top = 0x8000800080008000u;
    uint64_t bad = 0;
    size_t c = 0;

    for (; c + 4 <= n; c += 4) {
        uint64_t lo[4], hi[4];

        for (int i = 0; i < 4; i++) {
            lo[i] = load64(row[i] + 2 * c);
            hi[i] = load64(row[i + 4] + 2 * c);
            bad |= ((lo[i] & exp) + one) | ((hi[i] & exp) + one);
        }
        transpose16(lo);
        transpose16(hi);
        for (size_t i = 0; i < 4; i++) {
            store64(dst + (c + i) * G, lo[i]);
            store64(dst + (c + i) * G + 4, hi[i]);
        }
    }
    for (; c < n; c++)
        for (size_t i = 0; i < G; i++) {
            uint16_t v = load16(row[i] + 2 * c);

            dst[c * G + i] = v;
            bad |= (v & exp & 0xffff) + (one & 0xffff);
        }
    return !(bad & top);
}

static bool pack_u32(uint32_t *dst, const unsigned char *const row[G], size_t n)
{
    uint32_t bad = 0;

    for (size_t c = 0; c < n; c++)
        for (size_t i = 0; i < G; i++) {
            uint32_t v = load32(row[i] + 4 * c);

            dst[c * G + i] = v;
            bad |= (v & 0x7f800000u) + 0x00800000u;
        }
    return !(bad & 0x80000000u);
}

/* [8][8] bytes in eight words -> the transposed block. */
static void transpose8(uint64_t w[8])
{
    static const uint64_t mask[3] = {0xff00ff00ff00ff00u, 0xffff0000ffff0000u,
                                     0xffffffff00000000u};

    for (int s = 0; s < 3; s++) {
        int d = 1 << s;

        for (int i = 0; i < 8; i++) {
            uint64_t t;

            if (i & d)
                continue;
            t = (w[i] ^ w[i + d] << 8 * d) & mask[s];
            w[i] ^= t;
            w[i + d] ^= t >> 8 * d;
        }
    }
}

static bool pack_u8(uint8_t *dst, const unsigned char *const row[G], size_t n)
{
    const uint64_t mag = 0x7f7f7f7f7f7f7f7fu, one = 0x0101010101010101u;
    uint64_t bad = 0;
    size_t c = 0;

    for (; c + 8 <= n; c += 8) {
        uint64_t w[8];

        for (int i = 0; i < 8; i++) {
            w[i] = load64(row[i] + c);
            bad |= (w[i] & mag) + one;
        }
        transpose8(w);
        for (size_t i = 0; i < 8; i++)
            store64(dst + (c + i) * G, w[i]);
    }
    for (; c < n; c++)
        for (size_t i = 0; i < G; i++) {
            dst[c * G + i] = row[i][c];
            bad |= (row[i][c] & 0x7fu) + 1u;
        }
    return !(bad & 0x8080808080808080u);
}

static bool pack_run(const struct sl_pack_mat *m, size_t g, size_t col,
                     const unsigned char *const row[G], size_t n)
{
    size_t at = (g * m->cols + col) * G;

    if (m->type == SL_BF16)
        return pack_u16((uint16_t *)m->dst + at, row, n, 0x7f80);
    if (m->type == SL_F16)
        return pack_u16((uint16_t *)m->dst + at, row, n, 0x7c00);
    if (m->type == SL_F32)
        return pack_u32((uint32_t *)m->dst + at, row, n);
    return pack_u8((uint8_t *)m->dst + at, row, n);
}

/* One group in runs of columns that lie together in the file. */
static bool pack_whole(const struct sl_pack_mat *m, size_t g)
{
    size_t step =
        sl_perm_is_identity(&m->col_perm) ? m->cols : m->col_perm.unit;
    size_t width = element_bytes(m->src_type);
    const unsigned char *row[G], *base[G];
    bool good = true;

    for (size_t i = 0; i < G; i++)
        base[i] = sl_pack_src_row(m, g * G + i);
    for (size_t c = 0; c < m->cols; c += step) {
        size_t from = sl_perm_src(&m->col_perm, c);

        for (size_t i = 0; i < G; i++)
            row[i] = base[i] + from * width;
        good &= pack_run(m, g, c, row, sl_min(step, m->cols - c));
    }
    return good;
}

/* --- everything else, one element at a time --- */

/* The file's bytes of element (row, col) of the internal order. */
static const unsigned char *src_at(const struct sl_pack_mat *m, size_t row,
                                   size_t col)
{
    return sl_pack_src_row(m, row) +
           sl_perm_src(&m->col_perm, col) * element_bytes(m->src_type);
}

static float value_at(const struct sl_pack_mat *m, size_t row, size_t col)
{
    const unsigned char *p = src_at(m, row, col);

    if (m->src_type == SL_FP8)
        return sl_e4m3_f32(*p) * scale_at(m, row, col);
    return sl_pack_f32(p, m->src_type, 0);
}

static bool is_good(const struct sl_pack_mat *m, size_t row, size_t col)
{
    if (m->src_type == SL_FP8)
        return (*src_at(m, row, col) & 0x7f) != 0x7f;
    return is_finite(value_at(m, row, col));
}

static bool pack_slow(const struct sl_pack_mat *m, size_t g)
{
    size_t n = sl_min(G, m->rows - g * G);
    size_t width = element_bytes(m->type);
    unsigned char *dst = (unsigned char *)m->dst + g * m->cols * G * width;
    bool good = true;

    memset(dst, 0, m->cols * G * width); /* the padding */
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < m->cols; c++) {
            size_t row = g * G + i;
            unsigned char *at = dst + (c * G + i) * width;

            good &= is_good(m, row, c);
            if (m->type == m->src_type) {
                memcpy(at, src_at(m, row, c), width);
            } else {
                float f = value_at(m, row, c);

                memcpy(at, &f, sizeof(f));
            }
        }
    return good;
}

/* --- scales --- */

static bool pack_scales(const struct sl_pack_mat *m, size_t g)
{
    size_t n = (m->cols + SL_FP8_BLOCK - 1) / SL_FP8_BLOCK;
    bool good = true;

    for (size_t i = 0; i < n; i++) {
        float s = scale_at(m, g * G, i * SL_FP8_BLOCK);

        good &= is_good_scale(s);
        m->dst_scale[g * n + i] = s;
    }
    return good;
}

/* --- random values --- */

/* The finaliser of SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* A byte -> the sum of its two halves, centred and scaled to a standard
 * deviation of 0.02 (each half varies by 255 / 12). One 64-bit number gives a
 * column of a group. */
static void dummy_table(uint16_t table[256])
{
    for (int i = 0; i < 256; i++)
        table[i] = sl_f32_bf16((float)((i & 15) + (i >> 4) - 15) *
                               (0.02f / 6.519202f));
}

static void dummy_group(const struct sl_pack_mat *m, size_t g,
                        const uint16_t table[256])
{
    uint16_t *dst = (uint16_t *)m->dst + g * m->cols * G;
    size_t n = sl_min(G, m->rows - g * G);

    SL_ASSERT(m->type == SL_BF16);
    for (size_t c = 0; c < m->cols; c++) {
        uint64_t x = mix(m->seed ^ (g * m->cols + c));

        for (size_t i = 0; i < G; i++)
            dst[c * G + i] = i < n ? table[x >> 8 * i & 0xff] : 0;
    }
}

bool sl_pack_row(const struct sl_pack_mat *m, size_t row, float *out)
{
    bool good = true;
    uint16_t table[256];

    if (!m->src) {
        dummy_table(table);
        for (size_t c = 0; c < m->cols; c++)
            out[c] = sl_bf16_f32(
                table[mix(m->seed ^ (row * m->cols + c)) & 0xff]);
        return true;
    }
    if (sl_pack_is_blocks(m)) {
        sl_dequantise_row(m->src_type, out, sl_pack_src_row(m, row), m->cols);
        for (size_t c = 0; c < m->cols; c++)
            good &= is_finite(out[c]);
        return good;
    }
    for (size_t c = 0; c < m->cols; c++) {
        out[c] = value_at(m, row, c);
        good &= is_finite(out[c]);
    }
    return good;
}

bool sl_pack_mat_groups(const struct sl_pack_mat *m, size_t g0, size_t g1,
                        void *scratch)
{
    bool good = true;
    uint16_t table[256];

    if (sl_quant_is(m->type))
        return sl_pack_quant_groups(m, g0, g1, scratch);
    if (!m->src) {
        dummy_table(table);
        for (size_t g = g0; g < g1; g++)
            dummy_group(m, g, table);
        return true;
    }
    for (size_t g = g0; g < g1; g++) {
        bool whole = (g + 1) * G <= m->rows && m->type == m->src_type;

        good &= whole ? pack_whole(m, g) : pack_slow(m, g);
        if (m->type == SL_FP8)
            good &= pack_scales(m, g);
    }
    /* Widened FP8 has its scales in the values; is_good looks at the bytes. */
    return good && !(m->src_type == SL_FP8 && m->type == SL_F32 &&
                     sl_pack_mat_bad(m, g0, g1));
}

const unsigned char *sl_pack_mat_bad(const struct sl_pack_mat *m, size_t g0,
                                     size_t g1)
{
    size_t end = sl_min(g1 * G, m->rows);

    if (sl_pack_is_blocks(m))
        return sl_pack_quant_bad(m, g0, g1);
    for (size_t r = g0 * G; r < end; r++)
        for (size_t c = 0; c < m->cols; c++) {
            if (!is_good(m, r, c))
                return src_at(m, r, c);
            if (m->src_type == SL_FP8 && !is_good_scale(scale_at(m, r, c)))
                return src_scale(m, r, c);
        }
    return NULL;
}

/* --- vectors --- */

static size_t vec_taps(const struct sl_pack_vec *v)
{
    return v->rule == SL_PACK_CONV ? 4 : 1;
}

static float vec_value(const struct sl_pack_vec *v, size_t i)
{
    float u;

    if (v->src)
        return sl_pack_f32(v->src, v->src_type, i);
    u = (float)(mix(v->seed ^ i) >> 40) * (1.0f / 16777216.0f);
    return v->dummy_lo + (v->dummy_hi - v->dummy_lo) * u;
}

static float vec_rule(const struct sl_pack_vec *v, float x)
{
    if (v->rule == SL_PACK_ONE_PLUS)
        return 1.0f + x;
    if (v->rule == SL_PACK_NEG_EXP)
        return -sl_exp(x);
    return x;
}

/* Where tap t of channel i goes: head by head [4][width]. The q and k heads
 * before the permuted part are start / (2 n_key) wide. */
static size_t conv_at(const struct sl_pack_vec *v, size_t i, size_t t)
{
    const struct sl_perm *p = &v->perm;
    size_t from = i < p->start ? 0 : p->start;
    size_t width = i < p->start ? p->start / (2 * p->n_key) : p->unit;
    size_t first = from + (i - from) / width * width;

    return first * vec_taps(v) + t * width + (i - first);
}

bool sl_pack_vec(const struct sl_pack_vec *v)
{
    size_t taps = vec_taps(v);
    bool good = true;

    for (size_t i = 0; i < v->n; i++)
        for (size_t t = 0; t < taps; t++) {
            float x = vec_value(v, sl_perm_src(&v->perm, i) * taps + t);

            x = vec_rule(v, x);
            v->dst[taps > 1 ? conv_at(v, i, t) : i] = x;
            good &= is_finite(x);
        }
    return good;
}

const unsigned char *sl_pack_vec_bad(const struct sl_pack_vec *v)
{
    size_t n = v->n * vec_taps(v);

    for (size_t i = 0; v->src && i < n; i++)
        if (!is_finite(vec_rule(v, vec_value(v, i))))
            return v->src + i * element_bytes(v->src_type);
    return NULL;
}
