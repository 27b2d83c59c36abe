/* bundle/needs.h - what a bundle needs of this program, this machine and its
 * own weights
 *
 * A manifest says what must be there: a version and features of the engine,
 * capabilities of the server, memory and cores, an architecture, tensors of a
 * draft head. What is not there is told before anything is loaded. Any thread.
 */
#ifndef SL_BUNDLE_NEEDS_H
#define SL_BUNDLE_NEEDS_H

#include "bundle/manifest.h"

/* What this program can do beyond the first version of the format, for
 * `engine.features` and 'sluice version'; ends with NULL. */
extern const char *const sl_needs_features[];

/* Kind, version, features and capabilities; SL_EUNSUP says which is lacking. */
int sl_needs_program(const struct sl_manifest *m, struct sl_err *err);

/* What the merged profile `requires`: SL_EUNSUP, or SL_ENOSPACE for the disk,
 * with what is missing. `packed` is the folder of packed weights; files that
 * are kept there already count as room. NULL: the disk is not looked at.
 * `force` lets counts, memory and disk pass, never the kind of machine. */
int sl_needs_machine(const json_t *profile, const char *name, bool force,
                     const char *packed, struct sl_err *err);

/* What would help and is not demanded, as a sentence; "" when all is there. */
void sl_needs_advice(char *out, size_t cap, const json_t *profile,
                     const char *name);

/* The checkpoint in `dir` is of the architecture that the manifest names, and
 * has the tensors of the draft heads that `profile` (a name) needs. SL_EFORMAT.
 * A GGUF model names its architecture differently and is left to the engine. */
int sl_needs_checkpoint(const struct sl_manifest *m, const char *profile,
                        const char *dir, struct sl_err *err);

#endif
