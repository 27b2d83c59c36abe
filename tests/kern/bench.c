/* tests/kern/bench.c - how fast the entries are, beside the reference
 *
 * Each line runs one entry on the shapes of a real layer and prints its fastest
 * sample, in processor time of the thread: neighbours on the machine only ever
 * make it slower. Weights that a model reads once per token are larger than any
 * cache here; they are compared with a plain read of as many bytes by the same
 * threads.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "base/num.h"
#include "check.h"
#include "kern/math.h"
#include "kern/quant.h"

enum {
    MAX_THREADS = 64,
    BIG_BYTES = 256 << 20, /* larger than the caches of most machines */
    MIN_REPS = 3,
    MAX_RUNS = 1 << 20,
};
#define MIN_SAMPLE 50e-6
#define MIN_SECONDS 0.05
#define MAX_SECONDS 0.2

struct job;
typedef void job_fn(const struct job *j, const struct sl_kern *k);

struct job {
    const char *name;
    job_fn *run;
    enum sl_dtype type;
    size_t n_tok, rows, cols; /* or what the entry calls its sizes */
    double macs, bytes;       /* of one run; 0: not printed */
    const void *w;
    float *x, *y, *z;
    struct sl_qact q; /* x for quantised weights */
};

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    SL_CHECK(p != MAP_FAILED);
    return p;
}

/* Floats near 1/16 of either sign: no denormals, no overflow. */
static float *floats(size_t n)
{
    float *p = map(n * sizeof(float) + 1);
    struct check c = {.rng = 7};

    for (size_t i = 0; i < n; i++)
        p[i] = uniform(&c, -0.1f, 0.1f);
    return p;
}

/* Bytes that are tame weights in every type. */
static void *weights(size_t bytes)
{
    uint8_t *p = map(bytes);

    for (size_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)(i % 4 == 3 ? 0x3c : i % 2 ? 0x3d : i * 37 % 97);
    return p;
}

/* x, [n_tok][cols], as int8. */
static struct sl_qact quantised(const float *x, size_t n_tok, size_t cols)
{
    size_t n = n_tok * cols;
    int8_t *q = map(n + 1);
    float *scale = map(n / SL_QBLOCK * sizeof(*scale) + 1);
    int16_t *sum = map(n / SL_QBLOCK * 2 * sizeof(*sum) + 1);
    struct sl_kern k;

    sl_kern_init(&k, SL_CPU_ALL);
    k.quant_act(q, scale, sum, x, n);
    return (struct sl_qact){.q = q, .scale = scale, .sum = sum, .ld = cols};
}

/* Exponents of bfp that make no denormals. */
static void tame_bfp(enum sl_dtype t, uint8_t *w, size_t bytes)
{
    size_t step = t == SL_BFP8   ? sizeof(struct sl_bfp8_group)
                  : t == SL_BFP4 ? sizeof(struct sl_bfp4_group)
                                 : 0;

    for (size_t i = 0; step && i + step <= bytes; i += step)
        memset(w + i, 120, 2 * SL_GROUP);
}

/* Seconds that this thread has computed: on a busy machine the clock on the
 * wall shows the neighbours. */
static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds of one run, the fastest of several samples. A sample is as many runs
 * as make reading the clock cheap beside them. */
static double fastest(const struct job *j, const struct sl_kern *k)
{
    double best = 1e9, total = 0;
    size_t n = 1;

    for (int i = 0; i < MIN_REPS || total < MIN_SECONDS; i++) {
        double s, t0 = cpu_seconds();

        for (size_t r = 0; r < n; r++)
            j->run(j, k);
        s = cpu_seconds() - t0;
        total += s;
        if (s < MIN_SAMPLE && n < MAX_RUNS) {
            n *= 2;
            i = 0;
            continue;
        }
        best = s / (double)n < best ? s / (double)n : best;
        if (total > MAX_SECONDS)
            break;
    }
    return best;
}

