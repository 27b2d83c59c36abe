/* ops/attend.c - grouped-query attention over pages; see attend.h
 *
 * A unit is up to sixteen rows of one sequence and one KV head: all query heads
 * of the group and all those rows share one pass over the keys. The pass goes
 * in blocks of 256 positions; each gives (m, l, o), and they are merged left to
 * right. Two ways to run a unit, the same bits:
 *
 *   direct   one task runs all blocks of a unit. Long prompts, many sequences.
 *   waves    one task per unit and block, then one per unit to merge; as many
 *            blocks at a time as there is space for. Few rows, long contexts.
 *
 * The key layout makes the scores of sixteen positions one vector, so nothing
 * is added across lanes but the sum of weights (kern.h, sl_attn_fn).
 */
#include "ops/attend.h"

#include <math.h>

#define MAX_GROUP 64   /* query heads per KV head; model/conf.c refuses more */
#define MAX_HALF 128   /* rotated pairs */
#define ROWS_PER_TASK 8 /* of prepare; chosen, not measured */

struct ctx {
    const struct sl_kern *kern;
    const struct sl_attend *a;
    size_t group, n_unit, n_block, wave, wave0;
};

struct unit {
    const struct sl_attend_seq *seq;
    size_t row0, n_row; /* rows of the step */
    size_t kv;          /* KV head */
    size_t block0, n_block;
};

static size_t chunks(const struct sl_attend_seq *q)
{
    return (q->n_row + SL_ATTEND_ROWS - 1) / SL_ATTEND_ROWS;
}

static size_t blocks(uint64_t n_pos)
{
    return (size_t)((n_pos + SL_KV_BLOCK - 1) / SL_KV_BLOCK);
}

/* Positions that the row number `i` of a sequence sees: from first_seen to
 * before end_seen. */
static uint64_t end_seen(const struct sl_attend *a,
                         const struct sl_attend_seq *q, size_t i)
{
    return q->pos0 + (a->is_block ? q->n_row : i + 1);
}

static uint64_t first_seen(const struct sl_attend *a,
                           const struct sl_attend_seq *q, size_t i)
{
    uint64_t pos = q->pos0 + i;

    if (a->window == 0 || pos + 1 <= q->first + a->window)
        return q->first;
    return pos + 1 - a->window;
}

static struct unit get_unit(const struct ctx *c, size_t i)
{
    const struct sl_attend *a = c->a;
    const struct sl_attend_seq *q = a->seq;
    struct unit u = {.kv = i % a->n_kv_head};
    size_t chunk = i / a->n_kv_head, first;

    for (; chunk >= chunks(q); q++)
        chunk -= chunks(q);
    first = chunk * SL_ATTEND_ROWS;
    u.seq = q;
    u.row0 = q->row0 + first;
    u.n_row = sl_min(SL_ATTEND_ROWS, q->n_row - first);
    u.n_block = blocks(end_seen(a, q, first + u.n_row - 1));
    u.block0 = (size_t)(first_seen(a, q, first) / SL_KV_BLOCK);
    return u;
}

static unsigned char *page_of(const struct sl_attend *a,
                              const struct sl_attend_seq *q, uint64_t pos,
                              size_t kv)
{
    return a->base + q->page[pos / SL_KV_PAGE] * a->page_bytes +
           kv * a->head_bytes;
}

