/* cli/bench.c - sluice bench: a table for people, --json for programs
 *
 * Measuring is engine/bench.h; here are the arguments and the report. Beside
 * every table stand clock and temperature where the system tells them.
 */
#include "cli/bench_serve.h"
#include "cli/bench_speculate.h"
#include "cli/ready.h"
#include "cli/verb.h"

#include "base/clock.h"
#include "base/machine.h"
#include "base/num.h"
#include "cli/open.h"
#include "cli/progress.h"
#include "engine/bench.h"

#define MAX_TABLE ((size_t)1 << 20)
#define MAX_ROWS 16 /* entries of --rows */
#define MAX_ROW_VALUE 65536

/* ------------------------------------------------------------------ printing */

int sl_cli_bench_print(const struct sl_opts *o, struct sl_buf *text, json_t *j,
                       struct sl_err *err)
{
    struct sl_machine_now now;

    sl_machine_now(&now);
    if (o->value[SL_OPT_JSON].i) {
        sl_buf_deinit(text);
        json_object_set_new(j, "clock_mhz", json_real(now.mhz));
        json_object_set_new(j, "celsius", json_real(now.celsius));
        return sl_cli_print_json(j, err);
    }
    if (now.mhz > 0)
        sl_buf_fmt(text, "clock %.0f MHz\n", now.mhz);
    if (now.celsius > 0)
        sl_buf_fmt(text, "temperature %.0f C\n", now.celsius);
    json_decref(j);
    return sl_cli_print(text, "the report", err);
}

/* ------------------------------------------------------------------ roofline */

static int roofline(const struct sl_opts *o, struct sl_err *err)
{
    struct sl_engine_opts eo;
    struct sl_roofline r;
    struct sl_buf b;
    int rc = sl_cli_max_args(o, 1, "'bench roofline' takes none", err);

    sl_cli_engine_opts(&eo, o);
    if (!rc)
        rc = sl_bench_roofline(&r, &eo, err);
    if (rc)
        return rc;
    sl_buf_init(&b, MAX_TABLE);
    sl_buf_fmt(&b,
               "                     1 core  %3u cores\n"
               "memory read    %8.1f   %8.1f   GB/s\n"
               "int8           %8.1f   %8.1f   GMAC/s (%s)\n"
               "fp32           %8.1f   %8.1f   GMAC/s\n",
               r.n_core, r.read_one * 1e-9, r.read_all * 1e-9,
               r.int8_one * 1e-9, r.int8_all * 1e-9, r.isa, r.fp32_one * 1e-9,
               r.fp32_all * 1e-9);
    return sl_cli_bench_print(o, &b,
                 json_pack("{s:i, s:s, s:[f,f], s:[f,f], s:[f,f]}", "cores",
                           (int)r.n_core, "isa", r.isa, "read_gbs",
                           r.read_one * 1e-9, r.read_all * 1e-9, "int8_gmacs",
                           r.int8_one * 1e-9, r.int8_all * 1e-9, "fp32_gmacs",
                           r.fp32_one * 1e-9, r.fp32_all * 1e-9),
                 err);
}

/* ------------------------------------------------------------------- forward */

/* "1,4,8" -> entries. */
static int parse_rows(struct sl_bench_row *rows, uint32_t *n, const char *s,
                      struct sl_err *err)
{
    *n = 0;
    for (;;) {
        size_t len = strcspn(s, ",");
        int64_t v;
        int rc = sl_num_i64(&v, s, len, 1, MAX_ROW_VALUE, "--rows", err);

        if (rc)
            return SL_EARG;
        if (*n == MAX_ROWS)
            return sl_fail(err, SL_EARG, "--rows has more than %d entries",
                           MAX_ROWS);
        rows[(*n)++] = (struct sl_bench_row){.rows = (uint32_t)v};
        if (!s[len])
            return 0;
        s += len + 1;
    }
}

static json_t *row_json(const struct sl_bench_row *r, double one_s,
                        const struct sl_forward_info *info)
{
    double macs = r->macs / r->s;

    return json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
                     "rows", (int)r->rows, "ms", r->s * 1e3, "best_ms",
                     r->best_s * 1e3, "rows_per_s", r->rows / r->s, "bytes",
                     r->bytes, "bandwidth_fraction", r->bytes / r->s / r->probe,
                     "gmac_per_s", macs * 1e-9, "peak_fraction",
                     macs / info->n_thread / info->peak, "cost", r->s / one_s,
                     "probe_gbs", r->probe * 1e-9, "experts", r->experts);
}

