/* bundle/choose.h - which files of a repository make a model
 *
 * A checkpoint is its root: weights in safetensors, descriptions, the tokenizer,
 * and the drafter in its folder. A repository of GGUF files holds several models,
 * of which one is named, unless it is the only one. Any thread.
 */
#ifndef SL_BUNDLE_CHOOSE_H
#define SL_BUNDLE_CHOOSE_H

#include "bundle/store.h"

/* By its name: weights, or what describes them? */
bool sl_choose_is_weights(const char *path);

/* Which files of a repository make a checkpoint, or with `pick` a GGUF model:
 * indices of `list` set in keep[n]; `file` is the first part of the GGUF model,
 * or "". SL_EUNSUP says what there is instead. */
int sl_choose(bool *keep, char file[SL_NAME_PATH + 1],
              const struct sl_hub_list *list, const char *repo,
              const char *pick, struct sl_err *err);

/* Those of the list, added to *out. */
int sl_choose_keep(struct sl_hub_list *out, const struct sl_hub_list *l,
                   const bool *keep, struct sl_err *err);

/* The same of what the commit's receipt lists: added to *out, which the caller
 * ends; `dir` is the snapshot. SL_ENOTFOUND and SL_EFORMAT as sl_receipt_list,
 * else as above. */
int sl_choose_known(struct sl_hub_list *out, char dir[SL_TREE_PATH],
                    char file[SL_NAME_PATH + 1], const struct sl_places *places,
                    const struct sl_target *t, const char *sha,
                    struct sl_err *err);

#endif
