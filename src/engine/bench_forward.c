/* engine/bench_forward.c - steps of a whole network; see bench.h
 *
 * A base sequence is as long as the context asked for. Its keys and values are
 * made up (the time does not depend on them), its last token is computed, so
 * that there is a recurrent state to read. Every step runs on a fork of the base,
 * which is thrown away: no round is longer than the one before.
 */
#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/probe.h"
#include "engine/bench.h"
#include "engine/engine.h"
#include "engine/median.h"
#include "model/qwen35.h"
#include "model/shape.h"

#define PROBE_BYTES ((size_t)256 << 20) /* far above today's caches */
#define KV_BYTE 0x3c                    /* 0.0114 in bf16 and in fp32 */
#define N_SEQ 2                         /* the base and a fork */

struct forward {
    const struct sl_forward_opts *o;
    struct sl_kern kern;
    struct sl_pool *pool;
    struct sl_probe *probe;
    struct sl_weights *w;
    struct sl_memory *mem;
    struct sl_model *model;
    struct sl_seq *base;
    uint32_t max_row;
    int32_t *tok;        /* [max_row] */
    uint32_t *logit_row; /* [SL_BENCH_VERIFY] */
    double *s, *rate;    /* [n_row][n_sample], [n_sample] */
};

/* -------------------------------------------------- what a step has to do */

static double mat_macs(const struct sl_mat *m)
{
    return (double)m->rows * m->cols;
}

static double mat_bytes(const struct sl_mat *m)
{
    return m->rows ? (double)m->rows * (double)sl_dtype_bytes(m->type, m->cols)
                   : 0;
}

typedef double mat_fn(const struct sl_mat *m);

static double mlp_sum(const struct sl_mlp_w *w, mat_fn *fn)
{
    return fn(&w->gate) + fn(&w->up) + fn(&w->down);
}

/* Over the matrices of a layer; `n_expert` experts take part. */
static double layer_sum(const struct sl_layer_w *l, double n_expert, mat_fn *fn)
{
    const struct sl_attn_w *a = &l->attn;
    const struct sl_lin_w *n = &l->lin;
    const struct sl_moe_w *m = &l->moe;
    double x = l->kind == SL_LAYER_FULL
                   ? fn(&a->q) + fn(&a->k) + fn(&a->v) + fn(&a->o)
                   : fn(&n->qkv) + fn(&n->z) + fn(&n->b) + fn(&n->a) +
                         fn(&n->out);

    if (l->dense)
        return x + mlp_sum(&l->mlp, fn);
    return x + fn(&m->router) + fn(&m->shared_gate) + mlp_sum(&m->shared, fn) +
           n_expert * mlp_sum(&m->expert[0], fn);
}

static double layers_sum(const struct forward *f, double n_expert, mat_fn *fn)
{
    double x = 0;

    for (uint32_t i = 0; i < f->w->conf.n_layer; i++)
        x += layer_sum(&f->w->layer[i], n_expert, fn);
    return x;
}

static double step_bytes(const struct forward *f, uint32_t rows, double experts)
{
    const struct sl_conf *c = &f->w->conf;
    const struct sl_kv *kv = f->mem->kv;
    double kv_tok = (double)sl_conf_count(c, SL_LAYER_FULL) * 2 *
                    c->n_kv_head *
                    (double)sl_dtype_bytes(kv->type, c->head_dim);

    return layers_sum(f, experts, mat_bytes) + mat_bytes(&f->w->head) +
           kv_tok * (f->base->n_tok + rows) +
           2.0 * (double)sl_rec_slot_bytes(&f->mem->rec->shape);
}

/* ------------------------------------------------------------------ opening */

static int open_weights(struct forward *f, struct sl_err *err)
{
    const struct sl_engine_opts *e = f->o->engine;
    struct sl_load_opts lo = {.pool = f->pool,
                              .plan = sl_engine_plan(e->weights),
                              .dummy = e->dummy,
                              .progress = e->progress,
                              .progress_ctx = e->progress_ctx};
    struct sl_conf *c = NULL;
    int rc = 0;

    if (f->o->shape)
        rc = sl_mem_alloc(&c, 1, sizeof(*c), "a shape", err);
    if (!rc && c)
        rc = sl_shape_get(c, f->o->shape, err);
    lo.shape = c;
    if (!rc)
        rc = sl_weights_open(&f->w, c ? f->o->shape : f->o->dir, &lo, err);
    sl_mem_free(c);
    return rc;
}

