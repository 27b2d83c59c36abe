/* engine/bench.c - the machine's ceilings, and single products; see bench.h */
#include "engine/bench.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/probe.h"
#include "engine/median.h"
#include "kern/quant.h"
#include "kern/quantise.h"
#include "ops/mul.h"

#define PROBE_BYTES ((size_t)256 << 20) /* far above today's caches */
#define ROUNDS 9

/* ---------------------------------------------------------------- ceilings */

#define PEAK_MACS ((uint64_t)1 << 28) /* some 10 ms of a core */

struct peak {
    sl_peak_fn *fn;
    _Atomic uint64_t done;
};

static void peak_task(void *ctx, size_t i, unsigned w)
{
    struct peak *p = ctx;

    (void)i;
    (void)w;
    p->done += p->fn(PEAK_MACS);
}

static double peak_rate(struct sl_pool *pool, sl_peak_fn *fn)
{
    double rate[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        struct peak p = {.fn = fn};
        uint64_t t0 = sl_clock_ns();

        sl_pool_run(pool, peak_task, &p, sl_pool_n_thread(pool));
        rate[i] = (double)p.done / sl_clock_s(t0, sl_clock_ns());
    }
    return sl_median(rate, ROUNDS);
}

/* The rates of n_thread threads. */
static int ceilings(double *read, double *int8, double *fp32,
                    unsigned *n_thread, const struct sl_kern *k, bool pin,
                    struct sl_err *err)
{
    struct sl_pool *pool = NULL;
    struct sl_probe *probe = NULL;
    double rate[ROUNDS];
    int rc = sl_pool_open(&pool, *n_thread, pin, err);

    if (!rc)
        rc = sl_probe_open(&probe, pool, PROBE_BYTES, err);
    if (!rc) {
        *n_thread = sl_pool_n_thread(pool);
        for (int i = 0; i < ROUNDS; i++)
            rate[i] = sl_probe_read(probe);
        *read = sl_median(rate, ROUNDS);
        *int8 = peak_rate(pool, k->peak_int8);
        *fp32 = peak_rate(pool, k->peak_fp32);
    }
    sl_probe_close(&probe);
    sl_pool_close(&pool);
    return rc;
}

int sl_bench_roofline(struct sl_roofline *out, const struct sl_engine_opts *o,
                      struct sl_err *err)
{
    struct sl_roofline r = {.n_core = o->n_thread};
    struct sl_kern k;
    unsigned one = 1;
    int rc;

    sl_kern_init(&k, o->cpu_mask);
    r.isa = k.isa;
    rc = ceilings(&r.read_one, &r.int8_one, &r.fp32_one, &one, &k, o->pin,
                  err);
    if (!rc)
        rc = ceilings(&r.read_all, &r.int8_all, &r.fp32_all, &r.n_core, &k,
                      o->pin, err);
    if (!rc)
        *out = r;
    return rc;
}

/* ---------------------------------------------------------------- products */

#define COLS 4096
#define BIG_ROWS 32768   /* 64 MiB and more of weights: from memory */
#define SMALL_ROWS 2048  /* what a layer has */
#define MAX_TOK 512

static const struct {
    uint32_t rows, n_tok;
} cases[] = {{BIG_ROWS, 1}, {BIG_ROWS, 8}, {SMALL_ROWS, MAX_TOK}};

static const enum sl_dtype types[] = {SL_BF16, SL_Q8_0, SL_Q6_K, SL_Q5_K,
                                      SL_Q4_K, SL_Q4_0, SL_BFP8, SL_BFP4};

_Static_assert(SL_COUNTOF(types) * SL_COUNTOF(cases) <= SL_BENCH_KERNELS,
                 "there is room for every result");

struct kernels {
    struct sl_run run;
    struct sl_probe *probe;
    float *x, *y; /* [MAX_TOK][COLS], [MAX_TOK * SMALL_ROWS] */
    unsigned char *w;
    size_t w_bytes;
};

/* Numbers of plain size: time must not depend on them. */
static void fill_floats(float *x, size_t n)
{
    uint32_t s = 1;

    for (size_t i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u; /* Knuth's and Lewis's generator */
        x[i] = (float)(s >> 8) * 0x1p-24f - 0.5f;
    }
}

