/* cli/convert.c - sluice convert MODEL [FILE]; and reading a model whole */
#include "cli/verb.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/term.h"
#include "cli/kl.h"
#include "cli/open.h"
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

/* The file to write, or NULL for the folder of packed ones. */
static int get_dst(const char **out, const struct sl_opts *o,
                   struct sl_err *err)
{
    const char *by_option = o->value[SL_OPT_OUT].s;

    *out = o->n_arg == 2 ? o->arg[1] : by_option;
    if (o->n_arg < 1 || o->n_arg > 2 || (o->n_arg == 2 && by_option))
        return sl_fail(err, SL_EARG,
                       "'sluice convert' takes a model and at most one file to "
                       "write, NAME.gguf or NAME.sluice");
    if (*out && o->value[SL_OPT_PACKED_DIR].from == SL_FROM_LINE)
        return sl_fail(err, SL_EARG,
                       "--packed-dir is where the packed file is kept when no "
                       "file is named; remove it or '%.300s'",
                       *out);
    if (!*out && sl_opts_has(o, SL_OPT_CALIBRATE))
        return sl_fail(err, SL_EARG,
                       "what --calibrate makes is not what run and serve look "
                       "for in the folder of packed files; name a file, and "
                       "run that");
    return 0;
}

struct job {
    struct sl_convert_opts co;
    char src[SL_CLI_PATH], *kept; /* NULL: the file was named */
    char *calibrate, *report;     /* texts, or NULL */
    size_t n_report;
};

/* What can be known before the work. */
static int prepare(struct job *j, const struct sl_opts *o, struct sl_err *err)
{
    const char *calibrate = o->value[SL_OPT_CALIBRATE].s;
    const char *report = o->value[SL_OPT_REPORT].s;
    int rc = get_plan(&j->co.plan, o, err);

    if (!rc)
        rc = get_dst(&j->co.dst, o, err);
    if (!rc)
        rc = sl_cli_folder(j->src, o->arg[0], err);
    if (!rc)
        rc = sl_cli_dtype_check(o, j->src, err);
    if (!rc && calibrate)
        rc = sl_cli_kl_text(&j->calibrate, &j->co.n_calibrate, calibrate, err);
    if (!rc && report)
        rc = sl_cli_kl_text(&j->report, &j->n_report, report, err);
    j->co.src = j->src;
    j->co.calibrate = j->calibrate;
    j->co.n_thread = (uint32_t)o->value[SL_OPT_THREADS].i;
    j->co.pin = o->value[SL_OPT_PIN].i;
    return rc;
}

static int convert(struct job *j, const struct sl_opts *o, struct sl_err *err)
{
    char dir[SL_CLI_PATH];
    struct sl_progress p;
    int rc;

    sl_cli_packed_dir(dir, o);
    if (!j->co.dst && !*dir)
        return sl_fail(err, SL_EARG,
                       "there is no folder for packed files without HOME; name "
                       "a file or --packed-dir");
    sl_progress_init(&p, "converting");
    j->co.progress = sl_progress_step;
    j->co.progress_ctx = &p;
    rc = j->co.dst ? sl_convert(&j->co, err)
                   : sl_convert_keep(&j->kept, &j->co, dir, err);
    sl_progress_end(&p);
    if (j->kept)
        j->co.dst = j->kept;
    return rc;
}

int sl_cli_convert(const struct sl_opts *o, struct sl_err *err)
{
    struct job j = {.kept = NULL};
    json_t *report = NULL;
    uint64_t t0 = sl_clock_ns();
    double s;
    int rc = prepare(&j, o, err);

    if (!rc)
        rc = convert(&j, o, err);
    s = sl_clock_s(t0, sl_clock_ns());
    if (!rc && j.report)
        rc = sl_cli_report(&report, o, j.report, j.n_report, j.src, j.co.dst,
                           dtypes[o->value[SL_OPT_DTYPE].i].name, err);
    if (!rc)
        rc = end(j.co.dst, s, report, o, err);
    else
        json_decref(report);
    sl_mem_free(j.kept);
    sl_file_free(j.calibrate);
    sl_file_free(j.report);
    return rc;
}

int sl_cli_check(uint64_t *n_bytes, const char *path, const struct sl_opts *o,
                 struct sl_err *err)
{
    struct sl_convert_opts co = {.src = path,
                                 .n_thread =
                                     (uint32_t)o->value[SL_OPT_THREADS].i,
                                 .pin = o->value[SL_OPT_PIN].i};
    struct sl_progress p;
    int rc;

    sl_progress_init(&p, "checking");
    co.progress = sl_progress_step;
    co.progress_ctx = &p;
    rc = sl_convert_verify(n_bytes, &co, err);
    sl_progress_end(&p);
    return rc;
}