static int open_memory(struct forward *f, struct sl_err *err)
{
    const struct sl_conf *c = &f->w->conf;
    uint32_t max_tok = f->o->depth + 1 + f->max_row;
    struct sl_kv_plane plane[SL_MODEL_PLANES];
    struct sl_memory_opts m = {
        .planes = plane,
        .n_plane = sl_model_planes(c, false, plane),
        .kv_type = sl_engine_kv_dtype(f->o->engine->kv_type),
        .n_page = N_SEQ * (max_tok / SL_KV_PAGE + 2),
        .max_tok = max_tok,
        .n_seq = N_SEQ,
        .n_draft = N_SEQ,
        .n_slot = N_SEQ + 1};
    struct sl_model_opts mo = {.max_row = f->max_row,
                               .max_seq = 1,
                               .max_logit = SL_BENCH_VERIFY};
    int rc = 0;

    if (max_tok > c->max_pos)
        rc = sl_fail(err, SL_EARG,
                     "a depth of %u and %u rows pass the %u tokens of this "
                     "model; lower --depth or --rows",
                     f->o->depth, f->max_row, c->max_pos);
    sl_model_rec_shape(c, SL_BENCH_VERIFY - 1, &m.rec);
    if (!rc)
        rc = sl_memory_open(&f->mem, &m, err);
    if (!rc)
        rc = sl_model_open(&f->model, f->w, f->pool, &f->kern, &mo, err);
    if (!rc)
        rc = sl_seq_open(&f->base, f->mem, err);
    return rc;
}

static int open_all(struct forward *f, const struct sl_bench_row *rows,
                    struct sl_err *err)
{
    const struct sl_forward_opts *o = f->o;
    int rc;

    for (uint32_t i = 0; i < o->n_row; i++)
        f->max_row = (uint32_t)sl_max(f->max_row, rows[i].rows);
    sl_kern_init(&f->kern, o->engine->cpu_mask);
    rc = sl_pool_open(&f->pool, o->engine->n_thread, o->engine->pin, err);
    if (!rc)
        rc = sl_probe_open(&f->probe, f->pool, PROBE_BYTES, err);
    if (!rc)
        rc = open_weights(f, err);
    if (!rc)
        rc = open_memory(f, err);
    if (!rc)
        rc = sl_mem_alloc(&f->tok, f->max_row, sizeof(*f->tok), "rows", err);
    if (!rc)
        rc = sl_mem_alloc(&f->logit_row, SL_BENCH_VERIFY,
                          sizeof(*f->logit_row), "rows", err);
    if (!rc)
        rc = sl_mem_alloc(&f->s, (size_t)o->n_row * o->n_sample,
                          sizeof(*f->s), "samples", err);
    if (!rc)
        rc = sl_mem_alloc(&f->rate, o->n_sample, sizeof(*f->rate), "samples",
                          err);
    for (uint32_t i = 0; !rc && i < f->max_row; i++)
        f->tok[i] = (int32_t)(i * 7919u % f->w->conf.vocab);
    return rc;
}

static void close_all(struct forward *f)
{
    sl_seq_close(&f->base);
    sl_model_close(&f->model);
    sl_memory_close(&f->mem);
    sl_weights_close(&f->w);
    sl_probe_close(&f->probe);
    sl_pool_close(&f->pool);
    sl_mem_free(f->tok);
    sl_mem_free(f->logit_row);
    sl_mem_free(f->s);
    sl_mem_free(f->rate);
}

/* ---------------------------------------------------------------- measuring */

