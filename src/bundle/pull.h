/* bundle/pull.h - from the name of a model to a folder that can be opened
 *
 *     rc = sl_pull(&r, &target, &opts, &err);
 *     if (!rc)
 *         open r.dir ...
 *     sl_ready_deinit(&r);
 *
 * A repository with serve_bundle.json is a bundle: its files are installed, and
 * the weights that it names are fetched. Any other is taken as a checkpoint.
 * What is here already and was verified is used without asking anybody.
 *
 * Runs on the caller's thread; two processes may pull the same at once.
 */
#ifndef SL_BUNDLE_PULL_H
#define SL_BUNDLE_PULL_H

#include "bundle/fetch.h"
#include "bundle/install.h"
#include "bundle/manifest.h"

enum sl_pull_phase {
    SL_PULL_RESOLVE, /* which commit */
    SL_PULL_PLAN,    /* which files, what is missing, is there room */
    SL_PULL_VERIFY,  /* is what is here what it should be */
    SL_PULL_DOWNLOAD,
    SL_PULL_INSTALL,
    SL_N_PULL_PHASE
};

/* What is about to be done, for one repository. */
struct sl_pull_plan {
    const char *repo, *sha;
    size_t n_file, n_missing;
    uint64_t bytes;   /* of all files */
    uint64_t missing; /* to fetch, without what an earlier try left */
    uint64_t resumed; /* what that left */
    uint64_t free;    /* on the disk */
};

enum sl_pull_how {
    SL_PULL_NEWEST, /* 'pull': ask for the newest */
    SL_PULL_HERE,   /* 'serve': what is here serves; say when there is newer */
};

/* The profiles of what is no bundle: with its draft head, and without. */
#define SL_PULL_PROFILES "spec-decode|plain"

struct sl_pull_opts {
    const struct sl_places *places;
    enum sl_pull_how how;
    bool update;         /* SL_PULL_HERE: fetch what is newer first */
    bool weights;        /* of a bundle, too */
    bool dry_run;        /* plan, and end */
    bool again;          /* read files that are here and digest them anew */
    bool small;          /* only what describes the model: no weights */
    const char *profile; /* or NULL for the default */
    const char *agent;

    /* Any may be NULL; on the caller's thread. */
    void (*phase)(void *ctx, enum sl_pull_phase p);
    void (*plan)(void *ctx, const struct sl_pull_plan *p);
    void (*step)(void *ctx, const struct sl_fetch_step *s);
    void (*note)(void *ctx, const char *text);
    bool (*cancelled)(void *ctx);
    /* Can this checkpoint be run? Asked when its config.json is here, before
     * the weights are fetched. */
    int (*check)(void *ctx, const char *dir, struct sl_err *err);
    void *ctx;
};

struct sl_ready {
    char dir[SL_TREE_PATH];      /* of the checkpoint; "" when not fetched */
    char file[SL_NAME_PATH + 1]; /* a GGUF file in it, or "" */
    char repo[SL_NAME_REPO + 1], sha[SL_NAME_COMMIT + 1]; /* of the weights */
    char drafter[SL_TREE_PATH]; /* folder of another repository, or "" */
    char drafter_repo[SL_NAME_REPO + 1], drafter_sha[SL_NAME_COMMIT + 1];
    bool has_bundle;
    struct sl_manifest manifest;    /* when has_bundle */
    struct sl_install install;      /* likewise */
    char newer[SL_NAME_COMMIT + 1]; /* what the hub has now; "" if the same */
};

int sl_pull(struct sl_ready *out, const struct sl_target *t,
            const struct sl_pull_opts *o, struct sl_err *err);

/* An installed bundle by its name; fetches what is missing of its weights. */
int sl_pull_installed(struct sl_ready *out, const char *name,
                      const struct sl_pull_opts *o, struct sl_err *err);

void sl_ready_deinit(struct sl_ready *r);

/* The manifest of a bundle alone, also of a foreign one: of what is
 * installed, or of the hub. SL_ENOTFOUND when the repository has none. */
int sl_pull_manifest(struct sl_manifest *out, const struct sl_target *t,
                     const struct sl_pull_opts *o, struct sl_err *err);

#endif
