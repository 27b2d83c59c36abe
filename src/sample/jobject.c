/* sample/jobject.c - objects of a JSON schema
 *
 * Members in the order of the schema are a chain of rules, each calling the
 * next one in its last place:
 *
 *     first  = member_0 rest_1 | member_1 rest_2 | ...
 *                                   up to the first that is required
 *     rest_i = "," member_i rest_i+1 | rest_i+1
 *                                   the second if member_i may be left out
 *     rest_n = { "," other }
 */
#include "sample/jobject.h"

#include "base/mem.h"
#include "base/utf8.h"

#define MAX_KEY_CHARS 8192 /* of names that other members must not have */

struct member {
    const char *name;
    json_t *schema;
    uint32_t rule;
    bool required;
};

/* Members of an object, in order, and what is said of others. */
struct members {
    struct member *p; /* [n] */
    size_t n;
    json_t *others; /* NULL: there are none */
};

static bool open_members(struct sl_jschema *j, struct members *m,
                         const json_t *props, const json_t *need,
                         const char *path)
{
    size_t n = json_object_size(props) + json_array_size(need);

    *m = (struct members){0};
    if ((props && !json_is_object(props)) || (need && !json_is_array(need)))
        sl_jtext_refuse(j, path,
                        props && !json_is_object(props) ? "properties"
                                                        : "required",
                        "has the wrong type");
    else if (n > SL_JOBJECT_MAX_NAMES)
        sl_jtext_refuse(j, path, "properties",
                        "has more than 4096 names, which is not supported");
    else if (sl_mem_alloc(&m->p, n, sizeof(*m->p), "a schema", NULL))
        sl_grammar_fail(j->g, SL_ENOMEM, "no memory for a schema");
    return !j->g->failed;
}

static void read_required(struct sl_jschema *j, struct members *m,
                          const json_t *need, json_t *place, json_t *more,
                          const char *path)
{
    for (size_t i = 0; i < json_array_size(need); i++) {
        const char *name = json_string_value(json_array_get(need, i));
        json_t *at = name ? json_object_get(place, name) : NULL;

        if (!name) {
            sl_jtext_refuse(j, path, "required", "must be an array of names");
            return;
        }
        if (!at) {
            at = json_integer((json_int_t)m->n);
            json_object_set_new(place, name, at);
            m->p[m->n++] = (struct member){.name = name,
                                           .schema = more ? more : json_true()};
        }
        if (at)
            m->p[json_integer_value(at)].required = true;
    }
}

static void read_members(struct sl_jschema *j, struct members *m,
                         const json_t *s, const char *path)
{
    json_t *props = json_object_get(s, "properties"), *v;
    json_t *need = json_object_get(s, "required");
    json_t *more = json_object_get(s, "additionalProperties");
    json_t *place = json_object(); /* of names */
    const char *key;

    if (open_members(j, m, props, need, path)) {
        json_object_foreach(props, key, v)
        {
            json_object_set_new(place, key, json_integer((json_int_t)m->n));
            m->p[m->n++] = (struct member){.name = key, .schema = v};
        }
        read_required(j, m, need, place, more, path);
        if (!json_is_false(more) && (more || m->n == 0))
            m->others = more ? more : json_true();
    }
    json_decref(place);
}

/* One member as a rule: "name": value. */
static uint32_t member_rule(struct sl_jschema *j, const char *name,
                            json_t *schema, const char *path)
{
    uint32_t r = sl_grammar_rule(j->g, name, strlen(name)), key;
    json_t *text = json_string(name);
    char at[SL_JTEXT_PATH];

    sl_jtext_path(at, path, name);
    key = sl_jtext_value(j, text);
    json_decref(text);
    sl_grammar_define(j->g, r,
                      sl_jtext_seq(j, key,
                                   sl_jtext_seq(j, sl_jtext_colon(j),
                                                j->node(j, schema, at))));
    return r;
}

