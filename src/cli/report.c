/* cli/report.c - what a conversion cost: convert --report FILE */
#include "cli/verb.h"

#include <math.h>

#include "cli/kl.h"

#define MAX_REPORT ((size_t)1 << 20)

static bool any_across(const struct sl_eval_loss *loss)
{
    for (size_t i = 0; i < SL_EVAL_CLASSES; i++)
        if (loss->class[i].n_across > 0)
            return true;
    return false;
}

static void classes(json_t *rows, struct sl_buf *b,
                    const struct sl_eval_loss *loss)
{
    bool bfp = any_across(loss);

    if (bfp)
        sl_buf_str(b, "bfp8 and bfp4 share an exponent among sixteen inputs "
                      "here and among sixteen outputs\non the boards, which "
                      "the last column has for the same weights.\n");
    sl_buf_fmt(b,
               "weights            elements      bytes  error, of their "
               "root mean square%s\n",
               bfp ? "  boards" : "");
    for (size_t i = 0; i < SL_EVAL_CLASSES; i++) {
        const struct sl_eval_class *c = &loss->class[i];
        double e = c->power > 0 ? sqrt(c->error / c->power) : 0;
        json_t *v;

        if (c->n_weight == 0)
            continue;
        sl_buf_fmt(b, "%-16s %10llu %10llu  %.6f", c->name,
                   (unsigned long long)c->n_weight,
                   (unsigned long long)c->bytes, e);
        v = json_pack("{s:s, s:I, s:I, s:f}", "class", c->name, "elements",
                      (json_int_t)c->n_weight, "bytes", (json_int_t)c->bytes,
                      "error", e);
        if (c->n_across == c->n_weight && c->power > 0) {
            double across = sqrt(c->across / c->power);

            sl_buf_fmt(b, "%32.6f", across);
            json_object_set_new(v, "error_along_outputs", json_real(across));
        }
        sl_buf_str(b, "\n");
        json_array_append_new(rows, v);
    }
}

/* The same file with each type of K and V. */
static int answers(json_t *rows, struct sl_buf *b, struct sl_eval_kl_opts *k,
                   const char *weights, struct sl_err *err)
{
    static const enum sl_kv_type kv[] = {SL_KV_F32, SL_KV_BF16, SL_KV_BFP8};
    int rc = 0;

    for (size_t i = 0; !rc && i < SL_COUNTOF(kv); i++) {
        k->kv_type = kv[i];
        rc = sl_cli_kl_row(rows, b, k, weights, err);
    }
    return rc;
}

int sl_cli_report(json_t **json, const struct sl_opts *o, const char *text,
                  size_t n_text, const char *src, const char *dst,
                  const char *weights, struct sl_err *err)
{
    struct sl_eval_kl_opts k = {.model = dst,
                                .reference = src,
                                .n_thread =
                                    (uint32_t)o->value[SL_OPT_THREADS].i,
                                .pin = o->value[SL_OPT_PIN].i,
                                .cpu_mask = UINT32_MAX,
                                .text = text,
                                .n_text = n_text};
    json_t *by_class = json_array(), *rows = json_array();
    struct sl_eval_loss loss;
    struct sl_buf table, kl;
    int rc;

    sl_buf_init(&table, MAX_REPORT);
    sl_buf_init(&kl, MAX_REPORT);
    rc = sl_eval_loss(&loss, dst, src, k.n_thread, k.pin, err);
    if (!rc) {
        classes(by_class, &table, &loss);
        rc = answers(rows, &kl, &k, weights, err);
    }
    *json = json_pack("{s:o, s:o}", "classes", by_class, "rows", rows);
    sl_buf_add(&table, "\n", 1);
    sl_buf_add(&table, kl.p, kl.len);
    sl_buf_deinit(&kl);
    if (!rc && !o->value[SL_OPT_JSON].i)
        return sl_cli_print(&table, "the report", err);
    sl_buf_deinit(&table);
    return rc;
}
