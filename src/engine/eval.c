/* engine/eval.c - how far a model's answers are from another's; see eval.h
 *
 * The text is cut into windows that start from nothing, so that it may be
 * longer than a context; a window goes through both models step by step, and
 * every row's logits are compared as they come. Nothing else is kept
 * but three numbers a row.
 */
#include "engine/eval.h"

#include <math.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/forced.h"
#include "kern/math.h"

struct eval {
    const struct sl_eval_kl_opts *o;
    struct sl_kern kern;
    struct sl_pool *pool;
    struct sl_forced ref, got;
    struct sl_ids ids;
    uint32_t n_vocab; /* ids that text can have */
    double *kl, *pcc; /* [n] */
    size_t n, n_same;
    double nll, nll_ref;
};

/* ------------------------------------------------------------ one position */

/* log of the sum of exp(z), and where the largest is. */
static double log_sum(const float *z, size_t n, size_t *best)
{
    double sum = 0;

    *best = 0;
    for (size_t i = 1; i < n; i++)
        if (z[i] > z[*best])
            *best = i;
    for (size_t i = 0; i < n; i++)
        sum += (double)sl_exp(z[i] - z[*best]);
    return (double)z[*best] + (double)sl_log1p((float)(sum - 1));
}

static double pcc(const float *a, const float *b, size_t n)
{
    double ma = 0, mb = 0, ab = 0, aa = 0, bb = 0;

    for (size_t i = 0; i < n; i++) {
        ma += (double)a[i];
        mb += (double)b[i];
    }
    ma /= (double)n;
    mb /= (double)n;
    for (size_t i = 0; i < n; i++) {
        double x = (double)a[i] - ma, y = (double)b[i] - mb;

        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    if (aa > 0 && bb > 0)
        return ab / sqrt(aa * bb);
    return aa > 0 || bb > 0 ? 0 : 1; /* one, or both, say nothing */
}

/* NaN compares as nothing, and so as agreement. */
static int check_finite(const struct eval *e, const float *z, const char *path,
                        struct sl_err *err)
{
    for (size_t i = 0; i < e->n_vocab; i++)
        if (!isfinite(z[i]))
            return sl_fail(err, SL_EFORMAT,
                           "at position %zu of the text the logit of token "
                           "%zu of '%.200s' is %g; its weights are damaged or "
                           "out of range, fetch it again",
                           e->n, i, path, (double)z[i]);
    return 0;
}

/* `next` is the token that follows; -1 at the end of a window. */
static void compare(struct eval *e, const float *ref, const float *got,
                    int32_t next)
{
    size_t n = e->n_vocab, best_ref, best_got;
    double lr = log_sum(ref, n, &best_ref), lg = log_sum(got, n, &best_got);
    double kl = 0;

    for (size_t i = 0; i < n; i++) {
        double p = (double)sl_exp((float)((double)ref[i] - lr));

        kl += p * ((double)ref[i] - lr - ((double)got[i] - lg));
    }
    e->kl[e->n] = kl > 0 ? kl : 0; /* rounding */
    e->pcc[e->n++] = pcc(ref, got, n);
    e->n_same += best_ref == best_got;
    if (next < 0)
        return;
    e->nll_ref += lr - (double)ref[next];
    e->nll += lg - (double)got[next];
}

/* ------------------------------------------------------------ all of it */

static int window(struct eval *e, const int32_t *tok, uint32_t n,
                  struct sl_err *err)
{
    size_t va = e->ref.w->conf.vocab, vb = e->got.w->conf.vocab;
    int rc = sl_forced_restart(&e->ref, err);

    if (!rc)
        rc = sl_forced_restart(&e->got, err);
    for (uint32_t at = 0; !rc && at < n; at += SL_FORCED_ROWS) {
        uint32_t k = (uint32_t)sl_min(SL_FORCED_ROWS, n - at);
        const float *x = NULL, *y = NULL;

        rc = sl_forced_step(&e->ref, tok + at, k, &x, err);
        if (!rc)
            rc = sl_forced_step(&e->got, tok + at, k, &y, err);
        for (uint32_t i = 0; !rc && i < k; i++) {
            rc = check_finite(e, x + i * va, e->o->reference, err);
            if (!rc)
                rc = check_finite(e, y + i * vb, e->o->model, err);
            if (rc)
                break;
            compare(e, x + i * va, y + i * vb,
                    at + i + 1 < n ? tok[at + i + 1] : -1);
        }
        if (e->o->progress)
            e->o->progress(e->o->progress_ctx, e->n, e->ids.len);
    }
    return rc;
}

static int open_all(struct eval *e, struct sl_err *err)
{
    const struct sl_eval_kl_opts *o = e->o;
    struct sl_forced_opts ro = {
        .kern = &e->kern, .plan = SL_PLAN_AUTO, .kv = SL_F32};
    int rc = sl_pool_open(&e->pool, o->n_thread, o->pin, err);

    sl_kern_init(&e->kern, o->cpu_mask);
    ro.pool = e->pool;
    if (!rc)
        rc = sl_forced_open(&e->ref, o->reference, &ro, err);
    ro.plan = sl_engine_plan(o->weights);
    ro.kv = sl_engine_kv_dtype(o->kv_type);
    if (!rc)
        rc = sl_forced_open(&e->got, o->model, &ro, err);
    if (!rc && (e->got.w->conf.vocab < e->n_vocab))
        rc = sl_fail(err, SL_EARG,
                     "'%.200s' has %u ids and '%.200s' %u; they cannot be "
                     "compared",
                     o->model, e->got.w->conf.vocab, o->reference, e->n_vocab);
    if (!rc)
        rc = sl_mem_alloc(&e->kl, e->ids.len, sizeof(*e->kl), "numbers", err);
    if (!rc)
        rc = sl_mem_alloc(&e->pcc, e->ids.len, sizeof(*e->pcc), "numbers", err);
    return rc;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double mean(const double *v, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += v[i];
    return sum / (double)n;
}

static void summarise(struct sl_eval_kl *out, struct eval *e)
{
    size_t n = e->n, windows = (n + SL_FORCED_WINDOW - 1) / SL_FORCED_WINDOW;
    double scored = (double)sl_max(n - windows, 1);

    qsort(e->kl, n, sizeof(*e->kl), by_value);
    qsort(e->pcc, n, sizeof(*e->pcc), by_value);
    *out = (struct sl_eval_kl){.n_tok = (uint32_t)n,
                               .kl_mean = mean(e->kl, n),
                               .kl_median = e->kl[n / 2],
                               .kl_max = e->kl[n - 1],
                               .top1 = (double)e->n_same / (double)n,
                               .pcc_mean = mean(e->pcc, n),
                               .pcc_median = e->pcc[n / 2],
                               .pcc_min = e->pcc[0],
                               .nll = e->nll / scored,
                               .nll_reference = e->nll_ref / scored,
                               .weight_bytes = e->got.w->bytes,
                               .reference_bytes = e->ref.w->bytes};
}

bool sl_eval_is_packed(const char *path)
{
    return sl_packed_is(path);
}

int sl_eval_kl(struct sl_eval_kl *out, const struct sl_eval_kl_opts *o,
               struct sl_err *err)
{
    struct eval e = {.o = o};
    int rc = sl_forced_text(&e.ids, &e.n_vocab, o->reference, o->text,
                            o->n_text, o->max_tokens, err);

    if (!rc)
        rc = open_all(&e, err);
    for (size_t at = 0; !rc && at < e.ids.len; at += SL_FORCED_WINDOW)
        rc = window(&e, e.ids.p + at,
                    (uint32_t)sl_min(SL_FORCED_WINDOW, e.ids.len - at), err);
    if (!rc)
        summarise(out, &e);
    sl_forced_close(&e.ref);
    sl_forced_close(&e.got);
    sl_pool_close(&e.pool);
    sl_ids_deinit(&e.ids);
    sl_mem_free(e.kl);
    sl_mem_free(e.pcc);
    return sl_wrap(err, rc, "comparing '%.200s'", o->model);
}
