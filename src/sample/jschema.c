/* sample/jschema.c - JSON Schema to a grammar of the JSON texts it allows
 *
 * Each schema in the schema becomes a rule when it is first asked for, and its
 * rule is defined later, from a list: so a $ref may lead anywhere, also back,
 * and nothing here recurses along the document but the joining of allOf, $ref
 * and anyOf with what stands beside them, which is limited.
 *
 * Strings, numbers, white space and free values have one rule each for the
 * whole grammar, so that the masks of their insides are made once (shape.c).
 *
 * An object with members in the order of the schema is a chain of rules, each
 * calling the next one in its last place:
 *
 *     first  = member_0 rest_1 | member_1 rest_2 | ...   up to the first that
 * is required rest_i = "," member_i rest_i+1 | rest_i+1          the second if
 * member_i may be left out rest_n = { "," other }
 */
#include "sample/jschema.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "sample/jmerge.h"
#include "sample/number_range.h"
#include "sample/regex.h"

#define PATH 160           /* bytes of the name of a part, for messages */
#define MAX_JOIN 32        /* schemas joined into one, in each other; chosen */
#define MAX_PREFIX 64      /* items of prefixItems; they nest in the grammar */
#define MAX_INDENT 20      /* spaces behind a new line */
#define STEP 16            /* bytes of a reference that are one step of work */
#define MAX_KEY_CHARS 8192 /* of names that other members must not have */

enum shared {
    WS,
    STRING,
    INTEGER,
    NUMBER,
    VALUE,
    OBJECT,
    ARRAY,
    MEMBER,
    ESCAPE,
    N_SHARED
};

struct part {
    json_t *schema;
    uint32_t rule;
    char path[PATH];
};

struct sl_jschema {
    struct sl_grammar *g;
    json_t *root; /* borrowed */
    json_t *made; /* owned: an array of the schemas that were joined */
    struct part *part;
    size_t n_part, cap_part, n_defined;
    uint32_t shared[N_SHARED]; /* rule and one; 0: not made */
    uint32_t n_joined;
};

static uint32_t refuse(struct sl_jschema *j, const char *path, const char *key,
                       const char *why)
{
    return sl_grammar_fail(j->g, SL_EUNSUP, "the schema at %s: '%s' %s", path,
                           key, why);
}

static void child_path(char out[PATH], const char *path, const char *key)
{
    int n = snprintf(out, PATH, "%s.%s", path, key);

    if (n >= PATH) /* the end says more than the middle, and fits */
        snprintf(out, PATH, "(...).%.80s", key);
    n = (int)strlen(out);
    out[n - (int)sl_utf8_partial(out, (size_t)n)] = 0;
}

/* --------------------------------------------------------------- small nodes
 */

static uint32_t lit(struct sl_jschema *j, const char *s)
{
    return sl_grammar_bytes(j->g, s, strlen(s));
}

static uint32_t optional(struct sl_jschema *j, uint32_t n)
{
    return sl_grammar_repeat(j->g, n, 0, 1);
}

static uint32_t seq(struct sl_jschema *j, uint32_t a, uint32_t b)
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

    sl_grammar_add(g, alt, seq(j, sl_grammar_set(g, free, 5), hex(j, 3)));
    sl_grammar_add(
        g, alt,
        seq(j, lit(j, "0"), seq(j, sl_grammar_set(g, some, 3), hex(j, 2))));
    sl_grammar_add(
        g, alt,
        seq(j, lit(j, "00"), seq(j, sl_grammar_set(g, some, 3), hex(j, 1))));
    sl_grammar_add(g, alt, seq(j, lit(j, "000"), sl_grammar_set(g, some, 3)));
    s = seq(j, range(j, '0', '7'), hex(j, 2));
    sl_grammar_add(g, alt, seq(j, sl_grammar_set(g, d, 2), s));
    sl_grammar_add(g, pair, sl_grammar_set(g, d, 2));
    sl_grammar_add(g, pair, sl_grammar_set(g, high, 3));
    sl_grammar_add(g, pair, hex(j, 2));
    sl_grammar_add(g, pair, lit(j, "\\u"));
    sl_grammar_add(g, pair, sl_grammar_set(g, d, 2));
    sl_grammar_add(g, pair, sl_grammar_set(g, low, 2));
    sl_grammar_add(g, pair, hex(j, 2));
    sl_grammar_add(g, alt, pair);
    return seq(j, lit(j, "u"), alt);
}

