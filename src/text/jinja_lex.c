/* text/jinja_lex.c - the text of a template -> tokens
 *
 * Outside tags there is data up to the next `{{`, `{%` or `{#`; inside there
 * are Python-like tokens up to the matching end, which does not count while a
 * bracket is open. White space control happens here:
 *
 *   -  beside a tag takes all white space on that side;
 *   {% {# at the start of a line, with only white space before it, takes that
 *      (lstrip_blocks), unless written {%+;
 *   %} #} take one newline behind them (trim_blocks), unless written +%}.
 *
 * A `{{` neither strips nor trims. The rules are those of Jinja 3.1's lexer,
 * found by comparing with it; so is the exact meaning of "start of a line": the
 * text since the last newline, or since a tag that swallowed its newline.
 */
#include "text/jinja_lex.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "text/jinja_num.h"
#include "text/jinja_text.h"

#define MAX_BRACKETS 200 /* open at the same time */
#define MAX_TOKENS ((size_t)1 << 20)

struct lex {
    struct sl_jrun *r;
    struct sl_jtoks *out;
    const char *s;
    size_t len, at;
    bool line_start;        /* the last piece ended with a newline */
    struct sl_jtok nowhere; /* what is pushed after a failure */
};

static void fail_at(struct lex *x, size_t at, const char *what)
{
    x->r->at = (uint32_t)at;
    sl_jinja_fail(x->r, SL_EFORMAT, "%s", what);
}

static struct sl_jtok *push(struct lex *x, enum sl_jtok_kind kind, size_t at,
                            size_t len)
{
    struct sl_jtoks *t = x->out;

    if (x->r->rc)
        return &x->nowhere;
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 256;
        int rc =
            t->n >= MAX_TOKENS
                ? sl_fail(x->r->err, SL_EFORMAT,
                          "the template has more than %zu tokens", MAX_TOKENS)
                : sl_mem_resize(&t->p, cap, sizeof(*t->p),
                                "the tokens of a template", x->r->err);

        if (rc) {
            x->r->rc = rc;
            return &x->nowhere;
        }
        t->cap = cap;
    }
    t->p[t->n] = (struct sl_jtok){
        .kind = kind, .at = (uint32_t)at, .len = (uint32_t)len, .p = x->s + at};
    return &t->p[t->n++];
}

static bool starts(const struct lex *x, size_t at, const char *what)
{
    size_t n = strlen(what);

    return n <= x->len - at && memcmp(x->s + at, what, n) == 0;
}

/* Offset of `what` at or after `at`, or x->len. */
static size_t find(const struct lex *x, size_t at, const char *what)
{
    const char *hit = memmem(x->s + at, x->len - at, what, strlen(what));

    return hit ? (size_t)(hit - x->s) : x->len;
}

static size_t skip_space(const struct lex *x, size_t at)
{
    const char *p = x->s + at;
    size_t len = x->len - at;

    sl_jinja_strip(&p, &len, NULL, 0, true, false);
    return (size_t)(p - x->s);
}

/* Data [from, to) before a tag with the given sign ('-', '+' or 0). */
static void push_data(struct lex *x, size_t from, size_t to, char sign,
                      bool may_lstrip)
{
    const char *p = x->s + from;
    size_t len = to - from, line;

    if (sign == '-') {
        sl_jinja_strip(&p, &len, NULL, 0, false, true);
    } else if (sign != '+' && may_lstrip) {
        for (line = len; line > 0 && p[line - 1] != '\n';)
            line--;
        if (line > 0 || x->line_start) {
            const char *q = p + line;
            size_t n = len - line;

            sl_jinja_strip(&q, &n, NULL, 0, true, false);
            if (n == 0)
                len = line;
        }
    }
    if (len)
        push(x, SL_JTOK_DATA, from, len);
}

static char sign_at(const struct lex *x, size_t at)
{
    if (at < x->len && (x->s[at] == '-' || x->s[at] == '+'))
        return x->s[at];
    return 0;
}

