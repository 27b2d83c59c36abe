/* bundle/fields.h - every field of a manifest, as a table
 *
 * For sl_shape_walk, and the order in which fields are written.
 */
#ifndef SL_BUNDLE_FIELDS_H
#define SL_BUNDLE_FIELDS_H

#include "bundle/shape.h"

extern const struct sl_shape sl_fields[];

#endif
