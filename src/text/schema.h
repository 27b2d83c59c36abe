/* text/schema.h - what JSON Schema says about a tool's parameters
 *
 * As much of it as is needed to turn the text of an argument into a value:
 * which types are allowed, which keys exist, what an item is. Everything is
 * borrowed from the `tools` array of the request. Nothing is validated: a
 * schema that makes no sense allows nothing and knows nothing.
 */
#ifndef SL_TEXT_SCHEMA_H
#define SL_TEXT_SCHEMA_H

#include <jansson.h>

#include "base/base.h"

/* In the order in which a text is tried. */
enum sl_schema_type {
    SL_SCHEMA_NULL = 1,
    SL_SCHEMA_INTEGER = 2,
    SL_SCHEMA_NUMBER = 4,
    SL_SCHEMA_BOOLEAN = 8,
    SL_SCHEMA_OBJECT = 16,
    SL_SCHEMA_ARRAY = 32,
    SL_SCHEMA_STRING = 64,
};

/* A place in a schema. */
struct sl_schema {
    json_t *root; /* what "#" in a $ref means; borrowed */
    json_t *node; /* NULL: nothing is known here */
};

/* Is there a tool of this name; or, with `prefix`, one that begins so? */
bool sl_schema_has_tool(json_t *tools, const char *name, size_t len,
                        bool prefix);

/* The parameters of a tool; nothing known when there is no such tool. A tool
 * is {"type", "function": {"name", "parameters"}} or flat. */
struct sl_schema sl_schema_tool(json_t *tools, const char *name, size_t len);

/* Is this a key of the object; or, with `prefix`, the beginning of one? */
bool sl_schema_has_key(struct sl_schema s, const char *key, size_t len,
                       bool prefix);

/* What is known of a member, and of the items of an array. */
struct sl_schema sl_schema_member(struct sl_schema s, const char *key,
                                  size_t len);
struct sl_schema sl_schema_item(struct sl_schema s);

/* The allowed types, a set of enum sl_schema_type; 0: nothing is known. */
unsigned sl_schema_types(struct sl_schema s);

#endif
