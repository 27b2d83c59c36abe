/* bundle/store.c - the files of repositories on this machine; see store.h
 *
 * Nothing here writes into a blob that exists: other programs may have it
 * mapped. A blob is trusted for its name only after its content was digested
 * once; a receipt remembers that, together with size, time, inode and device,
 * and any difference means to digest it again.
 */
#include "bundle/store.h"

#include "base/mem.h"

#define MAX_RECEIPT ((size_t)64 << 20) /* bytes; 100,000 files are below */
#define RECEIPT_WAIT_MS 10000
#define HASH_BYTES ((size_t)1 << 20)

int sl_store_repo(char out[SL_TREE_PATH], const char *root, const char *repo,
                  struct sl_err *err)
{
    char folder[SL_NAME_FOLDER];

    sl_name_folder(folder, repo);
    return sl_path_join(out, SL_TREE_PATH, root, folder, err);
}

int sl_store_dir(char out[SL_TREE_PATH], const char *root, const char *repo,
                 const char *sha, struct sl_err *err)
{
    char folder[SL_NAME_FOLDER], rel[SL_NAME_FOLDER + 64];

    sl_name_folder(folder, repo);
    snprintf(rel, sizeof(rel), "%s/snapshots/%s", folder, sha);
    return sl_path_join(out, SL_TREE_PATH, root, rel, err);
}

int sl_store_init(struct sl_store *s, const struct sl_places *p,
                  struct sl_err *err)
{
    char dir[SL_TREE_PATH];

    *s = (struct sl_store){.places = p};
    snprintf(s->root[0], SL_TREE_PATH, "%s", p->hub);
    if (sl_path_join(s->root[1], SL_TREE_PATH, p->own, "hub", err))
        return SL_EARG;
    /* The nearest folder that exists decides. */
    snprintf(dir, sizeof(dir), "%s", p->hub);
    while (sl_file_kind(dir) == SL_FILE_NONE) {
        char *slash = strrchr(dir, '/');

        if (!slash || slash == dir)
            break;
        *slash = 0;
    }
    s->i_write = sl_tree_can_write(dir) ? 0 : 1;
    return 0;
}

int sl_store_lock(struct sl_lockfile *l, const struct sl_places *p,
                  enum sl_lock_mode mode, unsigned wait_ms, struct sl_err *err)
{
    char path[SL_TREE_PATH];
    int rc = sl_path_join(path, sizeof(path), p->own, "locks", err);

    l->fd = -1;
    if (!rc)
        rc = sl_tree_make(path, err);
    if (!rc)
        rc = sl_path_join(path, sizeof(path), p->own, "locks/store", err);
    return rc ? rc
              : sl_lockfile_take(l, path, mode, wait_ms,
                                 "the store of downloads", NULL, err);
}

/* ------------------------------------------------------------------ refs */

static int ref_path(char out[SL_TREE_PATH], const char *root, const char *repo,
                    const char *rev, struct sl_err *err)
{
    char folder[SL_NAME_FOLDER], rel[SL_NAME_FOLDER + SL_NAME_REV + 16];

    sl_name_folder(folder, repo);
    snprintf(rel, sizeof(rel), "%s/refs/%s", folder, rev);
    return sl_path_join(out, SL_TREE_PATH, root, rel, err);
}

int sl_store_ref(const struct sl_store *s, char sha[SL_NAME_COMMIT + 1],
                 const char *repo, const char *rev, struct sl_err *err)
{
    char path[SL_TREE_PATH], *text;
    size_t n;

    if (sl_name_is_hex(rev, SL_NAME_COMMIT)) {
        snprintf(sha, SL_NAME_COMMIT + 1, "%s", rev);
        return 0;
    }
    for (int k = 0; k < 2; k++) {
        int i = k ? 1 - s->i_write : s->i_write;
        bool ok;

        if (ref_path(path, s->root[i], repo, rev, NULL) ||
            sl_file_read(&text, &n, path, 256, NULL))
            continue;
        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
            text[--n] = 0;
        ok = n == SL_NAME_COMMIT && sl_name_is_hex(text, SL_NAME_COMMIT);
        if (ok)
            snprintf(sha, SL_NAME_COMMIT + 1, "%s", text);
        sl_file_free(text);
        if (ok)
            return 0;
    }
    return sl_fail(err, SL_ENOTFOUND, "'%s@%s' was never fetched here", repo,
                   rev);
}

