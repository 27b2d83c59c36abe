/* bundle/name.h - names that come from outside: repositories, revisions, paths
 *
 * A name is checked here before it becomes part of a path or of an address.
 * Pure functions; any thread.
 */
#ifndef SL_BUNDLE_NAME_H
#define SL_BUNDLE_NAME_H

#include "base/err.h"

#define SL_NAME_REPO 96   /* bytes of "owner/name" */
#define SL_NAME_REV 255   /* bytes of a branch, a tag or a commit */
#define SL_NAME_COMMIT 40 /* hexadecimal digits of a commit */
#define SL_NAME_SHA256 64 /* ... of a digest */
#define SL_NAME_SLUG 96   /* bytes */
#define SL_NAME_PATH 1024 /* bytes of a path inside a repository */

/* Exactly n lower-case hexadecimal digits? */
bool sl_name_is_hex(const char *s, size_t n);

/* n zeros: stands for a digest or commit that is not known yet. */
bool sl_name_is_zero(const char *s, size_t n);

/* [a-z0-9][a-z0-9._-]*, without ".." or "--". */
bool sl_name_is_slug(const char *s);

/* "owner/name" as the hub allows it. */
bool sl_name_is_repo(const char *s);

/* A git ref: no "..", no leading '-' or '/', no control bytes. */
bool sl_name_is_rev(const char *s);

/* NULL when `s` may be a path below a folder of ours; else why it may not, in
 * words that follow "the path '...'". */
const char *sl_name_path_flaw(const char *s);

/* The two first that a file system could take for the same name (by Unicode
 * NFC and ASCII case), or false. Paths are valid ones. */
bool sl_name_twins(const char **a, const char **b, const char *const *path,
                   size_t n);

/* Does `s` match a pattern of *, ? and [a-z]? '*' crosses '/'. */
bool sl_name_glob(const char *pattern, const char *s);

/* What a user calls a model on a hub:
 *
 *     ORG/NAME[:PICK][@REV][#sha256:DIGEST]
 *
 * PICK chooses among the GGUF files of a repository. */
struct sl_target {
    char repo[SL_NAME_REPO + 1];
    char pick[SL_NAME_PATH + 1];     /* "" when absent */
    char rev[SL_NAME_REV + 1];       /* "" when absent */
    char sha256[SL_NAME_SHA256 + 1]; /* of the manifest; "" when absent */
};

/* Does it look like one: one slash, no leading dot or slash? */
bool sl_target_is(const char *s);
int sl_target_parse(struct sl_target *out, const char *s, struct sl_err *err);

/* "owner/name" -> "models--owner--name". */
#define SL_NAME_FOLDER (SL_NAME_REPO + 16)
void sl_name_folder(char out[SL_NAME_FOLDER], const char *repo);

#endif
