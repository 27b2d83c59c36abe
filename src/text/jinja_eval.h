/* text/jinja_eval.h - a tree and what the caller passed in -> text */
#ifndef SL_TEXT_JINJA_EVAL_H
#define SL_TEXT_JINJA_EVAL_H

#include "text/jinja_ast.h"

/* Append the text of the template to r->out. Errors stick to r. */
void sl_jinja_eval(struct sl_jrun *r, const struct sl_jnode *tree);

#endif
