/* text/jinja_parse.h - tokens -> tree */
#ifndef SL_TEXT_JINJA_PARSE_H
#define SL_TEXT_JINJA_PARSE_H

#include "text/jinja_ast.h"

/* The tree of r->src, in the heap of r; NULL when r has failed. */
struct sl_jnode *sl_jinja_parse(struct sl_jrun *r);

/* For walks: add a node to a list of nodes. */
void sl_jinja_push(struct sl_jrun *r, struct sl_jnodes *l, struct sl_jnode *n);

#endif
