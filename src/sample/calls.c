/* sample/calls.c - calls of tools, in the model's own markup, as a grammar
 *
 *     call      = <tool_call> "\n<function=" NAME ">\n" { parameter }
 *                 "</function>\n" </tool_call>
 *     parameter = "<parameter=" KEY ">\n" value "\n</parameter>\n"
 *
 * A value of type string is raw text, and the parser (text/parse.h) ends it at
 * markup. So a text must not hold what could be taken for markup; the rules of
 * free_text() follow the letters behind each "<" and leave out the one that
 * would complete a tag. The end of the value is part of these rules: a rule
 * that could end anywhere would have to be looked behind from everywhere
 * (shape.c).
 *
 * What the markup cannot hold is refused: names with its letters in them,
 * listed texts that hold a tag, and, since a call only has the parameters that
 * its tool describes, keywords about others and about all together.
 *
 * Parameters may come in any order, since the order of the schema is not that
 * of the model: the rules are numbered by the set of parameters that were
 * given. That doubles with each, so above ANY_ORDER the schema's order holds.
 */
#include "sample/calls.h"

#include "base/mem.h"
#include "sample/jmerge.h"
#include "sample/jschema.h"
#include "sample/jstring.h"

#define ANY_ORDER 6        /* parameters: 64 rules; chosen */
#define ANY_ORDER_TOOLS 64 /* with more tools the order is the schema's */
#define MAX_PARAMS 1024    /* of one tool */
#define MAX_NAME 256       /* bytes that are read back: text/parse.h */

static const char value_end[] = "\n</parameter>\n";

struct job {
    struct sl_grammar *g;
    const struct sl_calls *c;
    uint32_t text; /* rule and one: free text and the end of a value */
};

/* One tool. */
struct tool {
    const char *name;
    json_t *schema; /* of its parameters, or NULL */
    struct sl_jschema *j;
    bool strict;
};

/* --------------------------------------------------------------- small nodes */

static uint32_t lit(struct job *j, const char *s)
{
    return sl_grammar_bytes(j->g, s, strlen(s));
}

static uint32_t seq(struct job *j, uint32_t a, uint32_t b)
{
    uint32_t s = sl_grammar_seq(j->g);

    sl_grammar_add(j->g, s, a);
    sl_grammar_add(j->g, s, b);
    return s;
}

static uint32_t tag(struct job *j, int32_t id, const char *spelled)
{
    return id >= 0 ? sl_grammar_token(j->g, id) : lit(j, spelled);
}

static uint32_t any_text(struct job *j)
{
    static const struct sl_range all = {0, SL_GRAMMAR_MAX_CODE};

    return sl_grammar_repeat(j->g, sl_grammar_set(j->g, &all, 1), 0,
                             SL_GRAMMAR_MANY);
}

/* ----------------------------------------------------------------- free text */

/* The rules of free text: nothing special, behind "<", behind "</". */
struct text {
    uint32_t plain, open, close;
};

/* A rule's alternative: a character of the set, then another rule. */
static void go(struct job *j, uint32_t alt, const struct sl_range *r, size_t n,
               uint32_t to)
{
    sl_grammar_add(j->g, alt,
                   seq(j, sl_grammar_set(j->g, r, n),
                       sl_grammar_call(j->g, to)));
}

/* What all rules have: the end, a new "<", and every character but those in
 * `but`, after which nothing special is going on. */
static uint32_t common(struct job *j, const struct text *t, const char *but)
{
    struct sl_range no[16], rest[17];
    static const struct sl_range less = {'<', '<'};
    uint32_t alt = sl_grammar_alt(j->g);
    size_t n = 0;

    no[n++] = less;
    for (; *but; but++)
        no[n++] = (struct sl_range){(unsigned char)*but, (unsigned char)*but};
    n = sl_ranges_join(no, n);
    sl_grammar_add(j->g, alt, lit(j, value_end));
    go(j, alt, &less, 1, t->open);
    n = sl_ranges_invert(rest, no, n);
    go(j, alt, rest, n, t->plain);
    return alt;
}

