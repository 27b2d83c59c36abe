/* sample/jschema.c - JSON Schema to a grammar of the JSON texts it allows
 *
 * Each schema in the schema becomes a rule when it is first asked for, and its
 * rule is defined later, from a list: so a $ref may lead anywhere, also back,
 * and nothing here recurses along the document but the joining of allOf, $ref
 * and anyOf with what stands beside them, which is limited.
 *
 * Strings, numbers, white space and free values have one rule each for the
 * whole grammar, so that the masks of their insides are made once (shape.c).
 */
#include "sample/jschema.h"

#include <math.h>

#include "base/mem.h"
#include "base/num.h"
#include "sample/japart.h"
#include "sample/jarray.h"
#include "sample/jlogic.h"
#include "sample/jmerge.h"
#include "sample/jnumber.h"
#include "sample/jobject.h"
#include "sample/jstring.h"

#define MAX_JOIN 32 /* schemas joined into one, in each other; chosen */
#define MAX_WHOLE 0x1p53 /* from here on doubles leave out integers */
#define STEP 16     /* bytes of a reference that are one step of work */

static const char VAGUE[] =
    "'const' or 'enum' has a number of about %.17g, and beyond 2^53 only "
    "integers of 64 bits are kept to the last digit; write it as one, or as a "
    "string";

/* -------------------------------------------------------- what a schema says
 */

/* Does the keyword say nothing with this value? */
static bool is_idle(const char *key, const json_t *v)
{
    return (!strcmp(key, "uniqueItems") && json_is_false(v)) ||
           (!strcmp(key, "minProperties") && json_is_integer(v) &&
            json_integer_value(v) == 0);
}

/* Keywords that count in a schema; but not `key`, if given. */
static size_t n_keywords(const json_t *s, const char *but)
{
    const char *key;
    json_t *v;
    size_t n = 0;

    json_object_foreach((json_t *)(uintptr_t)s, key, v)
    {
        n += sl_jmerge_keyword(key) > 0 && !is_idle(key, v) &&
             !(but && !strcmp(key, but));
    }
    return n;
}

static bool check_keywords(struct sl_jschema *j, const json_t *s,
                           const char *path)
{
    const char *key;
    json_t *v;

    if (!json_is_object(s) && !json_is_boolean(s)) {
        sl_grammar_fail(j->g, SL_EARG,
                        "the schema at %s is no object and no boolean", path);
        return false;
    }
    if (!sl_grammar_spend(j->g, 1 + json_object_size(s)))
        return false;
    json_object_foreach((json_t *)(uintptr_t)s, key, v)
    {
        if (sl_jmerge_keyword(key) < 0) {
            sl_jtext_refuse(j, path, key, "is not supported; leave it out");
            return false;
        }
    }
    return true;
}

/* One step of a JSON pointer, decoded into `out`. */
static bool pointer_step(const char **p, char *out, size_t cap)
{
    size_t n = 0;

    for (; **p && **p != '/'; (*p)++) {
        char c = **p;

        if (c == '~' && ((*p)[1] == '0' || (*p)[1] == '1')) {
            c = (*p)[1] == '0' ? '~' : '/';
            (*p)++;
        } else if (c == '%') {
            static const char hexes[] = "0123456789abcdef0123456789ABCDEF";
            const char *a = (*p)[1] ? strchr(hexes, (*p)[1]) : NULL;
            const char *b = a && (*p)[2] ? strchr(hexes, (*p)[2]) : NULL;

            if (!b)
                return false;
            c = (char)((a - hexes) % 16 * 16 + (b - hexes) % 16);
            *p += 2;
        }
        if (n + 1 >= cap)
            return false;
        out[n++] = c;
    }
    out[n] = 0;
    return true;
}

static bool is_any(const char *s, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(s, list[i]))
            return true;
    return false;
}

/* What a part of a document is: what it says, schemas by names, values that an
 * answer may have, or data that constrains nothing. */
enum part { SCHEMA, SCHEMAS, VALUES, DATA };

static enum part part_at(enum part of, const char *key)
{
    static const char *const values[] = {"const", "enum"};
    static const char *const data[] = {"default", "example", "examples"};
    static const char *const schemas[] = {"properties", "patternProperties",
                                          "dependentSchemas", "$defs",
                                          "definitions"};

