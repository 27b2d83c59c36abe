/* base/utf8.c - UTF-8 as RFC 3629 defines it; see utf8.h */
#include "base/utf8.h"

/* Bytes of the character that starts with `c`; 0 if none does. */
static size_t len_of_lead(unsigned char c)
{
    if (c < 0x80)
        return 1;
    if (c >= 0xc2 && c <= 0xdf)
        return 2;
    if (c >= 0xe0 && c <= 0xef)
        return 3;
    if (c >= 0xf0 && c <= 0xf4)
        return 4;
    return 0;
}

/* The second byte has a narrower range after four leads (RFC 3629, 4). */
static bool second_ok(unsigned char lead, unsigned char c)
{
    unsigned char lo = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    unsigned char hi = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;

    return c >= lo && c <= hi;
}

/* Bytes of the valid character at s, 0 if there is none. */
static size_t char_at(const unsigned char *s, size_t len)
{
    size_t n = len_of_lead(s[0]);

    if (n == 0 || n > len || (n > 1 && !second_ok(s[0], s[1])))
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

size_t sl_utf8_valid(const char *s, size_t len)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t i = 0;

    while (i < len) {
        size_t n = char_at(u + i, len - i);

        if (n == 0)
            break;
        i += n;
    }
    return i;
}

int sl_utf8_check(const char *s, size_t len, const char *what,
                  struct sl_err *err)
{
    size_t n = sl_utf8_valid(s, len);

    if (n == len)
        return 0;
    return sl_fail(err, SL_EFORMAT,
                   "%s is not valid UTF-8: byte 0x%02x at offset %zu; send "
                   "text as UTF-8",
                   what, (unsigned)(unsigned char)s[n], n);
}

size_t sl_utf8_get(uint32_t *cp, const char *s, size_t len)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t n = char_at(u, len);
    static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t v = u[0] & mask[n];

    SL_ASSERT(n > 0);
    for (size_t i = 1; i < n; i++)
        v = v << 6 | (u[i] & 0x3f);
    *cp = v;
    return n;
}

size_t sl_utf8_put(char *out, uint32_t cp)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

size_t sl_utf8_partial(const char *s, size_t len)
{
    const unsigned char *u = (const unsigned char *)s;

    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char c = u[len - back];
        size_t n = len_of_lead(c);

        if ((c & 0xc0) == 0x80)
            continue;
        if (n <= back)
            return 0;
        return back == 1 || second_ok(c, u[len - back + 1]) ? back : 0;
    }
    return 0;
}
