/* sample/jlogic.c - keywords of a JSON schema that speak of other schemas
 *
 *     not S                   what S does not allow
 *     if I then T else E      (I and T) or (not I and E)
 *     dependentRequired k: R  no member k, or k and R
 *     dependentSchemas k: S   no member k, or k and S
 *
 * A grammar cannot say "not", so the negation of a schema is worked out: what
 * breaks at least one of its keywords. For most keywords that is another
 * keyword; it may allow less than it could (a value of another type, say),
 * never more.
 */
#include "sample/jlogic.h"

#include "sample/jmerge.h"

#define MAX_NOT 16 /* schemas in each other; chosen */

static const char *const keyword[] = {"not", "if", "dependentRequired",
                                      "dependentSchemas"};

bool sl_jlogic_has(const json_t *s)
{
    for (size_t i = 0; i < SL_COUNTOF(keyword); i++)
        if (json_object_get(s, keyword[i]))
            return true;
    return json_object_get(s, "then") || json_object_get(s, "else");
}

static json_t *negate(struct sl_jschema *j, const json_t *s, int depth);

/* One of them; of none nothing. */
static json_t *any_of(json_t *list)
{
    if (json_array_size(list) == 0) {
        json_decref(list);
        return json_false();
    }
    return json_pack("{s:o}", "anyOf", list);
}

/* Objects without this member. */
static json_t *lacks(const char *name)
{
    return json_pack("{s:s,s:{s:b}}", "type", "object", "properties", name, 0);
}

/* All types but these. Numbers that are no integers cannot be said, and are
 * left out. */
static json_t *other_types(const json_t *type)
{
    int bits = sl_jmerge_types(type);
    json_t *out = json_array();

    if (bits & (4 | 8))
        bits |= 4 | 8;
    for (int i = 0; i < 7; i++)
        if (bits >= 0 && !(bits >> i & 1) && i != 2)
            json_array_append_new(out, json_string(sl_jmerge_type[i]));
    if (bits < 0 || json_array_size(out) == 0) {
        json_decref(out);
        return bits < 0 ? NULL : json_false();
    }
    return json_pack("{s:o}", "type", out);
}

/* One of the members breaks its schema. */
static json_t *broken_member(struct sl_jschema *j, const json_t *props,
                             int depth)
{
    json_t *out = json_array(), *v;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)props, key, v)
    {
        json_t *no = negate(j, v, depth);

        if (!no) {
            json_decref(out);
            return NULL;
        }
        json_array_append_new(out, json_pack("{s:s,s:{s:o},s:[s]}", "type",
                                             "object", "properties", key, no,
                                             "required", key));
    }
    return any_of(out);
}

static json_t *lacks_one(const json_t *names)
{
    json_t *out = json_array();

    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));

        if (!name) {
            json_decref(out);
            return NULL;
        }
        json_array_append_new(out, lacks(name));
    }
    return any_of(out);
}

/* The negations of all, one of them or all of them. */
static json_t *each_negated(struct sl_jschema *j, const json_t *list,
                            const char *under, int depth)
{
    json_t *out;

    if (json_array_size(list) == 0)
        return NULL; /* no list of schemas */
    out = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *no = negate(j, json_array_get(list, i), depth);

        if (!no) {
            json_decref(out);
            return NULL;
        }
        json_array_append_new(out, no);
    }
    return json_pack("{s:o}", under, out);
}

/* A limit, and the keyword that says the opposite of numbers. */
static json_t *beyond(const char *key, const json_t *v)
{
    static const char *const pair[][2] = {
        {"minimum", "exclusiveMaximum"},
        {"maximum", "exclusiveMinimum"},
        {"exclusiveMinimum", "maximum"},
        {"exclusiveMaximum", "minimum"},
    };

    for (size_t i = 0; i < SL_COUNTOF(pair); i++)
        if (!strcmp(key, pair[i][0]) && json_is_number(v))
            return json_pack("{s:s,s:O}", "type", "number", pair[i][1], v);
    return NULL;
}

