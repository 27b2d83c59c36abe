/* bundle/manifest.c - serve_bundle.json; see manifest.h
 *
 * Reading goes from cheap to dear, because the bytes come from strangers: size,
 * nesting and count of values on the raw bytes before any tree is built; then
 * jansson, which refuses duplicate keys; then every text; then the tables of
 * shapes; then what ties one field to another.
 *
 * Strictness is the point of the format: a key that does nothing is an error,
 * because its author believes that it does something. Only a manifest of a
 * newer minor version may have unknown keys, and never among settings.
 */
#include "bundle/manifest.h"

#include "base/file.h"
#include "base/mem.h"
#include "bundle/digest.h"
#include "bundle/fields.h"
#include "bundle/setting.h"

#define MAX_BYTES ((json_int_t)1 << 53) /* of all files; fields.c */
#define MAX_DEPTH 16 /* all limits here are the format's, section 1.3 */
#define MAX_VALUES 65536
#define MAX_TEXT 4096

/* ---------------------------------------------------------- raw bytes */

/* Nesting and count of values, before anything is built. Strings are skipped;
 * jansson checks the rest. */
static int check_raw(struct sl_walk *w, const char *s, size_t len)
{
    size_t depth = 0, n = 1;
    bool in_str = false;

    if (len > SL_MANIFEST_BYTES)
        return sl_walk_fail(w, "has %zu bytes and may have %zu", len,
                            SL_MANIFEST_BYTES);
    for (size_t i = 0; i < len; i++) {
        if (in_str) {
            if (s[i] == '\\')
                i++;
            else if (s[i] == '"')
                in_str = false;
            continue;
        }
        in_str = s[i] == '"';
        n += s[i] == ',' || s[i] == '{' || s[i] == '[';
        if (s[i] == '{' || s[i] == '[')
            depth++;
        else if ((s[i] == '}' || s[i] == ']') && depth > 0)
            depth--;
        if (depth > MAX_DEPTH)
            return sl_walk_fail(w, "nests deeper than %d levels", MAX_DEPTH);
        if (n > MAX_VALUES)
            return sl_walk_fail(w, "has more than %d values", MAX_VALUES);
    }
    return 0;
}

static const char *text_flaw(const char *s, size_t n)
{
    if (n > MAX_TEXT)
        return "has a text of more than 4096 bytes";
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return "has a control character in a text";
    return NULL;
}

/* As deep as check_raw let it be. */
static int check_texts(struct sl_walk *w, const json_t *v)
{
    const char *key, *flaw = NULL;
    json_t *item;
    size_t i;
    int rc = 0;

    if (json_is_string(v))
        flaw = text_flaw(json_string_value(v), json_string_length(v));
    if (flaw)
        return sl_walk_fail(w, "%s", flaw);
    json_array_foreach(v, i, item)
    {
        size_t old = sl_walk_index(w, i);

        rc = check_texts(w, item);
        if (rc)
            return rc;
        sl_walk_back(w, old);
    }
    json_object_foreach((json_t *)(uintptr_t)v, key, item)
    {
        size_t old;

        if (text_flaw(key, strlen(key)))
            return sl_walk_fail(w, "has a key with a control character, or of "
                                   "more than 4096 bytes");
        old = sl_walk_key(w, key);
        rc = check_texts(w, item);
        if (rc)
            return rc;
        sl_walk_back(w, old);
    }
    return rc;
}

/* ------------------------------------------------------------ version */

/* "12.34" -> 12, 34. */
static bool two_numbers(const char *s, unsigned *a, unsigned *b)
{
    unsigned v[2] = {0, 0};
    int i = 0, digits = 0;

    for (; *s; s++) {
        if (*s == '.' && i == 0 && digits > 0) {
            i = 1;
            digits = 0;
        } else if (*s >= '0' && *s <= '9' && ++digits <= 4) {
            v[i] = v[i] * 10 + (unsigned)(*s - '0');
        } else {
            return false;
        }
    }
    *a = v[0];
    *b = v[1];
    return i == 1 && digits > 0;
}

/* A manifest of another tool, or NULL: schemas 3 and 4 are tt-kernel's, 5 and 6
 * tt-model's. Theirs is a number or a string. */
static const char *foreign_tool(const json_t *version)
{
    double v = json_number_value(version);
    const char *s = json_string_value(version);

    if (s && s[0] >= '3' && s[0] <= '6' && (s[1] == 0 || s[1] == '.'))
        v = s[0] - '0';
    if (v >= 3 && v < 5)
        return "tt-kernel";
    return v >= 5 && v < 7 ? "tt-model" : NULL;
}