    if (of != SCHEMA)
        return of == SCHEMAS ? SCHEMA : of;
    if (is_any(key, values, SL_COUNTOF(values)))
        return VALUES;
    if (is_any(key, data, SL_COUNTOF(data)))
        return DATA;
    return is_any(key, schemas, SL_COUNTOF(schemas)) ? SCHEMAS : SCHEMA;
}

/* A value that an answer may have whose digits are not all known: reals from
 * 2^53 on, as which integers of more than 64 bits are read, too. NULL: none, or
 * g, if given, failed. As deep as the document is, which the parser limits. */
static const json_t *find_vague(struct sl_grammar *g, const json_t *v,
                                enum part part)
{
    const json_t *bad = NULL, *x;
    const char *key;
    size_t i;

    if (g && !sl_grammar_spend(g, 1))
        return NULL;
    if (part == VALUES && json_is_real(v) &&
        !(fabs(json_real_value(v)) < MAX_WHOLE))
        return v;
    json_object_foreach((json_t *)(uintptr_t)v, key, x)
        bad = bad ? bad : find_vague(g, x, part_at(part, key));
    json_array_foreach(v, i, x)
        bad = bad ? bad : find_vague(g, x, part);
    return bad;
}

/* A $ref may make a schema of what was none, as data or a list of schemas: then
 * its numbers count, which they did not before. */
static bool is_exact(struct sl_jschema *j, const json_t *v, enum part part)
{
    const json_t *bad = part == SCHEMA ? NULL : find_vague(j->g, v, SCHEMA);

    if (bad)
        sl_grammar_fail(j->g, SL_EUNSUP, VAGUE, json_real_value(bad));
    return !j->g->failed;
}

static json_t *enter(const json_t *at, const char *key, enum part *part)
{
    *part = part_at(*part, key);
    return json_object_get(at, key);
}

json_t *sl_jschema_resolve(struct sl_jschema *j, const json_t *ref,
                           const char *path)
{
    const char *p = json_string_value(ref);
    json_t *at = j->root;
    enum part part = SCHEMA;
    char step[512];
    int64_t i = 0;

    if (!sl_grammar_spend(j->g, 1 + json_string_length(ref) / STEP))
        return NULL;
    if (!p || *p != '#' || (p[1] && p[1] != '/')) {
        sl_jtext_refuse(j, path, "$ref", "must be '#' or begin with '#/'");
        return NULL;
    }
    for (p++; *p == '/' && at;) {
        p++;
        if (!pointer_step(&p, step, sizeof(step)))
            at = NULL;
        else if (json_is_object(at))
            at = enter(at, step, &part);
        else if (sl_num_i64(&i, step, strlen(step), 0, INT32_MAX, "", NULL))
            at = NULL;
        else
            at = json_array_get(at, (size_t)i);
    }
    if (!at)
        sl_grammar_fail(
            j->g, SL_EARG,
            "the schema at %s: '$ref' leads to '%.100s', which does "
            "not exist",
            path, json_string_value(ref));
    return at && is_exact(j, at, part) ? at : NULL;
}

/* The schema without one keyword. */
static json_t *without(struct sl_jschema *j, const json_t *s, const char *key)
{
    json_t *out = NULL;

    if (sl_grammar_spend(j->g, json_object_size(s)))
        out = json_copy((json_t *)(uintptr_t)s);
    if (out)
        json_object_del(out, key);
    return sl_jtext_keep(j, out);
}

/* The two schemas in one, kept until close. */
static json_t *joined(struct sl_jschema *j, json_t *a, json_t *b,
                      const char *path)
{
    if (!a || !b || j->g->failed)
        return NULL;
    if (!check_keywords(j, a, path) || !check_keywords(j, b, path))
        return NULL;
    if (j->n_joined++ > SL_JSCHEMA_MAX_PARTS) {
        sl_grammar_fail(j->g, SL_EARG,
                        "the schema joins more than %d schemas; make it "
                        "simpler",
                        SL_JSCHEMA_MAX_PARTS);
        return NULL;
    }
    return sl_jtext_keep(j, sl_jmerge(j->g, a, b, path));
}

