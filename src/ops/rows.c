/* ops/rows.c - operations on each row by itself; see rows.h
 *
 * A task is as many rows as are worth handing to another worker: the few of a
 * step that verifies drafts are one task, which the caller runs itself.
 */
#include "ops/rows.h"

/* Numbers of a task at least; an exponential counts for four of them. A region
 * costs a microsecond or two. Chosen. */
#define TASK_NUMBERS 4096

struct ctx {
    const struct sl_kern *kern;
    float *y;
    const float *x, *w;
    size_t n, n_tok;
    size_t rows; /* of a task */
    float eps;
};

/* Rows first to before *end are task i. */
static size_t task_of(const struct ctx *c, size_t i, size_t *end)
{
    *end = sl_min((i + 1) * c->rows, c->n_tok);
    return i * c->rows;
}

static void run(const struct sl_run *r, struct ctx *c, sl_task_fn *task,
                size_t weight)
{
    c->rows = sl_max(TASK_NUMBERS / sl_max(c->n * weight, 1), 1);
    sl_pool_run(r->pool, task, c, (c->n_tok + c->rows - 1) / c->rows);
}

static void rmsnorm_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;
    size_t end, t = task_of(c, i, &end);

    (void)worker;
    for (; t < end; t++)
        c->kern->rmsnorm(c->y + t * c->n, c->x + t * c->n, c->w, c->n, c->eps);
}

void sl_rmsnorm(const struct sl_run *r, float *y, const float *x,
                const float *w, size_t n_tok, size_t n, float eps)
{
    struct ctx c = {.kern = r->kern,
                    .y = y,
                    .x = x,
                    .w = w,
                    .n = n,
                    .n_tok = n_tok,
                    .eps = eps};

    run(r, &c, rmsnorm_task, 1);
}

static void add_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;
    size_t end, t = task_of(c, i, &end);

    (void)worker;
    c->kern->add(c->y + t * c->n, c->x + t * c->n, (end - t) * c->n);
}

void sl_add(const struct sl_run *r, float *x, const float *y, size_t n_tok,
            size_t n)
{
    struct ctx c = {.kern = r->kern, .y = x, .x = y, .n = n, .n_tok = n_tok};

    run(r, &c, add_task, 1);
}

static void silu_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;
    size_t end, t = task_of(c, i, &end);
    float *g = c->y + t * c->n;

    (void)worker;
    c->kern->silu_mul(g, g, c->x + t * c->n, (end - t) * c->n);
}

void sl_silu_mul(const struct sl_run *r, float *g, const float *u,
                 size_t n_tok, size_t n)
{
    struct ctx c = {.kern = r->kern, .y = g, .x = u, .n = n, .n_tok = n_tok};

    run(r, &c, silu_task, 4);
}
