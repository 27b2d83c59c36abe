/* cli/list.c - sluice list: what was fetched */
#include "cli/ready.h"
#include "cli/verb.h"

#include "base/mem.h"
#include "bundle/needs.h"
#include "bundle/setting.h"

#define MAX_RECEIPT ((size_t)64 << 20)
#define MAX_TEXT ((size_t)8 << 20)

struct row {
    const char *name, *kind, *repo, *sha, *digest, *here;
    size_t n_profile;
    uint64_t bytes; /* of weights that are here */
    bool current;
};

struct list {
    struct sl_places places;
    struct sl_buf text;
    json_t *json;
    size_t n;
};

static void add(struct list *l, const struct row *r)
{
    char bytes[SL_CLI_BYTES_LEN];

    sl_cli_bytes(bytes, r->bytes);
    if (l->n++ == 0)
        sl_buf_fmt(&l->text, "%-32s %-8s %-12s %10s  %-9s %s\n", "NAME", "KIND",
                   "REVISION", "WEIGHTS", "CAN SERVE", "FROM");
    sl_buf_fmt(&l->text, "%-32s %-8s %-12.12s %10s  %-9s %s%s\n", r->name,
               r->kind, r->sha, bytes, r->here, r->repo,
               r->current ? "" : " (older)");
    json_array_append_new(
        l->json,
        json_pack("{s:s, s:s, s:s, s:s, s:s*, s:i, s:I, s:s, s:b}", "name",
                  r->name, "kind", r->kind, "repo", r->repo, "revision", r->sha,
                  "digest", r->digest, "profiles", (int)r->n_profile,
                  "weight_bytes", (json_int_t)r->bytes, "can_serve", r->here,
                  "current", (int)r->current));
}

/* Bytes of a revision's files that are here. */
static uint64_t weight_bytes(const struct sl_places *p, const char *repo,
                             const char *sha)
{
    char path[SL_TREE_PATH];
    uint64_t sum = 0;
    json_t *j = NULL, *f;
    size_t i;

    if (sl_receipt_path(path, p, repo, sha, NULL) ||
        sl_json_load(&j, path, MAX_RECEIPT, NULL))
        return 0;
    json_array_foreach(json_object_get(j, "files"), i, f)
    {
        sum += (uint64_t)json_integer_value(json_object_get(f, "size"));
    }
    json_decref(j);
    return sum;
}

static const char *can_serve(const struct sl_manifest *m)
{
    const char *name;
    json_t *p = NULL, *flat = NULL;
    struct sl_opts o;
    bool ok;

    if (m->tool || sl_needs_program(m, NULL) ||
        sl_manifest_profile_name(&name, m, NULL, NULL) ||
        sl_manifest_profile(&p, m, name, NULL))
        return "no";
    sl_opts_init(&o, SL_VERB_SERVE);
    ok = !sl_needs_machine(p, name, false, NULL, NULL) &&
         !sl_setting_apply(&flat, &o, p, name, NULL);
    json_decref(flat);
    json_decref(p);
    return ok ? "yes" : "no";
}

static int add_bundles(struct list *l, const struct sl_opts *o,
                       struct sl_err *err)
{
    struct sl_install *all = NULL;
    size_t n = 0;
    int rc = sl_install_list(&all, &n, &l->places, err);

    for (size_t i = 0; !rc && i < n; i++) {
        struct row r = {.name = all[i].name,
                        .kind = "bundle",
                        .repo = all[i].repo,
                        .sha = all[i].sha,
                        .here = "damaged",
                        .current = all[i].current};
        char path[SL_TREE_PATH];
        struct sl_manifest m = {.json = NULL};
        const json_t *w;

        if (!all[i].current && !o->value[SL_OPT_ALL].i)
            continue;
        if (!sl_path_join(path, sizeof(path), all[i].dir, SL_MANIFEST_FILE,
                          NULL) &&
            !sl_manifest_load(&m, path, SL_FORM_BUILT, NULL)) {
            w = json_object_get(m.json, "weights");
            r.digest = m.digest;
            r.n_profile = json_object_size(json_object_get(m.json, "profiles"));
            r.here = can_serve(&m);
            r.bytes = weight_bytes(
                &l->places, json_string_value(json_object_get(w, "repo")),
                json_string_value(json_object_get(w, "revision")));
        }
        add(l, &r);
        sl_manifest_deinit(&m);
    }
    sl_mem_free(all);
    return rc;
}

