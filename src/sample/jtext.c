/* sample/jtext.c - the small parts of JSON texts, as nodes; see jtext.h */
#include "sample/jtext.h"

#include "base/utf8.h"
#include "sample/number_range.h"

#define MAX_INDENT 20 /* spaces behind a new line */

uint32_t sl_jtext_refuse(struct sl_jschema *j, const char *path,
                         const char *key, const char *why)
{
    return sl_grammar_fail(j->g, SL_EUNSUP, "the schema at %s: '%s' %s", path,
                           key, why);
}

void sl_jtext_path(char out[SL_JTEXT_PATH], const char *path, const char *key)
{
    int n = snprintf(out, SL_JTEXT_PATH, "%s.%s", path, key);

    if (n >= SL_JTEXT_PATH) /* the end says more than the middle, and fits */
        snprintf(out, SL_JTEXT_PATH, "(...).%.80s", key);
    n = (int)strlen(out);
    out[n - (int)sl_utf8_partial(out, (size_t)n)] = 0;
}

uint32_t sl_jtext_lit(struct sl_jschema *j, const char *s)
{
    return sl_grammar_bytes(j->g, s, strlen(s));
}

uint32_t sl_jtext_optional(struct sl_jschema *j, uint32_t n)
{
    return sl_grammar_repeat(j->g, n, 0, 1);
}

uint32_t sl_jtext_seq(struct sl_jschema *j, uint32_t a, uint32_t b)
{
    uint32_t s = sl_grammar_seq(j->g);

    sl_grammar_add(j->g, s, a);
    sl_grammar_add(j->g, s, b);
    return s;
}

static uint32_t range(struct sl_jschema *j, char a, char b)
{
    struct sl_range r = {(unsigned char)a, (unsigned char)b};

    return sl_grammar_set(j->g, &r, 1);
}

static uint32_t hex(struct sl_jschema *j, uint32_t n)
{
    static const struct sl_range r[] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};

    return sl_grammar_repeat(j->g, sl_grammar_set(j->g, r, 3), n, n);
}

/* \uHHHH: not zero, which many readers refuse, and surrogates in pairs. */
static uint32_t unicode_escape(struct sl_jschema *j)
{
    static const struct sl_range free[] = {{'1', '9'},
                                           {'A', 'C'},
                                           {'E', 'F'},
                                           {'a', 'c'},
                                           {'e', 'f'}},
                                 d[] = {{'D', 'D'}, {'d', 'd'}},
                                 high[] = {{'8', '9'}, {'A', 'B'}, {'a', 'b'}},
                                 low[] = {{'C', 'F'}, {'c', 'f'}},
                                 some[] = {{'1', '9'}, {'A', 'F'}, {'a', 'f'}};
    struct sl_grammar *g = j->g;
    uint32_t alt = sl_grammar_alt(g), pair = sl_grammar_seq(g), s;

    sl_grammar_add(g, alt,
                   sl_jtext_seq(j, sl_grammar_set(g, free, 5), hex(j, 3)));
    sl_grammar_add(
        g, alt,
        sl_jtext_seq(j, sl_jtext_lit(j, "0"),
                     sl_jtext_seq(j, sl_grammar_set(g, some, 3), hex(j, 2))));
    sl_grammar_add(
        g, alt,
        sl_jtext_seq(j, sl_jtext_lit(j, "00"),
                     sl_jtext_seq(j, sl_grammar_set(g, some, 3), hex(j, 1))));
    sl_grammar_add(
        g, alt,
        sl_jtext_seq(j, sl_jtext_lit(j, "000"), sl_grammar_set(g, some, 3)));
    s = sl_jtext_seq(j, range(j, '0', '7'), hex(j, 2));
    sl_grammar_add(g, alt, sl_jtext_seq(j, sl_grammar_set(g, d, 2), s));
    sl_grammar_add(g, pair, sl_grammar_set(g, d, 2));
    sl_grammar_add(g, pair, sl_grammar_set(g, high, 3));
    sl_grammar_add(g, pair, hex(j, 2));
    sl_grammar_add(g, pair, sl_jtext_lit(j, "\\u"));
    sl_grammar_add(g, pair, sl_grammar_set(g, d, 2));
    sl_grammar_add(g, pair, sl_grammar_set(g, low, 2));
    sl_grammar_add(g, pair, hex(j, 2));
    sl_grammar_add(g, alt, pair);
    return sl_jtext_seq(j, sl_jtext_lit(j, "u"), alt);
}

