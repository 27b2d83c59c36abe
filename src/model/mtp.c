/* model/mtp.c - the draft head that comes with the model; see mtp.h
 *
 *     x = fc [ norm_e(embed[token]) | norm_h(hidden) ]
 *     x = x + attention(norm(x));  x = x + mlp(norm(x))
 *     y = norm(x);  logits = head y
 *
 * As there is one layer, a row that is only to be remembered leaves it after its
 * key and value: about a quarter of the products.
 */
#include "model/mtp.h"

#include "model/layers.h"
#include "ops/mul.h"
#include "ops/rows.h"

/* pair = norm_e(embed[token]), norm_h(hidden), side by side. */
static void pair_up(struct sl_model *m, const struct sl_mtp_step *s)
{
    const struct sl_conf *c = m->c;
    const struct sl_mtp_w *w = m->mtp;
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

/* Sequence i has n rows from position pos on, behind those that were placed. */
static void place_seq(struct sl_model *m, const struct sl_mtp_step *s,
                      uint32_t i, uint32_t *row, uint32_t n, uint32_t pos)
{
    SL_ASSERT(pos + n <= s->seq[i]->n_page * SL_KV_PAGE);
    m->work.attend_seq[i] =
        (struct sl_attend_seq){.row0 = *row,
                               .n_row = n,
                               .pos0 = pos,
                               .first = s->seq[i]->from[SL_PLANE_MTP],
                               .page = s->seq[i]->page};
    for (uint32_t k = 0; k < n; k++)
        m->work.seq_of_row[(*row)++] = i;
}

static void place_all(struct sl_model *m, const struct sl_mtp_step *s)
{
    uint32_t row = 0;

    for (uint32_t i = 0; i < s->n_seq; i++)
        place_seq(m, s, i, &row, s->n[i], s->pos[i]);
    SL_CHECK(row == s->n_row);
}

/* Those with logits: the last ones of each sequence. */
static void place_asked(struct sl_model *m, const struct sl_mtp_step *s)
{
    uint32_t row = 0, end = 0;

    for (uint32_t i = 0, k = 0; i < s->n_seq; i++) {
        uint32_t n = 0;

        end += s->n[i];
        for (; k < s->n_logit && s->logit_row[k] < end; k++)
            n++;
        SL_ASSERT(n == 0 || s->logit_row[k - n] == end - n);
        place_seq(m, s, i, &row, n, s->pos[i] + s->n[i] - n);
    }
    SL_CHECK(row == s->n_logit);
}

/* The rows with logits, side by side. */
static void pick(float *to, const float *from, const struct sl_mtp_step *s,
                 size_t h)
{
    for (uint32_t i = 0; i < s->n_logit; i++)
        memmove(to + i * h, from + s->logit_row[i] * h, h * sizeof(*to));
}

/* The rest of the layer, and the head, for the rows with logits: their residual
 * is in x. */
static void answer(struct sl_model *m, struct sl_mtp_step *s)
{
    const struct sl_conf *c = m->c;
    const struct sl_mtp_w *w = m->mtp;
    struct sl_work *k = &m->work;
    struct sl_rows r = {.n_row = s->n_logit,
                        .n_seq = s->n_seq,
                        .kv = s->seq[0]->mem->kv};

    place_asked(m, s);
    sl_layer_asked(m, &r, &w->layer.attn, SL_PLANE_MTP, 0);
    sl_add(&m->run, k->x, k->y, r.n_row, c->hidden);
    sl_rmsnorm(&m->run, k->h, k->x, w->layer.post_norm, r.n_row, c->hidden,
               c->eps);
    sl_layer_mlp(m, &r, &w->layer);
    sl_add(&m->run, k->x, k->y, r.n_row, c->hidden);

    sl_rmsnorm(&m->run, k->last, k->x, w->norm, r.n_row, c->hidden, c->eps);
    sl_mul_one(&m->run, k->logits,
               s->head ? sl_draft_head_get(s->head) : &m->w->head, k->last,
               r.n_row);
    s->logits = k->logits;
    if (s->y)
        memcpy(s->y, k->last, (size_t)r.n_row * c->hidden * sizeof(*s->y));
}

void sl_mtp_forward(struct sl_model *m, struct sl_mtp_step *s)
{
    const struct sl_conf *c = m->c;
    const struct sl_mtp_w *w = m->mtp;
    struct sl_work *k = &m->work;
    struct sl_rows r = {.n_row = s->n_row, .n_seq = s->n_seq};

    SL_CHECK(m->w->has_mtp && s->n_row <= m->opts.max_row &&
             s->n_seq <= m->opts.max_seq && s->n_logit <= m->opts.max_logit);
    if (s->n_row == 0)
        return;
    r.kv = s->seq[0]->mem->kv;
    pair_up(m, s);
    place_all(m, s);
    sl_mul_one(&m->run, k->x, &w->fc, k->pair, s->n_row);
    sl_rmsnorm(&m->run, k->h, k->x, w->layer.in_norm, s->n_row, c->hidden,
               c->eps);
    pick(k->pair, k->h, s, c->hidden);
    pick(k->x, k->x, s, c->hidden);
    sl_layer_keys(m, &r, &w->layer.attn, SL_PLANE_MTP, 0, k->pair, s->n_logit);
    if (s->n_logit > 0)
        answer(m, s);
}
