/* sample/jstring.h - strings of a JSON schema, as nodes of a grammar
 *
 * The schema has this one type and no alternatives (jschema.c). Any thread.
 */
#ifndef SL_SAMPLE_JSTRING_H
#define SL_SAMPLE_JSTRING_H

#include "sample/dfa.h"
#include "sample/jtext.h"

/* The characters of a string of `schema`, as the answer writes them: with
 * `json` as inside of quotes, else as they are, and without markup. */
uint32_t sl_jstring_node(struct sl_jschema *j, const json_t *schema,
                         const char *path, bool json);

/* The strings that the keywords about strings allow. The caller closes *out. */
bool sl_jstring_language(struct sl_jschema *j, struct sl_dfa *out,
                         const json_t *schema, const char *path);

/* Do pattern and format allow the value? */
bool sl_jstring_allows(struct sl_jschema *j, const json_t *schema,
                       const json_t *value, const char *path);

/* May the value, a string, stand as it is in a call, or would a part of it be
 * taken for markup? */
bool sl_jstring_is_raw(struct sl_jschema *j, const json_t *value);

#endif
