/* bundle/push.c - a built bundle to the hub; see push.h
 *
 *   check      what is in the folder is what its manifest says
 *   create     the repository, private; that it is there already is fine
 *   compare    with the files of the branch: what is new, what goes
 *   ask        which of the new ones the hub wants outside of git
 *   upload     those, to the storage that the hub names
 *   commit     all in one request, which names its parent
 *
 * The requests are those of the hub's own client (bundles.md 4.7) and of
 * git-lfs, "basic" transfers: one PUT per object.
 */
#include <openssl/evp.h> /* first: it uses names that we ban */

#include "bundle/push.h"

#include "base/file.h"
#include "base/mem.h"
#include "bundle/hub.h"
#include "bundle/install.h"
#include "bundle/manifest.h"

#define MAX_ANSWER ((size_t)16 << 20)
#define MAX_COMMIT ((size_t)256 << 20) /* bytes; small files are inside */
#define SAMPLE 512                     /* bytes that the hub looks at */
#define LFS_TYPE "application/vnd.git-lfs+json"
#define JSON_TYPE "application/json"

struct push {
    const struct sl_push_opts *o;
    struct sl_hub_list have; /* of the folder, with sha256 */
    struct sl_hub_list there;
    bool *send, *lfs; /* [have.n] */
    char parent[SL_NAME_COMMIT + 1];
    struct sl_push_result *out;
};

static void say(const struct push *p, const char *path, const char *how)
{
    if (p->o->file)
        p->o->file(p->o->ctx, path, how);
}

/* ------------------------------------------------------------- requests */

static int on_refused(struct sl_job *j, struct sl_err *err)
{
    if (j->status == 409 || j->status == 412)
        return sl_fail(err, SL_EBUSY,
                       "%s: the branch has moved; pull it, build again on top, "
                       "and push then",
                       j->what);
    return sl_hub_refused(j, j->what, err);
}

/* POST text; the answer is JSON, or NULL when it is empty. */
static int post(const struct push *p, json_t **out, long *status,
                const char *path, const char *type, const char *text, size_t len,
                struct sl_err *err)
{
    struct sl_job *j = NULL;
    struct sl_buf b;
    int rc = sl_mem_alloc(&j, 1, sizeof(*j), "a request", err);

    if (rc)
        return rc;
    sl_buf_init(&b, MAX_ANSWER);
    j->path = path;
    j->what = p->o->repo;
    j->post = text;
    j->post_len = len;
    j->post_type = type;
    j->patient = true;
    j->refused = on_refused;
    rc = sl_client_get(p->o->client, j, &b, err);
    if (status)
        *status = j->status;
    if (!rc && out)
        rc = sl_json_parse(out, b.p ? b.p : "", b.len, "the hub's answer", err);
    sl_buf_deinit(&b);
    sl_mem_free(j);
    return rc;
}

/* The same of a JSON value, which is ended. */
static int post_json(const struct push *p, json_t **out, long *status,
                     const char *path, const char *type, json_t *body,
                     struct sl_err *err)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    int rc = text ? post(p, out, status, path, type, text, strlen(text), err)
                  : sl_fail(err, SL_ENOMEM, "no memory is left for a request");

    free(text); /* jansson's own */
    json_decref(body);
    return rc;
}

/* base64 of n bytes, added. */
static int add_base64(struct sl_buf *b, const unsigned char *s, size_t n,
                      struct sl_err *err)
{
    enum { PIECE = 3 * 4096 };
    unsigned char out[4 * 4096 + 1];

    for (size_t i = 0; i < n; i += PIECE) {
        int k = EVP_EncodeBlock(out, s + i, (int)sl_min((size_t)PIECE, n - i));

        sl_buf_add(b, (char *)out, (size_t)k);
    }
    return sl_buf_check(b, "a request", err);
}

/* ---------------------------------------------------------------- check */

static int add_file(struct push *p, const char *path, struct sl_err *err)
{
    char full[SL_TREE_PATH], hex[SL_DIGEST_HEX + 1];
    struct sl_map m;
    int rc = sl_path_join(full, sizeof(full), p->o->dir, path, err);

    if (!rc)
        rc = sl_map_open(&m, full, err);
    if (rc)
        return rc;
    rc = sl_digest_bytes(hex, SL_DIGEST_SHA256, m.p, m.len, err);
    if (!rc)
        rc = sl_hub_list_add(&p->have, path, m.len, hex, err);
    sl_map_close(&m);
    return rc;
}

