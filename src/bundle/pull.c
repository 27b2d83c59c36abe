/* bundle/pull.c - from the name of a model to a folder; see pull.h
 *
 *   resolve     the name to a commit, the commit to a list of files
 *   plan        which of them are here and verified, is there room
 *   download    the small ones first: a checkpoint that cannot be run is told
 *               before its weights are fetched
 *   install     a bundle's own files
 *
 * Of a bundle the access to the weights is tried before its files are fetched:
 * who has yet to accept a licence learns it in seconds.
 */
#include "bundle/pull.h"

#include "base/mem.h"
#include "bundle/adopt.h"
#include "bundle/choose.h"
#include "bundle/needs.h"
#include "bundle/setting.h"

#define STORE_WAIT_MS 60000 /* for a garbage collection to end */
#define FRESH_S 3 /* how long 'serve' may ask for a newer commit */

static int begin(struct sl_pulling *p, const struct sl_pull_opts *o,
                 struct sl_err *err)
{
    const struct sl_client_opts ho = {.places = o->places,
                                      .agent = o->agent,
                                      .note = o->note,
                                      .cancelled = o->cancelled,
                                      .ctx = o->ctx};
    int rc = sl_store_init(&p->store, o->places, err);

    p->o = o;
    p->http = NULL;
    p->lock.fd = -1;
    if (rc)
        return rc;
    /* Where nothing can be written, nothing is removed either. */
    rc = sl_store_lock(&p->lock, o->places, SL_LOCK_SHARED, STORE_WAIT_MS, err);
    if (rc == SL_EBUSY)
        return rc;
    return sl_client_open(&p->http, &ho, err);
}

static void end(struct sl_pulling *p)
{
    sl_client_close(&p->http);
    sl_lockfile_give(&p->lock);
}

/* ------------------------------------------------------------ checkpoint */

static int pull_checkpoint(struct sl_pulling *p, struct sl_ready *r,
                           const struct sl_target *t,
                           const struct sl_hub_list *l, struct sl_err *err)
{
    struct sl_hub_list want = {.n = 0};
    bool *keep = NULL;
    int rc = sl_mem_alloc(&keep, l->n, sizeof(*keep), "a plan", err);

    if (!rc)
        rc = sl_choose(keep, r->file, l, r->repo, t->pick, err);
    /* A GGUF file describes itself. */
    for (size_t i = 0; !rc && p->o->small && !*r->file && i < l->n; i++)
        keep[i] = keep[i] && !sl_choose_is_weights(l->file[i].path);
    if (!rc)
        rc = sl_choose_keep(&want, l, keep, err);
    if (!rc)
        rc = sl_plan_ensure(p, r->dir, r->repo, r->sha, &want, !*r->file, err);
    sl_mem_free(keep);
    sl_hub_list_deinit(&want);
    return rc;
}

/* ---------------------------------------------------------------- bundle */

/* The files that `obj` (weights, or a drafter) lists. */
static int listed(struct sl_hub_list *out, const json_t *obj,
                  struct sl_err *err)
{
    json_t *f;
    size_t i;
    int rc = 0;

    json_array_foreach(json_object_get(obj, "files"), i, f)
    {
        const char *d = json_string_value(json_object_get(f, "sha256"));

        if (!d)
            d = json_string_value(json_object_get(f, "git_sha1"));
        if (!rc)
            rc = sl_hub_list_add(
                out, json_string_value(json_object_get(f, "path")),
                (uint64_t)json_integer_value(json_object_get(f, "size")), d,
                err);
    }
    if (!rc)
        sl_hub_list_sort(out);
    return rc;
}

/* A commit cannot change: what the manifest says must be what the hub has. A
 * sha256 of a file that the hub keeps in git cannot be compared here, and is
 * checked when the bytes come. */
