/* base/err.h - errors
 *
 * A function that can fail returns 0, or a negative enum sl_code after it has
 * filled the `err` it was given. A message names the thing, the value and the
 * limit, and ends with what to do; control characters and bytes that are not
 * UTF-8 come out as \xNN. Nothing here prints.
 *
 *     rc = sl_file_map(&map, path, err);
 *     if (rc)
 *         return sl_wrap(err, rc, "opening weights '%s'", path);
 */
#ifndef SL_BASE_ERR_H
#define SL_BASE_ERR_H

#include "base/base.h"
#include "sluice/err.h"

/* Fill `err` (may be NULL) and return `code`, so that a failing function can
 * end with `return sl_fail(...)`. */
int sl_fail(struct sl_err *err, enum sl_code code, const char *fmt, ...)
    SL_PRINTF(3, 4);

/* Put the caller's context in front of the message: "loading 'x': ...".
 * Returns rc. Does nothing when rc is 0. */
int sl_wrap(struct sl_err *err, int rc, const char *fmt, ...) SL_PRINTF(3, 4);

/* The same for a failed system call: appends the words for errno `e`, and maps
 * ENOENT and missing permission to SL_ENOTFOUND, ENOSPC and EDQUOT to
 * SL_ENOSPACE, ENOMEM to SL_ENOMEM, all others to SL_EIO. */
int sl_fail_errno(struct sl_err *err, int e, const char *fmt, ...)
    SL_PRINTF(3, 4);

#endif
