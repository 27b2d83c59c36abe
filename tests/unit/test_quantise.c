/* tests/unit/test_quantise.c - blocks: what they mean, how numbers become them,
 * and that groups give them back
 *
 * That a group means what its blocks mean is checked by the kernel tester.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/file.h"
#include "kern/quant.h"
#include "kern/quantise.h"
#include "../help/rig.h"

enum { MAX_N = 4096 };

static const enum sl_dtype types[] = {SL_Q8_0, SL_Q6_K, SL_Q5_K, SL_Q4_K,
                                      SL_Q4_0, SL_BFP8, SL_BFP4};

/* splitmix64 (Steele, Lea and Flood 2014). */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* Twelve uniforms: mean 0, deviation 1. */
static float normal(uint64_t *state)
{
    float sum = -6;

    for (int i = 0; i < 12; i++)
        sum += (float)(next(state) >> 40) * 0x1p-24f;
    return sum;
}

static uint64_t fnv(const void *p, size_t bytes)
{
    const unsigned char *b = p;
    uint64_t h = 0xcbf29ce484222325ull;

    for (size_t i = 0; i < bytes; i++)
        h = (h ^ b[i]) * 0x100000001b3ull;
    return h;
}

/* Blocks of random bytes and what the gguf package makes of them: its values
 * hashed, the first and the last one. tests/golden/make_quant.py prints it. */
static const struct gguf_case {
    enum sl_dtype type;
    size_t n;
    size_t scale_at[2];
    uint64_t hash;
    float head, tail;
} gguf[] = {
    {SL_Q8_0, 8, {0, 0}, 0x13bb7a0d111cb006, 0.18618011f, -0.1794281f},
    {SL_Q6_K, 2, {208, 208}, 0x287c7f1220fbca26, -36.246338f, -4.632042f},
    {SL_Q5_K, 2, {0, 2}, 0x763f967bd75f7e45, -25.101562f, 26.037354f},
    {SL_Q4_K, 2, {0, 2}, 0xe5ae07ad60022d0e, 10.94125f, 0.15268707f},
    {SL_Q4_0, 8, {0, 0}, 0xe22bbc6963832e7c, -0.21826172f, -0.008422852f},
};

static size_t make_blocks(unsigned char *b, const struct gguf_case *g)
{
    size_t size = sl_dtype_get(g->type)->bytes;
    size_t n_scale = g->scale_at[0] == g->scale_at[1] ? 1 : 2;
    uint64_t state = size;

    for (size_t i = 0; i < g->n * size; i++)
        b[i] = (unsigned char)next(&state);
    for (size_t k = 0; k < g->n; k++)
        for (size_t i = 0; i < n_scale; i++) {
            uint64_t h = 0x1400 + next(&state) % 0x1c00;

            h |= (next(&state) & 1) << 15;
            b[k * size + g->scale_at[i]] = (unsigned char)h;
            b[k * size + g->scale_at[i] + 1] = (unsigned char)(h >> 8);
        }
    return g->n * sl_dtype_get(g->type)->block;
}

static void test_meaning_is_gguf(void **state)
{
    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(gguf); i++) {
        unsigned char b[1024];
        float y[1024];
        size_t n = make_blocks(b, &gguf[i]);

        sl_dequantise_row(gguf[i].type, y, b, n);
        assert_true(y[0] == gguf[i].head);
        assert_true(y[n - 1] == gguf[i].tail);
        assert_true(fnv(y, n * sizeof(float)) == gguf[i].hash);
    }
}

/* y: what is left of x when it was kept as type t. `told`: see sl_quantise_row. */
static void there_and_back(enum sl_dtype t, float *y, const float *x,
                           const float *told)
{
    static unsigned char b[2 * MAX_N];

    sl_quantise_row(t, b, x, told, MAX_N);
    sl_dequantise_row(t, y, b, MAX_N);
}

