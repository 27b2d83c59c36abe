/* bundle/sweep.c - what can be removed, and removing it; see sweep.h */
#include "bundle/sweep.h"

#include "base/lockfile.h"
#include "base/mem.h"
#include "base/num.h"
#include "bundle/fetch.h"
#include "bundle/install.h"
#include "bundle/plan.h"
#include "bundle/store.h"

#define KEEP_GENERATIONS 2
#define DAY_NS ((int64_t)86400 * 1000000000)
#define MAX_RECEIPT ((size_t)64 << 20)
#define MAX_STATE ((size_t)1 << 16)
#define MAX_DEPTH 16 /* folders inside a snapshot */

static void removed(struct sl_sweep *s, const char *what, uint64_t bytes)
{
    s->bytes += bytes;
    if (s->removed)
        s->removed(s->ctx, what, bytes);
}

static void kept(const struct sl_sweep *s, const char *what, const char *why)
{
    if (s->kept)
        s->kept(s->ctx, what, why);
}

static int64_t age_ns(const struct sl_stat *st)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - st->mtime_ns;
}

/* ------------------------------------------------------------- who needs */

/* Does an installed bundle name this revision? */
static bool is_named(const struct sl_sweep *s, const char *repo,
                     const char *sha)
{
    const struct sl_places *p = s->places;
    struct sl_install *all = NULL;
    size_t n = 0;
    bool found = false;

    /* What cannot be read may need it. */
    if (sl_install_list(&all, &n, p, NULL))
        return true;
    for (size_t i = 0; !found && i < n; i++) {
        char path[SL_TREE_PATH];
        struct sl_manifest m;
        json_t *list, *w;
        size_t k;

        if (s->except && !strcmp(s->except, all[i].dir))
            continue;
        if (sl_path_join(path, sizeof(path), all[i].dir, SL_MANIFEST_FILE,
                         NULL) ||
            sl_manifest_load(&m, path, SL_FORM_BUILT, NULL)) {
            found = true;
            break;
        }
        list = json_pack("[O]", json_object_get(m.json, "weights"));
        if (json_object_get(m.json, "drafters"))
            json_array_extend(list, json_object_get(m.json, "drafters"));
        json_array_foreach(list, k, w)
        {
            const char *r = json_string_value(json_object_get(w, "repo"));
            const char *v = json_string_value(json_object_get(w, "revision"));

            found |= r && v && !strcmp(r, repo) && !strcmp(v, sha);
        }
        json_decref(list);
        sl_manifest_deinit(&m);
    }
    sl_mem_free(all);
    return found;
}

/* Every link below `dir` that leads to a blob: its name into `out`. */
static int links(struct sl_names *out, const char *dir, const char *rel,
                 int depth, bool paths, struct sl_err *err)
{
    struct sl_names names = {.n = 0};
    char path[SL_TREE_PATH], target[SL_TREE_PATH], sub[SL_NAME_PATH + 260];
    int rc = sl_path_join(path, sizeof(path), dir, rel, err);

    if (!rc)
        rc = sl_names_list(&names, path, err);
    for (size_t i = 0; !rc && i < names.n; i++) {
        struct sl_stat st;
        const char *name;

        snprintf(sub, sizeof(sub), "%.1024s%s%.255s", rel, *rel ? "/" : "",
                 names.name[i]);
        rc = sl_path_join(path, sizeof(path), dir, sub, err);
        if (rc || !sl_tree_stat(&st, path, false))
            continue;
        if (st.kind == SL_FILE_DIR && depth > 0) {
            rc = links(out, dir, sub, depth - 1, paths, err);
            continue;
        }
        name = sub;
        if (!paths) {
            if (!st.link || sl_tree_read_link(target, path, NULL))
                continue;
            name = strrchr(target, '/');
            name = name ? name + 1 : target;
        }
        rc = sl_names_add(out, name, err);
    }
    sl_names_deinit(&names);
    return rc;
}