static uint32_t call(struct sl_jschema *j, enum shared which);

/* One character inside of a string. What is escaped is a rule: a string of
 * limited length repeats this for each character. */
static uint32_t character(struct sl_jschema *j)
{
    static const struct sl_range plain[] = {{0x20, 0x21},
                                            {0x23, 0x5b},
                                            {0x5d, SL_GRAMMAR_MAX_CODE}};
    uint32_t alt = sl_grammar_alt(j->g);

    sl_grammar_add(j->g, alt, sl_grammar_set(j->g, plain, 3));
    sl_grammar_add(j->g, alt, seq(j, lit(j, "\\"), call(j, ESCAPE)));
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

static uint32_t quoted(struct sl_jschema *j, uint32_t inside)
{
    return seq(j, lit(j, "\""), seq(j, inside, lit(j, "\"")));
}

/* a, or a "," a "," a ... */
static uint32_t list(struct sl_jschema *j, enum shared which)
{
    uint32_t more = seq(j, lit(j, ","), seq(j, call(j, WS), call(j, which)));

    return seq(j, call(j, which),
               sl_grammar_repeat(j->g, more, 0, SL_GRAMMAR_MANY));
}

/* open ws inside ws close, or open close. */
static uint32_t enclosed(struct sl_jschema *j, const char *open,
                         uint32_t inside, const char *close)
{
    uint32_t s = sl_grammar_seq(j->g);

    sl_grammar_add(j->g, s, lit(j, open));
    sl_grammar_add(j->g, s, call(j, WS));
    sl_grammar_add(j->g, s, inside);
    sl_grammar_add(j->g, s, call(j, WS));
    sl_grammar_add(j->g, s, lit(j, close));
    return s;
}

static uint32_t maybe_empty(struct sl_jschema *j, const char *both, uint32_t n)
{
    uint32_t alt = sl_grammar_alt(j->g);

    sl_grammar_add(j->g, alt, lit(j, both));
    sl_grammar_add(j->g, alt, n);
    return alt;
}

static uint32_t colon(struct sl_jschema *j)
{
    return seq(j, lit(j, ":"), optional(j, lit(j, " ")));
}

static uint32_t shared_node(struct sl_jschema *j, enum shared which)
{
    static const struct sl_range blank[] = {{'\t', '\t'}, {' ', ' '}};
    struct sl_grammar *g = j->g;
    uint32_t alt;

    switch (which) {
    case WS:
        alt = maybe_empty(j, "", lit(j, " "));
        sl_grammar_add(g, alt,
                       seq(j, lit(j, "\n"),
                           sl_grammar_repeat(g, sl_grammar_set(g, blank, 2), 0,
                                             MAX_INDENT)));
        return alt;
    case ESCAPE:
        return escape(j);
    case STRING:
        return quoted(j,
                      sl_grammar_repeat(g, character(j), 0, SL_GRAMMAR_MANY));
    case INTEGER:
        return sl_number_any(g, true);
    case NUMBER:
        return sl_number_any(g, false);
    case MEMBER:
        return seq(j, call(j, STRING), seq(j, colon(j), call(j, VALUE)));
    case OBJECT:
        return maybe_empty(j, "{}", enclosed(j, "{", list(j, MEMBER), "}"));
    case ARRAY:
        return maybe_empty(j, "[]", enclosed(j, "[", list(j, VALUE), "]"));
    case VALUE:
        alt = maybe_empty(j, "null", lit(j, "true"));
        sl_grammar_add(g, alt, lit(j, "false"));
        for (int i = STRING; i <= ARRAY; i++)
            if (i != VALUE && i != INTEGER)
                sl_grammar_add(g, alt, call(j, (enum shared)i));
        return alt;
    case N_SHARED:
        break;
    }
    return 0;
}

static uint32_t call(struct sl_jschema *j, enum shared which)
{
    static const char *const name[N_SHARED] = {"space",  "string", "integer",
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

static uint32_t value_text(struct sl_jschema *j, const json_t *v)
{
    char *s = dump(v);
    uint32_t n;

    if (!s)
        return sl_grammar_fail(j->g, SL_ENOMEM, "no memory for a schema");
    n = lit(j, s);
    free(s); /* jansson's own */
    return n;
}

/* ------------------------------------------------------------------- strings
 */

/* Formats that a pattern can say, by RFC 3339, 4122, 5321 (the usual part),
 * 2673, 1123, 3986 (the usual part). */
static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", "[1-9]\\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|"
             "(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))"},
    {"time", "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?"
             "(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"},
    {"date-time", "[1-9]\\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|"
                  "(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))"
                  "T([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?"
                  "(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"email", "[A-Za-z0-9_+-]+(\\.[A-Za-z0-9_+-]+)*@"
              "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
              "(\\.[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?)+"},
    {"ipv4", "((25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)\\.){3}"
             "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"},
    {"ipv6", "([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}"},
    {"hostname", "[A-Za-z0-9]{1,20}(-[A-Za-z0-9]{1,20})?"
                 "(\\.[A-Za-z0-9]{1,20}(-[A-Za-z0-9]{1,20})?){0,4}"},
    {"uri", "[a-z][a-z0-9+-]{1,15}://[A-Za-z0-9-]+(\\.[A-Za-z0-9-]+)*"
            "(:[1-9]\\d{0,3})?(/[A-Za-z0-9._~-]*)*(\\?[A-Za-z0-9._~&=-]*)?"},
    {"duration", "P(\\d{1,4}D|\\d{1,4}W|(\\d{1,4}D)?T("
                 "\\d{1,4}H(\\d{1,4}M(\\d{1,4}S)?)?|"
                 "\\d{1,4}M(\\d{1,4}S)?|\\d{1,4}S))"},
};

static const char *format_of(const char *name)
{
    for (size_t i = 0; name && i < SL_COUNTOF(formats); i++)
        if (!strcmp(name, formats[i].name))
            return formats[i].pattern;
    return NULL;
}

/* A keyword that counts; `none` without it. */
static uint32_t count(struct sl_jschema *j, const json_t *s, const char *key,
                      uint32_t none, const char *path)
{
    const json_t *v = json_object_get(s, key);
    double x = json_number_value(v);
    bool ok = json_is_number(v) && x >= 0;

    if (!v)
        return none;
    /* Doubles from 2^53 on are whole; above 2^63 they fit no integer. */
    if (!ok || (x < 0x1p53 && x != (double)(int64_t)x))
        return refuse(j, path, key, "must be a whole number from 0 on");
    if (x > SL_GRAMMAR_MAX_REPEAT)
        return refuse(j, path, key,
                      "is above 16384, the largest that is supported; lower it "
                      "or leave it out");
    return (uint32_t)x;
}

uint32_t sl_jschema_string(struct sl_jschema *j, json_t *s, const char *path,
                           bool json)
{
    static const struct sl_range raw[] = {{0x20, '<' - 1},
                                          {'<' + 1, SL_GRAMMAR_MAX_CODE}};
    const json_t *pattern = json_object_get(s, "pattern");
    const json_t *format = json_object_get(s, "format");
    uint32_t lo = count(j, s, "minLength", 0, path), n;
    uint32_t hi = count(j, s, "maxLength", SL_GRAMMAR_MANY, path);
    enum sl_regex_write how = json ? SL_REGEX_JSON : SL_REGEX_RAW;
    const char *text = format_of(json_string_value(format));

    if ((pattern || format) && (lo > 0 || hi != SL_GRAMMAR_MANY))
        return refuse(j, path, lo > 0 ? "minLength" : "maxLength",
                      "beside 'pattern' or 'format' is not supported; put the "
                      "length into the pattern");
    if (pattern && format)
        return refuse(j, path, "format",
                      "beside 'pattern' is not supported; leave one out");
    if (pattern) {
        if (!json_is_string(pattern))
            return refuse(j, path, "pattern", "must be a string");
        n = sl_regex_node(j->g, json_string_value(pattern),
                          json_string_length(pattern), SL_REGEX_FIND, how);
        return n;
    }
    if (format && !text)
        return refuse(j, path, "format",
                      "has a value that is not supported; date, time, "
                      "date-time, duration, uuid, email, hostname, ipv4, ipv6 "
                      "and uri are");
    if (format)
        return sl_regex_node(j->g, text, strlen(text), SL_REGEX_WHOLE, how);
    if (hi < lo)
        return sl_grammar_alt(j->g);
    n = json ? character(j) : sl_grammar_set(j->g, raw, 2);
    return sl_grammar_repeat(j->g, n, lo, hi);
}

/* ------------------------------------------------------------------- numbers
 */

static struct sl_limit limit(struct sl_jschema *j, const json_t *s,
                             const char *plain, const char *excl, bool low,
                             const char *path)
{
    const json_t *a = json_object_get(s, plain), *b = json_object_get(s, excl);
    struct sl_limit out = {0};

    if ((a && !json_is_number(a)) ||
        (b && !json_is_number(b) && !json_is_boolean(b))) {
        refuse(j, path, a && !json_is_number(a) ? plain : excl,
               "must be a number");
        return out;
    }
    if (a)
        out = (struct sl_limit){.has = true,
                                .excluded = json_is_true(b), /* draft 4 */
                                .value = json_number_value(a)};
    if (json_is_number(b)) {
        double x = json_number_value(b);

        if (!a || (low ? x >= out.value : x <= out.value))
            out = (struct sl_limit){true, true, x};
    }
    return out;
}

static uint32_t number(struct sl_jschema *j, const json_t *s, bool whole,
                       const char *path)
{
    struct sl_limit lo = limit(j, s, "minimum", "exclusiveMinimum", true, path);
    struct sl_limit hi =
        limit(j, s, "maximum", "exclusiveMaximum", false, path);

    if (!lo.has && !hi.has)
        return call(j, whole ? INTEGER : NUMBER);
    return sl_number_range(j->g, lo, hi, whole);
}

/* -------------------------------------------------------------------- arrays
 */

/* The items behind the prefix, each with its comma. */
static uint32_t further(struct sl_jschema *j, json_t *item, uint32_t lo,
                        uint32_t hi, const char *path)
{
    char at[PATH];
    uint32_t one;

    child_path(at, path, "items");
    one = item ? sl_jschema_node(j, item, at) : call(j, VALUE);
    return sl_grammar_repeat(
        j->g, seq(j, lit(j, ","), seq(j, call(j, WS), one)), lo, hi);
}

/* Items 0 to n - 1 of a prefix, then `tail`; those from lo on may be left out,
 * with all behind them. */
static uint32_t prefixed(struct sl_jschema *j, json_t *prefix, uint32_t lo,
                         uint32_t hi, uint32_t tail, const char *path)
{
    char at[PATH];

    for (size_t i = sl_min(json_array_size(prefix), hi); i-- > 0;) {
        uint32_t one;

        child_path(at, path, "prefixItems");
        one = seq(j, sl_jschema_node(j, json_array_get(prefix, i), at), tail);
        if (i > 0)
            one = seq(j, lit(j, ","), seq(j, call(j, WS), one));
        tail = i >= lo && i > 0 ? optional(j, one) : one;
    }
    return tail;
}

static uint32_t array(struct sl_jschema *j, const json_t *s, const char *path)
{
    json_t *item = json_object_get(s, "items");
    json_t *prefix = json_object_get(s, "prefixItems");
    uint32_t lo = count(j, s, "minItems", 0, path), n, inside;
    uint32_t hi = count(j, s, "maxItems", SL_GRAMMAR_MANY, path);

    if (json_is_array(item)) { /* before draft 2020-12 */
        prefix = item;
        item = json_object_get(s, "additionalItems");
    }
    n = (uint32_t)json_array_size(prefix);
    if (n > MAX_PREFIX)
        return refuse(j, path, "prefixItems",
                      "has more than 64 items, which is not supported");
    if (n > 0 && !item && lo <= n)
        item = json_false(); /* what is not described is not written */
    if (json_is_false(item))
        hi = (uint32_t)sl_min(hi, n);
    if (hi < lo)
        return sl_grammar_alt(j->g);
    if (hi == 0)
        return lit(j, "[]");
    if (n > 0) {
        uint32_t tail =
            hi <= n ? sl_grammar_seq(j->g)
                    : further(j, item, lo > n ? lo - n : 0,
                              hi == SL_GRAMMAR_MANY ? hi : hi - n, path);

        inside = prefixed(j, prefix, lo, hi, tail, path);
    } else {
        char at[PATH];

        child_path(at, path, "items");
        inside = item ? sl_jschema_node(j, item, at) : call(j, VALUE);
        inside = seq(j, inside,
                     further(j, item, lo ? lo - 1 : 0,
                             hi == SL_GRAMMAR_MANY ? hi : hi - 1, path));
    }
    inside = enclosed(j, "[", inside, "]");
    return lo == 0 ? maybe_empty(j, "[]", inside) : inside;
}

/* ------------------------------------------------------------------- objects
 */

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
        refuse(j, path,
               props && !json_is_object(props) ? "properties" : "required",
               "has the wrong type");
    else if (n > SL_JSCHEMA_MAX_NAMES)
        refuse(j, path, "properties",
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
            refuse(j, path, "required", "must be an array of names");
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
    char at[PATH];

    child_path(at, path, name);
    key = value_text(j, text);
    json_decref(text);
    sl_grammar_define(
        j->g, r, seq(j, key, seq(j, colon(j), sl_jschema_node(j, schema, at))));
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
        return refuse(j, "an object", "additionalProperties",
                      "beside long names of properties is not supported");
    r = sl_grammar_rule(j->g, "key", 3);
    alt = sl_grammar_alt(j->g);
    if (sl_mem_alloc(&not, (size_t)(hi - lo) + 4, sizeof(*not ), "a schema",
                     NULL))
        return sl_grammar_fail(j->g, SL_ENOMEM, "no memory for a schema");
    if (lo < hi && !t->name[lo][at])
        lo++; /* this name itself: it may not end here */
    else
        sl_grammar_add(j->g, alt, lit(j, "\""));
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
                           seq(j, sl_grammar_bytes(j->g, s, len),
                               sl_grammar_call(j->g, next)));
        lo = end;
    }
    sl_grammar_add(
        j->g, alt,
        seq(j, plain_but(j, not, n),
            seq(j,
                sl_grammar_repeat(j->g, sl_grammar_set(j->g, plain_key, 3), 0,
                                  SL_GRAMMAR_MANY),
                lit(j, "\""))));
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
        return call(j, STRING);
    if (sl_mem_alloc(&t.name, m->n, sizeof(*t.name), "a schema", NULL))
        return sl_grammar_fail(j->g, SL_ENOMEM, "no memory for a schema");
    for (size_t i = 0; i < m->n; i++)
        t.name[i] = m->p[i].name;
    qsort(t.name, m->n, sizeof(*t.name), by_name);
    r = rest_of_key(j, &t, 0, (uint32_t)m->n, 0, 0);
    sl_mem_free(t.name);
    return seq(j, lit(j, "\""), sl_grammar_call(j->g, r));
}

