/* cli/verify.c - sluice verify [NAME ...]: is it still what it was */
#include "cli/ready.h"
#include "cli/verb.h"

#include "base/mem.h"
#include "base/term.h"
#include "bundle/choose.h"

struct verify {
    const struct sl_opts *o;
    struct sl_places places;
    size_t n_good, n_bad;
    char first[600]; /* what was wrong first */
};

static void good(struct verify *v, const char *what)
{
    char line[SL_TREE_PATH + 16];

    v->n_good++;
    snprintf(line, sizeof(line), "ok   %s\n", what);
    (void)sl_out_str(line, NULL);
}

static void bad(struct verify *v, const char *what, const char *why)
{
    char line[SL_TREE_PATH + 1100];

    if (v->n_bad++ == 0)
        snprintf(v->first, sizeof(v->first), "%.590s", why);
    snprintf(line, sizeof(line), "BAD  %.300s: %s\n", what, why);
    (void)sl_out_str(line, NULL);
}

/* Every file of a list, read again. */
static int read_again(const struct sl_hub_list *l, const char *dir,
                      struct sl_err *err)
{
    char full[SL_TREE_PATH];
    int rc = 0;

    for (size_t i = 0; !rc && i < l->n; i++) {
        bool same = false;

        rc = sl_path_join(full, sizeof(full), dir, l->file[i].path, err);
        if (!rc && sl_store_verify(full, &l->file[i], &same, err))
            rc = SL_EFORMAT;
        else if (!rc && !same)
            rc = sl_fail(err, SL_EFORMAT, "'%s' is damaged", full);
    }
    return rc;
}

/* Fetch again what is damaged of a target. */
static int pull_again(struct verify *v, const struct sl_target *t,
                      struct sl_err *err)
{
    struct sl_cli_ready r = {.in_use = {.fd = -1}};
    struct sl_pull_opts po;
    int rc;

    r.places = v->places;
    sl_cli_pull_opts(&po, &r, v->o);
    po.how = SL_PULL_NEWEST;
    po.again = true;
    rc = sl_pull(&r.hub, t, &po, err);
    sl_cli_ready_end(&r);
    if (!rc)
        sl_ready_deinit(&r.hub);
    return rc;
}

/* Everything that the receipt lists: a checkpoint, GGUF models, or both. */
static int repair(struct verify *v, struct sl_target *t,
                  const struct sl_hub_list *l, struct sl_err *err)
{
    char file[SL_NAME_PATH + 1];
    bool *keep = NULL;
    size_t n = 0;
    int rc = sl_mem_alloc(&keep, l->n, sizeof(*keep), "a list", err);

    for (size_t i = 0; !rc && !*t->pick && i < l->n; i++) {
        /* A file of a set that is not its first makes no model. */
        if (sl_choose(keep, file, l, t->repo, l->file[i].path, NULL) ||
            strcmp(file, l->file[i].path))
            continue;
        snprintf(t->pick, sizeof(t->pick), "%s", file);
        rc = pull_again(v, t, err);
        t->pick[0] = 0;
        n++;
    }
    sl_mem_free(keep);
    if (!rc && (n == 0 || sl_hub_list_find(l, "config.json")))
        rc = pull_again(v, t, err);
    return rc;
}

/* Of one commit: all that was fetched, or what `pick` chooses. */
static void weights(struct verify *v, const char *repo, const char *sha,
                    const char *pick)
{
    char what[SL_NAME_REPO + 64], dir[SL_TREE_PATH], file[SL_NAME_PATH + 1];
    struct sl_hub_list l = {.n = 0};
    struct sl_target t = {.repo = ""};
    struct sl_err why;
    int rc;

    snprintf(t.repo, sizeof(t.repo), "%s", repo);
    snprintf(t.rev, sizeof(t.rev), "%s", sha);
    snprintf(t.pick, sizeof(t.pick), "%s", pick);
    rc = *pick ? sl_choose_known(&l, dir, file, &v->places, &t, sha, &why)
               : sl_receipt_list(&l, dir, &v->places, repo, sha, &why);
    if (!rc)
        rc = v->o->value[SL_OPT_QUICK].i
                 ? sl_receipt_check(&v->places, dir, &l, repo, sha, &why)
                 : read_again(&l, dir, &why);
    snprintf(what, sizeof(what), "%s@%.12s", repo, sha);
    if (rc && v->o->value[SL_OPT_REPAIR].i && !v->places.offline) {
        rc = repair(v, &t, &l, &why);
        if (!rc)
            sl_note("sluice: %s: repaired\n", what);
    }
    sl_hub_list_deinit(&l);
    if (rc)
        bad(v, what, why.msg);
    else
        good(v, what);
}

static void bundle(struct verify *v, const struct sl_install *i)
{
    char path[SL_TREE_PATH], what[SL_NAME_SLUG + 80];
    struct sl_manifest m = {.json = NULL};
    struct sl_err why;
    int rc = sl_path_join(path, sizeof(path), i->dir, SL_MANIFEST_FILE, &why);

    snprintf(what, sizeof(what), "%s %s", i->name, i->gen);
    if (!rc)
        rc = sl_manifest_load(&m, path, SL_FORM_BUILT, &why);
    if (!rc)
        rc = sl_install_verify(i, &m, v->o->value[SL_OPT_QUICK].i, &why);
    if (rc)
        bad(v, what, why.msg);
    else
        good(v, what);
    if (!rc && v->o->value[SL_OPT_WEIGHTS].i) {
        const json_t *w = json_object_get(m.json, "weights");
        json_t *d;
        size_t k;

        weights(v, json_string_value(json_object_get(w, "repo")),
                json_string_value(json_object_get(w, "revision")), "");
        /* Drafters of profiles that were fetched. */
        json_array_foreach(json_object_get(m.json, "drafters"), k, d)
        {
            const char *repo = json_string_value(json_object_get(d, "repo"));
            const char *sha = json_string_value(json_object_get(d, "revision"));

            if (repo && !sl_receipt_path(path, &v->places, repo, sha, NULL) &&
                sl_file_kind(path) == SL_FILE_REGULAR)
                weights(v, repo, sha, "");
        }
    }
    sl_manifest_deinit(&m);
}