static int compare(struct sl_hub_list *want, const struct sl_hub_list *has,
                   const char *repo, struct sl_err *err)
{
    for (size_t i = 0; i < want->n; i++) {
        struct sl_hub_file *w = &want->file[i];
        const struct sl_hub_file *f = sl_hub_list_find(has, w->path);

        if (!f)
            return sl_fail(err, SL_EFORMAT,
                           "the manifest lists '%s', which '%s' does not have "
                           "at that commit",
                           w->path, repo);
        if (f->size != w->size || (strlen(f->digest) == strlen(w->digest) &&
                                   strcmp(f->digest, w->digest)))
            return sl_fail(err, SL_EFORMAT,
                           "'%s' of '%s' is not the file that the manifest "
                           "lists: another size or digest",
                           w->path, repo);
    }
    return 0;
}

/* Leave what describes the model. */
static void drop_weights(struct sl_hub_list *l)
{
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++) {
        if (sl_choose_is_weights(l->file[i].path))
            sl_mem_free(l->file[i].path);
        else
            l->file[n++] = l->file[i];
    }
    l->n = n;
    sl_hub_list_sort(l);
}

/* Weights or a drafter: what is here, or the hub's. */
static int pull_listed(struct sl_pulling *p, char dir[SL_TREE_PATH],
                       const json_t *obj, bool check, struct sl_err *err)
{
    const char *repo = json_string_value(json_object_get(obj, "repo"));
    const char *sha = json_string_value(json_object_get(obj, "revision"));
    struct sl_hub_list want = {.n = 0}, has = {.n = 0};
    int rc = listed(&want, obj, err);

    sl_pulling_phase(p, SL_PULL_VERIFY);
    if (!rc && p->o->small)
        drop_weights(&want);
    if (!rc && !p->o->dry_run &&
        !sl_receipt_check(p->o->places, dir, &want, repo, sha, NULL)) {
        sl_hub_list_deinit(&want);
        return 0;
    }
    if (!rc && !p->o->places->offline) {
        sl_pulling_phase(p, SL_PULL_PLAN);
        rc = sl_hub_list(p->http, &has, repo, sha, err);
        if (!rc)
            rc = compare(&want, &has, repo, err);
    }
    if (!rc)
        rc = sl_plan_ensure(p, dir, repo, sha, &want, check, err);
    sl_hub_list_deinit(&want);
    sl_hub_list_deinit(&has);
    return sl_wrap(err, rc, "the weights '%s'", repo);
}

/* Weights without a config.json are one GGUF model; `file` is its first part,
 * "" otherwise. */
static int find_gguf(char file[SL_NAME_PATH + 1], const json_t *weights,
                     struct sl_err *err)
{
    struct sl_hub_list l = {.n = 0};
    bool *keep = NULL;
    int rc = listed(&l, weights, err);

    file[0] = 0;
    if (!rc && !sl_hub_list_find(&l, "config.json")) {
        rc = sl_mem_alloc(&keep, l.n, sizeof(*keep), "a plan", err);
        if (!rc)
            rc = sl_choose(
                keep, file, &l,
                json_string_value(json_object_get(weights, "repo")), "", err);
    }
    sl_mem_free(keep);
    sl_hub_list_deinit(&l);
    return rc;
}

static int pull_weights(struct sl_pulling *p, struct sl_ready *r, struct sl_err *err)
{
    const json_t *w = json_object_get(r->manifest.json, "weights"), *d = NULL;
    const char *name = NULL;
    json_t *profile = NULL;
    int rc = sl_manifest_profile_name(&name, &r->manifest, p->o->profile, err);

    if (!rc)
        rc = sl_manifest_profile(&profile, &r->manifest, name, err);
    if (!rc)
        rc = sl_setting_drafter(&d, r->manifest.json, profile, name, err);
    if (rc) {
        json_decref(profile);
        return rc;
    }
    snprintf(r->repo, sizeof(r->repo), "%s",
             json_string_value(json_object_get(w, "repo")));
    snprintf(r->sha, sizeof(r->sha), "%s",
             json_string_value(json_object_get(w, "revision")));
    rc = pull_listed(p, r->dir, w, true, err);
    if (!rc)
        rc = find_gguf(r->file, w, err);
    if (!rc && d)
        rc = pull_listed(p, r->drafter, d, false, err);
    if (!rc && d) {
        snprintf(r->drafter_repo, sizeof(r->drafter_repo), "%s",
                 json_string_value(json_object_get(d, "repo")));
        snprintf(r->drafter_sha, sizeof(r->drafter_sha), "%s",
                 json_string_value(json_object_get(d, "revision")));
    }
    json_decref(profile);
    return rc;
}