/* The schema without keywords that speak of other schemas (jlogic.h). */
static json_t *plain(struct sl_jschema *j, json_t *s, const char *path)
{
    for (int i = 0; i < MAX_JOIN && s && sl_jlogic_has(s); i++) {
        json_t *rest = NULL, *says = NULL;

        if (sl_grammar_spend(j->g, json_object_size(s)))
            says = sl_jtext_keep(j, sl_jlogic_take(j, s, &rest, path));
        rest = sl_jtext_keep(j, rest);
        s = joined(j, rest, says, path);
    }
    return s;
}

struct each {
    sl_jschema_fn *fn;
    void *ctx;
    int depth;
};

static void each(struct sl_jschema *j, json_t *s, const char *path,
                 const struct each *to, bool follow);

int sl_jschema_implied(const json_t *s)
{
    static const struct {
        const char *key;
        int type;
    } implied[] = {
        {"properties", 64},
        {"required", 64},
        {"additionalProperties", 64},
        {"patternProperties", 64},
        {"propertyNames", 64},
        {"minProperties", 64},
        {"maxProperties", 64},
        {"items", 32},
        {"contains", 32},
        {"uniqueItems", 32},
        {"minItems", 32},
        {"maxItems", 32},
        {"prefixItems", 32},
        {"additionalItems", 32},
        {"pattern", 16},
        {"format", 16},
        {SL_JMERGE_PATTERNS, 16},
        {"minLength", 16},
        {"maxLength", 16},
        {"multipleOf", 8},
        {SL_JMERGE_NOT, 127 - 4},
        {"minimum", 8},
        {"maximum", 8},
        {"exclusiveMinimum", 8},
        {"exclusiveMaximum", 8},
    };
    int types = 0;

    for (size_t i = 0; i < SL_COUNTOF(implied); i++)
        if (json_object_get(s, implied[i].key) &&
            !is_idle(implied[i].key, json_object_get(s, implied[i].key)))
            types |= implied[i].type;
    return types;
}

/* Each type that a schema without alternatives allows. */
static void each_type(struct sl_jschema *j, json_t *s, const char *path,
                      const struct each *to)
{
    int types = sl_jmerge_types(json_object_get(s, "type"));

    if (types < 0) {
        sl_jtext_refuse(
            j, path, "type",
            "must be null, boolean, integer, number, string, array, object "
            "or an array of these");
        return;
    }
    if (json_object_get(s, "enum") || json_object_get(s, "const") ||
        n_keywords(s, NULL) == 0) {
        to->fn(to->ctx, s, path);
        return;
    }
    if (!json_object_get(s, "type"))
        types = sl_jschema_implied(s);
    for (int i = 0; i < 7 && !j->g->failed; i++) {
        json_t *one;

        if (!(types >> i & 1))
            continue;
        if (!sl_grammar_spend(j->g, json_object_size(s)))
            return;
        one = sl_jtext_keep(j, json_copy(s));
        if (!one || json_object_set_new(one, "type",
                                        json_pack("[s]", sl_jmerge_type[i])))
            sl_grammar_fail(j->g, SL_ENOMEM, "no memory for a schema");
        else
            to->fn(to->ctx, one, path);
    }
}

/* Alternative i of a oneOf, without what is valid under another one. */
static json_t *alone_in(struct sl_jschema *j, json_t *x, const json_t *list,
                        size_t i, const char *path)
{
    for (size_t k = 0; k < json_array_size(list) && x && !j->g->failed; k++) {
        const json_t *other = json_array_get(list, k);
        json_t *no;

        if (k == i || sl_japart(j, x, other))
            continue;
        for (int n = 0; n < MAX_JOIN && json_object_size(other) == 1 &&
                        json_object_get(other, "$ref");
             n++)
            other = sl_jschema_resolve(j, json_object_get(other, "$ref"), path);
        no = sl_jtext_keep(j, sl_jlogic_not(j, other));
        if (!no && !j->g->failed)
            sl_grammar_fail(j->g, SL_EUNSUP,
                            "the schema at %s fits a value that alternative "
                            "%zu of the 'oneOf' may fit, too, and that cannot "
                            "be kept apart here; give them other types, or a "
                            "required member with another const in each, or "
                            "use anyOf",
                            path, k);
        x = joined(j, x, no, path);
    }
    return x;
}