/* A set of words. */
static int to_set(json_t *set, const struct sl_names *l, struct sl_err *err)
{
    int bad = 0;

    for (size_t i = 0; i < l->n; i++)
        bad |= json_object_set_new(set, l->name[i], json_true());
    return bad ? sl_fail(err, SL_ENOMEM, "no memory is left for names") : 0;
}

/* Blobs that other revisions of the repository lead to. */
static int others(json_t *set, const char *repo_dir, const char *sha,
                  struct sl_err *err)
{
    struct sl_names revs = {.n = 0}, out = {.n = 0};
    char dir[SL_TREE_PATH], snap[SL_TREE_PATH];
    int rc = sl_path_join(snap, sizeof(snap), repo_dir, "snapshots", err);

    if (!rc)
        rc = sl_names_list(&revs, snap, err);
    for (size_t i = 0; !rc && i < revs.n; i++)
        if (strcmp(revs.name[i], sha)) {
            rc = sl_path_join(dir, sizeof(dir), snap, revs.name[i], err);
            if (!rc)
                rc = links(&out, dir, "", MAX_DEPTH, false, err);
        }
    if (!rc)
        rc = to_set(set, &out, err);
    sl_names_deinit(&revs);
    sl_names_deinit(&out);
    return rc;
}

/* --------------------------------------------------------------- weights */

static void drop_refs(const char *repo_dir, const char *sha)
{
    struct sl_names refs = {.n = 0};
    char dir[SL_TREE_PATH], path[SL_TREE_PATH], *text;
    size_t n;

    if (sl_path_join(dir, sizeof(dir), repo_dir, "refs", NULL) ||
        links(&refs, dir, "", MAX_DEPTH, true, NULL)) {
        sl_names_deinit(&refs);
        return;
    }
    for (size_t i = 0; i < refs.n; i++) {
        if (sl_path_join(path, sizeof(path), dir, refs.name[i], NULL) ||
            sl_file_read(&text, &n, path, 256, NULL))
            continue;
        if (n >= SL_NAME_COMMIT && !strncmp(text, sha, SL_NAME_COMMIT))
            (void)sl_tree_unlink(path, NULL);
        sl_file_free(text);
    }
    sl_names_deinit(&refs);
}

struct weights {
    char repo_dir[SL_TREE_PATH], dir[SL_TREE_PATH];
    struct sl_names here; /* paths in the snapshot */
    json_t *receipt;
    json_t *go, *stay; /* its entries: to remove, and not asked for */
    /* Sets: blobs of other revisions, paths in the receipt, digests that
     * stay. */
    json_t *other, *listed, *shared;
};

/* The receipt's entries, into what `only` asks for and the rest. */
static int split(struct weights *w, const struct sl_hub_list *only,
                 struct sl_err *err)
{
    json_t *f;
    size_t i;
    int bad;

    w->go = json_array();
    w->stay = json_array();
    w->other = json_object();
    w->listed = json_object();
    w->shared = json_object();
    bad = !w->go || !w->stay || !w->other || !w->listed || !w->shared;
    json_array_foreach(json_object_get(w->receipt, "files"), i, f)
    {
        const char *p = json_string_value(json_object_get(f, "path"));
        const char *d = json_string_value(json_object_get(f, "digest"));
        bool goes = !only || (p && sl_hub_list_find(only, p));

        bad |= json_array_append(goes ? w->go : w->stay, f);
        if (p)
            bad |= json_object_set_new(w->listed, p, json_true());
        if (d && !goes)
            bad |= json_object_set_new(w->shared, d, json_true());
    }
    return bad ? sl_fail(err, SL_ENOMEM, "no memory is left for a receipt") : 0;
}

/* The receipt, of what is left. */
static int write_rest(const struct weights *w, const char *path,
                      struct sl_err *err)
{
    char *text;
    int rc;

