/* model/qwen35.c - the Qwen3.5 / 3.6 / 3.8 network; see qwen35.h
 *
 *     x = embed[token]
 *     for each layer:
 *         x = x + mixer(norm(x))       three DeltaNet layers, then attention
 *         x = x + mlp(norm(x))         gated MLP, or experts
 *     logits = head norm(x)
 *
 * The residual x is fp32, as is every activation (D2). Work space is one arena,
 * cut once when the model is opened; its pointers are in struct work.
 */
#include "model/qwen35.h"

#include "base/mem.h"
#include "kern/math.h"
#include "ops/attend.h"
#include "ops/delta.h"
#include "ops/moe.h"
#include "ops/mul.h"
#include "ops/rows.h"

/* Blocks of attention whose results are held at a time, per worker: enough to
 * keep all busy, and below a megabyte each. Chosen, not measured. */
#define PARTS_PER_THREAD 8

/* Shapes: R rows, H hidden, others as in struct sl_conf. */
struct work {
    float *x, *h, *y; /* [R][H] */
    uint32_t *seq_of_row;
    struct sl_attend_seq *attend_seq; /* [max_seq] */
    struct sl_delta_seq *delta_seq;
    /* attention */
    float *qg, *k, *v, *q, *acc, *ml, *attn, *part, *attn_scratch;
    /* DeltaNet */
    float *u, *z, *a, *b, *c, *decay, *beta, *kq, *o, *delta_scratch;
    /* MLP */
    float *gate, *up;
    /* experts */
    float *logit, *weight, *xs, *egate, *eup, *ys, *shared_gate, *sy;
    uint32_t *pick, *slot, *first;
    struct sl_mul_job *job;
    /* head */
    float *last; /* [max_logit][H] */
    float *logits; /* [max_logit][vocab] */
};

struct sl_model {
    const struct sl_weights *w;
    const struct sl_conf *c;
    struct sl_model_opts opts;
    struct sl_run run;
    float *inv_freq; /* [rot_dim / 2] */
    struct sl_arena arena;
    struct work work;
};

/* ------------------------------------------------------------- the network */

static void full_attention(struct sl_model *m, const struct sl_step *s,
                           const struct sl_layer_w *l, uint32_t i_full)
{
    const struct sl_conf *c = m->c;
    const struct sl_kv *kv = s->seq[0]->mem->kv;
    struct work *w = &m->work;
    size_t n = s->n_row;
    struct sl_mul_job in[] = {
        {.w = &l->attn.q, .y = w->qg},
        {.w = &l->attn.k, .y = w->k},
        {.w = &l->attn.v, .y = w->v},
    };
    struct sl_attend a = {
        .n_head = c->n_head,
        .n_kv_head = c->n_kv_head,
        .head_dim = c->head_dim,
        .rot_dim = c->rot_dim,
        .eps = c->eps,
        .q_norm = l->attn.q_norm,
        .k_norm = l->attn.k_norm,
        .inv_freq = m->inv_freq,
        .kv_type = kv->type,
        .base = sl_kv_layer(kv, 0, i_full),
        .page_bytes = kv->page_bytes,
        .head_bytes = kv->plane[0].head_bytes,
        .n_row = n,
        .qg = w->qg,
        .k = w->k,
        .v = w->v,
        .seq = w->attend_seq,
        .n_seq = s->n_seq,
        .seq_of_row = w->seq_of_row,
        .out = w->attn,
        .q = w->q,
        .acc = w->acc,
        .ml = w->ml,
        .part = w->part,
        .max_part = PARTS_PER_THREAD * sl_pool_n_thread(m->run.pool),
        .scratch = w->attn_scratch,
    };

    for (size_t i = 0; i < SL_COUNTOF(in); i++) {
        in[i].x = w->h;
        in[i].ldx = c->hidden;
        in[i].n_tok = n;
        in[i].ldy = in[i].w->rows;
    }
    sl_mul_run(&m->run, in, SL_COUNTOF(in));
    sl_attend_run(&m->run, &a);
    sl_mul_one(&m->run, w->y, &l->attn.o, w->attn, n);
}

