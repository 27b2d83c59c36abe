/* bundle/hub.h - what a hub knows: revisions, files, who we are
 *
 * Names come in as the user or a manifest wrote them and are checked here;
 * everything that comes back is checked before it is used as a path, an
 * address or a digest. Failures say what to do: log in, accept a licence, look
 * at the spelling.
 */
#ifndef SL_BUNDLE_HUB_H
#define SL_BUNDLE_HUB_H

#include "base/json.h"
#include "bundle/client.h"
#include "bundle/digest.h"
#include "bundle/name.h"

#define SL_HUB_MAX_BYTES ((uint64_t)1 << 53) /* of a file, and of all */

#define SL_HUB_FILES 100000 /* of one repository */

struct sl_hub_rev {
    char repo[SL_NAME_REPO + 1]; /* its name now: it may have been renamed */
    char sha[SL_NAME_COMMIT + 1];
    bool gated, private_repo;
};

/* The commit that `rev` names ("main", a tag, a commit). */
int sl_hub_revision(struct sl_client *h, struct sl_hub_rev *out,
                    const char *repo, const char *rev, struct sl_err *err);

struct sl_hub_file {
    char *path; /* checked; owned */
    uint64_t size;
    char digest[SL_DIGEST_HEX + 1]; /* 64 digits: sha256; 40: git */
};

struct sl_hub_list {
    struct sl_hub_file *file; /* [n] */
    size_t n, cap;
    size_t n_rising; /* the first ones, by rising path */
};

/* Every file of a commit, by rising path. The caller ends *out with sl_hub_list_deinit. */
int sl_hub_list(struct sl_client *h, struct sl_hub_list *out, const char *repo,
                const char *sha, struct sl_err *err);
void sl_hub_list_deinit(struct sl_hub_list *l);

/* One page of a listing, added; and the address of the next one behind the
 * endpoint, "" at the end. SL_EFORMAT for what no hub should say. */
int sl_hub_list_page(struct sl_hub_list *l, const json_t *page,
                     const char *repo, struct sl_err *err);
int sl_hub_next_page(char next[SL_CLIENT_URL], const char *link,
                     const char *endpoint, const char *repo,
                     struct sl_err *err);

/* NULL when the list has no such path. Fast in what is in order. */
const struct sl_hub_file *sl_hub_list_find(const struct sl_hub_list *l,
                                           const char *path);
/* Copy one in. Paths that are no longer in order are sorted by _sort. */
int sl_hub_list_add(struct sl_hub_list *l, const char *path, uint64_t size,
                    const char *digest, struct sl_err *err);
void sl_hub_list_sort(struct sl_hub_list *l);

/* Is the hub there, and what is its time (seconds since 1970, -1 when it does
 * not say)? A small question that needs no token. */
int sl_hub_there(struct sl_client *h, int64_t *date_s, struct sl_err *err);

/* The name of the token's owner. */
int sl_hub_whoami(struct sl_client *h, char out[SL_NAME_REPO + 1],
                  struct sl_err *err);

/* Repositories as the hub describes them: an array; ended by the caller. */
int sl_hub_search(struct sl_client *h, json_t **out, const char *text,
                  const char *tag, unsigned limit, struct sl_err *err);

/* Turn a refusal of `j` into words for `repo`; for call-backs. */
int sl_hub_refused(struct sl_job *j, const char *repo, struct sl_err *err);

/* Text of strangers, on one line, without control bytes. */
void sl_hub_plain(char *out, size_t cap, const char *s);

#endif
