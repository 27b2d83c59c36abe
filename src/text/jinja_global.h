/* text/jinja_global.h - the functions that every template can call */
#ifndef SL_TEXT_JINJA_GLOBAL_H
#define SL_TEXT_JINJA_GLOBAL_H

#include "text/jinja_args.h"

/* The function of that name; kind SL_J_MISSING if there is none. */
struct sl_jval sl_jinja_global(const struct sl_jstr *name);

struct sl_jval sl_jinja_global_call(struct sl_jrun *r, int func,
                                    const struct sl_jargs *a);

#endif