static void row_text(struct sl_buf *b, const struct sl_bench_row *r,
                     double one_s, const struct sl_forward_info *info)
{
    double macs = r->macs / r->s;

    sl_buf_fmt(b, "%6u %10.2f %10.1f %8.2f %8.0f %10.1f %6.0f %8.2f %8.1f",
               r->rows, r->s * 1e3, r->rows / r->s, r->bytes * 1e-9,
               100 * r->bytes / r->s / r->probe, macs * 1e-9,
               100 * macs / info->n_thread / info->peak, r->s / one_s,
               r->probe * 1e-9);
    if (r->experts > 0)
        sl_buf_fmt(b, "  %.1f experts", r->experts);
    sl_buf_byte(b, '\n');
}

static int report_forward(const struct sl_opts *o, const char *what,
                          const struct sl_bench_row *rows,
                          const struct sl_forward_opts *f,
                          const struct sl_forward_info *info,
                          struct sl_err *err)
{
    json_t *list = json_array();
    struct sl_buf b;

    sl_buf_init(&b, MAX_TABLE);
    sl_buf_fmt(&b,
               "%s: %.2f GB, %u threads, %s, %u tokens of context, median of "
               "%u\n"
               "  rows         ms     rows/s    GB/step  %% read     GMAC/s "
               "%% peak     cost  probe GB/s\n",
               what, (double)info->weight_bytes * 1e-9, info->n_thread,
               info->isa, f->depth, f->n_sample);
    for (uint32_t i = 0; i < f->n_row; i++) {
        row_text(&b, &rows[i], rows[0].s, info);
        json_array_append_new(list, row_json(&rows[i], rows[0].s, info));
    }
    return sl_cli_bench_print(o, &b,
                 json_pack("{s:s, s:I, s:i, s:s, s:i, s:i, s:f, s:o}", "model",
                           what, "weight_bytes",
                           (json_int_t)info->weight_bytes, "threads",
                           (int)info->n_thread, "isa", info->isa, "depth",
                           (int)f->depth, "samples", (int)f->n_sample,
                           "peak_gmacs", info->peak * 1e-9, "rows", list),
                 err);
}

/* The model that is measured: a shape, or what MODEL names. */
static int find_model(char dir[SL_CLI_PATH], struct sl_forward_opts *f,
                      const struct sl_opts *o, struct sl_err *err)
{
    struct sl_opts rest = *o;
    uint32_t n_used;
    int rc;

    if (sl_opts_has(o, SL_OPT_SHAPE)) {
        f->shape = o->value[SL_OPT_SHAPE].s;
        if (!o->value[SL_OPT_LOAD_FORMAT].i)
            return sl_fail(err, SL_EARG,
                           "--shape has no weights; add --load-format dummy");
        return sl_cli_max_args(o, 1, "--shape names the model", err);
    }
    for (rest.n_arg = 0; rest.n_arg + 1 < o->n_arg; rest.n_arg++)
        rest.arg[rest.n_arg] = o->arg[rest.n_arg + 1];
    f->dir = dir;
    rc = sl_cli_model(dir, &rest, &n_used, err);
    return rc ? rc : sl_cli_max_args(&rest, n_used, "one model is enough", err);
}

/* MODEL as the user wrote it. */
static const char *name_of(const struct sl_opts *o)
{
    return sl_opts_has(o, SL_OPT_MODEL) ? o->value[SL_OPT_MODEL].s : o->arg[1];
}

