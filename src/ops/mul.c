/* ops/mul.c - matrix products; see mul.h
 *
 * A task is a run of output rows of one job, all its tokens. With one token the
 * weights are read once and the memory is the limit, so a task is a stretch of
 * weights long enough for the prefetcher and short enough to balance.
 */
#include "ops/mul.h"

#define TASK_BYTES (128u << 10) /* of weights; chosen, not measured */
#define MIN_ROWS 32             /* four groups hide the latency of a chain */
#define MAX_ROWS 1024

struct ctx {
    const struct sl_run *r;
    const struct sl_mul_job *jobs;
    size_t n;
};

/* Rows of one task of this matrix, a multiple of the group. */
static size_t task_rows(const struct sl_mat *w)
{
    size_t row_bytes = sl_dtype_bytes(w->type, w->cols);
    size_t rows = TASK_BYTES / sl_max(row_bytes, 1) / MIN_ROWS * MIN_ROWS;

    return sl_min(sl_max(rows, MIN_ROWS), MAX_ROWS);
}

static size_t n_tasks(const struct sl_mul_job *j)
{
    size_t step = task_rows(j->w);

    return j->n_tok ? (j->w->rows + step - 1) / step : 0;
}

/* The last job whose first task is <= i. */
static const struct sl_mul_job *find_job(const struct ctx *c, size_t i)
{
    size_t lo = 0, hi = c->n;

    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;

        if (c->jobs[mid].first_task <= i)
            lo = mid;
        else
            hi = mid;
    }
    return &c->jobs[lo];
}

static void mul_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;
    const struct sl_mul_job *j = find_job(c, i);
    const struct sl_mat *w = j->w;
    size_t step = task_rows(w), row = (i - j->first_task) * step;
    size_t rows = sl_min(step, w->rows - row);
    const unsigned char *p = w->w;
    size_t blocks = (w->cols + SL_FP8_BLOCK - 1) / SL_FP8_BLOCK;
    const float *scale =
        w->scale ? w->scale + row / SL_GROUP * blocks : NULL;

    (void)worker;
    p += sl_dtype_bytes(w->type, row * w->cols);
    c->r->kern->mul[w->type](j->y + row, j->ldy, p, scale, j->x, j->ldx,
                             j->n_tok, rows, w->cols);
}

void sl_mul_run(const struct sl_run *r, struct sl_mul_job *jobs, size_t n)
{
    struct ctx c = {.r = r, .jobs = jobs, .n = n};
    size_t total = 0;

    for (size_t i = 0; i < n; i++) {
        SL_ASSERT(r->kern->mul[jobs[i].w->type]);
        jobs[i].first_task = total;
        total += n_tasks(&jobs[i]);
    }
    if (total > 0)
        sl_pool_run(r->pool, mul_task, &c, total);
}

void sl_mul_one(const struct sl_run *r, float *y, const struct sl_mat *w,
                const float *x, size_t n_tok)
{
    struct sl_mul_job j = {
        .w = w, .ldx = w->cols, .n_tok = n_tok, .y = y, .ldy = w->rows};

    j.x = r->gather(r->gather_ctx, x, n_tok, w->cols);
    sl_mul_run(r, &j, 1);
}

void sl_embed(const struct sl_run *r, float *y, const struct sl_mat *w,
              const int32_t *ids, size_t n_tok)
{
    for (size_t t = 0; t < n_tok; t++) {
        SL_ASSERT(ids[t] >= 0 && (uint32_t)ids[t] < w->rows);
        r->kern->row[w->type](y + t * w->cols, w->w, w->scale, (size_t)ids[t],
                              w->cols);
    }
}
