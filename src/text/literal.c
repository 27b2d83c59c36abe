/* text/literal.c - JSON or Python literals, to JSON; see literal.h
 *
 * One pass from text to text, with a stack of brackets instead of recursion and
 * no tree: order, digits and unknown members survive, and the depth is bounded
 * whatever the text says. The stack carries the place in the schema along.
 */
#include "text/literal.h"

#include "base/utf8.h"
#include "text/scalar.h"

#define MAX_STRING ((size_t)64 << 20) /* bytes of one string; see parse.h */

struct level {
    char close; /* of the input: } ] or ) */
    struct sl_schema schema;
};

struct stack {
    struct level v[SL_LITERAL_MAX_DEPTH];
    size_t n;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void sl_literal_space(struct sl_literal *r)
{
    while (r->at < r->len && is_space(r->s[r->at]))
        r->at++;
}

bool sl_literal_take(struct sl_literal *r, char c)
{
    sl_literal_space(r);
    if (r->at == r->len || r->s[r->at] != c)
        return false;
    r->at++;
    return true;
}

/* n hexadecimal digits; false when there are not so many. */
static bool hex(struct sl_literal *r, size_t n, uint32_t *out)
{
    uint32_t v = 0;

    if (r->len - r->at < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = r->s[r->at + i];

        if (c >= '0' && c <= '9')
            v = v << 4 | (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            v = v << 4 | (uint32_t)((c | 32) - 'a' + 10);
        else
            return false;
    }
    r->at += n;
    *out = v;
    return true;
}

static void put_char(struct sl_buf *out, uint32_t cp)
{
    char utf8[4];

    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
        cp = 0xfffd; /* half of a pair is no character */
    sl_buf_add(out, utf8, sl_utf8_put(utf8, cp));
}

/* \uXXXX, and the second half of a pair when it follows. */
static bool unicode(struct sl_literal *r, struct sl_buf *out)
{
    uint32_t hi, lo;
    size_t at;

    if (!hex(r, 4, &hi))
        return false;
    at = r->at;
    if (hi >= 0xd800 && hi < 0xdc00 && r->len - at >= 6 && r->s[at] == '\\' &&
        r->s[at + 1] == 'u') {
        r->at += 2;
        if (hex(r, 4, &lo) && lo >= 0xdc00 && lo < 0xe000)
            hi = 0x10000 + ((hi - 0xd800) << 10) + (lo - 0xdc00);
        else
            r->at = at;
    }
    put_char(out, hi);
    return true;
}

/* Behind a backslash. What is no escape stays as it is, as in Python. */
static bool escape(struct sl_literal *r, struct sl_buf *out)
{
    static const char from[] = "\"'\\/bfnrtav", to[] = "\"'\\/\b\f\n\r\t\a\v";
    char c = r->s[r->at++];
    const char *hit = c ? strchr(from, c) : NULL;
    uint32_t cp;

    if (hit) {
        sl_buf_byte(out, to[hit - from]);
        return true;
    }
    if (c == 'u')
        return unicode(r, out);
    if (c == 'x' || c == 'U') {
        if (!hex(r, c == 'x' ? 2 : 8, &cp))
            return false;
        put_char(out, cp);
        return true;
    }
    sl_buf_byte(out, '\\');
    r->at--;
    return true;
}

bool sl_literal_string(struct sl_literal *r, struct sl_buf *out)
{
    char quote;

    sl_literal_space(r);
    if (r->at == r->len || (r->s[r->at] != '"' && r->s[r->at] != '\''))
        return false;
    quote = r->s[r->at++];
    while (r->at < r->len) {
        size_t from = r->at;

        while (r->at < r->len && r->s[r->at] != quote && r->s[r->at] != '\\')
            r->at++;
        sl_buf_add(out, r->s + from, r->at - from);
        if (r->at == r->len)
            return false;
        if (r->s[r->at++] == quote)
            return true;
        if (r->at == r->len || !escape(r, out))
            return false;
    }
    return false;
}

/* ---- scalars ---- */

/* A string in a place where none is allowed may be another scalar. */
static void write_string(struct sl_buf *out, const char *s, size_t len,
                         unsigned types)
{
    if (types && !(types & SL_SCHEMA_STRING)) {
        if ((types & SL_SCHEMA_NULL) && sl_scalar_null(out, s, len))
            return;
        if ((types & SL_SCHEMA_INTEGER) && sl_scalar_integer(out, s, len))
            return;
        if ((types & SL_SCHEMA_NUMBER) && sl_scalar_number(out, s, len))
            return;
        if ((types & SL_SCHEMA_BOOLEAN) && sl_scalar_boolean(out, s, len))
            return;
    }
    sl_scalar_string(out, s, len);
}

static bool read_string(struct sl_literal *r, struct sl_buf *out,
                        unsigned types)
{
    struct sl_buf text;
    bool ok;

    sl_buf_init(&text, MAX_STRING);
    ok = sl_literal_string(r, &text) && !text.failed;
    if (ok)
        write_string(out, text.p ? text.p : "", text.len, types);
    sl_buf_deinit(&text);
    return ok;
}

/* A number that is not wanted as one. */
static void write_number(struct sl_buf *out, const char *s, size_t len,
                         unsigned types)
{
    unsigned num = types & (SL_SCHEMA_INTEGER | SL_SCHEMA_NUMBER);

    if (num == SL_SCHEMA_INTEGER && sl_scalar_integer(out, s, len))
        return;
    if (types && !num) {
        if ((types & SL_SCHEMA_BOOLEAN) && sl_scalar_boolean(out, s, len))
            return;
        if (types & SL_SCHEMA_STRING) {
            sl_scalar_string(out, s, len);
            return;
        }
    }
    sl_buf_add(out, s, len);
}

static bool read_word(struct sl_literal *r, struct sl_buf *out, unsigned types)
{
    static const struct {
        const char *word, *json;
    } words[] = {{"true", "true"},   {"True", "true"}, {"false", "false"},
                 {"False", "false"}, {"null", "null"}, {"None", "null"}};
    const char *s = r->s + r->at;
    size_t len = 0;
    bool quoted = (types & SL_SCHEMA_STRING) && !(types & SL_SCHEMA_BOOLEAN);

    while (r->at + len < r->len &&
           (strchr("+-._", s[len]) || (s[len] >= '0' && s[len] <= '9') ||
            ((s[len] | 32) >= 'a' && (s[len] | 32) <= 'z')) &&
           s[len])
        len++;
    r->at += len;
    if (sl_scalar_is_number(s, len)) {
        write_number(out, s, len, types);
        return true;
    }
    for (size_t i = 0; i < SL_COUNTOF(words); i++) {
        if (len != strlen(words[i].word) || memcmp(s, words[i].word, len) != 0)
            continue;
        if (quoted && words[i].json[0] != 'n')
            sl_buf_fmt(out, "\"%s\"", words[i].json);
        else
            sl_buf_str(out, words[i].json);
        return true;
    }
    return false;
}

static bool read_scalar(struct sl_literal *r, struct sl_schema schema,
                        struct sl_buf *out)
{
    unsigned types = schema.node ? sl_schema_types(schema) : 0;

    if (r->s[r->at] == '"' || r->s[r->at] == '\'')
        return read_string(r, out, types);
    return read_word(r, out, types);
}

/* ---- brackets ---- */

static void pop(struct stack *st, struct sl_buf *out)
{
    st->n--;
    sl_buf_byte(out, st->v[st->n].close == '}' ? '}' : ']');
}

/* A key and its colon; *schema becomes that of the member. */
static bool read_key(struct sl_literal *r, struct sl_schema *schema,
                     struct sl_buf *out)
{
    struct sl_buf key;
    bool ok;

    sl_buf_init(&key, MAX_STRING);
    ok = sl_literal_string(r, &key) && sl_literal_take(r, ':') && !key.failed;
    if (ok) {
        const char *s = key.p ? key.p : "";

        sl_scalar_key(out, s, key.len);
        sl_buf_str(out, ": ");
        if (schema->node)
            *schema = sl_schema_member(*schema, s, key.len);
    }
    sl_buf_deinit(&key);
    return ok;
}

/* Go on to the next value inside of the innermost bracket: writes `, `, and
 * the key in an object. */
static bool next(struct sl_literal *r, const struct stack *st, bool first,
                 struct sl_schema *schema, struct sl_buf *out)
{
    const struct level *top = &st->v[st->n - 1];

    if (!first)
        sl_buf_str(out, ", ");
    *schema = top->schema;
    if (top->close == '}')
        return read_key(r, schema, out);
    if (schema->node)
        *schema = sl_schema_item(*schema);
    return true;
}

/* An opening bracket; false if it is none or too deep. */
static bool push(struct sl_literal *r, struct stack *st,
                 struct sl_schema schema, struct sl_buf *out)
{
    static const char open[] = "{[(", close[] = "}])";
    const char *hit = r->s[r->at] ? strchr(open, r->s[r->at]) : NULL;

    if (!hit || st->n == SL_LITERAL_MAX_DEPTH)
        return false;
    r->at++;
    st->v[st->n++] = (struct level){close[hit - open], schema};
    sl_buf_byte(out, *hit == '{' ? '{' : '[');
    return true;
}

/* Behind a value: close what is closed here. 1: another value follows in the
 * innermost bracket, 0: the outermost value is complete, -1: nonsense. */
static int after(struct sl_literal *r, struct stack *st, struct sl_buf *out)
{
    while (st->n) {
        bool comma = sl_literal_take(r, ',');

        if (sl_literal_take(r, st->v[st->n - 1].close)) {
            pop(st, out);
            continue;
        }
        if (r->at == r->len && r->repair) {
            while (st->n)
                pop(st, out);
            return 0;
        }
        return comma ? 1 : -1;
    }
    return 0;
}

bool sl_literal_value(struct sl_literal *r, struct sl_schema schema,
                      struct sl_buf *out)
{
    struct stack st = {.n = 0};
    int more = 1;

    while (more > 0 && !out->failed) {
        sl_literal_space(r);
        if (r->at == r->len)
            return false;
        if (push(r, &st, schema, out)) {
            sl_literal_space(r);
            if (r->at < r->len && r->s[r->at] != st.v[st.n - 1].close &&
                r->s[r->at] != ',') {
                if (!next(r, &st, true, &schema, out))
                    return false;
                continue;
            }
            if (r->at < r->len && r->s[r->at] == ',')
                return false;
        } else if (!read_scalar(r, schema, out)) {
            return false;
        }
        more = after(r, &st, out);
        if (more > 0 && !next(r, &st, false, &schema, out))
            return false;
    }
    return more == 0;
}
