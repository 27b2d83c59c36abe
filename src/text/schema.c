/* text/schema.c - what JSON Schema says about a tool's parameters; see schema.h
 *
 * A node's alternatives (anyOf, oneOf, allOf, and what its $ref names) are
 * walked as one set: types are their union, keys are searched in all of them.
 * A union is more than allOf means, but a type too many costs nothing here,
 * and a type too few turns a number into text.
 *
 * The schema comes from a request: references may form circles and branches
 * may double at each level, so a walk visits at most MAX_NODES nodes and goes
 * MAX_DEPTH deep; what lies behind is not known.
 */
#include "text/schema.h"

#include <strings.h>

#define MAX_NODES 256  /* of one walk; chosen, not measured */
#define MAX_DEPTH 16   /* of alternatives and references */
#define MAX_POINTER 32 /* steps of one $ref */

/* The function object at index i of `tools`, or NULL. */
static json_t *function_at(json_t *tools, size_t i)
{
    json_t *tool = json_array_get(tools, i);
    json_t *f = json_object_get(tool, "function");

    return json_is_object(f) ? f : tool;
}

/* Does this JSON string equal s, or begin with it? */
static bool says(const json_t *str, const char *s, size_t len, bool prefix)
{
    size_t have = json_string_length(str);

    return json_is_string(str) && have >= len && (prefix || have == len) &&
           memcmp(json_string_value(str), s, len) == 0;
}

bool sl_schema_has_tool(json_t *tools, const char *name, size_t len,
                        bool prefix)
{
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (says(json_object_get(function_at(tools, i), "name"), name, len,
                 prefix))
            return true;
    return false;
}

struct sl_schema sl_schema_tool(json_t *tools, const char *name, size_t len)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        json_t *f = function_at(tools, i);
        json_t *p = json_object_get(f, "parameters");

        if (says(json_object_get(f, "name"), name, len, false) &&
            json_is_object(p))
            return (struct sl_schema){p, p};
    }
    return (struct sl_schema){NULL, NULL};
}

/* One step of a JSON pointer (RFC 6901), with ~0 and ~1 put back. */
static json_t *step(json_t *node, const char *s, size_t len)
{
    char key[256];
    size_t n = 0;
    size_t at = 0;

    if (len >= sizeof(key))
        return NULL;
    for (size_t i = 0; i < len; i++) {
        key[n] = s[i];
        if (s[i] == '~' && i + 1 < len && (s[i + 1] == '0' || s[i + 1] == '1'))
            key[n] = s[++i] == '0' ? '~' : '/';
        n++;
    }
    if (!json_is_array(node))
        return json_object_getn(node, key, n);
    for (size_t i = 0; i < n; i++) {
        if (key[i] < '0' || key[i] > '9' || at > MAX_NODES)
            return NULL;
        at = at * 10 + (size_t)(key[i] - '0');
    }
    return n ? json_array_get(node, at) : NULL;
}

/* What a local reference names, or NULL. */
static json_t *target(json_t *root, const json_t *ref)
{
    const char *s = json_string_value(ref);

    if (!s || s[0] != '#' || (s[1] && s[1] != '/'))
        return NULL;
    s++;
    for (int i = 0; *s == '/' && root; i++) {
        size_t len = strcspn(s + 1, "/");

        root = i < MAX_POINTER ? step(root, s + 1, len) : NULL;
        s += 1 + len;
    }
    return json_is_object(root) ? root : NULL;
}

/* A walk over a node and its alternatives. `see` returns true to end it. */
struct walk {
    json_t *root;
    bool (*see)(struct walk *w, json_t *node);
    int left; /* nodes */
    unsigned types;
    const char *key;
    size_t len;
    bool prefix;
    json_t *found;
};

/* Recursion ends at MAX_DEPTH. */
static bool walk(struct walk *w, json_t *node, int depth)
{
    static const char *const many[] = {"anyOf", "oneOf", "allOf"};
    json_t *ref;

    if (!json_is_object(node) || depth > MAX_DEPTH || w->left-- <= 0)
        return false;
    if (w->see(w, node))
        return true;
    ref = target(w->root, json_object_get(node, "$ref"));
    if (ref && walk(w, ref, depth + 1))
        return true;
    for (size_t k = 0; k < SL_COUNTOF(many); k++) {
        json_t *list = json_object_get(node, many[k]);

        for (size_t i = 0; i < json_array_size(list) && w->left > 0; i++)
            if (walk(w, json_array_get(list, i), depth + 1))
                return true;
    }
    return false;
}

