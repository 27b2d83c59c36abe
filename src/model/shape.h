/* model/shape.h - the published models' dimensions, by name
 *
 * For measurements with random weights: the time of a step depends on shapes
 * alone. Dimensions are those of the models' config.json.
 */
#ifndef SL_MODEL_SHAPE_H
#define SL_MODEL_SHAPE_H

#include "model/conf.h"

/* "qwen3.5-0.8b", ...; SL_EARG lists the names. Without the MTP head. */
int sl_shape_get(struct sl_conf *out, const char *name, struct sl_err *err);

#endif
