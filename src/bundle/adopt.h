/* bundle/adopt.h - a snapshot that another program filled
 *
 * There is no receipt of it, but its blobs are named by their digests: a model
 * that is whole is verified once, gets a receipt, and is ours to use as well.
 */
#ifndef SL_BUNDLE_ADOPT_H
#define SL_BUNDLE_ADOPT_H

#include "bundle/plan.h"

/* The model of `t` at the commit r->sha: r->dir and r->file. SL_ENOTFOUND when
 * no cache of this machine has it whole. */
int sl_adopt(struct sl_pulling *p, struct sl_ready *r,
             const struct sl_target *t, struct sl_err *err);

#endif
