/* model/qwen35.c - the Qwen3.5 / 3.6 / 3.8 network; see qwen35.h
 *
 *     x = embed[token]
 *     for each layer:
 *         x = x + mixer(norm(x))       three DeltaNet layers, then attention
 *         x = x + mlp(norm(x))         gated MLP, or experts
 *     logits = head norm(x)
 *
 * The residual x is fp32, as is every activation (D2). The sublayers are in
 * layers.c, the work space in work.c.
 */
#include "model/qwen35.h"

#include "base/mem.h"
#include "kern/math.h"
#include "model/layers.h"
#include "ops/mul.h"
#include "ops/rows.h"

/* Lay the rows out: which sequence each belongs to, and from which position. */
static void place_rows(struct sl_model *m, const struct sl_step *s)
{
    struct sl_work *w = &m->work;
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

float *sl_head(struct sl_model *m, const uint32_t *row, uint32_t n)
{
    const struct sl_conf *c = m->c;
    struct sl_work *w = &m->work;

    SL_CHECK(n <= m->opts.max_logit);
    for (uint32_t i = 0; i < n; i++)
        memcpy(w->last + (size_t)i * c->hidden,
               w->x + (size_t)row[i] * c->hidden, c->hidden * sizeof(*w->last));
    sl_rmsnorm(&m->run, w->last, w->last, m->w->norm, n, c->hidden, c->eps);
    sl_mul_one(&m->run, w->logits, &m->w->head, w->last, n);
    return w->logits;
}

/* The DeltaNet layer number `i_lin`, with the states of the step's sequences. */
static void delta_net(struct sl_model *m, const struct sl_step *s,
                      const struct sl_rows *r, const struct sl_lin_w *w,
                      uint32_t i_lin)
{
    for (uint32_t i = 0; i < s->n_seq; i++)
        sl_rec_view(s->seq[i]->mem->rec, &s->seq[i]->rec, i_lin,
                    &m->work.delta_seq[i]);
    sl_layer_delta(m, r, w);
}

void sl_forward(struct sl_model *m, struct sl_step *s)
{
    const struct sl_conf *c = m->c;
    struct sl_rows r = {.n_row = s->n_row, .n_seq = s->n_seq};
    struct sl_work *w = &m->work;
    uint32_t n_lin = 0, n_full = 0;

    SL_CHECK(s->n_row <= m->opts.max_row && s->n_seq <= m->opts.max_seq &&
             s->n_logit <= m->opts.max_logit);
    if (s->n_seq == 0)
        return;
    m->n_moe = m->n_expert = 0;
    r.kv = s->seq[0]->mem->kv;
    place_rows(m, s);
    sl_embed(&m->run, w->x, &m->w->embed, s->tok, s->n_row);
    for (uint32_t i = 0; i < c->n_layer; i++) {
        const struct sl_layer_w *l = &m->w->layer[i];

        sl_rmsnorm(&m->run, w->h, w->x, l->in_norm, s->n_row, c->hidden,
                   c->eps);
        if (l->kind == SL_LAYER_FULL)
            sl_layer_attention(m, &r, &l->attn, SL_PLANE_TARGET, n_full++);
        else
            delta_net(m, s, &r, &l->lin, n_lin++);
        sl_add(&m->run, w->x, w->y, s->n_row, c->hidden);

        sl_rmsnorm(&m->run, w->h, w->x, l->post_norm, s->n_row, c->hidden,
                   c->eps);
        sl_layer_mlp(m, &r, l);
        sl_add(&m->run, w->x, w->y, s->n_row, c->hidden);
        put_taps(m, s, i);
    }
    if (s->hidden)
        sl_rmsnorm(&m->run, s->hidden, w->x, m->w->norm, s->n_row, c->hidden,
                   c->eps);
    s->logits = sl_head(m, s->logit_row, s->n_logit);
}

double sl_model_experts(const struct sl_model *m)
{
    return m->n_moe > 0 ? (double)m->n_expert / m->n_moe : 0;
}

int sl_model_open(struct sl_model **out, const struct sl_weights *weights,
                  struct sl_pool *pool, const struct sl_kern *kern,
                  const struct sl_model_opts *opts, struct sl_err *err)
{
    struct sl_model *m = NULL;
    unsigned n_thread = sl_pool_n_thread(pool);
    int rc = sl_mem_alloc(&m, 1, sizeof(*m), "the model", err);

    if (rc)
        return rc;
    m->w = weights;
    m->mtp = &weights->mtp;
    m->c = &weights->conf;
    m->opts = *opts;
    sl_run_init(&m->run, pool, kern);
    m->run.watch = opts->watch;
    m->run.watch_ctx = opts->watch_ctx;
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
    sl_work_cut(m, n_thread);
    *out = m;
    return 0;
}

void sl_model_set_mtp(struct sl_model *m, const struct sl_mtp_w *mtp)
{
    m->mtp = mtp;
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

uint32_t sl_model_planes(const struct sl_conf *c, bool with_mtp,
                         struct sl_kv_plane planes[SL_MODEL_PLANES])
{
    planes[SL_PLANE_TARGET] = (struct sl_kv_plane){
        .n_layer = sl_conf_count(c, SL_LAYER_FULL),
        .n_head = c->n_kv_head,
        .dim = c->head_dim,
    };
    planes[SL_PLANE_MTP] = (struct sl_kv_plane){
        .n_layer = 1, .n_head = c->n_kv_head, .dim = c->head_dim};
    return with_mtp ? 2 : 1;
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