/* One step of `rows` rows of q; *s is how long it took. */
static int step(struct forward *f, struct sl_seq *q, uint32_t rows, double *s,
                struct sl_err *err)
{
    bool verify = rows <= SL_BENCH_VERIFY;
    uint32_t tent = verify ? rows - 1 : 0;
    struct sl_step st = {.seq = &q,
                         .n_seq = 1,
                         .tok = f->tok,
                         .n_row = rows,
                         .logit_row = f->logit_row,
                         .n_logit = verify ? rows : 1};
    uint64_t t0;
    int rc = sl_seq_begin(q, rows - tent, tent, err);

    if (rc)
        return rc;
    for (uint32_t i = 0; i < st.n_logit; i++)
        f->logit_row[i] = verify ? i : rows - 1;
    t0 = sl_clock_ns();
    sl_forward(f->model, &st);
    *s = sl_clock_s(t0, sl_clock_ns());
    sl_seq_end(q, 0);
    /* Weights that overflow would be measured at another speed. */
    if (!isfinite(st.logits[0]))
        return sl_fail(err, SL_EFORMAT,
                       "the logits are not finite; these weights measure "
                       "nothing");
    return 0;
}

static int make_base(struct forward *f, struct sl_err *err)
{
    struct sl_kv *kv = f->mem->kv;
    struct sl_seq *q = f->base;
    double s;
    int rc = sl_seq_reserve(q, f->o->depth + 1, err);

    for (uint32_t i = 0; !rc && i < q->n_page; i++)
        memset(kv->base + q->page[i] * kv->page_bytes, KV_BYTE,
               kv->page_bytes);
    q->n_tok = f->o->depth;
    return rc ? rc : step(f, q, 1, &s, err);
}

static int sample(struct forward *f, uint32_t rows, double *s,
                  struct sl_err *err)
{
    struct sl_seq *q = NULL;
    int rc = sl_seq_fork(&q, f->base, err);

    if (!rc)
        rc = step(f, q, rows, s, err);
    sl_seq_close(&q);
    return rc;
}

static int measure(struct forward *f, struct sl_bench_row *rows,
                   struct sl_err *err)
{
    uint32_t n = f->o->n_sample, n_row = f->o->n_row;
    double probe;
    int rc = make_base(f, err);

    for (uint32_t i = 0; !rc && i < n_row; i++) /* to warm up */
        rc = sample(f, rows[i].rows, f->s, err);
    for (uint32_t k = 0; !rc && k < n; k++) {
        f->rate[k] = sl_probe_read(f->probe);
        for (uint32_t i = 0; !rc && i < n_row; i++) {
            rc = sample(f, rows[i].rows, &f->s[i * n + k], err);
            rows[i].experts = sl_model_experts(f->model);
        }
    }
    if (rc)
        return rc;
    probe = sl_median(f->rate, n);
    for (uint32_t i = 0; i < n_row; i++) {
        rows[i].s = sl_median(f->s + i * n, n);
        rows[i].best_s = f->s[i * n]; /* in order now */
        rows[i].bytes = step_bytes(f, rows[i].rows, rows[i].experts);
        rows[i].macs = rows[i].rows *
                       layers_sum(f, f->w->conf.n_used, mat_macs);
        rows[i].probe = probe;
    }
    return 0;
}

/* The ceiling that belongs to most of the weights. */
static double peak_of(const struct forward *f)
{
    const struct sl_layer_w *l = &f->w->layer[0];
    enum sl_dtype t = l->dense ? l->mlp.up.type : l->moe.expert[0].up.type;
    sl_peak_fn *fn = f->kern.mulq[t] ? f->kern.peak_int8 : f->kern.peak_fp32;
    uint64_t t0 = sl_clock_ns();
    double n = (double)fn((uint64_t)1 << 28);

    return n / sl_clock_s(t0, sl_clock_ns());
}

int sl_bench_forward(struct sl_bench_row *rows, struct sl_forward_info *info,
                     const struct sl_forward_opts *o, struct sl_err *err)
{
    struct forward f = {.o = o};
    int rc = open_all(&f, rows, err);

    if (!rc)
        rc = measure(&f, rows, err);
    if (!rc)
        *info = (struct sl_forward_info){.n_thread = sl_pool_n_thread(f.pool),
                                         .isa = f.kern.isa,
                                         .peak = peak_of(&f),
                                         .weight_bytes = f.w->bytes};
    close_all(&f);
    return rc;
}