int sl_store_set_ref(const struct sl_store *s, const char *repo,
                     const char *rev, const char *sha, struct sl_err *err)
{
    char path[SL_TREE_PATH], dir[SL_TREE_PATH];
    int rc = ref_path(path, s->root[s->i_write], repo, rev, err);

    if (rc || sl_name_is_hex(rev, SL_NAME_COMMIT))
        return rc;
    snprintf(dir, sizeof(dir), "%s", path);
    *strrchr(dir, '/') = 0;
    rc = sl_tree_make(dir, err);
    return rc ? rc : sl_file_write(path, sha, strlen(sha), err);
}

/* ----------------------------------------------------------------- blobs */

int sl_store_verify(const char *path, const struct sl_hub_file *f, bool *same,
                    struct sl_err *err)
{
    enum sl_digest_kind kind = SL_DIGEST_SHA256;
    char hex[SL_DIGEST_HEX + 1];
    struct sl_digest d;
    struct sl_map m;
    int rc = sl_map_open(&m, path, err);

    if (rc)
        return rc;
    *same = false;
    if (m.len == f->size && sl_digest_kind(&kind, f->digest)) {
        rc = sl_digest_init(&d, kind, f->size, err);
        if (!rc) {
            for (size_t at = 0; at < m.len; at += HASH_BYTES) {
                size_t n = sl_min(HASH_BYTES, m.len - at);

                sl_digest_add(&d, m.p + at, n);
                sl_map_drop(&m, at, n);
            }
            sl_digest_take(&d, hex);
            *same = !strcmp(hex, f->digest);
        }
    }
    sl_map_close(&m);
    return rc;
}

/* A file inside this repository's blobs, links followed once at most? */
static bool is_blob(const char *path, const char *repo_dir, uint64_t size)
{
    char real[SL_TREE_PATH], dir[SL_TREE_PATH];
    struct sl_stat st;
    size_t n;

    if (!sl_tree_stat(&st, path, true) || st.kind != SL_FILE_REGULAR ||
        st.size != size || sl_tree_real(real, path, NULL) ||
        sl_tree_real(dir, repo_dir, NULL))
        return false;
    n = strlen(dir);
    return !strncmp(real, dir, n) && !strncmp(real + n, "/blobs/", 7) &&
           !strchr(real + n + 7, '/');
}

/* Did a receipt see this very file with this digest? */
static bool is_known(const struct sl_receipts *r, const char *path,
                     const char *digest)
{
    struct sl_stat st;
    json_t *f;
    size_t i;

    if (!r || !sl_tree_stat(&st, path, true))
        return false;
    json_array_foreach(json_object_get(r->by_digest, digest), i, f)
    {
        if (json_integer_value(json_object_get(f, "inode")) ==
                (json_int_t)st.inode &&
            json_integer_value(json_object_get(f, "dev")) ==
                (json_int_t)st.dev &&
            json_integer_value(json_object_get(f, "mtime_ns")) ==
                st.mtime_ns &&
            json_integer_value(json_object_get(f, "size")) ==
                (json_int_t)st.size)
            return true;
    }
    return false;
}

bool sl_store_find(const struct sl_store *s, char out[SL_TREE_PATH], bool *bad,
                   const char *repo, const struct sl_hub_file *f,
                   struct sl_receipts *known, uint64_t *hashed)
{
    char dir[SL_TREE_PATH], rel[SL_DIGEST_HEX + 16], path[SL_TREE_PATH];
    bool same = false;

    snprintf(rel, sizeof(rel), "blobs/%s", f->digest);
    for (int i = 0; i < 2; i++) {
        struct sl_stat st;

        if (sl_store_repo(dir, s->root[i], repo, NULL) ||
            sl_path_join(path, sizeof(path), dir, rel, NULL) ||
            !sl_tree_stat(&st, path, false))
            continue;
        if (is_blob(path, dir, f->size)) {
            same = is_known(known, path, f->digest);
            if (!same) {
                (void)sl_store_verify(path, f, &same, NULL);
                if (hashed)
                    *hashed += f->size;
            }
        }
        if (same) {
            snprintf(out, SL_TREE_PATH, "%s", path);
            return true;
        }
        *bad = true;
    }
    return false;
}

bool sl_store_leads(const char *dir, const char *path, const char *blob)
{
    char full[SL_TREE_PATH];
    struct sl_stat a, b;

    return !sl_path_join(full, sizeof(full), dir, path, NULL) &&
           sl_tree_stat(&a, full, true) && sl_tree_stat(&b, blob, true) &&
           a.inode == b.inode && a.dev == b.dev;
}