static int check(struct push *p, struct sl_err *err)
{
    struct sl_manifest m = {.json = NULL};
    char path[SL_TREE_PATH], where[200];
    struct sl_install here = {.name = ""};
    json_t *f;
    size_t i;
    int rc = sl_path_join(path, sizeof(path), p->o->dir, SL_MANIFEST_FILE, err);

    if (!rc && sl_file_kind(path) != SL_FILE_REGULAR)
        return sl_fail(err, SL_EARG,
                       "'%s' has no %s: it was not built; 'sluice build' makes "
                       "a folder that can be pushed",
                       p->o->dir, SL_MANIFEST_FILE);
    if (!rc)
        rc = sl_manifest_load(&m, path, SL_FORM_BUILT, err);
    if (rc)
        return rc;
    snprintf(here.dir, sizeof(here.dir), "%s", p->o->dir);
    if (m.tool)
        rc = sl_fail(err, SL_EARG, "'%s' is a bundle of %s; push it with that",
                     p->o->dir, m.tool);
    else if (sl_manifest_has_zeros(&m, where, sizeof(where)))
        rc = sl_fail(err, SL_EFORMAT,
                     "'%s': '%s' is zero, a value that 'sluice build' has yet "
                     "to fill in",
                     p->o->dir, where);
    else
        rc = sl_install_verify(&here, &m, false, err);
    json_array_foreach(json_object_get(m.json, "files"), i, f)
    {
        if (!rc)
            rc = add_file(p, json_string_value(json_object_get(f, "path")),
                          err);
    }
    if (!rc)
        rc = add_file(p, SL_MANIFEST_FILE, err);
    if (!rc)
        sl_hub_list_sort(&p->have);
    sl_manifest_deinit(&m);
    return rc;
}

/* --------------------------------------------------------------- create */

static int create(const struct push *p, struct sl_err *err)
{
    const char *slash = strchr(p->o->repo, '/');
    struct sl_err why = {.code = SL_OK};
    long status = 0;
    int rc = post_json(
        p, NULL, &status, "/api/repos/create", JSON_TYPE,
        json_pack("{s:s, s:s%, s:s, s:b}", "name", slash + 1, "organization",
                  p->o->repo, (size_t)(slash - p->o->repo), "type", "model",
                  "private", !p->o->is_public),
        &why);

    if (rc && status != 409) /* 409: it is there */
        return sl_fail(err, (enum sl_code)rc, "%s", why.msg);
    return 0;
}

/* -------------------------------------------------------------- compare */

/* The branch's commit and files; a repository that is not there has none. */
static int look(struct push *p, struct sl_err *err)
{
    struct sl_hub_rev rev;
    struct sl_err why;
    int rc = sl_hub_revision(p->o->client, &rev, p->o->repo, p->o->branch,
                             &why);

    if (rc == SL_ENOTFOUND && p->o->dry_run)
        return 0;
    if (rc)
        return sl_fail(err, (enum sl_code)rc, "%s", why.msg);
    snprintf(p->parent, sizeof(p->parent), "%s", rev.sha);
    if (p->o->parent && strcmp(p->o->parent, rev.sha))
        return sl_fail(err, SL_EBUSY,
                       "'%s' is at commit %.12s and --expect-parent is %.12s; "
                       "look at what came in between",
                       p->o->repo, rev.sha, p->o->parent);
    return sl_hub_list(p->o->client, &p->there, p->o->repo, rev.sha, err);
}

/* Is the file on the hub the one of the folder? */
static int same(const struct push *p, bool *out, const struct sl_hub_file *mine,
                const struct sl_hub_file *its, struct sl_err *err)
{
    char full[SL_TREE_PATH], hex[SL_DIGEST_HEX + 1];
    struct sl_map m;
    int rc;

    *out = its && its->size == mine->size && !strcmp(its->digest, mine->digest);
    if (!its || its->size != mine->size || strlen(its->digest) == SL_NAME_SHA256)
        return 0;
    rc = sl_path_join(full, sizeof(full), p->o->dir, mine->path, err);
    if (!rc)
        rc = sl_map_open(&m, full, err);
    if (rc)
        return rc;
    rc = sl_digest_bytes(hex, SL_DIGEST_GIT, m.p, m.len, err);
    *out = !rc && !strcmp(hex, its->digest);
    sl_map_close(&m);
    return rc;
}

static bool goes(const struct push *p, const struct sl_hub_file *its)
{
    return !sl_hub_list_find(&p->have, its->path) &&
           strcmp(its->path, ".gitattributes") &&
           strcmp(its->path, ".gitignore");
}

