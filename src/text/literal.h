/* text/literal.h - values written as JSON or as Python literals, to JSON
 *
 * Models write JSON, and sometimes Python: {'a': True, 'b': None,}. Both are
 * read here, in any mixture, and written as JSON with the separators of
 * Python's json.dumps. Scalars that have the wrong type for their place in the
 * schema ("3" where an integer is wanted) are coerced on the way; the digits of
 * numbers are copied.
 *
 * Also read: trailing commas, tuples as arrays, line ends and other control
 * characters inside of strings. Not read: anything else of Python.
 */
#ifndef SL_TEXT_LITERAL_H
#define SL_TEXT_LITERAL_H

#include "base/buf.h"
#include "text/schema.h"

#define SL_LITERAL_MAX_DEPTH                                                   \
    64 /* brackets; chosen: nobody nests arguments so */

/* A reader of one text, which is borrowed. */
struct sl_literal {
    const char *s;
    size_t len, at;
    bool repair; /* brackets that are missing at the end are added */
};

void sl_literal_space(struct sl_literal *r); /* skip it */

/* Skip space, then c if it is next. */
bool sl_literal_take(struct sl_literal *r, char c);

/* Skip space and append the value of the string that comes next, unescaped. */
bool sl_literal_string(struct sl_literal *r, struct sl_buf *out);

/* Read one value and append its JSON. On false `out` may hold a part of it. */
bool sl_literal_value(struct sl_literal *r, struct sl_schema schema,
                      struct sl_buf *out);

#endif
