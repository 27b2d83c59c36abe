/* text/jinja_scope.h - which variable a name means */
#ifndef SL_TEXT_JINJA_SCOPE_H
#define SL_TEXT_JINJA_SCOPE_H

#include "text/jinja_ast.h"

/* Give every name of the tree its place and every body its scope. Errors
 * stick to r. */
void sl_jinja_scopes(struct sl_jrun *r, struct sl_jnode *tree);

#endif
