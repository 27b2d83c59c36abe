/* sample/jstring.c - strings of a JSON schema */
#include "sample/jstring.h"

#include "sample/regex.h"

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

uint32_t sl_jstring_node(struct sl_jschema *j, const json_t *s,
                         const char *path, bool json)
{
    static const struct sl_range raw[] = {{0x20, '<' - 1},
                                          {'<' + 1, SL_GRAMMAR_MAX_CODE}};
    const json_t *pattern = json_object_get(s, "pattern");
    const json_t *format = json_object_get(s, "format");
    uint32_t lo = sl_jtext_count(j, s, "minLength", 0, path), n;
    uint32_t hi = sl_jtext_count(j, s, "maxLength", SL_GRAMMAR_MANY, path);
    enum sl_regex_write how = json ? SL_REGEX_JSON : SL_REGEX_RAW;
    const char *text = format_of(json_string_value(format));

    if ((pattern || format) && (lo > 0 || hi != SL_GRAMMAR_MANY))
        return sl_jtext_refuse(
            j, path, lo > 0 ? "minLength" : "maxLength",
            "beside 'pattern' or 'format' is not supported; put the "
            "length into the pattern");
    if (pattern && format)
        return sl_jtext_refuse(
            j, path, "format",
            "beside 'pattern' is not supported; leave one out");
    if (pattern) {
        if (!json_is_string(pattern))
            return sl_jtext_refuse(j, path, "pattern", "must be a string");
        n = sl_regex_node(j->g, json_string_value(pattern),
                          json_string_length(pattern), SL_REGEX_FIND, how);
        return n;
    }
    if (format && !text)
        return sl_jtext_refuse(
            j, path, "format",
            "has a value that is not supported; date, time, "
            "date-time, duration, uuid, email, hostname, ipv4, ipv6 "
            "and uri are");
    if (format)
        return sl_regex_node(j->g, text, strlen(text), SL_REGEX_WHOLE, how);
    if (hi < lo)
        return sl_grammar_alt(j->g);
    n = json ? sl_jtext_character(j) : sl_grammar_set(j->g, raw, 2);
    return sl_grammar_repeat(j->g, n, lo, hi);
}