static bool is_git_own(const char *path)
{
    return !strcmp(path, ".gitattributes") || !strcmp(path, ".gitignore");
}

/* The repository holds the manifest's files, and no other. */
static int check_set(const struct sl_manifest *m, const struct sl_hub_list *l,
                     const char *repo, struct sl_err *err)
{
    struct sl_hub_list want = {.n = 0};
    int rc = listed(&want, m->json, err);

    if (!rc)
        rc = compare(&want, l, repo, err);
    for (size_t i = 0; !rc && i < l->n; i++)
        if (!is_git_own(l->file[i].path) &&
            strcmp(l->file[i].path, SL_MANIFEST_FILE) &&
            !sl_hub_list_find(&want, l->file[i].path))
            rc = sl_fail(err, SL_EFORMAT,
                         "'%s' holds '%s', which its manifest does not list; "
                         "the bundle is refused",
                         repo, l->file[i].path);
    sl_hub_list_deinit(&want);
    return rc;
}

/* A digest was asked for, and there is no manifest that could have it. */
static int not_pinned(const struct sl_target *t, struct sl_err *err)
{
    return sl_fail(err, SL_EFORMAT,
                   "a manifest with the digest %.12s was asked for, and '%s' "
                   "has none at that commit; leave '#sha256:...' away to take "
                   "it as a checkpoint",
                   t->sha256, t->repo);
}

/* What is no bundle has two profiles of its own. */
static int check_profile(const struct sl_pulling *p, const struct sl_target *t,
                         struct sl_err *err)
{
    if (!p->o->profile || sl_shape_is_word(SL_PULL_PROFILES, p->o->profile))
        return 0;
    return sl_fail(err, SL_EARG,
                   "profile '%.96s' is asked for, and '%s' is no bundle, so "
                   "there are spec-decode and plain",
                   p->o->profile, t->repo);
}

static int check_digest(const struct sl_manifest *m, const struct sl_target *t,
                        struct sl_err *err)
{
    if (*t->sha256 && strcmp(t->sha256, m->digest))
        return sl_fail(err, SL_EFORMAT,
                       "the manifest of '%s' has the digest %.12s and %.12s "
                       "was asked for",
                       t->repo, m->digest, t->sha256);
    return 0;
}

static int check_manifest(struct sl_pulling *p, struct sl_ready *r,
                          const struct sl_target *t, struct sl_err *err)
{
    const char *repo = sl_manifest_str(&r->manifest, "repo", NULL);
    char where[200], text[500];

    if (check_digest(&r->manifest, t, err))
        return SL_EFORMAT;
    if (r->manifest.tool) {
        /* It can be shown and verified by its name. */
        (void)sl_store_set_ref(&p->store, r->repo, *t->rev ? t->rev : "main",
                               r->sha, NULL);
        return sl_fail(err, SL_EUNSUP,
                       "'%s' is a bundle of %s (schema %s), and that is what "
                       "serves it; 'sluice info %s' shows it",
                       t->repo, r->manifest.tool, r->manifest.schema, t->repo);
    }
    if (sl_manifest_has_zeros(&r->manifest, where, sizeof(where)))
        return sl_fail(err, SL_EFORMAT,
                       "'%s': '%s' is zero, a value that 'sluice build' has "
                       "yet to fill in; tell its author",
                       t->repo, where);
    if (*r->manifest.warning)
        sl_pulling_note(p, r->manifest.warning);
    if (repo && strcmp(repo, t->repo)) {
        snprintf(text, sizeof(text), "'%.96s' is a copy of the bundle '%.96s'",
                 t->repo, repo);
        sl_pulling_note(p, text);
    }
    return sl_needs_program(&r->manifest, err);
}