static const struct sl_range blanks[] = {{'\t', '\n'}, {'\r', '\r'},
                                         {' ', ' '}};

/* The rule behind the first letter of a word, which must not be followed by
 * `last`. */
static uint32_t word(struct job *j, const struct text *t, const char *w,
                     char last)
{
    size_t n = strlen(w);
    uint32_t r = sl_grammar_rule(j->g, w, n), alt;
    char but[6] = {last, '\t', '\n', '\r', ' ', 0};

    alt = common(j, t, but);
    go(j, alt, blanks, 3, r);
    sl_grammar_define(j->g, r, alt);
    while (n > 1) {
        char letter[2] = {w[--n], 0};
        uint32_t before = sl_grammar_rule(j->g, w, n);
        struct sl_range x = {(unsigned char)w[n], (unsigned char)w[n]};

        alt = common(j, t, letter);
        go(j, alt, &x, 1, r);
        sl_grammar_define(j->g, before, alt);
        r = before;
    }
    return r;
}

static void behind_less(struct job *j, const struct text *t, uint32_t rule,
                        bool close)
{
    static const char *const w[3] = {"parameter", "function", "tool_call"};
    uint32_t alt = common(j, t, close ? "\t\n\r pft" : "\t\n\r pft/");

    go(j, alt, blanks, 3, rule);
    if (!close)
        go(j, alt, &(struct sl_range){'/', '/'}, 1, t->close);
    for (int i = 0; i < 3; i++) {
        struct sl_range first = {(unsigned char)*w[i], (unsigned char)*w[i]};

        go(j, alt, &first, 1,
           word(j, t, w[i], close || i == 2 ? '>' : '='));
    }
    sl_grammar_define(j->g, rule, alt);
}

/* Text and the end of its parameter. */
static uint32_t free_text(struct job *j)
{
    struct text t;

    if (!j->text) {
        t.plain = sl_grammar_rule(j->g, "text", 4);
        t.open = sl_grammar_rule(j->g, "text<", 5);
        t.close = sl_grammar_rule(j->g, "text</", 6);
        sl_grammar_define(j->g, t.plain, common(j, &t, ""));
        behind_less(j, &t, t.open, false);
        behind_less(j, &t, t.close, true);
        j->text = t.plain + 1;
    }
    return sl_grammar_call(j->g, j->text - 1);
}

/* -------------------------------------------------------------------- values */

struct value {
    struct job *j;
    struct tool *tool;
    uint32_t alt;
};

/* A value that is listed. */
static void add_value(void *ctx, const json_t *x, const char *path)
{
    struct value *v = ctx;
    struct job *j = v->j;
    uint32_t n;

    if (!json_is_string(x)) {
        n = sl_jtext_markup_value(v->tool->j, x);
    } else if (sl_jstring_is_raw(v->tool->j, x)) {
        n = lit(j, json_string_value(x));
    } else {
        sl_grammar_fail(j->g, SL_EUNSUP,
                        "%s: the value '%.100s' holds a tag of the markup of "
                        "calls, which would end it; leave it out",
                        path, json_string_value(x));
        return;
    }
    sl_grammar_add(j->g, v->alt, seq(j, n, lit(j, value_end)));
}

static bool is_free(const json_t *s)
{
    static const char *const says[] = {"pattern",     "format",
                                       "minLength",   "maxLength",
                                       SL_JMERGE_NOT, SL_JMERGE_PATTERNS};

    for (size_t i = 0; i < SL_COUNTOF(says); i++)
        if (json_object_get(s, says[i]))
            return false;
    return true;
}

/* One alternative of a parameter's schema. */
static void on_value(void *ctx, json_t *s, const char *path)
{
    struct value *v = ctx;
    struct job *j = v->j;
    json_t *type = json_array_get(json_object_get(s, "type"), 0);
    uint32_t n;

    if (json_object_get(s, "enum") || json_object_get(s, "const")) {
        sl_jschema_values(v->tool->j, s, path, add_value, v);
        return;
    }
    if (!type) {
        n = free_text(j); /* nothing is known: a text */
    } else if (strcmp(json_string_value(type), "string")) {
        n = seq(j, sl_jschema_node(v->tool->j, s, path), lit(j, value_end));
    } else if (is_free(s)) {
        n = free_text(j);
    } else {
        n = seq(j, sl_jschema_string(v->tool->j, s, path, false),
                lit(j, value_end));
    }
    sl_grammar_add(j->g, v->alt, n);
}

