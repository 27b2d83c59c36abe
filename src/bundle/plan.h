/* bundle/plan.h - one commit's files: what is here, what is to be fetched
 *
 * The part of a pull that knows no bundle: a list of files with digests becomes
 * a snapshot of which every file is whole, and a receipt. Runs on the thread of
 * the pull.
 */
#ifndef SL_BUNDLE_PLAN_H
#define SL_BUNDLE_PLAN_H

#include "bundle/pull.h"

#define SL_PLAN_CHECK "check-" /* folders in our own state, held while in use */

/* One pull, while it runs. */
struct sl_pulling {
    const struct sl_pull_opts *o;
    struct sl_store store;
    struct sl_client *http;
    struct sl_lockfile lock; /* the store, shared */
};

void sl_pulling_phase(const struct sl_pulling *p, enum sl_pull_phase x);
void sl_pulling_note(const struct sl_pulling *p, const char *text);

/* All files of a list, here and verified; `dir` becomes the snapshot. `check`:
 * ask whether the model can be run before its weights are fetched. In a dry run
 * only the plan is told. */
int sl_plan_ensure(struct sl_pulling *p, char dir[SL_TREE_PATH],
                   const char *repo, const char *sha,
                   const struct sl_hub_list *l, bool check, struct sl_err *err);

#endif
