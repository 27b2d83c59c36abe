/* bundle/hub.c - what a hub knows; see hub.h
 *
 * One listing of a pinned commit stands for a question per file: entries with
 * "lfs" have the sha256 of their content, the others the git digest ("oid").
 */
#include "bundle/hub.h"

#include "base/mem.h"
#include "base/utf8.h"

#define MAX_ANSWER                                                             \
    ((size_t)16 << 20) /* bytes of one; a page has 1000 files                  \
                        */
#define MAX_PAGES 1000

void sl_hub_plain(char *out, size_t cap, const char *s)
{
    size_t n = 0, len = sl_utf8_valid(s, strlen(s));

    for (size_t i = 0; i < len && n + 1 < cap; i++)
        out[n++] = (unsigned char)s[i] < 0x20 || s[i] == 0x7f ? ' ' : s[i];
    n -= sl_utf8_partial(out, n);
    out[n] = 0;
}

/* -------------------------------------------------------------- refusals */

int sl_hub_refused(struct sl_job *j, const char *repo, struct sl_err *err)
{
    const char *code = j->in.error_code;
    const struct sl_places *p = sl_client_places(j->http);
    bool known = *p->token;
    char text[200];

    sl_hub_plain(text, sizeof(text),
                 *j->in.error_text ? j->in.error_text : j->text);
    if (j->status == 401 && !strcmp(code, "GatedRepo"))
        return sl_fail(err, SL_ENOTFOUND,
                       "'%s' is gated: accept its licence on %s/%s, then "
                       "'sluice login' with a token of that account",
                       repo, p->endpoint, repo);
    if (j->status == 403 && !strcmp(code, "GatedRepo"))
        return sl_fail(err, SL_ENOTFOUND,
                       "'%s' is gated, and the token's account has not been "
                       "let in: accept its licence on %s/%s",
                       repo, p->endpoint, repo);
    if (j->status == 401)
        return sl_fail(err, SL_ENOTFOUND,
                       "there is no repository '%s', or it is private and %s; "
                       "look at the spelling, or 'sluice login'",
                       repo,
                       known ? "the token may not see it" : "no token is set");
    if (j->status == 403)
        return sl_fail(err, SL_ENOTFOUND,
                       "the hub forbids '%s': %s; look at what the token may "
                       "do",
                       repo, *text ? text : "no reason given");
    if (j->status == 404 && !strcmp(code, "RevisionNotFound"))
        return sl_fail(err, SL_ENOTFOUND,
                       "%s: the repository '%s' has no such revision", j->what,
                       repo);
    if (j->status == 404 && !strcmp(code, "EntryNotFound"))
        return sl_fail(err, SL_ENOTFOUND,
                       "%s: the repository '%s' has no such file", j->what,
                       repo);
    if (j->status == 404 || j->status == 410)
        return sl_fail(err, SL_ENOTFOUND,
                       "there is no repository '%s'; look at the spelling",
                       repo);
    return sl_fail(err, SL_ENET, "%s: the hub answers with status %ld: %s",
                   j->what, j->status, text);
}

static int on_refused(struct sl_job *j, struct sl_err *err)
{
    return sl_hub_refused(j, j->what, err);
}

/* GET path -> JSON. The job may be NULL. `what` is the repository's name. */
static int get_json(struct sl_client *h, json_t **out, const char *path,
                    const char *what, struct sl_job **keep, struct sl_err *err)
{
    struct sl_job *j = NULL;
    struct sl_buf b;
    int rc = sl_mem_alloc(&j, 1, sizeof(*j), "a request", err);

    if (rc)
        return rc;
    sl_buf_init(&b, MAX_ANSWER);
    j->path = path;
    j->what = what;
    j->refused = on_refused;
    rc = sl_client_get(h, j, &b, err);
    if (!rc) {
        rc = sl_json_parse(out, b.p ? b.p : "", b.len, "the hub's answer", err);
        rc = sl_wrap(err, rc, "%s", what);
    }
    sl_buf_deinit(&b);
    if (!rc && keep)
        *keep = j;
    else
        sl_mem_free(j);
    return rc;
}

