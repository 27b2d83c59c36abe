/* sample/jnumber.h - numbers of a JSON schema, as nodes of a grammar
 *
 * The schema has this one type and no alternatives (jschema.c). Any thread.
 */
#ifndef SL_SAMPLE_JNUMBER_H
#define SL_SAMPLE_JNUMBER_H

#include "sample/jtext.h"

uint32_t sl_jnumber_node(struct sl_jschema *j, const json_t *schema, bool whole,
                         const char *path);

#endif
