/* bundle/setting.h - what a profile may set, and how it becomes options
 *
 * The keys of a profile's `http`, `engine` and `spec` are the long options of
 * 'serve' with underscores. Some settings of the format belong to parts that
 * this version does not have: they are known, so that such a manifest can be
 * read and shown, and a profile that needs them is refused when it is served.
 */
#ifndef SL_BUNDLE_SETTING_H
#define SL_BUNDLE_SETTING_H

#include "base/option.h"
#include "bundle/shape.h"

/* Checks `serve` and each profile; see shape.h. */
extern const struct sl_shape sl_setting_shape[];

/* The merged profile as options of rank SL_FROM_PROFILE. What it says of drafters
 * that a higher rank leaves out is left out, and so are numbers of drafts where a
 * higher rank names other drafters. What this version cannot do is SL_EUNSUP
 * with the key. `profile` must outlive `o`. `flat` receives the flat object that
 * holds the values; end it after `o`. */
int sl_setting_apply(json_t **flat, struct sl_opts *o, const json_t *profile,
                     const char *name, struct sl_err *err);

/* The drafter that the merged profile asks for when it lies in a repository of
 * its own: an entry of the manifest's `drafters`, borrowed; NULL for none. Its
 * folder becomes the option --draft-model. SL_EUNSUP when it is of a kind that
 * this version cannot take. */
int sl_setting_drafter(const json_t **out, const json_t *manifest,
                       const json_t *profile, const char *name,
                       struct sl_err *err);

#endif