static int compare(struct push *p, struct sl_err *err)
{
    int rc = 0;

    for (size_t i = 0; !rc && i < p->have.n; i++) {
        const struct sl_hub_file *f = &p->have.file[i];
        bool is_same = false;

        rc = same(p, &is_same, f, sl_hub_list_find(&p->there, f->path), err);
        p->send[i] = !is_same;
        p->out->n_sent += !is_same;
        if (!rc && !is_same)
            say(p, f->path, "send");
    }
    for (size_t i = 0; !rc && i < p->there.n; i++)
        if (goes(p, &p->there.file[i])) {
            p->out->n_removed++;
            say(p, p->there.file[i].path, "remove");
        }
    return rc;
}

/* ------------------------------------------------------------------ ask */

static int api_path(char out[SL_CLIENT_URL], const struct push *p,
                    const char *what, struct sl_err *err)
{
    struct sl_buf b;
    int rc;

    sl_buf_init(&b, SL_CLIENT_URL - 1);
    sl_buf_fmt(&b, "/api/models/%s/%s/", p->o->repo, what);
    sl_address_encode(&b, p->o->branch, false);
    rc = sl_buf_check(&b, "an address", err);
    if (!rc)
        snprintf(out, SL_CLIENT_URL, "%s", b.p);
    sl_buf_deinit(&b);
    return rc;
}

/* {"path", "size", "sample"} of each file to send. */
static int samples(const struct push *p, json_t *list, struct sl_err *err)
{
    char full[SL_TREE_PATH];
    int rc = 0;

    for (size_t i = 0; !rc && i < p->have.n; i++) {
        const struct sl_hub_file *f = &p->have.file[i];
        struct sl_buf b;
        struct sl_map m;

        if (!p->send[i])
            continue;
        rc = sl_path_join(full, sizeof(full), p->o->dir, f->path, err);
        if (!rc)
            rc = sl_map_open(&m, full, err);
        if (rc)
            break;
        sl_buf_init(&b, 2 * SAMPLE);
        rc = add_base64(&b, (const unsigned char *)m.p,
                        sl_min(m.len, (size_t)SAMPLE), err);
        if (!rc && json_array_append_new(
                       list, json_pack("{s:s, s:I, s:s}", "path", f->path,
                                       "size", (json_int_t)f->size, "sample",
                                       b.p ? b.p : "")))
            rc = sl_fail(err, SL_ENOMEM, "no memory is left for a request");
        sl_buf_deinit(&b);
        sl_map_close(&m);
    }
    return rc;
}

static int ask(struct push *p, struct sl_err *err)
{
    char path[SL_CLIENT_URL];
    json_t *list = json_array(), *answer = NULL, *f;
    size_t i;
    int rc = api_path(path, p, "preupload", err);

    if (!rc)
        rc = samples(p, list, err);
    if (rc) {
        json_decref(list);
        return rc;
    }
    rc = post_json(p, &answer, NULL, path, JSON_TYPE,
                   json_pack("{s:o}", "files", list), err);
    json_array_foreach(json_object_get(answer, "files"), i, f)
    {
        const char *name = json_string_value(json_object_get(f, "path"));
        const char *mode = json_string_value(json_object_get(f, "uploadMode"));
        const struct sl_hub_file *mine =
            name ? sl_hub_list_find(&p->have, name) : NULL;

        if (!mine || !mode)
            rc = rc ? rc
                    : sl_fail(err, SL_EFORMAT,
                              "%s: the hub answers about files that were not "
                              "asked for",
                              p->o->repo);
        else
            p->lfs[mine - p->have.file] = !strcmp(mode, "lfs");
    }
    json_decref(answer);
    return rc;
}

/* --------------------------------------------------------------- upload */

