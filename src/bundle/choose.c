/* bundle/choose.c - which files of a repository make a model; see choose.h */
#include "bundle/choose.h"

#include "base/mem.h"
#include "bundle/manifest.h"

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && !strcmp(s + n - m, end);
}

bool sl_choose_is_weights(const char *path)
{
    return ends_with(path, ".safetensors") || ends_with(path, ".gguf");
}

/* Of a checkpoint: the root, and the drafter inside it. */
static bool is_wanted(const char *path)
{
    static const char *const end[] = {".safetensors", ".json", ".jinja",
                                      ".txt"};
    const char *name = strncmp(path, "drafter/", 8) ? path : path + 8;

    if (strchr(name, '/') || !strncmp(name, "consolidated", 12) ||
        !strcmp(path, SL_MANIFEST_FILE) || !strcmp(path, SL_MANIFEST_FOREIGN))
        return false;
    for (size_t i = 0; i < SL_COUNTOF(end); i++)
        if (ends_with(name, end[i]))
            return true;
    return false;
}

static bool has_word(const char *s, const char *word)
{
    size_t n = strlen(word);

    for (; *s; s++) {
        size_t i = 0;

        while (i < n && s[i] && (s[i] | 0x20) == (word[i] | 0x20))
            i++;
        if (i == n)
            return true;
    }
    return false;
}

/* A file with -00002-of-00003 before its end belongs to the first. */
static bool is_later_shard(const char *path)
{
    const char *of = strstr(path, "-of-");

    return of && of - path >= 6 && strncmp(of - 6, "-00001", 6);
}

static bool same_set(const char *a, const char *b)
{
    const char *of = strstr(a, "-of-"), *bof = strstr(b, "-of-");
    size_t n = of ? (size_t)(of - a) : 0;

    return of && bof && (size_t)(bof - b) == n && n >= 6 &&
           !strncmp(a, b, n - 5) && !strcmp(of, bof);
}

static int choose_gguf(bool *keep, char file[SL_NAME_PATH + 1],
                       const struct sl_hub_list *l, const char *repo,
                       const char *pick, struct sl_err *err)
{
    size_t n = 0, n_all = 0, at = 0;
    struct sl_buf names;
    int rc;

    sl_buf_init(&names, 700);
    for (size_t i = 0; i < l->n; i++) {
        const char *path = l->file[i].path;

        if (!ends_with(path, ".gguf") || is_later_shard(path) ||
            has_word(path, "mmproj"))
            continue;
        /* The only one needs no name. */
        if (n_all++ == 0 && !pick)
            at = i;
        if (names.len < 500)
            sl_buf_fmt(&names, "%s%.150s", names.len ? ", " : "", path);
        if (pick && (!strcmp(path, pick) || has_word(path, pick))) {
            n += n == 0 || strcmp(l->file[at].path, pick) != 0;
            if (n == 1 || !strcmp(path, pick))
                at = i;
            if (!strcmp(path, pick))
                n = 1;
        }
    }
    if (n == 1 || (!pick && n_all == 1)) {
        sl_buf_deinit(&names);
        snprintf(file, SL_NAME_PATH + 1, "%s", l->file[at].path);
        for (size_t i = 0; i < l->n; i++)
            keep[i] = i == at || same_set(l->file[at].path, l->file[i].path);
        return 0;
    }
    if (n_all == 0)
        rc = sl_fail(err, SL_EUNSUP,
                     "'%s' has neither config.json nor a GGUF file; it is no "
                     "model that can be run",
                     repo);
    else
        rc = sl_fail(err, SL_EARG,
                     "'%s' has %s GGUF files; say which, as in '%s:Q4_K_M': %s",
                     repo, pick ? (n ? "several such" : "no such") : "several",
                     repo, names.p ? names.p : "");
    sl_buf_deinit(&names);
    return rc;
}

int sl_choose(bool *keep, char file[SL_NAME_PATH + 1],
                   const struct sl_hub_list *list, const char *repo,
                   const char *pick, struct sl_err *err)
{
    size_t n_weights = 0;

    file[0] = 0;
    if (*pick || !sl_hub_list_find(list, "config.json"))
        return choose_gguf(keep, file, list, repo, *pick ? pick : NULL, err);
    for (size_t i = 0; i < list->n; i++) {
        keep[i] = is_wanted(list->file[i].path);
        n_weights += keep[i] && ends_with(list->file[i].path, ".safetensors");
    }
    if (n_weights == 0)
        return sl_fail(err, SL_EUNSUP,
                       "'%s' has no weights in safetensors; other formats are "
                       "not read",
                       repo);
    return 0;
}

int sl_choose_keep(struct sl_hub_list *out, const struct sl_hub_list *l,
                   const bool *keep, struct sl_err *err)
{
    int rc = 0;

    for (size_t i = 0; !rc && i < l->n; i++)
        if (keep[i])
            rc = sl_hub_list_add(out, l->file[i].path, l->file[i].size,
                                 l->file[i].digest, err);
    return rc;
}

int sl_choose_known(struct sl_hub_list *out, char dir[SL_TREE_PATH],
                  char file[SL_NAME_PATH + 1], const struct sl_places *places,
                  const struct sl_target *t, const char *sha,
                  struct sl_err *err)
{
    struct sl_hub_list all = {.n = 0};
    bool *keep = NULL;
    int rc = sl_receipt_list(&all, dir, places, t->repo, sha, err);

    if (!rc)
        rc = sl_mem_alloc(&keep, all.n, sizeof(*keep), "a plan", err);
    if (!rc)
        rc = sl_choose(keep, file, &all, t->repo, t->pick, err);
    if (!rc)
        rc = sl_choose_keep(out, &all, keep, err);
    sl_mem_free(keep);
    sl_hub_list_deinit(&all);
    return rc;
}