    if (json_array_size(w->stay) == 0)
        return sl_tree_unlink(path, err);
    (void)json_object_set(w->receipt, "files", w->stay);
    text = json_dumps(w->receipt, JSON_INDENT(1));
    rc = text ? sl_file_write(path, text, strlen(text), err)
              : sl_fail(err, SL_ENOMEM, "no memory is left for a receipt");
    free(text); /* jansson's own */
    return rc;
}

/* Somebody else's file in the snapshot: another program uses it. */
static const char *stranger(const struct weights *w)
{
    for (size_t i = 0; i < w->here.n; i++)
        if (!json_object_get(w->listed, w->here.name[i]))
            return w->here.name[i];
    return NULL;
}

static void remove_blobs(struct sl_sweep *s, const struct weights *w)
{
    char rel[SL_NAME_SHA256 + 16], path[SL_TREE_PATH], what[SL_TREE_PATH + 300];
    json_t *f;
    size_t i;

    json_array_foreach(w->go, i, f)
    {
        const char *d = json_string_value(json_object_get(f, "digest"));
        const char *p = json_string_value(json_object_get(f, "path"));
        enum sl_digest_kind kind;
        struct sl_stat st;

        if (!d || !p || !sl_digest_kind(&kind, d))
            continue;
        snprintf(rel, sizeof(rel), "blobs/%.64s", d);
        if (sl_path_join(path, sizeof(path), w->repo_dir, rel, NULL) ||
            !sl_tree_stat(&st, path, false))
            continue;
        snprintf(what, sizeof(what), "%s (%.200s)", path, p);
        if (!json_is_true(json_object_get(f, "ours")))
            kept(s, what, "another program fetched it");
        else if (json_object_get(w->other, d))
            kept(s, what, "another revision uses it");
        else if (json_object_get(w->shared, d))
            kept(s, what, "another file is the same");
        else if (s->dry_run || !sl_tree_unlink(path, NULL))
            removed(s, what, st.size);
    }
}

/* Links of ours, and the folders that are empty then. */
static void remove_links(const struct weights *w)
{
    char path[SL_TREE_PATH];
    json_t *f;
    size_t i;

    json_array_foreach(w->go, i, f)
    {
        const char *p = json_string_value(json_object_get(f, "path"));

        if (!p || !json_is_true(json_object_get(f, "ours")) ||
            sl_name_path_flaw(p) ||
            sl_path_join(path, sizeof(path), w->dir, p, NULL))
            continue;
        (void)sl_tree_unlink(path, NULL);
        for (char *slash = strrchr(path, '/');
             slash && strlen(path) > strlen(w->dir);
             slash = strrchr(path, '/')) {
            *slash = 0;
            if (sl_tree_rmdir(path))
                break;
        }
    }
}

static bool all_ours(const json_t *receipt)
{
    json_t *f;
    size_t i;

    json_array_foreach(json_object_get(receipt, "files"), i, f)
    {
        if (!json_is_true(json_object_get(f, "ours")))
            return false;
    }
    return true;
}

static int load(struct weights *w, const struct sl_places *p, const char *repo,
                const char *sha, const struct sl_hub_list *only,
                struct sl_err *err)
{
    char path[SL_TREE_PATH];
    const char *dir;
    int rc = sl_receipt_path(path, p, repo, sha, err);

    if (!rc && sl_json_load(&w->receipt, path, MAX_RECEIPT, NULL))
        return sl_fail(err, SL_ENOTFOUND,
                       "'%s' at commit %.12s was not fetched by this program; "
                       "what others fetched is theirs to remove",
                       repo, sha);
    dir = json_string_value(json_object_get(w->receipt, "folder"));
    if (!rc && (!dir || strlen(dir) >= sizeof(w->dir) || dir[0] != '/'))
        rc = sl_fail(err, SL_EFORMAT, "the receipt '%s' is damaged", path);
    if (rc)
        return rc;
    snprintf(w->dir, sizeof(w->dir), "%s", dir);
    snprintf(w->repo_dir, sizeof(w->repo_dir), "%s", dir);
    /* .../models--O--N/snapshots/COMMIT */
    for (int i = 0; i < 2 && strrchr(w->repo_dir, '/'); i++)
        *strrchr(w->repo_dir, '/') = 0;
    rc = links(&w->here, w->dir, "", MAX_DEPTH, true, err);
    if (!rc)
        rc = split(w, only, err);
    return rc ? rc : others(w->other, w->repo_dir, sha, err);
}

