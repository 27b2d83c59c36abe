/* bundle/push.h - a built bundle to a repository of the hub, as one commit
 *
 * Only what `sluice build` wrote is pushed, whole and unchanged. What the
 * repository has already is not sent again, what the bundle no longer has is
 * removed from it, and the commit names the one it was made for: if somebody
 * else was faster, nothing is changed.
 */
#ifndef SL_BUNDLE_PUSH_H
#define SL_BUNDLE_PUSH_H

#include "bundle/client.h"
#include "bundle/name.h"

struct sl_push_opts {
    struct sl_client *client;
    const char *dir;    /* with serve_bundle.json */
    const char *repo;   /* made, and private, when there is none */
    const char *branch; /* "main" */
    const char *parent; /* the commit it must be made for, or NULL: any */
    bool is_public;     /* when the repository is made */
    bool dry_run;       /* say what would go */
    /* Called for each file that is sent or removed. NULL allowed. */
    void (*file)(void *ctx, const char *path, const char *how);
    void *ctx;
};

struct sl_push_result {
    char sha[SL_NAME_COMMIT + 1]; /* of the new commit, or of the old one */
    size_t n_sent, n_removed;     /* both 0: nothing had changed */
};

/* SL_EBUSY when the branch is at another commit than `parent`, or moves. */
int sl_push(struct sl_push_result *out, const struct sl_push_opts *o,
            struct sl_err *err);

#endif
