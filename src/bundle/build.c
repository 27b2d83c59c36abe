/* bundle/build.c - from an author's folder to a bundle; see build.h
 *
 * Nothing of this machine goes in: no host, no user, no absolute path, no
 * order of a folder. Keys are written in the order of the format, files by
 * rising path. The result is parsed again as a stranger would before it is
 * called one.
 */
#include "bundle/build.h"

#include "base/mem.h"
#include "bundle/hub.h"
#include "bundle/store.h"

#define MAX_DEPTH 32 /* folders inside a bundle; chosen, not measured */
#define MAX_BUNDLE_FILES 10000
#define DAY_S 86400

/* -------------------------------------------------------------- weights */

static bool matches(const json_t *globs, const char *path)
{
    json_t *g;
    size_t i;

    json_array_foreach(globs, i, g)
    {
        if (sl_name_glob(json_string_value(g), path))
            return true;
    }
    return false;
}

static bool is_chosen(const json_t *weights, const char *path)
{
    const json_t *allow = json_object_get(weights, "allow");

    if (!strcmp(path, SL_MANIFEST_FILE) || !strcmp(path, ".gitattributes"))
        return false;
    return (!json_array_size(allow) || matches(allow, path)) &&
           !matches(json_object_get(weights, "ignore"), path);
}

static int set_files(json_t *weights, const struct sl_hub_list *l,
                     const char *repo, struct sl_err *err)
{
    json_t *files = json_array();
    json_int_t sum = 0;

    for (size_t i = 0; i < l->n; i++) {
        const struct sl_hub_file *f = &l->file[i];

        if (!is_chosen(weights, f->path))
            continue;
        sum += (json_int_t)f->size;
        json_array_append_new(
            files, json_pack("{s:s, s:I, s:s}", "path", f->path, "size",
                             (json_int_t)f->size,
                             strlen(f->digest) == SL_NAME_SHA256 ? "sha256"
                                                                 : "git_sha1",
                             f->digest));
    }
    if (json_array_size(files) == 0) {
        json_decref(files);
        return sl_fail(err, SL_EARG,
                       "'allow' and 'ignore' leave no file of '%s'", repo);
    }
    json_object_set_new(weights, "files", files);
    json_object_set_new(weights, "total_bytes", json_integer(sum));
    return 0;
}

/* A branch to a commit, a commit to its files. Offline, both must be there. */
static int pin(json_t *weights, struct sl_client *c, struct sl_err *err)
{
    const char *repo = json_string_value(json_object_get(weights, "repo"));
    const char *rev = json_string_value(json_object_get(weights, "revision"));
    struct sl_hub_list l = {.n = 0};
    struct sl_hub_rev r;
    int rc;

    if (sl_client_places(c)->offline) {
        if (sl_name_is_hex(rev, SL_NAME_COMMIT) &&
            json_array_size(json_object_get(weights, "files")))
            return 0;
        return sl_fail(err, SL_ENET,
                       "offline, and '%s' is not pinned: it needs a commit and "
                       "its files",
                       repo);
    }
    rc = sl_hub_revision(c, &r, repo, rev, err);
    if (!rc)
        rc = sl_hub_list(c, &l, repo, r.sha, err);
    if (!rc)
        rc = set_files(weights, &l, repo, err);
    if (!rc)
        json_object_set_new(weights, "revision", json_string(r.sha));
    sl_hub_list_deinit(&l);
    return rc;
}

/* The profiles whose merged settings ask for this drafter. */
static int set_required_by(json_t *drafter, const struct sl_manifest *m,
                           struct sl_err *err)
{
    const char *id = json_string_value(json_object_get(drafter, "id"));
    const char *role = json_string_value(json_object_get(drafter, "role"));
    json_t *by = json_array(), *v;
    const char *name;

