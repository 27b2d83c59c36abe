/* bundle/manifest.h - serve_bundle.json: how to serve one checkpoint
 *
 *     rc = sl_manifest_load(&m, "dir/serve_bundle.json", SL_FORM_BUILT, &err);
 *     if (!rc)
 *         rc = sl_manifest_profile(&p, &m, NULL, &err);   the default one
 *     ...
 *     json_decref(p);
 *     sl_manifest_deinit(&m);
 *
 * A manifest is authored (bundle.json: references may be loose) or built
 * (serve_bundle.json: every reference a commit, every file with its digest).
 * What is accepted keeps every rule of the format, so that readers need not
 * check again. Manifests of two other tools are recognised and only shown.
 *
 * Any thread; nothing is kept outside the struct.
 */
#ifndef SL_BUNDLE_MANIFEST_H
#define SL_BUNDLE_MANIFEST_H

#include "base/json.h"
#include "bundle/name.h"

#define SL_MANIFEST_FILE "serve_bundle.json"
#define SL_MANIFEST_AUTHORED "bundle.json"
#define SL_MANIFEST_FOREIGN "tt_kernel_manifest.json"
#define SL_MANIFEST_BYTES ((size_t)4 << 20) /* the format's limit */
#define SL_MANIFEST_VERSION "1.0"           /* read and written */

enum sl_form { SL_FORM_AUTHORED, SL_FORM_BUILT };

struct sl_manifest {
    json_t *json;                    /* the whole of it; owned */
    char digest[SL_NAME_SHA256 + 1]; /* sha256 of its bytes: its identity */
    enum sl_form form;
    const char *tool;  /* of a foreign one: whose it is; else NULL */
    char schema[24];   /* "1.0" */
    char warning[300]; /* for the user, or "" */
};

/* Parse len bytes. Malformed: SL_EFORMAT, or SL_EARG for the authored form;
 * `what` names the file in messages. */
int sl_manifest_parse(struct sl_manifest *out, const char *s, size_t len,
                      enum sl_form form, const char *what, struct sl_err *err);
int sl_manifest_load(struct sl_manifest *out, const char *path,
                     enum sl_form form, struct sl_err *err);
void sl_manifest_deinit(struct sl_manifest *m);

/* Text below the root, e.g. ("model", "id"); NULL when absent. Borrowed. */
const char *sl_manifest_str(const struct sl_manifest *m, const char *a,
                            const char *b);

/* The name a profile has now: follows renamed_profiles; NULL: the default.
 * SL_EARG lists the profiles there are. Borrowed from m. */
int sl_manifest_profile_name(const char **out, const struct sl_manifest *m,
                             const char *name, struct sl_err *err);

/* `serve` with the profile merged over it; the caller ends *out with
 * json_decref. */
int sl_manifest_profile(json_t **out, const struct sl_manifest *m,
                        const char *name, struct sl_err *err);

/* A copy whose keys stand in the order of the format, for writing; NULL without
 * memory. */
json_t *sl_manifest_order(const json_t *manifest);

/* Do digests or commits stand for values that 'build' has yet to fill in? The
 * path of the first goes into `where`. */
bool sl_manifest_has_zeros(const struct sl_manifest *m, char *where,
                           size_t cap);

#endif