static void normals(float *x, uint64_t seed)
{
    for (size_t i = 0; i < MAX_N; i++)
        x[i] = normal(&seed);
}

/* Error relative to the values, root mean square. */
static double rms_error(enum sl_dtype t)
{
    static float x[MAX_N], y[MAX_N];
    double err = 0, mag = 0;

    normals(x, 5);
    there_and_back(t, y, x, NULL);
    for (size_t i = 0; i < MAX_N; i++) {
        double e = (double)x[i] - (double)y[i];

        err += e * e;
        mag += (double)x[i] * (double)x[i];
    }
    return sqrt(err / mag);
}

/* The errors of model.md 12.5 for normal numbers where it has them, of q4_0 less
 * what fitting its scale gains; those of the K types are what this quantiser
 * gave when it was written, and 0.0186, 0.0378 and 0.0777 without a search. */
static void test_errors(void **state)
{
    static const struct {
        enum sl_dtype type;
        double want;
    } list[] = {{SL_Q8_0, 0.0053},
                {SL_Q4_0, 0.080},
                {SL_BFP8, 0.0072},
                {SL_BFP4, 0.117}};

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(list); i++) {
        double e = rms_error(list[i].type);

        if (!(fabs(e / list[i].want - 1) < 0.1))
            fail_msg("%s: error %g, expected %g",
                     sl_dtype_get(list[i].type)->name, e, list[i].want);
    }
    assert_true(rms_error(SL_Q6_K) < 0.0174);
    assert_true(rms_error(SL_Q5_K) < 0.0350);
    assert_true(rms_error(SL_Q4_K) < 0.0710);
    assert_true(rms_error(SL_Q6_K) < rms_error(SL_Q5_K));
    assert_true(rms_error(SL_Q5_K) < rms_error(SL_Q4_K));
}

/* The error of large elements, as a part of all error. */
static double part_of_large(enum sl_dtype t)
{
    static float x[MAX_N], y[MAX_N];
    double large = 0, all = 0;

    normals(x, 8);
    there_and_back(t, y, x, NULL);
    for (size_t i = 0; i < MAX_N; i++) {
        double e = (double)x[i] - (double)y[i];

        all += e * e;
        large += fabsf(x[i]) > 2 ? e * e : 0;
    }
    return large / all;
}

/* Types of few bits keep large weights better than squares alone would. */
static void test_large_ones(void **state)
{
    (void)state;
    assert_true(part_of_large(SL_Q4_K) < 0.040); /* 0.051 by squares */
    assert_true(part_of_large(SL_Q5_K) < 0.043); /* 0.049 */
}

/* Weights that were kept before the quantiser changed are not taken for those
 * it makes now: who changes what is digested here raises SL_QUANTISER. */
static void test_known_by_number(void **state)
{
    static unsigned char b[MAX_N * 2];
    static float x[MAX_N];
    uint64_t all = 0;

    (void)state;
    normals(x, 10);
    for (size_t i = 0; i < SL_COUNTOF(types); i++) {
        sl_quantise_row(types[i], b, x, NULL, MAX_N);
        all = all * 31 + fnv(b, sl_dtype_bytes(types[i], MAX_N));
    }
    assert_int_equal(SL_QUANTISER, 1);
    assert_true(all == 0x92d4395323faec9b);
}

/* Numbers that a type can hold come back unchanged: multiples of a power of
 * two with the extreme that sets the scale. */