/* Norm and rotate the keys and queries of one row; put its key and value. */
static void prepare_row(const struct ctx *c, size_t row)
{
    const struct sl_attend *a = c->a;
    const struct sl_attend_seq *q = &a->seq[a->seq_of_row[row]];
    uint64_t pos = q->pos0 + (row - q->row0);
    size_t dim = a->head_dim, half = a->rot_dim / 2;
    float ang[MAX_HALF], s[MAX_HALF], cs[MAX_HALF];

    for (size_t i = 0; i < half; i++)
        ang[i] = (float)pos * a->inv_freq[i];
    c->kern->sincos(s, cs, ang, half);
    for (size_t h = 0; h < a->n_head; h++) {
        const float *from =
            a->qg + (row * a->n_head + h) * (a->no_gate ? 1 : 2) * dim;
        size_t kv = h / c->group, g = h % c->group;
        float *to = a->q + ((kv * a->n_row + row) * c->group + g) * dim;

        c->kern->rmsnorm(to, from, a->q_norm, dim, a->eps);
        c->kern->rope(to, s, cs, half);
    }
    for (size_t h = 0; h < a->n_kv_head && !a->has_keys; h++) {
        float *k = a->k + (row * a->n_kv_head + h) * dim;
        unsigned char *page = page_of(a, q, pos, h);

        c->kern->rmsnorm(k, k, a->k_norm, dim, a->eps);
        c->kern->rope(k, s, cs, half);
        c->kern->put_k[a->kv_type](page, pos % SL_KV_PAGE, k, dim);
        c->kern->put_v[a->kv_type](page + a->head_bytes / 2, pos % SL_KV_PAGE,
                                   a->v + (row * a->n_kv_head + h) * dim, dim);
    }
}

static void prepare_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;
    size_t end = sl_min((i + 1) * ROWS_PER_TASK, c->a->n_row);

    (void)worker;
    for (size_t row = i * ROWS_PER_TASK; row < end; row++)
        prepare_row(c, row);
}

/* Positions of block b up to the last that row i of the unit sees; 0 when it
 * sees none. *skip: those in front that it does not see. */
static size_t n_valid(const struct sl_attend *a, const struct unit *u,
                      size_t i, size_t b, uint32_t *skip)
{
    size_t row = u->row0 + i - u->seq->row0, n;
    uint64_t end = end_seen(a, u->seq, row);
    uint64_t first = first_seen(a, u->seq, row);
    uint64_t lo = (uint64_t)b * SL_KV_BLOCK;

    *skip = 0;
    if (end <= lo || first >= lo + SL_KV_BLOCK)
        return 0;
    n = (size_t)sl_min((size_t)(end - lo), SL_KV_BLOCK);
    *skip = first > lo ? (uint32_t)(first - lo) : 0;
    return n;
}

/* Result of one block: m [n_q], l [n_q], o [n_q][dim] in `out`. */
static void run_block(const struct ctx *c, const struct unit *u, size_t b,
                      float *out, unsigned worker)
{
    const struct sl_attend *a = c->a;
    size_t n_q = u->n_row * c->group, most = 0;
    uint32_t valid[SL_ATTEND_ROWS * MAX_GROUP];
    uint32_t skip[SL_ATTEND_ROWS * MAX_GROUP];
    struct sl_attn k = {
        .q = a->q +
             (u->kv * a->n_row + u->row0) * c->group * a->head_dim,
        .ld_q = a->head_dim,
        .n_q = n_q,
        .dim = a->head_dim,
        .scale = 1.0f / sqrtf((float)a->head_dim),
        .n_valid = valid,
        .n_skip = skip,
        .m = out,
        .l = out + n_q,
        .o = out + 2 * n_q,
        .scratch = a->scratch +
                   worker * SL_ATTEND_ROWS * c->group * SL_KV_BLOCK,
    };

    for (size_t i = 0; i < n_q; i++) {
        valid[i] = (uint32_t)n_valid(a, u, i / c->group, b, &skip[i]);
        most = sl_max(most, valid[i]);
    }
    for (size_t p = 0; p * SL_KV_PAGE < most; p++) {
        k.k[p] = page_of(a, u->seq,
                         (uint64_t)b * SL_KV_BLOCK + p * SL_KV_PAGE, u->kv);
        k.v[p] = (const unsigned char *)k.k[p] + a->head_bytes / 2;
    }
    c->kern->attn[a->kv_type](&k);
}

/* Put the result of block b behind the blocks before it. */
static void merge_block(const struct ctx *c, const struct unit *u, size_t b,
                        const float *part)
{
    const struct sl_attend *a = c->a;
    size_t n_q = u->n_row * c->group, dim = a->head_dim;
    size_t at = (u->kv * a->n_row + u->row0) * c->group;
    const float *m = part, *l = part + n_q, *o = part + 2 * n_q;

    for (size_t i = 0; i < n_q; i++) {
        float *ml = a->ml + (at + i) * 2, *acc = a->acc + (at + i) * dim;

        uint32_t skip;

        if (b == u->block0) {
            ml[0] = m[i];
            ml[1] = l[i];
            memcpy(acc, o + i * dim, dim * sizeof(*acc));
        } else if (n_valid(a, u, i / c->group, b, &skip) > 0) {
            c->kern->attn_merge(&ml[0], &ml[1], acc, m[i], l[i], o + i * dim,
                                dim);
        }
    }
}

