/* sample/jmerge.h - two JSON schemas into one that says both
 *
 * Any thread. Failures stick to the grammar. Joining is work of the grammar
 * (sl_grammar_spend) as large as what is copied.
 */
#ifndef SL_SAMPLE_JMERGE_H
#define SL_SAMPLE_JMERGE_H

#include <jansson.h>

#include "sample/grammar.h"

/* Keywords of our own, which appear where schemas are joined: further patterns
 * that must be found, values that it must not be. Both are arrays. */
#define SL_JMERGE_PATTERNS "\1patterns"
#define SL_JMERGE_NOT "\1not"

/* A new schema, owned by the caller; NULL when the two cannot be joined or
 * memory is out. Keywords without influence on validity are left out. */
json_t *sl_jmerge(struct sl_grammar *g, const json_t *a, const json_t *b,
                  const char *path);

/* Does the keyword say what is valid? 0: no. 1: yes, understood. -1: yes, and
 * it is not supported. */
int sl_jmerge_keyword(const char *key);

/* Is the value, one of `enum` or the const, among those that the other keywords
 * of the schema allow? Only type, limits, lengths and const are looked at, and
 * pattern and format are left to jstring.h; another keyword is a failure. */
bool sl_jmerge_allows(struct sl_grammar *g, const json_t *schema,
                      const json_t *value, const char *path);

/* Types as bits; sl_jmerge_type has their names in this order. */
enum {
    SL_JTYPE_NULL = 1,
    SL_JTYPE_BOOLEAN = 2,
    SL_JTYPE_INTEGER = 4,
    SL_JTYPE_NUMBER = 8,
    SL_JTYPE_STRING = 16,
    SL_JTYPE_ARRAY = 32,
    SL_JTYPE_OBJECT = 64
};
extern const char *const sl_jmerge_type[7];

/* Bits of the types that `type` names; without it 0; -1 when it names none. */
int sl_jmerge_types(const json_t *type);

/* Bits of the types that the value is of: an integer is a number, too. */
int sl_jmerge_type_of(const json_t *value);

#endif