static void test_exact_numbers(void **state)
{
    float x[256], y[256];
    unsigned char b[512];

    (void)state;
    for (size_t t = 0; t < SL_COUNTOF(types); t++) {
        int lo = types[t] == SL_Q8_0   ? -127
                 : types[t] == SL_Q6_K ? -32
                 : types[t] == SL_BFP8 ? -127
                 : types[t] == SL_BFP4 ? -7
                 : types[t] == SL_Q4_0 ? -8
                                       : 0;
        int hi = types[t] == SL_Q8_0   ? 127
                 : types[t] == SL_Q6_K ? 31
                 : types[t] == SL_BFP8 ? 127
                 : types[t] == SL_Q5_K ? 31
                 : types[t] == SL_Q4_K ? 15
                                       : 7;

        for (int i = 0; i < 256; i++)
            x[i] = (float)(lo + i * 7 % (hi - lo + 1)) * 0.25f;
        for (int i = 0; i < 256; i += 16) { /* each block has its extreme */
            x[i] =
                (float)(types[t] == SL_Q6_K || types[t] == SL_Q4_0 ? lo : hi) *
                0.25f;
        }
        /* The scale 0.25 must be 63 or 127 units of a half: here 63 / 252. */
        if (types[t] == SL_Q4_K || types[t] == SL_Q5_K || types[t] == SL_Q6_K)
            for (int i = 0; i < 256; i++)
                x[i] *= types[t] == SL_Q6_K ? 127 * 0x1p-5f : 63 * 0x1p-4f;
        sl_quantise_row(types[t], b, x, NULL, 256);
        sl_dequantise_row(types[t], y, b, 256);
        for (size_t i = 0; i < 256; i++)
            if (!(x[i] == y[i]))
                fail_msg("%s: element %zu is %a, was %a",
                         sl_dtype_get(types[t])->name, i, (double)y[i],
                         (double)x[i]);
    }
}

/* Zeros, numbers at the ends of fp32, and what is no number: some legal block,
 * the same each time. */
static void test_odd_values(void **state)
{
    static const float odd[] = {0,         -0.0f,     0x1p-149f, 0x1p-126f,
                                0x1p127f,  -0x1p127f, NAN,       INFINITY,
                                -INFINITY, 1};
    float x[256], y[256];
    unsigned char a[512], b[512];

    (void)state;
    for (size_t t = 0; t < SL_COUNTOF(types); t++) {
        size_t bytes = sl_dtype_bytes(types[t], 256);

        memset(x, 0, sizeof(x));
        sl_quantise_row(types[t], a, x, NULL, 256);
        sl_dequantise_row(types[t], y, a, 256);
        for (size_t i = 0; i < 256; i++)
            assert_true(y[i] == 0);
        for (size_t k = 0; k < SL_COUNTOF(odd); k++) {
            for (size_t i = 0; i < 256; i++)
                x[i] = odd[(i * i + k) % (k + 1)];
            memset(a, 1, sizeof(a));
            memset(b, 2, sizeof(b));
            sl_quantise_row(types[t], a, x, NULL, 256);
            sl_quantise_row(types[t], b, x, NULL, 256);
            assert_memory_equal(a, b, bytes);
            assert_true(a[bytes] == 1);
        }
    }
}

/* Sum of errors, each times the importance of its element. */
static double weighted_error(enum sl_dtype t, const float *x, const float *w,
                             const float *told)
{
    static float y[MAX_N];
    double err = 0;

    there_and_back(t, y, x, told);
    for (size_t i = 0; i < MAX_N; i++)
        err += (double)w[i] * ((double)x[i] - (double)y[i]) *
               ((double)x[i] - (double)y[i]);
    return err;
}

/* What counts more is kept better; alike is what no importance means, to the
 * bit; and columns that count nothing are legal. */