static uint32_t other_rule(struct sl_jschema *j, const struct members *m,
                           const char *path)
{
    uint32_t r = sl_grammar_rule(j->g, "other", 5);
    char at[PATH];

    child_path(at, path, "additionalProperties");
    sl_grammar_define(j->g, r,
                      seq(j, other_key(j, m),
                          seq(j, colon(j), sl_jschema_node(j, m->others, at))));
    return r;
}

static uint32_t comma(struct sl_jschema *j, uint32_t rule)
{
    return seq(j, lit(j, ","),
               seq(j, call(j, WS), sl_grammar_call(j->g, rule)));
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
                x = optional(j, x);
            x = seq(j, x, sl_grammar_call(g, rest[i + 1]));
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
                       seq(j, sl_grammar_call(g, m->p[i].rule),
                           sl_grammar_call(g, rest[i + 1])));
        if (m->p[i].required)
            break;
    }
    if (i == m->n && m->others)
        sl_grammar_add(
            g, alt,
            seq(j, sl_grammar_call(g, other), sl_grammar_call(g, rest[m->n])));
    sl_mem_free(rest);
    alt = enclosed(j, "{", alt, "}");
    return i == m->n ? maybe_empty(j, "{}", alt) : alt;
}

static uint32_t object(struct sl_jschema *j, const json_t *s, const char *path)
{
    struct members m;
    uint32_t n = 0;

    read_members(j, &m, s, path);
    if (!j->g->failed)
        n = members_node(j, &m, path);
    sl_mem_free(m.p);
    return n;
}

