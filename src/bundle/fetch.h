/* bundle/fetch.h - files of a repository, from the hub to the cache
 *
 * Bytes are digested as they arrive. A download that ends, however it ends, is
 * taken up again where it stopped: what is there is digested again first, and
 * never trusted. A file gets its name in the cache when its digest is right.
 */
#ifndef SL_BUNDLE_FETCH_H
#define SL_BUNDLE_FETCH_H

#include "bundle/store.h"

#define SL_FETCH_HIDDEN ".sluice" /* in a repository's folder: partial files */

/* How far it is. done and total are of this file, all_* of everything. */
struct sl_fetch_step {
    const char *path;
    uint64_t done, total;
    uint64_t all_done, all_total;
    bool finished; /* this file */
};

struct sl_fetch_opts {
    struct sl_client *http;
    const struct sl_store *store;
    unsigned n_parallel;
    void (*step)(void *ctx, const struct sl_fetch_step *s); /* or NULL */
    void (*note)(void *ctx, const char *text);              /* or NULL */
    void *ctx;
};

/* Fetch these files of a commit and put them into its snapshot in the cache
 * that may be written. `bad[i]`: one with this digest is there and damaged. */
int sl_fetch_run(const struct sl_fetch_opts *o, const char *repo,
                 const char *sha, const struct sl_hub_file *const *file,
                 const bool *bad, size_t n, struct sl_err *err);

/* Bytes of a file that an earlier try left. *reserved: what it holds of the
 * disk for those that are missing, since it was killed (may be NULL). */
uint64_t sl_fetch_partial(const struct sl_store *s, const char *repo,
                          const struct sl_hub_file *f, uint64_t *reserved);

/* A file is here, whole: what a crash between its two names left is removed. */
void sl_fetch_forget(const struct sl_store *s, const char *repo,
                     const struct sl_hub_file *f);

/* The folder for partial files of this repository: among our own state when it
 * lies on the file system of the cache, else in the repository's folder. */
int sl_fetch_partial_dir(char out[SL_TREE_PATH], const struct sl_store *s,
                         const char *repo, struct sl_err *err);

#endif
