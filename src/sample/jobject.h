/* sample/jobject.h - objects of a JSON schema, as nodes of a grammar
 *
 * The schema has this one type and no alternatives (jschema.c). Any thread.
 */
#ifndef SL_SAMPLE_JOBJECT_H
#define SL_SAMPLE_JOBJECT_H

#include "sample/jtext.h"

#define SL_JOBJECT_MAX_NAMES 4096 /* of properties of one object */

uint32_t sl_jobject_node(struct sl_jschema *j, const json_t *schema,
                         const char *path);

#endif
