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

/* The merged profile as options of rank SL_FROM_PROFILE. What this version
 * cannot do is SL_EUNSUP with the key. `profile` must outlive `o`. `flat`
 * receives the flat object that holds the values; end it after `o`. */
int sl_setting_apply(json_t **flat, struct sl_opts *o, const json_t *profile,
                     const char *name, struct sl_err *err);

/* Does this machine have what the profile requires? SL_EUNSUP with what is
 * missing. `force` lets counts and memory pass, never the rest. */
int sl_setting_requires(const json_t *profile, const char *name, bool force,
                        struct sl_err *err);

#endif