static int check_version(struct sl_walk *w, struct sl_manifest *m)
{
    const json_t *v = json_object_get(m->json, "schema_version");
    const char *by = sl_manifest_str(m, "built", "tool_version");
    unsigned major, minor;

    sl_walk_key(w, "schema_version");
    if (!v)
        return sl_walk_fail(w, "is missing");
    m->tool = foreign_tool(v);
    if (m->tool) {
        if (json_is_string(v))
            snprintf(m->schema, sizeof(m->schema), "%.20s",
                     json_string_value(v));
        else
            snprintf(m->schema, sizeof(m->schema), "%.3g",
                     json_number_value(v));
        sl_walk_back(w, 0);
        return 0;
    }
    if (!json_is_string(v) ||
        !two_numbers(json_string_value(v), &major, &minor))
        return sl_walk_wrong(w, v, "a string like \"" SL_MANIFEST_VERSION "\"");
    if (major != 1)
        return sl_walk_fail(w,
                            "is %s, written by version %s, and this version "
                            "reads 1.x; update sluice",
                            json_string_value(v), by ? by : "?");
    snprintf(m->schema, sizeof(m->schema), "%u.%u", major, minor);
    w->newer = minor > 0;
    sl_walk_back(w, 0);
    return 0;
}

/* ------------------------------------------------- field against field */

static const json_t *get(const struct sl_manifest *m, const char *key)
{
    return json_object_get(m->json, key);
}

static int check_unique(struct sl_walk *w, const json_t *files)
{
    size_t n = json_array_size(files);
    const char **path = NULL, *a, *b;
    int rc = sl_mem_alloc(&path, n, sizeof(*path), "names of files", w->err);

    if (rc)
        return rc;
    for (size_t i = 0; i < n; i++)
        path[i] = json_string_value(
            json_object_get(json_array_get(files, i), "path"));
    if (sl_name_twins(&a, &b, path, n))
        rc = sl_walk_fail(w,
                          "names '%.200s' and '%.200s', which some file "
                          "systems take for one",
                          a, b);
    sl_mem_free(path);
    return rc;
}

/* `weights`, or a drafter with a repository of its own. */
static int check_weights(struct sl_walk *w, const json_t *obj)
{
    const json_t *files = json_object_get(obj, "files"), *f;
    const json_t *total = json_object_get(obj, "total_bytes");
    json_int_t sum = 0;
    size_t i, at = sl_walk_key(w, "total_bytes");

    json_array_foreach(files, i, f)
    {
        sum += json_integer_value(json_object_get(f, "size"));
        if (sum > MAX_BYTES) /* each is at most that, so it did not wrap */
            return sl_walk_fail(w, "would be above 2^53, which no disk holds");
    }
    if (w->built && total && json_integer_value(total) != sum)
        return sl_walk_fail(w, "is %lld and the files have %lld bytes together",
                            (long long)json_integer_value(total),
                            (long long)sum);
    sl_walk_back(w, at);
    sl_walk_key(w, "files");
    if (w->built && json_array_size(files) == 0)
        return sl_walk_fail(w, "is missing; 'sluice build' lists every file "
                               "that is opened");
    json_array_foreach(files, i, f)
    {
        size_t old = sl_walk_index(w, i);

        if (!json_object_get(f, "sha256") && !json_object_get(f, "git_sha1"))
            return sl_walk_fail(w, "has neither sha256 nor git_sha1");
        sl_walk_back(w, old);
    }
    return check_unique(w, files);
}

static int check_drafters(struct sl_walk *w, const struct sl_manifest *m)
{
    const json_t *list = get(m, "drafters"), *profiles = get(m, "profiles");
    json_t *d, *p;
    size_t i, j;

    json_array_foreach(list, i, d)
    {
        bool own = json_object_get(d, "repo");
        const char *id = json_string_value(json_object_get(d, "id"));

        sl_walk_back(w, 0);
        sl_walk_key(w, "drafters");
        sl_walk_index(w, i);
        if (own == json_is_true(json_object_get(d, "embedded")))
            return sl_walk_fail(w,
                                own ? "is embedded and has a repo; it can be "
                                      "only one of them"
                                    : "needs a repo, or \"embedded\": true");
        if (own && !json_object_get(d, "revision"))
            return sl_walk_fail(w, "has a repo and no revision");
        for (j = 0; j < i; j++)
            if (!strcmp(id, json_string_value(json_object_get(
                                json_array_get(list, j), "id"))))
                return sl_walk_fail(w, "has the id '%s' of another one", id);
        json_array_foreach(json_object_get(d, "required_by"), j, p)
        {
            if (!json_object_get(profiles, json_string_value(p)))
                return sl_walk_fail(w,
                                    "is required by '%.96s', which is no "
                                    "profile",
                                    json_string_value(p));
        }
        if (own && check_weights(w, d))
            return w->code;
    }
    return 0;
}

