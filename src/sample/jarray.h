/* sample/jarray.h - arrays of a JSON schema, as nodes of a grammar
 *
 * The schema has this one type and no alternatives (jschema.c). Any thread.
 */
#ifndef SL_SAMPLE_JARRAY_H
#define SL_SAMPLE_JARRAY_H

#include "sample/jtext.h"

uint32_t sl_jarray_node(struct sl_jschema *j, const json_t *schema,
                        const char *path);

#endif