/* -------------------------------------------------------------- revision */

static int bad_answer(struct sl_err *err, const char *repo, const char *what)
{
    return sl_fail(err, SL_EFORMAT,
                   "%s: the hub's answer has no proper '%s'; is HF_ENDPOINT a "
                   "hub?",
                   repo, what);
}

int sl_hub_revision(struct sl_client *h, struct sl_hub_rev *out,
                    const char *repo, const char *rev, struct sl_err *err)
{
    struct sl_hub_rev r = {.repo = ""};
    const char *sha, *id;
    const json_t *gated;
    json_t *j = NULL;
    struct sl_buf path;
    int rc;

    if (!sl_name_is_repo(repo) || !sl_name_is_rev(rev))
        return sl_fail(err, SL_EARG, "'%.100s@%.100s' is no name on a hub",
                       repo, rev);
    sl_buf_init(&path, 4096);
    sl_buf_fmt(&path, "/api/models/%s/revision/", repo);
    sl_address_encode(&path, rev, false);
    rc = sl_buf_check(&path, "an address", err);
    if (!rc)
        rc = get_json(h, &j, path.p, repo, NULL, err);
    sl_buf_deinit(&path);
    if (rc)
        return rc;
    sha = json_string_value(json_object_get(j, "sha"));
    id = json_string_value(json_object_get(j, "id"));
    gated = json_object_get(j, "gated");
    if (!sha || !sl_name_is_hex(sha, SL_NAME_COMMIT)) {
        json_decref(j);
        return bad_answer(err, repo, "sha");
    }
    snprintf(r.sha, sizeof(r.sha), "%s", sha);
    snprintf(r.repo, sizeof(r.repo), "%s",
             id && sl_name_is_repo(id) ? id : repo);
    r.gated = json_is_true(gated) || json_is_string(gated);
    r.private_repo = json_is_true(json_object_get(j, "private"));
    json_decref(j);
    if (sl_name_is_hex(rev, SL_NAME_COMMIT) && strcmp(rev, r.sha))
        return sl_fail(err, SL_EFORMAT,
                       "%s: the commit %s was asked for and the hub gives %s",
                       repo, rev, r.sha);
    *out = r;
    return 0;
}

/* --------------------------------------------------------------- listing */

int sl_hub_list_add(struct sl_hub_list *l, const char *path, uint64_t size,
                    const char *digest, struct sl_err *err)
{
    struct sl_hub_file *f;
    int rc;

    if (l->n == SL_HUB_FILES)
        return sl_fail(err, SL_EFORMAT, "there are more than %d files",
                       SL_HUB_FILES);
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;

        rc = sl_mem_resize(&l->file, cap, sizeof(*l->file), "a list of files",
                           err);
        if (rc)
            return rc;
        l->cap = cap;
    }
    f = &l->file[l->n];
    *f = (struct sl_hub_file){.size = size};
    snprintf(f->digest, sizeof(f->digest), "%s", digest);
    rc = sl_mem_dup(&f->path, path, strlen(path), err);
    if (rc)
        return rc;
    l->n_rising += l->n_rising == l->n &&
                   (l->n == 0 || strcmp(f[-1].path, f->path) < 0);
    l->n++;
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct sl_hub_file *)a)->path,
                  ((const struct sl_hub_file *)b)->path);
}

void sl_hub_list_sort(struct sl_hub_list *l)
{
    if (l->n)
        qsort(l->file, l->n, sizeof(*l->file), by_path);
    l->n_rising = l->n;
}

const struct sl_hub_file *sl_hub_list_find(const struct sl_hub_list *l,
                                           const char *path)
{
    const struct sl_hub_file key = {.path = (char *)(uintptr_t)path};
    const struct sl_hub_file *f =
        l->n_rising
            ? bsearch(&key, l->file, l->n_rising, sizeof(key), by_path)
            : NULL;

    for (size_t i = l->n_rising; !f && i < l->n; i++)
        if (!strcmp(l->file[i].path, path))
            f = &l->file[i];
    return f;
}

