/* base/err.c - errors; see err.h
 *
 * Messages quote files, and files may hold anything: what a terminal would obey
 * and what is not UTF-8 is shown as \xNN, here, so that no caller can forget.
 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>

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

static void show_plain(struct sl_err *err)
{
    char out[sizeof(err->msg)];
    size_t to = 0;

    for (const char *s = err->msg; *s;) {
        size_t n = plain((const unsigned char *)s);

        if (to + (n ? n : 4) >= sizeof(out))
            break;
        if (n > 0)
            memcpy(out + to, s, n);
        else
            snprintf(out + to, 5, "\\x%02x", (unsigned)(unsigned char)*s);
        to += n ? n : 4;
        s += n ? n : 1;
    }
    out[to] = 0;
    memcpy(err->msg, out, to + 1);
}

int sl_fail(struct sl_err *err, enum sl_code code, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return code;
    err->code = code;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    show_plain(err);
    return code;
}

int sl_wrap(struct sl_err *err, int rc, const char *fmt, ...)
{
    char old[sizeof(err->msg)];
    va_list ap;
    size_t n;

    if (rc >= 0 || !err)
        return rc;
    memcpy(old, err->msg, sizeof(old));
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    n = strlen(err->msg);
    snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", old);
    show_plain(err);
    return rc;
}

static enum sl_code code_of_errno(int e)
{
    switch (e) {
    case ENOENT:
    case ENOTDIR:
    case EACCES:
    case EPERM:
        return SL_ENOTFOUND;
    case ENOSPC:
    case EDQUOT:
        return SL_ENOSPACE;
    case ENOMEM:
        return SL_ENOMEM;
    default:
        return SL_EIO;
    }
}

int sl_fail_errno(struct sl_err *err, int e, const char *fmt, ...)
{
    enum sl_code code = code_of_errno(e);
    va_list ap;
    size_t n;

    if (!err)
        return code;
    err->code = code;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    n = strlen(err->msg);
    snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", strerror(e));
    show_plain(err);
    return code;
}