static void test_importance(void **state)
{
    static const enum sl_dtype fitted[] = {SL_Q4_0, SL_Q4_K, SL_Q5_K, SL_Q6_K};
    static float x[MAX_N], w[MAX_N], alike[MAX_N], nothing[MAX_N];
    static float y[MAX_N];
    static unsigned char a[2 * MAX_N], b[2 * MAX_N];
    uint64_t seed = 9;

    (void)state;
    for (size_t i = 0; i < MAX_N; i++) {
        x[i] = normal(&seed);
        w[i] = i % 16 == 3 ? 12.0f : 0.25f;
        alike[i] = 1;
    }
    for (size_t k = 0; k < SL_COUNTOF(fitted); k++) {
        enum sl_dtype t = fitted[k];

        if (!(weighted_error(t, x, w, w) < 0.9 * weighted_error(t, x, w, NULL)))
            fail_msg("%s: the importance gains too little",
                     sl_dtype_get(t)->name);
        sl_quantise_row(t, a, x, NULL, MAX_N);
        sl_quantise_row(t, b, x, alike, MAX_N);
        assert_memory_equal(a, b, sl_dtype_bytes(t, MAX_N));
        /* Where nothing counts, anything is best; it must still be numbers. */
        sl_quantise_row(t, a, x, nothing, MAX_N);
        sl_dequantise_row(t, y, a, MAX_N);
        for (size_t i = 0; i < MAX_N; i++)
            assert_true(y[i] >= -64 && y[i] <= 64);
    }
}

/* Codes of a block of sixteen that starts with 1, so that the shared exponent
 * is 127 (model.md 12.2). */
static void bfp_case(enum sl_dtype t, float v, unsigned want)
{
    float x[16] = {1, v};
    unsigned char b[17];
    unsigned got;

    sl_quantise_row(t, b, x, NULL, 16);
    assert_int_equal(b[0], 127);
    got = t == SL_BFP8 ? b[2] : b[1] >> 4;
    if (got != want)
        fail_msg("%s of %a is %#x, not %#x", sl_dtype_get(t)->name, (double)v,
                 got, want);
}

static void test_bfp_rounding(void **state)
{
    const float u8 = 0x1p-6f, u4 = 0x1p-2f; /* one unit */

    (void)state;
    bfp_case(SL_BFP8, 1, 64);
    bfp_case(SL_BFP8, -1, 0x80 | 64);
    bfp_case(SL_BFP8, 127 * u8, 127);
    bfp_case(SL_BFP8, 127.49f * u8, 127);
    bfp_case(SL_BFP8, 127.99f * u8, 127); /* never past the largest */
    bfp_case(SL_BFP8, 0.5f * u8, 0);      /* ties to even */
    bfp_case(SL_BFP8, -0.5f * u8, 0);     /* no minus zero */
    bfp_case(SL_BFP8, 1.5f * u8, 2);
    bfp_case(SL_BFP8, 2.5f * u8, 2);
    bfp_case(SL_BFP8, -3.5f * u8, 0x80 | 4);
    /* Above the tie by less than alignment keeps: taken for a tie. */
    bfp_case(SL_BFP8, 0x1.400002p1f * u8, 2);
    /* By more: rounded up. */
    bfp_case(SL_BFP8, 0x1.4001p1f * u8, 3);
    bfp_case(SL_BFP8, 0x1p-24f, 0);
    bfp_case(SL_BFP8, 0x1p-140f, 0);
    bfp_case(SL_BFP4, 1, 4);
    bfp_case(SL_BFP4, 1.75f, 7);
    bfp_case(SL_BFP4, -1.99f, 8 | 7);
    bfp_case(SL_BFP4, 0.5f * u4, 0);
    bfp_case(SL_BFP4, 1.5f * u4, 2);
    bfp_case(SL_BFP4, 2.5f * u4, 2);
    bfp_case(SL_BFP4, -0.51f * u4, 8 | 1);
    bfp_case(SL_BFP4, -0.49f * u4, 0);
}

/* A group gives back the bytes of its rows; rows that are not there are zeros
 * and change nothing of the others. */