static void run_mul(const struct job *j, const struct sl_kern *k)
{
    k->mul[j->type](j->y, j->rows, j->w, j->z, j->x, j->cols, j->n_tok, j->rows,
                    j->cols);
}

static void run_mulq(const struct job *j, const struct sl_kern *k)
{
    k->mulq[j->type](j->y, j->rows, j->w, &j->q, j->n_tok, j->rows, j->cols);
}

static void run_norm(const struct job *j, const struct sl_kern *k)
{
    k->rmsnorm(j->y, j->x, j->z, j->cols, 1e-6f);
}

static void run_gatednorm(const struct job *j, const struct sl_kern *k)
{
    k->gatednorm_silu(j->y, j->x, j->z, j->z, j->cols, 1e-6f);
}

static void run_dot(const struct job *j, const struct sl_kern *k)
{
    j->y[0] = k->dot(j->x, j->z, j->cols);
}

static void run_add(const struct job *j, const struct sl_kern *k)
{
    k->add(j->y, j->x, j->cols);
}

static void run_axpy(const struct job *j, const struct sl_kern *k)
{
    k->axpy(j->y, 1e-9f, j->x, j->cols);
}

static void run_silu_mul(const struct job *j, const struct sl_kern *k)
{
    k->silu_mul(j->y, j->x, j->z, j->cols);
}

static void run_exp(const struct job *j, const struct sl_kern *k)
{
    k->exp(j->y, j->x, j->cols);
}

static void run_sincos(const struct job *j, const struct sl_kern *k)
{
    k->sincos(j->y, j->z, j->x, j->cols);
}

static void run_conv(const struct job *j, const struct sl_kern *k)
{
    k->conv(j->y, j->x, j->x, j->x, j->x, j->z, j->cols);
}

static void run_gates(const struct job *j, const struct sl_kern *k)
{
    k->gdn_gates(j->y, j->y + j->cols, j->x, j->x, j->z, j->z, j->cols);
}

static void run_argmax(const struct job *j, const struct sl_kern *k)
{
    j->y[0] = (float)k->argmax(j->y + 1, j->x, j->cols);
}

static void run_put(const struct job *j, const struct sl_kern *k)
{
    k->put_k[SL_BF16](j->y, 5, j->x, j->cols);
    k->put_v[SL_BF16](j->y, 5, j->x, j->cols);
}

static void run_merge(const struct job *j, const struct sl_kern *k)
{
    j->y[0] = j->y[1] = 1;
    k->attn_merge(j->y, j->y + 1, j->z, 0.5f, 1, j->x, j->cols);
}

/* n_tok firm rows of one tile, 128 keys. */
static void run_gdn(const struct job *j, const struct sl_kern *k)
{
    const struct sl_gdn g = {
        .src = j->y,
        .dst = j->y,
        .dk = j->cols,
        .n_firm = j->n_tok,
        .k = j->x,
        .q = j->x + 7,
        .v = j->x,
        .decay = j->z,
        .beta = j->z,
        .kq = j->z,
        .ld_k = j->cols,
        .ld_q = j->cols,
        .ld_v = SL_TILE,
        .o = j->y + 2 * j->cols * SL_TILE,
        .ld_o = SL_TILE,
        .scratch = j->y + j->cols * SL_TILE,
    };

    k->gdn(&g);
}

/* n_tok queries, a full block. */
static void run_attn(const struct job *j, const struct sl_kern *k)
{
    uint32_t valid[64];
    const char *w = j->w;
    size_t page = SL_KV_PAGE * j->cols * sl_dtype_get(j->type)->bytes;
    struct sl_attn a = {
        .q = j->x,
        .ld_q = j->cols,
        .n_q = j->n_tok,
        .dim = j->cols,
        .scale = 0.0625f,
        .n_valid = valid,
        .m = j->y,
        .l = j->y + j->n_tok,
        .o = j->y + 2 * j->n_tok,
        .scratch = j->z,
    };

    for (size_t t = 0; t < j->n_tok; t++)
        valid[t] = SL_KV_BLOCK;
    for (size_t i = 0; i < SL_KV_BLOCK / SL_KV_PAGE; i++) {
        a.k[i] = w + 2 * i * page;
        a.v[i] = w + (2 * i + 1) * page;
    }
    k->attn[j->type](&a);
}

