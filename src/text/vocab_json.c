/* text/vocab_json.c - the two large lists of tokenizer.json
 *
 * jansson needs 0.9 s for the 20 MB of a real file (measured: it makes a
 * million objects and frees them again), more than everything else together,
 * and a command line waits for it. So these two lists, whose form is fixed, are
 * read here; everything whose form varies stays with jansson.
 *
 *   vocab   { "text" : id , ... }
 *   merges  [ "a b" , ["a", "b"] , ... ]
 *
 * A string without a backslash is borrowed where it stands. Others are written
 * to `text` without their escapes, which never makes them longer. Whether a
 * string is valid UTF-8 is checked where it is used (vocab.c).
 *
 * sl_vocab_json_find only looks at brackets and strings. What it gets wrong
 * in a text that is no JSON, the two readers and jansson notice.
 */
#include "text/vocab_json.h"

#include "base/mem.h"
#include "base/utf8.h"

#define MAX_ID_DIGITS 9

/* ---- finding the lists ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static const char *skip_blank(const char *p, const char *end)
{
    while (p < end && is_blank(*p))
        p++;
    return p;
}

/* Behind the string that starts at p; end if it does not end. */
static const char *skip_string(const char *p, const char *end)
{
    for (p++; p < end; p++) {
        if (*p == '\\')
            p++;
        else if (*p == '"')
            return p + 1;
    }
    return end;
}

/* Behind the value that starts at p. */
static const char *skip_value(const char *p, const char *end)
{
    size_t depth = 0;

    while (p < end) {
        if (*p == '"') {
            p = skip_string(p, end);
        } else if (*p == '{' || *p == '[') {
            depth++;
            p++;
        } else if (*p == '}' || *p == ']') {
            if (depth == 0)
                return p;
            depth--;
            p++;
        } else if (depth == 0 && (*p == ',' || is_blank(*p))) {
            return p;
        } else {
            p++;
            continue; /* inside of a number or a word */
        }
        if (depth == 0)
            return p;
    }
    return end;
}

/* The next member of the object that p stands in: its key with quotes and the
 * start of its value. NULL at the end, or where there is no member. */
static const char *next_member(const char *p, const char *end,
                               struct sl_span *key)
{
    p = skip_blank(p, end);
    if (p < end && (*p == '{' || *p == ','))
        p = skip_blank(p + 1, end);
    if (p == end || *p != '"')
        return NULL;
    key->p = p;
    p = skip_string(p, end);
    key->len = (size_t)(p - key->p);
    p = skip_blank(p, end);
    if (p == end || *p != ':')
        return NULL;
    return skip_blank(p + 1, end);
}

static bool is_key(struct sl_span key, const char *quoted)
{
    return key.len == strlen(quoted) && memcmp(key.p, quoted, key.len) == 0;
}

/* The value of one member of an object; {NULL, 0} if there is none. */
static struct sl_span member(struct sl_span object, const char *quoted)
{
    const char *p, *end;
    struct sl_span key;

    if (object.len == 0)
        return (struct sl_span){0};
    end = object.p + object.len;
    p = skip_blank(object.p, end);
    if (p == end || *p != '{')
        return (struct sl_span){0};
    for (p = next_member(p, end, &key); p; p = next_member(p, end, &key)) {
        const char *value = p;

        p = skip_value(p, end);
        if (is_key(key, quoted))
            return (struct sl_span){value, (size_t)(p - value)};
    }
    return (struct sl_span){0};
}

void sl_vocab_json_find(const char *s, size_t len, struct sl_span *vocab,
                        struct sl_span *merges)
{
    struct sl_span model = member((struct sl_span){s, len}, "\"model\"");

    *vocab = member(model, "\"vocab\"");
    *merges = member(model, "\"merges\"");
}

/* ---- reading them ---- */

int sl_vocab_json_init(struct sl_vocab_json *r, struct sl_span value,
                       const char *what, struct sl_err *err)
{
    *r = (struct sl_vocab_json){
        .what = what,
        .start = value.p,
        .p = value.p,
        .end = value.p + value.len,
    };
    return sl_mem_alloc(&r->text, value.len, 1, "a vocabulary", err);
}

void sl_vocab_json_deinit(struct sl_vocab_json *r)
{
    sl_mem_free(r->text);
    *r = (struct sl_vocab_json){0};
}

static int malformed(const struct sl_vocab_json *r, const char *want,
                     struct sl_err *err)
{
    return sl_fail(err, SL_EFORMAT,
                   "%s is malformed at its byte %zu: %s is missing; fetch the "
                   "file again",
                   r->what, (size_t)(r->p - r->start), want);
}

/* Step over `c` and the blanks around it; false if something else is there. */
static bool take(struct sl_vocab_json *r, char c)
{
    r->p = skip_blank(r->p, r->end);
    if (r->p == r->end || *r->p != c)
        return false;
    r->p = skip_blank(r->p + 1, r->end);
    return true;
}

/* Four hexadecimal digits at p. */
static bool hex4(const char *p, const char *end, uint32_t *out)
{
    uint32_t v = 0;

    if (end - p < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = p[i], l = (char)(c | 0x20);

        if (c >= '0' && c <= '9')
            v = v << 4 | (uint32_t)(c - '0');
        else if (l >= 'a' && l <= 'f')
            v = v << 4 | (uint32_t)(l - 'a' + 10);
        else
            return false;
    }
    *out = v;
    return true;
}