/* The files that a folder's manifest lists, ours or another tool's: path, size
 * and sha256 mean the same in all of them. */
static int listed_here(struct verify *v, const char *dir,
                       const struct sl_manifest *m, struct sl_err *err)
{
    struct sl_hub_list l = {.n = 0};
    struct sl_err why;
    json_t *f;
    size_t i;
    int rc = 0;

    json_array_foreach(json_object_get(m->json, "files"), i, f)
    {
        const char *path = json_string_value(json_object_get(f, "path"));
        const char *d = json_string_value(json_object_get(f, "sha256"));

        if (rc || !path || !d)
            continue;
        if (sl_name_path_flaw(path) || !sl_name_is_hex(d, SL_NAME_SHA256))
            rc =
                sl_fail(&why, SL_EFORMAT, "its manifest lists what is no file");
        else
            rc = sl_hub_list_add(
                &l, path,
                (uint64_t)json_integer_value(json_object_get(f, "size")), d,
                &why);
    }
    if (!rc)
        rc = read_again(&l, dir, &why);
    sl_hub_list_deinit(&l);
    if (rc == SL_ENOMEM)
        return sl_fail(err, SL_ENOMEM, "%s", why.msg);
    if (rc)
        bad(v, dir, why.msg);
    else
        good(v, dir);
    return 0;
}

/* A folder with a manifest of a bundle: 0, or 1 when it has none. */
static int bundle_here(struct verify *v, const char *dir, struct sl_err *err)
{
    static const char *const file[] = {SL_MANIFEST_FILE, SL_MANIFEST_FOREIGN};
    struct sl_manifest m;
    struct sl_err why;
    char path[SL_TREE_PATH];
    int rc;

    for (size_t i = 0; i < SL_COUNTOF(file); i++) {
        if (sl_path_join(path, sizeof(path), dir, file[i], NULL) ||
            sl_file_kind(path) != SL_FILE_REGULAR)
            continue;
        if (sl_manifest_load(&m, path, SL_FORM_BUILT, &why)) {
            bad(v, dir, why.msg);
            return 0;
        }
        rc = listed_here(v, dir, &m, err);
        sl_manifest_deinit(&m);
        return rc;
    }
    return 1;
}

/* A model that lies here. */
static int model(struct verify *v, const char *path, struct sl_err *err)
{
    bool quick = v->o->value[SL_OPT_QUICK].i;
    struct sl_err why;
    uint64_t n;
    int rc;

    if (quick || v->o->value[SL_OPT_REPAIR].i)
        return sl_fail(err, SL_EARG,
                       "%s is for what was fetched from a hub, and '%.300s' "
                       "lies here; remove it",
                       quick ? "--quick" : "--repair", path);
    rc = sl_cli_check(&n, path, v->o, &why);
    if (rc && rc != SL_EFORMAT)
        return sl_fail(err, (enum sl_code)rc, "%s", why.msg);
    if (rc)
        bad(v, path, why.msg);
    else
        good(v, path);
    return 0;
}

static int one(struct verify *v, const char *name, struct sl_err *err)
{
    char sha[SL_NAME_COMMIT + 1];
    struct sl_install i;
    struct sl_store store;
    struct sl_target t;
    int rc;

    if (sl_file_kind(name) == SL_FILE_DIR) {
        rc = bundle_here(v, name, err);
        if (rc <= 0)
            return rc;
    }
    if (sl_file_kind(name) != SL_FILE_NONE)
        return model(v, name, err);
    if (!sl_target_is(name)) {
        rc = sl_install_get(&i, &v->places, name, err);
        if (!rc)
            bundle(v, &i);
        return rc;
    }
    rc = sl_target_parse(&t, name, err);
    if (!rc && !*t.pick && !sl_install_from(&i, &v->places, t.repo, NULL)) {
        bundle(v, &i);
        return 0;
    }
    if (!rc)
        rc = sl_store_init(&store, &v->places, err);
    if (!rc)
        rc = sl_store_ref(&store, sha, t.repo, *t.rev ? t.rev : "main", err);
    if (!rc)
        weights(v, t.repo, sha, t.pick);
    return rc;
}

static int all(struct verify *v, struct sl_err *err)
{
    struct sl_install *list = NULL;
    size_t n = 0;
    int rc = sl_install_list(&list, &n, &v->places, err);

    for (size_t i = 0; !rc && i < n; i++)
        bundle(v, &list[i]);
    sl_mem_free(list);
    return rc;
}

int sl_cli_verify(const struct sl_opts *o, struct sl_err *err)
{
    struct verify v = {.o = o};
    int rc = sl_cli_places(&v.places, o, err);

    if (!rc && o->n_arg == 0)
        rc = all(&v, err);
    for (uint32_t i = 0; !rc && i < o->n_arg; i++)
        rc = one(&v, o->arg[i], err);
    if (!rc && v.n_bad)
        rc = sl_fail(err, SL_EFORMAT,
                     "%zu of %zu are not what they were: %s; --repair fetches "
                     "weights again, 'sluice pull' a bundle",
                     v.n_bad, v.n_bad + v.n_good, v.first);
    return rc;
}
