/* cli/rm.c - sluice rm NAME, sluice gc: removing what was fetched */
#include "cli/open.h"
#include "cli/ready.h"
#include "cli/verb.h"

#include "base/term.h"
#include "bundle/choose.h"
#include "bundle/sweep.h"
#include "engine/convert.h"

static void on_removed(void *ctx, const char *what, uint64_t bytes)
{
    char text[SL_CLI_BYTES_LEN], line[SL_TREE_PATH + 400];

    (void)ctx;
    sl_cli_bytes(text, bytes);
    snprintf(line, sizeof(line), "%10s  %s\n", text, what);
    (void)sl_out_str(line, NULL);
}

static void on_kept(void *ctx, const char *what, const char *why)
{
    (void)ctx;
    sl_note("sluice: kept %s: %s\n", what, why);
}

static void init(struct sl_sweep *s, const struct sl_places *p,
                 const struct sl_opts *o)
{
    *s = (struct sl_sweep){.places = p,
                           .dry_run = o->value[SL_OPT_DRY_RUN].i,
                           .removed = on_removed,
                           .kept = on_kept};
}

static void say_sum(const struct sl_sweep *s)
{
    char text[SL_CLI_BYTES_LEN];

    sl_cli_bytes(text, s->bytes);
    sl_note("sluice: %s %s\n", text, s->dry_run ? "would go" : "freed");
}

/* What `name` is: an installed bundle, or a model of which there is a receipt.
 */
struct thing {
    bool is_bundle;
    struct sl_install install;
    char repo[SL_NAME_REPO + 1], sha[SL_NAME_COMMIT + 1]; /* of the weights */
    struct sl_hub_list only; /* with a pick: its files */
};

static int bundle_weights(struct thing *t, struct sl_err *err)
{
    char path[SL_TREE_PATH];
    struct sl_manifest m;
    const json_t *w;
    int rc =
        sl_path_join(path, sizeof(path), t->install.dir, SL_MANIFEST_FILE, err);

    if (!rc)
        rc = sl_manifest_load(&m, path, SL_FORM_BUILT, err);
    if (rc)
        return rc;
    w = json_object_get(m.json, "weights");
    snprintf(t->repo, sizeof(t->repo), "%s",
             json_string_value(json_object_get(w, "repo")));
    snprintf(t->sha, sizeof(t->sha), "%s",
             json_string_value(json_object_get(w, "revision")));
    sl_manifest_deinit(&m);
    return 0;
}

static int find(struct thing *t, const struct sl_places *p, const char *name,
                struct sl_err *err)
{
    char dir[SL_TREE_PATH], file[SL_NAME_PATH + 1];
    struct sl_target target;
    struct sl_store store;
    int rc;

    *t = (struct thing){.is_bundle = true};
    if (!sl_target_is(name))
        return sl_install_get(&t->install, p, name, err);
    rc = sl_target_parse(&target, name, err);
    if (rc)
        return rc;
    if (!*target.pick && !sl_install_from(&t->install, p, target.repo, NULL) &&
        (!*target.rev || !strcmp(target.rev, t->install.sha)))
        return 0;
    t->is_bundle = false;
    snprintf(t->repo, sizeof(t->repo), "%s", target.repo);
    rc = sl_store_init(&store, p, err);
    if (!rc)
        rc = sl_store_ref(&store, t->sha, target.repo,
                          *target.rev ? target.rev : "main", err);
    if (!rc && *target.pick)
        rc = sl_choose_known(&t->only, dir, file, p, &target, t->sha, err);
    return rc;
}

int sl_cli_rm(const struct sl_opts *o, struct sl_err *err)
{
    bool weights = o->value[SL_OPT_WEIGHTS].i;
    struct sl_places p;
    struct sl_sweep s;
    struct thing t;
    int rc;

    if (o->n_arg == 0)
        return sl_fail(err, SL_EARG,
                       "nothing is named; 'sluice list' shows what is here");
    rc = sl_cli_max_args(o, 1, "'sluice rm' takes one name", err);
    if (!rc)
        rc = sl_cli_places(&p, o, err);
    if (!rc)
        rc = find(&t, &p, o->arg[0], err);
    if (rc)
        return rc;
    if (!t.is_bundle && !weights) {
        sl_hub_list_deinit(&t.only);
        return sl_fail(err, SL_EARG,
                       "'%.200s' is a model in the cache that other programs "
                       "use, too; say --weights to remove what this program "
                       "fetched of it",
                       o->arg[0]);
    }
    init(&s, &p, o);
    if (t.is_bundle) {
        if (weights)
            rc = bundle_weights(&t, err);
        if (!rc && !s.dry_run)
            rc = sl_install_remove(&t.install, &p, err);
        if (!rc)
            on_removed(NULL, t.install.dir, 0);
    }
    /* In a dry run the bundle is still there, and must not keep its weights. */
    if (t.is_bundle)
        s.except = t.install.dir;
    if (!rc && weights)
        rc =
            sl_sweep_weights(&s, t.repo, t.sha, t.only.n ? &t.only : NULL, err);
    sl_hub_list_deinit(&t.only);
    if (rc == SL_ENOTFOUND && t.is_bundle)
        rc = 0; /* its weights were never fetched */
    if (!rc)
        say_sum(&s);
    return rc;
}

static void on_packed(void *ctx, const char *path, uint64_t bytes)
{
    struct sl_sweep *s = ctx;

    s->bytes += bytes;
    on_removed(NULL, path, bytes);
}

static int sweep_packed(struct sl_sweep *s, const struct sl_opts *o,
                        struct sl_err *err)
{
    const struct sl_packing_sweep ps = {.days =
                                            (int)o->value[SL_OPT_OLDER_THAN].i,
                                        .dry_run = s->dry_run,
                                        .removed = on_packed,
                                        .ctx = s};
    char dir[SL_CLI_PATH];

    sl_cli_packed_dir(dir, o);
    return *dir ? sl_convert_sweep(dir, &ps, err) : 0;
}

int sl_cli_gc(const struct sl_opts *o, struct sl_err *err)
{
    const struct sl_sweep_opts so = {.days = (int)o->value[SL_OPT_OLDER_THAN].i,
                                     .partials = o->value[SL_OPT_PARTIALS].i,
                                     .weights = o->value[SL_OPT_WEIGHTS].i};
    struct sl_places p;
    struct sl_sweep s;
    int rc = sl_cli_max_args(o, 0, "'sluice gc' takes no argument", err);

    if (!rc)
        rc = sl_cli_places(&p, o, err);
    if (rc)
        return rc;
    init(&s, &p, o);
    rc = sl_sweep_garbage(&s, &so, err);
    if (!rc && o->value[SL_OPT_PACKED].i)
        rc = sweep_packed(&s, o, err);
    if (!rc)
        say_sum(&s);
    return rc;
}
