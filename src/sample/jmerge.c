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
#define STEP 16 /* bytes that are one step of work */
#define PAIR 4  /* steps: an object, an array and their places */

static const char *const understood[] = {
    SL_JMERGE_NOT,
    SL_JMERGE_PATTERNS,
    "$ref",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maximum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minimum",
    "minItems",
    "minLength",
    "minProperties",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "then",
    "type",
    "uniqueItems",
};

static const char *const unsupported[] = {
    "$dynamicRef", "$recursiveRef",    "dependencies",          "maxContains",
    "minContains", "unevaluatedItems", "unevaluatedProperties",
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
    if (!json_is_array(type) || json_array_size(type) == 0 ||
        json_array_size(type) > SL_COUNTOF(sl_jmerge_type))
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
    if ((x & SL_JTYPE_INTEGER && y & SL_JTYPE_NUMBER) ||
        (y & SL_JTYPE_INTEGER && x & SL_JTYPE_NUMBER))
        z |= SL_JTYPE_INTEGER;
    for (int i = 0; i < 7; i++)
        if (z >> i & 1)
            json_array_append_new(out, json_string(sl_jmerge_type[i]));
    return out;
}

/* Work for all of a value. As deep as it is, which the parser limits. */
static void spend_on(struct sl_grammar *g, const json_t *v)
{
    const char *key;
    json_t *x;
    size_t i;

    if (!sl_grammar_spend(g, 1 + json_string_length(v) / STEP))
        return;
    json_object_foreach((json_t *)(uintptr_t)v, key, x)
    {
        if (!g->failed)
            spend_on(g, x);
    }
    json_array_foreach((json_t *)(uintptr_t)v, i, x)
    {
        if (!g->failed)
            spend_on(g, x);
    }
}

/* Equal values have the same text, so it is their key in a set. */
static char *text_of(const json_t *v)
{
    return json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
}

static void put_in(json_t *set, const json_t *v)
{
    char *s = text_of(v);

    if (s)
        json_object_set_new(set, s, json_true());
    free(s); /* jansson's own */
}

static bool is_in(const json_t *set, const json_t *v)
{
    char *s = text_of(v);
    bool in = s && json_object_get(set, s);

    free(s); /* jansson's own */
    return in;
}

/* NULL: too much work. */
static json_t *set_of(struct sl_grammar *g, const json_t *list)
{
    json_t *set;

    spend_on(g, list);
    set = g->failed ? NULL : json_object();
    for (size_t i = 0; set && i < json_array_size(list); i++)
        put_in(set, json_array_get(list, i));
    return set;
}

/* Values of a that are in b. */
static json_t *common_values(struct sl_grammar *g, const json_t *a,
                             const json_t *b)
{
    json_t *set = set_of(g, b), *out = set ? json_array() : NULL;

    spend_on(g, a);
    for (size_t i = 0; out && !g->failed && i < json_array_size(a); i++)
        if (is_in(set, json_array_get(a, i)))
            json_array_append(out, json_array_get(a, i));
    json_decref(set);
    return out;
}

static json_t *all_names(struct sl_grammar *g, const json_t *a, const json_t *b)
{
    json_t *set = set_of(g, a);
    json_t *out = set ? json_copy((json_t *)(uintptr_t)a) : NULL;

    spend_on(g, b);
    for (size_t i = 0; out && !g->failed && i < json_array_size(b); i++) {
        json_t *name = json_array_get(b, i);

        if (is_in(set, name))
            continue;
        put_in(set, name);
        json_array_append(out, name);
    }
    json_decref(set);
    return out;
}

static json_t *all_of(const json_t *a, const json_t *b)
{
    return json_pack("{s:[O,O]}", "allOf", a, b);
}

/* One of a and one of b. */
static json_t *each_pair(struct sl_grammar *g, const json_t *a, const json_t *b)
{
    json_t *out = NULL;

    if (sl_grammar_spend(g, json_array_size(a) * json_array_size(b) * PAIR))
        out = json_array();
    for (size_t i = 0; out && i < json_array_size(a); i++)
        for (size_t k = 0; k < json_array_size(b); k++)
            json_array_append_new(
                out, all_of(json_array_get(a, i), json_array_get(b, k)));
    return out;
}

