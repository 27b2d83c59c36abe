/* base/err.c - errors; see err.h
 *
 * Messages quote files, and files may hold anything: what a terminal would obey
 * and what is not UTF-8 is shown as \xNN, here, so that no caller can forget.
 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>

#include "base/plain.h"

static void show_plain(struct sl_err *err)
{
    char raw[sizeof(err->msg)];

    memcpy(raw, err->msg, sizeof(raw));
    (void)sl_plain(err->msg, sizeof(err->msg), raw);
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
