/* sample/jmerge.c - two JSON schemas into one that says both; see jmerge.h
 *
 * Keywords that only one has are copied. What both have is joined where that is
 * a keyword again: the stricter limit, the types and values in common, all
 * required names, members and items under both of their schemas. What would
 * need an intersection of languages (two patterns) is refused.
 */
#include "sample/jmerge.h"

#include "base/utf8.h"

const char *const sl_jmerge_type[7] = {"null",   "boolean", "integer", "number",
                                       "string", "array",   "object"};
#define INTEGER_BIT 4
#define NUMBER_BIT 8

static const char *const understood[] = {
    "$ref",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "oneOf",
    "pattern",
    "prefixItems",
    "properties",
    "required",
    "type",
};

static const char *const unsupported[] = {
    "$dynamicRef",
    "$recursiveRef",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxContains",
    "maxProperties",
    "minContains",
    "minProperties",
    "multipleOf",
    "not",
    "patternProperties",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
};

int sl_jmerge_keyword(const char *key)
{
    for (size_t i = 0; i < SL_COUNTOF(understood); i++)
        if (!strcmp(key, understood[i]))
            return 1;
    for (size_t i = 0; i < SL_COUNTOF(unsupported); i++)
        if (!strcmp(key, unsupported[i]))
            return -1;
    return 0;
}

static int type_bit(const char *name)
{
    for (int i = 0; name && i < 7; i++)
        if (!strcmp(name, sl_jmerge_type[i]))
            return 1 << i;
    return -1;
}

int sl_jmerge_types(const json_t *type)
{
    int bits = 0;

    if (!type)
        return 0;
    if (json_is_string(type))
        return type_bit(json_string_value(type));
    if (!json_is_array(type) || json_array_size(type) == 0)
        return -1;
    for (size_t i = 0; i < json_array_size(type); i++) {
        int b = type_bit(json_string_value(json_array_get(type, i)));

        if (b < 0)
            return -1;
        bits |= b;
    }
    return bits;
}

/* ---------------------------------------------------------- joining keywords
 */

static json_t *both_types(const json_t *a, const json_t *b)
{
    int x = sl_jmerge_types(a), y = sl_jmerge_types(b), z;
    json_t *out = json_array();

    if (x < 0 || y < 0) {
        json_decref(out);
        return NULL;
    }
    /* Integers are numbers. */
    z = x & y;
    if ((x & INTEGER_BIT && y & NUMBER_BIT) ||
        (y & INTEGER_BIT && x & NUMBER_BIT))
        z |= INTEGER_BIT;
    for (int i = 0; i < 7; i++)
        if (z >> i & 1)
            json_array_append_new(out, json_string(sl_jmerge_type[i]));
    return out;
}

static json_t *common_values(const json_t *a, const json_t *b)
{
    json_t *out = json_array();

    for (size_t i = 0; i < json_array_size(a); i++)
        for (size_t k = 0; k < json_array_size(b); k++)
            if (json_equal(json_array_get(a, i), json_array_get(b, k))) {
                json_array_append(out, json_array_get(a, i));
                break;
            }
    return out;
}

static json_t *all_names(const json_t *a, const json_t *b)
{
    json_t *out = json_copy((json_t *)(uintptr_t)a);

    for (size_t i = 0; out && i < json_array_size(b); i++) {
        json_t *name = json_array_get(b, i);
        bool has = false;

        for (size_t k = 0; k < json_array_size(out); k++)
            has |= json_equal(json_array_get(out, k), name) != 0;
        if (!has)
            json_array_append(out, name);
    }
    return out;
}

static json_t *all_of(const json_t *a, const json_t *b)
{
    return json_pack("{s:[O,O]}", "allOf", a, b);
}

static json_t *all_members(const json_t *a, const json_t *b)
{
    json_t *out = json_copy((json_t *)(uintptr_t)a), *v;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)b, key, v)
    {
        const json_t *old = json_object_get(out, key);

        if (old)
            json_object_set_new(out, key, all_of(old, v));
        else
            json_object_set(out, key, v);
    }
    return out;
}

/* What the two values of a keyword come to; NULL: it cannot be said. */
static json_t *join(const char *key, json_t *a, json_t *b)
{
    static const char *const largest[] = {"minimum", "exclusiveMinimum",
                                          "minLength", "minItems"};
    static const char *const smallest[] = {"maximum", "exclusiveMaximum",
                                           "maxLength", "maxItems"};

    if (json_equal(a, b))
        return json_incref(a);
    for (size_t i = 0; i < SL_COUNTOF(largest); i++)
        if (json_is_number(a) && json_is_number(b) && !strcmp(key, largest[i]))
            return json_incref(json_number_value(a) > json_number_value(b) ? a
                                                                           : b);
    for (size_t i = 0; i < SL_COUNTOF(smallest); i++)
        if (json_is_number(a) && json_is_number(b) && !strcmp(key, smallest[i]))
            return json_incref(json_number_value(a) < json_number_value(b) ? a
                                                                           : b);
    if (!strcmp(key, "type"))
        return both_types(a, b);
    if (!strcmp(key, "enum") && json_is_array(a) && json_is_array(b))
        return common_values(a, b);
    if (!strcmp(key, "required") && json_is_array(a) && json_is_array(b))
        return all_names(a, b);
    if (!strcmp(key, "properties") && json_is_object(a) && json_is_object(b))
        return all_members(a, b);
    if (!strcmp(key, "allOf") && json_is_array(a) && json_is_array(b)) {
        json_t *out = json_copy(a);

        json_array_extend(out, b);
        return out;
    }
    if (!strcmp(key, "items") || !strcmp(key, "additionalProperties"))
        return all_of(a, b);
    return NULL;
}

