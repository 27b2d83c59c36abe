/* cli/convert.c - sluice convert MODEL FILE; and reading a model whole */
#include "cli/verb.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/term.h"
#include "cli/kl.h"
#include "cli/progress.h"
#include "cli/ready.h"
#include "engine/convert.h"
#include "sluice/sluice.h"

/* In the order of the option's words. */
static const struct {
    enum sl_weight_plan plan;
    const char *name;
} dtypes[] = {{SL_WEIGHTS_AUTO, "auto"},
              {SL_WEIGHTS_AUTO, "bf16"},
              {SL_WEIGHTS_Q8, "q8"},
              {SL_WEIGHTS_Q4, "q4"},
              {SL_WEIGHTS_BFP4, "bfp4"}};

static int get_plan(int *out, const struct sl_opts *o, struct sl_err *err)
{
    int64_t i = o->value[SL_OPT_DTYPE].i;

    *out = (int)dtypes[i].plan;
    if (i == 1)
        return sl_fail(err, SL_EUNSUP,
                       "--dtype bfloat16 asks for what the files hold, and "
                       "nothing is converted to it; use auto");
    if (sl_opts_has(o, SL_OPT_CALIBRATE) && *out != SL_WEIGHTS_Q4)
        return sl_fail(err, SL_EARG,
                       "--calibrate changes nothing for --dtype %s, which has "
                       "no scales to search for; use q4",
                       dtypes[i].name);
    return 0;
}

/* Say what was written; `report` is NULL or ended here. */
static int end(const char *path, double s, json_t *report,
               const struct sl_opts *o, struct sl_err *err)
{
    struct sl_file_stamp stamp = {0};
    char text[SL_CLI_BYTES_LEN];

    (void)sl_file_stamp(&stamp, path);
    if (o->value[SL_OPT_JSON].i)
        return sl_cli_print_json(
            json_pack("{s:s, s:I, s:f, s:o*}", "wrote", path, "bytes",
                      (json_int_t)stamp.size, "seconds", s, "report", report),
            err);
    json_decref(report);
    sl_cli_bytes(text, stamp.size);
    sl_note("wrote %s: %s, %.1f s, %.2f GB/s\n", path, text, s,
            s > 0 ? (double)stamp.size / s / 1e9 : 0);
    return 0;
}

static int convert(struct sl_convert_opts *co, const struct sl_opts *o,
                   struct sl_err *err)
{
    struct sl_progress p;
    char *text = NULL;
    int rc = 0;

    if (sl_opts_has(o, SL_OPT_CALIBRATE))
        rc = sl_cli_kl_text(&text, &co->n_calibrate,
                            o->value[SL_OPT_CALIBRATE].s, err);
    co->calibrate = text;
    sl_progress_init(&p, "converting");
    co->progress = sl_progress_step;
    co->progress_ctx = &p;
    if (!rc)
        rc = sl_convert(co, err);
    sl_progress_end(&p);
    sl_file_free(text);
    return rc;
}

int sl_cli_convert(const struct sl_opts *o, struct sl_err *err)
{
    struct sl_convert_opts co = {.n_thread =
                                     (uint32_t)o->value[SL_OPT_THREADS].i};
    char src[SL_CLI_PATH];
    json_t *report = NULL;
    uint64_t t0 = sl_clock_ns();
    double s;
    int rc = get_plan(&co.plan, o, err);

    if (!rc && o->n_arg != 2)
        rc = sl_fail(err, SL_EARG,
                     "'sluice convert' takes a model and the file to write, "
                     "NAME.gguf or NAME.sluice");
    if (!rc)
        rc = sl_cli_folder(src, o->arg[0], err);
    if (!rc && sl_opts_has(o, SL_OPT_REPORT) &&
        sl_file_kind(o->value[SL_OPT_REPORT].s) != SL_FILE_REGULAR)
        rc = sl_fail(err, SL_ENOTFOUND, "'%.300s' is no file with a text",
                     o->value[SL_OPT_REPORT].s);
    if (rc)
        return rc;
    co.src = src;
    co.dst = o->arg[1];
    rc = convert(&co, o, err);
    s = sl_clock_s(t0, sl_clock_ns());
    if (!rc && sl_opts_has(o, SL_OPT_REPORT))
        rc = sl_cli_report(&report, o, src, co.dst,
                           dtypes[o->value[SL_OPT_DTYPE].i].name, err);
    if (!rc)
        return end(co.dst, s, report, o, err);
    json_decref(report);
    return rc;
}

int sl_cli_check(uint64_t *n_bytes, const char *path, struct sl_err *err)
{
    struct sl_convert_opts co = {.src = path};
    struct sl_progress p;
    int rc;

    sl_progress_init(&p, "checking");
    co.progress = sl_progress_step;
    co.progress_ctx = &p;
    rc = sl_convert_verify(n_bytes, &co, err);
    sl_progress_end(&p);
    return rc;
}