void sl_hub_list_deinit(struct sl_hub_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        sl_mem_free(l->file[i].path);
    sl_mem_free(l->file);
    *l = (struct sl_hub_list){.n = 0};
}

/* {"type": "file", "path", "size", "oid", "lfs": {"oid", "size"}} */
static int add_entry(struct sl_hub_list *l, const json_t *e, const char *repo,
                     struct sl_err *err)
{
    const json_t *lfs = json_object_get(e, "lfs");
    const json_t *from = json_is_object(lfs) ? lfs : e;
    const char *type = json_string_value(json_object_get(e, "type"));
    const char *path = json_string_value(json_object_get(e, "path"));
    const char *oid = json_string_value(json_object_get(from, "oid")), *flaw;
    const json_t *size = json_object_get(from, "size");
    char shown[120];

    if (type && !strcmp(type, "directory"))
        return 0;
    if (!type || strcmp(type, "file") || !path)
        return bad_answer(err, repo, "type");
    flaw = sl_name_path_flaw(path);
    sl_hub_plain(shown, sizeof(shown), path);
    if (flaw)
        return sl_fail(err, SL_EFORMAT,
                       "%s: it has a file with the path '%s', which %s; the "
                       "repository is refused",
                       repo, shown, flaw);
    if (!json_is_integer(size) || json_integer_value(size) < 0 ||
        json_integer_value(size) > (json_int_t)SL_HUB_MAX_BYTES)
        return bad_answer(err, repo, "size");
    /* Some hubs write "sha256:" in front. */
    if (oid && !strncmp(oid, "sha256:", 7))
        oid += 7;
    if (!oid ||
        !sl_name_is_hex(oid, from == lfs ? SL_NAME_SHA256 : SL_NAME_COMMIT))
        return sl_fail(err, SL_EFORMAT,
                       "%s: the hub gives no proper digest for '%s'", repo,
                       shown);
    return sl_hub_list_add(l, path, (uint64_t)json_integer_value(size), oid,
                           err);
}

int sl_hub_list_page(struct sl_hub_list *l, const json_t *page,
                     const char *repo, struct sl_err *err)
{
    json_t *e;
    size_t i;

    if (!json_is_array(page))
        return bad_answer(err, repo, "list");
    json_array_foreach(page, i, e)
    {
        int rc = add_entry(l, e, repo, err);

        if (rc)
            return rc;
    }
    return 0;
}

/* The address of rel="next" in a Link field, without the endpoint; it must
 * stay there. *next is "" at the end. */
int sl_hub_next_page(char next[SL_CLIENT_URL], const char *link,
                     const char *endpoint, const char *repo, struct sl_err *err)
{
    const char *rel = strstr(link, "rel=\"next\""), *p = link, *end;
    size_t n = strlen(endpoint);

    next[0] = 0;
    if (!rel)
        return 0;
    /* The last '<' before it. */
    for (const char *q = link; (q = strchr(q, '<')) && q < rel; q++)
        p = q + 1;
    end = strchr(p, '>');
    if (!end || end > rel || end - p >= SL_CLIENT_URL)
        return bad_answer(err, repo, "Link");
    if ((size_t)(end - p) > n && !strncmp(p, endpoint, n) && p[n] == '/')
        p += n;
    if (*p != '/')
        return sl_fail(err, SL_EFORMAT,
                       "%s: the next page of the listing lies on another host, "
                       "which is refused",
                       repo);
    snprintf(next, SL_CLIENT_URL, "%.*s", (int)(end - p), p);
    return 0;
}

static int one_page(struct sl_client *h, struct sl_hub_list *l,
                    char path[SL_CLIENT_URL], const char *repo,
                    struct sl_err *err)
{
    json_t *page = NULL;
    struct sl_job *j = NULL;
    int rc = get_json(h, &page, path, repo, &j, err);