static void each_of(struct sl_jschema *j, json_t *s, const char *key,
                    const char *path, const struct each *to, bool follow)
{
    json_t *list = json_object_get(s, key), *base = NULL;
    bool alone = n_keywords(s, key) == 0;

    if (!json_is_array(list) || json_array_size(list) == 0) {
        sl_jtext_refuse(j, path, key, "must be an array of schemas");
        return;
    }
    if (!alone)
        base = without(j, s, key);
    for (size_t i = 0; i < json_array_size(list) && !j->g->failed; i++) {
        json_t *x = json_array_get(list, i);
        char at[SL_JTEXT_PATH], name[32];

        snprintf(name, sizeof(name), "%s[%zu]", key, i);
        sl_jtext_path(at, path, name);
        if (!alone)
            x = joined(j, base, x, at);
        if (!strcmp(key, "oneOf"))
            x = alone_in(j, x, list, i, at);
        if (x)
            each(j, x, at, to, follow);
    }
}

/* $ref and allOf are replaced by what they say, one at a time. */
static void each(struct sl_jschema *j, json_t *s, const char *path,
                 const struct each *to, bool follow)
{
    struct each next = *to;

    if (j->g->failed || !check_keywords(j, s, path))
        return;
    if (++next.depth > MAX_JOIN) {
        sl_grammar_fail(j->g, SL_EARG,
                        "the schema at %s refers to itself, or joins more than "
                        "%d schemas in each other",
                        path, MAX_JOIN);
        return;
    }
    if (json_is_boolean(s)) {
        if (json_is_true(s))
            to->fn(to->ctx, sl_jtext_keep(j, json_object()), path);
        return;
    }
    if (json_object_get(s, "$ref")) {
        json_t *at;

        if (!follow && n_keywords(s, "$ref") == 0) {
            to->fn(to->ctx, s, path);
            return;
        }
        at = sl_jschema_resolve(j, json_object_get(s, "$ref"), path);
        if (n_keywords(s, "$ref") > 0)
            at = joined(j, without(j, s, "$ref"), at, path);
        if (at)
            each(j, at, path, &next, follow);
        return;
    }
    if (json_object_get(s, "allOf")) {
        json_t *all = json_object_get(s, "allOf");
        json_t *at = without(j, s, "allOf");

        if (!json_is_array(all))
            sl_jtext_refuse(j, path, "allOf", "must be an array of schemas");
        for (size_t i = 0; i < json_array_size(all) && at; i++) {
            json_t *x = json_array_get(all, i);

            /* A reference inside is opened here, so that its keywords meet. */
            for (int k = 0; k < MAX_JOIN && json_object_get(x, "$ref"); k++) {
                json_t *r = sl_jschema_resolve(j, json_object_get(x, "$ref"), path);

                x = n_keywords(x, "$ref") > 0
                        ? joined(j, without(j, x, "$ref"), r, path)
                        : r;
            }
            at = joined(j, at, plain(j, x, path), path);
        }
        if (at)
            each(j, at, path, &next, follow);
        return;
    }
    if (sl_jlogic_has(s)) {
        json_t *at = plain(j, s, path);

        if (at)
            each(j, at, path, &next, follow);
        return;
    }
    if (json_object_get(s, "anyOf"))
        each_of(j, s, "anyOf", path, &next, follow);
    else if (json_object_get(s, "oneOf"))
        each_of(j, s, "oneOf", path, &next, follow);
    else
        each_type(j, s, path, &next);
}

void sl_jschema_each(struct sl_jschema *j, json_t *schema, const char *path,
                     sl_jschema_fn *fn, void *ctx)
{
    struct each to = {.fn = fn, .ctx = ctx};

    each(j, schema, path, &to, true);
}

/* --------------------------------------------------------------------- rules
 */