static void report(const struct job *j, const struct sl_kern *ref,
                   const struct sl_kern *fast)
{
    double s = fastest(j, fast);
    double r = fastest(j, ref);

    printf("%-14s %-5s %4zu x %6zu x %6zu %11.2f us", j->name,
           sl_dtype_get(j->type)->name, j->n_tok, j->rows, j->cols, s * 1e6);
    printf(" %8.2f GMAC/s %7.2f GB/s %7.1fx\n", j->macs / s * 1e-9,
           j->bytes / s * 1e-9, r / s);
    fflush(stdout);
}

/* A product from the second-level cache or nearer: what the arithmetic can. */
static void report_mul(enum sl_dtype type, size_t n_tok, size_t rows,
                       size_t cols, const struct sl_kern *ref,
                       const struct sl_kern *fast)
{
    size_t bytes = sl_dtype_bytes(type, rows * cols);
    uint8_t *w;
    struct job j = {.name = "mul",
                    .run = run_mul,
                    .type = type,
                    .n_tok = n_tok,
                    .rows = rows,
                    .cols = cols,
                    .macs = (double)(n_tok * rows * cols),
                    .bytes = (double)bytes};

    w = weights(bytes);
    tame_bfp(type, w, bytes);
    j.w = w;
    j.z = floats(rows * cols / 64 + 1);
    j.x = floats(n_tok * cols);
    j.y = map(n_tok * rows * sizeof(float));
    if (fast->mulq[type]) {
        j.run = run_mulq;
        j.q = quantised(j.x, n_tok, cols);
    }
    report(&j, ref, fast);
    munmap(j.x, n_tok * cols * sizeof(float) + 1);
    munmap(j.y, n_tok * rows * sizeof(float));
}

struct small {
    const char *name;
    job_fn *run;
    enum sl_dtype type;
    size_t n_tok, cols;
    double macs_per_elem, bytes_per_elem; /* times n_tok * cols */
};

static const struct small smalls[] = {
    {"rmsnorm", run_norm, SL_F32, 1, 4096, 2, 16},
    {"gatednorm", run_gatednorm, SL_F32, 1, 4096, 0, 20},
    {"dot", run_dot, SL_F32, 1, 4096, 1, 8},
    {"add", run_add, SL_F32, 1, 4096, 0, 12},
    {"axpy", run_axpy, SL_F32, 1, 4096, 1, 12},
    {"silu_mul", run_silu_mul, SL_F32, 1, 4096, 0, 12},
    {"exp", run_exp, SL_F32, 1, 4096, 0, 8},
    {"sincos", run_sincos, SL_F32, 1, 4096, 0, 12},
    {"conv", run_conv, SL_F32, 1, 4096, 4, 24},
    {"gdn_gates", run_gates, SL_F32, 1, 4096, 0, 24},
    {"argmax", run_argmax, SL_F32, 1, 248320, 0, 4},
    {"put_k, put_v", run_put, SL_BF16, 1, 256, 0, 12},
    {"attn_merge", run_merge, SL_F32, 1, 256, 2, 12},
    {"gdn", run_gdn, SL_F32, 1, 128, 64, 128},
    {"gdn", run_gdn, SL_F32, 4, 128, 64, 128},
    {"gdn", run_gdn, SL_F32, 64, 128, 64, 128},
    {"attn", run_attn, SL_BF16, 1, 256, 512, 1024},
    {"attn", run_attn, SL_BF16, 4, 256, 512, 256},
    {"attn", run_attn, SL_BF16, 6, 256, 512, 171},
    {"attn", run_attn, SL_BF16, 32, 256, 512, 32},
    {"attn", run_attn, SL_F32, 4, 256, 512, 512},
};

