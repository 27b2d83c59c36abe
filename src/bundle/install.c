/* bundle/install.c - bundles that are installed on this machine; see install.h
 *
 * The files are hard links or copies of those in the cache, because another
 * program may clean the cache. Weights stay there: they are large, and a loss
 * is noticed at the next start.
 */
#include "bundle/install.h"

#include "base/lockfile.h"
#include "base/mem.h"
#include "base/num.h"
#include "bundle/store.h"

#define LOCK_MS 60000 /* for another pull of the same name */
#define MAX_ORIGIN ((size_t)1 << 16)
#define MAX_DEPTH 64 /* folders inside a bundle */

static int place(char out[SL_TREE_PATH], const struct sl_places *p,
                 const char *name, const char *leaf, struct sl_err *err)
{
    char rel[SL_NAME_SLUG + 160];

    snprintf(rel, sizeof(rel), "bundles/%.96s%s%.120s", name, leaf ? "/" : "",
             leaf ? leaf : "");
    return sl_path_join(out, SL_TREE_PATH, p->own, rel, err);
}

static int lock_name(struct sl_lockfile *l, const struct sl_places *p,
                     const char *name, struct sl_err *err)
{
    char path[SL_TREE_PATH], what[SL_NAME_SLUG + 16];
    int rc = sl_path_join(path, sizeof(path), p->own, "locks", err);

    if (!rc)
        rc = sl_tree_make(path, err);
    if (rc)
        return rc;
    snprintf(what, sizeof(what), "bundle-%.96s", name);
    rc = sl_path_join(path, sizeof(path), p->own, "locks/", err);
    if (!rc && strlen(path) + strlen(what) + 1 < sizeof(path))
        memcpy(path + strlen(path), what, strlen(what) + 1);
    snprintf(what, sizeof(what), "bundle '%.80s'", name);
    return rc ? rc
              : sl_lockfile_take(l, path, SL_LOCK_ALONE, LOCK_MS, what, NULL,
                                 err);
}

/* "gen-7-..." -> 7; 0 for anything else. */
static int64_t number_of(const char *gen)
{
    int64_t n;

    return strncmp(gen, "gen-", 4) || strchr(gen, '.') ||
                   sl_num_i64(&n, gen + 4, strspn(gen + 4, "0123456789"), 1,
                              INT64_MAX, "", NULL)
               ? 0
               : n;
}

static void read_origin(struct sl_install *i)
{
    char path[SL_TREE_PATH + 8];
    const char *repo, *sha;
    json_t *j = NULL;

    snprintf(path, sizeof(path), "%s.json", i->dir);
    if (sl_json_load(&j, path, MAX_ORIGIN, NULL))
        return;
    repo = json_string_value(json_object_get(j, "repo"));
    sha = json_string_value(json_object_get(j, "revision"));
    if (repo && sl_name_is_repo(repo))
        snprintf(i->repo, sizeof(i->repo), "%s", repo);
    if (sha && sl_name_is_hex(sha, SL_NAME_COMMIT))
        snprintf(i->sha, sizeof(i->sha), "%s", sha);
    i->when_s = json_integer_value(json_object_get(j, "when"));
    json_decref(j);
}

static int write_origin(const struct sl_install *i, struct sl_err *err)
{
    char path[SL_TREE_PATH + 8], *text;
    json_t *j = json_pack("{s:s, s:s, s:I}", "repo", i->repo, "revision",
                          i->sha, "when", (json_int_t)i->when_s);
    int rc;

    text = j ? json_dumps(j, 0) : NULL;
    json_decref(j);
    if (!text)
        return sl_fail(err, SL_ENOMEM, "no memory is left for a receipt");
    snprintf(path, sizeof(path), "%s.json", i->dir);
    rc = sl_file_write(path, text, strlen(text), err);
    free(text); /* jansson's own */
    return rc;
}

