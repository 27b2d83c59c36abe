/* cli/convert.c - sluice convert MODEL FILE; and reading a model whole */
#include "cli/verb.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/term.h"
#include "cli/progress.h"
#include "cli/ready.h"
#include "engine/convert.h"
#include "sluice/sluice.h"

static int get_plan(int *out, const struct sl_opts *o, struct sl_err *err)
{
    /* In the order of the option's words. */
    static const enum sl_weight_plan plan[] = {SL_WEIGHTS_AUTO, SL_WEIGHTS_AUTO,
                                               SL_WEIGHTS_Q8, SL_WEIGHTS_Q4,
                                               SL_WEIGHTS_BFP4};
    int64_t i = o->value[SL_OPT_DTYPE].i;

    if (i == 1)
        return sl_fail(err, SL_EUNSUP,
                       "--dtype bfloat16 asks for what the files hold, and "
                       "nothing is converted to it; use auto");
    *out = (int)plan[i];
    return 0;
}

static int end(const char *what, const char *path, uint64_t bytes, double s,
               bool json, struct sl_err *err)
{
    char text[SL_CLI_BYTES_LEN];

    if (json)
        return sl_cli_print_json(json_pack("{s:s, s:I, s:f}", what, path,
                                           "bytes", (json_int_t)bytes,
                                           "seconds", s),
                                 err);
    sl_cli_bytes(text, bytes);
    sl_note("%s %s: %s, %.1f s, %.2f GB/s\n", what, path, text, s,
            s > 0 ? (double)bytes / s / 1e9 : 0);
    return 0;
}

int sl_cli_convert(const struct sl_opts *o, struct sl_err *err)
{
    struct sl_convert_opts co = {.n_thread =
                                     (uint32_t)o->value[SL_OPT_THREADS].i};
    char src[SL_CLI_PATH];
    struct sl_file_stamp stamp = {0};
    struct sl_progress p;
    uint64_t t0;
    int rc = get_plan(&co.plan, o, err);

    if (!rc && o->n_arg != 2)
        rc = sl_fail(err, SL_EARG,
                     "'sluice convert' takes a model and the file to write, "
                     "NAME.gguf or NAME.sluice");
    if (!rc)
        rc = sl_cli_folder(src, o->arg[0], err);
    if (rc)
        return rc;
    co.src = src;
    co.dst = o->arg[1];
    sl_progress_init(&p, "converting");
    co.progress = sl_progress_step;
    co.progress_ctx = &p;
    t0 = sl_clock_ns();
    rc = sl_convert(&co, err);
    sl_progress_end(&p);
    if (rc)
        return rc;
    (void)sl_file_stamp(&stamp, co.dst);
    return end("wrote", co.dst, stamp.size, sl_clock_s(t0, sl_clock_ns()),
               o->value[SL_OPT_JSON].i, err);
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
