/* bundle/shape.c - what a JSON object must look like; see shape.h */
#include "bundle/shape.h"

#include <stdarg.h>

#include "bundle/name.h"

#define MAX_STR 4096  /* bytes of a text that has no limit of its own */
#define SHOW_VALUE 80 /* bytes of a refused value in a message */

size_t sl_walk_key(struct sl_walk *w, const char *key)
{
    size_t old = w->len, cap = sizeof(w->path);
    int n = snprintf(w->path + old, cap - old, "%s%.100s", old ? "." : "", key);

    w->len = n > 0 ? sl_min(old + (size_t)n, cap - 1) : old;
    return old;
}

size_t sl_walk_index(struct sl_walk *w, size_t i)
{
    size_t old = w->len, cap = sizeof(w->path);
    int n = snprintf(w->path + old, cap - old, "[%zu]", i);

    w->len = n > 0 ? sl_min(old + (size_t)n, cap - 1) : old;
    return old;
}

void sl_walk_back(struct sl_walk *w, size_t len)
{
    w->len = len;
    w->path[len] = 0;
}

int sl_walk_fail(struct sl_walk *w, const char *fmt, ...)
{
    char text[500];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (!w->len)
        return sl_fail(w->err, w->code, "%s: it %s", w->file, text);
    return sl_fail(w->err, w->code, "%s: '%s' %s", w->file, w->path, text);
}

int sl_walk_wrong(struct sl_walk *w, const json_t *v, const char *want)
{
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_ENSURE_ASCII |
                                   JSON_COMPACT | JSON_REAL_PRECISION(9));
    const char *s = text ? text : "?";
    int rc = sl_walk_fail(w, "is %.*s%s and must be %s", SHOW_VALUE, s,
                          strlen(s) > SHOW_VALUE ? "..." : "", want);

    free(text); /* jansson's own */
    return rc;
}

bool sl_shape_is_word(const char *words, const char *s)
{
    size_t n = strlen(s);

    for (const char *p = words; *p;) {
        size_t len = strcspn(p, "|");

        if (len == n && !memcmp(p, s, n))
            return true;
        p += len + (p[len] == '|');
    }
    return false;
}

/* ------------------------------------------------------------ scalars */

/* What a text of this type must be, or NULL when it is. */
static const char *text_flaw(const struct sl_walk *w, const struct sl_shape *s,
                             const char *t)
{
    switch (s->type) {
    case SL_SHAPE_SLUG:
        return sl_name_is_slug(t) ? NULL
                                  : "a short name of lower-case letters, "
                                    "digits, '.', '_' and '-'";
    case SL_SHAPE_REPO:
        return sl_name_is_repo(t) ? NULL : "a repository, OWNER/NAME";
    case SL_SHAPE_REF:
        if (w->built)
            return sl_name_is_hex(t, SL_NAME_COMMIT)
                       ? NULL
                       : "a commit of 40 lower-case hexadecimal digits";
        return sl_name_is_rev(t) ? NULL : "a branch, a tag or a commit";
    case SL_SHAPE_SHA256:
        return sl_name_is_hex(t, SL_NAME_SHA256)
                   ? NULL
                   : "64 lower-case hexadecimal digits";
    case SL_SHAPE_SHA1:
        return sl_name_is_hex(t, SL_NAME_COMMIT)
                   ? NULL
                   : "40 lower-case hexadecimal digits";
    default:
        return NULL;
    }
}

static int check_text(struct sl_walk *w, const struct sl_shape *s,
                      const json_t *v)
{
    const char *t = json_string_value(v), *flaw;
    size_t max = s->type == SL_SHAPE_STR && s->hi > 0 ? (size_t)s->hi : MAX_STR;

    if (!t)
        return sl_walk_wrong(w, v, "a string");
    if (json_string_length(v) > max)
        return sl_walk_fail(w, "has %zu bytes and may have %zu",
                            json_string_length(v), max);
    if (s->type == SL_SHAPE_PATH) {
        flaw = sl_name_path_flaw(t);
        return flaw ? sl_walk_fail(w, "is the path '%.100s', which %s", t, flaw)
                    : 0;
    }
    flaw = text_flaw(w, s, t);
    return flaw ? sl_walk_wrong(w, v, flaw) : 0;
}

static int check_number(struct sl_walk *w, const struct sl_shape *s,
                        const json_t *v)
{
    bool whole = s->type == SL_SHAPE_INT;
    double x = json_number_value(v);
    char want[100];

    if ((whole ? json_is_integer(v) : json_is_number(v)) && x >= s->lo &&
        x <= s->hi)
        return 0;
    snprintf(want, sizeof(want), "a %snumber from %.16g to %.16g",
             whole ? "whole " : "", s->lo, s->hi);
    return sl_walk_wrong(w, v, want);
}

static int check_word(struct sl_walk *w, const struct sl_shape *s,
                      const json_t *v)
{
    char want[300];

    if (json_is_string(v) && sl_shape_is_word(s->words, json_string_value(v)))
        return 0;
    snprintf(want, sizeof(want), "one of %s", s->words);
    return sl_walk_wrong(w, v, want);
}

/* ---------------------------------------------------------- containers */

static int check_one(struct sl_walk *w, const struct sl_shape *s,
                     const json_t *v);

static int check_array(struct sl_walk *w, const struct sl_shape *s,
                       enum sl_shape_type item, double lo, const json_t *v)
{
    const struct sl_shape one = {.key = s->key,
                                 .type = item,
                                 .words = s->words,
                                 .sub = s->sub,
                                 .lo = 0,
                                 .hi = item == SL_SHAPE_INT ? 0x1p53 - 1 : 0};
    size_t n = json_array_size(v);
    int rc = 0;