int sl_sweep_weights(struct sl_sweep *s, const char *repo, const char *sha,
                     const struct sl_hub_list *only, struct sl_err *err)
{
    struct weights w = {.receipt = NULL};
    char path[SL_TREE_PATH], what[SL_NAME_REPO + 64];
    const char *other;
    int rc = 0;

    snprintf(what, sizeof(what), "%.96s@%.12s", repo, sha);
    if (is_named(s, repo, sha)) {
        kept(s, what, "an installed bundle needs it");
        return 0;
    }
    rc = load(&w, s->places, repo, sha, only, err);
    other = rc ? NULL : stranger(&w);
    if (!rc && other) {
        kept(s, what, "another program put files beside it");
    } else if (!rc) {
        if (!s->dry_run) {
            remove_links(&w);
            if (json_array_size(w.stay) == 0 && all_ours(w.receipt))
                drop_refs(w.repo_dir, sha);
        }
        remove_blobs(s, &w);
        if (!s->dry_run && !sl_receipt_path(path, s->places, repo, sha, NULL))
            (void)write_rest(&w, path, NULL);
    }
    json_decref(w.receipt);
    json_decref(w.go);
    json_decref(w.stay);
    json_decref(w.other);
    json_decref(w.listed);
    json_decref(w.shared);
    sl_names_deinit(&w.here);
    return rc;
}

/* --------------------------------------------------------------- garbage */

static uint64_t size_of(const char *dir, int depth)
{
    struct sl_names names = {.n = 0};
    char path[SL_TREE_PATH];
    uint64_t sum = 0;

    if (sl_names_list(&names, dir, NULL))
        return 0;
    for (size_t i = 0; i < names.n; i++) {
        struct sl_stat st;

        if (sl_path_join(path, sizeof(path), dir, names.name[i], NULL) ||
            !sl_tree_stat(&st, path, false))
            continue;
        if (st.kind == SL_FILE_DIR && depth > 0)
            sum += size_of(path, depth - 1);
        else
            sum += st.size;
    }
    sl_names_deinit(&names);
    return sum;
}

static int generations(struct sl_sweep *s, struct sl_err *err)
{
    struct sl_install *all = NULL;
    struct sl_err why;
    size_t n = 0;
    int rc = sl_install_list(&all, &n, s->places, err);

    for (size_t i = 0; !rc && i < n; i++) {
        size_t newer = 0;
        uint64_t bytes;

        for (size_t k = i + 1; k < n && !strcmp(all[k].name, all[i].name); k++)
            newer++;
        if (newer < KEEP_GENERATIONS || all[i].current)
            continue;
        bytes = size_of(all[i].dir, MAX_DEPTH);
        if (s->dry_run || !sl_install_remove(&all[i], s->places, &why))
            removed(s, all[i].dir, bytes);
        else
            kept(s, all[i].dir, why.msg);
    }
    sl_mem_free(all);
    return rc;
}

/* The path with another end behind its last dot, as long as that: false when it
 * has none. */
static bool with_end(char out[SL_TREE_PATH], const char *path, const char *end)
{
    char *dot;

    snprintf(out, SL_TREE_PATH, "%s", path);
    dot = strrchr(out, '.');
    if (!dot || strlen(dot) != strlen(end))
        return false;
    memcpy(dot, end, strlen(end));
    return true;
}

/* Does the process live that wrote the state of this partial download? */
static bool writer_lives(const char *path)
{
    char state[SL_TREE_PATH];
    json_t *j = NULL;
    bool lives;

    if (!with_end(state, path, ".json") ||
        sl_json_load(&j, state, MAX_STATE, NULL))
        return false;
    lives = sl_lockfile_lives(json_integer_value(json_object_get(j, "pid")));
    json_decref(j);
    return lives;
}