/* A schema whose additionalProperties speaks of members that only the other one
 * names would have to be applied to them. */
static bool others_fit(const json_t *a, const json_t *b)
{
    json_t *more = json_object_get(a, "additionalProperties");
    json_t *mine = json_object_get(a, "properties"), *v;
    const char *key;

    if (!more || json_is_true(more))
        return true;
    json_object_foreach(json_object_get(b, "properties"), key, v)
    {
        if (!json_object_get(mine, key))
            return false;
    }
    return true;
}

/* "items" speaks of the items behind the prefix of its own schema. */
static bool items_fit(const json_t *a, const json_t *b)
{
    return !json_object_get(a, "prefixItems") || !json_object_get(b, "items") ||
           json_object_get(b, "prefixItems");
}

static void *refuse(struct sl_grammar *g, const char *path, const char *key)
{
    sl_grammar_fail(g, SL_EUNSUP,
                    "the schema at %s says two things about '%s' that cannot "
                    "be joined here; write it as one schema",
                    path, key);
    return NULL;
}

json_t *sl_jmerge(struct sl_grammar *g, const json_t *a, const json_t *b,
                  const char *path)
{
    json_t *out, *v;
    const char *key;

    if (json_is_true(a) || json_is_false(b))
        return json_incref((json_t *)(uintptr_t)b);
    if (json_is_true(b) || json_is_false(a))
        return json_incref((json_t *)(uintptr_t)a);
    if (!others_fit(a, b) || !others_fit(b, a))
        return refuse(g, path, "additionalProperties");
    if (!items_fit(a, b) || !items_fit(b, a))
        return refuse(g, path, "items");
    out = json_object();
    json_object_foreach((json_t *)(uintptr_t)a, key, v)
    {
        if (sl_jmerge_keyword(key))
            json_object_set(out, key, v);
    }
    json_object_foreach((json_t *)(uintptr_t)b, key, v)
    {
        json_t *old = json_object_get(out, key), *new;

        if (!sl_jmerge_keyword(key))
            continue;
        new = old ? join(key, old, v) : json_incref(v);
        if (!new) {
            json_decref(out);
            return refuse(g, path, key);
        }
        json_object_set_new(out, key, new);
    }
    return out;
}

/* -------------------------------------------------------------- enum, filtered
 */

static size_t n_chars(const json_t *s)
{
    const char *p = json_string_value(s);
    size_t n = 0;

    for (size_t i = 0; i < json_string_length(s); i++)
        n += ((unsigned char)p[i] & 0xc0) != 0x80;
    return n;
}

static int value_type(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_NULL:
        return 1;
    case JSON_TRUE:
    case JSON_FALSE:
        return 2;
    case JSON_INTEGER:
        return INTEGER_BIT | NUMBER_BIT;
    case JSON_REAL:
        return NUMBER_BIT;
    case JSON_STRING:
        return 16;
    case JSON_ARRAY:
        return 32;
    case JSON_OBJECT:
        return 64;
    }
    return 0;
}

static bool is_in(const json_t *list, const json_t *v)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), v))
            return true;
    return false;
}

/* One keyword about one value: 1 allowed, 0 not, -1 not looked at. */
static int check(const char *key, const json_t *k, const json_t *v)
{
    double limit = json_number_value(k), x = json_number_value(v);

    if (!strcmp(key, "type"))
        return (sl_jmerge_types(k) & value_type(v)) != 0;
    if (!strcmp(key, "const"))
        return json_equal(k, v);
    if (!strcmp(key, "enum"))
        return is_in(k, v);
    if (!strcmp(key, "minLength"))
        return !json_is_string(v) || (double)n_chars(v) >= limit;
    if (!strcmp(key, "maxLength"))
        return !json_is_string(v) || (double)n_chars(v) <= limit;
    if (!json_is_number(k))
        return -1;
    if (!strcmp(key, "minimum"))
        return !json_is_number(v) || x >= limit;
    if (!strcmp(key, "maximum"))
        return !json_is_number(v) || x <= limit;
    if (!strcmp(key, "exclusiveMinimum"))
        return !json_is_number(v) || x > limit;
    if (!strcmp(key, "exclusiveMaximum"))
        return !json_is_number(v) || x < limit;
    return -1;
}

bool sl_jmerge_allows(struct sl_grammar *g, const json_t *schema,
                      const json_t *value, const char *path)
{
    const char *key;
    json_t *k;
    bool ok = true;

    json_object_foreach((json_t *)(uintptr_t)schema, key, k)
    {
        int c = sl_jmerge_keyword(key) ? check(key, k, value) : 1;

        if (c < 0) {
            refuse(g, path, key);
            return false;
        }
        ok &= c;
    }
    return ok;
}