static void delta_net(struct sl_model *m, const struct sl_step *s,
                      const struct sl_layer_w *l, uint32_t i_lin)
{
    const struct sl_conf *c = m->c;
    struct work *w = &m->work;
    size_t n = s->n_row;
    struct sl_mul_job in[] = {
        {.w = &l->lin.qkv, .y = w->u},
        {.w = &l->lin.z, .y = w->z},
        {.w = &l->lin.a, .y = w->a},
        {.w = &l->lin.b, .y = w->b},
    };
    struct sl_delta d = {
        .n_key = c->n_key,
        .n_val = c->n_val,
        .key_dim = c->key_dim,
        .val_dim = c->val_dim,
        .eps = c->eps,
        .sigmoid_gate = c->out_gate == SL_GATE_SIGMOID,
        .conv_w = l->lin.conv,
        .a_neg = l->lin.a_neg,
        .dt = l->lin.dt,
        .norm = l->lin.norm,
        .n_row = n,
        .u = w->u,
        .z = w->z,
        .a = w->a,
        .b = w->b,
        .seq = w->delta_seq,
        .n_seq = s->n_seq,
        .seq_of_row = w->seq_of_row,
        .o = w->o,
        .c = w->c,
        .decay = w->decay,
        .beta = w->beta,
        .kq = w->kq,
        .scratch = w->delta_scratch,
    };

    for (size_t i = 0; i < SL_COUNTOF(in); i++) {
        in[i].x = w->h;
        in[i].ldx = c->hidden;
        in[i].n_tok = n;
        in[i].ldy = in[i].w->rows;
    }
    for (uint32_t i = 0; i < s->n_seq; i++)
        sl_rec_view(s->seq[i]->mem->rec, &s->seq[i]->rec, i_lin,
                    &w->delta_seq[i]);
    sl_mul_run(&m->run, in, SL_COUNTOF(in));
    sl_delta_run(&m->run, &d);
    sl_mul_one(&m->run, w->y, &l->lin.out, w->o, n);
}

static void dense_mlp(struct sl_model *m, const struct sl_step *s,
                      const struct sl_mlp_w *l)
{
    struct work *w = &m->work;
    struct sl_mul_job in[] = {
        {.w = &l->gate, .y = w->gate},
        {.w = &l->up, .y = w->up},
    };

    for (size_t i = 0; i < SL_COUNTOF(in); i++) {
        in[i].x = w->h;
        in[i].ldx = m->c->hidden;
        in[i].n_tok = s->n_row;
        in[i].ldy = in[i].w->rows;
    }
    sl_mul_run(&m->run, in, SL_COUNTOF(in));
    sl_silu_mul(&m->run, w->gate, w->up, s->n_row, l->gate.rows);
    sl_mul_one(&m->run, w->y, &l->down, w->gate, s->n_row);
}

static void experts(struct sl_model *m, const struct sl_step *s,
                    const struct sl_moe_w *l)
{
    struct work *w = &m->work;
    struct sl_moe e = {
        .n_expert = m->c->n_expert,
        .n_used = m->c->n_used,
        .router = &l->router,
        .expert = l->expert,
        .shared = l->shared.gate.rows ? &l->shared : NULL,
        .shared_gate = &l->shared_gate,
        .n_row = s->n_row,
        .x = w->h,
        .y = w->y,
        .logit = w->logit,
        .weight = w->weight,
        .pick = w->pick,
        .slot = w->slot,
        .first = w->first,
        .xs = w->xs,
        .gate = w->egate,
        .up = w->eup,
        .ys = w->ys,
        .shared_gate_y = w->shared_gate,
        .sg = w->gate,
        .su = w->up,
        .sy = w->sy,
        .job = w->job,
    };

    sl_moe_run(&m->run, &e);
}

/* Lay the rows out: which sequence each belongs to, and from which position. */
static void place_rows(struct sl_model *m, const struct sl_step *s)
{
    struct work *w = &m->work;
    uint32_t row = 0;

    for (uint32_t i = 0; i < s->n_seq; i++) {
        const struct sl_seq *q = s->seq[i];
        uint32_t n = q->n_firm + q->n_tent;

        w->attend_seq[i] = (struct sl_attend_seq){
            .row0 = row, .n_row = n, .pos0 = q->n_tok, .page = q->page};
        w->delta_seq[i] = (struct sl_delta_seq){
            .row0 = row, .n_firm = q->n_firm, .n_tent = q->n_tent};
        for (uint32_t k = 0; k < n; k++)
            w->seq_of_row[row++] = i;
    }
    SL_CHECK(row == s->n_row);
}

static void put_taps(struct sl_model *m, struct sl_step *s, uint32_t layer)
{
    size_t n = (size_t)s->n_row * m->c->hidden;

    for (uint32_t i = 0; i < s->n_tap; i++)
        if (s->tap[i] == layer)
            memcpy(s->tap_out + i * n, m->work.x, n * sizeof(*s->tap_out));
}