static int get(struct sl_install *out, const struct sl_places *p,
               const char *name, const char *gen, struct sl_err *err)
{
    char path[SL_TREE_PATH], target[SL_TREE_PATH] = "";
    int rc;

    *out = (struct sl_install){.when_s = 0};
    snprintf(out->name, sizeof(out->name), "%s", name);
    rc = place(path, p, name, "current", err);
    if (!rc)
        (void)sl_tree_read_link(target, path, NULL);
    if (!rc && !gen)
        gen = target;
    if (!rc && (!number_of(gen) || strchr(gen, '/') ||
                strlen(gen) >= sizeof(out->gen)))
        rc = sl_fail(err, SL_ENOTFOUND, "no bundle '%.96s' is installed", name);
    if (rc)
        return rc;
    snprintf(out->gen, sizeof(out->gen), "%.63s", gen);
    out->current = !strcmp(target, out->gen);
    rc = place(out->dir, p, name, out->gen, err);
    if (!rc && sl_file_kind(out->dir) != SL_FILE_DIR)
        rc = sl_fail(err, SL_ENOTFOUND, "no bundle '%.96s' is installed", name);
    if (!rc)
        rc = place(path, p, name, "pin", err);
    out->pinned = !rc && sl_file_kind(path) == SL_FILE_REGULAR;
    if (!rc)
        read_origin(out);
    return rc;
}

int sl_install_get(struct sl_install *out, const struct sl_places *p,
                   const char *name, struct sl_err *err)
{
    if (!sl_name_is_slug(name))
        return sl_fail(err, SL_ENOTFOUND, "no bundle '%.96s' is installed",
                       name);
    return get(out, p, name, NULL, err);
}

static int by_number(const void *a, const void *b)
{
    const struct sl_install *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    int64_t m = number_of(x->gen), n = number_of(y->gen);

    return c ? c : (m > n) - (m < n);
}

static int list_name(struct sl_install **all, size_t *n,
                     const struct sl_places *p, const char *name,
                     struct sl_err *err)
{
    struct sl_names gens = {.n = 0};
    char dir[SL_TREE_PATH];
    int rc = place(dir, p, name, NULL, err);

    if (!rc)
        rc = sl_names_list(&gens, dir, err);
    for (size_t i = 0; !rc && i < gens.n; i++) {
        if (!number_of(gens.name[i]))
            continue;
        rc = sl_mem_resize(all, *n + 1, sizeof(**all), "bundles", err);
        if (!rc && !get(&(*all)[*n], p, name, gens.name[i], NULL))
            (*n)++;
    }
    sl_names_deinit(&gens);
    return rc;
}

int sl_install_list(struct sl_install **out, size_t *n,
                    const struct sl_places *p, struct sl_err *err)
{
    struct sl_install *all = NULL;
    struct sl_names names = {.n = 0};
    char dir[SL_TREE_PATH];
    size_t k = 0;
    int rc = sl_path_join(dir, sizeof(dir), p->own, "bundles", err);

    if (!rc)
        rc = sl_names_list(&names, dir, err);
    for (size_t i = 0; !rc && i < names.n; i++)
        if (sl_name_is_slug(names.name[i]))
            rc = list_name(&all, &k, p, names.name[i], err);
    sl_names_deinit(&names);
    if (rc) {
        sl_mem_free(all);
        return rc;
    }
    if (k)
        qsort(all, k, sizeof(*all), by_number);
    *out = all;
    *n = k;
    return 0;
}

int sl_install_from(struct sl_install *out, const struct sl_places *p,
                    const char *repo, struct sl_err *err)
{
    struct sl_install *all = NULL;
    size_t n = 0;
    int rc = sl_install_list(&all, &n, p, err);
    bool found = false;

    for (size_t i = 0; !rc && i < n; i++)
        if (all[i].current && !strcmp(all[i].repo, repo)) {
            *out = all[i];
            found = true;
        }
    sl_mem_free(all);
    if (!rc && !found)
        rc = sl_fail(err, SL_ENOTFOUND, "no bundle of '%s' is installed", repo);
    return rc;
}

/* ------------------------------------------------------------------ put */

static int put_files(const char *dir, const struct sl_manifest *m,
                     const char *from, struct sl_err *err)
{
    const json_t *files = json_object_get(m->json, "files"), *f;
    char src[SL_TREE_PATH];
    size_t i;
    int rc = sl_path_join(src, sizeof(src), from, SL_MANIFEST_FILE, err);

    if (!rc)
        rc = sl_tree_share_below(dir, SL_MANIFEST_FILE, src, 0644, err);
    json_array_foreach(files, i, f)
    {
        const char *path = json_string_value(json_object_get(f, "path"));
        const char *mode = json_string_value(json_object_get(f, "mode"));

        if (!rc)
            rc = sl_path_join(src, sizeof(src), from, path, err);
        if (!rc)
            rc = sl_tree_share_below(dir, path, src,
                                     strcmp(mode, "0755") ? 0644 : 0755, err);
    }
    return rc;
}