/* Does the receipt list the manifest of another tool? Its own name, or ours
 * beside no model: a bundle of ours is shown where it is installed. */
static bool is_foreign(const json_t *receipt)
{
    const char *repo = json_string_value(json_object_get(receipt, "repo"));
    const char *dir = json_string_value(json_object_get(receipt, "folder"));
    static const char *const file[] = {SL_MANIFEST_FILE, SL_MANIFEST_FOREIGN};
    char path[SL_TREE_PATH];
    bool found = false;

    for (size_t i = 0; repo && dir && !found && i < SL_COUNTOF(file); i++) {
        struct sl_manifest m;

        if (sl_path_join(path, sizeof(path), dir, file[i], NULL) ||
            sl_manifest_load(&m, path, SL_FORM_BUILT, NULL))
            continue;
        found = m.tool != NULL;
        sl_manifest_deinit(&m);
    }
    return found;
}

/* Does the receipt list a checkpoint or a GGUF file? */
static bool is_model(const json_t *receipt)
{
    json_t *f;
    size_t i;

    json_array_foreach(json_object_get(receipt, "files"), i, f)
    {
        const char *p = json_string_value(json_object_get(f, "path"));
        size_t n = p ? strlen(p) : 0;

        if ((n > 12 && !strcmp(p + n - 12, ".safetensors")) ||
            (n > 5 && !strcmp(p + n - 5, ".gguf")))
            return true;
    }
    return false;
}

static void add_receipt(struct list *l, const json_t *j)
{
    const char *repo = json_string_value(json_object_get(j, "repo"));
    const char *sha = json_string_value(json_object_get(j, "revision"));
    struct sl_err why;
    char dir[SL_TREE_PATH];
    struct row r = {.name = repo,
                    .kind = "model",
                    .repo = repo,
                    .sha = sha,
                    .here = "yes",
                    .current = true};

    if (!repo || !sha || !sl_name_is_repo(repo) ||
        !sl_name_is_hex(sha, SL_NAME_COMMIT))
        return;
    if (is_foreign(j)) {
        r.kind = "foreign";
        r.here = "no";
        add(l, &r);
        return;
    }
    if (!is_model(j))
        return;
    if (sl_receipt_check(&l->places, dir, NULL, repo, sha, &why))
        r.here = "not whole";
    r.bytes = weight_bytes(&l->places, repo, sha);
    add(l, &r);
}

static int add_models(struct list *l, struct sl_err *err)
{
    struct sl_names repos = {.n = 0};
    char root[SL_TREE_PATH], dir[SL_TREE_PATH], path[SL_TREE_PATH];
    int rc = sl_path_join(root, sizeof(root), l->places.own, "receipts", err);

    if (!rc)
        rc = sl_names_list(&repos, root, err);
    for (size_t i = 0; !rc && i < repos.n; i++) {
        struct sl_names revs = {.n = 0};

        rc = sl_path_join(dir, sizeof(dir), root, repos.name[i], err);
        if (!rc)
            rc = sl_names_list(&revs, dir, err);
        for (size_t k = 0; !rc && k < revs.n; k++) {
            json_t *j = NULL;

            if (!sl_path_join(path, sizeof(path), dir, revs.name[k], NULL) &&
                !sl_json_load(&j, path, MAX_RECEIPT, NULL))
                add_receipt(l, j);
            json_decref(j);
        }
        sl_names_deinit(&revs);
    }
    sl_names_deinit(&repos);
    return rc;
}

int sl_cli_list(const struct sl_opts *o, struct sl_err *err)
{
    struct list l = {.json = json_array()};
    int rc = sl_cli_max_args(o, 0, "'sluice list' takes no argument", err);

    sl_buf_init(&l.text, MAX_TEXT);
    if (!rc)
        rc = sl_cli_places(&l.places, o, err);
    if (!rc)
        rc = add_bundles(&l, o, err);
    if (!rc)
        rc = add_models(&l, err);
    if (!rc && o->value[SL_OPT_JSON].i) {
        sl_buf_deinit(&l.text);
        return sl_cli_print_json(json_pack("{s:o}", "models", l.json), err);
    }
    json_decref(l.json);
    if (!rc && l.n == 0)
        sl_buf_str(&l.text, "nothing was fetched yet; 'sluice pull ORG/NAME' "
                            "fetches a model\n");
    if (rc) {
        sl_buf_deinit(&l.text);
        return rc;
    }
    return sl_cli_print(&l.text, "the list", err);
}
