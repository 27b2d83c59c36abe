/* engine/loss.c - how far the weights of a model are from another's; see eval.h
 *
 * Matrix by matrix, each a task of its own; the sums of a class are added in
 * the order of the list, so they do not depend on the number of threads.
 *
 * Ours share the exponent of sixteen bfp elements along the inputs of a matrix,
 * so that the integer product applies; the boards share it along the outputs.
 * What that grouping costs is measured beside it, with the same encoder: bands
 * of sixteen rows, turned so that the sixteen outputs of one input are
 * neighbours.
 */
#include <math.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/eval.h"
#include "kern/quantise.h"

struct sums {
    double error, power; /* of squares */
    double across;       /* error of bfp, grouped along the outputs */
};

#define BAND SL_BFP /* rows that share an exponent then */

struct loss {
    const struct sl_weights *ref, *got;
    struct sl_kern kern;
    struct sums *sum; /* [n_mat] */
    float *room;      /* [n_thread][2][rows][max_cols], rows is 1 or BAND */
    size_t max_cols, room_rows;
    unsigned char *block; /* [n_thread][block_bytes] */
    size_t block_bytes;
};

static bool is_bfp(enum sl_dtype t)
{
    return t == SL_BFP8 || t == SL_BFP4;
}

/* The error of one band, from row r on; rows that are not there are zeros. */
static double band_error(const struct loss *l, const struct sl_mat *a,
                         enum sl_dtype t, size_t r, unsigned worker)
{
    size_t size = l->room_rows * l->max_cols, n = BAND * (size_t)a->cols;
    float *x = l->room + worker * 2 * size, *y = x + size;
    unsigned char *block = l->block + worker * l->block_bytes;
    double sum = 0;

    for (size_t k = 0; k < BAND; k++) {
        if (r + k < a->rows)
            l->kern.row[a->type](y, a->w, a->scale, r + k, a->cols);
        for (size_t c = 0; c < a->cols; c++)
            x[c * BAND + k] = r + k < a->rows ? y[c] : 0;
    }
    sl_quantise_row(t, block, x, NULL, n);
    sl_dequantise_row(t, y, block, n);
    for (size_t i = 0; i < n; i++)
        sum += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
    return sum;
}

static void one_matrix(void *ctx, size_t i, unsigned worker)
{
    struct loss *l = ctx;
    const struct sl_mat *a = l->ref->mat[i].mat, *b = l->got->mat[i].mat;
    size_t size = l->room_rows * l->max_cols;
    float *x = l->room + worker * 2 * size, *y = x + size;
    struct sums s = {0};

    for (size_t r = 0; r < a->rows; r++) {
        l->kern.row[a->type](x, a->w, a->scale, r, a->cols);
        l->kern.row[b->type](y, b->w, b->scale, r, b->cols);
        for (size_t c = 0; c < a->cols; c++) {
            double e = (double)y[c] - (double)x[c];

            s.error += e * e;
            s.power += (double)x[c] * (double)x[c];
        }
    }
    for (size_t r = 0; is_bfp(b->type) && r < a->rows; r += BAND)
        s.across += band_error(l, a, b->type, r, worker);
    l->sum[i] = s;
}

static int check(const struct loss *l, struct sl_err *err)
{
    bool same = l->ref->n_mat == l->got->n_mat;

    for (size_t i = 0; same && i < l->ref->n_mat; i++)
        same = l->ref->mat[i].mat->rows == l->got->mat[i].mat->rows &&
               l->ref->mat[i].mat->cols == l->got->mat[i].mat->cols;
    return same ? 0
                : sl_fail(err, SL_EARG, "the two models have other matrices");
}

static int make_room(struct loss *l, unsigned n_thread, struct sl_err *err)
{
    size_t n = l->ref->n_mat;
    int rc;

    l->room_rows = 1;
    for (size_t i = 0; i < n; i++) {
        enum sl_dtype t = l->got->mat[i].mat->type;
        size_t cols = l->ref->mat[i].mat->cols;

        l->max_cols = sl_max(l->max_cols, cols);
        if (!is_bfp(t))
            continue;
        l->room_rows = BAND;
        l->block_bytes = sl_max(l->block_bytes, sl_dtype_bytes(t, BAND * cols));
    }
    rc = sl_mem_alloc(&l->sum, n, sizeof(*l->sum), "sums", err);
    if (!rc)
        rc = sl_mem_alloc(&l->room, 2 * n_thread * l->room_rows * l->max_cols,
                          sizeof(float), "rows", err);
    if (!rc)
        rc = sl_mem_alloc(&l->block, n_thread * l->block_bytes, 1, "rows", err);
    return rc;
}

static int measure(struct sl_eval_loss *out, struct loss *l,
                   struct sl_pool *pool, struct sl_err *err)
{
    size_t n = l->ref->n_mat;
    int rc = check(l, err);

    if (!rc)
        rc = make_room(l, sl_pool_n_thread(pool), err);
    if (rc)
        return rc;
    sl_pool_run(pool, one_matrix, l, n);
    for (size_t i = 0; i < n; i++) {
        const struct sl_mat *m = l->ref->mat[i].mat;
        struct sl_eval_class *c = &out->class[l->ref->mat[i].class];

        c->n_weight += (uint64_t)m->rows * m->cols;
        c->bytes +=
            sl_dtype_bytes(l->got->mat[i].mat->type, (size_t)m->rows * m->cols);
        if (!isfinite(l->sum[i].error) || !isfinite(l->sum[i].power))
            return sl_fail(err, SL_EFORMAT,
                           "matrix %zu holds a weight that is not finite; the "
                           "file is damaged, make it again",
                           i);
        c->error += l->sum[i].error;
        c->power += l->sum[i].power;
        if (is_bfp(l->got->mat[i].mat->type)) {
            c->across += l->sum[i].across;
            c->n_across += (uint64_t)m->rows * m->cols;
        }
    }
    return 0;
}

int sl_eval_loss(struct sl_eval_loss *out, const char *model,
                 const char *reference, uint32_t n_thread, bool pin,
                 struct sl_err *err)
{
    static const char *const name[SL_EVAL_CLASSES] = {
        [SL_W_EMBED] = "embedding",  [SL_W_HEAD] = "head",
        [SL_W_ATTN] = "attention",   [SL_W_LINEAR] = "linear attention",
        [SL_W_FFN] = "feed-forward", [SL_W_EXPERT] = "experts",
        [SL_W_MTP] = "mtp",          [SL_W_SMALL] = "small"};
    struct sl_weights *ref = NULL, *got = NULL;
    struct sl_pool *pool = NULL;
    struct loss l = {0};
    int rc = sl_pool_open(&pool, n_thread, pin, err);
    struct sl_load_opts lo = {.pool = pool};

    *out = (struct sl_eval_loss){0};
    for (int i = 0; i < SL_EVAL_CLASSES; i++)
        out->class[i].name = name[i];
    sl_kern_init(&l.kern, SL_CPU_ALL);
    if (!rc)
        rc = sl_weights_open(&ref, reference, &lo, err);
    if (!rc)
        rc = sl_weights_open(&got, model, &lo, err);
    l.ref = ref;
    l.got = got;
    if (!rc)
        rc = measure(out, &l, pool, err);
    sl_mem_free(l.sum);
    sl_mem_free(l.room);
    sl_mem_free(l.block);
    sl_weights_close(&ref);
    sl_weights_close(&got);
    sl_pool_close(&pool);
    return sl_wrap(err, rc, "comparing the weights of '%.200s'", model);
}