/* The manifest alone. */
static int get_manifest(struct sl_pulling *p, struct sl_ready *r,
                        const struct sl_hub_rev *rev, const char *name,
                        const struct sl_hub_list *l, struct sl_err *err)
{
    const struct sl_hub_file *f = sl_hub_list_find(l, name);
    struct sl_pull_opts quiet = *p->o;
    struct sl_pulling q = {.o = &quiet, .store = p->store, .http = p->http};
    struct sl_hub_list one = {.n = 0};
    char dir[SL_TREE_PATH], path[SL_TREE_PATH];
    int rc;

    if (f->size > SL_MANIFEST_BYTES)
        return sl_fail(err, SL_EFORMAT,
                       "the manifest of '%s' has %llu bytes and may have %zu",
                       rev->repo, (unsigned long long)f->size,
                       SL_MANIFEST_BYTES);
    /* Without it there is nothing to plan, so it comes in a dry run, too. */
    quiet.plan = NULL;
    quiet.step = NULL;
    quiet.phase = NULL;
    quiet.dry_run = false;
    rc = sl_hub_list_add(&one, name, f->size, f->digest, err);
    if (!rc)
        rc = sl_plan_ensure(&q, dir, rev->repo, rev->sha, &one, false, err);
    if (!rc)
        rc = sl_path_join(path, sizeof(path), dir, name, err);
    if (!rc)
        rc = sl_manifest_load(&r->manifest, path, SL_FORM_BUILT, err);
    r->has_bundle = !rc;
    sl_hub_list_deinit(&one);
    return rc;
}

/* Files of the bundle itself. */
static int pull_files(struct sl_pulling *p, struct sl_ready *r,
                      const struct sl_hub_rev *rev, const struct sl_hub_list *l,
                      struct sl_err *err)
{
    struct sl_hub_list want = {.n = 0};
    const struct sl_hub_file *f = sl_hub_list_find(l, SL_MANIFEST_FILE);
    char dir[SL_TREE_PATH];
    int rc = listed(&want, r->manifest.json, err);

    if (!rc)
        rc = sl_hub_list_add(&want, f->path, f->size, f->digest, err);
    if (!rc) {
        /* The hub's digests name the blobs. */
        for (size_t i = 0; i < want.n; i++)
            snprintf(want.file[i].digest, sizeof(want.file[i].digest), "%s",
                     sl_hub_list_find(l, want.file[i].path)->digest);
        rc = sl_plan_ensure(p, dir, rev->repo, rev->sha, &want, false, err);
    }
    if (!rc && !p->o->dry_run) {
        sl_pulling_phase(p, SL_PULL_INSTALL);
        rc = sl_install_put(&r->install, p->o->places, &r->manifest, dir,
                            rev->repo, rev->sha, err);
        /* The hub may know only the git digest; the manifest has better. */
        if (!rc)
            rc = sl_install_verify(&r->install, &r->manifest, false, err);
    }
    sl_hub_list_deinit(&want);
    return rc;
}

static int pull_bundle(struct sl_pulling *p, struct sl_ready *r,
                       const struct sl_target *t, const struct sl_hub_rev *rev,
                       const struct sl_hub_list *l, struct sl_err *err)
{
    const json_t *w;
    struct sl_hub_list access = {.n = 0};
    int rc = get_manifest(p, r, rev, SL_MANIFEST_FILE, l, err);

    if (!rc)
        rc = check_manifest(p, r, t, err);
    if (!rc)
        rc = check_set(&r->manifest, l, rev->repo, err);
    w = rc ? NULL : json_object_get(r->manifest.json, "weights");
    if (!rc && p->o->weights) {
        rc = sl_hub_list(
            p->http, &access, json_string_value(json_object_get(w, "repo")),
            json_string_value(json_object_get(w, "revision")), err);
        sl_hub_list_deinit(&access);
    }
    if (!rc)
        rc = pull_files(p, r, rev, l, err);
    if (!rc && p->o->weights)
        rc = pull_weights(p, r, err);
    return rc;
}

