/* text/jinja_method.h - methods of strings, dictionaries and lists */
#ifndef SL_TEXT_JINJA_METHOD_H
#define SL_TEXT_JINJA_METHOD_H

#include "text/jinja_args.h"

struct sl_jmethod {
    struct sl_jval obj;
    int id;
    const char *name; /* static */
};

/* The method of v that is called so, bound to it. What the sandbox forbids is
 * undefined; what Python has and we have not is a failure; false if Python has
 * no such attribute either. */
bool sl_jinja_method(struct sl_jrun *r, struct sl_jval v, const char *name,
                     size_t len, struct sl_jval *out);

struct sl_jval sl_jinja_method_call(struct sl_jrun *r,
                                    const struct sl_jmethod *m,
                                    const struct sl_jargs *a);

#endif