static const json_t *find_drafter(const struct sl_manifest *m, const char *id)
{
    json_t *d;
    size_t i;

    json_array_foreach(get(m, "drafters"), i, d)
    {
        if (!strcmp(json_string_value(json_object_get(d, "id")), id))
            return d;
    }
    return NULL;
}

/* A merged profile holds the same rules as one that is written out. */
static int check_merged(struct sl_walk *w, const struct sl_manifest *m,
                        const char *name)
{
    json_int_t most = json_integer_value(
                   json_object_get(get(m, "model"), "context_length")),
               len;
    const char *draft;
    json_t *p = NULL;
    int rc = sl_manifest_profile(&p, m, name, w->err);

    if (rc)
        return rc;
    sl_walk_back(w, 0);
    sl_walk_key(w, "profiles");
    sl_walk_key(w, name);
    w->inherit = SL_SHAPE_STRICT;
    rc = sl_shape_walk(w, sl_setting_shape, p);
    w->inherit = 0;
    len = json_integer_value(
        json_object_get(json_object_get(p, "engine"), "max_model_len"));
    draft = json_string_value(
        json_object_get(json_object_get(p, "spec"), "draft_model"));
    if (!rc && len > most)
        rc = sl_walk_fail(w,
                          "has a max_model_len of %lld and the model was "
                          "made for %lld",
                          (long long)len, (long long)most);
    if (!rc && draft && !find_drafter(m, draft))
        rc = sl_walk_fail(w,
                          "has the draft_model '%.96s', which is no id of "
                          "'drafters'",
                          draft);
    json_decref(p);
    return rc;
}

static int check_profiles(struct sl_walk *w, const struct sl_manifest *m)
{
    const json_t *profiles = get(m, "profiles");
    const char *def = json_string_value(get(m, "default_profile"));
    const char *name;
    json_t *v;
    int rc = 0;

    sl_walk_back(w, 0);
    sl_walk_key(w, "default_profile");
    if (!def && json_object_size(profiles) > 1)
        return sl_walk_fail(w, "is missing, and there is more than one");
    if (def && !json_object_get(profiles, def))
        return sl_walk_fail(w, "is '%.96s', which is no profile", def);
    sl_walk_back(w, 0);
    sl_walk_key(w, "renamed_profiles");
    json_object_foreach((json_t *)(uintptr_t)get(m, "renamed_profiles"), name,
                        v)
    {
        if (!json_object_get(profiles, json_string_value(v)))
            return sl_walk_fail(w, "leads to '%.96s', which is no profile",
                                json_string_value(v));
        if (json_object_get(profiles, name))
            return sl_walk_fail(w, "renames '%.96s', which is a profile", name);
    }
    json_object_foreach((json_t *)(uintptr_t)profiles, name, v)
    {
        if (!rc)
            rc = check_merged(w, m, name);
    }
    return rc;
}

static bool has_file(const struct sl_manifest *m, const char *path)
{
    json_t *f;
    size_t i;

    json_array_foreach(get(m, "files"), i, f)
    {
        if (!strcmp(json_string_value(json_object_get(f, "path")), path))
            return true;
    }
    return false;
}

/* Rows and scores name profiles that exist, and logs that are in the bundle. */
static int check_rows(struct sl_walk *w, const struct sl_manifest *m,
                      const json_t *rows, const char *where)
{
    json_t *row;
    size_t i;

    json_array_foreach(rows, i, row)
    {
        const char *p = json_string_value(json_object_get(row, "profile"));

        sl_walk_back(w, 0);
        sl_walk_key(w, where);
        sl_walk_index(w, i);
        if (p && !json_object_get(get(m, "profiles"), p))
            return sl_walk_fail(w, "names '%.96s', which is no profile", p);
        p = json_string_value(json_object_get(row, "log"));
        if (p && w->built && !has_file(m, p))
            return sl_walk_fail(w, "has the log '%.200s', which is not among "
                                   "the bundle's files",
                                p);
    }
    return 0;
}

