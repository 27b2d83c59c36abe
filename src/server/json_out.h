/* server/json_out.h - JSON text, written straight into a buffer
 *
 * Replies are made for every token, so no tree is built. Text is UTF-8 already;
 * bytes that are not become U+FFFD. A newline never appears: an event of a
 * stream is one line.
 */
#ifndef SL_SERVER_JSON_OUT_H
#define SL_SERVER_JSON_OUT_H

#include "base/buf.h"

/* A string with its quotes. */
void sl_json_put_str(struct sl_buf *b, const char *s, size_t len);

/* What stands between the quotes. */
void sl_json_put_text(struct sl_buf *b, const char *s, size_t len);

/* A number that reads back as the same float; -inf and NaN, which JSON lacks,
 * are -9999.0, as in vLLM. */
void sl_json_put_float(struct sl_buf *b, float x);
void sl_json_put_double(struct sl_buf *b, double x);

#endif