/* Behind "%}" or "#}" whose sign was `sign`: what it swallows. */
static size_t after_end(struct lex *x, size_t at, char sign)
{
    size_t begin = at;

    if (sign == '-')
        at = skip_space(x, at);
    else if (sign != '+' && at < x->len && x->s[at] == '\n')
        at++;
    x->line_start = at > begin && x->s[at - 1] == '\n';
    return at;
}

static void comment(struct lex *x, size_t open, size_t body)
{
    size_t end = find(x, body, "#}");
    char sign = 0;

    if (end == x->len) {
        fail_at(x, open, "this comment has no end; add '#}'");
        return;
    }
    if (end > body)
        sign = sign_at(x, end - 1);
    x->at = after_end(x, end + 2, sign);
}

/* A tag at `at` that holds only `word`: the offset of its end bracket and the
 * sign before that; x->len if it is another tag. */
static size_t bare_tag(const struct lex *x, size_t at, const char *word,
                       bool plus, char *sign)
{
    size_t i = at + 2;

    if (sign_at(x, i))
        i++;
    i = skip_space(x, i);
    if (!starts(x, i, word))
        return x->len;
    i = skip_space(x, i + strlen(word));
    *sign = sign_at(x, i);
    if (*sign == '+' && !plus)
        return x->len;
    if (*sign)
        i++;
    return starts(x, i, "%}") ? i : x->len;
}

/* {% raw %} ... {% endraw %}; `end` is the %} of the first. */
static void raw(struct lex *x, size_t open, size_t end, char sign)
{
    size_t from = end + 2, to = from, close = x->len;

    if (sign == '-')
        from = skip_space(x, from);
    x->line_start = from > end + 2 && x->s[from - 1] == '\n';
    for (to = find(x, from, "{%"); to < x->len; to = find(x, to + 1, "{%")) {
        close = bare_tag(x, to, "endraw", true, &sign);
        if (close < x->len)
            break;
    }
    if (to == x->len) {
        fail_at(x, open, "this raw block has no end; add '{% endraw %}'");
        return;
    }
    push_data(x, from, to, sign_at(x, to + 2), true);
    x->at = after_end(x, close + 2, sign);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
}

/* End of digits with single underscores between them; `at` if none. */
static size_t digits(const struct lex *x, size_t at)
{
    size_t i = at;

    while (i < x->len && (is_digit(x->s[i]) ||
                          (x->s[i] == '_' && i > at && i + 1 < x->len &&
                           is_digit(x->s[i - 1]) && is_digit(x->s[i + 1]))))
        i++;
    return i;
}

/* End of the float at `at`; `at` if there is none. */
static size_t float_end(const struct lex *x, size_t at)
{
    size_t i = digits(x, at), j, k;
    bool ok = false;

    if (i == at || (at > 0 && x->s[at - 1] == '.'))
        return at;
    if (i < x->len && x->s[i] == '.') {
        j = digits(x, i + 1);
        if (j > i + 1) {
            i = j;
            ok = true;
        }
    }
    if (i < x->len && (x->s[i] == 'e' || x->s[i] == 'E')) {
        k = i + 1;
        if (k < x->len && (x->s[k] == '+' || x->s[k] == '-'))
            k++;
        j = digits(x, k);
        if (j > k) {
            i = j;
            ok = true;
        }
    }
    return ok ? i : at;
}

