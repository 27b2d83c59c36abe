/* ops/moe.c - mixture of experts; see moe.h
 *
 * Rows are sorted by expert (counting sort), so that each expert is one matrix
 * product over its rows, and all experts of a step are one flat list of tiles.
 * Each (row, rank) pair has a place of its own in the output, and a row sums
 * its places in rank order: no atomics, and the same bits however the rows are
 * grouped.
 */
#include "ops/moe.h"

#include <math.h>

#include "kern/math.h"
#include "ops/mul.h"

struct ctx {
    const struct sl_kern *kern;
    const struct sl_moe *m;
    size_t hidden, width; /* width: of an expert */
};

/* Insert (value, id) into the falling list of n picks; NaN loses. */
static void insert_pick(uint32_t *pick, const float *logit, size_t n,
                        uint32_t id)
{
    size_t i = n;

    for (; i > 0 && logit[id] > logit[pick[i - 1]]; i--)
        pick[i] = pick[i - 1];
    pick[i] = id;
}

static void route_row(const struct sl_moe *m, size_t row)
{
    const float *logit = m->logit + row * m->n_expert;
    uint32_t *pick = m->pick + row * m->n_used;
    float *w = m->weight + row * m->n_used, sum = 0;

    for (uint32_t e = 0; e < m->n_expert; e++) {
        if (e < m->n_used)
            insert_pick(pick, logit, e, e);
        else if (logit[e] > logit[pick[m->n_used - 1]])
            insert_pick(pick, logit, m->n_used - 1, e);
    }
    for (uint32_t i = 0; i < m->n_used; i++) {
        w[i] = sl_exp(logit[pick[i]] - logit[pick[0]]);
        sum += w[i];
    }
    for (uint32_t i = 0; i < m->n_used; i++)
        w[i] /= sum;
}

static void route_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;

    (void)worker;
    route_row(c->m, i);
}

/* Count the rows of each expert and give every pick its slot. */
static void assign_slots(const struct sl_moe *m)
{
    size_t n = m->n_row * m->n_used;

    memset(m->first, 0, (m->n_expert + 1) * sizeof(*m->first));
    for (size_t i = 0; i < n; i++)
        m->first[m->pick[i] + 1]++;
    for (uint32_t e = 0; e < m->n_expert; e++)
        m->first[e + 1] += m->first[e];
    for (size_t i = 0; i < n; i++)
        m->slot[i] = m->first[m->pick[i]]++;
    /* first[e] is now where e + 1 begins. */
    for (uint32_t e = m->n_expert; e > 0; e--)
        m->first[e] = m->first[e - 1];
    m->first[0] = 0;
}

static void gather_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;
    const struct sl_moe *m = c->m;

    (void)worker;
    memcpy(m->xs + m->slot[i] * c->hidden, m->x + i / m->n_used * c->hidden,
           c->hidden * sizeof(*m->xs));
}

/* The products of one expert over its slots, if it has any. */
static size_t add_up_jobs(const struct ctx *c, size_t n, uint32_t e)
{
    const struct sl_moe *m = c->m;
    size_t at = m->first[e];
    struct sl_mul_job j = {.x = m->xs + at * c->hidden,
                           .ldx = c->hidden,
                           .n_tok = m->first[e + 1] - at,
                           .ldy = c->width};

    if (j.n_tok == 0)
        return n;
    j.w = &m->expert[e].gate;
    j.y = m->gate + at * c->width;
    m->job[n++] = j;
    j.w = &m->expert[e].up;
    j.y = m->up + at * c->width;
    m->job[n++] = j;
    return n;
}

static size_t add_down_job(const struct ctx *c, size_t n, uint32_t e,
                           const float *gate)
{
    const struct sl_moe *m = c->m;
    size_t at = m->first[e];

    if (m->first[e + 1] == at)
        return n;
    m->job[n++] = (struct sl_mul_job){.w = &m->expert[e].down,
                                      .x = gate + at * c->width,
                                      .ldx = c->width,
                                      .n_tok = m->first[e + 1] - at,
                                      .y = m->ys + at * c->hidden,
                                      .ldy = c->hidden};
    return n;
}

static struct sl_mul_job packed(const struct sl_mat *w, const float *x,
                                size_t n_tok, float *y)
{
    return (struct sl_mul_job){.w = w,
                               .x = x,
                               .ldx = w->cols,
                               .n_tok = n_tok,
                               .y = y,
                               .ldy = w->rows};
}

static void silu_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;
    const struct sl_moe *m = c->m;
    size_t n = m->n_row * m->n_used;
    float *g = m->gate + i * c->width;

    (void)worker;
    if (i < n) {
        c->kern->silu_mul(g, g, m->up + i * c->width, c->width);
    } else {
        size_t width = m->shared->gate.rows;

        g = m->sg + (i - n) * width;
        c->kern->silu_mul(g, g, m->su + (i - n) * width, width);
    }
}

static void combine_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;
    const struct sl_moe *m = c->m;
    float *y = m->y + i * c->hidden;

    (void)worker;
    memset(y, 0, c->hidden * sizeof(*y));
    for (uint32_t k = 0; k < m->n_used; k++)
        c->kern->axpy(y, m->weight[i * m->n_used + k],
                      m->ys + m->slot[i * m->n_used + k] * c->hidden,
                      c->hidden);
    if (m->shared)
        c->kern->axpy(y, sl_sigmoid(m->shared_gate_y[i]),
                      m->sy + i * c->hidden, c->hidden);
}

void sl_moe_run(const struct sl_run *r, const struct sl_moe *m)
{
    size_t n = 0, picks = m->n_row * m->n_used;
    struct ctx c = {.kern = r->kern,
                    .m = m,
                    .hidden = m->router->cols,
                    .width = m->expert[0].gate.rows};
    const float *gate;

    m->job[n++] = packed(m->router, m->x, m->n_row, m->logit);
    if (m->shared) {
        m->job[n++] =
            packed(m->shared_gate, m->x, m->n_row, m->shared_gate_y);
        m->job[n++] = packed(&m->shared->gate, m->x, m->n_row, m->sg);
        m->job[n++] = packed(&m->shared->up, m->x, m->n_row, m->su);
    }
    sl_mul_run(r, m->job, n);
    sl_pool_run(r->pool, route_task, &c, m->n_row);
    assign_slots(m);
    sl_pool_run(r->pool, gather_task, &c, picks);

    n = 0;
    for (uint32_t e = 0; e < m->n_expert; e++)
        n = add_up_jobs(&c, n, e);
    sl_mul_run(r, m->job, n);
    sl_pool_run(r->pool, silu_task, &c, picks + (m->shared ? m->n_row : 0));

    n = 0;
    gate = r->gather(r->gather_ctx, m->gate, picks, c.width);
    for (uint32_t e = 0; e < m->n_expert; e++)
        n = add_down_job(&c, n, e, gate);
    if (m->shared)
        m->job[n++] = packed(&m->shared->down, m->sg, m->n_row, m->sy);
    sl_mul_run(r, m->job, n);
    sl_pool_run(r->pool, combine_task, &c, m->n_row);
}