static int put_object(const struct push *p, const struct sl_hub_file *f,
                      const json_t *action, struct sl_err *err)
{
    const char *href = json_string_value(json_object_get(action, "href"));
    const char *endpoint = sl_client_places(p->o->client)->endpoint;
    char full[SL_TREE_PATH];
    struct sl_job *j = NULL;
    struct sl_buf b;
    struct sl_map m;
    int rc = sl_mem_alloc(&j, 1, sizeof(*j), "a request", err);

    if (!rc && !href)
        rc = sl_fail(err, SL_EFORMAT, "%s: the hub names no place for '%s'",
                     p->o->repo, f->path);
    if (!rc)
        rc = sl_address_follow(j->to, endpoint, href, endpoint, err);
    if (!rc)
        rc = sl_path_join(full, sizeof(full), p->o->dir, f->path, err);
    if (!rc)
        rc = sl_map_open(&m, full, err);
    if (rc) {
        sl_mem_free(j);
        return rc;
    }
    sl_buf_init(&b, MAX_ANSWER);
    j->what = f->path;
    j->post = m.len ? (const char *)m.p : "";
    j->post_len = m.len;
    j->post_type = "application/octet-stream";
    j->put = true;
    j->patient = true;
    j->refused = on_refused;
    rc = sl_client_get(p->o->client, j, &b, err);
    sl_buf_deinit(&b);
    sl_map_close(&m);
    sl_mem_free(j);
    return rc;
}

/* The hub may want to hear that an object is there. */
static int tell(const struct push *p, const struct sl_hub_file *f,
                const json_t *action, struct sl_err *err)
{
    const char *href = json_string_value(json_object_get(action, "href"));
    const char *endpoint = sl_client_places(p->o->client)->endpoint;
    size_t n = strlen(endpoint);

    if (!href)
        return 0;
    if (strncmp(href, endpoint, n) || href[n] != '/')
        return sl_fail(err, SL_EFORMAT,
                       "%s: the hub wants to be told on another host, which is "
                       "refused",
                       p->o->repo);
    return post_json(p, NULL, NULL, href + n, LFS_TYPE,
                     json_pack("{s:s, s:I}", "oid", f->digest, "size",
                               (json_int_t)f->size),
                     err);
}

static const struct sl_hub_file *by_digest(const struct push *p,
                                           const char *digest)
{
    for (size_t i = 0; digest && i < p->have.n; i++)
        if (p->send[i] && p->lfs[i] && !strcmp(p->have.file[i].digest, digest))
            return &p->have.file[i];
    return NULL;
}

static int upload_object(const struct push *p, const json_t *o,
                         struct sl_err *err)
{
    const char *oid = json_string_value(json_object_get(o, "oid"));
    const json_t *actions = json_object_get(o, "actions");
    const struct sl_hub_file *f = by_digest(p, oid);
    int rc = 0;

    if (!f || json_object_get(o, "error"))
        return sl_fail(err, SL_ENET, "%s: the hub does not take '%s'",
                       p->o->repo, f ? f->path : "a file");
    if (json_object_get(actions, "upload"))
        rc = put_object(p, f, json_object_get(actions, "upload"), err);
    return rc ? rc : tell(p, f, json_object_get(actions, "verify"), err);
}

static int upload(const struct push *p, struct sl_err *err)
{
    json_t *list = json_array(), *answer = NULL, *o;
    char path[SL_NAME_REPO + 64];
    size_t i, n = 0;
    int rc;

    for (i = 0; i < p->have.n; i++)
        if (p->send[i] && p->lfs[i]) {
            json_array_append_new(
                list, json_pack("{s:s, s:I}", "oid", p->have.file[i].digest,
                                "size", (json_int_t)p->have.file[i].size));
            n++;
        }
    if (n == 0) {
        json_decref(list);
        return 0;
    }
    snprintf(path, sizeof(path), "/%s.git/info/lfs/objects/batch", p->o->repo);
    rc = post_json(p, &answer, NULL, path, LFS_TYPE,
                   json_pack("{s:s, s:[s], s:s, s:o}", "operation", "upload",
                             "transfers", "basic", "hash_algo", "sha256",
                             "objects", list),
                   err);
    json_array_foreach(json_object_get(answer, "objects"), i, o)
    {
        if (!rc)
            rc = upload_object(p, o, err);
    }
    json_decref(answer);
    return rc;
}

/* --------------------------------------------------------------- commit */

static int add_line(struct sl_buf *b, json_t *line, struct sl_err *err)
{
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;

    if (text)
        sl_buf_fmt(b, "%s\n", text);
    free(text); /* jansson's own */
    json_decref(line);
    return text ? sl_buf_check(b, "a commit", err)
                : sl_fail(err, SL_ENOMEM, "no memory is left for a commit");
}