/* What stands behind \u at r->p; a pair of surrogates is one character. */
static bool unicode_escape(struct sl_vocab_json *r, uint32_t *cp)
{
    uint32_t low;

    if (!hex4(r->p, r->end, cp))
        return false;
    r->p += 4;
    if (*cp < 0xd800 || *cp > 0xdfff)
        return *cp != 0;
    if (*cp > 0xdbff || r->end - r->p < 6 || r->p[0] != '\\' ||
        r->p[1] != 'u' || !hex4(r->p + 2, r->end, &low) || low < 0xdc00 ||
        low > 0xdfff)
        return false;
    r->p += 6;
    *cp = 0x10000 + ((*cp - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

/* One escape; r->p stands behind the backslash. */
static bool escape(struct sl_vocab_json *r)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at;
    uint32_t cp;

    if (r->p == r->end)
        return false;
    if (*r->p == 'u') {
        r->p++;
        if (!unicode_escape(r, &cp))
            return false;
        r->used += sl_utf8_put(r->text + r->used, cp);
        return true;
    }
    at = memchr(from, *r->p, sizeof(from) - 1);
    if (!at)
        return false;
    r->text[r->used++] = to[at - from];
    r->p++;
    return true;
}

/* The string from `from`, in which an escape was met at r->p. */
static bool escaped_string(struct sl_vocab_json *r, const char *from,
                           struct sl_span *out)
{
    char *dst = r->text + r->used;

    memcpy(dst, from, (size_t)(r->p - from));
    r->used += (size_t)(r->p - from);
    while (r->p < r->end && *r->p != '"') {
        unsigned char c = (unsigned char)*r->p++;

        if (c < 0x20 || (c == '\\' && !escape(r)))
            return false;
        if (c != '\\')
            r->text[r->used++] = (char)c;
    }
    *out = (struct sl_span){dst, (size_t)(r->text + r->used - dst)};
    return r->p < r->end;
}

/* A string, and the blanks behind it. */
static int string(struct sl_vocab_json *r, struct sl_span *out,
                  struct sl_err *err)
{
    const char *from;

    if (r->p == r->end || *r->p != '"')
        return malformed(r, "a string", err);
    from = ++r->p;
    while (r->p < r->end && *r->p != '"' && *r->p != '\\' &&
           (unsigned char)*r->p >= 0x20)
        r->p++;
    *out = (struct sl_span){from, (size_t)(r->p - from)};
    if (r->p < r->end && *r->p == '\\' && !escaped_string(r, from, out))
        return malformed(r, "a valid escape", err);
    if (r->p == r->end || *r->p != '"')
        return malformed(r, "the end of a string", err);
    r->p = skip_blank(r->p + 1, r->end);
    return 0;
}

/* Step to the next item. 1 if there is one, 0 behind the closing bracket. */
static int next_item(struct sl_vocab_json *r, char open, char close,
                     struct sl_err *err)
{
    if (!r->begun) {
        r->begun = true;
        if (!take(r, open))
            return malformed(r, "the opening bracket", err);
        if (r->p == r->end || *r->p != close)
            return 1;
    } else if (take(r, ',')) {
        return 1;
    }
    if (!take(r, close))
        return malformed(r, "a comma or the closing bracket", err);
    if (r->p != r->end)
        return malformed(r, "the end", err);
    return 0;
}

int sl_vocab_json_token(struct sl_vocab_json *r, struct sl_span *text,
                        int64_t *id, struct sl_err *err)
{
    int n = next_item(r, '{', '}', err), rc;
    int64_t v = 0;
    int digits = 0;

    if (n <= 0)
        return n;
    rc = string(r, text, err);
    if (rc)
        return rc;
    if (!take(r, ':'))
        return malformed(r, "a colon", err);
    for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++, digits++) {
        if (digits == MAX_ID_DIGITS)
            return malformed(r, "an id of at most nine digits", err);
        v = v * 10 + (*r->p - '0');
    }
    if (digits == 0)
        return malformed(r, "an id, a whole number from 0 on", err);
    *id = v;
    return 1;
}

int sl_vocab_json_merge(struct sl_vocab_json *r, struct sl_merge_text *m,
                        struct sl_err *err)
{
    int n = next_item(r, '[', ']', err), rc;

    if (n <= 0)
        return n;
    *m = (struct sl_merge_text){0};
    if (r->p < r->end && *r->p == '"') {
        rc = string(r, &m->a, err);
        return rc ? rc : 1;
    }
    if (!take(r, '['))
        return malformed(r, "a merge, \"a b\" or [\"a\", \"b\"]", err);
    rc = string(r, &m->a, err);
    if (rc)
        return rc;
    if (!take(r, ','))
        return malformed(r, "the second token of a merge", err);
    rc = string(r, &m->b, err);
    if (rc)
        return rc;
    if (!take(r, ']') || m->a.len == 0 || m->b.len == 0)
        return malformed(r, "a merge of two tokens", err);
    return 1;
}
