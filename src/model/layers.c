/* model/layers.c - the layers that networks of this family are made of */
#include "model/layers.h"

#include "ops/mul.h"
#include "ops/rows.h"

/* The operation over the rows that have their places. */
static struct sl_attend attend_of(const struct sl_model *m,
                                  const struct sl_rows *r,
                                  const struct sl_attn_w *l, uint32_t plane,
                                  uint32_t layer)
{
    const struct sl_conf *c = m->c;
    const struct sl_kv *kv = r->kv;
    const struct sl_work *w = &m->work;

    return (struct sl_attend){
        .n_head = c->n_head,
        .n_kv_head = c->n_kv_head,
        .head_dim = c->head_dim,
        .rot_dim = c->rot_dim,
        .eps = c->eps,
        .q_norm = l->q_norm,
        .k_norm = l->k_norm,
        .inv_freq = m->inv_freq,
        .kv_type = kv->type,
        .base = sl_kv_layer(kv, plane, layer),
        .page_bytes = kv->page_bytes,
        .head_bytes = kv->plane[plane].head_bytes,
        .n_row = r->n_row,
        .qg = w->qg,
        .k = w->k,
        .v = w->v,
        .seq = w->attend_seq,
        .n_seq = r->n_seq,
        .seq_of_row = w->seq_of_row,
        .out = w->attn,
        .q = w->q,
        .acc = w->acc,
        .ml = w->ml,
        .part = w->part,
        .max_part = SL_PARTS_PER_THREAD * sl_pool_n_thread(m->run.pool),
        .scratch = w->attn_scratch,
    };
}

void sl_layer_attention(struct sl_model *m, const struct sl_rows *r,
                        const struct sl_attn_w *l, uint32_t plane,
                        uint32_t layer)
{
    struct sl_work *w = &m->work;
    struct sl_mul_job in[] = {
        {.w = &l->q, .y = w->qg},
        {.w = &l->k, .y = w->k},
        {.w = &l->v, .y = w->v},
    };
    struct sl_attend a = attend_of(m, r, l, plane, layer);

    sl_mul_shared(&m->run, in, SL_COUNTOF(in), w->h, r->n_row);
    sl_attend_run(&m->run, &a);
    sl_mul_one(&m->run, w->y, &l->o, w->attn, r->n_row);
}

void sl_layer_keys(struct sl_model *m, const struct sl_rows *r,
                   const struct sl_attn_w *l, uint32_t plane, uint32_t layer,
                   const float *ask, size_t n_ask)
{
    struct sl_work *w = &m->work;
    size_t n = r->n_row;
    struct sl_mul_job in[] = {
        {.w = &l->k, .x = w->h, .n_tok = n, .y = w->k},
        {.w = &l->v, .x = w->h, .n_tok = n, .y = w->v},
        {.w = &l->q, .x = ask, .n_tok = n_ask, .y = w->qg},
    };
    struct sl_attend a = attend_of(m, r, l, plane, layer);

    for (size_t i = 0; i < SL_COUNTOF(in); i++) {
        in[i].ldx = m->c->hidden;
        in[i].ldy = in[i].w->rows;
    }
    sl_mul_run(&m->run, in, SL_COUNTOF(in) - (n_ask == 0));
    sl_attend_put(&m->run, &a);
}

void sl_layer_asked(struct sl_model *m, const struct sl_rows *r,
                    const struct sl_attn_w *l, uint32_t plane, uint32_t layer)
{
    struct sl_attend a = attend_of(m, r, l, plane, layer);

    a.has_keys = true;
    sl_attend_run(&m->run, &a);
    sl_mul_one(&m->run, m->work.y, &l->o, m->work.attn, r->n_row);
}

void sl_layer_delta(struct sl_model *m, const struct sl_rows *r,
                    const struct sl_lin_w *l)
{
    const struct sl_conf *c = m->c;
    struct sl_work *w = &m->work;
    size_t n = r->n_row;
    struct sl_mul_job in[] = {
        {.w = &l->qkv, .y = w->u},
        {.w = &l->z, .y = w->z},
        {.w = &l->a, .y = w->a},
        {.w = &l->b, .y = w->b},
    };
    struct sl_delta d = {
        .n_key = c->n_key,
        .n_val = c->n_val,
        .key_dim = c->key_dim,
        .val_dim = c->val_dim,
        .eps = c->eps,
        .sigmoid_gate = c->out_gate == SL_GATE_SIGMOID,
        .conv_w = l->conv,
        .a_neg = l->a_neg,
        .dt = l->dt,
        .norm = l->norm,
        .n_row = n,
        .u = w->u,
        .z = w->z,
        .a = w->a,
        .b = w->b,
        .seq = w->delta_seq,
        .n_seq = r->n_seq,
        .seq_of_row = w->seq_of_row,
        .o = w->o,
        .c = w->c,
        .decay = w->decay,
        .beta = w->beta,
        .kq = w->kq,
        .scratch = w->delta_scratch,
    };

    sl_mul_shared(&m->run, in, SL_COUNTOF(in), w->h, n);
    sl_delta_run(&m->run, &d);
    sl_mul_one(&m->run, w->y, &l->out, w->o, n);
}

static void dense_mlp(struct sl_model *m, const struct sl_rows *r,
                      const struct sl_mlp_w *l)
{
    struct sl_work *w = &m->work;
    struct sl_mul_job in[] = {
        {.w = &l->gate, .y = w->gate},
        {.w = &l->up, .y = w->up},
    };

    sl_mul_shared(&m->run, in, SL_COUNTOF(in), w->h, r->n_row);
    sl_silu_mul(&m->run, w->gate, w->up, r->n_row, l->gate.rows);
    sl_mul_one(&m->run, w->y, &l->down, w->gate, r->n_row);
}

static void experts(struct sl_model *m, const struct sl_rows *r,
                    const struct sl_moe_w *l)
{
    struct sl_work *w = &m->work;
    struct sl_moe e = {
        .n_expert = m->c->n_expert,
        .n_used = m->c->n_used,
        .router = &l->router,
        .expert = l->expert,
        .shared = l->shared.gate.rows ? &l->shared : NULL,
        .shared_gate = &l->shared_gate,
        .n_row = r->n_row,
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
    m->n_moe++;
    for (uint32_t i = 0; i < e.n_expert; i++)
        m->n_expert += e.first[i + 1] > e.first[i];
}

void sl_layer_mlp(struct sl_model *m, const struct sl_rows *r,
                  const struct sl_layer_w *w)
{
    if (w->dense)
        dense_mlp(m, r, &w->mlp);
    else
        experts(m, r, &w->moe);
}
