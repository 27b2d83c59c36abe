/* base/plain.h - text from anywhere, as text that may be shown
 *
 * Messages and log lines quote files, requests and names, which may hold
 * anything. What a terminal would obey, and what would begin a new line, comes
 * out as \xNN, and so does what is not UTF-8.
 */
#ifndef SL_BASE_PLAIN_H
#define SL_BASE_PLAIN_H

#include "base/base.h"

/* Write s to out, cap > 0 bytes with the zero; what does not fit is cut between
 * two characters. Returns the bytes written without the zero. */
size_t sl_plain(char *out, size_t cap, const char *s);

/* The same for a value of `key=value`: a blank, too, is \x20; and for one of
 * `key="value"`: a quotation mark is \x22. */
size_t sl_plain_word(char *out, size_t cap, const char *s);
size_t sl_plain_quoted(char *out, size_t cap, const char *s);

#endif