    json_object_foreach(json_object_get(m->json, "profiles"), name, v)
    {
        json_t *p = NULL, *spec;
        const char *model, *drafts, *who;
        int rc = sl_manifest_profile(&p, m, name, err);

        if (rc) {
            json_decref(by);
            return rc;
        }
        spec = json_object_get(p, "spec");
        model = json_string_value(json_object_get(spec, "draft_model"));
        drafts = json_string_value(json_object_get(spec, "drafter"));
        who = json_string_value(json_object_get(spec, "speculate"));
        if ((!who || strcmp(who, "off")) &&
            ((model && !strcmp(model, id)) ||
             (drafts &&
              (!strcmp(drafts, role) ||
               (!strcmp(drafts, "auto") &&
                json_is_true(json_object_get(drafter, "embedded")))))))
            json_array_append_new(by, json_string(name));
        json_decref(p);
    }
    json_object_set_new(drafter, "required_by", by);
    return 0;
}

/* ---------------------------------------------------------------- files */

struct walk {
    const char *root;
    struct sl_hub_list *list;
};

/* Regular files below root/rel; hidden ones and bundle.json are the author's
 * own. Bounded by `depth`. */
static int collect(const struct walk *w, const char *rel, int depth,
                   struct sl_err *err)
{
    struct sl_names names = {.n = 0};
    char path[SL_TREE_PATH], sub[SL_NAME_PATH + 260];
    int rc = sl_path_join(path, sizeof(path), w->root, rel, err);

    if (!rc)
        rc = sl_names_list(&names, path, err);
    for (size_t i = 0; !rc && i < names.n; i++) {
        const char *flaw;
        struct sl_stat st;

        snprintf(sub, sizeof(sub), "%.1024s%s%.255s", rel, *rel ? "/" : "",
                 names.name[i]);
        if (names.name[i][0] == '.' || !strcmp(sub, SL_MANIFEST_AUTHORED) ||
            !strcmp(sub, SL_MANIFEST_FILE))
            continue;
        flaw = sl_name_path_flaw(sub);
        rc = sl_path_join(path, sizeof(path), w->root, sub, err);
        if (!rc && flaw)
            rc = sl_fail(err, SL_EARG, "the path '%s' %s", path, flaw);
        else if (!rc && !sl_tree_stat(&st, path, false))
            rc = sl_fail(err, SL_EIO, "'%s' is gone", path);
        else if (!rc && st.kind == SL_FILE_DIR && depth > 0)
            rc = collect(w, sub, depth - 1, err);
        else if (!rc && (st.kind != SL_FILE_REGULAR || depth == 0))
            rc = sl_fail(err, SL_EARG,
                         "'%s' is no regular file, or lies too deep; a bundle "
                         "holds regular files only",
                         path);
        else if (!rc && w->list->n == MAX_BUNDLE_FILES)
            rc = sl_fail(err, SL_EARG, "'%s' has more than %d files", w->root,
                         MAX_BUNDLE_FILES);
        else if (!rc)
            rc = sl_hub_list_add(w->list, sub, st.size, "", err);
    }
    sl_names_deinit(&names);
    return rc;
}

/* Copy one file and describe it. */
static int put_file(json_t *files, const struct sl_build_opts *o,
                    const char *tmp, const char *path, struct sl_err *err)
{
    char src[SL_TREE_PATH], hex[SL_DIGEST_HEX + 1];
    struct sl_map m;
    bool run;
    int rc = sl_path_join(src, sizeof(src), o->dir, path, err);

    if (rc)
        return rc;
    run = sl_tree_can_run(src);
    rc = sl_map_open(&m, src, err);
    if (rc)
        return rc;
    rc = sl_digest_bytes(hex, SL_DIGEST_SHA256, m.p, m.len, err);
    if (!rc)
        json_array_append_new(files,
                              json_pack("{s:s, s:I, s:s, s:s}", "path", path,
                                        "size", (json_int_t)m.len, "sha256",
                                        hex, "mode", run ? "0755" : "0644"));
    sl_map_close(&m);
    return rc ? rc : sl_tree_copy_below(tmp, path, src, run ? 0755 : 0644, err);
}

/* ---------------------------------------------------------------- built */

/* Seconds since 1970 as 2026-12-01T00:00:00Z; the civil calendar (Hinnant,
 * "chrono-compatible low-level date algorithms", 2013). */
