/* cli/ready.c - what a user calls a model -> a folder; see ready.h */
#include "cli/ready.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/term.h"
#include "bundle/needs.h"
#include "bundle/setting.h"
#include "cli/open.h"
#include "cli/verb.h"
#include "sluice/sluice.h"

extern char **environ;

static atomic_bool interrupted; /* set by the signal handler */

static void on_interrupt(void *ctx)
{
    (void)ctx;
    atomic_store_explicit(&interrupted, true, memory_order_relaxed);
}

void sl_cli_catch_interrupt(bool on)
{
    (void)sl_term_on_interrupt(
        (struct sl_on_interrupt){on ? on_interrupt : NULL, NULL});
}

static bool is_cancelled(void *ctx)
{
    (void)ctx;
    return atomic_load_explicit(&interrupted, memory_order_relaxed);
}

/* ------------------------------------------------------------- terminal */

static const char *const phase_name[SL_N_PULL_PHASE] = {
    "resolve", "plan", "verify", "download", "install"};

void sl_cli_ready_end(struct sl_cli_ready *r)
{
    double s = sl_clock_s(r->phase_ns, sl_clock_ns());

    sl_bars_end(&r->bars);
    if (r->phase >= 0 && r->say_phases)
        sl_note("sluice: %s: %.1f s\n", phase_name[r->phase], s);
    if (r->phase >= 0)
        r->phase_s[r->phase] += s;
    r->phase = -1;
}

static void on_phase(void *ctx, enum sl_pull_phase p)
{
    struct sl_cli_ready *r = ctx;

    if (r->phase == (int)p)
        return;
    sl_cli_ready_end(r);
    r->phase = (int)p;
    r->phase_ns = sl_clock_ns();
    if (p == SL_PULL_DOWNLOAD)
        sl_bars_init(&r->bars);
}

static void on_plan(void *ctx, const struct sl_pull_plan *p)
{
    struct sl_cli_ready *r = ctx;
    char all[SL_CLI_BYTES_LEN], miss[SL_CLI_BYTES_LEN], old[SL_CLI_BYTES_LEN],
        room[SL_CLI_BYTES_LEN];

    sl_bars_end(&r->bars);
    sl_cli_bytes(all, p->bytes);
    sl_cli_bytes(miss, p->missing);
    sl_cli_bytes(old, p->resumed);
    sl_cli_bytes(room, p->free);
    if (p->n_missing == 0)
        sl_note("sluice: %s@%.12s: %zu files, %s, all here\n", p->repo, p->sha,
                p->n_file, all);
    else
        sl_note("sluice: %s@%.12s: %zu files, %s; to fetch: %zu, %s%s%s; %s "
                "free\n",
                p->repo, p->sha, p->n_file, all, p->n_missing, miss,
                p->resumed ? ", goes on after " : "", p->resumed ? old : "",
                room);
}

static void on_step(void *ctx, const struct sl_fetch_step *s)
{
    struct sl_cli_ready *r = ctx;

    sl_bars_step(&r->bars, s);
}

static void on_note(void *ctx, const char *text)
{
    struct sl_cli_ready *r = ctx;

    sl_bars_end(&r->bars);
    sl_note("sluice: %s\n", text);
}

/* Before the weights come: what is this? */
static int on_check(void *ctx, const char *dir, struct sl_err *err)
{
    char *text = NULL;
    int rc = sl_inspect(&text, dir, err);

    (void)ctx;
    sl_free(text);
    return rc;
}

void sl_cli_pull_opts(struct sl_pull_opts *po, struct sl_cli_ready *r,
                      const struct sl_opts *o)
{
    r->phase = -1;
    sl_bars_init(&r->bars);
    *po = (struct sl_pull_opts){.places = &r->places,
                                .how = SL_PULL_HERE,
                                .update = o->value[SL_OPT_UPDATE].i,
                                .profile = o->value[SL_OPT_PROFILE].s,
                                .agent = "sluice/" SL_VERSION,
                                .phase = on_phase,
                                .plan = on_plan,
                                .step = on_step,
                                .note = on_note,
                                .cancelled = is_cancelled,
                                .check = on_check,
                                .ctx = r};
}

int sl_cli_places(struct sl_places *p, const struct sl_opts *o,
                  struct sl_err *err)
{
    int rc = sl_places_init(p, environ, err);

