/* ops/delta.c - the gated delta rule over the rows of a step; see delta.h
 *
 * Three parallel regions:
 *   prepare  (rows x heads)   convolution, norms of q and k, gates, k . q; what
 *                             redoes the tentative rows is saved
 *   visit    (sequences x value heads x tiles of 16 columns)   the recurrence
 *   finish   (rows, then sequences)   gated norm; the conv inputs to keep
 *
 * The conv inputs of dst may replace those of src, which prepare still reads:
 * that is why they move only in the last region.
 */
#include "ops/delta.h"

#include <math.h>

#define ROWS_PER_TASK 8 /* of prepare; chosen, not measured */
#define TASKS_PER_THREAD 4 /* of prepare, at least; chosen, not measured */
#define MAX_KEY_DIM 256

static const float zero_tile[MAX_KEY_DIM * SL_TILE];

struct ctx {
    const struct sl_kern *kern;
    const struct sl_delta *d;
    size_t conv_dim, n_row_task, n_slab, n_part, n_tile;
};

/* What the convolution gives. The query and the key of a head side by side, all
 * rows of a head behind each other, as a visit reads them for tile after tile:
 * [n_key][n_row][2][key_dim]; then the values, [n_row][n_val * val_dim]. */
static float *key_at(const struct sl_delta *d, size_t row, size_t h)
{
    return d->c + (h * d->n_row + row) * 2 * d->key_dim;
}

static float *val_at(const struct sl_delta *d, size_t row, size_t col)
{
    return key_at(d, 0, d->n_key) + row * d->n_val * d->val_dim + col;
}

/* The conv input of the i-th row of the step's rows of q (i may be negative:
 * pending rows and then the kept ones); NULL is zeros. */
static const float *conv_in(const struct ctx *c, const struct sl_delta_seq *q,
                            ptrdiff_t i)
{
    size_t dim = c->conv_dim;

    if (i >= 0)
        return c->d->u + (q->row0 + (size_t)i) * dim;
    i += (ptrdiff_t)q->n_pend;
    if (i >= 0)
        return q->pend_u + (size_t)i * dim;
    i += SL_CONV_PAST;
    SL_ASSERT(i >= 0);
    return q->src_conv ? q->src_conv + (size_t)i * dim : NULL;
}

/* Convolve the head at channels [ch, ch + n) of one row. */
static void convolve(float *out, const struct ctx *c,
                     const struct sl_delta_seq *q, size_t row, size_t ch,
                     size_t n)
{
    static const float zeros[MAX_KEY_DIM];
    const struct sl_delta *d = c->d;
    ptrdiff_t i = (ptrdiff_t)(row - q->row0);
    const float *u[SL_CONV_PAST + 1];

    for (int t = 0; t <= SL_CONV_PAST; t++) {
        const float *p = conv_in(c, q, i - SL_CONV_PAST + t);

        u[t] = p ? p + ch : zeros;
    }
    c->kern->conv(out, u[0], u[1], u[2], u[3],
                  d->conv_w + (SL_CONV_PAST + 1) * ch, n);
}

/* Tentative row number of `row`, or -1 for a firm one. */
static ptrdiff_t tent_of(const struct sl_delta_seq *q, size_t row)
{
    size_t i = row - q->row0;

    return i < q->n_firm ? -1 : (ptrdiff_t)(i - q->n_firm);
}

static void prepare_key(const struct ctx *c, const struct sl_delta_seq *q,
                        size_t row, size_t h)
{
    const struct sl_delta *d = c->d;
    size_t kd = d->key_dim, all = d->n_key * kd;
    float *cq = key_at(d, row, h), *ck = cq + kd;
    ptrdiff_t t = tent_of(q, row);

    convolve(cq, c, q, row, h * kd, kd);
    convolve(ck, c, q, row, all + h * kd, kd);
    c->kern->l2norm(cq, cq, kd, 1.0f / sqrtf((float)kd));
    c->kern->l2norm(ck, ck, kd, 1.0f);
    d->kq[row * d->n_key + h] = c->kern->dot(ck, cq, kd);
    if (t >= 0)
        memcpy(q->tent_k + (size_t)t * all + h * kd, ck, kd * sizeof(*ck));
}

static void prepare_value(const struct ctx *c, const struct sl_delta_seq *q,
                          size_t row, size_t h)
{
    const struct sl_delta *d = c->d;
    size_t col = h * d->val_dim;

    convolve(val_at(d, row, col), c, q, row,
             2 * (size_t)d->n_key * d->key_dim + col, d->val_dim);
}

static void prepare_gates(const struct ctx *c, const struct sl_delta_seq *q,
                          size_t row)
{
    const struct sl_delta *d = c->d;
    size_t at = row * d->n_val, bytes = d->n_val * sizeof(float);
    ptrdiff_t t = tent_of(q, row);

    c->kern->gdn_gates(d->decay + at, d->beta + at, d->a + at, d->b + at,
                       d->a_neg, d->dt, d->n_val);
    if (t < 0)
        return;
    memcpy(q->tent_decay + (size_t)t * d->n_val, d->decay + at, bytes);
    memcpy(q->tent_u + (size_t)t * c->conv_dim, d->u + row * c->conv_dim,
           c->conv_dim * sizeof(float));
}

