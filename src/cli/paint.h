/* cli/paint.h - an answer on a terminal: reasoning dimmed, calls of tools as
 * calls */
#ifndef SL_CLI_PAINT_H
#define SL_CLI_PAINT_H

#include "sluice/sluice.h"

struct sl_paint;

/* *out is NULL when standard output is no terminal or the prompt is no chat:
 * then text is printed as it is. */
int sl_paint_open(struct sl_paint **out, struct sl_engine *e,
                  const struct sl_gen_opts *opts, struct sl_err *err);

/* Print a piece of the answer, and what is left at its end. */
int sl_paint_put(struct sl_paint *p, const struct sl_piece *piece,
                 struct sl_err *err);
int sl_paint_finish(struct sl_paint *p, struct sl_err *err);

void sl_paint_close(struct sl_paint **p);

#endif