    if (rc)
        return rc;
    if (o->value[SL_OPT_OFFLINE].i)
        p->offline = true;
    if (o->value[SL_OPT_CACHE_DIR].s &&
        snprintf(p->hub, sizeof(p->hub), "%s", o->value[SL_OPT_CACHE_DIR].s) >=
            (int)sizeof(p->hub))
        return sl_fail(err, SL_EARG, "--cache-dir is too long");
    if (o->value[SL_OPT_TOKEN_FILE].s)
        rc = sl_places_token(p, o->value[SL_OPT_TOKEN_FILE].s, err);
    return rc;
}

/* -------------------------------------------------------------- bundles */

/* Parsers and a template that the bundle names are options, too. */
static int add_capabilities(struct sl_cli_ready *r, struct sl_opts *o,
                            struct sl_err *err)
{
    static const char *const key[] = {"tool_call_parser", "reasoning_parser"};
    const json_t *c = json_object_get(r->hub.manifest.json, "capabilities");
    const char *template =
        json_string_value(json_object_get(c, "chat_template"));
    int rc = 0;

    for (size_t i = 0; o->verb == SL_VERB_SERVE && i < SL_COUNTOF(key); i++) {
        json_t *v = json_object_get(c, key[i]);

        if (v && json_object_set(r->flat, key[i], v))
            return sl_fail(err, SL_ENOMEM, "no memory is left");
    }
    if (template && strcmp(template, "weights")) {
        rc = sl_path_join(r->template, sizeof(r->template), r->hub.install.dir,
                          template, err);
        if (!rc && json_object_set_new(r->flat, "chat_template",
                                       json_string(r->template)))
            rc = sl_fail(err, SL_ENOMEM, "no memory is left");
    }
    if (!rc)
        rc = sl_opts_profile(o, r->flat, err);
    return rc == SL_EARG ? sl_fail(err, SL_EUNSUP,
                                   "the bundle asks for something that this "
                                   "version cannot do: %s",
                                   (err ? *err : (struct sl_err){0}).msg)
                         : rc;
}

/* The drafter that was fetched becomes --draft-model, unless somebody who ranks
 * higher wants no block drafter. */
static int add_drafter(struct sl_cli_ready *r, const struct sl_opts *o,
                       struct sl_err *err)
{
    static const bool may_flash[] = {true, false, false, true, false};
    enum { SPECULATE_OFF = 1 };

    if (!*r->hub.drafter || o->value[SL_OPT_SPECULATE].i == SPECULATE_OFF ||
        !may_flash[o->value[SL_OPT_DRAFTER].i])
        return 0;
    return json_object_set_new(r->flat, "draft_model",
                               json_string(r->hub.drafter))
               ? sl_fail(err, SL_ENOMEM, "no memory is left")
               : 0;
}

/* What this machine and these weights must have, and what would help. */
static int check_needs(struct sl_cli_ready *r, const struct sl_opts *o,
                       enum sl_cli_want want, struct sl_err *err)
{
    char packed[SL_CLI_PATH], text[300];
    int rc;

    sl_cli_packed_dir(packed, o);
    rc = sl_needs_machine(r->profile, r->profile_name,
                          o->value[SL_OPT_FORCE].i, packed, err);
    if (!rc && want == SL_WANT_ALL)
        rc = sl_needs_checkpoint(&r->hub.manifest, r->profile_name, r->hub.dir,
                                 err);
    if (rc)
        return rc;
    sl_needs_advice(text, sizeof(text), r->profile, r->profile_name);
    if (*text)
        sl_note("sluice: %s\n", text);
    return 0;
}

/* Sampling that the bundle recommends where a request is silent. */
static int add_sampling(struct sl_cli_ready *r, struct sl_err *err)
{
    const json_t *s = json_object_get(r->hub.manifest.json, "sampling");
    const char *source = json_string_value(json_object_get(s, "source"));
    json_t *values;
    char *text;
    int bad;

    if (!s || (source && strcmp(source, "bundle")))
        return 0;
    values = json_copy((json_t *)(uintptr_t)s);
    (void)json_object_del(values, "source");
    text = values ? json_dumps(values, JSON_COMPACT) : NULL;
    bad = !text || json_object_set_new(r->flat, "override_generation_config",
                                       json_string(text));
    free(text); /* jansson's own */
    json_decref(values);
    return bad ? sl_fail(err, SL_ENOMEM, "no memory is left") : 0;
}