/* Slabs of a row: the key heads (q and k), the value heads, the gates. */
static void prepare_slab(const struct ctx *c, const struct sl_delta_seq *q,
                         size_t row, size_t slab)
{
    const struct sl_delta *d = c->d;

    if (slab < d->n_key)
        prepare_key(c, q, row, slab);
    else if (slab < d->n_key + d->n_val)
        prepare_value(c, q, row, slab - d->n_key);
    else
        prepare_gates(c, q, row);
}

/* Some rows, a part of the slabs of each. */
static void prepare_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;
    const struct sl_delta *d = c->d;
    size_t part = i % c->n_part, row = i / c->n_part * ROWS_PER_TASK;
    size_t end = sl_min(row + ROWS_PER_TASK, d->n_row);
    size_t first = part * c->n_slab / c->n_part;
    size_t last = (part + 1) * c->n_slab / c->n_part;

    (void)worker;
    for (; row < end; row++)
        for (size_t slab = first; slab < last; slab++)
            prepare_slab(c, &d->seq[d->seq_of_row[row]], row, slab);
}

static void visit_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;
    const struct sl_delta *d = c->d;
    size_t tile = i % c->n_tile, h = i / c->n_tile % d->n_val;
    const struct sl_delta_seq *q = &d->seq[i / c->n_tile / d->n_val];
    size_t kd = d->key_dim, kh = h % d->n_key, keys = d->n_key * kd;
    size_t vals = (size_t)d->n_val * d->val_dim;
    size_t col = h * d->val_dim + tile * SL_TILE;
    size_t at = (h * c->n_tile + tile) * kd * SL_TILE;
    const float *key = key_at(d, q->row0, kh);
    struct sl_gdn g = {
        .src = q->src_s ? q->src_s + at : zero_tile,
        .dst = q->dst_s + at,
        .dk = kd,
        .n_pend = q->n_pend,
        .ld_pend_k = keys,
        .ld_pend_d = vals,
        .ld_pend_decay = d->n_val,
        .n_firm = q->n_firm,
        .n_tent = q->n_tent,
        .q = key,
        .k = key + kd,
        .v = val_at(d, q->row0, col),
        .decay = d->decay + q->row0 * d->n_val + h,
        .beta = d->beta + q->row0 * d->n_val + h,
        .kq = d->kq + q->row0 * d->n_key + kh,
        .ld_k = 2 * kd,
        .ld_q = 2 * kd,
        .ld_v = vals,
        .ld_decay = d->n_val,
        .ld_beta = d->n_val,
        .ld_kq = d->n_key,
        .o = d->o + q->row0 * vals + col,
        .ld_o = vals,
        .ld_d = vals,
        .scratch = d->scratch + worker * kd * SL_TILE,
    };

    if (q->n_pend) {
        g.pend_k = q->pend_k + kh * kd;
        g.pend_d = q->pend_d + col;
        g.pend_decay = q->pend_decay + h;
    }
    if (q->n_tent)
        g.d_out = q->tent_d + col;
    c->kern->gdn(&g);
}

/* The last three inputs behind the firm rows. A row of src only ever moves
 * towards the front, so copying in rising order is safe in place. */
static void keep_conv(const struct ctx *c, const struct sl_delta_seq *q)
{
    for (ptrdiff_t j = 0; j < SL_CONV_PAST; j++) {
        const float *p =
            conv_in(c, q, (ptrdiff_t)q->n_firm - SL_CONV_PAST + j);
        float *to = q->dst_conv + (size_t)j * c->conv_dim;

        if (!p)
            memset(to, 0, c->conv_dim * sizeof(*to));
        else if (p != to)
            memcpy(to, p, c->conv_dim * sizeof(*to));
    }
}

static void finish_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;
    const struct sl_delta *d = c->d;
    sl_gatednorm_fn *norm = d->sigmoid_gate ? c->kern->gatednorm_sigmoid
                                            : c->kern->gatednorm_silu;
    size_t vd = d->val_dim;

    (void)worker;
    if (i >= d->n_row) {
        keep_conv(c, &d->seq[i - d->n_row]);
        return;
    }
    for (size_t h = 0; h < d->n_val; h++) {
        size_t at = (i * d->n_val + h) * vd;

        norm(d->o + at, d->o + at, d->z + at, d->norm, vd, d->eps);
    }
}

void sl_delta_run(const struct sl_run *r, const struct sl_delta *d)
{
    struct ctx c = {
        .kern = r->kern,
        .d = d,
        .conv_dim = sl_delta_conv_dim(d),
        .n_row_task = (d->n_row + ROWS_PER_TASK - 1) / ROWS_PER_TASK,
        .n_slab = (size_t)d->n_key + d->n_val + 1,
        .n_tile = d->val_dim / SL_TILE,
    };
    size_t n_want = TASKS_PER_THREAD * (size_t)sl_pool_n_thread(r->pool);

    SL_ASSERT(d->key_dim <= MAX_KEY_DIM && d->val_dim <= MAX_KEY_DIM);
    SL_ASSERT(d->val_dim % SL_TILE == 0);
    /* Of few rows each task has a part of the heads; of many each row is read
     * from end to end. */
    c.n_part = sl_min(c.n_slab, n_want / sl_max(c.n_row_task, 1) + 1);
    sl_pool_run(r->pool, prepare_task, &c, c.n_row_task * c.n_part);
    sl_pool_run(r->pool, visit_task, &c, d->n_seq * d->n_val * c.n_tile);
    sl_pool_run(r->pool, finish_task, &c, d->n_row + d->n_seq);
}