/* What breaks this keyword. */
static json_t *broken(struct sl_jschema *j, const char *key, const json_t *v,
                      int depth)
{
    if (!strcmp(key, "type"))
        return other_types(v);
    if (!strcmp(key, "const"))
        return json_pack("{s:[O]}", SL_JMERGE_NOT, v);
    if (!strcmp(key, "enum") && json_is_array(v))
        return json_pack("{s:O}", SL_JMERGE_NOT, v);
    if (!strcmp(key, "required") && json_is_array(v))
        return lacks_one(v);
    if (!strcmp(key, "properties") && json_is_object(v))
        return broken_member(j, v, depth);
    if (!strcmp(key, "anyOf") || !strcmp(key, "oneOf"))
        return each_negated(j, v, "allOf", depth);
    if (!strcmp(key, "allOf"))
        return each_negated(j, v, "anyOf", depth);
    if (!strcmp(key, "not"))
        return json_incref((json_t *)(uintptr_t)v);
    return beyond(key, v);
}

/* NULL: it cannot be said. */
static json_t *negate(struct sl_jschema *j, const json_t *s, int depth)
{
    json_t *out, *v;
    const char *key;

    if (json_is_boolean(s))
        return json_boolean(json_is_false(s));
    if (!json_is_object(s) || depth >= MAX_NOT ||
        !sl_grammar_spend(j->g, 1 + json_object_size(s)))
        return NULL;
    out = json_array();
    json_object_foreach((json_t *)(uintptr_t)s, key, v)
    {
        json_t *no = NULL;

        if (!sl_jmerge_keyword(key))
            continue;
        no = broken(j, key, v, depth + 1);
        if (!no) {
            json_decref(out);
            return NULL;
        }
        json_array_append_new(out, no);
    }
    return any_of(out);
}

json_t *sl_jlogic_not(struct sl_jschema *j, const json_t *s)
{
    return negate(j, s, 0);
}

static json_t *negation(struct sl_jschema *j, const json_t *s, const char *key,
                        const char *path)
{
    json_t *no = negate(j, s, 0);

    if (!no)
        sl_jtext_refuse(j, path, key,
                        "is supported where it asks for types, values, limits, "
                        "and members with these; write the schema without it");
    return no;
}

static json_t *or_true(const json_t *s)
{
    return s ? json_incref((json_t *)(uintptr_t)s) : json_true();
}

static json_t *condition(struct sl_jschema *j, const json_t *s,
                         const char *path)
{
    const json_t *i = json_object_get(s, "if");
    const json_t *then = json_object_get(s, "then");
    const json_t *other = json_object_get(s, "else");
    json_t *no;

    if (!i || (!then && !other))
        return json_true(); /* says nothing */
    no = negation(j, i, "if", path);
    if (!no)
        return NULL;
    return json_pack("{s:[{s:[O,o]},{s:[o,o]}]}", "anyOf", "allOf", i,
                     or_true(then), "allOf", no, or_true(other));
}

/* For each name: it is not there, or what depends on it holds. */
static json_t *dependents(struct sl_jschema *j, const json_t *of,
                          const char *key, const char *path)
{
    json_t *all = json_array(), *v;
    bool names = !strcmp(key, "dependentRequired");
    const char *name;

    if (!json_is_object(of))
        sl_jtext_refuse(j, path, key, "must be an object");
    json_object_foreach((json_t *)(uintptr_t)of, name, v)
    {
        json_t *with =
            json_pack("{s:s,s:[s]}", "type", "object", "required", name);

        if (names && !json_is_array(v))
            sl_jtext_refuse(j, path, key, "must hold arrays of names");
        else if (names)
            json_array_extend(json_object_get(with, "required"), v);
        else
            json_object_set_new(with, "allOf", json_pack("[O]", v));
        json_array_append_new(
            all, json_pack("{s:[o,o]}", "anyOf", lacks(name), with));
    }
    return json_pack("{s:o}", "allOf", all);
}

json_t *sl_jlogic_take(struct sl_jschema *j, const json_t *s, json_t **rest,
                       const char *path)
{
    const char *key = "then"; /* alone it says nothing, nor does else */
    json_t *out;

    for (size_t i = SL_COUNTOF(keyword); i-- > 0;)
        if (json_object_get(s, keyword[i]))
            key = keyword[i];
    if (!strcmp(key, "not"))
        out = negation(j, json_object_get(s, key), key, path);
    else if (!strcmp(key, "if") || !strcmp(key, "then"))
        out = condition(j, s, path);
    else
        out = dependents(j, json_object_get(s, key), key, path);
    *rest = json_copy((json_t *)(uintptr_t)s);
    json_object_del(*rest, key);
    if (!strcmp(key, "if") || !strcmp(key, "then")) {
        json_object_del(*rest, "then");
        json_object_del(*rest, "else");
    }
    if (out && !j->g->failed)
        return out;
    json_decref(out);
    json_decref(*rest);
    *rest = NULL;
    return NULL;
}