/* One character inside of a string. What is escaped is a rule: a string of
 * limited length repeats this for each character. */
uint32_t sl_jtext_character(struct sl_jschema *j)
{
    static const struct sl_range plain[] = {
        {0x20, 0x21}, {0x23, 0x5b}, {0x5d, SL_GRAMMAR_MAX_CODE}};
    uint32_t alt = sl_grammar_alt(j->g);

    sl_grammar_add(j->g, alt, sl_grammar_set(j->g, plain, 3));
    sl_grammar_add(j->g, alt,
                   sl_jtext_seq(j, sl_jtext_lit(j, "\\"),
                                sl_jtext_call(j, SL_JTEXT_ESCAPE)));
    return alt;
}

/* Behind a backslash. */
static uint32_t escape(struct sl_jschema *j)
{
    static const struct sl_range simple[] = {
        {'"', '"'}, {'/', '/'}, {'\\', '\\'}, {'b', 'b'},
        {'f', 'f'}, {'n', 'n'}, {'r', 'r'},   {'t', 't'}};
    uint32_t alt = sl_grammar_alt(j->g);

    sl_grammar_add(j->g, alt, sl_grammar_set(j->g, simple, 8));
    sl_grammar_add(j->g, alt, unicode_escape(j));
    return alt;
}

uint32_t sl_jtext_quoted(struct sl_jschema *j, uint32_t inside)
{
    return sl_jtext_seq(j, sl_jtext_lit(j, "\""),
                        sl_jtext_seq(j, inside, sl_jtext_lit(j, "\"")));
}

/* a, or a "," a "," a ... */
static uint32_t list(struct sl_jschema *j, enum sl_jtext which)
{
    uint32_t more = sl_jtext_seq(j, sl_jtext_lit(j, ","),
                                 sl_jtext_seq(j, sl_jtext_call(j, SL_JTEXT_WS),
                                              sl_jtext_call(j, which)));

    return sl_jtext_seq(j, sl_jtext_call(j, which),
                        sl_grammar_repeat(j->g, more, 0, SL_GRAMMAR_MANY));
}

/* open ws inside ws close, or open close. */
uint32_t sl_jtext_enclosed(struct sl_jschema *j, const char *open,
                           uint32_t inside, const char *close)
{
    uint32_t s = sl_grammar_seq(j->g);

    sl_grammar_add(j->g, s, sl_jtext_lit(j, open));
    sl_grammar_add(j->g, s, sl_jtext_call(j, SL_JTEXT_WS));
    sl_grammar_add(j->g, s, inside);
    sl_grammar_add(j->g, s, sl_jtext_call(j, SL_JTEXT_WS));
    sl_grammar_add(j->g, s, sl_jtext_lit(j, close));
    return s;
}

uint32_t sl_jtext_maybe_empty(struct sl_jschema *j, const char *both,
                              uint32_t n)
{
    uint32_t alt = sl_grammar_alt(j->g);

    sl_grammar_add(j->g, alt, sl_jtext_lit(j, both));
    sl_grammar_add(j->g, alt, n);
    return alt;
}

uint32_t sl_jtext_colon(struct sl_jschema *j)
{
    return sl_jtext_seq(j, sl_jtext_lit(j, ":"),
                        sl_jtext_optional(j, sl_jtext_lit(j, " ")));
}