static void bench_small(const struct sl_kern *ref, const struct sl_kern *fast)
{
    const size_t room = 1 << 20;
    float *x = floats(room), *y = floats(room), *z = floats(room);
    void *w = weights(8 * SL_KV_PAGE * 256 * sizeof(float));

    for (size_t i = 0; i < SL_COUNTOF(smalls); i++) {
        const struct small *s = &smalls[i];
        double n = (double)(s->n_tok * s->cols);
        const struct job j = {.name = s->name,
                              .run = s->run,
                              .type = s->type,
                              .n_tok = s->n_tok,
                              .rows = 1,
                              .cols = s->cols,
                              .macs = n * s->macs_per_elem,
                              .bytes = n * s->bytes_per_elem,
                              .w = w,
                              .x = x,
                              .y = y,
                              .z = z};

        report(&j, ref, fast);
    }
}

/* Several threads, each with its own part of what is larger than the caches. */
struct part {
    struct job job; /* its name is NULL for a plain read */
    const struct sl_kern *k;
    pthread_barrier_t *start;
    double seconds;
};

static volatile uint64_t sink;

typedef uint64_t vec __attribute__((vector_size(16), aligned(8)));

/* Four streams, as the product reads four groups of rows: one alone leaves
 * bandwidth unused. One sum per stream, so that the additions are no limit. */
static uint64_t read_all(const uint64_t *p, size_t n)
{
    const size_t quarter = n / 4;
    vec s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};

    for (size_t i = 0; i + 8 <= quarter; i += 8) {
        const uint64_t *line = p + i;

        for (size_t k = 0; k < 8; k += 2) {
            s0 += *(const vec *)(const void *)(line + k);
            s1 += *(const vec *)(const void *)(line + quarter + k);
            s2 += *(const vec *)(const void *)(line + 2 * quarter + k);
            s3 += *(const vec *)(const void *)(line + 3 * quarter + k);
        }
    }
    s0 += s1 + s2 + s3;
    return s0[0] + s0[1];
}

static void *part_main(void *arg)
{
    struct part *p = arg;
    const struct job *j = &p->job;
    double t0;

    pthread_barrier_wait(p->start);
    t0 = cpu_seconds();
    if (j->name)
        j->run(j, p->k);
    else
        sink = read_all(j->w, (size_t)j->bytes / 8);
    p->seconds = cpu_seconds() - t0;
    return NULL;
}

/* GB/s of all parts together: the slowest thread counts. */
static double run_parts(struct part *parts, size_t n)
{
    pthread_t id[MAX_THREADS];
    pthread_barrier_t start;
    double worst = 0, bytes = 0;

    pthread_barrier_init(&start, NULL, (unsigned)n);
    for (size_t i = 0; i < n; i++) {
        parts[i].start = &start;
        SL_CHECK(!pthread_create(&id[i], NULL, part_main, &parts[i]));
    }
    for (size_t i = 0; i < n; i++) {
        pthread_join(id[i], NULL);
        worst = parts[i].seconds > worst ? parts[i].seconds : worst;
        bytes += parts[i].job.bytes;
    }
    pthread_barrier_destroy(&start);
    return bytes / worst * 1e-9;
}

/* Weights of `cols` columns from memory. Reads and products take turns, so that
 * a busy moment hits both. */