/* Is a download at this partial file, or at that of this state? Else it is held
 * until *l is given, so that none begins with it. */
static bool is_busy(struct sl_lockfile *l, const char *path)
{
    char part[SL_TREE_PATH];

    l->fd = -1;
    if (!with_end(part, path, ".part"))
        return false;
    switch (sl_lockfile_try(l, part)) {
    case SL_LOCK_TAKEN:
        return false;
    case SL_LOCK_HELD:
        return true;
    case SL_LOCK_VAIN:
        break;
    }
    return writer_lives(path);
}

static int partials(struct sl_sweep *s, const char *dir, int64_t least_ns,
                    struct sl_err *err)
{
    struct sl_names names = {.n = 0};
    char path[SL_TREE_PATH];
    int rc = sl_names_list(&names, dir, err);

    for (size_t i = 0; !rc && i < names.n; i++) {
        struct sl_lockfile l;
        struct sl_stat st;

        if (sl_path_join(path, sizeof(path), dir, names.name[i], NULL) ||
            !sl_tree_stat(&st, path, false) || st.kind != SL_FILE_REGULAR ||
            age_ns(&st) < least_ns)
            continue;
        if (is_busy(&l, path))
            kept(s, path, "a download is at it");
        else if (s->dry_run || !sl_tree_unlink(path, NULL))
            removed(s, path, st.size);
        sl_lockfile_give(&l);
    }
    sl_names_deinit(&names);
    return rc;
}

/* Is this such a folder, of a pull that was killed? Then it is held until *l is
 * given. Where locks are in vain its age tells: no check takes so long. */
static bool is_left(struct sl_lockfile *l, const char *path, const char *name)
{
    const char *id = name + strlen(SL_PLAN_CHECK);
    enum sl_lock_got got;
    struct sl_stat st;

    l->fd = -1;
    if (strncmp(name, SL_PLAN_CHECK, strlen(SL_PLAN_CHECK)) || !*id ||
        id[strspn(id, "0123456789abcdef")] ||
        !sl_tree_stat(&st, path, false) || st.kind != SL_FILE_DIR)
        return false;
    got = sl_lockfile_try(l, path);
    return got == SL_LOCK_TAKEN ||
           (got == SL_LOCK_VAIN && age_ns(&st) > DAY_NS / 24);
}

/* Folders in which a pull that was killed asked whether the model can be run.
 */
static int checks(struct sl_sweep *s, struct sl_err *err)
{
    struct sl_names names = {.n = 0};
    char path[SL_TREE_PATH];
    int rc = sl_names_list(&names, s->places->own, err);

    for (size_t i = 0; !rc && i < names.n; i++) {
        const char *name = names.name[i];
        struct sl_lockfile l;
        uint64_t bytes;

        if (sl_path_join(path, sizeof(path), s->places->own, name, NULL))
            continue;
        if (is_left(&l, path, name)) {
            bytes = size_of(path, MAX_DEPTH);
            if (s->dry_run || !sl_tree_remove(path, NULL))
                removed(s, path, bytes);
        }
        sl_lockfile_give(&l);
    }
    sl_names_deinit(&names);
    return rc;
}

/* Where the cache lies on another file system than our own state, partial
 * downloads lie in the folders of their repositories. */
static int partials_of_cache(struct sl_sweep *s, int64_t least_ns,
                             struct sl_err *err)
{
    struct sl_store store;
    int rc = sl_store_init(&store, s->places, err);

    for (int k = 0; !rc && k < 2; k++) {
        struct sl_names repos = {.n = 0};
        char repo[SL_TREE_PATH], dir[SL_TREE_PATH];

        rc = sl_names_list(&repos, store.root[k], err);
        for (size_t i = 0; !rc && i < repos.n; i++)
            if (!strncmp(repos.name[i], "models--", 8)) {
                rc = sl_path_join(repo, sizeof(repo), store.root[k],
                                  repos.name[i], err);
                if (!rc)
                    rc = sl_path_join(dir, sizeof(dir), repo, SL_FETCH_HIDDEN,
                                      err);
                if (!rc)
                    rc = partials(s, dir, least_ns, err);
            }
        sl_names_deinit(&repos);
    }
    return rc;
}