static int add_content(struct sl_buf *b, const struct push *p,
                       const struct sl_hub_file *f, struct sl_err *err)
{
    char full[SL_TREE_PATH];
    struct sl_buf text;
    struct sl_map m;
    int rc = sl_path_join(full, sizeof(full), p->o->dir, f->path, err);

    if (!rc)
        rc = sl_map_open(&m, full, err);
    if (rc)
        return rc;
    sl_buf_init(&text, MAX_COMMIT);
    rc = add_base64(&text, (const unsigned char *)m.p, m.len, err);
    if (!rc)
        rc = add_line(b,
                      json_pack("{s:s, s:{s:s, s:s, s:s}}", "key", "file",
                                "value", "content", text.p ? text.p : "",
                                "path", f->path, "encoding", "base64"),
                      err);
    sl_buf_deinit(&text);
    sl_map_close(&m);
    return rc;
}

static int body(struct sl_buf *b, const struct push *p, struct sl_err *err)
{
    int rc = add_line(b,
                      json_pack("{s:s, s:{s:s, s:s, s:s}}", "key", "header",
                                "value", "summary", "bundle", "description", "",
                                "parentCommit", p->parent),
                      err);

    for (size_t i = 0; !rc && i < p->have.n; i++) {
        const struct sl_hub_file *f = &p->have.file[i];

        if (!p->send[i])
            continue;
        rc = p->lfs[i]
                 ? add_line(b,
                            json_pack("{s:s, s:{s:s, s:s, s:s, s:I}}", "key",
                                      "lfsFile", "value", "path", f->path,
                                      "algo", "sha256", "oid", f->digest,
                                      "size", (json_int_t)f->size),
                            err)
                 : add_content(b, p, f, err);
    }
    for (size_t i = 0; !rc && i < p->there.n; i++)
        if (goes(p, &p->there.file[i]))
            rc = add_line(b,
                          json_pack("{s:s, s:{s:s}}", "key", "deletedFile",
                                    "value", "path", p->there.file[i].path),
                          err);
    return rc;
}

static int commit(const struct push *p, struct sl_err *err)
{
    char path[SL_CLIENT_URL];
    const char *sha;
    json_t *answer = NULL;
    struct sl_buf b;
    int rc = api_path(path, p, "commit", err);

    sl_buf_init(&b, MAX_COMMIT);
    if (!rc)
        rc = body(&b, p, err);
    if (!rc)
        rc = post(p, &answer, NULL, path, "application/x-ndjson", b.p, b.len,
                  err);
    sl_buf_deinit(&b);
    sha = json_string_value(json_object_get(answer, "commitOid"));
    if (!rc && (!sha || !sl_name_is_hex(sha, SL_NAME_COMMIT)))
        rc = sl_fail(err, SL_EFORMAT,
                     "%s: the hub took the commit and does not say its number",
                     p->o->repo);
    if (!rc)
        snprintf(p->out->sha, sizeof(p->out->sha), "%s", sha);
    json_decref(answer);
    return rc;
}

/* ------------------------------------------------------------------ all */

static int send_all(struct push *p, struct sl_err *err)
{
    int rc = p->o->dry_run ? 0 : create(p, err);

    if (!rc)
        rc = look(p, err);
    if (!rc)
        rc = compare(p, err);
    if (rc || p->o->dry_run || p->out->n_sent + p->out->n_removed == 0)
        return rc;
    rc = p->out->n_sent ? ask(p, err) : 0;
    if (!rc)
        rc = upload(p, err);
    return rc ? rc : commit(p, err);
}

int sl_push(struct sl_push_result *out, const struct sl_push_opts *o,
            struct sl_err *err)
{
    struct push p = {.o = o, .out = out};
    int rc;

    *out = (struct sl_push_result){.n_sent = 0};
    if (!sl_name_is_repo(o->repo) || !sl_name_is_rev(o->branch))
        return sl_fail(err, SL_EARG, "'%.100s@%.100s' is no name on a hub",
                       o->repo, o->branch);
    if (!o->dry_run && !*sl_client_places(o->client)->token)
        return sl_fail(err, SL_ENOTFOUND,
                       "pushing needs a token that may write; 'sluice login' "
                       "keeps one");
    rc = check(&p, err);
    if (!rc)
        rc = sl_mem_alloc(&p.send, p.have.n, sizeof(*p.send), "a push", err);
    if (!rc)
        rc = sl_mem_alloc(&p.lfs, p.have.n, sizeof(*p.lfs), "a push", err);
    if (!rc)
        rc = send_all(&p, err);
    if (!rc && !*out->sha)
        snprintf(out->sha, sizeof(out->sha), "%s", p.parent);
    sl_mem_free(p.send);
    sl_mem_free(p.lfs);
    sl_hub_list_deinit(&p.have);
    sl_hub_list_deinit(&p.there);
    return rc;
}