int sl_store_link(const char *root, const char *repo, const char *sha,
                  const char *path, const char *blob, struct sl_err *err)
{
    char dir[SL_TREE_PATH], repo_dir[SL_TREE_PATH];
    const char *name = strrchr(blob, '/');
    struct sl_buf target;
    size_t n;
    int rc = sl_store_dir(dir, root, repo, sha, err);

    if (!rc)
        rc = sl_store_repo(repo_dir, root, repo, err);
    if (!rc)
        rc = sl_tree_make(dir, err);
    if (rc)
        return rc;
    sl_buf_init(&target, SL_TREE_PATH);
    n = strlen(repo_dir);
    if (!strncmp(blob, repo_dir, n) && blob[n] == '/') {
        sl_buf_str(&target, "../../");
        for (const char *p = path; *p; p++)
            if (*p == '/')
                sl_buf_str(&target, "../");
        sl_buf_fmt(&target, "blobs%s", name);
    } else {
        sl_buf_str(&target, blob); /* in the other cache */
    }
    rc = sl_buf_check(&target, "a link", err);
    if (!rc)
        rc = sl_tree_link_below(dir, path, target.p, err);
    sl_buf_deinit(&target);
    /* Some network and FAT file systems have no links. */
    if (rc && rc != SL_ENOSPACE)
        rc = sl_tree_share_below(dir, path, blob, 0644, err);
    return rc;
}

/* -------------------------------------------------------------- receipts */

static int receipts_dir(char out[SL_TREE_PATH], const struct sl_places *p,
                        const char *repo, struct sl_err *err)
{
    char folder[SL_NAME_FOLDER], rel[SL_NAME_FOLDER + 16];

    sl_name_folder(folder, repo);
    snprintf(rel, sizeof(rel), "receipts/%s", folder);
    return sl_path_join(out, SL_TREE_PATH, p->own, rel, err);
}

int sl_receipt_path(char out[SL_TREE_PATH], const struct sl_places *p,
                    const char *repo, const char *sha, struct sl_err *err)
{
    char dir[SL_TREE_PATH], name[SL_NAME_COMMIT + 8];
    int rc = receipts_dir(dir, p, repo, err);

    snprintf(name, sizeof(name), "%.40s.json", sha);
    return rc ? rc : sl_path_join(out, SL_TREE_PATH, dir, name, err);
}

/* One receipt's entries, under their digests. */
static int index_receipt(json_t *by_digest, const json_t *receipt)
{
    json_t *f;
    size_t i;
    int bad = 0;

    json_array_foreach(json_object_get(receipt, "files"), i, f)
    {
        const char *d = json_string_value(json_object_get(f, "digest"));

        if (!d)
            continue;
        if (!json_object_get(by_digest, d))
            bad |= json_object_set_new(by_digest, d, json_array());
        bad |= json_array_append(json_object_get(by_digest, d), f);
    }
    return bad;
}

int sl_receipts_load(struct sl_receipts *r, const struct sl_places *p,
                     const char *repo, struct sl_err *err)
{
    char dir[SL_TREE_PATH], path[SL_TREE_PATH];
    struct sl_names names = {.n = 0};
    int rc = receipts_dir(dir, p, repo, err);

    bool bad;

    r->by_digest = NULL;
    if (rc)
        return rc;
    r->by_digest = json_object();
    bad = !r->by_digest;
    if (sl_names_list(&names, dir, NULL))
        return 0; /* what cannot be read is not known */
    for (size_t i = 0; !bad && i < names.n; i++) {
        json_t *j = NULL;

        if (!sl_path_join(path, sizeof(path), dir, names.name[i], NULL) &&
            !sl_json_load(&j, path, MAX_RECEIPT, NULL))
            bad = index_receipt(r->by_digest, j);
        json_decref(j);
    }
    sl_names_deinit(&names);
    return bad ? sl_fail(err, SL_ENOMEM, "no memory is left for receipts") : 0;
}

void sl_receipts_deinit(struct sl_receipts *r)
{
    json_decref(r->by_digest);
    r->by_digest = NULL;
}

bool sl_receipts_ours(const struct sl_receipts *r, const char *digest)
{
    json_t *f;
    size_t i;

    json_array_foreach(json_object_get(r->by_digest, digest), i, f)
    {
        if (json_is_true(json_object_get(f, "ours")))
            return true;
    }
    return false;
}

static json_t *receipt_file(const char *dir, const struct sl_hub_file *f,
                            bool ours)
{
    char path[SL_TREE_PATH];
    struct sl_stat st;

    if (sl_path_join(path, sizeof(path), dir, f->path, NULL) ||
        !sl_tree_stat(&st, path, true))
        return NULL;
    return json_pack("{s:s, s:b, s:I, s:s, s:I, s:I, s:I}", "path", f->path,
                     "ours", (int)ours, "size", (json_int_t)f->size, "digest",
                     f->digest, "mtime_ns", (json_int_t)st.mtime_ns, "inode",
                     (json_int_t)st.inode, "dev", (json_int_t)st.dev);
}