/* -------------------------------------------------------- what a schema says
 */

static json_t *keep(struct sl_jschema *j, json_t *made)
{
    if (made && json_array_append_new(j->made, made)) {
        sl_grammar_fail(j->g, SL_ENOMEM, "no memory for a schema");
        return NULL;
    }
    return made;
}

/* Keywords that count in a schema; but not `key`, if given. */
static size_t n_keywords(const json_t *s, const char *but)
{
    const char *key;
    json_t *v;
    size_t n = 0;

    json_object_foreach((json_t *)(uintptr_t)s, key, v)
    {
        n += sl_jmerge_keyword(key) > 0 && !(but && !strcmp(key, but));
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
        bool idle = (!strcmp(key, "uniqueItems") && json_is_false(v)) ||
                    (!strcmp(key, "minProperties") &&
                     json_integer_value(v) == 0 && json_is_integer(v)) ||
                    (!strcmp(key, "multipleOf") && json_integer_value(v) == 1 &&
                     !strcmp(json_is_string(json_object_get(s, "type"))
                                 ? json_string_value(json_object_get(s, "type"))
                                 : "",
                             "integer"));

        if (sl_jmerge_keyword(key) < 0 && !idle) {
            refuse(j, path, key, "is not supported; leave it out");
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

static json_t *resolve(struct sl_jschema *j, const json_t *ref,
                       const char *path)
{
    const char *p = json_string_value(ref);
    json_t *at = j->root;
    char step[512];
    int64_t i = 0;

    if (!sl_grammar_spend(j->g, 1 + json_string_length(ref) / STEP))
        return NULL;
    if (!p || *p != '#' || (p[1] && p[1] != '/')) {
        refuse(j, path, "$ref", "must be '#' or begin with '#/'");
        return NULL;
    }
    for (p++; *p == '/' && at;) {
        p++;
        if (!pointer_step(&p, step, sizeof(step)))
            at = NULL;
        else if (!json_is_array(at))
            at = json_object_get(at, step);
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
    return at;
}

/* The schema without one keyword. */
static json_t *without(struct sl_jschema *j, const json_t *s, const char *key)
{
    json_t *out = NULL;

    if (sl_grammar_spend(j->g, json_object_size(s)))
        out = json_copy((json_t *)(uintptr_t)s);
    if (out)
        json_object_del(out, key);
    return keep(j, out);
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
    return keep(j, sl_jmerge(j->g, a, b, path));
}

struct each {
    sl_jschema_fn *fn;
    void *ctx;
    int depth;
};

static void each(struct sl_jschema *j, json_t *s, const char *path,
                 const struct each *to, bool follow);

/* Each type that a schema without alternatives allows. */
static void each_type(struct sl_jschema *j, json_t *s, const char *path,
                      const struct each *to)
{
    static const struct {
        const char *key;
        int type;
    } implied[] = {
        {"properties", 64},
        {"required", 64},
        {"additionalProperties", 64},
        {"items", 32},
        {"minItems", 32},
        {"maxItems", 32},
        {"prefixItems", 32},
        {"additionalItems", 32},
        {"pattern", 16},
        {"format", 16},
        {"minLength", 16},
        {"maxLength", 16},
        {"minimum", 8},
        {"maximum", 8},
        {"exclusiveMinimum", 8},
        {"exclusiveMaximum", 8},
    };
    int types = sl_jmerge_types(json_object_get(s, "type"));

    if (types < 0) {
        refuse(j, path, "type",
               "must be null, boolean, integer, number, string, array, object "
               "or an array of these");
        return;
    }
    if (json_object_get(s, "enum") || json_object_get(s, "const") ||
        n_keywords(s, NULL) == 0) {
        to->fn(to->ctx, s, path);
        return;
    }
    for (size_t i = 0; !json_object_get(s, "type") && i < SL_COUNTOF(implied);
         i++)
        if (json_object_get(s, implied[i].key))
            types |= implied[i].type;
    for (int i = 0; i < 7 && !j->g->failed; i++) {
        json_t *one;

        if (!(types >> i & 1))
            continue;
        if (!sl_grammar_spend(j->g, json_object_size(s)))
            return;
        one = keep(j, json_copy(s));
        if (!one || json_object_set_new(one, "type",
                                        json_pack("[s]", sl_jmerge_type[i])))
            sl_grammar_fail(j->g, SL_ENOMEM, "no memory for a schema");
        else
            to->fn(to->ctx, one, path);
    }
}

static void each_of(struct sl_jschema *j, json_t *s, const char *key,
                    const char *path, const struct each *to, bool follow)
{
    json_t *list = json_object_get(s, key), *base = NULL;
    bool alone = n_keywords(s, key) == 0;

    if (!json_is_array(list) || json_array_size(list) == 0) {
        refuse(j, path, key, "must be an array of schemas");
        return;
    }
    if (!alone)
        base = without(j, s, key);
    for (size_t i = 0; i < json_array_size(list) && !j->g->failed; i++) {
        json_t *x = json_array_get(list, i);
        char at[PATH], name[32];

        snprintf(name, sizeof(name), "%s[%zu]", key, i);
        child_path(at, path, name);
        if (!alone)
            x = joined(j, base, x, at);
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
            to->fn(to->ctx, keep(j, json_object()), path);
        return;
    }
    if (json_object_get(s, "$ref")) {
        json_t *at;

        if (!follow && n_keywords(s, "$ref") == 0) {
            to->fn(to->ctx, s, path);
            return;
        }
        at = resolve(j, json_object_get(s, "$ref"), path);
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
            refuse(j, path, "allOf", "must be an array of schemas");
        for (size_t i = 0; i < json_array_size(all) && at; i++) {
            json_t *x = json_array_get(all, i);

            /* A reference inside is opened here, so that its keywords meet. */
            for (int k = 0; k < MAX_JOIN && json_object_get(x, "$ref"); k++) {
                json_t *r = resolve(j, json_object_get(x, "$ref"), path);

                x = n_keywords(x, "$ref") > 0
                        ? joined(j, without(j, x, "$ref"), r, path)
                        : r;
            }
            at = joined(j, at, x, path);
        }
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
    struct part *p;

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
        return call(j, VALUE);
    if (is_just(s, "string"))
        return call(j, STRING);
    if (is_just(s, "integer"))
        return call(j, INTEGER);
    if (is_just(s, "number"))
        return call(j, NUMBER);
    if (json_object_get(s, "$ref") && n_keywords(s, NULL) == 1) {
        s = resolve(j, json_object_get(s, "$ref"), path);
        if (!s || !check_keywords(j, s, path))
            return 0;
    }
    return sl_grammar_call(j->g, part_rule(j, s, path));
}

static uint32_t values(struct sl_jschema *j, json_t *s, const char *path)
{
    json_t *list = json_object_get(s, "enum"),
           *one = json_object_get(s, "const");
    uint32_t alt = sl_grammar_alt(j->g);

    if (list && !json_is_array(list))
        return refuse(j, path, "enum", "must be an array");
    for (size_t i = 0; i < json_array_size(list) && !j->g->failed; i++)
        if (sl_jmerge_allows(j->g, s, json_array_get(list, i), path))
            sl_grammar_add(j->g, alt, value_text(j, json_array_get(list, i)));
    if (!list && sl_jmerge_allows(j->g, s, one, path))
        sl_grammar_add(j->g, alt, value_text(j, one));
    return alt;
}

static uint32_t typed(struct sl_jschema *j, json_t *s, const char *path)
{
    const char *type =
        json_string_value(json_array_get(json_object_get(s, "type"), 0));

    if (!strcmp(type, "null"))
        return lit(j, "null");
    if (!strcmp(type, "boolean"))
        return maybe_empty(j, "true", lit(j, "false"));
    if (!strcmp(type, "integer"))
        return number(j, s, true, path);
    if (!strcmp(type, "number"))
        return number(j, s, false, path);
    if (!strcmp(type, "array"))
        return array(j, s, path);
    if (!strcmp(type, "object"))
        return object(j, s, path);
    return quoted(j, sl_jschema_string(j, s, path, true));
}

/* An alternative of a part. */
struct add {
    struct sl_jschema *j;
    uint32_t alt;
};

static void add_alternative(void *ctx, json_t *s, const char *path)
{
    struct add *a = ctx;
    struct sl_jschema *j = a->j;
    uint32_t n;

    if (json_object_get(s, "enum") || json_object_get(s, "const"))
        n = values(j, s, path);
    else if (n_keywords(s, NULL) == 0 || json_object_get(s, "$ref"))
        n = sl_jschema_node(j, s, path);
    else
        n = typed(j, s, path);
    sl_grammar_add(j->g, a->alt, n);
}

void sl_jschema_finish(struct sl_jschema *j)
{
    for (; j->n_defined < j->n_part && !j->g->failed; j->n_defined++) {
        struct part p = j->part[j->n_defined];
        struct add a = {j, sl_grammar_alt(j->g)};
        struct each to = {.fn = add_alternative, .ctx = &a};

        each(j, p.schema, p.path, &to, false);
        sl_grammar_define(j->g, p.rule, a.alt);
    }
}

int sl_jschema_open(struct sl_jschema **out, struct sl_grammar *g, json_t *root,
                    struct sl_err *err)
{
    struct sl_jschema *j = NULL;
    int rc = sl_mem_alloc(&j, 1, sizeof(*j), "a schema", err);

    if (rc)
        return rc;
    j->g = g;
    j->root = root;
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
