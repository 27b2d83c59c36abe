/* sample/jstring.c - strings of a JSON schema */
#include "sample/jstring.h"

#include "base/mem.h"
#include "sample/jmerge.h"

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

/* What a schema says of a string. */
struct says {
    const json_t *pattern, *patterns, *not ;
    const char *format; /* as a pattern */
    uint32_t lo, hi;    /* characters */
    int n;              /* of these things */
};

static bool read_says(struct sl_jschema *j, struct says *x, const json_t *s,
                      const char *path)
{
    const json_t *format = json_object_get(s, "format");

    *x = (struct says){
        .pattern = json_object_get(s, "pattern"),
        .patterns = json_object_get(s, SL_JMERGE_PATTERNS),
        .not = json_object_get(s, SL_JMERGE_NOT),
        .format = format_of(json_string_value(format)),
        .lo = sl_jtext_count(j, s, "minLength", 0, path),
        .hi = sl_jtext_count(j, s, "maxLength", SL_GRAMMAR_MANY, path),
    };
    if (x->pattern && !json_is_string(x->pattern))
        sl_jtext_refuse(j, path, "pattern", "must be a string");
    if (format && !x->format)
        sl_jtext_refuse(j, path, "format",
                        "has a value that is not supported; date, time, "
                        "date-time, duration, uuid, email, hostname, ipv4, "
                        "ipv6 and uri are");
    x->n = !!x->pattern + !!x->patterns + !!x->not +!!x->format +
           (x->lo > 0 || x->hi != SL_GRAMMAR_MANY);
    return !j->g->failed;
}

/* all = all and d, or d at first; d is used up. */
static void narrow(struct sl_jschema *j, struct sl_dfa *all, struct sl_dfa *d,
                   enum sl_dfa_op op)
{
    struct sl_dfa both;

    if (!all->n) {
        *all = *d;
        return;
    }
    (void)sl_dfa_join(&both, j->g, all, d, op);
    sl_dfa_close(all);
    sl_dfa_close(d);
    *all = both;
}

static void narrow_by(struct sl_jschema *j, struct sl_dfa *all, const char *s,
                      size_t len, enum sl_regex_what what)
{
    struct sl_dfa d;

    if (!j->g->failed && sl_dfa_regex(&d, j->g, s, len, what))
        narrow(j, all, &d, SL_DFA_AND);
}

static void leave_out(struct sl_jschema *j, struct sl_dfa *all,
                      const json_t *list)
{
    const char **name = NULL;
    struct sl_dfa d;
    size_t n = 0;

    if (!list || j->g->failed)
        return;
    if (sl_mem_alloc(&name, json_array_size(list) + 1, sizeof(*name),
                     "a schema", NULL)) {
        sl_grammar_fail(j->g, SL_ENOMEM, "no memory for a schema");
        return;
    }
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_is_string(json_array_get(list, i)))
            name[n++] = json_string_value(json_array_get(list, i));
    if (sl_dfa_names(&d, j->g, name, n))
        narrow(j, all, &d, SL_DFA_AND_NOT);
    sl_mem_free(name);
}

/* All that it says, in one; the caller closes it. */
static bool language(struct sl_jschema *j, struct sl_dfa *out,
                     const struct says *x)
{
    struct sl_dfa d;

    *out = (struct sl_dfa){0};
    if (!(x->format || x->pattern || x->patterns))
        (void)sl_dfa_any(out, j->g);
    if (x->format)
        narrow_by(j, out, x->format, strlen(x->format), SL_REGEX_WHOLE);
    if (x->pattern)
        narrow_by(j, out, json_string_value(x->pattern),
                  json_string_length(x->pattern), SL_REGEX_FIND);
    for (size_t i = 0; i < json_array_size(x->patterns); i++) {
        const json_t *p = json_array_get(x->patterns, i);

        narrow_by(j, out, json_string_value(p), json_string_length(p),
                  SL_REGEX_FIND);
    }
    leave_out(j, out, x->not );
    if (!j->g->failed && (x->lo > 0 || x->hi != SL_GRAMMAR_MANY)) {
        (void)sl_dfa_count(&d, j->g, out, x->lo, x->hi);
        sl_dfa_close(out);
        *out = d;
    }
    if (j->g->failed)
        sl_dfa_close(out);
    return !j->g->failed;
}

bool sl_jstring_language(struct sl_jschema *j, struct sl_dfa *out,
                         const json_t *s, const char *path)
{
    struct says x;

    *out = (struct sl_dfa){0};
    return read_says(j, &x, s, path) && language(j, out, &x);
}

/* Texts that hold what could be taken for markup of calls (calls.c). */
static bool markup(struct sl_jschema *j, struct sl_dfa *out)
{
    static const char tag[] = "<[\\t\\n\\r ]*(/[\\t\\n\\r ]*)?"
                              "(parameter|function|tool_call)"
                              "[\\t\\n\\r ]*[=>]";

    return sl_dfa_regex(out, j->g, tag, sizeof(tag) - 1, SL_REGEX_FIND);
}

bool sl_jstring_is_raw(struct sl_jschema *j, const json_t *value)
{
    const char *s = json_string_value(value);
    struct sl_dfa d;
    bool is = true;

    if (strchr(s, '<') && markup(j, &d)) {
        is = !sl_dfa_has(&d, s, strlen(s));
        sl_dfa_close(&d);
    }
    return is;
}

/* All that it says; outside of JSON without markup. */
static uint32_t joined(struct sl_jschema *j, const struct says *x, bool json)
{
    struct sl_dfa d, tags;
    uint32_t n = 0;

    if (language(j, &d, x) && !json && markup(j, &tags))
        narrow(j, &d, &tags, SL_DFA_AND_NOT);
    if (!j->g->failed)
        n = sl_dfa_node(j->g, &d, json ? SL_REGEX_JSON : SL_REGEX_RAW);
    sl_dfa_close(&d);
    return n;
}

uint32_t sl_jstring_node(struct sl_jschema *j, const json_t *s,
                         const char *path, bool json)
{
    static const struct sl_range raw[] = {{0x20, '<' - 1},
                                          {'<' + 1, SL_GRAMMAR_MAX_CODE}};
    struct says x;
    uint32_t n;

    if (!read_says(j, &x, s, path))
        return 0;
    if (x.hi < x.lo)
        return sl_grammar_alt(j->g);
    if (x.n > 1 || x.patterns || x.not || (!json && x.pattern))
        return joined(j, &x, json);
    if (x.pattern)
        return sl_regex_node(j->g, json_string_value(x.pattern),
                             json_string_length(x.pattern), SL_REGEX_FIND,
                             SL_REGEX_JSON);
    if (x.format) /* none has markup in it */
        return sl_regex_node(j->g, x.format, strlen(x.format), SL_REGEX_WHOLE,
                             json ? SL_REGEX_JSON : SL_REGEX_RAW);
    n = json ? sl_jtext_character(j) : sl_grammar_set(j->g, raw, 2);
    return sl_grammar_repeat(j->g, n, x.lo, x.hi);
}

bool sl_jstring_allows(struct sl_jschema *j, const json_t *s,
                       const json_t *value, const char *path)
{
    struct sl_dfa d;
    bool ok = true;

    if (!json_is_string(value) ||
        !(json_object_get(s, "pattern") || json_object_get(s, "format") ||
          json_object_get(s, SL_JMERGE_PATTERNS)))
        return true;
    if (sl_jstring_language(j, &d, s, path))
        ok =
            sl_dfa_has(&d, json_string_value(value), json_string_length(value));
    sl_dfa_close(&d);
    return ok;
}
