/* model/dtypes.h - dtype plans: which type each class of weights has in memory
 *
 * A plan names a type per class (design: the values trade size against loss).
 * Norms, convolutions, gates, routers and the small projections of the gates
 * keep the type of the file in every plan.
 */
#ifndef SL_MODEL_DTYPES_H
#define SL_MODEL_DTYPES_H

#include "model/weights.h"

/* The type of a matrix of this class, `cols` wide, whose file type is `from`,
 * under a plan. A row that is no multiple of a type's block falls back to q8_0,
 * and one that is no multiple of 32 keeps its type. */
enum sl_dtype sl_dtypes_get(enum sl_dtype_plan plan, enum sl_weight_class class,
                            bool tied, size_t cols, enum sl_dtype from);

/* Does a matrix fall back to q8_0 there? Any number is allowed. */
bool sl_dtypes_falls_back(uint64_t plan, enum sl_weight_class class, bool tied,
                          size_t cols);

/* "auto", "q8", "q4", "bfp4"; any number is allowed. */
const char *sl_dtypes_name(uint64_t plan);

#endif
