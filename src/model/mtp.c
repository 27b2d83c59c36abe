/* model/mtp.c - the draft head that comes with the model; see mtp.h
 *
 *     x = fc [ norm_e(embed[token]) | norm_h(hidden) ]
 *     x = x + attention(norm(x));  x = x + mlp(norm(x))
 *     y = norm(x);  logits = head y
 */
#include "model/mtp.h"

#include "model/layers.h"
#include "ops/mul.h"
#include "ops/rows.h"

/* pair = norm_e(embed[token]), norm_h(hidden), side by side. */
static void pair_up(struct sl_model *m, const struct sl_mtp_step *s)
{
    const struct sl_conf *c = m->c;
    const struct sl_mtp_w *w = &m->w->mtp;
    size_t h = c->hidden;

    sl_embed(&m->run, m->work.x, &m->w->embed, s->tok, s->n_row);
    sl_rmsnorm(&m->run, m->work.x, m->work.x, w->norm_embed, s->n_row, h,
               c->eps);
    sl_rmsnorm(&m->run, m->work.y, s->hidden, w->norm_hidden, s->n_row, h,
               c->eps);
    for (size_t i = 0; i < s->n_row; i++) {
        float *to = m->work.pair + i * 2 * h;

        memcpy(to, m->work.x + i * h, h * sizeof(*to));
        memcpy(to + h, m->work.y + i * h, h * sizeof(*to));
    }
}

static void place_rows(struct sl_model *m, const struct sl_mtp_step *s)
{
    uint32_t row = 0;

    for (uint32_t i = 0; i < s->n_seq; i++) {
        SL_ASSERT(s->pos[i] + s->n[i] <= s->seq[i]->n_page * SL_KV_PAGE);
        m->work.attend_seq[i] = (struct sl_attend_seq){.row0 = row,
                                                       .n_row = s->n[i],
                                                       .pos0 = s->pos[i],
                                                       .first = s->seq[i]->from[SL_PLANE_MTP],
                                                       .page = s->seq[i]->page};
        for (uint32_t k = 0; k < s->n[i]; k++)
            m->work.seq_of_row[row++] = i;
    }
    SL_CHECK(row == s->n_row);
}

static void head(struct sl_model *m, struct sl_mtp_step *s, const float *y)
{
    size_t h = m->c->hidden;

    for (uint32_t i = 0; i < s->n_logit; i++)
        memcpy(m->work.last + i * h, y + s->logit_row[i] * h,
               h * sizeof(*y));
    sl_mul_one(&m->run, m->work.logits,
               s->head ? sl_draft_head_get(s->head) : &m->w->head,
               m->work.last, s->n_logit);
    s->logits = m->work.logits;
}

void sl_mtp_forward(struct sl_model *m, struct sl_mtp_step *s)
{
    const struct sl_conf *c = m->c;
    const struct sl_mtp_w *w = &m->w->mtp;
    struct sl_work *k = &m->work;
    struct sl_rows r = {.n_row = s->n_row, .n_seq = s->n_seq};

    SL_CHECK(m->w->has_mtp && s->n_row <= m->opts.max_row &&
             s->n_seq <= m->opts.max_seq && s->n_logit <= m->opts.max_logit);
    if (s->n_row == 0)
        return;
    r.kv = s->seq[0]->mem->kv;
    pair_up(m, s);
    place_rows(m, s);
    sl_mul_one(&m->run, k->x, &w->fc, k->pair, s->n_row);

    sl_rmsnorm(&m->run, k->h, k->x, w->layer.in_norm, s->n_row, c->hidden,
               c->eps);
    sl_layer_attention(m, &r, &w->layer.attn, SL_PLANE_MTP, 0);
    sl_add(&m->run, k->x, k->y, s->n_row, c->hidden);
    sl_rmsnorm(&m->run, k->h, k->x, w->layer.post_norm, s->n_row, c->hidden,
               c->eps);
    sl_layer_mlp(m, &r, &w->layer);
    sl_add(&m->run, k->x, k->y, s->n_row, c->hidden);

    sl_rmsnorm(&m->run, k->h, k->x, w->norm, s->n_row, c->hidden, c->eps);
    head(m, s, k->h);
    if (s->y)
        memcpy(s->y, k->h, (size_t)s->n_row * c->hidden * sizeof(*s->y));
}