static void add_names(struct sl_cli_ready *r)
{
    const json_t *model = json_object_get(r->hub.manifest.json, "model");
    json_t *v;
    size_t i;

    r->name[0] = sl_manifest_str(&r->hub.manifest, "model", "id");
    r->n_name = 1;
    json_array_foreach(json_object_get(model, "aliases"), i, v)
    {
        if (r->n_name < SL_CLI_NAMES) /* no manifest has more */
            r->name[r->n_name++] = json_string_value(v);
    }
}

/* A bundle's manifest -> options, names, and a lock on its files. */
static int apply_bundle(struct sl_cli_ready *r, struct sl_opts *o,
                        enum sl_cli_want want, struct sl_err *err)
{
    const struct sl_manifest *m = &r->hub.manifest;
    const char *asked = o->value[SL_OPT_PROFILE].s;
    char lock[SL_TREE_PATH + 8];
    int rc = sl_manifest_profile_name(&r->profile_name, m, asked, err);

    if (!rc && asked && strcmp(asked, r->profile_name))
        sl_note("sluice: profile '%s' is called '%s' now\n", asked,
                r->profile_name);
    if (!rc)
        rc = sl_manifest_profile(&r->profile, m, r->profile_name, err);
    if (!rc)
        rc = sl_setting_apply(&r->flat, o, r->profile, r->profile_name, err);
    if (!rc)
        rc = check_needs(r, o, want, err);
    if (!rc)
        rc = add_drafter(r, o, err);
    if (!rc)
        rc = add_sampling(r, err);
    if (!rc)
        rc = add_capabilities(r, o, err);
    if (!rc)
        add_names(r);
    if (rc || !r->from_hub)
        return rc;
    snprintf(lock, sizeof(lock), "%s.json", r->hub.install.dir);
    return sl_lockfile_take(&r->in_use, lock, SL_LOCK_SHARED, 1000,
                            r->hub.install.name, NULL, err);
}

/* A checkpoint or GGUF model of a hub has two profiles: with its draft head,
 * and plain. Without a word everything drafts that can. */
static int apply_implicit(struct sl_cli_ready *r, struct sl_opts *o,
                          struct sl_err *err)
{
    const char *want = o->value[SL_OPT_PROFILE].s;
    bool plain = want && !strcmp(want, "plain");
    char *text = NULL;
    json_t *about = NULL;
    int rc = 0;

    if (!want)
        return 0;
    if (!plain)
        rc = sl_inspect(&text, r->path, err);
    if (!rc && !plain)
        rc = sl_json_parse(&about, text, strlen(text), "the description", err);
    if (!rc && !plain && !json_is_true(json_object_get(about, "mtp")))
        rc = sl_fail(err, SL_EUNSUP,
                     "'%s' has no draft head, so there is no profile "
                     "spec-decode; use --profile plain",
                     r->hub.repo);
    sl_free(text);
    json_decref(about);
    if (rc)
        return rc;
    r->flat = json_pack("{s:s}", "speculate", plain ? "off" : "all");
    r->profile_name = plain ? "plain" : "spec-decode";
    return r->flat ? sl_opts_profile(o, r->flat, err)
                   : sl_fail(err, SL_ENOMEM, "no memory is left for a profile");
}

/* ------------------------------------------------------------- resolving */

static bool is_installed(const struct sl_cli_ready *r, const char *name)
{
    struct sl_install i;

    return !sl_install_get(&i, &r->places, name, NULL);
}

static int get_from_hub(struct sl_cli_ready *r, struct sl_opts *o,
                        enum sl_cli_want want, const char *name,
                        struct sl_err *err)
{
    struct sl_pull_opts po;
    struct sl_target t;
    int rc;

