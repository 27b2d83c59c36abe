/* text/scalar.h - JSON scalars from the text of an argument
 *
 * Each function appends JSON to `out` and returns true if the text is of that
 * type, or does nothing and returns false. Text is what a model wrote:
 * anything at all, valid UTF-8.
 */
#ifndef SL_TEXT_SCALAR_H
#define SL_TEXT_SCALAR_H

#include "base/buf.h"

/* Bytes of a number; a longer one is not a number. */
#define SL_SCALAR_MAX_NUMBER 64

/* null, None or nil in any case. */
bool sl_scalar_null(struct sl_buf *out, const char *s, size_t len);

/* Sign and digits, or a decimal whose fraction is zero: 3.0. */
bool sl_scalar_integer(struct sl_buf *out, const char *s, size_t len);

/* The syntax of JSON, finite; written as an integer when it is one. */
bool sl_scalar_number(struct sl_buf *out, const char *s, size_t len);

/* true and false in any case, 1 and 0. */
bool sl_scalar_boolean(struct sl_buf *out, const char *s, size_t len);

/* Is it a finite number in the syntax of JSON? */
bool sl_scalar_is_number(const char *s, size_t len);

/* The text as the inside of a JSON string; the second with its quotes. */
void sl_scalar_escape(struct sl_buf *out, const char *s, size_t len);
void sl_scalar_string(struct sl_buf *out, const char *s, size_t len);

/* The same for the key of an object; U+FFFD for zero bytes, because readers of
 * JSON, jansson among them, refuse keys that have one. */
void sl_scalar_key(struct sl_buf *out, const char *s, size_t len);

#endif