/* Names that other members must not have, by their characters: a rule for each
 * beginning of one. Reads the rest of a key, to its quote. */
struct key_tree {
    const char **name; /* sorted */
    uint32_t n_rule;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const struct sl_range plain_key[] = {
    {0x20, 0x21}, {0x23, 0x5b}, {0x5d, SL_GRAMMAR_MAX_CODE}};

/* Everything that is plain but the characters in `not`. */
static uint32_t plain_but(struct sl_jschema *j, struct sl_range * not, size_t n)
{
    struct sl_range *all = NULL;
    uint32_t out = 0;

    not [n++] = (struct sl_range){0, 0x1f};
    not [n++] = (struct sl_range){'"', '"'};
    not [n++] = (struct sl_range){'\\', '\\'};
    if (sl_mem_alloc(&all, n + 1, sizeof(*all), "a schema", NULL))
        return sl_grammar_fail(j->g, SL_ENOMEM, "no memory for a schema");
    n = sl_ranges_join(not, n);
    out = sl_grammar_set(j->g, all, sl_ranges_invert(all, not, n));
    sl_mem_free(all);
    return out;
}

/* The rest of a key that is none of names[lo .. hi), which agree in their first
 * `at` bytes. As deep as a name is long. */
static uint32_t rest_of_key(struct sl_jschema *j, struct key_tree *t,
                            uint32_t lo, uint32_t hi, size_t at, int depth)
{
    uint32_t r, alt;
    struct sl_range *not = NULL;
    size_t n = 0;

    if (depth > 100 || ++t->n_rule > MAX_KEY_CHARS)
        return sl_jtext_refuse(
            j, "an object", "additionalProperties",
            "beside long names of properties is not supported");
    r = sl_grammar_rule(j->g, "key", 3);
    alt = sl_grammar_alt(j->g);
    if (sl_mem_alloc(&not, (size_t)(hi - lo) + 4, sizeof(*not ), "a schema",
                     NULL))
        return sl_grammar_fail(j->g, SL_ENOMEM, "no memory for a schema");
    if (lo < hi && !t->name[lo][at])
        lo++; /* this name itself: it may not end here */
    else
        sl_grammar_add(j->g, alt, sl_jtext_lit(j, "\""));
    while (lo < hi && !j->g->failed) {
        const char *s = t->name[lo] + at;
        uint32_t cp, end = lo + 1, next;
        size_t len = sl_utf8_get(&cp, s, strlen(s));

        while (end < hi && !memcmp(t->name[end] + at, s, len))
            end++;
        not [n++] = (struct sl_range){cp, cp};
        next = rest_of_key(j, t, lo, end, at + len, depth + 1);
        if (cp >= 0x20 && cp != '"' && cp != '\\')
            sl_grammar_add(j->g, alt,
                           sl_jtext_seq(j, sl_grammar_bytes(j->g, s, len),
                                        sl_grammar_call(j->g, next)));
        lo = end;
    }
    sl_grammar_add(
        j->g, alt,
        sl_jtext_seq(j, plain_but(j, not, n),
                     sl_jtext_seq(j,
                                  sl_grammar_repeat(
                                      j->g, sl_grammar_set(j->g, plain_key, 3),
                                      0, SL_GRAMMAR_MANY),
                                  sl_jtext_lit(j, "\""))));
    sl_mem_free(not );
    sl_grammar_define(j->g, r, alt);
    return r;
}

/* The key of a member that is not described; without escapes, so that it can
 * be told from those that are. */
static uint32_t other_key(struct sl_jschema *j, const struct members *m)
{
    struct key_tree t = {0};
    uint32_t r;

    if (m->n == 0)
        return sl_jtext_call(j, SL_JTEXT_STRING);
    if (sl_mem_alloc(&t.name, m->n, sizeof(*t.name), "a schema", NULL))
        return sl_grammar_fail(j->g, SL_ENOMEM, "no memory for a schema");
    for (size_t i = 0; i < m->n; i++)
        t.name[i] = m->p[i].name;
    qsort(t.name, m->n, sizeof(*t.name), by_name);
    r = rest_of_key(j, &t, 0, (uint32_t)m->n, 0, 0);
    sl_mem_free(t.name);
    return sl_jtext_seq(j, sl_jtext_lit(j, "\""), sl_grammar_call(j->g, r));
}

static uint32_t other_rule(struct sl_jschema *j, const struct members *m,
                           const char *path)
{
    uint32_t r = sl_grammar_rule(j->g, "other", 5);
    char at[SL_JTEXT_PATH];

    sl_jtext_path(at, path, "additionalProperties");
    sl_grammar_define(j->g, r,
                      sl_jtext_seq(j, other_key(j, m),
                                   sl_jtext_seq(j, sl_jtext_colon(j),
                                                j->node(j, m->others, at))));
    return r;
}

static uint32_t comma(struct sl_jschema *j, uint32_t rule)
{
    return sl_jtext_seq(j, sl_jtext_lit(j, ","),
                        sl_jtext_seq(j, sl_jtext_call(j, SL_JTEXT_WS),
                                     sl_grammar_call(j->g, rule)));
}

/* rest_i for all i, see above; rest[n] is what follows all members. */
static void rest_rules(struct sl_jschema *j, const struct members *m,
                       uint32_t *rest, uint32_t other)
{
    struct sl_grammar *g = j->g;

    for (size_t i = m->n + 1; i-- > 0;) {
        uint32_t x;

        rest[i] = sl_grammar_rule(g, "members", 7);
        if (i == m->n) {
            x = m->others
                    ? sl_grammar_repeat(g, comma(j, other), 0, SL_GRAMMAR_MANY)
                    : sl_grammar_seq(g);
        } else {
            x = comma(j, m->p[i].rule);
            if (!m->p[i].required)
                x = sl_jtext_optional(j, x);
            x = sl_jtext_seq(j, x, sl_grammar_call(g, rest[i + 1]));
        }
        sl_grammar_define(g, rest[i], x);
        if (g->failed)
            return;
    }
}

static uint32_t members_node(struct sl_jschema *j, struct members *m,
                             const char *path)
{
    struct sl_grammar *g = j->g;
    uint32_t alt = sl_grammar_alt(g), other = 0, *rest = NULL;
    size_t i;

    if (sl_mem_alloc(&rest, m->n + 1, sizeof(*rest), "a schema", NULL))
        return sl_grammar_fail(g, SL_ENOMEM, "no memory for a schema");
    for (i = 0; i < m->n && !g->failed; i++)
        m->p[i].rule = member_rule(j, m->p[i].name, m->p[i].schema, path);
    if (m->others)
        other = other_rule(j, m, path);
    rest_rules(j, m, rest, other);
    for (i = 0; i < m->n && !g->failed; i++) {
        sl_grammar_add(g, alt,
                       sl_jtext_seq(j, sl_grammar_call(g, m->p[i].rule),
                                    sl_grammar_call(g, rest[i + 1])));
        if (m->p[i].required)
            break;
    }
    if (i == m->n && m->others)
        sl_grammar_add(g, alt,
                       sl_jtext_seq(j, sl_grammar_call(g, other),
                                    sl_grammar_call(g, rest[m->n])));
    sl_mem_free(rest);
    alt = sl_jtext_enclosed(j, "{", alt, "}");
    return i == m->n ? sl_jtext_maybe_empty(j, "{}", alt) : alt;
}

uint32_t sl_jobject_node(struct sl_jschema *j, const json_t *s,
                         const char *path)
{
    struct members m;
    uint32_t n = 0;

    read_members(j, &m, s, path);
    if (!j->g->failed)
        n = members_node(j, &m, path);
    sl_mem_free(m.p);
    return n;
}
