/* bundle/install.h - bundles that are installed on this machine
 *
 *     bundles/NAME/gen-7-1f2e3d4c5b6a/         the files, never changed
 *     bundles/NAME/gen-7-1f2e3d4c5b6a.json     where they came from
 *     bundles/NAME/current -> gen-7-...        replaced by a rename
 *     bundles/NAME/pin                         present: do not look for newer
 *
 * A new version is a new folder, so a server that runs keeps the files it
 * started with, and a crash leaves the old one in place.
 */
#ifndef SL_BUNDLE_INSTALL_H
#define SL_BUNDLE_INSTALL_H

#include "bundle/manifest.h"
#include "bundle/places.h"

struct sl_install {
    char name[SL_NAME_SLUG + 1];
    char dir[SL_TREE_PATH]; /* of the generation */
    char gen[64];           /* "gen-7-1f2e3d4c5b6a" */
    char repo[SL_NAME_REPO + 1], sha[SL_NAME_COMMIT + 1]; /* from where */
    int64_t when_s; /* seconds since 1970 */
    bool current, pinned;
};

/* The files of the snapshot `from` that the manifest lists, and the manifest,
 * as a new generation of its name; the one that is current when it holds the
 * same. */
int sl_install_put(struct sl_install *out, const struct sl_places *p,
                   const struct sl_manifest *m, const char *from,
                   const char *repo, const char *sha, struct sl_err *err);

/* The current generation of a name. */
int sl_install_get(struct sl_install *out, const struct sl_places *p,
                   const char *name, struct sl_err *err);

/* The current generation that came from this repository. */
int sl_install_from(struct sl_install *out, const struct sl_places *p,
                    const char *repo, struct sl_err *err);

/* Every generation, by name and number; *out is ended with sl_mem_free. */
int sl_install_list(struct sl_install **out, size_t *n,
                    const struct sl_places *p, struct sl_err *err);

int sl_install_pin(const struct sl_install *i, const struct sl_places *p,
                   bool pinned, struct sl_err *err);

/* A generation, and the name when it was the last. SL_EBUSY while a server
 * runs from it. */
int sl_install_remove(const struct sl_install *i, const struct sl_places *p,
                      struct sl_err *err);

/* The files are exactly those of the manifest, with its digests. Says what is
 * wrong; SL_EFORMAT. `quick`: sizes only. */
int sl_install_verify(const struct sl_install *i, const struct sl_manifest *m,
                      bool quick, struct sl_err *err);

#endif