static int forward(const struct sl_opts *o, struct sl_err *err)
{
    const struct sl_opt_value *v = o->value;
    struct sl_bench_row rows[MAX_ROWS];
    struct sl_forward_info info;
    struct sl_engine_opts eo;
    struct sl_progress p;
    char dir[SL_CLI_PATH];
    struct sl_forward_opts f = {.engine = &eo,
                                .depth = (uint32_t)v[SL_OPT_DEPTH].i,
                                .n_sample = (uint32_t)v[SL_OPT_SAMPLES].i};
    const char *what;
    const char *list = v[SL_OPT_ROWS].s ? v[SL_OPT_ROWS].s
                                        : sl_opt_get(SL_OPT_ROWS)->def;
    int rc = parse_rows(rows, &f.n_row, list, err);

    if (!rc)
        rc = find_model(dir, &f, o, err);
    if (rc)
        return rc;
    what = f.shape ? f.shape : name_of(o);
    sl_cli_engine_opts(&eo, o);
    sl_progress_init(&p, what);
    eo.progress = sl_progress_step;
    eo.progress_ctx = &p;
    rc = sl_bench_forward(rows, &info, &f, err);
    sl_progress_end(&p);
    return rc ? rc : report_forward(o, what, rows, &f, &info, err);
}

/* ------------------------------------------------------------------- kernels */

static int kernels(const struct sl_opts *o, struct sl_err *err)
{
    struct sl_bench_kernel k[SL_BENCH_KERNELS];
    json_t *list = json_array();
    struct sl_engine_opts eo;
    struct sl_buf b;
    uint32_t n = 0;
    int rc = sl_cli_max_args(o, 1, "'bench kernels' takes none", err);

    sl_cli_engine_opts(&eo, o);
    if (!rc)
        rc = sl_bench_kernels(k, &n, &eo, err);
    sl_buf_init(&b, MAX_TABLE);
    sl_buf_str(&b, "type    outputs   inputs   tokens         ms     GMAC/s  "
                   "   GB/s  probe GB/s\n");
    for (uint32_t i = 0; i < n; i++) {
        const struct sl_bench_kernel *r = &k[i];

        sl_buf_fmt(&b, "%-6s %8u %8u %8u %10.3f %10.1f %8.1f %8.1f\n", r->type,
                   r->rows, r->cols, r->n_tok, r->s * 1e3,
                   r->macs / r->s * 1e-9, r->bytes / r->s * 1e-9,
                   r->probe * 1e-9);
        json_array_append_new(
            list, json_pack("{s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f}", "type",
                            r->type, "outputs", (int)r->rows, "inputs",
                            (int)r->cols, "tokens", (int)r->n_tok, "ms",
                            r->s * 1e3, "gmac_per_s", r->macs / r->s * 1e-9,
                            "gbs", r->bytes / r->s * 1e-9, "probe_gbs",
                            r->probe * 1e-9));
    }
    if (!rc)
        return sl_cli_bench_print(o, &b, json_pack("{s:o}", "kernels", list), err);
    sl_buf_deinit(&b);
    json_decref(list);
    return rc;
}

/* ---------------------------------------------------------------------- load */

static int load(const struct sl_opts *o, struct sl_err *err)
{
    struct sl_forward_opts f = {0};
    struct sl_engine *e = NULL;
    struct sl_engine_info info;
    char dir[SL_CLI_PATH];
    struct sl_buf b;
    double s = 0;
    int rc = find_model(dir, &f, o, err);

    if (!rc && f.shape)
        rc = sl_fail(err, SL_EARG, "a shape has no files; name a model");
    if (!rc)
        rc = sl_cli_open(&e, &s, o, dir, err);
    if (rc)
        return rc;
    sl_engine_info(e, &info);
    sl_engine_close(&e);
    sl_buf_init(&b, MAX_TABLE);
    sl_buf_fmt(&b, "%s: %.2f GB in %.2f s, %.2f GB/s\n", name_of(o),
               (double)info.weight_bytes * 1e-9, s,
               (double)info.weight_bytes / s * 1e-9);
    return sl_cli_bench_print(o, &b,
                 json_pack("{s:s, s:I, s:f, s:f}", "model", name_of(o),
                           "bytes", (json_int_t)info.weight_bytes, "seconds", s, "gbs",
                           (double)info.weight_bytes / s * 1e-9),
                 err);
}

/* ----------------------------------------------------------------- speculate */

static int speculate(const struct sl_opts *o, struct sl_err *err)
{
    struct sl_forward_opts f = {0};
    char dir[SL_CLI_PATH];
    int rc = find_model(dir, &f, o, err);

    return rc ? rc
              : sl_cli_bench_speculate(o, f.shape ? f.shape : name_of(o),
                                       f.shape ? NULL : dir, err);
}

