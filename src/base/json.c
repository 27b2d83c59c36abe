/* base/json.c - JSON files through jansson; see json.h */
#include "base/json.h"

#include "base/file.h"

/* jansson's own limit is 2048 levels of C stack; ours is lower, so look at
 * the brackets first. Strings are skipped; the parser checks the rest. */
static bool too_deep(const char *s, size_t len)
{
    int depth = 0;
    bool in_str = false;

    for (size_t i = 0; i < len; i++) {
        if (in_str) {
            if (s[i] == '\\')
                i++;
            else if (s[i] == '"')
                in_str = false;
            continue;
        }
        if (s[i] == '"')
            in_str = true;
        else if (s[i] == '{' || s[i] == '[')
            depth++;
        else if (s[i] == '}' || s[i] == ']')
            depth--;
        if (depth > SL_JSON_DEPTH)
            return true;
    }
    return false;
}

static int parse(json_t **out, const char *s, size_t len, const char *what,
                 const char *remedy, struct sl_err *err)
{
    json_error_t je;
    json_t *j;

    if (too_deep(s, len))
        return sl_fail(err, SL_EFORMAT,
                       "%s nests deeper than %d levels, which is not read; %s",
                       what, SL_JSON_DEPTH, remedy);
    j = json_loadb(s, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &je);
    if (!j)
        return sl_fail(err, SL_EFORMAT,
                       "%s is not valid JSON: line %d, column %d: %s; %s", what,
                       je.line, je.column, je.text, remedy);
    *out = j;
    return 0;
}

int sl_json_parse(json_t **out, const char *s, size_t len, const char *what,
                  struct sl_err *err)
{
    return parse(out, s, len, what, "correct it, or fetch it again", err);
}

int sl_json_load(json_t **out, const char *path, size_t max,
                 struct sl_err *err)
{
    char *text = NULL;
    size_t len = 0;
    int rc = sl_file_read(&text, &len, path, max, err);

    if (rc)
        return rc;
    rc = parse(out, text, len, path, "fetch the file again", err);
    sl_file_free(text);
    return rc;
}

/* The member, or NULL for absent and null. */
static int member(const json_t **out, const json_t *obj, const char *key,
                  bool need, struct sl_err *err)
{
    const json_t *v = json_object_get(obj, key);

    if (json_is_null(v))
        v = NULL;
    if (!v && need)
        return sl_fail(err, SL_EFORMAT, "the field '%s' is missing", key);
    *out = v;
    return 0;
}

static int wrong(struct sl_err *err, const json_t *v, const char *key,
                 const char *want)
{
    char *text = json_dumps(v, JSON_ENCODE_ANY);
    int rc = sl_fail(err, SL_EFORMAT, "the field '%s' is %.200s and must be %s",
                     key, text ? text : "?", want);

    free(text); /* jansson's own */
    return rc;
}

int sl_json_i64(int64_t *out, const json_t *obj, const char *key, bool need,
                int64_t lo, int64_t hi, struct sl_err *err)
{
    const json_t *v = NULL;
    char want[80];
    int rc = member(&v, obj, key, need, err);

    if (rc || !v)
        return rc;
    if (!json_is_integer(v) || json_integer_value(v) < lo ||
        json_integer_value(v) > hi) {
        snprintf(want, sizeof(want), "a whole number from %lld to %lld",
                 (long long)lo, (long long)hi);
        return wrong(err, v, key, want);
    }
    *out = json_integer_value(v);
    return 0;
}

int sl_json_f64(double *out, const json_t *obj, const char *key, bool need,
                double lo, double hi, struct sl_err *err)
{
    const json_t *v = NULL;
    char want[80];
    int rc = member(&v, obj, key, need, err);

    if (rc || !v)
        return rc;
    if (!json_is_number(v) || !(json_number_value(v) >= lo) ||
        !(json_number_value(v) <= hi)) {
        snprintf(want, sizeof(want), "a number from %g to %g", lo, hi);
        return wrong(err, v, key, want);
    }
    *out = json_number_value(v);
    return 0;
}

int sl_json_bool(bool *out, const json_t *obj, const char *key, bool need,
                 struct sl_err *err)
{
    const json_t *v = NULL;
    int rc = member(&v, obj, key, need, err);

    if (rc || !v)
        return rc;
    if (!json_is_boolean(v))
        return wrong(err, v, key, "true or false");
    *out = json_is_true(v);
    return 0;
}

int sl_json_str(const char **out, const json_t *obj, const char *key, bool need,
                struct sl_err *err)
{
    const json_t *v = NULL;
    int rc = member(&v, obj, key, need, err);

    if (rc || !v)
        return rc;
    if (!json_is_string(v))
        return wrong(err, v, key, "a string");
    *out = json_string_value(v);
    return 0;
}
