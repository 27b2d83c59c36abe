/* base/plain.c - text that may be shown; see plain.h */
#include "base/plain.h"

/* Bytes of the character at s; 0 for one that is not shown as it is. Looser
 * than base/utf8.h, which is above this file: overlong forms pass. */
static size_t plain(const unsigned char *s)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    if (s[0] < 0x20 || (s[0] >= 0x7f && s[0] < 0xc2) || s[0] > 0xf4 ||
        (s[0] == 0xc2 && s[1] < 0xa0))
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

/* `but` is escaped besides; 0: nothing is. */
static size_t show(char *out, size_t cap, const char *s, char but)
{
    size_t to = 0;

    while (*s) {
        size_t n = *s == but ? 0 : plain((const unsigned char *)s);

        if (to + (n ? n : 4) >= cap)
            break;
        if (n > 0)
            memcpy(out + to, s, n);
        else
            snprintf(out + to, 5, "\\x%02x", (unsigned)(unsigned char)*s);
        to += n ? n : 4;
        s += n ? n : 1;
    }
    out[to] = 0;
    return to;
}

size_t sl_plain(char *out, size_t cap, const char *s)
{
    return show(out, cap, s, 0);
}

size_t sl_plain_word(char *out, size_t cap, const char *s)
{
    return show(out, cap, s, ' ');
}

size_t sl_plain_quoted(char *out, size_t cap, const char *s)
{
    return show(out, cap, s, '"');
}