enum {
    ROOFLINE = 1,
    FORWARD = 2,
    KERNELS = 4,
    LOAD = 8,
    SERVE = 16,
    REPLAY = 32,
    SPECULATE = 64
};

static const struct sl_cli_use uses[] = {
    {SL_OPT_MODEL, FORWARD | LOAD | SPECULATE},
    {SL_OPT_THREADS, ROOFLINE | FORWARD | KERNELS | LOAD | SPECULATE},
    {SL_OPT_PIN, ROOFLINE | FORWARD | KERNELS | LOAD | SPECULATE},
    {SL_OPT_CPU_MASK, ROOFLINE | FORWARD | KERNELS | LOAD | SPECULATE},
    {SL_OPT_KV_DTYPE, FORWARD | SPECULATE},
    {SL_OPT_DTYPE, FORWARD | LOAD | SPECULATE},
    {SL_OPT_LOAD_FORMAT, FORWARD | LOAD | SPECULATE},
    {SL_OPT_SHAPE, FORWARD | LOAD | SPECULATE},
    {SL_OPT_ROWS, FORWARD},
    {SL_OPT_DEPTH, FORWARD},
    {SL_OPT_SAMPLES, FORWARD | SPECULATE},
    {SL_OPT_SEED, SERVE | REPLAY | SPECULATE},
    {SL_OPT_HOST, SERVE | REPLAY},
    {SL_OPT_PORT, SERVE | REPLAY},
    {SL_OPT_API_KEY, SERVE | REPLAY},
    {SL_OPT_SERVED_MODEL_NAME, SERVE | REPLAY},
    {SL_OPT_BACKEND, SERVE},
    {SL_OPT_NUM_PROMPTS, SERVE | SPECULATE},
    {SL_OPT_REQUEST_RATE, SERVE},
    {SL_OPT_MAX_CONCURRENCY, SERVE | SPECULATE},
    {SL_OPT_RANDOM_INPUT_LEN, SERVE | SPECULATE},
    {SL_OPT_RANDOM_OUTPUT_LEN, SERVE | REPLAY},
    {SL_OPT_SYNTHETIC_ACCEPTANCE, SPECULATE},
    {SL_OPT_DRAFTER, SPECULATE},
    {SL_OPT_MAX_TOKENS, SPECULATE},
    {SL_OPT_TEMPERATURE, SPECULATE},
    {SL_OPT_DRAFT_MODEL, SPECULATE},
    {SL_OPT_DRAFT_DTYPE, SPECULATE},
    {SL_OPT_IGNORE_EOS, SPECULATE},
    {SL_OPT_MAX_MODEL_LEN, SPECULATE},
    {SL_OPT_DATASET_PATH, SERVE | SPECULATE},
    {SL_OPT_REPLAY, REPLAY},
};

int sl_cli_bench(const struct sl_opts *o, struct sl_err *err)
{
    static const struct {
        const char *name;
        sl_verb_fn *run;
        unsigned bit;
    } what[] = {{"roofline", roofline, ROOFLINE},
                {"forward", forward, FORWARD},
                {"kernels", kernels, KERNELS},
                {"load", load, LOAD},
                {"speculate", speculate, SPECULATE},
                {"serve", sl_cli_bench_serve, SERVE}};
    const char *name = o->n_arg ? o->arg[0] : "";
    int rc;

    if (!strcmp(name, "serve") && sl_opts_has(o, SL_OPT_REPLAY)) {
        rc = sl_cli_uses(o, uses, SL_COUNTOF(uses), REPLAY, "serve --replay",
                         err);
        return rc ? rc : sl_cli_bench_replay(o, err);
    }

    for (size_t i = 0; i < SL_COUNTOF(what); i++) {
        if (strcmp(name, what[i].name))
            continue;
        rc = sl_cli_uses(o, uses, SL_COUNTOF(uses), what[i].bit, name, err);
        return rc ? rc : what[i].run(o, err);
    }
    return sl_fail(err, SL_EARG,
                   "'%.100s' is nothing that can be measured; say 'roofline', "
                   "'forward', 'kernels', 'load', 'speculate' or 'serve'",
                   name);
}
