/* tests/unit/test_sample.c - the sampler part by part on cases made by hand */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/mem.h"
#include "kern/math.h"
#include "sample/accept.h"
#include "sample/history.h"
#include "sample/philox.h"
#include "sample/rank.h"
#include "sample/sample.h"
#include "sample/weigh.h"

/* The published vectors: Random123, kat_vectors, philox4x32 10. */
static void philox_vectors(void **state)
{
    static const struct {
        uint32_t ctr[4], key[2], want[4];
    } kat[] = {
        {{0, 0, 0, 0},
         {0, 0},
         {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    uint32_t out[4];

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(kat); i++) {
        sl_philox(out, kat[i].ctr, kat[i].key);
        assert_memory_equal(out, kat[i].want, sizeof(out));
    }
}

/* Every bit of seed, choice, position and stream reaches the number, where the
 * essay says; this layout is a promise to users who kept a seed. */
static void philox_u(void **state)
{
    const uint32_t key[2] = {0x243f6a88, 0x85a308d3};
    const uint32_t ctr[4] = {0x13198a2e, 0x03707344, 1, 0xa4093822};
    uint32_t out[4];

    (void)state;
    sl_philox(out, ctr, key);
    assert_true(sl_philox_u(0x85a308d3243f6a88, 0xa4093822, 0x0370734413198a2e,
                            SL_STREAM_ACCEPT) ==
                (float)(out[0] >> 8) / 16777216);
    /* The first published vector gives the number of (0, 0, 0, draw). */
    assert_true(sl_philox_u(0, 0, 0, SL_STREAM_DRAW) ==
                (float)0x6627e8 / 16777216);
    for (uint64_t i = 0; i < 100000; i++) {
        float u = sl_philox_u(i, 0, 3, SL_STREAM_DRAW);

        assert_true(u >= 0 && u < 1);
    }
}

/* One sampler over `n` tokens, and a sequence. */
struct bed {
    struct sl_kern kern;
    struct sl_sampler *s;
    struct sl_history *h;
    struct sl_sample_opts o;
    struct sl_draw d;
    struct sl_err err;
    float z[1000];
    uint32_t n;
};

static void open_bed(struct bed *b, uint32_t n)
{
    memset(b, 0, sizeof(*b));
    b->n = n;
    sl_kern_init(&b->kern, SL_CPU_ALL);
    sl_sample_opts_init(&b->o);
    assert_int_equal(sl_sampler_open(&b->s, &b->kern, n, &b->err), 0);
    assert_int_equal(sl_history_open(&b->h, 1000, &b->err), 0);
}

static void close_bed(struct bed *b)
{
    sl_sampler_close(&b->s);
    sl_history_close(&b->h);
    assert_null(b->s);
    assert_null(b->h);
}

static int draw(struct bed *b, const float *z, uint64_t pos)
{
    memcpy(b->z, z, b->n * sizeof(*z));
    return sl_sampler_draw(b->s, &b->d, b->z, &b->o, b->h, NULL, 0, pos,
                           &b->err);
}

/* Which of the first 64 tokens can be drawn, as bits. */
static uint64_t survivors(const struct bed *b)
{
    uint64_t bits = 0;
    float max;

    for (uint32_t i = 0; i < b->n && i < 64; i++)
        if (sl_sampler_prob(b->s, (int32_t)i, &max) > 0)
            bits |= 1ull << i;
    return bits;
}

static void greedy(void **state)
{
    const float z[] = {1, NAN, 3, -INFINITY, 3, 2};
    const float inf[] = {1, 2, INFINITY, INFINITY, 0, 0};
    struct bed b;
    float max;

    (void)state;
    open_bed(&b, 6);
    b.o.temperature = 0;
    b.o.top_k = 1;
    b.o.top_p = 0.1f;
    b.o.min_p = 1;
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(b.d.id, 2);
    assert_true(sl_sampler_prob(b.s, 2, &max) == 1 && max == 1);
    assert_true(sl_sampler_prob(b.s, 4, &max) == 0 && max == 1);
    assert_int_equal(draw(&b, inf, 0), 0);
    assert_int_equal(b.d.id, 2);
    close_bed(&b);
}

static void top_k(void **state)
{
    const float z[] = {1, 2, 2, 0, 2, 5};
    struct bed b;

    (void)state;
    open_bed(&b, 6);
    b.o.top_k = 3; /* 5, then the lower two of the equal ones */
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(survivors(&b), 1u << 5 | 1u << 1 | 1u << 2);
    b.o.top_k = 1;
    for (uint64_t pos = 0; pos < 50; pos++) {
        assert_int_equal(draw(&b, z, pos), 0);
        assert_int_equal(b.d.id, 5);
    }
    b.o.top_k = 100;
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(survivors(&b), 0x3f);
    close_bed(&b);
}

/* Both zeros are one value: the tie goes to the lower id. */
static void zeros_tie(void **state)
{
    const float z[] = {-1, -0.0f, 0.0f, -0.0f};
    struct bed b;

    (void)state;
    open_bed(&b, 4);
    b.o.top_k = 2;
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(survivors(&b), 6);
    b.o.top_k = 0;
    b.o.top_p = 0.4f;
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(survivors(&b), 6);
    close_bed(&b);
}

/* With equal weights every sum is exact, so the boundary itself is tested. */
static void top_p_boundary(void **state)
{
    static const struct {
        float p;
        int n;
    } test[] = {{0.5f, 32},     {0.50001f, 33}, {0.49999f, 32},    {1e-30f, 1},
                {1.0f / 64, 1}, {0.016f, 2},    {0.99999994f, 64}, {1, 64}};
    float z[64];
    struct bed b;

    (void)state;
    open_bed(&b, 64);
    for (int i = 0; i < 64; i++)
        z[i] = 7.25f;
    for (size_t t = 0; t < SL_COUNTOF(test); t++) {
        uint64_t want = test[t].n == 64 ? UINT64_MAX : (1ull << test[t].n) - 1;

        b.o.top_p = test[t].p;
        for (int k = 0; k < 2; k++) { /* both paths */
            b.o.top_k = k ? 63 : 0;
            if (k && test[t].n > 31)
                continue;
            assert_int_equal(draw(&b, z, t), 0);
            assert_true(survivors(&b) == want);
        }
    }
    close_bed(&b);
}

static void min_p(void **state)
{
    const float z[] = {0, -1, -2, -3};
    struct bed b;

    (void)state;
    open_bed(&b, 4);
    b.o.min_p = 0.1f; /* exp(-2) = 0.135, exp(-3) = 0.0498 */
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(survivors(&b), 7);
    b.o.temperature = 2; /* exp(-1.5) = 0.22: after temperature */
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(survivors(&b), 15);
    b.o.min_p = 1;
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(survivors(&b), 1);
    close_bed(&b);
}

/* Penalties by the formulas of serving.md 2.2, read back through the raw
 * weights: token 0 is the yardstick. */
static void penalties(void **state)
{
    const float z[] = {5, 2, -1, 3, 4};
    const int32_t prompt[] = {1, 2, 2}, out[] = {2, 3, 3};
    float want[5] = {5, 2 / 1.25f, 0, 0, 4};
    struct bed b;
    float max;

    (void)state;
    open_bed(&b, 5);
    b.o.repetition = 1.25f;
    b.o.frequency = 0.5f;
    b.o.presence = 0.25f;
    want[2] = -1 * 1.25f - 0.5f * 1 - 0.25f;
    want[3] = 3 / 1.25f - 0.5f * 2 - 0.25f;
    assert_int_equal(sl_history_push(b.h, prompt, 3, false, &b.err), 0);
    assert_int_equal(sl_history_push(b.h, out, 3, true, &b.err), 0);
    assert_int_equal(draw(&b, z, 0), 0);
    for (int i = 0; i < 5; i++)
        assert_true(b.z[i] == want[i]);
    sl_sampler_prob(b.s, 0, &max);
    for (int i = 0; i < 5; i++) {
        float p = sl_sampler_prob(b.s, i, &max);

        assert_true(fabsf(p - max * expf(want[i] - 5)) < 1e-6f);
    }
    close_bed(&b);
}

static void masks(void **state)
{
    const float z[] = {5, 4, 3, 2, 1};
    const int32_t allowed[] = {1, 2, 4, 2}, end[] = {2, 900}, out[] = {4, 4};
    const int32_t one[] = {4}, two[] = {4, 1}, three[] = {3, 4, 2};
    const struct sl_bad_word bad[] = {{one, 1}, {two, 2}, {three, 3}};
    const struct sl_bias bias[] = {{3, 9}, {1, -1}, {1, -1}};
    struct bed b;

    (void)state;
    open_bed(&b, 5);
    b.o.allowed = allowed;
    b.o.n_allowed = 4;
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(survivors(&b), 1u << 1 | 1u << 2 | 1u << 4);
    b.o.bias = bias; /* does not bring back what is masked */
    b.o.n_bias = 3;
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(survivors(&b), 1u << 1 | 1u << 2 | 1u << 4);
    assert_true(b.z[1] == 2);
    b.o.end = end;
    b.o.n_end = 2;
    b.o.min_tokens = 2;
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(survivors(&b), 1u << 1 | 1u << 4);
    b.o.bad = bad;
    b.o.n_bad = 3;
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(survivors(&b), 1u << 1); /* 4 is bad alone */

    /* Two generated: end ids are free, and 1 may not follow 4. */
    assert_int_equal(sl_history_push(b.h, out, 2, true, &b.err), 0);
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(survivors(&b), 1u << 2);
    close_bed(&b);
}

/* As in vLLM, a bad word that begins in the prompt is not seen. */
static void bad_word_in_prompt(void **state)
{
    const float z[] = {1, 2, 3};
    const int32_t ids[] = {0, 2};
    const struct sl_bad_word bad = {ids, 2};
    struct bed b;

    (void)state;
    open_bed(&b, 3);
    b.o.temperature = 0;
    b.o.bad = &bad;
    b.o.n_bad = 1;
    assert_int_equal(sl_history_push(b.h, ids, 1, false, &b.err), 0);
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(b.d.id, 2);
    assert_int_equal(sl_history_push(b.h, ids, 1, true, &b.err), 0);
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(b.d.id, 1);
    close_bed(&b);
}

static void nothing_left(void **state)
{
    const float nan[] = {NAN, NAN, -INFINITY};
    const float z[] = {1, 2, 3};
    const int32_t allowed[] = {1}, out[] = {0};
    const struct sl_bad_word bad = {allowed, 1};
    struct bed b;

    (void)state;
    open_bed(&b, 3);
    for (int t = 0; t < 2; t++) {
        b.o.temperature = (float)t;
        b.o.n_logprob = 2;
        b.d.id = 42;
        assert_int_equal(draw(&b, nan, 9), SL_EFORMAT);
        assert_non_null(strstr(b.err.msg, "position 9"));
        assert_int_equal(b.d.id, 42);
        assert_int_equal(survivors(&b), 0);
    }
    b.o.allowed = allowed;
    b.o.n_allowed = 1;
    b.o.bad = &bad;
    b.o.n_bad = 1;
    assert_int_equal(draw(&b, z, 0), SL_EARG); /* the request is to blame */
    assert_non_null(strstr(b.err.msg, "bad_words"));
    b.o.n_bad = 0;
    assert_int_equal(sl_history_push(b.h, out, 1, true, &b.err), 0);
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(b.d.id, 1);
    close_bed(&b);
}

/* Values that overflow when divided, or are infinite, are just very likely. */
static void huge_logits(void **state)
{
    const float z[] = {3e38f, 1, INFINITY, -3e38f, NAN};
    struct bed b;
    float max;

    (void)state;
    open_bed(&b, 5);
    for (int k = 0; k < 3; k++) {
        b.o.temperature = 1e-3f;
        b.o.top_k = k == 1 ? 3 : 0;
        b.o.top_p = k == 2 ? 0.9f : 1;
        b.o.n_logprob = 2;
        assert_int_equal(draw(&b, z, 0), 0);
        assert_int_equal(survivors(&b), 1u << 0 | 1u << 2);
        assert_true(sl_sampler_prob(b.s, 0, &max) == 0.5f && max == 0.5f);
        assert_true(fabsf(b.d.logprob - logf(0.5f)) < 1e-6f);
    }
    close_bed(&b);
}

/* Raw: whatever masks and penalties do. */
static void logprobs(void **state)
{
    float z[100], lse = 0;
    const int32_t allowed[] = {7};
    struct bed b;

    (void)state;
    open_bed(&b, 100);
    for (int i = 0; i < 100; i++) {
        z[i] = (float)(i * 37 % 50) / 10; /* each value twice */
        lse += expf(z[i]);
    }
    lse = logf(lse);
    b.o.n_logprob = SL_MAX_LOGPROB;
    b.o.allowed = allowed;
    b.o.n_allowed = 1;
    for (int t = 0; t < 2; t++) {
        b.o.temperature = (float)t * 0.5f;
        assert_int_equal(draw(&b, z, 0), 0);
        assert_int_equal(b.d.id, 7);
        assert_true(fabsf(b.d.logprob - (z[7] - lse)) < 1e-5f);
        assert_int_equal(b.d.n_top, SL_MAX_LOGPROB);
        for (uint32_t i = 0; i < b.d.n_top; i++) {
            int32_t id = b.d.top_id[i];

            assert_true(fabsf(b.d.top_logprob[i] - (z[id] - lse)) < 1e-5f);
            assert_true(z[id] == (float)(49 - (int)i / 2) / 10);
            if (i % 2)
                assert_true(id == b.d.top_id[i - 1] + 50);
        }
    }
    b.o.n_logprob = 0;
    b.o.want_logprob = true;
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(b.d.n_top, 0);
    assert_true(fabsf(b.d.logprob - (z[7] - lse)) < 1e-5f);
    close_bed(&b);
}

/* Fewer finite logits than alternatives wanted. */
static void few_logprobs(void **state)
{
    const float z[] = {NAN, 2, -INFINITY, 2};
    struct bed b;

    (void)state;
    open_bed(&b, 4);
    b.o.n_logprob = 20;
    assert_int_equal(draw(&b, z, 0), 0);
    assert_int_equal(b.d.n_top, 2);
    assert_int_equal(b.d.top_id[0], 1);
    assert_int_equal(b.d.top_id[1], 3);
    assert_true(fabsf(b.d.top_logprob[0] - logf(0.5f)) < 1e-6f);
    close_bed(&b);
}

static void seeds_and_choices_differ(void **state)
{
    float z[64] = {0};
    int n_same_seed = 0, n_same_choice = 0, n_same_pos = 0;
    struct bed b;

    (void)state;
    open_bed(&b, 64);
    for (uint64_t pos = 0; pos < 200; pos++) {
        int32_t id;

        b.o.seed = 1;
        b.o.choice = 0;
        assert_int_equal(draw(&b, z, pos), 0);
        id = b.d.id;
        assert_int_equal(draw(&b, z, pos), 0);
        assert_int_equal(b.d.id, id);
        assert_int_equal(draw(&b, z, pos + 1), 0);
        n_same_pos += b.d.id == id;
        b.o.choice = 1;
        assert_int_equal(draw(&b, z, pos), 0);
        n_same_choice += b.d.id == id;
        b.o.choice = 0;
        b.o.seed = 1ull << 40;
        assert_int_equal(draw(&b, z, pos), 0);
        n_same_seed += b.d.id == id;
    }
    /* 200/64 expected; 13 or more has a chance below 1e-4. */
    assert_true(n_same_seed < 13 && n_same_choice < 13 && n_same_pos < 13);
    close_bed(&b);
}

static void history(void **state)
{
    struct sl_history *h;
    struct sl_err err;
    const int32_t bad[] = {1, -1};
    int32_t id = 0;
    size_t n;

    (void)state;
    assert_int_equal(sl_history_open(&h, 5000, &err), 0);
    assert_null(sl_history_get(h, 3));
    sl_history_seen(h, &n);
    assert_int_equal(n, 0);
    assert_int_equal(sl_history_push(h, NULL, 0, true, &err), 0);
    for (int i = 0; i < 5000; i++) {
        id = i * i % 1009 * 977;
        assert_int_equal(sl_history_push(h, &id, 1, i >= 2000, &err), 0);
        assert_true(i % 100 || sl_history_check(h));
    }
    assert_int_equal(sl_history_n_out(h), 3000);
    sl_history_seen(h, &n);
    assert_int_equal(n, 505); /* squares modulo a prime */
    assert_int_equal(sl_history_out(h)[2999], id);
    assert_null(sl_history_get(h, 11 * 977)); /* 11 is no square mod 1009 */
    assert_int_equal(sl_history_push(h, &id, 1, true, &err), SL_EARG);
    assert_non_null(strstr(err.msg, "5000"));
    sl_history_close(&h);

    assert_int_equal(sl_history_open(&h, 10, &err), 0);
    assert_int_equal(sl_history_push(h, bad, 2, true, &err), SL_EARG);
    sl_history_seen(h, &n);
    assert_int_equal(n, 0);
    assert_true(sl_history_check(h));
    sl_history_close(&h);
    sl_history_close(&h);
    assert_int_equal(sl_history_open(&h, UINT32_MAX, &err), SL_EARG);
}

/* Every allocation fails once; nothing is lost, and nothing half-pushed. */
static void no_memory(void **state)
{
    const int32_t ids[200] = {3, 1, 4, 1, 5};
    struct sl_kern kern;
    struct sl_history *h;
    struct sl_sampler *s;
    struct sl_err err;
    int rc = 1;

    (void)state;
    sl_kern_init(&kern, SL_CPU_ALL);
    for (uint64_t n = 1; rc; n++) {
        sl_mem_fail_nth(n);
        rc = sl_sampler_open(&s, &kern, 100, &err);
        assert_true(rc == 0 || rc == SL_ENOMEM);
    }
    sl_sampler_close(&s);
    rc = 1;
    for (uint64_t n = 1; rc; n++) {
        sl_mem_fail_nth(0);
        assert_int_equal(sl_history_open(&h, 500, &err), 0);
        assert_int_equal(sl_history_push(h, ids, 5, true, &err), 0);
        sl_mem_fail_nth(n);
        rc = sl_history_push(h, ids, 200, true, &err);
        assert_true(rc == 0 || rc == SL_ENOMEM);
        assert_true(sl_history_check(h));
        assert_int_equal(sl_history_n_out(h), rc ? 5 : 205);
        sl_history_close(&h);
    }
    sl_mem_fail_nth(0);
}

static void rejects(const struct sl_sample_opts *o, const char *word)
{
    struct sl_err err = {0};

    assert_int_equal(sl_sample_opts_check(o, 100, &err), SL_EARG);
    if (!strstr(err.msg, word))
        fail_msg("'%s' does not name %s", err.msg, word);
}

static void options(void **state)
{
    static const float bad_temp[] = {-0.1f, 2.1f, NAN, INFINITY};
    static const float bad_p[] = {0, -1, 1.1f, NAN};
    static const float bad_rep[] = {0, -1, NAN, INFINITY};
    const int32_t ids[] = {5, 100};
    const struct sl_bias bias[] = {{5, 101}, {-1, 1}};
    const struct sl_bad_word empty = {ids, 0}, far = {ids, 2};
    struct sl_sample_opts good, o;
    struct sl_err err;

    (void)state;
    sl_sample_opts_init(&good);
    assert_int_equal(sl_sample_opts_check(&good, 100, &err), 0);
    for (int i = 0; i < 4; i++) {
        o = good, o.temperature = bad_temp[i];
        rejects(&o, "temperature");
        o = good, o.top_p = bad_p[i];
        rejects(&o, "top_p");
        o = good, o.repetition = bad_rep[i];
        rejects(&o, "repetition_penalty");
        o = good, o.presence = bad_temp[i] * 30;
        rejects(&o, "presence_penalty");
        o = good, o.frequency = bad_temp[i] * -30;
        rejects(&o, "frequency_penalty");
    }
    o = good, o.top_k = -2;
    rejects(&o, "top_k");
    o = good, o.min_p = 1.5f;
    rejects(&o, "min_p");
    o = good, o.n_logprob = 21;
    rejects(&o, "21");
    o = good, o.allowed = ids;
    rejects(&o, "allowed_token_ids");
    o.n_allowed = 2;
    rejects(&o, "100");
    o = good, o.bias = bias, o.n_bias = 1;
    rejects(&o, "101");
    o.bias = bias + 1;
    rejects(&o, "-1");
    o = good, o.bad = &empty, o.n_bad = 1;
    rejects(&o, "bad_words");
    o.bad = &far;
    rejects(&o, "bad_words");
}

static void acceptance(void **state)
{
    struct sl_accept_opts o;
    struct sl_err err;
    double tv = 0;

    (void)state;
    sl_accept_opts_init(&o);
    assert_int_equal(sl_accept_opts_check(&o, &err), 0);
    assert_true(sl_accept(&o, 3, 3, NAN, NAN, NAN, &tv));
    assert_false(sl_accept(&o, 3, 4, NAN, NAN, NAN, &tv));
    assert_true(tv == 0);

    o.rule = SL_ACCEPT_LENIENT; /* lambda = 1 is exact, to the bit */
    assert_false(sl_accept_is_lossy(&o));
    assert_true(sl_accept_prob(&o, 0.3f, 0.5f) == 0.3f);
    o.lenience = 0.5f; /* a = sqrt(0.25) = 0.5; (a - p) / (1 - p) = 1/3 */
    assert_true(fabsf(sl_accept_prob(&o, 0.25f, 0.5f) - 0.5f) < 1e-6f);
    assert_true(sl_accept(&o, 3, 4, 0.25f, 0.5f, 0.333f, &tv));
    assert_false(sl_accept(&o, 3, 4, 0.25f, 0.5f, 0.334f, &tv));
    assert_true(sl_accept(&o, 3, 3, 0.25f, 0.5f, 0.9f, &tv));
    assert_true(fabs(tv - 0.75) < 1e-5);
    assert_false(sl_accept(&o, 3, 4, 0, 0.5f, 0, &tv));
    assert_false(sl_accept(&o, 3, 4, 1, 1, 0, &tv));

    o.rule = SL_ACCEPT_RELAXED;
    assert_true(sl_accept_prob(&o, 0.15f, 0.5f) == 1); /* 0.3 * 0.5 */
    assert_true(sl_accept_prob(&o, 0.149f, 0.5f) == 0.149f);
    assert_true(sl_accept(&o, 3, 4, 0.2f, 0.5f, 0.99999994f, &tv));
    assert_false(sl_accept(&o, 3, 4, 0.1f, 0.5f, 0, &tv));
    assert_false(sl_accept(&o, 3, 4, 0, 1, 0, &tv)); /* after greedy */

    o.relax = 0;
    assert_int_equal(sl_accept_opts_check(&o, &err), SL_EARG);
    o.relax = 1;
    o.lenience = NAN;
    assert_int_equal(sl_accept_opts_check(&o, &err), SL_EARG);
}

/* Equal weights, some missing: every sum is exact, so u * total lies on the
 * edge between two tokens, and the upper one is meant: "exceeds". */
static void walks(void **state)
{
    enum { N = 64 * 10 + 17, STEP = 5 };
    float z[N], w[N], sum[N / 64 + 1], lw[N], total, u;
    int32_t id[N];
    struct sl_list l = {.id = id, .z = z, .w = lw};
    struct sl_kern kern;

    (void)state;
    sl_kern_init(&kern, SL_CPU_ALL);
    for (int32_t i = 0; i < N; i++) {
        z[i] = i % STEP == 0 || i / 64 == 3 ? -INFINITY : 2;
        id[l.n] = i;
        lw[l.n] = 1;
        l.n += z[i] > 0;
    }
    for (int t = 1; t <= 2; t++) {
        total = sl_weigh_sum(&kern, w, sum, z, N, 2, (float)t, 0);
        assert_true(total == (float)l.n && sl_weigh_list_sum(&l) == total);
        for (size_t i = 0; i < l.n; i++) {
            u = (float)i / total;
            if (u * total != (float)i)
                continue; /* the quotient was rounded */
            assert_int_equal(sl_weigh_walk(sum, w, N, total, u), id[i]);
            assert_int_equal(sl_weigh_list_walk(&l, total, u), i);
        }
        u = 1 - 0x1p-24f;
        assert_int_equal(sl_weigh_walk(sum, w, N, total, u), id[l.n - 1]);
        assert_int_equal(sl_weigh_list_walk(&l, total, u), l.n - 1);
    }
}

/* Block sums in order, to the bit, whatever is summed side by side. */
static void block_sums(void **state)
{
    enum { N = 64 * 20 + 5 };
    float z[N], w[N], sum[N / 64 + 1], total = 0, got;
    struct sl_kern kern;

    (void)state;
    sl_kern_init(&kern, SL_CPU_ALL);
    for (int i = 0; i < N; i++) {
        z[i] = -9 * sl_philox_u(1, 0, (uint64_t)i, SL_STREAM_DRAW);
        if (i % 331 == 200)
            z[i] = NAN;
    }
    z[7] = 0;
    got = sl_weigh_sum(&kern, w, sum, z, N, 0, 0.7f, 0);
    for (int b = 0; b <= N / 64; b++) {
        float s = 0;

        for (int i = b * 64; i < N && i < (b + 1) * 64; i++) {
            float want = isnan(z[i]) ? 0 : sl_exp(z[i] / 0.7f);

            assert_true(w[i] == want);
            s += want;
        }
        assert_true(sum[b] == s);
        total += s;
    }
    assert_true(got == total);
}

static void sampler_sizes(void **state)
{
    const float z[] = {-3};
    struct sl_sampler *s = NULL;
    struct sl_err err;
    struct bed b;

    (void)state;
    open_bed(&b, 1);
    assert_int_equal(sl_sampler_open(&s, &b.kern, 0, &err), SL_EARG);
    assert_int_equal(sl_sampler_open(&s, &b.kern, UINT32_MAX, &err), SL_EARG);
    assert_null(s);
    sl_sampler_close(&s);
    for (int t = 0; t < 3; t++) {
        b.o.temperature = (float)t;
        assert_int_equal(draw(&b, z, 0), 0);
        assert_int_equal(b.d.id, 0);
    }
    close_bed(&b);
}

/* Logits behind the vocabulary belong to no token: they take their part of the
 * model's distribution and are never drawn, listed or ranked. */
static void padding_is_not_drawn(void **state)
{
    float z[70], row[70], sum = 0;
    struct sl_sampler *s = NULL;
    struct sl_sample_opts o;
    struct sl_history *h = NULL;
    struct sl_draw d, e;
    struct sl_kern kern;
    struct sl_err err = {0};
    uint32_t rank = 0;

    (void)state;
    sl_kern_init(&kern, SL_CPU_ALL);
    for (int i = 0; i < 70; i++)
        z[i] = i < 64 ? (float)(i % 7) : 9; /* six that no token has */
    for (int i = 0; i < 70; i++)
        sum += expf(z[i]);
    assert_int_equal(sl_sampler_open_padded(&s, &kern, 64, 63, &err), SL_EARG);
    assert_int_equal(sl_sampler_open_padded(&s, &kern, 64, 70, &err), 0);
    assert_int_equal(sl_history_open(&h, 8, &err), 0);
    sl_sample_opts_init(&o);
    o.n_logprob = 20;
    for (int temp = 0; temp < 2; temp++) {
        memcpy(row, z, sizeof(z));
        o.temperature = (float)temp;
        assert_int_equal(
            sl_sampler_draw(s, &d, row, &o, h, NULL, 0, 5, &err), 0);
        assert_true(d.id < 64);
        assert_int_equal(d.n_top, 20);
        assert_int_equal(d.top_id[0], 6);
        assert_true(fabsf(d.logprob - (z[d.id] - logf(sum))) < 1e-4f);
        assert_int_equal(sl_sampler_score(s, &e, &rank, z, d.id, 20, &err), 0);
        assert_memory_equal(&e.logprob, &d.logprob, sizeof(d.logprob));
        assert_memory_equal(e.top_id, d.top_id, sizeof(d.top_id));
        assert_memory_equal(e.top_logprob, d.top_logprob,
                            sizeof(d.top_logprob));
    }
    /* 3 comes nine times among 0..63, as do 4, 5 and 6. */
    assert_int_equal(sl_sampler_score(s, &e, &rank, z, 3, 0, &err), 0);
    assert_int_equal(rank, 36);
    for (int i = 0; i < 70; i++)
        z[i] = NAN;
    assert_int_equal(sl_sampler_score(s, &e, &rank, z, 3, 0, &err),
                     SL_EFORMAT);
    sl_history_close(&h);
    sl_sampler_close(&s);
}

/* Mass of element i, as sl_rank_cut counts. */
static uint64_t mass(const float *w, size_t i)
{
    return w ? (uint64_t)(w[i] * (float)SL_RANK_ONE) : 1;
}

/* The cut at the value of element i, if it is the one: by the definition. */
static bool is_cut(struct sl_cut *out, const float *z, const float *w, size_t n,
                   uint64_t need, size_t i)
{
    uint64_t above = 0, tie = 0;

    for (size_t k = 0; k < n; k++) {
        above += z[k] > z[i] ? mass(w, k) : 0;
        tie += z[k] == z[i] ? mass(w, k) : 0;
    }
    if (above >= need || above + tie < need)
        return false;
    *out =
        (struct sl_cut){.z = z[i],
                        .n_tie = (need - above + mass(w, i) - 1) / mass(w, i),
                        .found = true};
    return true;
}

/* Lists that are sorted and lists that are counted have the same cuts, those of
 * the definition; with ties, and where there is none. */
static void cuts(void **state)
{
    static struct sl_rank r;
    float z[200], w[200];
    uint64_t seed = 7;

    (void)state;
    for (size_t n = 0; n <= SL_COUNTOF(z); n += n < 10 ? 1 : 19) {
        for (size_t i = 0; i < n; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            z[i] = (float)(seed >> 58) - 32; /* 64 values, one of them 0 */
            z[i] = seed >> 40 & 1 && z[i] == 0 ? -0.0f : z[i];
            w[i] = (z[i] + 33) / 64;
        }
        for (int weighed = 0; weighed < 2; weighed++) {
            const float *by = weighed ? w : NULL;
            uint64_t step = weighed ? mass(w, 0) / 3 + 1 : 1, need = 1;

            for (int k = 0; k < 300; k++, need += step) {
                struct sl_cut c = sl_rank_cut(&r, z, by, n, need);
                struct sl_cut want = {.found = false};

                for (size_t i = 0; i < n && !want.found; i++)
                    (void)is_cut(&want, z, by, n, need, i);
                assert_int_equal(c.found, want.found);
                assert_true(!c.found || c.z == want.z);
                assert_true(!c.found || c.n_tie == want.n_tie);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_vectors),
        cmocka_unit_test(philox_u),
        cmocka_unit_test(greedy),
        cmocka_unit_test(top_k),
        cmocka_unit_test(zeros_tie),
        cmocka_unit_test(top_p_boundary),
        cmocka_unit_test(min_p),
        cmocka_unit_test(penalties),
        cmocka_unit_test(masks),
        cmocka_unit_test(bad_word_in_prompt),
        cmocka_unit_test(nothing_left),
        cmocka_unit_test(huge_logits),
        cmocka_unit_test(logprobs),
        cmocka_unit_test(few_logprobs),
        cmocka_unit_test(seeds_and_choices_differ),
        cmocka_unit_test(history),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(options),
        cmocka_unit_test(acceptance),
        cmocka_unit_test(walks),
        cmocka_unit_test(block_sums),
        cmocka_unit_test(sampler_sizes),
        cmocka_unit_test(padding_is_not_drawn),
        cmocka_unit_test(cuts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
