/* engine/cost_file.h - what steps and passes take, kept for the next start
 *
 * Measuring them reads the weights several times, which is most of what a start
 * takes once the weights are mapped. So what was measured is kept beside the
 * packed weights, under a name that is a digest of all it depends on: the
 * program, the weights, the machine, threads, and who drafts. A start that finds
 * it measures nothing. It is written once, when it is whole, and holds for a
 * week; what steps correct stays in the engine.
 *
 *   DIR/packed/cost/ID      JSON; lists of [rows, seconds]
 *
 * No answer depends on it while drafts are exact (D7), so a file that is missing,
 * damaged, or cannot be written costs time, and is not spoken of.
 *
 * Thread that opens, before the engine's own exists.
 */
#ifndef SL_ENGINE_COST_FILE_H
#define SL_ENGINE_COST_FILE_H

#include "base/base.h"

struct sl_engine;

/* Where this engine's are, in a buffer of `cap` bytes; false where nothing is
 * kept. `drafter`: the folder of the block drafter, or NULL. */
bool sl_cost_file_path(char *path, size_t cap, const struct sl_engine *e,
                       const char *drafter);

/* Fill the tables from what was kept; false when there is nothing to believe, and
 * they are as before. */
bool sl_cost_file_read(struct sl_engine *e, const char *path);

/* Keep what sl_engine_calibrate has just measured. */
void sl_cost_file_write(struct sl_engine *e, const char *path);

#endif