/* Would the parser read this name back? */
static bool holds_name(const char *s)
{
    size_t n = strlen(s);

    return n > 0 && n <= MAX_NAME && !strpbrk(s, "<>\n") &&
           !strchr(" \t\r", s[0]) && !strchr(" \t\r", s[n - 1]);
}

/* A parameter as a rule. */
static uint32_t parameter(struct job *j, struct tool *t, const char *key,
                          json_t *schema)
{
    uint32_t r = sl_grammar_rule(j->g, key, strlen(key)), s;
    struct value v = {j, t, sl_grammar_alt(j->g)};
    char path[120];

    if (!holds_name(key))
        return sl_grammar_fail(j->g, SL_EARG,
                               "the tool '%.100s' has a parameter '%.100s', "
                               "whose name the model's markup cannot hold; "
                               "rename it",
                               t->name, key);
    snprintf(path, sizeof(path), "tool %.40s, %.40s", t->name, key);
    s = sl_grammar_seq(j->g);
    sl_grammar_add(j->g, s, lit(j, "<parameter="));
    sl_grammar_add(j->g, s, lit(j, key));
    sl_grammar_add(j->g, s, lit(j, ">\n"));
    sl_jschema_each(t->j, schema, path, on_value, &v);
    sl_grammar_add(j->g, s, v.alt);
    sl_grammar_define(j->g, r, s);
    return r;
}

/* ---------------------------------------------------------------- parameters */

struct params {
    uint32_t rule[MAX_PARAMS];
    bool required[MAX_PARAMS];
    uint32_t n;
};

static bool is_required(const json_t *schema, const char *key)
{
    json_t *need = json_object_get(schema, "required");

    for (size_t i = 0; i < json_array_size(need); i++) {
        const char *s = json_string_value(json_array_get(need, i));

        if (s && !strcmp(s, key))
            return true;
    }
    return false;
}

static void read_params(struct job *j, struct tool *t, const json_t *schema,
                        struct params *p)
{
    json_t *props = json_object_get(schema, "properties"), *v;
    json_t *need = json_object_get(schema, "required");
    const char *key;

    if (json_object_size(props) > MAX_PARAMS) {
        sl_grammar_fail(j->g, SL_EUNSUP,
                        "the tool '%.100s' has more than %d parameters", t->name,
                        MAX_PARAMS);
        return;
    }
    json_object_foreach(props, key, v)
    {
        p->rule[p->n] = parameter(j, t, key, v);
        p->required[p->n++] = is_required(schema, key);
    }
    for (size_t i = 0; i < json_array_size(need); i++) {
        const char *s = json_string_value(json_array_get(need, i));

        if (!s || !json_object_get(props, s))
            sl_grammar_fail(j->g, SL_EARG,
                            "the tool '%.100s' requires the parameter '%.100s' "
                            "and does not describe it",
                            t->name, s ? s : "");
    }
}

/* One rule for each set of parameters that were given; set 0 is returned. */
static uint32_t any_order(struct job *j, const struct params *p)
{
    uint32_t first = 0, all = 1u << p->n;

    for (uint32_t set = 0; set < all; set++) {
        uint32_t r = sl_grammar_rule(j->g, "parameters", 10);

        first = set ? first : r;
    }
    for (uint32_t set = 0; set < all && !j->g->failed; set++) {
        uint32_t alt = sl_grammar_alt(j->g);
        bool whole = true;

        for (uint32_t i = 0; i < p->n; i++) {
            if (set >> i & 1)
                continue;
            whole &= !p->required[i];
            sl_grammar_add(j->g, alt,
                           seq(j, sl_grammar_call(j->g, p->rule[i]),
                               sl_grammar_call(j->g, first + (set | 1u << i))));
        }
        if (whole)
            sl_grammar_add(j->g, alt, sl_grammar_seq(j->g));
        sl_grammar_define(j->g, first + set, alt);
    }
    return sl_grammar_call(j->g, first);
}