/* Values that nobody reads are refused. */
static int check_sampling(struct sl_walk *w, const struct sl_manifest *m)
{
    const json_t *s = get(m, "sampling");
    const char *from = json_string_value(json_object_get(s, "source"));

    sl_walk_back(w, 0);
    sl_walk_key(w, "sampling");
    if (from && !strcmp(from, "generation_config") && json_object_size(s) > 1)
        return sl_walk_fail(w, "has values and takes them from the "
                               "generation_config; say \"bundle\", or leave "
                               "them away");
    return 0;
}

static int check_ties(struct sl_walk *w, const struct sl_manifest *m)
{
    int rc;

    sl_walk_back(w, 0);
    sl_walk_key(w, "weights");
    rc = check_weights(w, get(m, "weights"));
    if (!rc)
        rc = check_sampling(w, m);
    if (!rc)
        rc = check_profiles(w, m);
    if (!rc)
        rc = check_drafters(w, m);
    if (!rc)
        rc = check_rows(w, m, get(m, "accuracy"), "accuracy");
    if (!rc)
        rc = check_rows(w, m, json_object_get(get(m, "benchmarks"), "rows"),
                        "benchmarks.rows");
    if (rc)
        return rc;
    sl_walk_back(w, 0);
    sl_walk_key(w, "files");
    rc = check_unique(w, get(m, "files"));
    for (size_t i = 0; !rc && i < json_array_size(get(m, "files")); i++)
        if (!strcmp(json_string_value(json_object_get(
                        json_array_get(get(m, "files"), i), "path")),
                    SL_MANIFEST_FILE))
            rc = sl_walk_fail(w, "lists %s itself", SL_MANIFEST_FILE);
    return rc;
}

/* ------------------------------------------------------------- public */

static int parse_tree(struct sl_walk *w, struct sl_manifest *m, const char *s,
                      size_t len)
{
    struct sl_err why = {.code = SL_OK};
    int rc = check_raw(w, s, len);

    if (rc)
        return rc;
    rc = sl_json_parse(&m->json, s, len, w->file, &why);
    if (rc)
        return sl_fail(w->err, rc == SL_ENOMEM ? rc : w->code, "%s", why.msg);
    if (!json_is_object(m->json))
        return sl_walk_fail(w, "is no JSON object");
    rc = check_texts(w, m->json);
    if (rc)
        return rc;
    sl_walk_back(w, 0);
    return check_version(w, m);
}

static void note_unknown(struct sl_manifest *m, const struct sl_buf *unknown)
{
    if (unknown->len)
        snprintf(m->warning, sizeof(m->warning),
                 "schema %s is newer than " SL_MANIFEST_VERSION
                 "; not understood and left out: %.200s%s",
                 m->schema, unknown->p, unknown->len > 200 ? "..." : "");
}

int sl_manifest_parse(struct sl_manifest *out, const char *s, size_t len,
                      enum sl_form form, const char *what, struct sl_err *err)
{
    struct sl_manifest m = {.form = form};
    struct sl_buf unknown;
    struct sl_walk w = {.file = what,
                        .built = form == SL_FORM_BUILT,
                        .unknown = &unknown,
                        .code = form == SL_FORM_BUILT ? SL_EFORMAT : SL_EARG,
                        .err = err};
    int rc;

    sl_buf_init(&unknown, SL_MANIFEST_BYTES);
    rc = parse_tree(&w, &m, s, len);
    if (!rc && !m.tool)
        rc = sl_shape_walk(&w, sl_fields, m.json);
    if (!rc && !m.tool)
        rc = check_ties(&w, &m);
    if (!rc)
        rc = sl_digest_bytes(m.digest, SL_DIGEST_SHA256, s, len, err);
    if (!rc)
        note_unknown(&m, &unknown);
    sl_buf_deinit(&unknown);
    if (rc) {
        json_decref(m.json);
        return rc;
    }
    *out = m;
    return 0;
}

int sl_manifest_load(struct sl_manifest *out, const char *path,
                     enum sl_form form, struct sl_err *err)
{
    char *text = NULL;
    size_t len = 0;
    int rc = sl_file_read(&text, &len, path, SL_MANIFEST_BYTES, err);

    if (!rc)
        rc = sl_manifest_parse(out, text, len, form, path, err);
    sl_file_free(text);
    return rc;
}

void sl_manifest_deinit(struct sl_manifest *m)
{
    json_decref(m->json);
    *m = (struct sl_manifest){.json = NULL};
}

const char *sl_manifest_str(const struct sl_manifest *m, const char *a,
                            const char *b)
{
    const json_t *v = json_object_get(m->json, a);

    return json_string_value(b ? json_object_get(v, b) : v);
}

