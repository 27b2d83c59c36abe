/* sample/jstring.h - strings of a JSON schema, as nodes of a grammar
 *
 * The schema has this one type and no alternatives (jschema.c). Any thread.
 */
#ifndef SL_SAMPLE_JSTRING_H
#define SL_SAMPLE_JSTRING_H

#include "sample/jtext.h"

/* The characters of a string of `schema`, as the answer writes them: with
 * `json` as inside of quotes, else as they are. */
uint32_t sl_jstring_node(struct sl_jschema *j, const json_t *schema,
                         const char *path, bool json);

#endif
