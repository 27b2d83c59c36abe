/* bundle/plan.c - one commit's files, here and verified; see plan.h
 *
 * What is here is looked at first; then is there room; then the small files are
 * fetched, so that a model that cannot be run is told before its weights come.
 */
#include "bundle/plan.h"

#include "base/machine.h"
#include "base/mem.h"
#include "bundle/choose.h"

#define N_PARALLEL 4
#define MARGIN_MAX ((uint64_t)1 << 30) /* 2 % or this stays free */

void sl_pulling_phase(const struct sl_pulling *p, enum sl_pull_phase x)
{
    if (p->o->phase)
        p->o->phase(p->o->ctx, x);
}

void sl_pulling_note(const struct sl_pulling *p, const char *text)
{
    if (p->o->note)
        p->o->note(p->o->ctx, text);
}

/* Where each file of a list is. */
struct have {
    char (*blob)[SL_TREE_PATH]; /* [n]; "" when missing */
    bool *bad;                  /* [n] */
    bool *ours;                 /* [n] we fetched it, now or before */
    uint64_t reserved;          /* on the disk, by tries that were killed */
    bool linked;                /* all are, in root[i_root]'s snapshot */
    int i_root;
    struct sl_pull_plan plan;
};

static void have_deinit(struct have *h)
{
    sl_mem_free(h->blob);
    sl_mem_free(h->bad);
    sl_mem_free(h->ours);
}

static bool all_linked(const struct sl_pulling *p, int i_root, const char *repo,
                       const char *sha, const struct sl_hub_list *l,
                       const struct have *h)
{
    char dir[SL_TREE_PATH];

    if (sl_store_dir(dir, p->store.root[i_root], repo, sha, NULL))
        return false;
    for (size_t i = 0; i < l->n; i++)
        if (!sl_store_leads(dir, l->file[i].path, h->blob[i]))
            return false;
    return true;
}

static int look(struct sl_pulling *p, struct have *h, const char *repo,
                const char *sha, const struct sl_hub_list *l,
                struct sl_err *err)
{
    struct sl_receipts known = {.by_digest = NULL};
    int rc = sl_mem_alloc(&h->blob, l->n, sizeof(*h->blob), "a plan", err);

    if (!rc)
        rc = sl_mem_alloc(&h->bad, l->n, sizeof(*h->bad), "a plan", err);
    if (!rc)
        rc = sl_mem_alloc(&h->ours, l->n, sizeof(*h->ours), "a plan", err);
    if (!rc)
        rc = sl_receipts_load(&known, p->o->places, repo, err);
    h->plan = (struct sl_pull_plan){.repo = repo, .sha = sha, .n_file = l->n};
    for (size_t i = 0; !rc && i < l->n; i++) {
        const struct sl_hub_file *f = &l->file[i];
        uint64_t part, reserved;

        h->plan.bytes += f->size;
        if (h->plan.bytes > SL_HUB_MAX_BYTES) {
            rc = sl_fail(err, SL_EFORMAT,
                         "%s: its files have more bytes than any disk; the "
                         "repository is refused",
                         repo);
            break;
        }
        if (sl_store_find(&p->store, h->blob[i], &h->bad[i], repo, f,
                          p->o->again ? NULL : &known, NULL)) {
            h->ours[i] = sl_receipts_ours(&known, f->digest);
            if (!p->o->dry_run)
                sl_fetch_forget(&p->store, repo, f);
            continue;
        }
        h->ours[i] = true;
        part = sl_fetch_partial(&p->store, repo, f, &reserved);
        h->reserved += reserved;
        h->plan.n_missing++;
        h->plan.missing += f->size - part;
        h->plan.resumed += part;
    }
    sl_receipts_deinit(&known);
    h->i_root = p->store.i_write;
    for (int i = 0; !rc && h->plan.n_missing == 0 && !h->linked && i < 2; i++)
        if (all_linked(p, i, repo, sha, l, h)) {
            h->linked = true;
            h->i_root = i;
        }
    return rc;
}

static int check_room(struct sl_pulling *p, struct have *h, struct sl_err *err)
{
    uint64_t need = h->plan.missing, margin = need / 50;

    /* What partial files hold already is there for them. */
    h->plan.free = sl_tree_free(p->store.root[p->store.i_write]);
    if (h->plan.free <= UINT64_MAX - h->reserved)
        h->plan.free += h->reserved;
    if (margin > MARGIN_MAX)
        margin = MARGIN_MAX;
    if (need == 0 || h->plan.free >= need + margin)
        return 0;
    return sl_fail(
        err, SL_ENOSPACE,
        "%s: %.2f MiB are to be fetched and '%s' has %.2f MiB free; "
        "make room ('sluice gc --dry-run' shows what can go), or set "
        "HF_HUB_CACHE to another disk",
        h->plan.repo, (double)need / 0x1p20, p->store.root[p->store.i_write],
        (double)h->plan.free / 0x1p20);
}