/* ---------------------------------------------------------------- online */

static int set_refs(struct sl_pulling *p, const struct sl_target *t,
                    const struct sl_hub_rev *rev, struct sl_err *err)
{
    struct sl_err why;

    (void)err;
    /* Only what we resolved ourselves. */
    if (!p->o->dry_run &&
        sl_store_set_ref(&p->store, rev->repo, *t->rev ? t->rev : "main",
                         rev->sha, &why))
        sl_pulling_note(p, why.msg);
    return 0;
}

static int pull_online(struct sl_pulling *p, struct sl_ready *r,
                       const struct sl_target *t, const struct sl_hub_rev *rev,
                       struct sl_err *err)
{
    struct sl_hub_list l = {.n = 0};
    int rc;

    sl_pulling_phase(p, SL_PULL_PLAN);
    rc = sl_hub_list(p->http, &l, rev->repo, rev->sha, err);
    snprintf(r->repo, sizeof(r->repo), "%s", rev->repo);
    snprintf(r->sha, sizeof(r->sha), "%s", rev->sha);
    if (!rc && sl_hub_list_find(&l, SL_MANIFEST_FILE)) {
        rc = pull_bundle(p, r, t, rev, &l, err);
    } else if (!rc && sl_hub_list_find(&l, SL_MANIFEST_FOREIGN)) {
        rc = get_manifest(p, r, rev, SL_MANIFEST_FOREIGN, &l, err);
        if (!rc)
            rc = check_manifest(p, r, t, err);
    } else if (!rc && *t->sha256) {
        rc = not_pinned(t, err);
    } else if (!rc) {
        rc = check_profile(p, t, err);
        if (!rc)
            rc = pull_checkpoint(p, r, t, &l, err);
    }
    sl_hub_list_deinit(&l);
    return rc ? rc : set_refs(p, t, rev, err);
}

static int resolve(struct sl_pulling *p, struct sl_hub_rev *rev,
                   const struct sl_target *t, struct sl_err *err)
{
    char text[300];
    int rc;

    sl_pulling_phase(p, SL_PULL_RESOLVE);
    rc = sl_hub_revision(p->http, rev, t->repo, *t->rev ? t->rev : "main", err);
    if (!rc && strcmp(rev->repo, t->repo)) {
        snprintf(text, sizeof(text), "'%.96s' is called '%.96s' now", t->repo,
                 rev->repo);
        sl_pulling_note(p, text);
    }
    return rc;
}

/* --------------------------------------------------------------- local */

static int local_checkpoint(struct sl_pulling *p, struct sl_ready *r,
                            const struct sl_target *t, struct sl_err *err)
{
    struct sl_hub_list want = {.n = 0};
    int rc = sl_store_ref(&p->store, r->sha, t->repo, *t->rev ? t->rev : "main",
                          err);

    sl_pulling_phase(p, SL_PULL_VERIFY);
    snprintf(r->repo, sizeof(r->repo), "%s", t->repo);
    if (rc)
        return rc;
    rc = sl_choose_known(&want, r->dir, r->file, p->o->places, t, r->sha, err);
    if (rc == SL_ENOTFOUND || rc == SL_EFORMAT)
        rc = sl_adopt(p, r, t, err);
    else if (rc == SL_EARG || rc == SL_EUNSUP)
        rc = SL_ENOTFOUND; /* the receipt is of something else */
    else if (!rc)
        rc = sl_receipt_check(p->o->places, r->dir, &want, t->repo, r->sha,
                              err);
    sl_hub_list_deinit(&want);
    return rc;
}

/* An installed bundle, and its weights. */
static int local_bundle(struct sl_pulling *p, struct sl_ready *r,
                        const struct sl_install *i, struct sl_err *err)
{
    char path[SL_TREE_PATH];
    int rc;

    r->install = *i;
    rc = sl_path_join(path, sizeof(path), i->dir, SL_MANIFEST_FILE, err);
    if (!rc)
        rc = sl_manifest_load(&r->manifest, path, SL_FORM_BUILT, err);
    r->has_bundle = !rc;
    if (!rc)
        rc = sl_install_verify(i, &r->manifest, true, err);
    if (!rc)
        rc = sl_needs_program(&r->manifest, err);
    if (!rc && p->o->weights)
        rc = pull_weights(p, r, err);
    return rc;
}

