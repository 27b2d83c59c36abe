/* text/scalar.c - JSON scalars from the text of an argument; see scalar.h
 *
 * Digits stay text all the way: a number is never read and printed again, so
 * no digit is lost. Only whether it is finite is asked of a double.
 */
#include "text/scalar.h"

#include <float.h>
#include <strings.h>

#include "base/num.h"

/* Integers up to here are exact in a double: 2^53. */
#define MAX_EXACT 9007199254740992.0

static bool is(const char *s, size_t len, const char *word)
{
    return len == strlen(word) && strncasecmp(s, word, len) == 0;
}

bool sl_scalar_null(struct sl_buf *out, const char *s, size_t len)
{
    if (!is(s, len, "null") && !is(s, len, "none") && !is(s, len, "nil"))
        return false;
    sl_buf_str(out, "null");
    return true;
}

static size_t digits(const char *s, size_t len, size_t i)
{
    while (i < len && s[i] >= '0' && s[i] <= '9')
        i++;
    return i;
}

bool sl_scalar_integer(struct sl_buf *out, const char *s, size_t len)
{
    size_t from = len > 0 && (s[0] == '-' || s[0] == '+');
    size_t to = digits(s, len, from), end = to;

    if (to == from || len > SL_SCALAR_MAX_NUMBER)
        return false;
    if (to < len && s[to] == '.') {
        for (end = to + 1; end < len && s[end] == '0'; end++)
            ;
        if (end == to + 1)
            return false;
    }
    if (end != len)
        return false;
    while (from + 1 < to && s[from] == '0')
        from++;
    if (s[0] == '-' && s[from] != '0')
        sl_buf_byte(out, '-');
    sl_buf_add(out, s + from, to - from);
    return true;
}

/* The grammar of RFC 8259, section 6. */
static bool looks_json(const char *s, size_t len)
{
    size_t i = len > 0 && s[0] == '-', from = i;

    i = digits(s, len, i);
    if (i == from || (s[from] == '0' && i > from + 1))
        return false;
    if (i < len && s[i] == '.') {
        from = i + 1;
        i = digits(s, len, from);
        if (i == from)
            return false;
    }
    if (i < len && (s[i] == 'e' || s[i] == 'E')) {
        i++;
        if (i < len && (s[i] == '-' || s[i] == '+'))
            i++;
        from = i;
        i = digits(s, len, from);
        if (i == from)
            return false;
    }
    return i == len;
}

static bool finite_number(double *out, const char *s, size_t len)
{
    return len <= SL_SCALAR_MAX_NUMBER && looks_json(s, len) &&
           !sl_num_f64(out, s, len, -DBL_MAX, DBL_MAX, "a number", NULL);
}

bool sl_scalar_is_number(const char *s, size_t len)
{
    double v;

    return finite_number(&v, s, len);
}

bool sl_scalar_number(struct sl_buf *out, const char *s, size_t len)
{
    double v;

    if (!finite_number(&v, s, len))
        return false;
    if (sl_scalar_integer(out, s, len))
        return true;
    if (v >= -MAX_EXACT && v <= MAX_EXACT && v == (double)(int64_t)v)
        sl_buf_fmt(out, "%lld", (long long)v);
    else
        sl_buf_add(out, s, len);
    return true;
}

bool sl_scalar_boolean(struct sl_buf *out, const char *s, size_t len)
{
    if (is(s, len, "true") || is(s, len, "1"))
        sl_buf_str(out, "true");
    else if (is(s, len, "false") || is(s, len, "0"))
        sl_buf_str(out, "false");
    else
        return false;
    return true;
}

void sl_scalar_escape(struct sl_buf *out, const char *s, size_t len)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    size_t plain = 0;

    for (size_t i = 0; i < len; i++) {
        const char *hit = s[i] ? strchr(from, s[i]) : NULL;

        if (!hit && (unsigned char)s[i] >= 0x20)
            continue;
        sl_buf_add(out, s + plain, i - plain);
        plain = i + 1;
        if (hit) {
            char two[2] = {'\\', to[hit - from]};

            sl_buf_add(out, two, 2);
        } else {
            sl_buf_fmt(out, "\\u%04x", (unsigned)s[i]);
        }
    }
    sl_buf_add(out, s + plain, len - plain);
}

void sl_scalar_string(struct sl_buf *out, const char *s, size_t len)
{
    sl_buf_byte(out, '"');
    sl_scalar_escape(out, s, len);
    sl_buf_byte(out, '"');
}

void sl_scalar_key(struct sl_buf *out, const char *s, size_t len)
{
    sl_buf_byte(out, '"');
    while (len) {
        const char *zero = memchr(s, 0, len);
        size_t n = zero ? (size_t)(zero - s) : len;

        sl_scalar_escape(out, s, n);
        if (zero)
            sl_buf_str(out, "\xef\xbf\xbd");
        n += zero != NULL;
        s += n;
        len -= n;
    }
    sl_buf_byte(out, '"');
}
