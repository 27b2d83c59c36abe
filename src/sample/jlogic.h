/* sample/jlogic.h - keywords of a JSON schema that speak of other schemas
 *
 * not, if, then, else, dependentRequired and dependentSchemas, as anyOf. Any
 * thread.
 */
#ifndef SL_SAMPLE_JLOGIC_H
#define SL_SAMPLE_JLOGIC_H

#include "sample/jtext.h"

/* Does the schema have one of them? */
bool sl_jlogic_has(const json_t *schema);

/* A new schema that what is valid under `schema` is not valid under. NULL, and no
 * failure, when it cannot be said. */
json_t *sl_jlogic_not(struct sl_jschema *j, const json_t *schema);

/* The first of them as a schema of its own that says the same or less is valid,
 * a new value; what is left of the schema goes to *rest, a new one, too. NULL
 * and a failure when it cannot be said. */
json_t *sl_jlogic_take(struct sl_jschema *j, const json_t *schema,
                       json_t **rest, const char *path);

#endif