static uint32_t part_rule(struct sl_jschema *j, json_t *schema,
                          const char *path)
{
    struct sl_jpart *p;

    for (size_t i = 0; i < j->n_part; i++)
        if (j->part[i].schema == schema)
            return j->part[i].rule;
    if (j->n_part == SL_JSCHEMA_MAX_PARTS)
        return sl_grammar_fail(j->g, SL_EARG,
                               "the schema has more than %d parts; make it "
                               "simpler",
                               SL_JSCHEMA_MAX_PARTS);
    if (j->n_part == j->cap_part) {
        size_t cap = j->cap_part ? j->cap_part * 2 : 16;

        if (sl_mem_resize(&j->part, cap, sizeof(*j->part), "a schema", NULL))
            return sl_grammar_fail(j->g, SL_ENOMEM, "no memory for a schema");
        j->cap_part = cap;
    }
    p = &j->part[j->n_part++];
    p->schema = schema;
    snprintf(p->path, sizeof(p->path), "%s", path);
    p->rule = sl_grammar_rule(j->g, p->path, strlen(p->path));
    return p->rule;
}

/* Does the schema say this type and nothing else? */
static bool is_just(const json_t *s, const char *type)
{
    const char *t = json_string_value(json_object_get(s, "type"));

    return t && !strcmp(t, type) && n_keywords(s, NULL) == 1;
}

uint32_t sl_jschema_node(struct sl_jschema *j, json_t *s, const char *path)
{
    if (j->g->failed || !check_keywords(j, s, path))
        return 0;
    if (json_is_true(s) || (json_is_object(s) && n_keywords(s, NULL) == 0))
        return sl_jtext_call(j, SL_JTEXT_VALUE);
    if (is_just(s, "string"))
        return sl_jtext_call(j, SL_JTEXT_STRING);
    if (is_just(s, "integer"))
        return sl_jtext_call(j, SL_JTEXT_INTEGER);
    if (is_just(s, "number"))
        return sl_jtext_call(j, SL_JTEXT_NUMBER);
    if (json_object_get(s, "$ref") && n_keywords(s, NULL) == 1) {
        s = sl_jschema_resolve(j, json_object_get(s, "$ref"), path);
        if (!s || !check_keywords(j, s, path))
            return 0;
    }
    return sl_grammar_call(j->g, part_rule(j, s, path));
}

void sl_jschema_values(struct sl_jschema *j, const json_t *s, const char *path,
                       sl_jschema_value_fn *fn, void *ctx)
{
    const json_t *list = json_object_get(s, "enum"),
                 *one = json_object_get(s, "const");
    size_t n = list ? json_array_size(list) : 1;

    if (list && !json_is_array(list))
        sl_jtext_refuse(j, path, "enum", "must be an array");
    for (size_t i = 0; i < n && !j->g->failed; i++) {
        const json_t *v = list ? json_array_get(list, i) : one;

        if (sl_jmerge_allows(j->g, s, v, path) &&
            sl_jstring_allows(j, s, v, path))
            fn(ctx, v, path);
    }
}

/* null, or true and false, but what it must not be. */
static uint32_t words(struct sl_jschema *j, const json_t *s, bool null)
{
    const json_t *not = json_object_get(s, SL_JMERGE_NOT);
    uint32_t alt = sl_grammar_alt(j->g);
    json_t *word[2] = {null ? json_null() : json_true(), json_false()};

    for (int i = 0; i < (null ? 1 : 2); i++) {
        bool ok = true;

        for (size_t k = 0; k < json_array_size(not ); k++)
            ok &= !json_equal(word[i], json_array_get(not, k));
        if (ok)
            sl_grammar_add(j->g, alt, sl_jtext_value(j, word[i]));
    }
    return alt;
}

/* An array or object that it must not be cannot be left out. */
static bool names_value(const json_t *s, bool array)
{
    const json_t *not = json_object_get(s, SL_JMERGE_NOT);

    for (size_t k = 0; k < json_array_size(not ); k++)
        if (array ? json_is_array(json_array_get(not, k))
                  : json_is_object(json_array_get(not, k)))
            return true;
    return false;
}

