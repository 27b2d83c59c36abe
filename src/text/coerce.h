/* text/coerce.h - the text of an argument to JSON, by its schema
 *
 * The types that the schema allows are tried in the order null, integer,
 * number, boolean, object, array, string; the first that accepts the text wins.
 * If none does, the text is a JSON string all the same: a wrong type is an
 * error that the model can see and mend, a lost call is not.
 */
#ifndef SL_TEXT_COERCE_H
#define SL_TEXT_COERCE_H

#include "base/buf.h"
#include "text/schema.h"

/* Is every text a string here? Then it need not be read to its end first. */
bool sl_coerce_is_string(struct sl_schema schema);

/* Append the JSON of s, valid UTF-8. It never fails but as `out` does. */
void sl_coerce_text(struct sl_buf *out, const char *s, size_t len,
                    struct sl_schema schema);

#endif
