/* base/utf8.h - UTF-8 as RFC 3629 defines it
 *
 * Surrogates, overlong forms and code points above U+10FFFF are invalid.
 */
#ifndef SL_BASE_UTF8_H
#define SL_BASE_UTF8_H

#include "base/err.h"

/* Length of the valid prefix of s[0..len). len when all of it is valid. */
size_t sl_utf8_valid(const char *s, size_t len);

/* 0, or SL_EFORMAT with the offset of the first bad byte. */
int sl_utf8_check(const char *s, size_t len, const char *what,
                  struct sl_err *err);

/* Decode the character at s (len > 0, valid there); returns its bytes. */
size_t sl_utf8_get(uint32_t *cp, const char *s, size_t len);

/* Write cp to out (4 bytes of room); returns the bytes. cp is a valid scalar
 * value. */
size_t sl_utf8_put(char *out, uint32_t cp);

/* Bytes at the end of s that begin a character but do not finish it: 0 to 3.
 * A stream holds them back. */
size_t sl_utf8_partial(const char *s, size_t len);

#endif