/* Fetch what is missing: what describes the model, or all. */
static int fetch_some(struct sl_pulling *p, struct have *h, const char *repo,
                      const char *sha, const struct sl_hub_list *l,
                      bool weights, struct sl_err *err)
{
    const struct sl_fetch_opts fo = {.http = p->http,
                                     .store = &p->store,
                                     .n_parallel = N_PARALLEL,
                                     .step = p->o->step,
                                     .note = p->o->note,
                                     .ctx = p->o->ctx};
    const struct sl_hub_file **file = NULL;
    bool *bad = NULL;
    size_t n = 0;
    int rc = sl_mem_alloc(&file, l->n, sizeof(*file), "a plan", err);

    if (!rc)
        rc = sl_mem_alloc(&bad, l->n, sizeof(*bad), "a plan", err);
    for (size_t i = 0; !rc && i < l->n; i++)
        if (!*h->blob[i] && (weights || !sl_choose_is_weights(l->file[i].path))) {
            file[n] = &l->file[i];
            bad[n++] = h->bad[i];
        }
    if (!rc && n > 0)
        rc = sl_fetch_run(&fo, repo, sha, file, bad, n, err);
    for (size_t i = 0; !rc && i < l->n; i++)
        if (!*h->blob[i] && (weights || !sl_choose_is_weights(l->file[i].path)))
            snprintf(h->blob[i], SL_TREE_PATH, "-"); /* linked by the fetch */
    sl_mem_free(file);
    sl_mem_free(bad);
    return rc;
}

/* The snapshot leads to what was here before. */
static int link_old(struct sl_pulling *p, struct have *h, const char *repo,
                    const char *sha, const struct sl_hub_list *l,
                    struct sl_err *err)
{
    const char *root = p->store.root[h->i_root];
    char dir[SL_TREE_PATH];
    int rc = sl_store_dir(dir, root, repo, sha, err);

    for (size_t i = 0; !rc && !h->linked && i < l->n; i++)
        if (*h->blob[i] && !sl_store_leads(dir, l->file[i].path, h->blob[i]))
            rc = sl_store_link(root, repo, sha, l->file[i].path, h->blob[i],
                               err);
    return rc;
}

/* Can the model be run? Asked of config.json alone, in a folder of its own:
 * beside it some of the weights may lie already, and others not. */
static int ask(const struct sl_pulling *p, const char *dir,
               const struct sl_hub_list *l, struct sl_err *err)
{
    char tmp[SL_TREE_PATH], conf[SL_TREE_PATH], name[40];
    struct sl_err why = {.code = SL_OK};
    struct sl_lockfile held;
    int rc;

    snprintf(name, sizeof(name), SL_PLAN_CHECK "%016llx",
             (unsigned long long)sl_machine_random());
    if (!p->o->check || !sl_hub_list_find(l, "config.json") ||
        sl_path_join(tmp, sizeof(tmp), p->o->places->own, name, NULL) ||
        sl_path_join(conf, sizeof(conf), dir, "config.json", NULL) ||
        sl_tree_make(tmp, NULL))
        return 0; /* the engine will say */
    (void)sl_lockfile_try(&held, tmp); /* sweep.c */
    rc = sl_tree_share_below(tmp, "config.json", conf, 0644, NULL)
             ? 0
             : p->o->check(p->o->ctx, tmp, &why);
    (void)sl_tree_remove(tmp, NULL);
    sl_lockfile_give(&held);
    if (rc)
        return sl_fail(err, rc, "'%s' cannot be run: %s", conf, why.msg);
    return 0;
}

/* All files of a list, here and verified; `dir` is the snapshot. */
int sl_plan_ensure(struct sl_pulling *p, char dir[SL_TREE_PATH],
                   const char *repo, const char *sha,
                   const struct sl_hub_list *l, bool check, struct sl_err *err)
{
    struct have h = {.blob = NULL};
    struct sl_err why;
    int rc;

    sl_pulling_phase(p, SL_PULL_VERIFY);
    rc = look(p, &h, repo, sha, l, err);
    if (!rc)
        rc = check_room(p, &h, err);
    if (p->o->plan && h.plan.repo)
        p->o->plan(p->o->ctx, &h.plan);
    if (!rc && p->o->dry_run) {
        have_deinit(&h);
        return 0;
    }
    if (!rc)
        rc = sl_store_dir(dir, p->store.root[h.i_root], repo, sha, err);
    if (!rc && h.plan.n_missing) {
        sl_pulling_phase(p, SL_PULL_DOWNLOAD);
        rc = link_old(p, &h, repo, sha, l, err);
        if (!rc)
            rc = fetch_some(p, &h, repo, sha, l, false, err);
        if (!rc && check)
            rc = ask(p, dir, l, err);
        if (!rc)
            rc = fetch_some(p, &h, repo, sha, l, true, err);
    } else if (!rc) {
        rc = link_old(p, &h, repo, sha, l, err);
    }
    if (!rc && !p->o->small &&
        sl_receipt_write(p->o->places, repo, sha, dir, l, h.ours, &why))
        sl_pulling_note(p, why.msg); /* only slower next time */
    have_deinit(&h);
    return rc;
}
