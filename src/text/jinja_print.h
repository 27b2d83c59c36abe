/* text/jinja_print.h - values as text: Python's str() and repr() */
#ifndef SL_TEXT_JINJA_PRINT_H
#define SL_TEXT_JINJA_PRINT_H

#include "text/jinja_value.h"

void sl_jinja_print(struct sl_jrun *r, struct sl_jval v); /* str() */
void sl_jinja_repr(struct sl_jrun *r, struct sl_jval v);  /* repr() */

/* str(v) as a value; a string stays the one it is, safe or not. */
struct sl_jval sl_jinja_text(struct sl_jrun *r, struct sl_jval v);

#endif
