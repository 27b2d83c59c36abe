/* engine/cost_file.h - what steps and passes take, kept for the next start
 *
 * Measuring them reads the weights several times, which is most of what a start
 * takes once the weights are mapped. So the figures are kept beside the packed
 * weights, under a name that is a digest of all they depend on: the program,
 * the weights, the processor, threads, and who drafts. A start that finds them
 * measures nothing. They are a start, as measured ones are: every step corrects
 * them, and what was corrected is kept in the end, so that a figure which was
 * taken while the machine was busy does not stay.
 *
 *   DIR/packed/cost/ID      JSON; lists of [rows, seconds]
 *
 * No answer depends on them (D7), so a file that is missing, damaged, or cannot
 * be written costs time, and is not spoken of.
 *
 * Thread that opens or closes, while the engine's own does not run.
 */
#ifndef SL_ENGINE_COST_FILE_H
#define SL_ENGINE_COST_FILE_H

#include "base/base.h"

struct sl_engine;

/* Fill the tables from what was kept; false when there is nothing for this
 * engine, and they are as before. `drafter` is the folder of the block drafter,
 * or NULL. From here on the engine knows where to keep them. */
bool sl_cost_file_read(struct sl_engine *e, const char *drafter);

/* Keep them as they are now, where steps have told something since the last
 * time. */
void sl_cost_file_write(struct sl_engine *e);

/* Keep nothing: what a step takes was not measured, or the engine ends. */
void sl_cost_file_forget(struct sl_engine *e);

#endif
