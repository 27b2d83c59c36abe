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
 *
 * With minProperties or maxProperties there is one of each for every number of
 * members that came before. Which key another member may have is a set of texts
 * (dfa.h), where patternProperties or propertyNames say something of it: one
 * for each group of patterns that a key can match.
 */
#include "sample/jobject.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "sample/dfa.h"
#include "sample/jstring.h"

#define MAX_PATTERNS 3     /* keys have 2^3 kinds then; chosen */
#define MAX_REST 4096      /* rules of the chain; chosen */
#define MAX_KEY_CHARS 8192 /* of names that other members must not have */

struct member {
    const char *name;
    json_t *schema;
    uint32_t rule;
    bool required;
    bool described; /* in properties */
};

/* Keys of one kind, and what they hold. */
struct kind {
    struct sl_dfa key;
    json_t *schema;
};

/* Members of an object, in order, and what is said of others. */
struct members {
    struct member *p; /* [n] */
    size_t n;
    json_t *others;                      /* NULL: there are none */
    struct kind kind[1 << MAX_PATTERNS]; /* instead of others */
    size_t n_kind;
    uint32_t lo, hi; /* members at all */
};

static bool open_members(struct sl_jschema *j, struct members *m,
                         const json_t *s, const char *path)
{
    const json_t *props = json_object_get(s, "properties");
    const json_t *need = json_object_get(s, "required");
    size_t n = json_object_size(props) + json_array_size(need);

    *m = (struct members){
        .lo = sl_jtext_count(j, s, "minProperties", 0, path),
        .hi = sl_jtext_count(j, s, "maxProperties", SL_GRAMMAR_MANY, path)};
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

/* ---- keys by pattern */

/* All keys that propertyNames allows. */
static bool allowed_keys(struct sl_jschema *j, struct sl_dfa *out,
                         const json_t *s, const char *path)
{
    static const char *const known[] = {"type", "pattern", "minLength",
                                        "maxLength", "format"};
    const char *key;
    json_t *v;

    if (json_is_false(s))
        return sl_dfa_names(out, j->g, NULL, 0);
    if (s && !json_is_object(s)) {
        sl_jtext_refuse(j, path, "propertyNames", "must be a schema");
        return false;
    }
    json_object_foreach((json_t *)(uintptr_t)s, key, v)
    {
        size_t i = 0;

        while (i < SL_COUNTOF(known) && strcmp(key, known[i]))
            i++;
        if (i == SL_COUNTOF(known) ||
            (i == 0 && (!json_is_string(v) ||
                        strcmp(json_string_value(v), "string") != 0))) {
            sl_jtext_refuse(j, path, "propertyNames",
                            "is supported with pattern, minLength, maxLength "
                            "and format in it; write it with these");
            return false;
        }
    }
    return sl_jstring_language(j, out, s, path);
}

/* What the schemas in list[n] whose bit is set say together. */
static json_t *all_of(struct sl_jschema *j, json_t *const *list, size_t n,
                      unsigned bits, json_t *first)
{
    json_t *all = json_array();

    if (first)
        json_array_append(all, first);
    for (size_t i = 0; i < n; i++)
        if (bits >> i & 1)
            json_array_append(all, list[i]);
    return sl_jtext_keep(j, json_pack("{s:o}", "allOf", all));
}

struct patterns {
    struct sl_dfa key[MAX_PATTERNS];
    json_t *schema[MAX_PATTERNS];
    size_t n;
};

static void read_patterns(struct sl_jschema *j, struct patterns *x,
                          const json_t *list, const char *path)
{
    const char *key;
    json_t *v;

    if (list && !json_is_object(list))
        sl_jtext_refuse(j, path, "patternProperties", "must be an object");
    json_object_foreach((json_t *)(uintptr_t)list, key, v)
    {
        if (x->n == MAX_PATTERNS)
            sl_jtext_refuse(j, path, "patternProperties",
                            "has more than 3 patterns, which is not supported");
        if (j->g->failed ||
            !sl_dfa_regex(&x->key[x->n], j->g, key, strlen(key), SL_REGEX_FIND))
            return;
        x->schema[x->n++] = v;
    }
}

/* Members with a name: what patterns say of it comes in. */
static void name_patterns(struct sl_jschema *j, struct members *m,
                          const struct patterns *x,
                          const struct sl_dfa *allowed)
{
    for (size_t i = 0; i < m->n && !j->g->failed; i++) {
        const char *name = m->p[i].name;
        unsigned bits = 0;

        for (size_t k = 0; k < x->n; k++)
            if (sl_dfa_has(&x->key[k], name, strlen(name)))
                bits |= 1u << k;
        if (!sl_dfa_has(allowed, name, strlen(name)))
            m->p[i].schema = json_false();
        else if (bits)
            m->p[i].schema = all_of(j, x->schema, x->n, bits,
                                    m->p[i].described ? m->p[i].schema : NULL);
    }
}

/* Keys that match just the patterns whose bit is set. */
static void add_kind(struct sl_jschema *j, struct members *m,
                     const struct patterns *x, const struct sl_dfa *allowed,
                     unsigned bits, json_t *schema)
{
    struct sl_dfa d, next, names = {0};
    const char **name = NULL;

    if (sl_mem_alloc(&name, m->n + 1, sizeof(*name), "a schema", NULL)) {
        sl_grammar_fail(j->g, SL_ENOMEM, "no memory for a schema");
        return;
    }
    for (size_t i = 0; i < m->n; i++)
        name[i] = m->p[i].name;
    if (sl_dfa_names(&names, j->g, name, m->n))
        (void)sl_dfa_join(&d, j->g, allowed, &names, SL_DFA_AND_NOT);
    for (size_t k = 0; k < x->n && !j->g->failed; k++) {
        (void)sl_dfa_join(&next, j->g, &d, &x->key[k],
                          bits >> k & 1 ? SL_DFA_AND : SL_DFA_AND_NOT);
        sl_dfa_close(&d);
        d = next;
    }
    sl_mem_free(name);
    sl_dfa_close(&names);
    if (j->g->failed)
        return;
    if (sl_dfa_is_empty(j->g, &d)) {
        sl_dfa_close(&d);
        return;
    }
    m->kind[m->n_kind++] = (struct kind){d, schema};
}

static void read_kinds(struct sl_jschema *j, struct members *m, const json_t *s,
                       const char *path)
{
    json_t *more = json_object_get(s, "additionalProperties");
    const json_t *names = json_object_get(s, "propertyNames");
    const json_t *list = json_object_get(s, "patternProperties");
    struct sl_dfa allowed = {0};
    struct patterns x = {0};

    if (json_is_true(names))
        names = NULL;
    read_patterns(j, &x, list, path);
    if (j->g->failed || !allowed_keys(j, &allowed, names, path))
        goto out;
    name_patterns(j, m, &x, &allowed);
    for (unsigned bits = 1; bits < 1u << x.n; bits++)
        add_kind(j, m, &x, &allowed, bits,
                 all_of(j, x.schema, x.n, bits, NULL));
    if (!json_is_false(more) && (more || (!list && m->n == 0)))
        add_kind(j, m, &x, &allowed, 0, more ? more : json_true());
out:
    for (size_t i = 0; i < x.n; i++)
        sl_dfa_close(&x.key[i]);
    sl_dfa_close(&allowed);
}

static void read_members(struct sl_jschema *j, struct members *m,
                         const json_t *s, const char *path)
{
    json_t *props = json_object_get(s, "properties"), *v;
    json_t *need = json_object_get(s, "required");
    json_t *more = json_object_get(s, "additionalProperties");
    json_t *place = json_object(); /* of names */
    const char *key;

    if (open_members(j, m, s, path)) {
        json_object_foreach(props, key, v)
        {
            json_object_set_new(place, key, json_integer((json_int_t)m->n));
            m->p[m->n++] =
                (struct member){.name = key, .schema = v, .described = true};
        }
        read_required(j, m, need, place, more, path);
        if (json_object_get(s, "patternProperties") ||
            json_object_get(s, "propertyNames"))
            read_kinds(j, m, s, path);
        else if (!json_is_false(more) && (more || m->n == 0))
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
    uint32_t alt;

    if (m->n_kind > 0) {
        sl_jtext_path(at, path, "patternProperties");
        alt = sl_grammar_alt(j->g);
        for (size_t i = 0; i < m->n_kind; i++)
            sl_grammar_add(
                j->g, alt,
                sl_jtext_seq(
                    j,
                    sl_jtext_quoted(
                        j, sl_dfa_node(j->g, &m->kind[i].key, SL_REGEX_JSON)),
                    sl_jtext_seq(j, sl_jtext_colon(j),
                                 j->node(j, m->kind[i].schema, at))));
        sl_grammar_define(j->g, r, alt);
        return r;
    }
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

/* The rules rest_i, for c members so far: rest[i * (top + 1) + c]; from `top`
 * on they are not counted further. */
struct chain {
    uint32_t *rest;
    size_t top;
    uint32_t other;
    bool has_other;
};

static uint32_t *rest_of(const struct chain *x, size_t i, size_t c)
{
    return &x->rest[i * (x->top + 1) + sl_min(c, x->top)];
}

/* May there be one more behind c? */
static bool has_room(const struct members *m, size_t c)
{
    return m->hi == SL_GRAMMAR_MANY || c < m->hi;
}

static uint32_t rest_node(struct sl_jschema *j, const struct members *m,
                          const struct chain *x, size_t i, size_t c)
{
    struct sl_grammar *g = j->g;
    uint32_t lo = m->lo > c ? m->lo - (uint32_t)c : 0, alt;

    if (i == m->n) {
        if (x->has_other)
            return sl_grammar_repeat(
                g, comma(j, x->other), lo,
                m->hi == SL_GRAMMAR_MANY ? m->hi : m->hi - (uint32_t)c);
        return lo > 0 ? sl_grammar_alt(g) : sl_grammar_seq(g);
    }
    alt = sl_grammar_alt(g);
    if (has_room(m, c))
        sl_grammar_add(
            g, alt,
            sl_jtext_seq(j, comma(j, m->p[i].rule),
                         sl_grammar_call(g, *rest_of(x, i + 1, c + 1))));
    if (!m->p[i].required)
        sl_grammar_add(g, alt, sl_grammar_call(g, *rest_of(x, i + 1, c)));
    return alt;
}

static void rest_rules(struct sl_jschema *j, const struct members *m,
                       const struct chain *x)
{
    for (size_t i = m->n + 1; i-- > 0;) {
        for (size_t c = 0; c <= sl_min(i == m->n ? m->n + 1 : i, x->top); c++) {
            uint32_t r = sl_grammar_rule(j->g, "members", 7);

            *rest_of(x, i, c) = r;
            sl_grammar_define(j->g, r, rest_node(j, m, x, i, c));
            if (j->g->failed)
                return;
        }
    }
}

/* What stands between the braces, and whether that may be nothing. */
static uint32_t first_node(struct sl_jschema *j, const struct members *m,
                           const struct chain *x, bool *empty)
{
    struct sl_grammar *g = j->g;
    uint32_t alt = sl_grammar_alt(g);
    size_t i;

    for (i = 0; i < m->n && !g->failed && has_room(m, 0); i++) {
        sl_grammar_add(g, alt,
                       sl_jtext_seq(j, sl_grammar_call(g, m->p[i].rule),
                                    sl_grammar_call(g, *rest_of(x, i + 1, 1))));
        if (m->p[i].required)
            break;
    }
    if (i == m->n && x->has_other && has_room(m, 0))
        sl_grammar_add(g, alt,
                       sl_jtext_seq(j, sl_grammar_call(g, x->other),
                                    sl_grammar_call(g, *rest_of(x, m->n, 1))));
    *empty = m->lo == 0;
    for (i = 0; i < m->n; i++)
        *empty &= !m->p[i].required;
    return alt;
}

static uint32_t members_node(struct sl_jschema *j, struct members *m,
                             const char *path)
{
    struct chain x = {.top = m->hi == SL_GRAMMAR_MANY ? m->lo : m->hi};
    struct sl_grammar *g = j->g;
    uint32_t alt, sure = 0;
    bool empty;

    if (m->hi < m->lo)
        return sl_grammar_alt(g);
    x.has_other = m->others || m->n_kind > 0;
    for (size_t i = 0; i < m->n; i++)
        sure += m->p[i].required;
    /* A name of the model's own choice may come twice, and is one member then. */
    if (x.has_other && m->lo > sure + 1)
        return sl_jtext_refuse(j, path, "minProperties",
                               "asks for several members that are not listed, "
                               "whose names may repeat; list them as required, "
                               "or lower it");
    x.top = sl_min(x.top, m->n + 1); /* what is behind is counted by itself */
    if (x.top > 0 && (m->n + 1) * (x.top + 1) > MAX_REST)
        return sl_jtext_refuse(j, path,
                               m->hi == SL_GRAMMAR_MANY ? "minProperties"
                                                        : "maxProperties",
                               "is too large for so many properties; lower it "
                               "or leave it out");
    if (sl_mem_alloc(&x.rest, (m->n + 1) * (x.top + 1), sizeof(*x.rest),
                     "a schema", NULL))
        return sl_grammar_fail(g, SL_ENOMEM, "no memory for a schema");
    for (size_t i = 0; i < m->n && !g->failed; i++)
        m->p[i].rule = member_rule(j, m->p[i].name, m->p[i].schema, path);
    if (x.has_other)
        x.other = other_rule(j, m, path);
    rest_rules(j, m, &x);
    alt = first_node(j, m, &x, &empty);
    sl_mem_free(x.rest);
    alt = sl_jtext_enclosed(j, "{", alt, "}");
    return empty ? sl_jtext_maybe_empty(j, "{}", alt) : alt;
}

uint32_t sl_jobject_node(struct sl_jschema *j, const json_t *s,
                         const char *path)
{
    struct members m;
    uint32_t n = 0;

    read_members(j, &m, s, path);
    if (!j->g->failed)
        n = members_node(j, &m, path);
    for (size_t i = 0; i < m.n_kind; i++)
        sl_dfa_close(&m.kind[i].key);
    sl_mem_free(m.p);
    return n;
}
