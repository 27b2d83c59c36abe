/* bundle/adopt.c - a snapshot that others filled; see adopt.h */
#include "bundle/adopt.h"

#include "base/mem.h"
#include "bundle/choose.h"

/* Files below dir/rel of a snapshot, with the digests their blobs are named
 * by. Bounded by `depth`. */
static int scan(struct sl_hub_list *l, const char *dir, const char *rel,
                int depth, struct sl_err *err)
{
    struct sl_names names = {.n = 0};
    char path[SL_TREE_PATH], target[SL_TREE_PATH];
    int rc = sl_path_join(path, sizeof(path), dir, rel, err);

    if (!rc)
        rc = sl_names_list(&names, path, err);
    for (size_t i = 0; !rc && i < names.n; i++) {
        char sub[SL_NAME_PATH + 260];
        enum sl_digest_kind kind;
        struct sl_stat st, to;
        const char *name;

        snprintf(sub, sizeof(sub), "%s%s%.255s", rel, *rel ? "/" : "",
                 names.name[i]);
        rc = sl_path_join(path, sizeof(path), dir, sub, err);
        if (rc || sl_name_path_flaw(sub) || !sl_tree_stat(&st, path, false))
            continue;
        if (st.kind == SL_FILE_DIR && depth > 0) {
            rc = scan(l, dir, sub, depth - 1, err);
            continue;
        }
        if (!st.link || sl_tree_read_link(target, path, NULL) ||
            !sl_tree_stat(&to, path, true))
            continue;
        name = strrchr(target, '/');
        name = name ? name + 1 : target;
        if (sl_digest_kind(&kind, name))
            rc = sl_hub_list_add(l, sub, to.size, name, err);
    }
    sl_names_deinit(&names);
    return rc;
}

/* Every shard that the index names is in the list? */
static int check_index(const struct sl_hub_list *l, const char *dir,
                       struct sl_err *err)
{
    char path[SL_TREE_PATH];
    const char *key;
    json_t *j = NULL, *v;
    int rc = sl_path_join(path, sizeof(path), dir,
                          "model.safetensors.index.json", err);

    if (rc || !sl_hub_list_find(l, "model.safetensors.index.json"))
        return rc;
    rc = sl_json_load(&j, path, (size_t)64 << 20, err);
    json_object_foreach(json_object_get(j, "weight_map"), key, v)
    {
        const char *shard = json_string_value(v);

        if (!rc && (!shard || !sl_hub_list_find(l, shard)))
            rc = sl_fail(err, SL_ENOTFOUND, "'%s/%.200s' is missing", dir,
                         shard ? shard : "?");
    }
    json_decref(j);
    return rc;
}

static int adopt_from(struct sl_pulling *p, struct sl_ready *r,
                      const struct sl_target *t, int i_root, struct sl_err *err)
{
    struct sl_hub_list all = {.n = 0}, want = {.n = 0};
    bool *keep = NULL;
    int rc = sl_store_dir(r->dir, p->store.root[i_root], t->repo, r->sha, err);

    if (!rc)
        rc = scan(&all, r->dir, "", 2, err);
    sl_hub_list_sort(&all);
    if (!rc)
        rc = sl_mem_alloc(&keep, all.n, sizeof(*keep), "a plan", err);
    if (!rc)
        rc = sl_choose(keep, r->file, &all, t->repo, t->pick, err);
    if (!rc)
        rc = check_index(&all, r->dir, err);
    if (!rc)
        rc = sl_choose_keep(&want, &all, keep, err);
    if (!rc) {
        struct sl_pulling quiet = *p;
        struct sl_pull_opts o = *p->o;

        o.plan = NULL;
        o.dry_run = false;
        quiet.o = &o;
        rc = sl_plan_ensure(&quiet, r->dir, t->repo, r->sha, &want, false, err);
    }
    sl_mem_free(keep);
    sl_hub_list_deinit(&all);
    sl_hub_list_deinit(&want);
    return rc;
}

int sl_adopt(struct sl_pulling *p, struct sl_ready *r,
             const struct sl_target *t, struct sl_err *err)
{
    char dir[SL_TREE_PATH];

    for (int i = 0; i < 2; i++)
        if (!sl_store_dir(dir, p->store.root[i], t->repo, r->sha, NULL) &&
            sl_file_kind(dir) == SL_FILE_DIR && !adopt_from(p, r, t, i, NULL))
            return 0;
    return sl_fail(err, SL_ENOTFOUND,
                   "'%s' at commit %.12s is not whole on this machine", t->repo,
                   r->sha);
}