    if (!rc)
        rc = sl_hub_list_page(l, page, repo, err);
    if (!rc)
        rc = sl_hub_next_page(path, j->in.link, sl_client_places(h)->endpoint,
                              repo, err);
    json_decref(page);
    sl_mem_free(j);
    return rc;
}

static int check_twins(const struct sl_hub_list *l, const char *repo,
                       struct sl_err *err)
{
    const char **path = NULL, *a, *b;
    int rc = sl_mem_alloc(&path, l->n, sizeof(*path), "names of files", err);

    if (rc)
        return rc;
    for (size_t i = 0; i < l->n; i++)
        path[i] = l->file[i].path;
    if (sl_name_twins(&a, &b, path, l->n))
        rc = sl_fail(err, SL_EFORMAT,
                     "%s: '%.200s' and '%.200s' are one name to some file "
                     "systems; the repository is refused",
                     repo, a, b);
    sl_mem_free(path);
    return rc;
}

int sl_hub_list(struct sl_client *h, struct sl_hub_list *out, const char *repo,
                const char *sha, struct sl_err *err)
{
    struct sl_hub_list l = {.n = 0};
    char *path = NULL;
    int pages = 0,
        rc = sl_mem_alloc(&path, SL_CLIENT_URL, 1, "an address", err);

    if (rc)
        return rc;
    snprintf(path, SL_CLIENT_URL,
             "/api/models/%s/tree/%s?recursive=true&expand=false", repo, sha);
    while (!rc && *path) {
        if (++pages > MAX_PAGES)
            rc = sl_fail(err, SL_EFORMAT,
                         "%s: the listing has more than %d "
                         "pages",
                         repo, MAX_PAGES);
        else
            rc = one_page(h, &l, path, repo, err);
    }
    sl_mem_free(path);
    if (!rc)
        rc = check_twins(&l, repo, err);
    if (rc) {
        sl_hub_list_deinit(&l);
        return rc;
    }
    sl_hub_list_sort(&l);
    *out = l;
    return 0;
}

/* ---------------------------------------------------------------- others */

int sl_hub_there(struct sl_client *h, int64_t *date_s, struct sl_err *err)
{
    struct sl_job *j = NULL;
    json_t *out = NULL;
    int rc = get_json(h, &out, "/api/models?limit=1&full=false",
                      "the hub", &j, err);

    *date_s = rc ? -1 : j->in.date_s;
    json_decref(out);
    sl_mem_free(j);
    return rc;
}

int sl_hub_whoami(struct sl_client *h, char out[SL_NAME_REPO + 1],
                  struct sl_err *err)
{
    json_t *j = NULL;
    const char *name;
    int rc;

    if (!*sl_client_places(h)->token)
        return sl_fail(err, SL_ENOTFOUND, "there is no token");
    rc = get_json(h, &j, "/api/whoami-v2", "the token", NULL, err);
    if (rc == SL_ENOTFOUND)
        return sl_fail(err, rc,
                       "the hub does not know this token; make one on "
                       "%s/settings/tokens",
                       sl_client_places(h)->endpoint);
    if (rc)
        return rc;
    name = json_string_value(json_object_get(j, "name"));
    if (name)
        sl_hub_plain(out, SL_NAME_REPO + 1, name);
    else
        rc = bad_answer(err, "the token", "name");
    json_decref(j);
    return rc;
}

int sl_hub_search(struct sl_client *h, json_t **out, const char *text,
                  const char *tag, unsigned limit, struct sl_err *err)
{
    struct sl_buf path;
    int rc;

    sl_buf_init(&path, 8192);
    sl_buf_fmt(&path, "/api/models?limit=%u&full=false&search=", limit);
    sl_address_encode(&path, text, false);
    if (tag) {
        sl_buf_str(&path, "&filter=");
        sl_address_encode(&path, tag, false);
    }
    rc = sl_buf_check(&path, "the words to search", err);
    if (!rc)
        rc = get_json(h, out, path.p, "search", NULL, err);
    sl_buf_deinit(&path);
    if (!rc && !json_is_array(*out)) {
        json_decref(*out);
        rc = bad_answer(err, "search", "list");
    }
    return rc;
}