/* Divide by the sum of weights and apply the output gate. */
static void finish_unit(const struct ctx *c, const struct unit *u)
{
    const struct sl_attend *a = c->a;
    size_t dim = a->head_dim;

    for (size_t i = 0; i < u->n_row * c->group; i++) {
        size_t row = u->row0 + i / c->group;
        size_t h = u->kv * c->group + i % c->group;
        size_t at = (u->kv * a->n_row + u->row0) * c->group + i;
        float *y = a->out + (row * a->n_head + h) * dim;

        c->kern->div(y, a->acc + at * dim, a->ml[at * 2 + 1], dim);
        if (!a->no_gate)
            c->kern->sigmoid_mul(
                y, y, a->qg + ((row * a->n_head + h) * 2 + 1) * dim, dim);
    }
}

static float *part_at(const struct ctx *c, size_t i)
{
    return c->a->part +
           i * sl_attend_part_floats((uint32_t)c->group, c->a->head_dim);
}

static void direct_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;
    struct unit u = get_unit(c, i);

    for (size_t b = u.block0; b < u.n_block; b++) {
        run_block(c, &u, b, part_at(c, worker), worker);
        merge_block(c, &u, b, part_at(c, worker));
    }
    finish_unit(c, &u);
}

static void wave_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;
    struct unit u = get_unit(c, i / c->wave);
    size_t b = c->wave0 + i % c->wave;

    if (b >= u.block0 && b < u.n_block)
        run_block(c, &u, b, part_at(c, i), worker);
}

static void merge_task(void *ctx, size_t i, unsigned worker)
{
    const struct ctx *c = ctx;
    struct unit u = get_unit(c, i);

    (void)worker;
    for (size_t w = 0; w < c->wave && c->wave0 + w < u.n_block; w++)
        if (c->wave0 + w >= u.block0)
            merge_block(c, &u, c->wave0 + w,
                        part_at(c, i * c->wave + w));
    if (c->wave0 < u.n_block && c->wave0 + c->wave >= u.n_block)
        finish_unit(c, &u);
}

void sl_attend_put(const struct sl_run *r, const struct sl_attend *a)
{
    struct sl_attend keys = *a;
    struct ctx c = {.kern = r->kern, .a = &keys, .group = 1};

    keys.n_head = 0;
    sl_pool_run(r->pool, prepare_task, &c,
                (a->n_row + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
}

void sl_attend_run(const struct sl_run *r, const struct sl_attend *a)
{
    size_t threads = sl_pool_n_thread(r->pool);
    struct ctx c = {
        .kern = r->kern, .a = a, .group = a->n_head / a->n_kv_head};

    SL_ASSERT(c.group <= MAX_GROUP && a->rot_dim / 2 <= MAX_HALF);
    SL_ASSERT(a->max_part >= threads);
    for (size_t s = 0; s < a->n_seq; s++) {
        c.n_unit += chunks(&a->seq[s]) * a->n_kv_head;
        c.n_block = sl_max(c.n_block,
                           blocks(a->seq[s].pos0 + a->seq[s].n_row));
    }
    if (c.n_unit == 0)
        return;
    sl_pool_run(r->pool, prepare_task, &c,
                (a->n_row + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
    /* Enough units to keep every worker busy, or nothing to cut. */
    if (c.n_unit >= 4 * threads || c.n_block == 1 ||
        c.n_unit * 2 > a->max_part) {
        sl_pool_run(r->pool, direct_task, &c, c.n_unit);
        return;
    }
    c.wave = sl_min(a->max_part / c.n_unit, c.n_block);
    for (c.wave0 = 0; c.wave0 < c.n_block; c.wave0 += c.wave) {
        sl_pool_run(r->pool, wave_task, &c, c.n_unit * c.wave);
        sl_pool_run(r->pool, merge_task, &c, c.n_unit);
    }
}