static void test_groups(void **state)
{
    enum { COLS = 512 };
    static unsigned char rows[8][1088], back[1088], group[8 * 1088 + 1];
    uint64_t rng = 9;

    (void)state;
    for (size_t t = 0; t < SL_COUNTOF(types); t++) {
        size_t bytes = sl_dtype_bytes(types[t], COLS);
        const void *p[8];

        for (size_t r = 0; r < 8; r++) {
            float x[COLS];

            for (size_t i = 0; i < COLS; i++)
                x[i] = normal(&rng);
            sl_quantise_row(types[t], rows[r], x, NULL, COLS);
            p[r] = r == 3 ? NULL : rows[r];
        }
        memset(rows[3], 0, sizeof(rows[3]));
        group[8 * bytes] = 77;
        sl_quant_pack(types[t], group, p, COLS);
        assert_int_equal(group[8 * bytes], 77);
        for (size_t r = 0; r < 8; r++) {
            sl_quant_unpack(types[t], back, group, r, COLS);
            assert_memory_equal(back, rows[r], bytes);
        }
    }
}

static void test_which(void **state)
{
    (void)state;
    for (size_t t = 0; t < SL_COUNTOF(types); t++)
        assert_true(sl_quant_is(types[t]));
    assert_false(sl_quant_is(SL_F32));
    assert_false(sl_quant_is(SL_BF16));
    assert_false(sl_quant_is(SL_FP8));
}

/* Every type that GGUF files have: four blocks of random bytes, and what the
 * gguf package makes of them (tests/golden/make_gguf_types.py). */
static void test_files(void **state)
{
    static const enum sl_dtype all[] = {
        SL_Q8_0, SL_Q6_K, SL_Q5_K, SL_Q4_K,   SL_Q4_0,   SL_Q4_1, SL_Q5_0,
        SL_Q5_1, SL_Q3_K, SL_Q2_K, SL_IQ4_NL, SL_IQ4_XS, SL_MXFP4};
    enum { N = 4 };

    (void)state;
    for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
        const struct sl_dtype_info *d = sl_dtype_get(all[k]);
        size_t n = (size_t)N * d->block, len = 0;
        static float want[N * 256], y[N * 256];
        char path[80], *text = NULL;

        snprintf(path, sizeof(path), "tests/golden/quant/%s.bin", d->name);
        assert_int_equal(sl_file_read(&text, &len, path, 1 << 16, NULL), 0);
        assert_int_equal(len, N * d->bytes + n * sizeof(float));
        memcpy(want, text + N * d->bytes, n * sizeof(float));
        sl_dequantise_row(all[k], y, text, n);
        if (memcmp(y, want, n * sizeof(float)))
            fail_msg("%s means something else", d->name);
        sl_file_free(text);
    }
}

/* Without a search the error is little larger; other types are the same. */
static void test_quick(void **state)
{
    enum { N = 4096 };
    static float x[N], y[N];
    static unsigned char a[N * 2], b[N * 2];
    double quick = 0, best = 0;
    uint64_t seed = 11;

    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = (float)((double)(rig_random(&seed) >> 11) * 0x1p-53 - 0.5);
    sl_quantise_quick(SL_Q4_0, a, x, N);
    sl_dequantise_row(SL_Q4_0, y, a, N);
    for (int i = 0; i < N; i++)
        quick += (double)((y[i] - x[i]) * (y[i] - x[i]));
    sl_quantise_row(SL_Q4_0, b, x, NULL, N);
    sl_dequantise_row(SL_Q4_0, y, b, N);
    for (int i = 0; i < N; i++)
        best += (double)((y[i] - x[i]) * (y[i] - x[i]));
    assert_true(quick >= best && quick < 1.3 * best);
    sl_quantise_quick(SL_Q8_0, a, x, N);
    sl_quantise_row(SL_Q8_0, b, x, NULL, N);
    assert_memory_equal(a, b, sl_dtype_bytes(SL_Q8_0, N));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quick),
        cmocka_unit_test(test_large_ones),
        cmocka_unit_test(test_known_by_number),
        cmocka_unit_test(test_meaning_is_gguf),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_exact_numbers),
        cmocka_unit_test(test_odd_values),
        cmocka_unit_test(test_importance),
        cmocka_unit_test(test_bfp_rounding),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_which),
        cmocka_unit_test(test_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