static uint32_t typed(struct sl_jschema *j, json_t *s, const char *path)
{
    const char *type =
        json_string_value(json_array_get(json_object_get(s, "type"), 0));

    if (!strcmp(type, "null") || !strcmp(type, "boolean"))
        return words(j, s, *type == 'n');
    if (!strcmp(type, "integer"))
        return sl_jnumber_node(j, s, true, path);
    if (!strcmp(type, "number"))
        return sl_jnumber_node(j, s, false, path);
    if ((!strcmp(type, "array") && names_value(s, true)) ||
        (!strcmp(type, "object") && names_value(s, false)))
        return sl_jtext_refuse(j, path, "not",
                               "of arrays and objects is not supported; leave "
                               "it out");
    if (!strcmp(type, "array"))
        return sl_jarray_node(j, s, path);
    if (!strcmp(type, "object"))
        return sl_jobject_node(j, s, path);
    return sl_jtext_quoted(j, sl_jstring_node(j, s, path, true));
}

/* An alternative of a part. */
struct add {
    struct sl_jschema *j;
    uint32_t alt;
};

static void add_listed(void *ctx, const json_t *v, const char *path)
{
    struct add *a = ctx;

    (void)path;
    sl_grammar_add(a->j->g, a->alt, sl_jtext_value(a->j, v));
}

static void add_alternative(void *ctx, json_t *s, const char *path)
{
    struct add *a = ctx;
    struct sl_jschema *j = a->j;
    uint32_t n;

    if (json_object_get(s, "enum") || json_object_get(s, "const")) {
        sl_jschema_values(j, s, path, add_listed, a);
        return;
    }
    if (n_keywords(s, NULL) == 0 || json_object_get(s, "$ref"))
        n = sl_jschema_node(j, s, path);
    else
        n = typed(j, s, path);
    sl_grammar_add(j->g, a->alt, n);
}

void sl_jschema_finish(struct sl_jschema *j)
{
    for (; j->n_defined < j->n_part && !j->g->failed; j->n_defined++) {
        struct sl_jpart p = j->part[j->n_defined];
        struct add a = {j, sl_grammar_alt(j->g)};
        struct each to = {.fn = add_alternative, .ctx = &a};

        each(j, p.schema, p.path, &to, false);
        sl_grammar_define(j->g, p.rule, a.alt);
    }
}

/* What stands for v when it is a real of a whole value; NULL: itself. */
static json_t *as_integer(const json_t *v)
{
    double x = json_real_value(v);

    if (!json_is_real(v) || !(x > -MAX_WHOLE && x < MAX_WHOLE) ||
        x != (double)(int64_t)x)
        return NULL;
    return json_integer((json_int_t)x);
}

/* 1.0 is 1 in a schema. As deep as it is, which the parser limits. */
static void write_whole(json_t *v)
{
    json_t *x, *n;
    size_t i;

    for (void *it = json_object_iter(v); it;
         it = json_object_iter_next(v, it)) {
        x = json_object_iter_value(it);
        write_whole(x);
        n = as_integer(x);
        if (n)
            json_object_iter_set_new(v, it, n);
    }
    json_array_foreach(v, i, x)
    {
        write_whole(x);
        n = as_integer(x);
        if (n)
            json_array_set_new(v, i, n);
    }
}

int sl_jschema_open(struct sl_jschema **out, struct sl_grammar *g, json_t *root,
                    struct sl_err *err)
{
    struct sl_jschema *j = NULL;
    const json_t *bad;
    int rc;

    write_whole(root);
    bad = find_vague(NULL, root, SCHEMA);
    if (bad)
        return sl_fail(err, SL_EUNSUP, VAGUE, json_real_value(bad));
    rc = sl_mem_alloc(&j, 1, sizeof(*j), "a schema", err);
    if (rc)
        return rc;
    j->g = g;
    j->root = root;
    j->node = sl_jschema_node;
    j->made = json_array();
    if (!j->made)
        rc = sl_fail(err, SL_ENOMEM, "no memory is left for a schema");
    if (rc)
        sl_jschema_close(&j);
    else
        *out = j;
    return rc;
}

void sl_jschema_close(struct sl_jschema **j)
{
    if (!*j)
        return;
    sl_mem_free((*j)->part);
    json_decref((*j)->made);
    sl_mem_free(*j);
    *j = NULL;
}

uint32_t sl_jschema_string(struct sl_jschema *j, json_t *schema,
                           const char *path, bool json)
{
    return sl_jstring_node(j, schema, path, json);
}
