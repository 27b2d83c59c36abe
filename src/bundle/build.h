/* bundle/build.h - from an author's folder to a bundle that can be published
 *
 * `bundle.json` may name branches and leave digests out; `serve_bundle.json`
 * names commits and lists every file. Building is deterministic: the same
 * inputs and the same time give the same bytes, so two people can compare.
 */
#ifndef SL_BUNDLE_BUILD_H
#define SL_BUNDLE_BUILD_H

#include "bundle/client.h"
#include "bundle/manifest.h"

struct sl_build_opts {
    const char *dir; /* with bundle.json, README.md, ... */
    const char *out; /* a folder that is absent, or an earlier result */
    struct sl_client *client; /* may be offline: then all must be pinned */
    int64_t time_s;           /* SOURCE_DATE_EPOCH, or now */
    bool reproducible;        /* the time was given */
};

/* The result's manifest goes to *m; the caller ends it. A bad authored manifest
 * is SL_EARG. */
int sl_build(struct sl_manifest *m, const struct sl_build_opts *o,
             struct sl_err *err);

/* A bundle.json to start from, for the weights of `repo` at `rev`, in `dir`,
 * which must not have one. `about` is what sl_inspect says of config.json. */
int sl_build_init(const char *dir, const char *repo, const char *rev,
                  const json_t *about, struct sl_err *err);

#endif
