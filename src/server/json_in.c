/* server/json_in.c - the JSON of a request; see json_in.h
 *
 * jansson refuses lone surrogates and has its own, deeper limit for nesting, so
 * one pass over the raw bytes comes first. It knows strings and brackets and no
 * more; whatever is wrong beyond that, jansson finds.
 */
#include "server/json_in.h"

#include "base/json.h"

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

/* False when it nests too deep. */
static bool prepare(char *s, size_t len)
{
    bool in_str = false;
    int depth = 0;

    for (size_t i = 0; i < len; i++) {
        char c = s[i];

        if (in_str && c == '\\')
            i += escape(s + i + 1, len - i - 1);
        else if (c == '"')
            in_str = !in_str;
        else if (in_str)
            continue;
        else if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']')
            depth--;
        if (depth > SL_JSON_DEPTH)
            return false;
    }
    return true;
}

int sl_json_in(json_t **out, char *text, size_t len, struct sl_refusal *r)
{
    json_error_t je;
    json_t *j;

    if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) {
        text += 3;
        len -= 3;
    }
    if (!prepare(text, len))
        return sl_refuse(r, 400, NULL, NULL,
                         "the body nests deeper than %d levels", SL_JSON_DEPTH);
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