    if (!json_is_array(v))
        return sl_walk_wrong(w, v, "an array");
    if ((double)n < lo || (double)n > s->hi)
        return sl_walk_fail(w, "has %zu entries and may have %.0f to %.0f", n,
                            lo, s->hi);
    for (size_t i = 0; !rc && i < n; i++) {
        size_t old = sl_walk_index(w, i);

        rc = check_one(w, &one, json_array_get(v, i));
        if (!rc)
            sl_walk_back(w, old);
    }
    return rc;
}

static int check_map(struct sl_walk *w, const struct sl_shape *s,
                     const json_t *v)
{
    size_t n = json_object_size(v);
    const char *key;
    json_t *item;

    if (!json_is_object(v))
        return sl_walk_wrong(w, v, "an object");
    if (n < 1 || (double)n > s->hi)
        return sl_walk_fail(w, "has %zu entries and may have 1 to %.0f", n,
                            s->hi);
    json_object_foreach((json_t *)(uintptr_t)v, key, item)
    {
        size_t old = sl_walk_key(w, key);
        int rc = sl_name_is_slug(key)
                     ? 0
                     : sl_walk_fail(w, "is no short name of lower-case "
                                       "letters, digits, '.', '_' and '-'");

        if (!rc && !json_is_object(item))
            rc = sl_walk_wrong(w, item, "an object");
        if (!rc)
            rc = sl_shape_walk(w, s->sub, item);
        if (rc)
            return rc;
        sl_walk_back(w, old);
    }
    return 0;
}

static int check_one(struct sl_walk *w, const struct sl_shape *s,
                     const json_t *v)
{
    switch (s->type) {
    case SL_SHAPE_STR:
    case SL_SHAPE_SLUG:
    case SL_SHAPE_REPO:
    case SL_SHAPE_REF:
    case SL_SHAPE_SHA256:
    case SL_SHAPE_SHA1:
    case SL_SHAPE_PATH:
        return check_text(w, s, v);
    case SL_SHAPE_INT:
    case SL_SHAPE_NUM:
        return check_number(w, s, v);
    case SL_SHAPE_BOOL:
        return json_is_boolean(v) ? 0 : sl_walk_wrong(w, v, "true or false");
    case SL_SHAPE_WORD:
        return check_word(w, s, v);
    case SL_SHAPE_WORDS:
        return check_array(w, s, SL_SHAPE_WORD, 1, v);
    case SL_SHAPE_STRS:
        return check_array(w, s, SL_SHAPE_STR, 0, v);
    case SL_SHAPE_INTS:
        return check_array(w, s, SL_SHAPE_INT, 0, v);
    case SL_SHAPE_OBJ:
        return json_is_object(v) ? sl_shape_walk(w, s->sub, v)
                                 : sl_walk_wrong(w, v, "an object");
    case SL_SHAPE_OBJS:
        return check_array(w, s, SL_SHAPE_OBJ, 0, v);
    case SL_SHAPE_MAP:
        return check_map(w, s, v);
    case SL_SHAPE_ANY:
        return 0;
    case SL_SHAPE_CALL:
        return s->call(w, s, v);
    }
    return 0;
}

/* -------------------------------------------------------------- walk */

static const struct sl_shape *find(const struct sl_shape *table,
                                   const char *key)
{
    for (; table->key; table++)
        if (!strcmp(table->key, key))
            return table;
    return NULL;
}

static int unknown(struct sl_walk *w, const char *key)
{
    size_t old = sl_walk_key(w, key);
    int rc = 0;

    if (strncmp(key, "x_", 2) == 0 && !(w->inherit & SL_SHAPE_STRICT)) {
        /* Others' keys are kept and never read. */
    } else if (w->newer && !(w->inherit & SL_SHAPE_STRICT)) {
        if (w->unknown)
            sl_buf_fmt(w->unknown, "%s%s", w->unknown->len ? ", " : "",
                       w->path);
    } else {
        rc = sl_walk_fail(w, "is not known here; remove it");
    }
    if (!rc)
        sl_walk_back(w, old);
    return rc;
}

static int check_present(struct sl_walk *w, const struct sl_shape *table,
                         const json_t *obj)
{
    for (; table->key; table++) {
        unsigned need = SL_SHAPE_NEED | (w->built ? SL_SHAPE_NEED_BUILT : 0u);

        if (!(table->flags & need) || (w->inherit & SL_SHAPE_NULLS) ||
            json_object_get(obj, table->key))
            continue;
        sl_walk_key(w, table->key);
        return sl_walk_fail(w, "is missing");
    }
    return 0;
}

int sl_shape_walk(struct sl_walk *w, const struct sl_shape *table,
                  const json_t *obj)
{
    unsigned inherit = w->inherit;
    const char *key;
    json_t *v;
    int rc = 0;

    json_object_foreach((json_t *)(uintptr_t)obj, key, v)
    {
        const struct sl_shape *s = find(table, key);
        size_t old;

        if (!s) {
            rc = unknown(w, key);
            if (rc)
                return rc;
            continue;
        }
        old = sl_walk_key(w, key);
        if (!w->built && (s->flags & SL_SHAPE_ONLY_BUILT))
            return sl_walk_fail(w, "is written by 'sluice build' alone; "
                                   "remove it");
        w->inherit |= s->flags & (SL_SHAPE_STRICT | SL_SHAPE_NULLS);
        if (!json_is_null(v) || !(w->inherit & SL_SHAPE_NULLS))
            rc = check_one(w, s, v);
        w->inherit = inherit;
        if (rc)
            return rc;
        sl_walk_back(w, old);
    }
    return check_present(w, table, obj);
}