static const char *path_in(const json_t *file)
{
    const char *s = json_string_value(json_object_get(file, "path"));

    return s && !sl_name_path_flaw(s) ? s : NULL;
}

/* What an earlier receipt of the commit says of other files in this folder that
 * are still there: another choice of GGUF files, or a bundle's. */
static void add_old(json_t *files, const char *path, const char *dir,
                    const struct sl_hub_list *list)
{
    json_t *old = NULL, *f;
    char full[SL_TREE_PATH];
    const char *folder;
    struct sl_stat st;
    size_t i;

    if (sl_json_load(&old, path, MAX_RECEIPT, NULL))
        return;
    folder = json_string_value(json_object_get(old, "folder"));
    json_array_foreach(json_object_get(old, "files"), i, f)
    {
        const char *name = path_in(f);

        if (folder && !strcmp(folder, dir) && name &&
            !sl_hub_list_find(list, name) &&
            !sl_path_join(full, sizeof(full), dir, name, NULL) &&
            sl_tree_stat(&st, full, true))
            (void)json_array_append(files, f);
    }
    json_decref(old);
}

/* Between reading an old receipt and writing the new one nobody else does. What
 * is lost without the lock is verified again. */
static void lock_receipts(struct sl_lockfile *l, const struct sl_places *p)
{
    char path[SL_TREE_PATH];

    l->fd = -1;
    if (!sl_path_join(path, sizeof(path), p->own, "locks", NULL) &&
        !sl_tree_make(path, NULL) &&
        !sl_path_join(path, sizeof(path), p->own, "locks/receipts", NULL))
        (void)sl_lockfile_take(l, path, SL_LOCK_ALONE, RECEIPT_WAIT_MS,
                               "the receipts", NULL, NULL);
}

static int write_receipt(const struct sl_places *p, const char *repo,
                         const char *sha, const char *dir,
                         const struct sl_hub_list *list, const bool *ours,
                         struct sl_err *err)
{
    char path[SL_TREE_PATH], parent[SL_TREE_PATH], *text;
    json_t *files = json_array(), *j;
    int rc = sl_receipt_path(path, p, repo, sha, err);

    if (!rc)
        add_old(files, path, dir, list);
    for (size_t i = 0; !rc && i < list->n; i++) {
        json_t *f = receipt_file(dir, &list->file[i], ours[i]);

        if (!f || json_array_append_new(files, f))
            rc = sl_fail(err, SL_EIO, "'%s/%s' is gone; was the cache cleaned?",
                         dir, list->file[i].path);
    }
    j = rc ? NULL
           : json_pack("{s:s, s:s, s:s, s:I, s:O}", "repo", repo, "revision",
                       sha, "folder", dir, "when", (json_int_t)time(NULL),
                       "files", files);
    json_decref(files);
    text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
    json_decref(j);
    if (!rc && !text)
        rc = sl_fail(err, SL_ENOMEM, "no memory is left for a receipt");
    if (!rc)
        rc = receipts_dir(parent, p, repo, err);
    if (!rc)
        rc = sl_tree_make(parent, err);
    if (!rc)
        rc = sl_file_write(path, text, strlen(text), err);
    free(text); /* jansson's own */
    return rc;
}

int sl_receipt_write(const struct sl_places *p, const char *repo,
                     const char *sha, const char *dir,
                     const struct sl_hub_list *list, const bool *ours,
                     struct sl_err *err)
{
    struct sl_lockfile lock;
    int rc;

    lock_receipts(&lock, p);
    rc = write_receipt(p, repo, sha, dir, list, ours, err);
    sl_lockfile_give(&lock);
    return rc;
}

/* One entry of a receipt, as the file system sees it now: what the receipt says
 * it is and, with `want`, what that says. */
static int check_file(const struct sl_hub_file *f, const json_t *entry,
                      const struct sl_hub_file *want, const char *dir,
                      struct sl_err *err)
{
    char full[SL_TREE_PATH];
    struct sl_stat st;
    bool same = false;

