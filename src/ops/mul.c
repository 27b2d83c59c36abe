/* ops/mul.c - matrix products; see mul.h
 *
 * A task is a run of output rows of one job, all its tokens. With one token the
 * weights are read once and the memory is the limit, so a task is a stretch of
 * weights long enough for the prefetcher and short enough to balance.
 *
 * Products with quantised weights take two regions: rows of inputs to int8,
 * then the products. Jobs with the same input (q, k, v; gate and up) follow each
 * other and share the converted rows.
 */
#include "ops/mul.h"

#include "kern/quant.h"

#define TASK_BYTES (128u << 10) /* of weights; chosen, not measured */
#define MIN_ROWS 32             /* four groups hide the latency of a chain */
#define MAX_ROWS 1024
#define TASKS 2         /* of a small matrix, for each worker. Chosen. */
#define ACT_NUMBERS 4096 /* of a task of inputs to int8, at least. Chosen. */

struct ctx {
    const struct sl_run *r;
    const struct sl_mul_job *jobs;
    size_t n;
    size_t act_rows, act_each; /* inputs to convert; of a task */
};

/* ---------------------------------------------------- inputs as int8 */

static bool is_quantised(const struct sl_run *r, const struct sl_mul_job *j)
{
    return r->kern->mulq[j->w->type] != NULL;
}

static bool same_input(const struct sl_mul_job *a, const struct sl_mul_job *b)
{
    return a->x == b->x && a->ldx == b->ldx && a->n_tok == b->n_tok &&
           a->w->cols == b->w->cols;
}

/* Give the input of every quantised job its place. n_act is the number of rows
 * it adds: none when the job before has the same. Returns all rows. */
static size_t place_inputs(const struct sl_run *r, struct sl_mul_job *jobs,
                           size_t n)
{
    const struct sl_act_space *a = &r->act;
    const struct sl_mul_job *last = NULL;
    size_t used = 0, rows = 0;

    for (size_t i = 0; i < n; i++) {
        struct sl_mul_job *j = &jobs[i];
        size_t cols = j->w->cols;

        j->first_act = rows;
        j->n_act = 0;
        if (!is_quantised(r, j))
            continue;
        if (last && same_input(last, j)) {
            j->q = last->q;
            continue;
        }
        j->q = (struct sl_qact){.q = a->q + used,
                                .scale = a->scale + used / SL_QBLOCK,
                                .sum = a->sum + used / (SL_QBLOCK / 2),
                                .ld = cols};
        j->n_act = j->n_tok;
        rows += j->n_tok;
        used += j->n_tok * cols;
        SL_CHECK(used <= a->n);
        last = j;
    }
    return rows;
}

static void act_row(const struct ctx *c, size_t i)
{
    const struct sl_act_space *a = &c->r->act;
    const struct sl_mul_job *j = c->jobs;
    size_t at;

    while (i >= j->first_act + j->n_act)
        j++;
    at = (size_t)(j->q.q - a->q) + (i - j->first_act) * j->q.ld;
    c->r->kern->quant_act(a->q + at, a->scale + at / SL_QBLOCK,
                          a->sum + at / (SL_QBLOCK / 2),
                          j->x + (i - j->first_act) * j->ldx, j->q.ld);
}

static void act_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;
    size_t end = sl_min((i + 1) * c->act_each, c->act_rows);

    (void)worker;
    for (size_t row = i * c->act_each; row < end; row++)
        act_row(c, row);
}

/* The few rows of a step that verifies drafts are one task, which the caller
 * runs itself: a region costs more than it saves. */
static void run_acts(struct ctx *c, size_t rows)
{
    c->act_rows = rows;
    c->act_each = sl_max(ACT_NUMBERS / sl_max(c->jobs->w->cols, 1), 1);
    sl_pool_run(c->r->pool, act_task, c,
                (rows + c->act_each - 1) / c->act_each);
}

/* -------------------------------------------------------- the products */

/* Rows of one task of this matrix, a multiple of the group. */
static size_t task_rows(const struct sl_run *r, const struct sl_mat *w)
{
    size_t row_bytes = sl_dtype_bytes(w->type, w->cols);
    size_t rows = TASK_BYTES / sl_max(row_bytes, 1) / MIN_ROWS * MIN_ROWS;
    size_t share = w->rows / (TASKS * sl_pool_n_thread(r->pool));

    rows = sl_min(rows, (share + MIN_ROWS - 1) / MIN_ROWS * MIN_ROWS);
    return sl_min(sl_max(rows, MIN_ROWS), MAX_ROWS);
}

static size_t n_tasks(const struct sl_run *r, const struct sl_mul_job *j)
{
    size_t step = task_rows(r, j->w);

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
    size_t step = task_rows(c->r, w), row = (i - j->first_task) * step;
    size_t rows = sl_min(step, w->rows - row);
    const unsigned char *p = w->w;
    size_t blocks = (w->cols + SL_FP8_BLOCK - 1) / SL_FP8_BLOCK;
    const float *scale =
        w->scale ? w->scale + row / SL_GROUP * blocks : NULL;

    (void)worker;
    p += sl_dtype_bytes(w->type, row * w->cols);
    if (is_quantised(c->r, j)) {
        c->r->kern->mulq[w->type](j->y + row, j->ldy, p, &j->q, j->n_tok, rows,
                                  w->cols);
        return;
    }
    c->r->kern->mul[w->type](j->y + row, j->ldy, p, scale, j->x, j->ldx,
                             j->n_tok, rows, w->cols);
}

void sl_mul_run(const struct sl_run *r, struct sl_mul_job *jobs, size_t n)
{
    struct ctx c = {.r = r, .jobs = jobs, .n = n};
    size_t total = 0, rows = place_inputs(r, jobs, n);

    for (size_t i = 0; r->watch && i < n; i++)
        r->watch(r->watch_ctx, jobs[i].w, jobs[i].x, jobs[i].ldx,
                 jobs[i].n_tok);
    run_acts(&c, rows);
    for (size_t i = 0; i < n; i++) {
        SL_ASSERT(is_quantised(r, &jobs[i]) || r->kern->mul[jobs[i].w->type]);
        jobs[i].first_task = total;
        total += n_tasks(r, &jobs[i]);
    }
    if (total > 0)
        sl_pool_run(r->pool, mul_task, &c, total);
}

void sl_mul_shared(const struct sl_run *r, struct sl_mul_job *jobs, size_t n,
                   const float *x, size_t n_tok)
{
    for (size_t i = 0; i < n; i++) {
        jobs[i].x = x;
        jobs[i].ldx = jobs[i].w->cols;
        jobs[i].n_tok = n_tok;
        jobs[i].ldy = jobs[i].w->rows;
    }
    sl_mul_run(r, jobs, n);
}

void sl_mul_one(const struct sl_run *r, float *y, const struct sl_mat *w,
                const float *x, size_t n_tok)
{
    struct sl_mul_job j = {.w = w, .y = y};

    sl_mul_shared(r, &j, 1, r->gather(r->gather_ctx, x, n_tok, w->cols), n_tok);
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