int sl_manifest_profile_name(const char **out, const struct sl_manifest *m,
                             const char *name, struct sl_err *err)
{
    json_t *profiles = json_object_get(m->json, "profiles"), *v;
    const char *want = name, *key;
    struct sl_buf all;
    int rc;

    if (!want)
        want = sl_manifest_str(m, "default_profile", NULL);
    if (!want)
        want = json_object_iter_key(json_object_iter(profiles));
    if (want && !json_object_get(profiles, want)) {
        const char *now = json_string_value(json_object_get(
            json_object_get(m->json, "renamed_profiles"), want));

        want = now ? now : want;
    }
    json_object_foreach(profiles, key, v)
    {
        /* The key of the manifest, which lives as long as m. */
        if (want && !strcmp(key, want)) {
            *out = key;
            return 0;
        }
    }
    sl_buf_init(&all, 600);
    json_object_foreach(profiles, key, v)
    {
        sl_buf_fmt(&all, "%s%s", all.len ? ", " : "", key);
    }
    rc = sl_fail(err, SL_EARG, "there is no profile '%.96s'; choose one of %s",
                 want ? want : "", all.p ? all.p : "(none)");
    sl_buf_deinit(&all);
    return rc;
}

/* Objects merge key by key, null erases, an empty list is nothing, everything
 * else replaces. As deep as a manifest may nest. */
static int merge(json_t *base, const json_t *over)
{
    const char *key;
    json_t *v;
    int bad = 0;

    json_object_foreach((json_t *)(uintptr_t)over, key, v)
    {
        json_t *old = json_object_get(base, key);

        if (json_is_null(v))
            (void)json_object_del(base, key);
        else if (json_is_object(v) && json_is_object(old))
            bad |= merge(old, v);
        else if (json_is_object(v)) {
            /* Nulls inside erase nothing, and must not stay. */
            json_t *fresh = json_object();

            bad |=
                !fresh || merge(fresh, v) || json_object_set(base, key, fresh);
            json_decref(fresh);
        } else if (!(json_is_array(v) && json_array_size(v) == 0))
            bad |= json_object_set_new(base, key, json_deep_copy(v));
    }
    return bad;
}

int sl_manifest_profile(json_t **out, const struct sl_manifest *m,
                        const char *name, struct sl_err *err)
{
    const char *real = NULL;
    json_t *p;
    int rc = sl_manifest_profile_name(&real, m, name, err);

    if (rc)
        return rc;
    p = json_deep_copy(json_object_get(m->json, "serve"));
    if (!p ||
        merge(p, json_object_get(json_object_get(m->json, "profiles"), real))) {
        json_decref(p);
        return sl_fail(err, SL_ENOMEM, "no memory is left for a profile");
    }
    *out = p;
    return 0;
}

json_t *sl_manifest_order(const json_t *manifest)
{
    json_t *out = json_object(), *v;
    const char *key;
    int bad = !out;

    for (const struct sl_shape *s = sl_fields; !bad && s->key; s++)
        if (json_object_get(manifest, s->key))
            bad |=
                json_object_set(out, s->key, json_object_get(manifest, s->key));
    /* What others put there. */
    json_object_foreach((json_t *)(uintptr_t)manifest, key, v)
    {
        if (!bad && !json_object_get(out, key))
            bad |= json_object_set(out, key, v);
    }
    if (!bad)
        return out;
    json_decref(out);
    return NULL;
}

/* Digests and commits below `v`; as deep as a manifest may nest. */
static bool zeros(const json_t *v, struct sl_walk *w)
{
    const char *key, *s = json_string_value(v);
    json_t *item;
    size_t i;

    if (s && (sl_name_is_zero(s, SL_NAME_COMMIT) ||
              sl_name_is_zero(s, SL_NAME_SHA256)))
        return true;
    json_array_foreach(v, i, item)
    {
        size_t old = sl_walk_index(w, i);

        if (zeros(item, w))
            return true;
        sl_walk_back(w, old);
    }
    json_object_foreach((json_t *)(uintptr_t)v, key, item)
    {
        size_t old = sl_walk_key(w, key);

        if (zeros(item, w))
            return true;
        sl_walk_back(w, old);
    }
    return false;
}

bool sl_manifest_has_zeros(const struct sl_manifest *m, char *where, size_t cap)
{
    struct sl_walk w = {.file = ""};

    if (!zeros(m->json, &w))
        return false;
    snprintf(where, cap, "%s", w.path);
    return true;
}