static int put_new(struct sl_install *i, const struct sl_places *p,
                   const struct sl_manifest *m, const char *from,
                   struct sl_err *err)
{
    char home[SL_TREE_PATH], tmp[SL_TREE_PATH];
    struct sl_names gens = {.n = 0};
    int64_t top = 0;
    int rc = place(home, p, i->name, NULL, err);

    if (!rc)
        rc = sl_tree_make(home, err);
    if (!rc)
        rc = sl_names_list(&gens, home, err);
    for (size_t k = 0; k < gens.n; k++)
        if (number_of(gens.name[k]) > top)
            top = number_of(gens.name[k]);
    sl_names_deinit(&gens);
    snprintf(i->gen, sizeof(i->gen), "gen-%lld-%.12s", (long long)top + 1,
             m->digest);
    if (!rc)
        rc = place(i->dir, p, i->name, i->gen, err);
    if (!rc)
        rc = place(tmp, p, i->name, "new.tmp", err);
    if (!rc)
        rc = sl_tree_remove(tmp, err); /* what a crash left */
    if (!rc)
        rc = sl_tree_make(tmp, err);
    if (!rc)
        rc = put_files(tmp, m, from, err);
    if (!rc)
        rc = write_origin(i, err);
    if (!rc)
        rc = sl_tree_rename(tmp, i->dir, err);
    if (!rc)
        rc = sl_tree_sync(home, err);
    if (!rc)
        rc = sl_tree_link_below(home, "current", i->gen, err);
    i->current = !rc;
    return rc;
}

int sl_install_put(struct sl_install *out, const struct sl_places *p,
                   const struct sl_manifest *m, const char *from,
                   const char *repo, const char *sha, struct sl_err *err)
{
    const char *name = sl_manifest_str(m, "name", NULL);
    struct sl_install i = {.when_s = (int64_t)time(NULL)};
    struct sl_lockfile lock;
    struct sl_install old;
    char end[16];
    int rc = lock_name(&lock, p, name, err);

    if (rc)
        return rc;
    snprintf(i.name, sizeof(i.name), "%s", name);
    snprintf(i.repo, sizeof(i.repo), "%s", repo);
    snprintf(i.sha, sizeof(i.sha), "%s", sha);
    snprintf(end, sizeof(end), "-%.12s", m->digest);
    if (!sl_install_get(&old, p, name, NULL) && strstr(old.gen, end) &&
        !sl_install_verify(&old, m, false, NULL)) {
        /* The same files; only where they came from may be new. */
        snprintf(old.repo, sizeof(old.repo), "%s", repo);
        snprintf(old.sha, sizeof(old.sha), "%s", sha);
        i = old;
        rc = write_origin(&i, err);
    } else {
        rc = put_new(&i, p, m, from, err);
    }
    sl_lockfile_give(&lock);
    if (!rc)
        *out = i;
    return sl_wrap(err, rc, "installing bundle '%s'", name);
}

int sl_install_pin(const struct sl_install *i, const struct sl_places *p,
                   bool pinned, struct sl_err *err)
{
    char path[SL_TREE_PATH];
    int rc = place(path, p, i->name, "pin", err);

    if (rc)
        return rc;
    return pinned ? sl_file_write(path, i->sha, strlen(i->sha), err)
                  : sl_tree_unlink(path, err);
}

/* --------------------------------------------------------------- remove */

int sl_install_remove(const struct sl_install *i, const struct sl_places *p,
                      struct sl_err *err)
{
    char home[SL_TREE_PATH], path[SL_TREE_PATH + 8], what[SL_TREE_PATH];
    struct sl_lockfile lock, gen = {.fd = -1};
    struct sl_names left = {.n = 0};
    size_t n_gen = 0;
    int rc = lock_name(&lock, p, i->name, err);

    if (rc)
        return rc;
    /* A server holds its generation shared. */
    snprintf(path, sizeof(path), "%s.json", i->dir);
    snprintf(what, sizeof(what), "bundle '%s' (%s)", i->name, i->gen);
    rc = sl_lockfile_take(&gen, path, SL_LOCK_ALONE, 0, what, NULL, err);
    if (!rc)
        rc = place(home, p, i->name, NULL, err);
    if (!rc && i->current)
        rc = place(what, p, i->name, "current", err);
    if (!rc && i->current)
        rc = sl_tree_unlink(what, err);
    if (!rc)
        rc = sl_tree_remove(i->dir, err);
    if (!rc)
        rc = sl_tree_unlink(path, err);
    sl_lockfile_give(&gen);
    if (!rc)
        rc = sl_names_list(&left, home, err);
    for (size_t k = 0; k < left.n; k++)
        n_gen += number_of(left.name[k]) > 0;
    sl_names_deinit(&left);
    if (!rc && n_gen == 0)
        rc = sl_tree_remove(home, err);
    sl_lockfile_give(&lock);
    return rc;
}