static bool start(struct sl_schema s, struct walk *w)
{
    w->root = s.root;
    w->left = MAX_NODES;
    return walk(w, s.node, 0);
}

static bool see_key(struct walk *w, json_t *node)
{
    json_t *props = json_object_get(node, "properties");

    if (!w->prefix) {
        w->found = json_object_getn(props, w->key, w->len);
        return w->found != NULL;
    }
    for (void *it = json_object_iter(props); it;
         it = json_object_iter_next(props, it))
        if (json_object_iter_key_len(it) >= w->len &&
            memcmp(json_object_iter_key(it), w->key, w->len) == 0)
            return true;
    return false;
}

bool sl_schema_has_key(struct sl_schema s, const char *key, size_t len,
                       bool prefix)
{
    struct walk w = {.see = see_key, .key = key, .len = len, .prefix = prefix};

    return start(s, &w);
}

struct sl_schema sl_schema_member(struct sl_schema s, const char *key,
                                  size_t len)
{
    struct walk w = {.see = see_key, .key = key, .len = len};

    start(s, &w);
    return (struct sl_schema){s.root, w.found};
}

static bool see_items(struct walk *w, json_t *node)
{
    w->found = json_object_get(node, "items");
    return json_is_object(w->found);
}

struct sl_schema sl_schema_item(struct sl_schema s)
{
    struct walk w = {.see = see_items};

    if (!start(s, &w))
        w.found = NULL;
    return (struct sl_schema){s.root, w.found};
}

/* Names of types; besides JSON Schema's those that Python programs write. */
static unsigned named(const json_t *name)
{
    static const struct {
        const char *name;
        enum sl_schema_type type;
    } names[] = {
        {"null", SL_SCHEMA_NULL},       {"integer", SL_SCHEMA_INTEGER},
        {"int", SL_SCHEMA_INTEGER},     {"number", SL_SCHEMA_NUMBER},
        {"float", SL_SCHEMA_NUMBER},    {"double", SL_SCHEMA_NUMBER},
        {"boolean", SL_SCHEMA_BOOLEAN}, {"bool", SL_SCHEMA_BOOLEAN},
        {"object", SL_SCHEMA_OBJECT},   {"dict", SL_SCHEMA_OBJECT},
        {"array", SL_SCHEMA_ARRAY},     {"list", SL_SCHEMA_ARRAY},
        {"string", SL_SCHEMA_STRING},   {"str", SL_SCHEMA_STRING},
    };
    const char *s = json_string_value(name);

    for (size_t i = 0; s && i < SL_COUNTOF(names); i++)
        if (strcasecmp(s, names[i].name) == 0)
            return names[i].type;
    return 0;
}

static unsigned type_of(const json_t *v)
{
    if (!v)
        return 0;
    switch (json_typeof(v)) {
    case JSON_NULL:
        return SL_SCHEMA_NULL;
    case JSON_INTEGER:
        return SL_SCHEMA_INTEGER;
    case JSON_REAL:
        return SL_SCHEMA_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE:
        return SL_SCHEMA_BOOLEAN;
    case JSON_OBJECT:
        return SL_SCHEMA_OBJECT;
    case JSON_ARRAY:
        return SL_SCHEMA_ARRAY;
    case JSON_STRING:
        return SL_SCHEMA_STRING;
    }
    return 0;
}

static bool see_types(struct walk *w, json_t *node)
{
    const json_t *type = json_object_get(node, "type");
    const json_t *list = json_object_get(node, "enum");
    unsigned t = named(type) | type_of(json_object_get(node, "const"));

    for (size_t i = 0; i < json_array_size(type) && i < MAX_NODES; i++)
        t |= named(json_array_get(type, i));
    for (size_t i = 0; i < json_array_size(list) && i < MAX_NODES; i++)
        t |= type_of(json_array_get(list, i));
    if (json_is_true(json_object_get(node, "nullable")))
        t |= SL_SCHEMA_NULL;
    if (!type && json_is_object(json_object_get(node, "properties")))
        t |= SL_SCHEMA_OBJECT;
    if (!type && json_is_object(json_object_get(node, "items")))
        t |= SL_SCHEMA_ARRAY;
    w->types |= t;
    return false;
}

unsigned sl_schema_types(struct sl_schema s)
{
    struct walk w = {.see = see_types};

    start(s, &w);
    return w.types;
}