    if (sl_path_join(full, sizeof(full), dir, f->path, err))
        return SL_ENOTFOUND;
    if (!sl_tree_stat(&st, full, true) || st.kind != SL_FILE_REGULAR)
        return sl_fail(err, SL_EIO, "'%s' is gone", full);
    if (want && want->size != f->size)
        return sl_fail(err, SL_ENOTFOUND, "'%s' is another file", full);
    if (st.size != f->size)
        return sl_fail(err, SL_EIO, "'%s' has %llu bytes and should have %llu",
                       full, (unsigned long long)st.size,
                       (unsigned long long)f->size);
    if (json_integer_value(json_object_get(entry, "mtime_ns")) != st.mtime_ns ||
        json_integer_value(json_object_get(entry, "inode")) !=
            (json_int_t)st.inode ||
        json_integer_value(json_object_get(entry, "dev")) !=
            (json_int_t)st.dev) {
        if (sl_store_verify(full, f, &same, err) || !same)
            return sl_fail(err, SL_EIO, "'%s' was changed", full);
    }
    /* It may be asked for by its other digest. */
    if (want && strcmp(want->digest, f->digest) &&
        (strlen(want->digest) == strlen(f->digest) ||
         sl_store_verify(full, want, &same, err) || !same))
        return sl_fail(err, SL_ENOTFOUND, "'%s' is another file", full);
    return 0;
}

/* The receipt's entries -> a list in their order. */
static int entries(struct sl_hub_list *l, const json_t *receipt,
                   const char *path, struct sl_err *err)
{
    json_t *f;
    size_t i;
    int rc = 0;

    json_array_foreach(json_object_get(receipt, "files"), i, f)
    {
        const char *d = json_string_value(json_object_get(f, "digest"));
        json_int_t size = json_integer_value(json_object_get(f, "size"));
        enum sl_digest_kind kind;

        if (!rc && (!path_in(f) || !d || !sl_digest_kind(&kind, d) || size < 0))
            rc = sl_fail(err, SL_EFORMAT, "the receipt '%s' is damaged", path);
        if (!rc)
            rc = sl_hub_list_add(l, path_in(f), (uint64_t)size, d, err);
    }
    if (!rc && l->n == 0)
        rc = sl_fail(err, SL_EFORMAT, "the receipt '%s' lists no file", path);
    return rc;
}

static int load_receipt(json_t **j, struct sl_hub_list *l,
                        char dir[SL_TREE_PATH], const struct sl_places *p,
                        const char *repo, const char *sha, struct sl_err *err)
{
    char path[SL_TREE_PATH];
    const char *folder;
    int rc = sl_receipt_path(path, p, repo, sha, err);

    if (rc || sl_json_load(j, path, MAX_RECEIPT, NULL))
        return sl_fail(err, SL_ENOTFOUND,
                       "'%s' at commit %.12s was not verified here", repo, sha);
    folder = json_string_value(json_object_get(*j, "folder"));
    if (!folder || strlen(folder) >= SL_TREE_PATH)
        rc = sl_fail(err, SL_EFORMAT, "the receipt '%s' is damaged", path);
    else
        snprintf(dir, SL_TREE_PATH, "%s", folder);
    return rc ? rc : entries(l, *j, path, err);
}

int sl_receipt_list(struct sl_hub_list *list, char dir[SL_TREE_PATH],
                    const struct sl_places *p, const char *repo,
                    const char *sha, struct sl_err *err)
{
    struct sl_hub_list l = {.n = 0};
    json_t *j = NULL;
    int rc = load_receipt(&j, &l, dir, p, repo, sha, err);

    json_decref(j);
    if (!rc)
        sl_hub_list_sort(&l);
    if (rc)
        sl_hub_list_deinit(&l);
    else
        *list = l;
    return rc;
}

int sl_receipt_check(const struct sl_places *p, char dir[SL_TREE_PATH],
                     const struct sl_hub_list *want, const char *repo,
                     const char *sha, struct sl_err *err)
{
    struct sl_hub_list l = {.n = 0};
    json_t *j = NULL, *files;
    size_t n_found = 0;
    int rc = load_receipt(&j, &l, dir, p, repo, sha, err);

    if (rc == SL_EFORMAT)
        rc = SL_ENOTFOUND; /* then nothing is known */
    files = json_object_get(j, "files");
    for (size_t i = 0; !rc && i < l.n; i++) {
        const struct sl_hub_file *w =
            want ? sl_hub_list_find(want, l.file[i].path) : NULL;

        n_found += w != NULL;
        if (w || !want)
            rc = check_file(&l.file[i], json_array_get(files, i), w, dir, err);
    }
    sl_hub_list_sort(&l);
    for (size_t i = 0; !rc && want && n_found < want->n && i < want->n; i++)
        if (!sl_hub_list_find(&l, want->file[i].path))
            rc = sl_fail(err, SL_ENOTFOUND,
                         "'%s' of '%s' at commit %.12s was not verified here",
                         want->file[i].path, repo, sha);
    json_decref(j);
    sl_hub_list_deinit(&l);
    return rc;
}