/* --------------------------------------------------------------- verify */

/* Count files below dir/rel; bounded by `depth`. */
static int count_files(size_t *n, const char *dir, int depth,
                       struct sl_err *err)
{
    struct sl_names names = {.n = 0};
    char path[SL_TREE_PATH];
    int rc = sl_names_list(&names, dir, err);

    for (size_t i = 0; !rc && i < names.n; i++) {
        struct sl_stat st;

        rc = sl_path_join(path, sizeof(path), dir, names.name[i], err);
        if (rc || !sl_tree_stat(&st, path, false))
            continue;
        if (st.kind == SL_FILE_DIR && depth > 0)
            rc = count_files(n, path, depth - 1, err);
        else if (st.kind == SL_FILE_REGULAR)
            ++*n;
        else
            rc = sl_fail(err, SL_EFORMAT, "'%s' is no regular file", path);
    }
    sl_names_deinit(&names);
    return rc;
}

static int verify_file(const char *dir, const json_t *f, bool quick,
                       struct sl_err *err)
{
    const char *path = json_string_value(json_object_get(f, "path"));
    struct sl_hub_file want = {
        .size = (uint64_t)json_integer_value(json_object_get(f, "size"))};
    char full[SL_TREE_PATH];
    struct sl_stat st;
    bool same = true;
    int rc = sl_path_join(full, sizeof(full), dir, path, err);

    snprintf(want.digest, sizeof(want.digest), "%s",
             json_string_value(json_object_get(f, "sha256")));
    if (rc)
        return rc;
    if (!sl_tree_stat(&st, full, false) || st.kind != SL_FILE_REGULAR)
        return sl_fail(err, SL_EFORMAT, "'%s' is missing; pull it again", full);
    if (!quick)
        rc = sl_store_verify(full, &want, &same, err);
    if (!rc && (!same || st.size != want.size))
        rc = sl_fail(err, SL_EFORMAT, "'%s' was changed; pull it again", full);
    return rc;
}

/* A bundle with its source in code/ says the digest of it: over a line per
 * file, by rising path: path, a zero byte, sha256, a line feed. The files
 * themselves were compared with their digests before. */
static int verify_source(const struct sl_manifest *m, struct sl_err *err)
{
    const char *want = sl_manifest_str(m, "built", "source_digest");
    char hex[SL_DIGEST_HEX + 1];
    struct sl_digest d;
    size_t i, n = 0;
    json_t *f;
    int rc = want ? sl_digest_init(&d, SL_DIGEST_SHA256, 0, err) : 0;

    if (rc || !want)
        return rc;
    json_array_foreach(json_object_get(m->json, "files"), i, f)
    {
        const char *path = json_string_value(json_object_get(f, "path"));
        const char *sha = json_string_value(json_object_get(f, "sha256"));

        if (strncmp(path, "code/", 5))
            continue;
        sl_digest_add(&d, path + 5, strlen(path + 5) + 1);
        sl_digest_add(&d, sha, strlen(sha));
        sl_digest_add(&d, "\n", 1);
        n++;
    }
    sl_digest_take(&d, hex);
    if (n == 0 || !strcmp(hex, want))
        return 0;
    return sl_fail(err, SL_EFORMAT,
                   "the bundle says that its program was made from the source "
                   "%.12s, and code/ holds %.12s; tell its author",
                   want, hex);
}

int sl_install_verify(const struct sl_install *i, const struct sl_manifest *m,
                      bool quick, struct sl_err *err)
{
    const json_t *files = json_object_get(m->json, "files"), *f;
    size_t k, n = 0;
    int rc = count_files(&n, i->dir, MAX_DEPTH, err);

    json_array_foreach(files, k, f)
    {
        if (!rc)
            rc = verify_file(i->dir, f, quick, err);
    }
    if (!rc && n != json_array_size(files) + 1)
        rc = sl_fail(err, SL_EFORMAT,
                     "'%s' has %zu files and the manifest lists %zu; pull it "
                     "again",
                     i->dir, n - 1, json_array_size(files));
    return rc ? rc : verify_source(m, err);
}
