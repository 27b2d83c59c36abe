/* bundle/store.h - the files of repositories on this machine
 *
 * Files lie in the cache that other programs of the ecosystem use too, so its
 * layout is a contract:
 *
 *     models--OWNER--NAME/blobs/DIGEST
 *                        /snapshots/COMMIT/PATH -> ../../blobs/DIGEST
 *                        /refs/main              the commit, 40 digits
 *     .locks/models--OWNER--NAME/DIGEST.lock
 *
 * A cache that may not be written to is read, and new files go to a cache of
 * our own with the same layout. A snapshot may be half filled (others do that
 * too), so only a receipt says "complete": what was verified, and what the file
 * system said about each file then.
 */
#ifndef SL_BUNDLE_STORE_H
#define SL_BUNDLE_STORE_H

#include "base/lockfile.h"
#include "bundle/hub.h"
#include "bundle/places.h"

struct sl_store {
    const struct sl_places *places;
    char root[2][SL_TREE_PATH]; /* where to look: the shared cache, our own */
    int i_write;                /* which of them takes new files */
};

/* Decide where new files go. Makes no folder. */
int sl_store_init(struct sl_store *s, const struct sl_places *p,
                  struct sl_err *err);

/* Fetching holds the store shared, collecting garbage holds it alone. Only a
 * courtesy, see base/lockfile.h. */
int sl_store_lock(struct sl_lockfile *l, const struct sl_places *p,
                  enum sl_lock_mode mode, unsigned wait_ms, struct sl_err *err);

/* root/models--OWNER--NAME */
int sl_store_repo(char out[SL_TREE_PATH], const char *root, const char *repo,
                  struct sl_err *err);

/* root/models--.../snapshots/COMMIT */
int sl_store_dir(char out[SL_TREE_PATH], const char *root, const char *repo,
                 const char *sha, struct sl_err *err);

/* The commit that a branch or tag had when it was last resolved here. A commit
 * is itself. SL_ENOTFOUND when nobody resolved it. */
int sl_store_ref(const struct sl_store *s, char sha[SL_NAME_COMMIT + 1],
                 const char *repo, const char *rev, struct sl_err *err);
int sl_store_set_ref(const struct sl_store *s, const char *repo,
                     const char *rev, const char *sha, struct sl_err *err);

/* A file of this repository with this digest and size: where it lies. Verified
 * once, by a receipt or now; *bad when one is there and is damaged. False when
 * there is none. `hashed` counts bytes that were read for it (may be NULL). */
struct sl_receipts;
bool sl_store_find(const struct sl_store *s, char out[SL_TREE_PATH], bool *bad,
                   const char *repo, const struct sl_hub_file *f,
                   struct sl_receipts *known, uint64_t *hashed);

/* Does the snapshot `dir` lead to `blob` under this path? */
bool sl_store_leads(const char *dir, const char *path, const char *blob);

/* Make the snapshot below `root` lead to `blob`. */
int sl_store_link(const char *root, const char *repo, const char *sha,
                  const char *path, const char *blob, struct sl_err *err);

/* Digest of a whole file equals f's, and so does the size? */
int sl_store_verify(const char *path, const struct sl_hub_file *f, bool *same,
                    struct sl_err *err);

/* ------------------------------------------------------------- receipts */

/* What is known about a repository: every receipt of it. */
struct sl_receipts {
    json_t *by_digest; /* digest -> array of the entries with it; owned */
};

int sl_receipts_load(struct sl_receipts *r, const struct sl_places *p,
                     const char *repo, struct sl_err *err);
void sl_receipts_deinit(struct sl_receipts *r);

/* Write that the files of `list` in the snapshot `dir` are verified. ours[i]:
 * we fetched it, nobody else, so that we may remove it again. What the commit's
 * receipt says of other files there stays: several GGUF models of a repository
 * share one, and two processes may write it at once. */
int sl_receipt_write(const struct sl_places *p, const char *repo,
                     const char *sha, const char *dir,
                     const struct sl_hub_list *list, const bool *ours,
                     struct sl_err *err);

/* Does a receipt say that we fetched this digest? */
bool sl_receipts_ours(const struct sl_receipts *r, const char *digest);

/* root/receipts/models--.../COMMIT.json */
int sl_receipt_path(char out[SL_TREE_PATH], const struct sl_places *p,
                    const char *repo, const char *sha, struct sl_err *err);

/* What the commit's receipt lists, unchecked, by rising path; ended by the
 * caller. SL_ENOTFOUND when there is none, SL_EFORMAT when it is damaged or
 * lists nothing. */
int sl_receipt_list(struct sl_hub_list *list, char dir[SL_TREE_PATH],
                    const struct sl_places *p, const char *repo,
                    const char *sha, struct sl_err *err);

/* The files of `want` (NULL: all that the receipt lists) in the snapshot of this
 * commit, unchanged since they were verified: 0 with its folder. SL_ENOTFOUND
 * when there is no receipt, or it lacks one of them or has another digest or
 * size; SL_EIO when a file is gone or changed; the message names it. */
int sl_receipt_check(const struct sl_places *p, char dir[SL_TREE_PATH],
                     const struct sl_hub_list *want, const char *repo,
                     const char *sha, struct sl_err *err);

#endif
