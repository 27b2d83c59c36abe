/* server/json_out.c - JSON text; see json_out.h */
#include "server/json_out.h"

#include "base/num.h"
#include "base/utf8.h"

#define NO_NUMBER "-9999.0"

static void put_escape(struct sl_buf *b, unsigned char c)
{
    switch (c) {
    case '"':
        sl_buf_str(b, "\\\"");
        break;
    case '\\':
        sl_buf_str(b, "\\\\");
        break;
    case '\n':
        sl_buf_str(b, "\\n");
        break;
    case '\r':
        sl_buf_str(b, "\\r");
        break;
    case '\t':
        sl_buf_str(b, "\\t");
        break;
    default:
        sl_buf_fmt(b, "\\u%04x", c);
    }
}

/* Valid UTF-8: only quotes, backslashes and control characters stand out. */
static void put_valid(struct sl_buf *b, const char *s, size_t len)
{
    size_t from = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
            continue;
        sl_buf_add(b, s + from, i - from);
        put_escape(b, c);
        from = i + 1;
    }
    sl_buf_add(b, s + from, len - from);
}

void sl_json_put_text(struct sl_buf *b, const char *s, size_t len)
{
    while (len > 0) {
        size_t n = sl_utf8_valid(s, len);

        put_valid(b, s, n);
        if (n == len)
            return;
        sl_buf_str(b, "\xef\xbf\xbd");
        s += n + 1;
        len -= n + 1;
    }
}

void sl_json_put_str(struct sl_buf *b, const char *s, size_t len)
{
    sl_buf_byte(b, '"');
    sl_json_put_text(b, s, len);
    sl_buf_byte(b, '"');
}

/* The shortest of `lo` to `hi` digits that reads back equal. */
static void put_shortest(struct sl_buf *b, double x, int lo, int hi, bool f32)
{
    char num[40];
    double back = 0;

    if (!(x > -1.7e308 && x < 1.7e308)) {
        sl_buf_str(b, NO_NUMBER);
        return;
    }
    for (int d = lo; d <= hi; d++) {
        snprintf(num, sizeof(num), "%.*g", d, x);
        if (d == hi || (!sl_num_f64(&back, num, strlen(num), -1.7e308, 1.7e308,
                                    "", NULL) &&
                        (f32 ? (float)back == (float)x : back == x)))
            break;
    }
    sl_buf_str(b, num);
    /* Readers with types must see that it is no integer. */
    if (!strpbrk(num, ".e"))
        sl_buf_str(b, ".0");
}

void sl_json_put_float(struct sl_buf *b, float x)
{
    put_shortest(b, (double)x, 6, 9, true);
}

void sl_json_put_double(struct sl_buf *b, double x)
{
    put_shortest(b, x, 15, 17, false);
}
