/* server/json_in.c - the JSON of a request; see json_in.h
 *
 * jansson refuses lone surrogates and has its own, deeper limit for nesting, so
 * one pass over the raw bytes comes first. It knows strings, brackets, numbers
 * and the outermost names, and no more; whatever is wrong beyond that, jansson
 * finds.
 */
#include "server/json_in.h"

#include "base/json.h"
#include "base/num.h"

static int hex4(const char *s, size_t left, unsigned *out)
{
    unsigned v = 0;

    if (left < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = s[i], low = (char)(c | 0x20);

        if (c >= '0' && c <= '9')
            v = v * 16 + (unsigned)(c - '0');
        else if (low >= 'a' && low <= 'f')
            v = v * 16 + (unsigned)(low - 'a') + 10;
        else
            return -1;
    }
    *out = v;
    return 0;
}

/* s is behind a backslash. Returns the bytes of the escape that were judged. */
static size_t escape(char *s, size_t left)
{
    unsigned a, b;

    if (left == 0 || s[0] != 'u' || hex4(s + 1, left - 1, &a))
        return left ? 1 : 0;
    if (a >= 0xd800 && a < 0xdc00 && left >= 11 && s[5] == '\\' &&
        s[6] == 'u' && !hex4(s + 7, left - 7, &b) && b >= 0xdc00 && b < 0xe000)
        return 11;
    if (a >= 0xd800 && a < 0xe000)
        memcpy(s + 1, "fffd", 4);
    return 5;
}

#define MAX_DIGITS 308 /* of a whole number that is a double in any case */
#define HUGE_TEXT "9e307" /* no shorter text is larger than all doubles */

/* A number begins at s; returns its bytes. Larger ones than jansson reads are
 * written anew, in no more bytes: the last two digits of an integer are "e2". */
static size_t number(char *s, size_t left)
{
    size_t n = strspn(s, "+-.0123456789eE"), at = s[0] == '-', n_digit;
    int64_t whole;
    double x;

    n = sl_min(n, left);
    n_digit = sl_min(strspn(s + at, "0123456789"), n - at);
    if (at + n_digit < n) {
        if (n <= MAX_DIGITS && !memchr(s, 'e', n) && !memchr(s, 'E', n))
            return n;
        x = strtod(s, NULL); /* the locale is C, here as in jansson */
        if (x >= -1.7e308 && x <= 1.7e308)
            return n;
    } else if (n_digit <= MAX_DIGITS) {
        if (sl_num_i64(&whole, s, n, INT64_MIN, INT64_MAX, "", NULL) &&
            n_digit > 2)
            memcpy(s + n - 2, "e2", 2);
        return n;
    }
    if (n - at >= strlen(HUGE_TEXT)) {
        memset(s + at, ' ', n - at);
        memcpy(s + at, HUGE_TEXT, strlen(HUGE_TEXT));
    }
    return n;
}

/* Fields of the body that say what the answer must look like. One that is much
 * larger than what is read of a shape is refused before its values are made. */
static const char *const shape_field[] = {
    "grammar",      "guided_choice", "guided_grammar",  "guided_json",
    "guided_regex", "json_schema",   "response_format", "structured_outputs",
};
#define MAX_SHAPE ((size_t)2 << 20) /* bytes: twice SL_JSCHEMA_MAX_TEXT */

static const char *shape_of(const char *name, size_t len)
{
    for (size_t i = 0; i < SL_COUNTOF(shape_field); i++)
        if (strlen(shape_field[i]) == len && !memcmp(shape_field[i], name, len))
            return shape_field[i];
    return NULL;
}

/* Where the pass is in the members of the body. */
struct at {
    size_t name, n_name; /* the last string of the outermost object */
    const char *field;   /* whose value is read, if it is one of these */
    size_t value;
};

static int prepare(char *s, size_t len, struct sl_refusal *r)
{
    struct at at = {0};
    bool in_str = false;
    int depth = 0;

    for (size_t i = 0; i < len; i++) {
        char c = s[i];

        if (at.field && i - at.value > MAX_SHAPE)
            return sl_refuse(r, 400, "invalid_value", at.field,
                             "%s has more than %zu bytes, and less is read of "
                             "a shape; make it shorter",
                             at.field, MAX_SHAPE);
        if (in_str && c == '\\') {
            i += escape(s + i + 1, len - i - 1);
        } else if (c == '"') {
            if (depth == 1 && in_str)
                at.n_name = i - at.name;
            in_str = !in_str;
            if (depth == 1 && in_str)
                at.name = i + 1;
        } else if (in_str) {
            continue;
        } else if (c == '-' || (c >= '0' && c <= '9')) {
            i += number(s + i, len - i) - 1;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            depth--;
        } else if (c == ':' && depth == 1) {
            at.field = shape_of(s + at.name, at.n_name);
            at.value = i + 1;
        } else if (c == ',' && depth == 1) {
            at.field = NULL;
        }
        if (depth > SL_JSON_DEPTH)
            return sl_refuse(r, 400, NULL, NULL,
                             "the body nests deeper than %d levels",
                             SL_JSON_DEPTH);
    }
    return 0;
}

int sl_json_in(json_t **out, char *text, size_t len, struct sl_refusal *r)
{
    json_error_t je;
    json_t *j;

    if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) {
        text += 3;
        len -= 3;
    }
    if (prepare(text, len, r))
        return -1;
    j = json_loadb(len ? text : "", len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &je);
    if (!j)
        return sl_refuse(r, 400, NULL, NULL,
                         "the body is not valid JSON: line %d, column %d: %s",
                         je.line, je.column, je.text);
    if (!json_is_object(j)) {
        json_decref(j);
        return sl_refuse(r, 400, "invalid_type", NULL,
                         "the body must be a JSON object");
    }
    *out = j;
    return 0;
}