static uint32_t schema_order(struct job *j, const struct params *p)
{
    uint32_t s = sl_grammar_seq(j->g);

    for (uint32_t i = 0; i < p->n; i++)
        sl_grammar_add(j->g, s,
                       sl_grammar_repeat(j->g,
                                         sl_grammar_call(j->g, p->rule[i]),
                                         p->required[i], 1));
    return s;
}

/* ---------------------------------------------------------------------- calls */

/* A keyword about all parameters together that has something to say here. */
static const char *beyond(const json_t *s)
{
    static const char *const key[] = {"enum", "const", "patternProperties",
                                      "propertyNames"};
    const json_t *lo = json_object_get(s, "minProperties");
    const json_t *hi = json_object_get(s, "maxProperties");

    for (size_t i = 0; i < SL_COUNTOF(key); i++)
        if (json_object_get(s, key[i]))
            return key[i];
    if (json_object_get(s, SL_JMERGE_NOT))
        return "not";
    if (lo && json_number_value(lo) >
                  (double)json_array_size(json_object_get(s, "required")))
        return "minProperties";
    if (hi && json_number_value(hi) <
                  (double)json_object_size(json_object_get(s, "properties")))
        return "maxProperties";
    return NULL;
}

/* One alternative of what a tool takes; one that is no object cannot be. */
static void on_object(void *ctx, json_t *s, const char *path)
{
    struct value *v = ctx;
    struct job *j = v->j;
    const char *type =
        json_string_value(json_array_get(json_object_get(s, "type"), 0));
    struct params *p = NULL;

    if (type && strcmp(type, "object") != 0)
        return;
    if (beyond(s)) {
        sl_jtext_refuse(v->tool->j, path, beyond(s),
                        "of all parameters together is not supported; leave it "
                        "out");
        return;
    }
    if (sl_mem_alloc(&p, 1, sizeof(*p), "a tool", NULL)) {
        sl_grammar_fail(j->g, SL_ENOMEM, "no memory for a tool");
        return;
    }
    read_params(j, v->tool, s, p);
    sl_grammar_add(j->g, v->alt,
                   p->n <= ANY_ORDER &&
                           json_array_size(j->c->tools) <= ANY_ORDER_TOOLS
                       ? any_order(j, p)
                       : schema_order(j, p));
    sl_mem_free(p);
}

static uint32_t arguments(struct job *j, struct tool *t)
{
    struct value v = {j, t, sl_grammar_alt(j->g)};
    char path[60];

    snprintf(path, sizeof(path), "tool %.40s", t->name);
    sl_jschema_each(t->j, t->schema, path, on_object, &v);
    return v.alt;
}

/* Behind "<function=" or {"name": ", up to the end of the call. */
static uint32_t one_tool(struct job *j, struct tool *t)
{
    uint32_t s = sl_grammar_seq(j->g);
    bool held = t->strict || j->c->must;

    sl_grammar_add(j->g, s, lit(j, t->name));
    if (j->c->hermes) {
        sl_grammar_add(j->g, s, lit(j, "\", \"arguments\": "));
        sl_grammar_add(j->g, s,
                       sl_jschema_node(t->j, held ? t->schema : json_true(),
                                       "parameters"));
        sl_grammar_add(j->g, s, lit(j, "}\n"));
        return s;
    }
    sl_grammar_add(j->g, s, lit(j, ">\n"));
    if (held) {
        sl_grammar_add(j->g, s, arguments(j, t));
        sl_grammar_add(j->g, s, lit(j, "</function>\n"));
    } else {
        sl_grammar_add(j->g, s, any_text(j));
    }
    return s;
}