static void date(char out[32], int64_t s)
{
    int64_t day = s / DAY_S, sec = s % DAY_S, z, era, doe, yoe, doy, mp, y;

    z = day + 719468;
    era = z / 146097;
    doe = z - era * 146097;
    yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    mp = (5 * doy + 2) / 153;
    y = yoe + era * 400 + (mp >= 10);
    snprintf(out, 32, "%04d-%02d-%02dT%02d:%02d:%02dZ", (int)y,
             (int)(mp < 10 ? mp + 3 : mp - 9),
             (int)(doy - (153 * mp + 2) / 5 + 1), (int)(sec / 3600),
             (int)(sec / 60 % 60), (int)(sec % 60));
}

static json_t *built(const struct sl_build_opts *o)
{
    char when[32];

    date(when, o->time_s);
    return json_pack("{s:s, s:s, s:s, s:b}", "tool", "sluice", "tool_version",
                     SL_VERSION, "built_at", when, "reproducible",
                     (int)o->reproducible);
}

/* ---------------------------------------------------------------- build */

static int write_manifest(struct sl_manifest *out, json_t *j, const char *tmp,
                          struct sl_err *err)
{
    json_t *ordered = sl_manifest_order(j);
    char path[SL_TREE_PATH], *text;
    size_t n;
    int rc = sl_path_join(path, sizeof(path), tmp, SL_MANIFEST_FILE, err);

    text = ordered ? json_dumps(ordered, JSON_INDENT(2) | JSON_PRESERVE_ORDER)
                   : NULL;
    json_decref(ordered);
    n = text ? strlen(text) : 0;
    if (!text)
        return sl_fail(err, SL_ENOMEM, "no memory is left for a manifest");
    if (!rc)
        rc = sl_manifest_parse(out, text, n, SL_FORM_BUILT, SL_MANIFEST_FILE,
                               err);
    if (!rc) {
        rc = sl_file_write(path, text, n, err);
        if (rc)
            sl_manifest_deinit(out);
    }
    free(text); /* jansson's own */
    return rc;
}

static int fill(struct sl_manifest *m, const struct sl_build_opts *o,
                const char *tmp, struct sl_err *err)
{
    struct sl_hub_list list = {.n = 0};
    const struct walk w = {.root = o->dir, .list = &list};
    json_t *files = json_array(), *d;
    size_t i;
    int rc = pin(json_object_get(m->json, "weights"), o->client, err);

    json_array_foreach(json_object_get(m->json, "drafters"), i, d)
    {
        if (!rc && json_object_get(d, "repo"))
            rc = pin(d, o->client, err);
        if (!rc)
            rc = set_required_by(d, m, err);
    }
    if (!rc)
        rc = collect(&w, "", MAX_DEPTH, err);
    if (!rc)
        sl_hub_list_sort(&list);
    for (size_t k = 0; !rc && k < list.n; k++)
        rc = put_file(files, o, tmp, list.file[k].path, err);
    sl_hub_list_deinit(&list);
    json_object_set_new(m->json, "files", files);
    json_object_set_new(m->json, "built", built(o));
    return rc;
}

/* The result replaces an earlier one, and nothing else. */
static int put_out(const char *tmp, const char *out, struct sl_err *err)
{
    char path[SL_TREE_PATH];
    int rc = sl_path_join(path, sizeof(path), out, SL_MANIFEST_FILE, err);

    if (!rc && sl_file_kind(out) != SL_FILE_NONE) {
        if (sl_file_kind(path) != SL_FILE_REGULAR)
            return sl_fail(err, SL_EARG,
                           "'%s' is there and is no built bundle; name another "
                           "folder",
                           out);
        rc = sl_tree_remove(out, err);
    }
    return rc ? rc : sl_tree_rename(tmp, out, err);
}

int sl_build(struct sl_manifest *m, const struct sl_build_opts *o,
             struct sl_err *err)
{
    struct sl_manifest author = {.json = NULL};
    char path[SL_TREE_PATH], tmp[SL_TREE_PATH];
    int rc =
        sl_path_join(path, sizeof(path), o->dir, SL_MANIFEST_AUTHORED, err);