static bool digit_in_base(char c, int base)
{
    if (base == 16 && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
        return true;
    return c >= '0' && c < '0' + (base < 10 ? base : 10);
}

static size_t int_end(const struct lex *x, size_t at)
{
    size_t i = at + 2, last = 0;
    char c = at + 1 < x->len ? x->s[at + 1] | 0x20 : 0;
    int base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;

    if (x->s[at] != '0')
        return digits(x, at);
    if (base) {
        for (; i < x->len; i++) {
            if (digit_in_base(x->s[i], base))
                last = i + 1;
            else if (x->s[i] != '_' || x->s[i - 1] == '_')
                break;
        }
        if (last)
            return last;
    }
    for (i = at + 1; i < x->len; i++)
        if (x->s[i] != '0' &&
            !(x->s[i] == '_' && i + 1 < x->len && x->s[i + 1] == '0'))
            break;
    return i;
}

static void number(struct lex *x)
{
    size_t at = x->at, end = float_end(x, at);
    struct sl_jtok *t;
    double f = 0;
    int64_t i = 0;

    if (end > at) {
        if (!sl_jinja_float_parse(&f, x->s + at, end - at))
            fail_at(x, at, "this number is too large or too long");
        t = push(x, SL_JTOK_LITERAL, at, end - at);
        t->val = sl_jinja_float(f);
    } else {
        end = int_end(x, at);
        if (!sl_jinja_int_parse(&i, x->s + at, end - at, 0))
            fail_at(x, at, "this integer has more than 63 bits");
        t = push(x, SL_JTOK_LITERAL, at, end - at);
        t->val = sl_jinja_int(i);
    }
    x->at = end;
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        return (c | 0x20) - 'a' + 10;
    return -1;
}

/* \xHH, \uHHHH, \UHHHHHHHH and \ooo. `i` is behind the backslash; returns the
 * offset behind the escape, or 0. */
static size_t code_escape(const struct lex *x, size_t i, size_t end,
                          uint32_t *cp)
{
    size_t want = x->s[i] == 'x' ? 2 : x->s[i] == 'u' ? 4 : 8, n = 0;

    *cp = 0;
    if (is_digit(x->s[i])) {
        for (; n < 3 && i < end && x->s[i] >= '0' && x->s[i] <= '7'; n++)
            *cp = *cp * 8 + (uint32_t)(x->s[i++] - '0');
        return i;
    }
    for (i++; n < want && i < end && hex_value(x->s[i]) >= 0; n++) {
        if (*cp > 0x10ffff)
            return 0;
        *cp = *cp * 16 + (uint32_t)hex_value(x->s[i++]);
    }
    if (n < want || *cp > 0x10ffff || (*cp >= 0xd800 && *cp < 0xe000))
        return 0;
    return i;
}

/* One escape at i (behind the backslash) into out; returns the offset behind
 * it. An unknown one keeps its backslash, as in Python. */
static size_t escape(struct lex *x, size_t i, size_t end, char *out, size_t *n)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *hit = x->s[i] ? strchr(from, x->s[i]) : NULL;
    uint32_t cp;
    size_t next;

    if (x->s[i] == '\n')
        return i + 1;
    if (hit) {
        out[(*n)++] = to[hit - from];
        return i + 1;
    }
    if (x->s[i] && strchr("xuU01234567", x->s[i])) {
        next = code_escape(x, i, end, &cp);
        if (!next) {
            fail_at(x, i - 1,
                    "this escape in a string names no character; write \\xHH, "
                    "\\uHHHH or \\UHHHHHHHH, and no surrogates");
            return end;
        }
        *n += sl_utf8_put(out + *n, cp);
        return next;
    }
    if (x->s[i] == 'N')
        fail_at(x, i - 1, "\\N{...} in a string is not supported; write \\u");
    out[(*n)++] = '\\';
    return i;
}

static void string(struct lex *x)
{
    size_t at = x->at, i, end = at + 1, n = 0;
    struct sl_jtok *t;
    char *out;

    while (end < x->len && x->s[end] != x->s[at])
        end += x->s[end] == '\\' ? 2 : 1;
    if (end >= x->len) {
        fail_at(x, at, "this string has no end");
        return;
    }
    out = sl_jinja_get(x->r, end - at, 1);
    if (!out)
        return;
    for (i = at + 1; i < end && !x->r->rc;) {
        if (x->s[i] == '\\')
            i = escape(x, i + 1, end, out, &n);
        else
            out[n++] = x->s[i++];
    }
    t = push(x, SL_JTOK_LITERAL, at, end + 1 - at);
    t->val = sl_jinja_borrow(x->r, out, n);
    x->at = end + 1;
}

