/* cli/pull.c - sluice pull MODEL: fetch and verify, without running anything */
#include "cli/ready.h"
#include "cli/verb.h"

#include "base/term.h"
#include "bundle/needs.h"
#include "cli/open.h"

/* What a bundle would need of this machine: a warning here, refused by 'serve'.
 */
static void warn_requires(const struct sl_opts *o, const struct sl_ready *r)
{
    const char *name;
    char packed[SL_CLI_PATH], text[300];
    json_t *p = NULL;
    struct sl_err why;

    sl_cli_packed_dir(packed, o);
    if (sl_manifest_profile_name(&name, &r->manifest,
                                 o->value[SL_OPT_PROFILE].s, NULL) ||
        sl_manifest_profile(&p, &r->manifest, name, NULL))
        return;
    if (sl_needs_machine(p, name, false, packed, &why))
        sl_note("sluice: warning: %s\n", why.msg);
    sl_needs_advice(text, sizeof(text), p, name);
    if (*text)
        sl_note("sluice: %s\n", text);
    json_decref(p);
}

static int print(const struct sl_opts *o, const struct sl_ready *r,
                 struct sl_err *err)
{
    const struct sl_install *i = &r->install;
    char text[3 * SL_TREE_PATH];

    if (o->value[SL_OPT_JSON].i)
        return sl_cli_print_json(
            json_pack("{s:s, s:s, s:s, s:s, s:s*, s:s*, s:s*}", "repo",
                      r->has_bundle ? i->repo : r->repo, "revision",
                      r->has_bundle ? i->sha : r->sha, "folder",
                      r->has_bundle ? i->dir : r->dir, "weights", r->dir,
                      "bundle", r->has_bundle ? i->name : NULL, "digest",
                      r->has_bundle ? r->manifest.digest : NULL, "file",
                      *r->file ? r->file : NULL),
            err);
    if (r->has_bundle)
        snprintf(text, sizeof(text), "%s\n", i->dir);
    else
        snprintf(text, sizeof(text), "%s%s%s\n", r->dir, *r->file ? "/" : "",
                 r->file);
    return sl_out_str(text, err);
}

int sl_cli_pull(const struct sl_opts *o, struct sl_err *err)
{
    struct sl_cli_ready r = {.in_use = {.fd = -1}};
    struct sl_pull_opts po;
    struct sl_target t;
    int rc;

    if (o->n_arg == 0)
        return sl_fail(err, SL_EARG, "no model is named; name one as ORG/NAME");
    rc = sl_cli_max_args(o, 1, "'sluice pull' takes one model", err);
    if (!rc)
        rc = sl_target_parse(&t, o->arg[0], err);
    if (!rc)
        rc = sl_cli_places(&r.places, o, err);
    if (rc)
        return rc;
    sl_cli_pull_opts(&po, &r, o);
    po.how = SL_PULL_NEWEST;
    po.weights = o->value[SL_OPT_WITH_WEIGHTS].i;
    po.dry_run = o->value[SL_OPT_DRY_RUN].i;
    sl_cli_catch_interrupt(true);
    rc = sl_pull(&r.hub, &t, &po, err);
    sl_cli_catch_interrupt(false);
    sl_cli_ready_end(&r);
    if (rc)
        return rc;
    r.from_hub = true;
    if (r.hub.has_bundle)
        warn_requires(o, &r.hub);
    if (r.hub.has_bundle && !po.dry_run && sl_opts_has(o, SL_OPT_PIN_REVISION))
        rc = sl_install_pin(&r.hub.install, &r.places,
                            o->value[SL_OPT_PIN_REVISION].i, err);
    if (!rc && !po.dry_run)
        rc = print(o, &r.hub, err);
    sl_cli_ready_deinit(&r);
    return rc;
}