/* The final norm, and the head for the rows that want logits. */
static void head(struct sl_model *m, struct sl_step *s)
{
    const struct sl_conf *c = m->c;
    struct work *w = &m->work;

    if (s->hidden)
        sl_rmsnorm(&m->run, s->hidden, w->x, m->w->norm, s->n_row, c->hidden,
                   c->eps);
    for (uint32_t i = 0; i < s->n_logit; i++)
        memcpy(w->last + (size_t)i * c->hidden,
               w->x + (size_t)s->logit_row[i] * c->hidden,
               c->hidden * sizeof(*w->last));
    sl_rmsnorm(&m->run, w->last, w->last, m->w->norm, s->n_logit, c->hidden,
               c->eps);
    sl_mul_one(&m->run, w->logits, &m->w->head, w->last, s->n_logit);
    s->logits = w->logits;
}

void sl_forward(struct sl_model *m, struct sl_step *s)
{
    const struct sl_conf *c = m->c;
    struct work *w = &m->work;
    uint32_t n_lin = 0, n_full = 0;

    SL_CHECK(s->n_row <= m->opts.max_row && s->n_seq <= m->opts.max_seq &&
             s->n_logit <= m->opts.max_logit);
    if (s->n_seq == 0)
        return;
    place_rows(m, s);
    sl_embed(&m->run, w->x, &m->w->embed, s->tok, s->n_row);
    for (uint32_t i = 0; i < c->n_layer; i++) {
        const struct sl_layer_w *l = &m->w->layer[i];

        sl_rmsnorm(&m->run, w->h, w->x, l->in_norm, s->n_row, c->hidden,
                   c->eps);
        if (l->kind == SL_LAYER_FULL)
            full_attention(m, s, l, n_full++);
        else
            delta_net(m, s, l, n_lin++);
        sl_add(&m->run, w->x, w->y, s->n_row, c->hidden);

        sl_rmsnorm(&m->run, w->h, w->x, l->post_norm, s->n_row, c->hidden,
                   c->eps);
        if (l->dense)
            dense_mlp(m, s, &l->mlp);
        else
            experts(m, s, &l->moe);
        sl_add(&m->run, w->x, w->y, s->n_row, c->hidden);
        put_taps(m, s, i);
    }
    head(m, s);
}

/* --------------------------------------------------------------- its memory */

/* Gives out one array after the other; without an arena it only counts. */
struct cutter {
    struct sl_arena *arena;
    size_t bytes;
};

static void *cut(struct cutter *c, size_t n, size_t size)
{
    c->bytes += sl_arena_cost(n * size);
    return c->arena ? sl_arena_get(c->arena, n * size) : NULL;
}

static float *cut_f(struct cutter *c, size_t n)
{
    return cut(c, n, sizeof(float));
}

static void cut_attention(struct cutter *k, struct work *w,
                          const struct sl_conf *c, size_t rows,
                          unsigned n_thread)
{
    size_t heads = (size_t)c->n_head * c->head_dim;
    size_t kvs = (size_t)c->n_kv_head * c->head_dim;
    uint32_t group = c->n_head / c->n_kv_head;

    w->qg = cut_f(k, rows * heads * 2);
    w->k = cut_f(k, rows * kvs);
    w->v = cut_f(k, rows * kvs);
    w->q = cut_f(k, rows * heads);
    w->acc = cut_f(k, rows * heads);
    w->ml = cut_f(k, rows * c->n_head * 2);
    w->attn = cut_f(k, rows * heads);
    w->part = cut_f(k, PARTS_PER_THREAD * n_thread *
                           sl_attend_part_floats(group, c->head_dim));
    w->attn_scratch =
        cut_f(k, (size_t)n_thread * SL_ATTEND_ROWS * group * SL_KV_BLOCK);
}

static void cut_delta(struct cutter *k, struct work *w,
                      const struct sl_conf *c, size_t rows, unsigned n_thread)
{
    size_t vals = (size_t)c->n_val * c->val_dim;

    w->u = cut_f(k, rows * c->conv_dim);
    w->c = cut_f(k, rows * c->conv_dim);
    w->z = cut_f(k, rows * vals);
    w->o = cut_f(k, rows * vals);
    w->a = cut_f(k, rows * c->n_val);
    w->b = cut_f(k, rows * c->n_val);
    w->decay = cut_f(k, rows * c->n_val);
    w->beta = cut_f(k, rows * c->n_val);
    w->kq = cut_f(k, rows * c->n_key);
    w->delta_scratch = cut_f(k, (size_t)n_thread * c->key_dim * SL_TILE);
}