static void bench_stream(const struct sl_kern *k, enum sl_dtype type,
                         size_t n_tok, size_t cols, size_t n_threads, char *big)
{
    static struct part mul[MAX_THREADS], probe[MAX_THREADS];
    size_t bytes = BIG_BYTES / n_threads;
    size_t row_bytes = sl_dtype_bytes(type, cols);
    double best = 0, best_probe = 0;

    for (size_t i = 0; i < n_threads; i++) {
        struct job *j = &mul[i].job;

        j->name = "mul";
        j->run = run_mul;
        j->type = type;
        j->n_tok = n_tok;
        j->cols = cols;
        j->rows = bytes / row_bytes / SL_GROUP * SL_GROUP;
        j->bytes = (double)(j->rows * row_bytes);
        j->w = big + i * bytes;
        j->x = floats(n_tok * cols);
        j->y = map(n_tok * j->rows * sizeof(float));
        j->z = floats(j->rows * cols / 512 + 1);
        if (k->mulq[type]) {
            j->run = run_mulq;
            j->q = quantised(j->x, n_tok, cols);
        }
        mul[i].k = k;
        probe[i] = mul[i];
        probe[i].job.name = NULL;
    }
    for (int rep = 0; rep < 5; rep++) {
        double r = run_parts(probe, n_threads), m = run_parts(mul, n_threads);

        best_probe = r > best_probe ? r : best_probe;
        best = m > best ? m : best;
    }
    printf("stream %-5s %zu tokens, %zu columns, %zu threads: %.2f GB/s, "
           "read %.2f GB/s, %.0f %%\n",
           sl_dtype_get(type)->name, n_tok, cols, n_threads, best, best_probe,
           100 * best / best_probe);
    fflush(stdout);
}

int bench(const char *arg, unsigned mask)
{
    struct sl_kern ref, fast;
    struct sl_err err;
    static const size_t q_tok[] = {1, 4, 8, 16, 256};
    int64_t n_threads = 2;
    char *big = weights(BIG_BYTES);

    if (arg && sl_num_i64(&n_threads, arg, strlen(arg), 1, MAX_THREADS,
                          "threads", &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 2;
    }
    sl_kern_init(&ref, 0);
    sl_kern_init(&fast, mask);
    printf("levels %s, one thread unless it says so\n", fast.isa);
    for (size_t n = 1; n <= (size_t)n_threads; n *= 2) {
        bench_stream(&fast, SL_BF16, 1, 1024, n, big);
        bench_stream(&fast, SL_BF16, 1, 3584, n, big);
        bench_stream(&fast, SL_BF16, 4, 1024, n, big);
        bench_stream(&fast, SL_F32, 1, 1024, n, big);
        bench_stream(&fast, SL_FP8, 1, 1024, n, big);
        bench_stream(&fast, SL_Q8_0, 1, 1024, n, big);
        bench_stream(&fast, SL_Q6_K, 1, 1024, n, big);
        bench_stream(&fast, SL_Q5_K, 1, 1024, n, big);
        bench_stream(&fast, SL_Q4_K, 1, 1024, n, big);
        bench_stream(&fast, SL_Q4_K, 4, 1024, n, big);
        bench_stream(&fast, SL_Q4_K, 8, 1024, n, big);
        bench_stream(&fast, SL_Q4_0, 1, 1024, n, big);
        bench_stream(&fast, SL_Q4_0, 4, 1024, n, big);
    }
    for (size_t m = 1; m <= 8; m++)
        report_mul(SL_BF16, m, 32, 1024, &ref, &fast);
    report_mul(SL_BF16, 16, 64, 1024, &ref, &fast);
    report_mul(SL_BF16, 24, 64, 1024, &ref, &fast);
    report_mul(SL_BF16, 32, 64, 1024, &ref, &fast);
    report_mul(SL_BF16, 64, 64, 1024, &ref, &fast);
    report_mul(SL_BF16, 512, 64, 1024, &ref, &fast);
    report_mul(SL_BF16, 512, 32, 3584, &ref, &fast);
    report_mul(SL_F32, 512, 32, 1024, &ref, &fast);
    report_mul(SL_FP8, 512, 128, 1024, &ref, &fast);
    for (int t = SL_Q8_0; t < SL_N_DTYPE; t++)
        for (size_t i = 0; i < SL_COUNTOF(q_tok); i++)
            report_mul((enum sl_dtype)t, q_tok[i], 128, 1024, &ref, &fast);
    report_mul(SL_Q4_K, 512, 32, 3584, &ref, &fast);
    bench_small(&ref, &fast);
    return 0;
}