/* What this machine has of the target, if it has all. */
static int pull_local(struct sl_pulling *p, struct sl_ready *r,
                      const struct sl_target *t, struct sl_err *err)
{
    struct sl_install i;
    bool hex = sl_name_is_hex(t->rev, SL_NAME_COMMIT);
    struct sl_manifest *m = &r->manifest;
    int rc;

    if (!*t->pick && !sl_install_from(&i, p->o->places, t->repo, NULL) &&
        (!*t->rev || (hex && !strcmp(t->rev, i.sha)))) {
        rc = local_bundle(p, r, &i, err);
        if (!rc && *t->sha256 && strcmp(t->sha256, m->digest))
            rc = sl_fail(err, SL_ENOTFOUND,
                         "another version of '%s' is "
                         "installed",
                         t->repo);
        return rc;
    }
    if (*t->sha256)
        return sl_fail(err, SL_ENOTFOUND, "no such bundle is installed");
    rc = local_checkpoint(p, r, t, err);
    return rc ? rc : check_profile(p, t, err);
}

/* ------------------------------------------------------------- freshness */

/* Is there a newer commit? Three seconds are enough to ask. */
static bool is_newer(struct sl_pulling *p, struct sl_ready *r,
                     const struct sl_target *t, struct sl_hub_rev *rev)
{
    const char *have = r->has_bundle ? r->install.sha : r->sha;
    char text[400];
    struct sl_err why;
    int rc;

    if (p->o->places->offline || (r->has_bundle && r->install.pinned))
        return false;
    sl_client_hurry(p->http, FRESH_S);
    rc = sl_hub_revision(p->http, rev, t->repo, "main", &why);
    sl_client_hurry(p->http, 0);
    if (rc) {
        snprintf(text, sizeof(text), "not checked for a newer version: %.300s",
                 why.msg);
        sl_pulling_note(p, text);
        return false;
    }
    if (!strcmp(rev->sha, have))
        return false;
    snprintf(r->newer, sizeof(r->newer), "%s", rev->sha);
    if (!p->o->update) {
        snprintf(text, sizeof(text),
                 "%.96s: commit %.12s is here and the hub has %.12s; 'sluice "
                 "pull %.96s' or --update fetches it",
                 t->repo, have, rev->sha, t->repo);
        sl_pulling_note(p, text);
    }
    return true;
}

static int explain_offline(int rc, const struct sl_target *t,
                           struct sl_err *err)
{
    char why[300];

    if (rc != SL_ENOTFOUND && rc != SL_EIO && rc != SL_ENET)
        return rc;
    snprintf(why, sizeof(why), "%.290s", err->msg);
    return sl_fail(err, SL_ENET,
                   "offline, and '%s' is not whole on this machine (%s); on a "
                   "connected one run 'sluice pull --with-weights %s'",
                   t->repo, why, t->repo);
}

static int run(struct sl_pulling *p, struct sl_ready *r, const struct sl_target *t,
               struct sl_err *err)
{
    bool hex = sl_name_is_hex(t->rev, SL_NAME_COMMIT);
    struct sl_hub_rev rev;
    int rc = SL_ENOTFOUND;

    /* A commit that is here needs nobody. */
    if (!p->o->again &&
        (p->o->places->offline || hex || p->o->how == SL_PULL_HERE)) {
        rc = pull_local(p, r, t, err);
        if (p->o->places->offline)
            return rc ? explain_offline(rc, t, err) : 0;
        if (!rc && (hex || (*t->rev == 0 &&
                            (!is_newer(p, r, t, &rev) || !p->o->update))))
            return 0;
        /* What keeps it from being run stays what it is. */
        if (rc && rc != SL_ENOTFOUND && rc != SL_EIO)
            return rc;
        sl_ready_deinit(r);
    }
    rc = resolve(p, &rev, t, err);
    return rc ? rc : pull_online(p, r, t, &rev, err);
}