    sl_cli_pull_opts(&po, r, o);
    po.weights = true;
    po.small = want == SL_WANT_SMALL || want == SL_WANT_PLAN;
    if (po.small)
        po.plan = NULL;
    r->say_phases = o->verb == SL_VERB_SERVE;
    sl_cli_catch_interrupt(true);
    if (sl_target_is(name)) {
        rc = sl_target_parse(&t, name, err);
        if (!rc)
            rc = sl_pull(&r->hub, &t, &po, err);
    } else {
        rc = sl_pull_installed(&r->hub, name, &po, err);
    }
    sl_cli_catch_interrupt(false);
    sl_cli_ready_end(r);
    if (rc)
        return rc;
    r->from_hub = true;
    if (!r->hub.has_bundle && o->value[SL_OPT_FORCE].from == SL_FROM_LINE)
        return sl_fail(err, SL_EARG,
                       "--force is for what a bundle requires, and '%.200s' is "
                       "no bundle; leave it away",
                       name);
    r->name[0] = r->hub.repo;
    r->n_name = 1;
    if (*r->hub.file)
        rc = sl_path_join(r->path, sizeof(r->path), r->hub.dir, r->hub.file,
                          err);
    else
        snprintf(r->path, sizeof(r->path), "%s", r->hub.dir);
    if (!rc && (want == SL_WANT_ALL || want == SL_WANT_PLAN))
        rc = r->hub.has_bundle ? apply_bundle(r, o, want, err)
                               : apply_implicit(r, o, err);
    return rc;
}

static bool is_demo(const char *name)
{
    return !strcmp(name, "demo") && sl_file_kind(name) == SL_FILE_NONE;
}

/* The bundle of the embedded model lies in bundles/demo beside models/. */
static int demo_manifest(struct sl_manifest *out, const char *dir,
                         struct sl_err *err)
{
    char path[SL_TREE_PATH];
    int rc = sl_path_join(path, sizeof(path), dir,
                          "../../bundles/demo/" SL_MANIFEST_AUTHORED, err);

    return rc ? rc : sl_manifest_load(out, path, SL_FORM_AUTHORED, err);
}

static int get_demo(struct sl_cli_ready *r, struct sl_opts *o,
                    enum sl_cli_want want, struct sl_err *err)
{
    int rc = sl_cli_folder(r->path, "demo", err);

    if (rc || want != SL_WANT_ALL)
        return rc;
    snprintf(r->hub.dir, sizeof(r->hub.dir), "%s", r->path);
    rc = demo_manifest(&r->hub.manifest, r->path, err);
    r->hub.has_bundle = !rc;
    if (!rc)
        rc = sl_needs_program(&r->hub.manifest, err);
    if (!rc)
        rc = apply_bundle(r, o, want, err);
    /* Its short name comes first. */
    r->name[0] = "demo";
    r->name[1] = rc ? "" : sl_manifest_str(&r->hub.manifest, "model", "id");
    r->n_name = 2;
    return rc;
}

/* A model that lies here: no variable of the hub matters. */
static int get_local(struct sl_cli_ready *r, struct sl_opts *o,
                     enum sl_cli_want want, const char *name,
                     struct sl_err *err)
{
    static const enum sl_opt_id no[] = {SL_OPT_UPDATE, SL_OPT_FORCE};
    const char *profile = o->value[SL_OPT_PROFILE].s;
    int rc = sl_places_local(&r->places, environ, err);

    for (size_t i = 0; !rc && i < SL_COUNTOF(no); i++)
        if (o->value[no[i]].from == SL_FROM_LINE)
            rc = sl_fail(err, SL_EARG,
                         "--%s is for what comes from a hub, and '%.200s' lies "
                         "here; leave it away",
                         sl_opt_get(no[i])->name, name);

    if (!rc && is_demo(name))
        return get_demo(r, o, want, err);
    if (!rc && profile)
        rc = sl_fail(err, SL_EARG,
                     "profile '%.96s' is asked for, and '%.200s' is no bundle "
                     "that is installed; leave --profile away",
                     profile, name);
    return rc ? rc : sl_cli_folder(r->path, name, err);
}

int sl_cli_ready_init(struct sl_cli_ready *r, struct sl_opts *o,
                      enum sl_cli_want want, uint32_t *n_used,
                      struct sl_err *err)
{
    const struct sl_opt_value *v = &o->value[SL_OPT_MODEL];
    const char *name = v->s;
    int rc;

    *r = (struct sl_cli_ready){.phase = -1, .in_use = {.fd = -1}};
    *n_used = 0;
    if (v->from != SL_FROM_LINE && o->n_arg > 0) {
        name = o->arg[0];
        *n_used = 1;
    }
    if (!name || !*name)
        return sl_fail(err, SL_EARG,
                       "no model is named; name a checkpoint folder, a model "
                       "on a hub as ORG/NAME, or 'demo' for the embedded one");
    if (!strcmp(name, "demo") || sl_file_kind(name) != SL_FILE_NONE)
        return get_local(r, o, want, name, err);
    rc = sl_cli_places(&r->places, o, err);
    if (rc)
        return rc;
    if (sl_target_is(name) || is_installed(r, name))
        return get_from_hub(r, o, want, name, err);
    return sl_cli_folder(r->path, name, err);
}