static void operator_(struct lex *x, char *open, size_t *n_open)
{
    static const char *const two[] = {"**", "//", "==", "!=", ">=", "<="};
    char c = x->s[x->at];
    int op = 0;

    for (size_t i = 0; i < SL_COUNTOF(two); i++)
        if (starts(x, x->at, two[i]))
            op = SL_JOP(c, two[i][1]);
    if (!op && c && strchr("+-*/%~[](){}><=.:|,;", c))
        op = SL_JOP(c, 0);
    if (!op) {
        fail_at(x, x->at, "unexpected character in a tag");
        return;
    }
    if (strchr("([{", c)) {
        if (*n_open == MAX_BRACKETS) {
            fail_at(x, x->at, "too many brackets are open here");
            return;
        }
        open[(*n_open)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (strchr(")]}", c)) {
        if (!*n_open || open[*n_open - 1] != c) {
            fail_at(x, x->at, "this bracket closes nothing");
            return;
        }
        (*n_open)--;
    }
    push(x, SL_JTOK_OP, x->at, op & 0xff ? 2 : 1)->op = op;
    x->at += op & 0xff ? 2 : 1;
}

/* The end of the tag at x->at, swallowing what it swallows. */
static bool tag_end(struct lex *x, bool block)
{
    char sign = sign_at(x, x->at);
    size_t i = x->at + (sign ? 1 : 0);

    if (!starts(x, i, block ? "%}" : "}}") || (!block && sign == '+'))
        return false;
    push(x, block ? SL_JTOK_BLOCK_END : SL_JTOK_VAR_END, x->at, 2);
    if (block || sign == '-') {
        x->at = after_end(x, i + 2, sign);
    } else {
        x->at = i + 2;
        x->line_start = false;
    }
    return true;
}

static void tag(struct lex *x, bool block)
{
    char open[MAX_BRACKETS];
    size_t n_open = 0;

    while (!x->r->rc && x->at < x->len) {
        char c = x->s[x->at];
        size_t i = skip_space(x, x->at);

        if (n_open == 0 && tag_end(x, block))
            return;
        if (i > x->at) {
            x->at = i;
        } else if (is_digit(c)) {
            number(x);
        } else if (is_name(c)) {
            for (i = x->at; i < x->len && is_name(x->s[i]);)
                i++;
            push(x, SL_JTOK_NAME, x->at, i - x->at);
            x->at = i;
        } else if (c == '\'' || c == '"') {
            string(x);
        } else {
            operator_(x, open, &n_open);
        }
    }
}

/* From x->at, outside tags, to behind the next tag. */
static void root(struct lex *x)
{
    size_t from = x->at, at = from, end;
    char c = 0, sign, raw_sign = 0;

    for (; at < x->len; at++) {
        at = find(x, at, "{");
        c = at + 1 < x->len ? x->s[at + 1] : 0;
        if (c == '{' || c == '%' || c == '#')
            break;
    }
    if (at >= x->len) {
        push(x, SL_JTOK_DATA, from, x->len - from);
        x->at = x->len;
        return;
    }
    sign = sign_at(x, at + 2);
    push_data(x, from, at, sign, c != '{');
    x->line_start = false;
    x->at = at + 2 + (sign ? 1 : 0);
    if (c == '#') {
        comment(x, at, x->at);
        return;
    }
    end = c == '%' ? bare_tag(x, at, "raw", false, &raw_sign) : x->len;
    if (end < x->len) {
        raw(x, at, end, raw_sign);
        return;
    }
    push(x, c == '%' ? SL_JTOK_BLOCK_BEGIN : SL_JTOK_VAR_BEGIN, at, 2);
    tag(x, c == '%');
}

void sl_jinja_lex(struct sl_jtoks *out, struct sl_jrun *r)
{
    struct lex x = {.r = r, .out = out, .s = r->src, .len = r->src_len};

    *out = (struct sl_jtoks){0};
    x.line_start = true;
    /* One newline at the very end does not count. */
    if (x.len && x.s[x.len - 1] == '\n')
        x.len--;
    while (!r->rc && x.at < x.len)
        root(&x);
    push(&x, SL_JTOK_EOF, x.len, 0);
}

void sl_jinja_lex_free(struct sl_jtoks *t)
{
    sl_mem_free(t->p);
    *t = (struct sl_jtoks){0};
}
