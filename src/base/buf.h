/* base/buf.h - a growing run of bytes with a ceiling
 *
 * The first failure sticks (rule E6): later calls do nothing, and the caller
 * asks once at the end with sl_buf_check. The bytes are always followed by a
 * zero that does not count.
 */
#ifndef SL_BASE_BUF_H
#define SL_BASE_BUF_H

#include "base/err.h"

struct sl_buf {
    char *p; /* NULL while nothing was added */
    size_t len, cap;
    size_t max; /* bytes; more is a failure */
    enum sl_code failed;
};

void sl_buf_init(struct sl_buf *b, size_t max);
void sl_buf_deinit(struct sl_buf *b);
void sl_buf_reset(struct sl_buf *b); /* keeps the memory */

/* Make room for `more` bytes now, so that adding them allocates nothing. */
void sl_buf_reserve(struct sl_buf *b, size_t more);

void sl_buf_add(struct sl_buf *b, const char *p, size_t len);
void sl_buf_str(struct sl_buf *b, const char *s);
void sl_buf_byte(struct sl_buf *b, char c);
void sl_buf_fmt(struct sl_buf *b, const char *fmt, ...) SL_PRINTF(2, 3);

/* 0, or the failure; `what` names the text that was being built. */
int sl_buf_check(const struct sl_buf *b, const char *what, struct sl_err *err);

#endif