json_t *sl_cli_ready_source(const struct sl_cli_ready *r)
{
    const struct sl_ready *h = &r->hub;
    json_t *j, *phases = json_object();

    if (!r->from_hub) {
        json_decref(phases);
        return NULL;
    }
    for (size_t i = 0; i < SL_COUNTOF(phase_name); i++)
        json_object_set_new(phases, phase_name[i],
                            json_real((double)(int64_t)(r->phase_s[i] * 1e3) /
                                      1e3));
    j = json_pack("{s:{s:s, s:s}, s:o}", "weights", "repo", h->repo, "revision",
                  h->sha, "fetching_s", phases);
    if (j && *h->drafter_repo)
        json_object_set_new(j, "drafter",
                            json_pack("{s:s, s:s}", "repo", h->drafter_repo,
                                      "revision", h->drafter_sha));
    if (j && h->has_bundle)
        json_object_set_new(
            j, "bundle",
            json_pack("{s:s, s:s, s:s, s:s, s:s*}", "name", h->install.name,
                      "repo", h->install.repo, "revision", h->install.sha,
                      "digest", h->manifest.digest, "profile",
                      r->profile_name));
    return j;
}

static int folder_manifest(struct sl_manifest *out, const char *dir,
                           struct sl_err *err)
{
    static const struct {
        const char *file;
        enum sl_form form;
    } try[] = {{SL_MANIFEST_FILE, SL_FORM_BUILT},
               {SL_MANIFEST_FOREIGN, SL_FORM_BUILT},
               {SL_MANIFEST_AUTHORED, SL_FORM_AUTHORED}};
    char path[SL_TREE_PATH];

    for (size_t i = 0; i < SL_COUNTOF(try); i++)
        if (!sl_path_join(path, sizeof(path), dir, try[i].file, NULL) &&
            sl_file_kind(path) == SL_FILE_REGULAR)
            return sl_manifest_load(out, path, try[i].form, err);
    return sl_fail(err, SL_ENOTFOUND, "'%.300s' has no %s", dir,
                   SL_MANIFEST_FILE);
}

int sl_cli_manifest(struct sl_manifest *out, const struct sl_opts *o,
                    const char *name, struct sl_err *err)
{
    struct sl_cli_ready r = {.in_use = {.fd = -1}};
    struct sl_pull_opts po;
    struct sl_install i;
    struct sl_target t;
    int rc;

    if (sl_file_kind(name) == SL_FILE_DIR)
        return folder_manifest(out, name, err);
    if (is_demo(name)) {
        char dir[SL_CLI_PATH];

        rc = sl_cli_folder(dir, name, err);
        return rc ? rc : demo_manifest(out, dir, err);
    }
    rc = sl_cli_places(&r.places, o, err);
    if (rc)
        return rc;
    if (!sl_target_is(name)) {
        rc = sl_install_get(&i, &r.places, name, err);
        return rc ? rc : folder_manifest(out, i.dir, err);
    }
    rc = sl_target_parse(&t, name, err);
    if (rc)
        return rc;
    sl_cli_pull_opts(&po, &r, o);
    rc = sl_pull_manifest(out, &t, &po, err);
    sl_cli_ready_end(&r);
    return rc;
}

int sl_cli_model(char path[SL_TREE_PATH], const struct sl_opts *o,
                 uint32_t *n_used, struct sl_err *err)
{
    struct sl_opts opts = *o;
    struct sl_cli_ready r;
    int rc = sl_cli_ready_init(&r, &opts, SL_WANT_WEIGHTS, n_used, err);

    if (!rc)
        memcpy(path, r.path, sizeof(r.path));
    sl_cli_ready_deinit(&r);
    return rc;
}

void sl_cli_ready_deinit(struct sl_cli_ready *r)
{
    sl_lockfile_give(&r->in_use);
    json_decref(r->flat);
    json_decref(r->profile);
    r->flat = r->profile = NULL;
    if (r->from_hub || r->hub.has_bundle)
        sl_ready_deinit(&r->hub);
}
