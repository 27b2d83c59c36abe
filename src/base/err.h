/* base/err.h - errors
 *
 * A function that can fail returns 0, or a negative enum sl_code after it has
 * filled the `err` it was given. A message names the thing, the value and the
 * limit, and ends with what to do. Nothing here prints.
 *
 *     rc = sl_file_map(&map, path, err);
 *     if (rc)
 *         return sl_wrap(err, rc, "opening weights '%s'", path);
 */
#ifndef SL_BASE_ERR_H
#define SL_BASE_ERR_H

#include "base/base.h"

/* Each code is a different action for the caller. */
enum sl_code {
    SL_OK = 0,
    SL_EARG = -1,      /* the caller asked for something out of range */
    SL_EFORMAT = -2,   /* bytes from outside break the rules of their format */
    SL_ENOMEM = -3,    /* not enough memory */
    SL_EIO = -4,       /* reading or writing failed */
    SL_EBUSY = -5,     /* try again later */
    SL_ECANCEL = -6,   /* the caller cancelled it */
    SL_EUNSUP = -7,    /* well formed, but this engine cannot do it */
    SL_EBUG = -8,      /* our mistake */
    SL_ENOTFOUND = -9, /* no such file, model or name */
    SL_ENOSPACE = -10, /* the disk is full */
};

struct sl_err {
    enum sl_code code;
    char msg[1000]; /* UTF-8, one line, ends with zero */
};

/* Fill `err` (may be NULL) and return `code`, so that a failing function can
 * end with `return sl_fail(...)`. */
int sl_fail(struct sl_err *err, enum sl_code code, const char *fmt, ...)
    SL_PRINTF(3, 4);

/* Put the caller's context in front of the message: "loading 'x': ...".
 * Returns rc. Does nothing when rc is 0. */
int sl_wrap(struct sl_err *err, int rc, const char *fmt, ...) SL_PRINTF(3, 4);

/* The same for a failed system call: appends the words for errno `e`, and maps
 * ENOENT to SL_ENOTFOUND, ENOSPC and EDQUOT to SL_ENOSPACE, ENOMEM to
 * SL_ENOMEM, all others to SL_EIO. */
int sl_fail_errno(struct sl_err *err, int e, const char *fmt, ...)
    SL_PRINTF(3, 4);

#endif
