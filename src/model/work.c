/* model/work.c - the work space of a model
 *
 * One arena, cut once when the model is opened: every array has its place for
 * the largest step, so a step allocates nothing.
 */
#include "model/layers.h"

#include "kern/quant.h"
#include "ops/mul.h"

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

static void cut_attention(struct cutter *k, struct sl_work *w,
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
    w->part = cut_f(k, SL_PARTS_PER_THREAD * n_thread *
                           sl_attend_part_floats(group, c->head_dim));
    w->attn_scratch =
        cut_f(k, (size_t)n_thread * SL_ATTEND_ROWS * group * SL_KV_BLOCK);
}

static void cut_delta(struct cutter *k, struct sl_work *w,
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

static void cut_experts(struct cutter *k, struct sl_work *w,
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

/* Room for the inputs of any sl_mul_run as int8. */
static void cut_act(struct cutter *k, struct sl_act_space *a,
                    const struct sl_conf *c, size_t rows, size_t logit_rows)
{
    size_t widest = sl_max((size_t)c->n_head * c->head_dim,
                           (size_t)c->n_val * c->val_dim);
    size_t slots = rows * c->n_used, n;

    widest = sl_max(widest, sl_max(c->ffn, 2 * (size_t)c->hidden));
    n = rows * widest;
    if (c->n_expert > 0)
        n = sl_max(n, slots * sl_max(c->hidden, c->expert_ffn) +
                          rows * sl_max(c->hidden, c->shared_ffn));
    n = sl_max(n, logit_rows * c->hidden);
    a->n = sl_round_up(n, SL_QBLOCK);
    a->q = cut(k, a->n, sizeof(*a->q));
    a->scale = cut(k, a->n / SL_QBLOCK, sizeof(*a->scale));
    a->sum = cut(k, a->n / (SL_QBLOCK / 2), sizeof(*a->sum));
}

static void cut_work(struct cutter *k, struct sl_work *w, const struct sl_conf *c,
                     unsigned n_thread, const struct sl_model_opts *o)
{
    size_t rows = o->max_row, ffn = sl_max(c->ffn, c->shared_ffn);

    w->x = cut_f(k, rows * c->hidden);
    w->h = cut_f(k, rows * c->hidden);
    w->y = cut_f(k, rows * c->hidden);
    w->pair = cut_f(k, c->n_mtp ? rows * c->hidden * 2 : 0);
    w->seq_of_row = cut(k, rows, sizeof(*w->seq_of_row));
    w->attend_seq = cut(k, o->max_seq, sizeof(*w->attend_seq));
    w->delta_seq = cut(k, o->max_seq, sizeof(*w->delta_seq));
    cut_attention(k, w, c, rows, n_thread);
    cut_delta(k, w, c, rows, n_thread);
    w->gate = cut_f(k, rows * ffn);
    w->up = cut_f(k, rows * ffn);
    cut_experts(k, w, c, rows);
    cut_act(k, &w->act, c, rows, o->max_logit);
    w->last = cut_f(k, (size_t)o->max_logit * c->hidden);
    w->logits = cut_f(k, (size_t)o->max_logit * c->vocab);
}

size_t sl_model_work_bytes(const struct sl_conf *c, unsigned n_thread,
                           const struct sl_model_opts *o)
{
    struct cutter k = {0};
    struct sl_work w;

    cut_work(&k, &w, c, n_thread, o);
    return k.bytes;
}

void sl_work_cut(struct sl_model *m, unsigned n_thread)
{
    struct cutter k = {.arena = &m->arena};

    cut_work(&k, &m->work, m->c, n_thread, &m->opts);
    m->run.act = m->work.act;
    SL_CHECK(!sl_arena_failed(&m->arena));
}