static void cut_experts(struct cutter *k, struct work *w,
                        const struct sl_conf *c, size_t rows)
{
    size_t slots = rows * c->n_used;

    if (c->n_expert == 0)
        return;
    w->logit = cut_f(k, rows * c->n_expert);
    w->weight = cut_f(k, slots);
    w->pick = cut(k, slots, sizeof(*w->pick));
    w->slot = cut(k, slots, sizeof(*w->slot));
    w->first = cut(k, c->n_expert + 1, sizeof(*w->first));
    w->xs = cut_f(k, slots * c->hidden);
    w->egate = cut_f(k, slots * c->expert_ffn);
    w->eup = cut_f(k, slots * c->expert_ffn);
    w->ys = cut_f(k, slots * c->hidden);
    w->shared_gate = cut_f(k, rows);
    w->sy = cut_f(k, rows * c->hidden);
    w->job = cut(k, 2 * (size_t)c->n_expert + 4, sizeof(*w->job));
}

static void cut_work(struct cutter *k, struct work *w, const struct sl_conf *c,
                     unsigned n_thread, const struct sl_model_opts *o)
{
    size_t rows = o->max_row, ffn = sl_max(c->ffn, c->shared_ffn);

    w->x = cut_f(k, rows * c->hidden);
    w->h = cut_f(k, rows * c->hidden);
    w->y = cut_f(k, rows * c->hidden);
    w->seq_of_row = cut(k, rows, sizeof(*w->seq_of_row));
    w->attend_seq = cut(k, o->max_seq, sizeof(*w->attend_seq));
    w->delta_seq = cut(k, o->max_seq, sizeof(*w->delta_seq));
    cut_attention(k, w, c, rows, n_thread);
    cut_delta(k, w, c, rows, n_thread);
    w->gate = cut_f(k, rows * ffn);
    w->up = cut_f(k, rows * ffn);
    cut_experts(k, w, c, rows);
    w->last = cut_f(k, (size_t)o->max_logit * c->hidden);
    w->logits = cut_f(k, (size_t)o->max_logit * c->vocab);
}

size_t sl_model_work_bytes(const struct sl_conf *conf, unsigned n_thread,
                           const struct sl_model_opts *opts)
{
    struct cutter k = {0};
    struct work w;

    cut_work(&k, &w, conf, n_thread, opts);
    return k.bytes;
}

int sl_model_open(struct sl_model **out, const struct sl_weights *weights,
                  struct sl_pool *pool, const struct sl_kern *kern,
                  const struct sl_model_opts *opts, struct sl_err *err)
{
    struct sl_model *m = NULL;
    struct cutter k = {0};
    unsigned n_thread = sl_pool_n_thread(pool);
    int rc = sl_mem_alloc(&m, 1, sizeof(*m), "the model", err);

    if (rc)
        return rc;
    m->w = weights;
    m->c = &weights->conf;
    m->opts = *opts;
    sl_run_init(&m->run, pool, kern);
    rc = sl_mem_alloc(&m->inv_freq, m->c->rot_dim / 2, sizeof(float),
                      "the rotation", err);
    if (!rc)
        rc = sl_arena_init(&m->arena,
                           sl_model_work_bytes(m->c, n_thread, opts),
                           "the work space of a step; lower "
                           "--max-num-batched-tokens: it",
                           err);
    if (rc) {
        sl_model_close(&m);
        return rc;
    }
    sl_inv_freq(m->inv_freq, m->c->theta, m->c->rot_dim);
    k.arena = &m->arena;
    cut_work(&k, &m->work, m->c, n_thread, opts);
    SL_CHECK(!sl_arena_failed(&m->arena));
    *out = m;
    return 0;
}

void sl_model_close(struct sl_model **pm)
{
    struct sl_model *m = *pm;

    if (!m)
        return;
    *pm = NULL;
    sl_arena_deinit(&m->arena);
    sl_mem_free(m->inv_freq);
    sl_mem_free(m);
}

void sl_model_planes(const struct sl_conf *conf, struct sl_kv_plane *target)
{
    *target = (struct sl_kv_plane){
        .n_layer = sl_conf_count(conf, SL_LAYER_FULL),
        .n_head = conf->n_kv_head,
        .dim = conf->head_dim,
    };
}

void sl_model_rec_shape(const struct sl_conf *conf, uint32_t max_tent,
                        struct sl_rec_shape *out)
{
    *out = (struct sl_rec_shape){
        .n_layer = sl_conf_count(conf, SL_LAYER_LINEAR),
        .n_key = conf->n_key,
        .n_val = conf->n_val,
        .key_dim = conf->key_dim,
        .val_dim = conf->val_dim,
        .max_tent = max_tent,
    };
}