/* One group of eight rows, and copies of it. */
static void fill_weights(struct kernels *b, enum sl_dtype t, uint32_t rows)
{
    static unsigned char row[COLS * sizeof(float)];
    const void *all[SL_GROUP];
    size_t bytes = SL_GROUP * sl_dtype_bytes(t, COLS);
    uint16_t *bf16 = (uint16_t *)b->w;

    if (t == SL_BF16) {
        for (size_t i = 0; i < (size_t)SL_GROUP * COLS; i++)
            bf16[i] = (uint16_t)(0x3c00u + i * 37 % 128 + (i % 2 << 15));
    } else {
        sl_quantise_row(t, row, b->x, NULL, COLS);
        for (int i = 0; i < SL_GROUP; i++)
            all[i] = row;
        sl_quant_pack(t, b->w, all, COLS);
    }
    for (size_t g = 1; g < rows / SL_GROUP; g++)
        memcpy(b->w + g * bytes, b->w, bytes);
}

static void measure(struct kernels *b, struct sl_bench_kernel *out,
                    enum sl_dtype t, uint32_t rows, uint32_t n_tok)
{
    struct sl_mat w = {.type = t, .rows = rows, .cols = COLS, .w = b->w};
    double s[ROUNDS], rate[ROUNDS];

    sl_mul_one(&b->run, b->y, &w, b->x, n_tok); /* to warm up */
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t t0 = sl_clock_ns();

        sl_mul_one(&b->run, b->y, &w, b->x, n_tok);
        s[i] = sl_clock_s(t0, sl_clock_ns());
        rate[i] = sl_probe_read(b->probe);
    }
    *out = (struct sl_bench_kernel){
        .type = sl_dtype_get(t)->name,
        .rows = rows,
        .cols = COLS,
        .n_tok = n_tok,
        .s = sl_median(s, ROUNDS),
        .macs = (double)rows * COLS * n_tok,
        .bytes = (double)rows * (double)sl_dtype_bytes(t, COLS),
        .probe = sl_median(rate, ROUNDS)};
}

static int open_kernels(struct kernels *b, struct sl_pool *pool,
                        const struct sl_kern *k, struct sl_err *err)
{
    const size_t n = (size_t)MAX_TOK * COLS;
    struct sl_act_space *a = &b->run.act;
    int rc = sl_probe_open(&b->probe, pool, PROBE_BYTES, err);

    sl_run_init(&b->run, pool, k);
    a->n = n;
    b->w_bytes = BIG_ROWS * sl_dtype_bytes(SL_BF16, COLS);
    if (!rc)
        rc = sl_mem_map(&b->w, b->w_bytes, "weights to measure", err);
    if (!rc)
        rc = sl_mem_alloc(&b->x, n, sizeof(*b->x), "an input", err);
    if (!rc)
        rc = sl_mem_alloc(&b->y, (size_t)MAX_TOK * SMALL_ROWS, sizeof(*b->y),
                          "an output", err);
    if (!rc)
        rc = sl_mem_alloc(&a->q, n, sizeof(*a->q), "an input", err);
    if (!rc)
        rc = sl_mem_alloc(&a->scale, n / SL_QBLOCK, sizeof(*a->scale),
                          "an input", err);
    if (!rc)
        rc = sl_mem_alloc(&a->sum, n / SL_QBLOCK * 2, sizeof(*a->sum),
                          "an input", err);
    if (!rc)
        fill_floats(b->x, n);
    return rc;
}

static void close_kernels(struct kernels *b)
{
    sl_probe_close(&b->probe);
    if (b->w)
        sl_mem_unmap(b->w, b->w_bytes);
    sl_mem_free(b->x);
    sl_mem_free(b->y);
    sl_mem_free(b->run.act.q);
    sl_mem_free(b->run.act.scale);
    sl_mem_free(b->run.act.sum);
}

int sl_bench_kernels(struct sl_bench_kernel out[SL_BENCH_KERNELS], uint32_t *n,
                     const struct sl_engine_opts *o, struct sl_err *err)
{
    struct kernels b = {0};
    struct sl_pool *pool = NULL;
    struct sl_kern k;
    int rc = sl_pool_open(&pool, o->n_thread, o->pin, err);

    sl_kern_init(&k, o->cpu_mask);
    if (!rc)
        rc = open_kernels(&b, pool, &k, err);
    *n = 0;
    for (size_t t = 0; !rc && t < SL_COUNTOF(types); t++) {
        fill_weights(&b, types[t], BIG_ROWS);
        for (size_t c = 0; c < SL_COUNTOF(cases); c++)
            measure(&b, &out[(*n)++], types[t], cases[c].rows,
                    cases[c].n_tok);
    }
    close_kernels(&b);
    sl_pool_close(&pool);
    return rc;
}
