/* sample/jschema.h - JSON Schema to a grammar of the JSON texts it allows
 *
 * Every text of the grammar is JSON and valid under the schema. Not every valid
 * text is in it, only those that a model should write: members come in the
 * order of the schema, others only where additionalProperties says so, white
 * space is short, numbers have up to 15 digits and 2 of an exponent, values are
 * nested up to about a hundred times.
 *
 * Understood: true, false, type, enum, const, $ref within the schema, anyOf,
 * oneOf (of alternatives that can be kept apart, japart.h), allOf (joined into
 * one), not, if, then, else,
 * dependentRequired and dependentSchemas (jlogic.h), properties, required,
 * additionalProperties, patternProperties (3), propertyNames (by pattern, length
 * and format), minProperties, maxProperties, items, prefixItems,
 * additionalItems, minItems, maxItems, uniqueItems (of 8 listed values),
 * contains, minLength, maxLength, pattern, format (some), minimum, maximum,
 * exclusiveMinimum, exclusiveMaximum, multipleOf (whole). Keywords that say
 * nothing about validity are ignored. All others, and what goes beyond this, are
 * refused by name and place.
 *
 * Any thread.
 */
#ifndef SL_SAMPLE_JSCHEMA_H
#define SL_SAMPLE_JSCHEMA_H

#include <jansson.h>

#include "sample/grammar.h"

#define SL_JSCHEMA_MAX_TEXT ((size_t)1 << 20) /* bytes; chosen */
#define SL_JSCHEMA_MAX_PARTS 4096 /* schemas in the schema that are used */

struct sl_jschema;

/* Rules for schemas within one document; `root` is borrowed until close, `g`
 * as well, and keeps every failure. Reals of whole values become integers in
 * `root`, so that numbers of one value are equal wherever they are compared;
 * SL_EUNSUP for values to choose from that are rounded already. */
int sl_jschema_open(struct sl_jschema **out, struct sl_grammar *g, json_t *root,
                    struct sl_err *err);
void sl_jschema_close(struct sl_jschema **j);

/* A node for JSON texts of `schema`, a part of the root. `path` names it in
 * messages. */
uint32_t sl_jschema_node(struct sl_jschema *j, json_t *schema,
                         const char *path);

/* What a schema comes to: its alternatives, joined with what stands beside
 * them. For others who write values in their own way (calls.c): calls `fn` for
 * each, whose `type` is an array of one, or absent if it has enum or const, or
 * allows anything. Borrowed for the call. */
typedef void sl_jschema_fn(void *ctx, json_t *schema, const char *path);
void sl_jschema_each(struct sl_jschema *j, json_t *schema, const char *path,
                     sl_jschema_fn *fn, void *ctx);

/* The values of the `enum`, or the `const`, that the schema's other keywords
 * allow. */
typedef void sl_jschema_value_fn(void *ctx, const json_t *value,
                                 const char *path);
void sl_jschema_values(struct sl_jschema *j, const json_t *schema,
                       const char *path, sl_jschema_value_fn *fn, void *ctx);

/* The characters of a string of `schema`, as the answer writes them. */
uint32_t sl_jschema_string(struct sl_jschema *j, json_t *schema,
                           const char *path, bool json);

/* The schema that a $ref leads to; NULL and a failure for none. */
json_t *sl_jschema_resolve(struct sl_jschema *j, const json_t *ref,
                           const char *path);

/* Bits of the types that keywords of a schema without `type` speak of, which are
 * those that are written for it; 0: of none in particular. */
int sl_jschema_implied(const json_t *schema);

/* Define the rules that the nodes above have called. */
void sl_jschema_finish(struct sl_jschema *j);

#endif
