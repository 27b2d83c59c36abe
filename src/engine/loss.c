/* engine/loss.c - how far the weights of a model are from another's; see eval.h
 *
 * Matrix by matrix, each a task of its own; the sums of a class are added in
 * the order of the list, so they do not depend on the number of threads.
 */
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/eval.h"

struct sums {
    double error, power; /* of squares */
};

struct loss {
    const struct sl_weights *ref, *got;
    struct sl_kern kern;
    struct sums *sum; /* [n_mat] */
    float *room;      /* [n_thread][2][max_cols] */
    size_t max_cols;
};

static void one_matrix(void *ctx, size_t i, unsigned worker)
{
    struct loss *l = ctx;
    const struct sl_mat *a = l->ref->mat[i].mat, *b = l->got->mat[i].mat;
    float *x = l->room + worker * 2 * l->max_cols, *y = x + l->max_cols;
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

static int measure(struct sl_eval_loss *out, struct loss *l,
                   struct sl_pool *pool, struct sl_err *err)
{
    size_t n = l->ref->n_mat;
    int rc = check(l, err);

    for (size_t i = 0; i < n; i++)
        l->max_cols = sl_max(l->max_cols, l->ref->mat[i].mat->cols);
    if (!rc)
        rc = sl_mem_alloc(&l->sum, n, sizeof(*l->sum), "sums", err);
    if (!rc)
        rc = sl_mem_alloc(&l->room, 2 * sl_pool_n_thread(pool) * l->max_cols,
                          sizeof(float), "two rows", err);
    if (rc)
        return rc;
    sl_pool_run(pool, one_matrix, l, n);
    for (size_t i = 0; i < n; i++) {
        const struct sl_mat *m = l->ref->mat[i].mat;
        struct sl_eval_class *c = &out->class[l->ref->mat[i].class];

        c->n_weight += (uint64_t)m->rows * m->cols;
        c->bytes +=
            sl_dtype_bytes(l->got->mat[i].mat->type, (size_t)m->rows * m->cols);
        c->error += l->sum[i].error;
        c->power += l->sum[i].power;
    }
    return 0;
}

int sl_eval_loss(struct sl_eval_loss *out, const char *model,
                 const char *reference, uint32_t n_thread, struct sl_err *err)
{
    static const char *const name[SL_EVAL_CLASSES] = {
        [SL_W_EMBED] = "embedding",  [SL_W_HEAD] = "head",
        [SL_W_ATTN] = "attention",   [SL_W_LINEAR] = "linear attention",
        [SL_W_FFN] = "feed-forward", [SL_W_EXPERT] = "experts",
        [SL_W_MTP] = "mtp",          [SL_W_SMALL] = "small"};
    struct sl_weights *ref = NULL, *got = NULL;
    struct sl_pool *pool = NULL;
    struct loss l = {0};
    int rc = sl_pool_open(&pool, n_thread, true, err);
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
    sl_weights_close(&ref);
    sl_weights_close(&got);
    sl_pool_close(&pool);
    return sl_wrap(err, rc, "comparing the weights of '%.200s'", model);
}
