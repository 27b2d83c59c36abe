/* ops/rows.c - operations on each row by itself; see rows.h */
#include "ops/rows.h"

struct ctx {
    const struct sl_kern *kern;
    float *y;
    const float *x, *w;
    size_t n;
    float eps;
};

static void rmsnorm_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;

    (void)worker;
    c->kern->rmsnorm(c->y + i * c->n, c->x + i * c->n, c->w, c->n, c->eps);
}

void sl_rmsnorm(const struct sl_run *r, float *y, const float *x,
                const float *w, size_t n_tok, size_t n, float eps)
{
    struct ctx c = {
        .kern = r->kern, .y = y, .x = x, .w = w, .n = n, .eps = eps};

    sl_pool_run(r->pool, rmsnorm_task, &c, n_tok);
}

static void add_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;

    (void)worker;
    c->kern->add(c->y + i * c->n, c->x + i * c->n, c->n);
}

void sl_add(const struct sl_run *r, float *x, const float *y, size_t n_tok,
            size_t n)
{
    struct ctx c = {.kern = r->kern, .y = x, .x = y, .n = n};

    sl_pool_run(r->pool, add_task, &c, n_tok);
}

static void silu_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;
    float *g = c->y + i * c->n;

    (void)worker;
    c->kern->silu_mul(g, g, c->x + i * c->n, c->n);
}

void sl_silu_mul(const struct sl_run *r, float *g, const float *u,
                 size_t n_tok, size_t n)
{
    struct ctx c = {.kern = r->kern, .y = g, .x = u, .n = n};

    sl_pool_run(r->pool, silu_task, &c, n_tok);
}