int sl_pull(struct sl_ready *out, const struct sl_target *t,
            const struct sl_pull_opts *o, struct sl_err *err)
{
    struct sl_ready *r = NULL;
    struct sl_pulling p;
    int rc = begin(&p, o, err);

    if (!rc)
        rc = sl_mem_alloc(&r, 1, sizeof(*r), "a model", err);
    if (!rc)
        rc = run(&p, r, t, err);
    end(&p);
    if (!rc)
        *out = *r;
    else if (r)
        sl_ready_deinit(r);
    sl_mem_free(r);
    return rc;
}

int sl_pull_installed(struct sl_ready *out, const char *name,
                      const struct sl_pull_opts *o, struct sl_err *err)
{
    struct sl_target t = {.repo = ""};
    struct sl_install i;
    struct sl_ready *r = NULL;
    struct sl_hub_rev rev;
    struct sl_pulling p;
    int rc = sl_install_get(&i, o->places, name, err);

    if (rc)
        return rc;
    rc = begin(&p, o, err);
    snprintf(t.repo, sizeof(t.repo), "%s", i.repo);
    if (!rc)
        rc = sl_mem_alloc(&r, 1, sizeof(*r), "a model", err);
    if (!rc)
        rc = local_bundle(&p, r, &i, err);
    if (!rc && *t.repo && is_newer(&p, r, &t, &rev) && o->update) {
        sl_ready_deinit(r);
        rc = pull_online(&p, r, &t, &rev, err);
    }
    end(&p);
    if (!rc)
        *out = *r;
    else if (r)
        sl_ready_deinit(r);
    sl_mem_free(r);
    return rc;
}

int sl_pull_manifest(struct sl_manifest *out, const struct sl_target *t,
                     const struct sl_pull_opts *o, struct sl_err *err)
{
    struct sl_hub_list l = {.n = 0};
    struct sl_ready r = {.dir = ""};
    struct sl_hub_rev rev;
    struct sl_pulling p;
    int rc = begin(&p, o, err);

    if (!rc && !*t->rev &&
        !sl_install_from(&r.install, o->places, t->repo, NULL)) {
        char path[SL_TREE_PATH];

        end(&p);
        rc = sl_path_join(path, sizeof(path), r.install.dir, SL_MANIFEST_FILE,
                          err);
        if (!rc)
            rc = sl_manifest_load(out, path, SL_FORM_BUILT, err);
        if (!rc && check_digest(out, t, err)) {
            sl_manifest_deinit(out);
            rc = SL_EFORMAT;
        }
        return rc;
    }
    if (!rc)
        rc = resolve(&p, &rev, t, err);
    if (!rc)
        rc = sl_hub_list(p.http, &l, rev.repo, rev.sha, err);
    if (!rc && sl_hub_list_find(&l, SL_MANIFEST_FILE))
        rc = get_manifest(&p, &r, &rev, SL_MANIFEST_FILE, &l, err);
    else if (!rc && sl_hub_list_find(&l, SL_MANIFEST_FOREIGN))
        rc = get_manifest(&p, &r, &rev, SL_MANIFEST_FOREIGN, &l, err);
    else if (!rc && *t->sha256)
        rc = not_pinned(t, err);
    else if (!rc)
        rc = sl_fail(err, SL_ENOTFOUND, "'%s' is no bundle: it has no %s",
                     t->repo, SL_MANIFEST_FILE);
    end(&p);
    sl_hub_list_deinit(&l);
    if (!rc)
        rc = check_digest(&r.manifest, t, err);
    if (rc)
        sl_ready_deinit(&r);
    else
        *out = r.manifest;
    return rc;
}

void sl_ready_deinit(struct sl_ready *r)
{
    if (r->has_bundle)
        sl_manifest_deinit(&r->manifest);
    *r = (struct sl_ready){.dir = ""};
}