static bool read_tool(struct job *j, struct tool *t, json_t *item)
{
    json_t *f = json_object_get(item, "function");
    struct sl_err err = {0};

    *t = (struct tool){0};
    if (!json_is_object(f))
        f = item;
    t->name = json_string_value(json_object_get(f, "name"));
    t->schema = json_object_get(f, "parameters");
    t->strict = json_is_true(json_object_get(f, "strict"));
    if (!t->name || !holds_name(t->name) || strpbrk(t->name, "\"\\")) {
        sl_grammar_fail(j->g, SL_EARG,
                        "the name of a tool is '%.100s', which the model's "
                        "markup cannot hold",
                        t->name ? t->name : "");
        return false;
    }
    if (!json_is_object(t->schema))
        t->schema = NULL;
    if (sl_jschema_open(&t->j, j->g, t->schema, &err)) {
        sl_grammar_fail(j->g, err.code, "%s", err.msg);
        return false;
    }
    return true;
}

/* Whoever made tool i is to know that it is this one. */
static void blame(struct job *j, size_t i, const char *part)
{
    if (j->g->failed)
        (void)sl_wrap(&j->g->err, j->g->err.code, "tools[%zu].function.%s", i,
                      part);
}

/* What stands between the two tags, for all tools. */
static uint32_t tools_node(struct job *j)
{
    uint32_t alt = sl_grammar_alt(j->g);
    json_t *empty = json_pack("{s:s,s:{}}", "type", "object", "properties");
    bool any = false;

    for (size_t i = 0; i < json_array_size(j->c->tools) && !j->g->failed; i++) {
        struct tool t;

        if (!read_tool(j, &t, json_array_get(j->c->tools, i))) {
            blame(j, i, "name");
            break;
        }
        if (!t.schema)
            t.schema = empty;
        if (!j->c->only || !strcmp(j->c->only, t.name)) {
            any = true;
            sl_grammar_add(j->g, alt, one_tool(j, &t));
            sl_jschema_finish(t.j);
            blame(j, i, "parameters");
        }
        sl_jschema_close(&t.j);
    }
    json_decref(empty);
    if (!any)
        sl_grammar_fail(j->g, SL_EARG, "no tool is named '%.100s'",
                        j->c->only ? j->c->only : "");
    return alt;
}

/* One call after another; `least` of them. */
static uint32_t calls_node(struct job *j, uint32_t call)
{
    uint32_t more = seq(j, lit(j, "\n"), sl_grammar_call(j->g, call));

    if (!j->c->many)
        return sl_grammar_call(j->g, call);
    return seq(j, sl_grammar_call(j->g, call),
               sl_grammar_repeat(j->g, more, 0, SL_CALLS_MAX - 1));
}

static uint32_t call_rule(struct job *j)
{
    uint32_t r = sl_grammar_rule(j->g, "call", 4), s = sl_grammar_seq(j->g);

    sl_grammar_add(j->g, s, tag(j, j->c->open, "<tool_call>"));
    sl_grammar_add(j->g, s,
                   lit(j, j->c->hermes ? "\n{\"name\": \"" : "\n<function="));
    sl_grammar_add(j->g, s, tools_node(j));
    sl_grammar_add(j->g, s, tag(j, j->c->close, "</tool_call>"));
    sl_grammar_define(j->g, r, s);
    return r;
}

void sl_calls_read(struct sl_grammar *g, uint32_t root,
                   const struct sl_calls *c)
{
    struct job j = {.g = g, .c = c};
    uint32_t call = call_rule(&j), alt;

    if (c->must) {
        sl_grammar_define(g, root, calls_node(&j, call));
        return;
    }
    alt = sl_grammar_alt(g);
    if (c->content) {
        struct sl_jschema *s = NULL;
        struct sl_err err = {0};

        if (sl_jschema_open(&s, g, c->content, &err)) {
            sl_grammar_fail(g, err.code, "%s", err.msg);
            return;
        }
        sl_grammar_add(g, alt, sl_jschema_node(s, c->content, "$"));
        sl_jschema_finish(s);
        sl_jschema_close(&s);
        sl_grammar_add(g, alt, calls_node(&j, call));
    } else {
        sl_grammar_add(g, alt, any_text(&j));
        sl_grammar_add(g, alt, seq(&j, any_text(&j), calls_node(&j, call)));
    }
    sl_grammar_define(g, root, alt);
}