    if (!rc && snprintf(tmp, sizeof(tmp), "%s.tmp", o->out) >= (int)sizeof(tmp))
        rc = sl_fail(err, SL_EARG, "the path '%.100s...' is too long", o->out);
    if (!rc)
        rc = sl_manifest_load(&author, path, SL_FORM_AUTHORED, err);
    if (rc)
        return rc;
    rc = sl_tree_remove(tmp, err); /* what a crash left */
    if (!rc)
        rc = sl_tree_make(tmp, err);
    if (!rc)
        rc = fill(&author, o, tmp, err);
    if (!rc)
        rc = write_manifest(m, author.json, tmp, err);
    if (!rc) {
        rc = put_out(tmp, o->out, err);
        if (rc)
            sl_manifest_deinit(m);
    }
    if (rc)
        (void)sl_tree_remove(tmp, NULL);
    sl_manifest_deinit(&author);
    return rc;
}

/* ----------------------------------------------------------------- init */

/* "Org/Name-1.5B" -> "name-1.5b" */
static void slug(char out[SL_NAME_SLUG + 1], const char *repo)
{
    const char *s = strchr(repo, '/') + 1;
    size_t n = 0;

    for (; *s && n < SL_NAME_SLUG; s++)
        out[n++] = (char)(*s >= 'A' && *s <= 'Z' ? *s + 'a' - 'A' : *s);
    out[n] = 0;
}

int sl_build_init(const char *dir, const char *repo, const char *rev,
                  const json_t *about, struct sl_err *err)
{
    bool mtp = json_is_true(json_object_get(about, "mtp"));
    char path[SL_TREE_PATH], name[SL_NAME_SLUG + 1], *text;
    json_t *j, *ordered;
    int rc = sl_path_join(path, sizeof(path), dir, SL_MANIFEST_AUTHORED, err);

    if (!rc && sl_file_kind(path) != SL_FILE_NONE)
        rc = sl_fail(err, SL_EARG, "'%s' is there already; it is left as it is",
                     path);
    if (!rc)
        rc = sl_tree_make(dir, err);
    if (rc)
        return rc;
    slug(name, repo);
    j = json_pack(
        "{s:s, s:s, s:s, s:s, s:{s:s, s:s, s:I}, s:{s:s, s:s, s:[s,s,s,s], "
        "s:[s]}, s:{s:s, s:s}, s:{s:{s:[s]}}, s:{s:{s:s, s:{s:s}}}, s:{s:s}}",
        "schema_version", SL_MANIFEST_VERSION, "kind", "native", "name", name,
        "license", "Apache-2.0", "model", "id", repo, "architecture",
        json_string_value(json_object_get(about, "architecture")),
        "context_length", json_integer_value(json_object_get(about, "context")),
        "weights", "repo", repo, "revision", rev, "allow", "*.safetensors",
        "*.json", "*.txt", "*.jinja", "ignore", "original/*", "engine", "name",
        "sluice", "min_version", SL_VERSION, "serve", "requires", "backend",
        "cpu", "profiles", "plain", "description", "No drafts", "spec",
        "speculate", "off", "sampling", "source", "generation_config");
    if (j && mtp) {
        json_object_set_new(
            json_object_get(j, "profiles"), "spec-decode",
            json_pack("{s:s, s:{s:s, s:s}}", "description",
                      "The MTP head drafts; the text is the same", "spec",
                      "speculate", "all", "drafter", "mtp"));
        json_object_set_new(j, "drafters",
                            json_pack("[{s:s, s:s, s:b, s:{s:s}}]", "id", "mtp",
                                      "role", "mtp", "embedded", 1, "tensors",
                                      "prefix", "mtp."));
    }
    if (j)
        json_object_set_new(j, "default_profile",
                            json_string(mtp ? "spec-decode" : "plain"));
    ordered = j ? sl_manifest_order(j) : NULL;
    text = ordered ? json_dumps(ordered, JSON_INDENT(2) | JSON_PRESERVE_ORDER)
                   : NULL;
    json_decref(ordered);
    json_decref(j);
    if (!text)
        return sl_fail(err, SL_ENOMEM, "no memory is left for a manifest");
    rc = sl_file_write(path, text, strlen(text), err);
    free(text); /* jansson's own */
    return rc;
}
