/* cli/author.c - sluice init, build, push: making and publishing a bundle */
#include "cli/ready.h"
#include "cli/verb.h"

#include "base/num.h"
#include "base/term.h"
#include "bundle/build.h"
#include "bundle/push.h"
#include "sluice/sluice.h"

extern char **environ;

int sl_cli_init(const struct sl_opts *o, struct sl_err *err)
{
    const char *dir = o->n_arg ? o->arg[0] : ".";
    struct sl_cli_ready r = {.in_use = {.fd = -1}};
    struct sl_pull_opts po;
    struct sl_target t;
    char *text = NULL;
    json_t *about = NULL;
    int rc = sl_cli_max_args(o, 1, "'sluice init' takes one folder", err);

    if (!rc && !o->value[SL_OPT_MODEL].s)
        rc = sl_fail(err, SL_EARG, "name the weights with --model ORG/NAME");
    if (!rc)
        rc = sl_target_parse(&t, o->value[SL_OPT_MODEL].s, err);
    if (!rc)
        rc = sl_cli_places(&r.places, o, err);
    if (rc)
        return rc;
    sl_cli_pull_opts(&po, &r, o);
    po.how = SL_PULL_NEWEST;
    po.small = true;
    po.plan = NULL;
    rc = sl_pull(&r.hub, &t, &po, err);
    sl_cli_ready_end(&r);
    if (rc)
        return rc;
    rc = sl_inspect(&text, r.hub.dir, err);
    if (!rc)
        rc = sl_json_parse(&about, text, strlen(text), "the description", err);
    if (!rc)
        rc = sl_build_init(dir, t.repo, *t.rev ? t.rev : "main", about, err);
    if (!rc)
        sl_note("sluice: wrote %s/%s; edit it, then 'sluice build %s'\n", dir,
                SL_MANIFEST_AUTHORED, dir);
    sl_free(text);
    json_decref(about);
    sl_ready_deinit(&r.hub);
    return rc;
}

/* SOURCE_DATE_EPOCH, as reproducible-builds.org has it; else now. */
static int build_time(struct sl_build_opts *bo, struct sl_err *err)
{
    static const char name[] = "SOURCE_DATE_EPOCH=";

    bo->time_s = (int64_t)time(NULL);
    for (char **e = environ; *e; e++)
        if (!strncmp(*e, name, sizeof(name) - 1)) {
            const char *v = *e + sizeof(name) - 1;

            bo->reproducible = true;
            return sl_num_i64(&bo->time_s, v, strlen(v), 0, (int64_t)1 << 40,
                              "SOURCE_DATE_EPOCH", err);
        }
    return 0;
}

int sl_cli_build(const struct sl_opts *o, struct sl_err *err)
{
    struct sl_build_opts bo = {.dir = o->n_arg ? o->arg[0] : ".",
                               .out = o->value[SL_OPT_OUT].s};
    struct sl_client_opts co = {.agent = "sluice/" SL_VERSION};
    struct sl_places places;
    struct sl_manifest m;
    char out[SL_TREE_PATH], dir[SL_TREE_PATH];
    size_t n;
    int rc = sl_cli_max_args(o, 1, "'sluice build' takes one folder", err);

    if (!rc)
        rc = sl_tree_real(dir, bo.dir, err);
    if (!rc)
        rc = sl_cli_places(&places, o, err);
    if (!rc)
        rc = build_time(&bo, err);
    if (rc)
        return rc;
    n = strlen(dir);
    snprintf(out, sizeof(out), "%.*s-built", (int)sl_min(n, sizeof(out) - 8),
             dir);
    if (!bo.out)
        bo.out = out;
    co.places = &places;
    rc = sl_client_open(&bo.client, &co, err);
    if (!rc)
        rc = sl_build(&m, &bo, err);
    sl_client_close(&bo.client);
    if (rc)
        return rc;
    if (o->value[SL_OPT_JSON].i)
        rc = sl_cli_print_json(
            json_pack("{s:s, s:s}", "folder", bo.out, "digest", m.digest), err);
    else
        rc = sl_out_str(bo.out, err) ? SL_EIO : sl_out_str("\n", err);
    sl_manifest_deinit(&m);
    return rc;
}

static void on_file(void *ctx, const char *path, const char *how)
{
    (void)ctx;
    sl_note("sluice: %s %s\n", how, path);
}

static void on_note(void *ctx, const char *text)
{
    (void)ctx;
    sl_note("sluice: %s\n", text);
}

int sl_cli_push(const struct sl_opts *o, struct sl_err *err)
{
    const char *branch = o->value[SL_OPT_BRANCH].s;
    struct sl_client_opts co = {.agent = "sluice/" SL_VERSION,
                                .note = on_note};
    struct sl_push_opts po = {.branch = branch ? branch : "main",
                              .parent = o->value[SL_OPT_EXPECT_PARENT].s,
                              .is_public = o->value[SL_OPT_PUBLIC].i,
                              .dry_run = o->value[SL_OPT_DRY_RUN].i,
                              .file = on_file};
    struct sl_push_result result;
    struct sl_places places;
    int rc = o->n_arg == 2
                 ? 0
                 : sl_fail(err, SL_EARG,
                           "say which built folder, and the repository as "
                           "ORG/NAME");

    if (!rc)
        rc = sl_cli_places(&places, o, err);
    if (rc)
        return rc;
    po.dir = o->arg[0];
    po.repo = o->arg[1];
    co.places = &places;
    rc = sl_client_open(&po.client, &co, err);
    if (!rc)
        rc = sl_push(&result, &po, err);
    sl_client_close(&po.client);
    if (rc)
        return rc;
    if (result.n_sent + result.n_removed == 0)
        sl_note("sluice: '%s' has all of it already\n", po.repo);
    if (po.dry_run)
        return 0;
    if (o->value[SL_OPT_JSON].i)
        return sl_cli_print_json(
            json_pack("{s:s, s:s, s:I, s:I}", "repo", po.repo, "revision",
                      result.sha, "sent", (json_int_t)result.n_sent, "removed",
                      (json_int_t)result.n_removed),
            err);
    rc = sl_out_str(result.sha, err);
    return rc ? rc : sl_out_str("\n", err);
}
