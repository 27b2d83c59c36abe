/* engine/importance.c - which columns of the weights matter; see importance.h
 *
 * A matrix is recognised by the address of its weights: every product of the
 * network reads one from its beginning. Sums are taken row by row on the one
 * thread that runs the network, so they do not depend on how many work.
 */
#include "engine/importance.h"

#include "base/mem.h"
#include "engine/forced.h"

/* Columns that were never seen to matter keep this share of the mean: another
 * text may use them. Chosen. */
#define FLOOR 0.01

struct place {
    const void *w;
    size_t i; /* of sl_weights.mat */
};

struct measure {
    const struct sl_importance_opts *o;
    struct sl_importance *out;
    struct sl_kern kern;
    struct sl_forced reader;
    struct sl_ids ids;
    struct place *place; /* [n] by address */
    double **sum;        /* [n][cols], or NULL before the first input */
    size_t n;
    int rc;
    struct sl_err *err;
};

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct place *)a)->w;
    uintptr_t y = (uintptr_t)((const struct place *)b)->w;

    return x < y ? -1 : x > y;
}

/* struct sl_run.watch */
static void see(void *ctx, const struct sl_mat *w, const float *x, size_t ldx,
                size_t n_tok)
{
    struct measure *m = ctx;
    struct place key = {w->w, 0};
    const struct place *p =
        bsearch(&key, m->place, m->n, sizeof(*m->place), by_address);
    double *sum;

    SL_CHECK(p);
    if (!m->rc && !m->sum[p->i])
        m->rc = sl_mem_alloc(&m->sum[p->i], w->cols, sizeof(double),
                             "sums of columns", m->err);
    if (m->rc)
        return;
    sum = m->sum[p->i];
    for (size_t t = 0; t < n_tok; t++)
        for (size_t c = 0; c < w->cols; c++)
            sum[c] += (double)x[t * ldx + c] * (double)x[t * ldx + c];
}

static int open(struct measure *m)
{
    struct sl_forced_opts ro = {.pool = m->o->pool,
                                .kern = &m->kern,
                                .kv = SL_F32,
                                .watch = see,
                                .watch_ctx = m};
    uint32_t n_vocab;
    int rc = sl_forced_text(&m->ids, &n_vocab, m->o->model, m->o->text,
                            m->o->n_text, 0, m->err);

    sl_kern_init(&m->kern, SL_CPU_ALL);
    if (!rc)
        rc = sl_forced_open(&m->reader, m->o->model, &ro, m->err);
    if (rc)
        return rc;
    m->n = m->reader.w->n_mat;
    rc = sl_mem_alloc(&m->place, m->n, sizeof(*m->place), "places", m->err);
    if (!rc)
        rc = sl_mem_alloc(&m->sum, m->n, sizeof(*m->sum), "sums", m->err);
    for (size_t i = 0; !rc && i < m->n; i++)
        m->place[i] = (struct place){m->reader.w->mat[i].mat->w, i};
    if (!rc)
        qsort(m->place, m->n, sizeof(*m->place), by_address);
    return rc;
}

static int read_all(struct measure *m)
{
    size_t n = m->ids.len;
    int rc = 0;

    for (size_t at = 0; !rc && at < n; at += SL_FORCED_ROWS) {
        const float *logits;
        size_t k = sl_min(SL_FORCED_ROWS, n - at);

        if (at % SL_FORCED_WINDOW == 0)
            rc = sl_forced_restart(&m->reader, m->err);
        if (!rc)
            rc = sl_forced_step(&m->reader, m->ids.p + at, (uint32_t)k, &logits,
                                m->err);
        if (!rc)
            rc = m->rc;
        if (!rc && m->o->progress)
            m->o->progress(m->o->progress_ctx, at + k, n);
    }
    return rc;
}

/* Sums -> numbers of mean 1, none below FLOOR. */
static int scale(float **out, const double *sum, size_t cols,
                 struct sl_err *err)
{
    double all = 0;
    int rc;

    for (size_t c = 0; c < cols; c++)
        all += sum[c];
    if (!(all < 1e300))
        return sl_fail(err, SL_EFORMAT,
                       "an input is no number; check the model's weights");
    if (!(all > 0)) /* nothing but zeros came: all columns are alike */
        return 0;
    rc = sl_mem_alloc(out, cols, sizeof(**out), "importance", err);
    for (size_t c = 0; !rc && c < cols; c++) {
        double v = sum[c] * (double)cols / all;

        (*out)[c] = (float)(v > FLOOR ? v : FLOOR);
    }
    return rc;
}

static int finish(struct measure *m)
{
    struct sl_importance *out = m->out;
    struct sl_sha256 s;
    int rc =
        sl_mem_alloc(&out->col, m->n, sizeof(*out->col), "importance", m->err);

    if (rc)
        return rc;
    out->n = m->n;
    sl_sha256_init(&s);
    for (size_t i = 0; !rc && i < m->n; i++) {
        size_t cols = m->reader.w->mat[i].mat->cols;

        if (m->sum[i])
            rc = scale(&out->col[i], m->sum[i], cols, m->err);
        sl_sha256_u64(&s, out->col[i] != NULL);
        if (out->col[i])
            sl_sha256_add(&s, out->col[i], cols * sizeof(float));
    }
    if (!sl_sha256_end(&s, out->digest) && !rc)
        rc = sl_fail(m->err, SL_ENOMEM, "the digest of the importance failed");
    return rc;
}

int sl_importance_measure(struct sl_importance *out,
                          const struct sl_importance_opts *o,
                          struct sl_err *err)
{
    struct measure m = {.o = o, .out = out, .err = err};
    int rc = open(&m);

    if (!rc)
        rc = read_all(&m);
    if (!rc)
        rc = finish(&m);
    for (size_t i = 0; m.sum && i < m.n; i++)
        sl_mem_free(m.sum[i]);
    sl_mem_free(m.sum);
    sl_mem_free(m.place);
    sl_forced_close(&m.reader);
    sl_ids_deinit(&m.ids);
    return sl_wrap(err, rc, "reading the text with '%.200s'", o->model);
}

void sl_importance_deinit(struct sl_importance *imp)
{
    for (size_t i = 0; i < imp->n; i++)
        sl_mem_free(imp->col[i]);
    sl_mem_free(imp->col);
    *imp = (struct sl_importance){0};
}
