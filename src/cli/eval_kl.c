/* cli/eval_kl.c - sluice eval kl FILE: what quantisation costs, on a text */
#include "cli/verb.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/term.h"
#include "cli/kl.h"
#include "cli/open.h"
#include "cli/progress.h"

#define MAX_TEXT ((size_t)64 << 20)
#define MAX_REPORT ((size_t)1 << 20)

/* In the order of enum sl_weight_plan, and of enum sl_kv_type. */
static const char *const plan_name[] = {"auto", "q8", "q4", "bfp4"};
static const char *const kv_name[] = {"bf16", "f32", "bfp8"};

static json_t *row(const char *weights, const char *kv,
                   const struct sl_eval_kl *k)
{
    return json_pack(
        "{s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, "
        "s:I}",
        "dtype", weights, "kv_dtype", kv, "tokens", (int)k->n_tok, "kl_mean",
        k->kl_mean, "kl_median", k->kl_median, "kl_max", k->kl_max, "top1",
        k->top1, "pcc_mean", k->pcc_mean, "pcc_median", k->pcc_median,
        "pcc_min", k->pcc_min, "nll", k->nll, "nll_reference", k->nll_reference,
        "weight_bytes", (json_int_t)k->weight_bytes, "reference_bytes",
        (json_int_t)k->reference_bytes);
}

static void line(struct sl_buf *b, const char *weights, const char *kv,
                 const struct sl_eval_kl *k)
{
    char bytes[SL_CLI_BYTES_LEN];

    sl_cli_bytes(bytes, k->weight_bytes);
    if (!b->p)
        sl_buf_fmt(b,
                   "%u tokens; the stored weights take %.4f nats a token\n"
                   "dtype  K, V  weights    KL mean   median    most     top-1 "
                   " PCC mean  median   least    nats\n",
                   k->n_tok, k->nll_reference);
    sl_buf_fmt(b,
               "%-6s %-5s %-9s %9.6f %9.6f %8.4f %6.2f%%  %.6f %.6f %.6f "
               "%.4f\n",
               weights, kv, bytes, k->kl_mean, k->kl_median, k->kl_max,
               100 * k->top1, k->pcc_mean, k->pcc_median, k->pcc_min, k->nll);
}

int sl_cli_kl_row(json_t *rows, struct sl_buf *table,
                  const struct sl_eval_kl_opts *opts, const char *weights,
                  struct sl_err *err)
{
    struct sl_eval_kl_opts k = *opts;
    const char *kv = kv_name[k.kv_type];
    struct sl_progress p;
    struct sl_eval_kl r;
    char what[40];
    int rc;

    snprintf(what, sizeof(what), "comparing %s", weights);
    k.progress = sl_progress_step;
    k.progress_ctx = &p;
    sl_progress_init(&p, what);
    rc = sl_eval_kl(&r, &k, err);
    sl_progress_end(&p);
    if (rc)
        return rc;
    if (json_array_append_new(rows, row(weights, kv, &r)))
        return sl_fail(err, SL_ENOMEM, "no memory is left for a row");
    line(table, weights, kv, &r);
    return 0;
}

int sl_cli_kl_text(char **text, size_t *len, const char *path,
                   struct sl_err *err)
{
    int rc = sl_file_read(text, len, path, MAX_TEXT, err);

    return rc ? rc
              : sl_wrap(err, sl_cli_text(*text, *len, "the text", err),
                        "'%.300s'", path);
}

static int run(struct sl_eval_kl_opts *k, const struct sl_opts *o,
               enum sl_weight_plan first, enum sl_weight_plan last,
               struct sl_err *err)
{
    json_t *rows = json_array();
    struct sl_buf b;
    int rc = 0;

    sl_buf_init(&b, MAX_REPORT);
    for (int i = (int)first; !rc && i <= (int)last; i++) {
        k->weights = (enum sl_weight_plan)i;
        rc = sl_cli_kl_row(rows, &b, k, plan_name[i], err);
        if (rc || o->value[SL_OPT_JSON].i)
            continue;
        /* The next row may take hours, or fail. */
        rc = sl_buf_check(&b, "the report", err);
        if (!rc)
            rc = sl_out_write(b.p, b.len, err);
        sl_buf_reset(&b);
    }
    if (!rc && o->value[SL_OPT_JSON].i)
        rc = sl_cli_print_json(
            json_pack("{s:s, s:O}", "task", "kl", "rows", rows), err);
    json_decref(rows);
    sl_buf_deinit(&b);
    return rc;
}

/* The network runs without an engine: most of that one's options mean nothing
 * here. */
static int check_options(const struct sl_opts *o, struct sl_err *err)
{
    static const enum sl_opt_id used[] = {
        SL_OPT_MODEL,   SL_OPT_AGAINST,   SL_OPT_DTYPE, SL_OPT_KV_DTYPE,
        SL_OPT_THREADS, SL_OPT_CPU_MASK,  SL_OPT_JSON,  SL_OPT_MAX_TOKENS,
        SL_OPT_HELP,    SL_OPT_LOG_LEVEL, SL_OPT_PIN,
    };

    for (int i = 0; i < SL_N_OPT; i++) {
        size_t k = 0;

        while (k < SL_COUNTOF(used) && (int)used[k] != i)
            k++;
        if (k == SL_COUNTOF(used) && o->value[i].from == SL_FROM_LINE)
            return sl_fail(err, SL_EARG, "--%s means nothing to 'eval kl'",
                           sl_opt_get((enum sl_opt_id)i)->name);
    }
    return 0;
}

int sl_cli_eval_kl(const struct sl_opts *o, const char *dir, struct sl_err *err)
{
    struct sl_engine_opts eo;
    struct sl_eval_kl_opts k = {.model = dir};
    char ref[SL_CLI_PATH], *text = NULL;
    bool one = sl_opts_has(o, SL_OPT_DTYPE) || sl_eval_is_packed(dir);
    int rc = check_options(o, err);

    if (rc)
        return rc;
    if (o->n_arg != 2)
        return sl_fail(err, SL_EARG, "'sluice eval kl' takes one file of text");
    sl_cli_engine_opts(&eo, o);
    k.reference = dir;
    if (o->value[SL_OPT_AGAINST].s) {
        rc = sl_cli_folder(ref, o->value[SL_OPT_AGAINST].s, err);
        k.reference = ref;
        one = true;
    }
    k.n_thread = eo.n_thread;
    k.pin = eo.pin;
    k.cpu_mask = eo.cpu_mask;
    k.kv_type = eo.kv_type;
    k.max_tokens = (uint32_t)o->value[SL_OPT_MAX_TOKENS].i;
    if (!rc)
        rc = sl_cli_kl_text(&text, &k.n_text, o->arg[1], err);
    k.text = text;
    if (!rc)
        rc = run(&k, o, one ? eo.weights : SL_WEIGHTS_AUTO,
                 one ? eo.weights : SL_WEIGHTS_BFP4, err);
    sl_file_free(text);
    return rc;
}