static json_t *all_members(struct sl_grammar *g, const json_t *a,
                           const json_t *b)
{
    json_t *out, *v;
    const char *key;

    if (!sl_grammar_spend(g, json_object_size(a) + json_object_size(b)))
        return NULL;
    out = json_copy((json_t *)(uintptr_t)a);
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

/* Are the two values of a keyword of which nothing holds both? */
static bool excludes(const char *key, const json_t *a, const json_t *b)
{
    json_t *both;
    bool none;

    if (!strcmp(key, "const"))
        return !json_equal(a, b);
    if (strcmp(key, "type") != 0)
        return false;
    both = both_types(a, b);
    none = both && json_array_size(both) == 0;
    json_decref(both);
    return none;
}

/* Comparing costs as much as there is; mostly the numbers of parts differ. */
static bool is_same(struct sl_grammar *g, const json_t *a, const json_t *b)
{
    if (a == b)
        return true;
    if (json_object_size(a) != json_object_size(b) ||
        json_array_size(a) != json_array_size(b))
        return false;
    spend_on(g, a);
    return !g->failed && json_equal(a, b);
}

/* Below 0, 0, above 0: a is less than b, the same, more. Two numbers that are
 * one double need not be the same. */
static int order(const json_t *a, const json_t *b)
{
    json_int_t i = json_integer_value(a), k = json_integer_value(b);
    double x = json_number_value(a), y = json_number_value(b);

    if (json_is_integer(a) && json_is_integer(b))
        return (i > k) - (i < k);
    if (json_is_integer(a) == json_is_integer(b) || x != y)
        return (x > y) - (x < y);
    if (x >= 0x1p63) /* the largest integer is one less */
        return json_is_integer(a) ? -1 : 1;
    i = json_is_integer(a) ? i : (json_int_t)x;
    k = json_is_integer(b) ? k : (json_int_t)y;
    return (i > k) - (i < k);
}

/* What the two values of a keyword come to; NULL: it cannot be said. */
static json_t *join(struct sl_grammar *g, const char *key, json_t *a, json_t *b)
{
    static const char *const largest[] = {"minimum", "exclusiveMinimum",
                                          "minLength", "minItems",
                                          "minProperties"};
    static const char *const smallest[] = {"maximum", "exclusiveMaximum",
                                           "maxLength", "maxItems",
                                           "maxProperties"};

    if (is_same(g, a, b))
        return json_incref(a);
    for (size_t i = 0; i < SL_COUNTOF(largest); i++)
        if (json_is_number(a) && json_is_number(b) && !strcmp(key, largest[i]))
            return json_incref(order(a, b) > 0 ? a : b);
    for (size_t i = 0; i < SL_COUNTOF(smallest); i++)
        if (json_is_number(a) && json_is_number(b) && !strcmp(key, smallest[i]))
            return json_incref(order(a, b) < 0 ? a : b);
    if (!strcmp(key, "type"))
        return both_types(a, b);
    if (!strcmp(key, "enum") && json_is_array(a) && json_is_array(b))
        return common_values(g, a, b);
    if ((!strcmp(key, "required") || !strcmp(key, SL_JMERGE_NOT) ||
         !strcmp(key, SL_JMERGE_PATTERNS)) &&
        json_is_array(a) && json_is_array(b))
        return all_names(g, a, b);
    if ((!strcmp(key, "properties") || !strcmp(key, "patternProperties")) &&
        json_is_object(a) && json_is_object(b))
        return all_members(g, a, b);
    if (!strcmp(key, "uniqueItems") && json_is_boolean(a) && json_is_boolean(b))
        return json_boolean(json_is_true(a) || json_is_true(b));
    if ((!strcmp(key, "anyOf") || !strcmp(key, "oneOf")) && json_is_array(a) &&
        json_is_array(b))
        return each_pair(g, a, b);
    if (!strcmp(key, "allOf") && json_is_array(a) && json_is_array(b)) {
        json_t *out = NULL;

        if (sl_grammar_spend(g, json_array_size(a) + json_array_size(b)))
            out = json_copy(a);
        if (out)
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
    if (json_object_get(b, "patternProperties"))
        return false;
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

/* Both patterns: the second one under a keyword of ours. */
static bool add_pattern(struct sl_grammar *g, json_t *out, const json_t *old,
                        json_t *v)
{
    json_t *more = json_object_get(out, SL_JMERGE_PATTERNS), *list;

    if (!json_is_string(old) || !json_is_string(v) || json_equal(old, v))
        return false;
    list = json_pack("[O]", v);
    if (more && list) {
        json_t *all = all_names(g, more, list);

        json_decref(list);
        list = all;
    }
    return !json_object_set_new(out, SL_JMERGE_PATTERNS, list);
}

json_t *sl_jmerge(struct sl_grammar *g, const json_t *a, const json_t *b,
                  const char *path)
{
    json_t *out, *v;
    const char *key;
    size_t n;

    if (json_is_true(a) || json_is_false(b))
        return json_incref((json_t *)(uintptr_t)b);
    if (json_is_true(b) || json_is_false(a))
        return json_incref((json_t *)(uintptr_t)a);
    n = json_object_size(json_object_get(a, "properties")) +
        json_object_size(json_object_get(b, "properties"));
    if (!sl_grammar_spend(g, n))
        return NULL;
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
        if (old && excludes(key, old, v)) {
            json_decref(out);
            return json_false();
        }
        if (old && !strcmp(key, "pattern") && add_pattern(g, out, old, v))
            continue;
        new = old ? join(g, key, old, v) : json_incref(v);
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

int sl_jmerge_type_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_NULL:
        return SL_JTYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return SL_JTYPE_BOOLEAN;
    case JSON_INTEGER:
        return SL_JTYPE_INTEGER | SL_JTYPE_NUMBER;
    case JSON_REAL:
        return SL_JTYPE_NUMBER;
    case JSON_STRING:
        return SL_JTYPE_STRING;
    case JSON_ARRAY:
        return SL_JTYPE_ARRAY;
    case JSON_OBJECT:
        return SL_JTYPE_OBJECT;
    }
    return 0;
}

/* Does the keyword say something of values of this type? */
static bool speaks_of(const char *key, const json_t *v)
{
    static const char *const of_objects[] = {
        "properties",    "required",      "additionalProperties",
        "minProperties", "maxProperties", "patternProperties",
        "propertyNames"};
    static const char *const of_arrays[] = {
        "items",    "prefixItems", "minItems",       "maxItems",
        "contains", "uniqueItems", "additionalItems"};

    for (size_t i = 0; i < SL_COUNTOF(of_objects); i++)
        if (!strcmp(key, of_objects[i]))
            return json_is_object(v);
    for (size_t i = 0; i < SL_COUNTOF(of_arrays); i++)
        if (!strcmp(key, of_arrays[i]))
            return json_is_array(v);
    return strcmp(key, "multipleOf") != 0 || json_is_number(v);
}

/* A limit of numbers; -1 for another keyword. */
static int within(const char *key, const json_t *k, const json_t *v)
{
    int c = order(v, k);

    if (!strcmp(key, "minimum"))
        return !json_is_number(v) || c >= 0;
    if (!strcmp(key, "maximum"))
        return !json_is_number(v) || c <= 0;
    if (!strcmp(key, "exclusiveMinimum"))
        return !json_is_number(v) || c > 0;
    if (!strcmp(key, "exclusiveMaximum"))
        return !json_is_number(v) || c < 0;
    return -1;
}

/* One keyword about one value: 1 allowed, 0 not, -1 not looked at. */
static int check(const char *key, const json_t *k, const json_t *v)
{
    double limit = json_number_value(k);

    if (!strcmp(key, "type"))
        return (sl_jmerge_types(k) & sl_jmerge_type_of(v)) != 0;
    if (!strcmp(key, "const"))
        return json_equal(k, v);
    if (!strcmp(key, "enum"))
        return 1; /* where the value is from */
    if (!strcmp(key, SL_JMERGE_NOT)) {
        for (size_t i = 0; i < json_array_size(k); i++)
            if (json_equal(json_array_get(k, i), v))
                return 0;
        return 1;
    }
    if (!strcmp(key, "pattern") || !strcmp(key, "format") ||
        !strcmp(key, SL_JMERGE_PATTERNS))
        return 1; /* jstring.c looks */
    if (!strcmp(key, "minLength"))
        return !json_is_string(v) || (double)n_chars(v) >= limit;
    if (!strcmp(key, "maxLength"))
        return !json_is_string(v) || (double)n_chars(v) <= limit;
    if (!speaks_of(key, v))
        return 1;
    if (!json_is_number(k))
        return -1;
    if (!strcmp(key, "multipleOf") && json_is_integer(k) && json_is_integer(v))
        return json_integer_value(k) > 0 &&
               json_integer_value(v) % json_integer_value(k) == 0;
    return within(key, k, v);
}

bool sl_jmerge_allows(struct sl_grammar *g, const json_t *schema,
                      const json_t *value, const char *path)
{
    const char *key;
    json_t *k;
    bool ok = true;

    if (!sl_grammar_spend(g, json_object_size(schema)))
        return false;
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