static uint32_t shared_node(struct sl_jschema *j, enum sl_jtext which)
{
    static const struct sl_range blank[] = {{'\t', '\t'}, {' ', ' '}};
    struct sl_grammar *g = j->g;
    uint32_t alt;

    switch (which) {
    case SL_JTEXT_WS:
        alt = sl_jtext_maybe_empty(j, "", sl_jtext_lit(j, " "));
        sl_grammar_add(
            g, alt,
            sl_jtext_seq(j, sl_jtext_lit(j, "\n"),
                         sl_grammar_repeat(g, sl_grammar_set(g, blank, 2), 0,
                                           MAX_INDENT)));
        return alt;
    case SL_JTEXT_ESCAPE:
        return escape(j);
    case SL_JTEXT_STRING:
        return sl_jtext_quoted(
            j, sl_grammar_repeat(g, sl_jtext_character(j), 0, SL_GRAMMAR_MANY));
    case SL_JTEXT_INTEGER:
        return sl_number_any(g, true);
    case SL_JTEXT_NUMBER:
        return sl_number_any(g, false);
    case SL_JTEXT_MEMBER:
        return sl_jtext_seq(j, sl_jtext_call(j, SL_JTEXT_STRING),
                            sl_jtext_seq(j, sl_jtext_colon(j),
                                         sl_jtext_call(j, SL_JTEXT_VALUE)));
    case SL_JTEXT_OBJECT:
        return sl_jtext_maybe_empty(
            j, "{}", sl_jtext_enclosed(j, "{", list(j, SL_JTEXT_MEMBER), "}"));
    case SL_JTEXT_ARRAY:
        return sl_jtext_maybe_empty(
            j, "[]", sl_jtext_enclosed(j, "[", list(j, SL_JTEXT_VALUE), "]"));
    case SL_JTEXT_VALUE:
        alt = sl_jtext_maybe_empty(j, "null", sl_jtext_lit(j, "true"));
        sl_grammar_add(g, alt, sl_jtext_lit(j, "false"));
        for (int i = SL_JTEXT_STRING; i <= SL_JTEXT_ARRAY; i++)
            if (i != SL_JTEXT_VALUE && i != SL_JTEXT_INTEGER)
                sl_grammar_add(g, alt, sl_jtext_call(j, (enum sl_jtext)i));
        return alt;
    case SL_JTEXT_N:
        break;
    }
    return 0;
}

uint32_t sl_jtext_call(struct sl_jschema *j, enum sl_jtext which)
{
    static const char *const name[SL_JTEXT_N] = {"space",  "string", "integer",
                                                 "number", "value",  "object",
                                                 "array",  "member", "escape"};

    if (!j->shared[which]) {
        uint32_t r = sl_grammar_rule(j->g, name[which], strlen(name[which]));

        j->shared[which] = r + 1;
        sl_grammar_define(j->g, r, shared_node(j, which));
    }
    return sl_grammar_call(j->g, j->shared[which] - 1);
}

/* ---------------------------------------------------------- values as text */

/* A number as short as reading gives it back. */
static char *dump(const json_t *v)
{
    char *s = NULL;

    for (unsigned digits = 15; json_is_real(v) && digits <= 17; digits++) {
        json_t *back;
        bool same;

        s = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY |
                              JSON_REAL_PRECISION(digits));
        back = s ? json_loads(s, JSON_DECODE_ANY, NULL) : NULL;
        same = back && json_real_value(back) == json_real_value(v);
        json_decref(back);
        if (same)
            return s;
        free(s); /* jansson's own */
    }
    return json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
}

static uint32_t value(struct sl_jschema *j, const json_t *v, bool escape_less)
{
    char *s = dump(v);
    uint32_t n = sl_grammar_seq(j->g);

    if (!s)
        return sl_grammar_fail(j->g, SL_ENOMEM, "no memory for a schema");
    for (const char *p = s; *p;) {
        size_t k = escape_less ? strcspn(p, "<") : strlen(p);

        sl_grammar_add(j->g, n, sl_grammar_bytes(j->g, p, k));
        p += k;
        if (*p == '<') {
            sl_grammar_add(j->g, n, sl_jtext_lit(j, "\\u003c"));
            p++;
        }
    }
    free(s); /* jansson's own */
    return n;
}

uint32_t sl_jtext_value(struct sl_jschema *j, const json_t *v)
{
    return value(j, v, false);
}

uint32_t sl_jtext_markup_value(struct sl_jschema *j, const json_t *v)
{
    return value(j, v, true);
}

/* A keyword that counts; `none` without it. */
uint32_t sl_jtext_count(struct sl_jschema *j, const json_t *s, const char *key,
                        uint32_t none, const char *path)
{
    const json_t *v = json_object_get(s, key);
    double x = json_number_value(v);
    bool ok = json_is_number(v) && x >= 0;

    if (!v)
        return none;
    /* Doubles from 2^53 on are whole; above 2^63 they fit no integer. */
    if (!ok || (x < 0x1p53 && x != (double)(int64_t)x))
        return sl_jtext_refuse(j, path, key,
                               "must be a whole number from 0 on");
    if (x > SL_GRAMMAR_MAX_REPEAT)
        return sl_jtext_refuse(
            j, path, key,
            "is above 16384, the largest that is supported; lower it "
            "or leave it out");
    return (uint32_t)x;
}

json_t *sl_jtext_keep(struct sl_jschema *j, json_t *made)
{
    if (made && json_array_append_new(j->made, made)) {
        sl_grammar_fail(j->g, SL_ENOMEM, "no memory for a schema");
        return NULL;
    }
    return made;
}
