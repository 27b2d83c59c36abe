/* server/json_in.h - the JSON of a request
 *
 * What clients really send is let through: a byte order mark, a surrogate
 * escape without its partner (it becomes U+FFFD), a key given twice (the last
 * wins), zero bytes in strings, numbers that no integer of 64 bits holds: they
 * become the real number next to them, or one that is as large as can be, so that
 * only a field that is read refuses them. Refused: nesting beyond SL_JSON_DEPTH, bytes
 * behind the value, what is no JSON. Text workers.
 */
#ifndef SL_SERVER_JSON_IN_H
#define SL_SERVER_JSON_IN_H

#include <jansson.h>

#include "server/error.h"

/* The object in text[0..len), which is changed in place; text[len] is 0. The caller ends *out
 * with json_decref. -1 fills `r`. */
int sl_json_in(json_t **out, char *text, size_t len, struct sl_refusal *r);

#endif
