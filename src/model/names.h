/* model/names.h - the tensors of a Qwen3.5-family checkpoint, by name */
#ifndef SL_MODEL_NAMES_H
#define SL_MODEL_NAMES_H

#include "model/plan.h"

/* Append every matrix and vector of the model to the plan. An SL_EFORMAT lists
 * what is missing, misshapen or unknown. Sets plan->w->has_mtp. */
int sl_names_walk(struct sl_plan *p, struct sl_err *err);

#endif