/* Is a branch or tag of the cache at this commit? */
static bool is_ref(const char *repo_dir, const char *sha)
{
    struct sl_names refs = {.n = 0};
    char dir[SL_TREE_PATH], path[SL_TREE_PATH], *text;
    bool found = false;
    size_t n;

    if (sl_path_join(dir, sizeof(dir), repo_dir, "refs", NULL) ||
        links(&refs, dir, "", MAX_DEPTH, true, NULL)) {
        sl_names_deinit(&refs);
        return true;
    }
    for (size_t i = 0; i < refs.n; i++)
        if (!sl_path_join(path, sizeof(path), dir, refs.name[i], NULL) &&
            !sl_file_read(&text, &n, path, 256, NULL)) {
            found |= n >= SL_NAME_COMMIT && !strncmp(text, sha, SL_NAME_COMMIT);
            sl_file_free(text);
        }
    sl_names_deinit(&refs);
    return found;
}

static int old_weights(struct sl_sweep *s, int days, struct sl_err *err)
{
    struct sl_names repos = {.n = 0}, revs = {.n = 0};
    char root[SL_TREE_PATH], dir[SL_TREE_PATH], path[SL_TREE_PATH];
    int rc = sl_path_join(root, sizeof(root), s->places->own, "receipts", err);

    if (!rc)
        rc = sl_names_list(&repos, root, err);
    for (size_t i = 0; !rc && i < repos.n; i++) {
        rc = sl_path_join(dir, sizeof(dir), root, repos.name[i], err);
        if (!rc)
            rc = sl_names_list(&revs, dir, err);
        for (size_t k = 0; !rc && k < revs.n; k++) {
            const char *repo, *sha, *folder;
            char repo_dir[SL_TREE_PATH];
            struct sl_stat st;
            json_t *j = NULL;

            if (sl_path_join(path, sizeof(path), dir, revs.name[k], NULL) ||
                !sl_tree_stat(&st, path, false) ||
                age_ns(&st) < days * DAY_NS ||
                sl_json_load(&j, path, MAX_RECEIPT, NULL))
                continue;
            repo = json_string_value(json_object_get(j, "repo"));
            sha = json_string_value(json_object_get(j, "revision"));
            folder = json_string_value(json_object_get(j, "folder"));
            snprintf(repo_dir, sizeof(repo_dir), "%s/../..",
                     folder ? folder : "");
            if (repo && sha && folder && sl_name_is_repo(repo) &&
                sl_name_is_hex(sha, SL_NAME_COMMIT) && !is_ref(repo_dir, sha))
                rc = sl_sweep_weights(s, repo, sha, NULL, err);
            json_decref(j);
        }
        sl_names_deinit(&revs);
    }
    sl_names_deinit(&repos);
    return rc;
}

int sl_sweep_garbage(struct sl_sweep *s, const struct sl_sweep_opts *o,
                     struct sl_err *err)
{
    int64_t least_ns = o->partials ? 0 : o->days * DAY_NS;
    char dir[SL_TREE_PATH];
    struct sl_lockfile lock;
    int rc = sl_store_lock(&lock, s->places, SL_LOCK_ALONE, 0, err);

    if (!rc)
        rc = generations(s, err);
    if (!rc)
        rc = sl_path_join(dir, sizeof(dir), s->places->own, "partial", err);
    if (!rc)
        rc = partials(s, dir, least_ns, err);
    if (!rc)
        rc = partials_of_cache(s, least_ns, err);
    if (!rc)
        rc = checks(s, err);
    if (!rc && o->weights)
        rc = old_weights(s, o->days, err);
    sl_lockfile_give(&lock);
    return rc;
}
