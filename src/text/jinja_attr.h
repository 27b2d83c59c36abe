/* text/jinja_attr.h - x.name, x[key] and x[a:b:c] */
#ifndef SL_TEXT_JINJA_ATTR_H
#define SL_TEXT_JINJA_ATTR_H

#include "text/jinja_value.h"

/* What `loop` is in a loop; the evaluator hangs its own state behind it. */
typedef struct sl_jval sl_jloop_attr_fn(struct sl_jrun *r,
                                        struct sl_jloop *loop,
                                        const struct sl_jstr *name);
struct sl_jloop {
    sl_jloop_attr_fn *attr; /* kind SL_J_MISSING: no such attribute */
};

/* The attribute first, then the item; undefined if there is neither. */
struct sl_jval sl_jinja_attr(struct sl_jrun *r, struct sl_jval v,
                             const struct sl_jstr *name);

/* The item first, then, for a string, the attribute. */
struct sl_jval sl_jinja_item(struct sl_jrun *r, struct sl_jval v,
                             struct sl_jval key);

/* Absent bounds are None. */
struct sl_jval sl_jinja_slice(struct sl_jrun *r, struct sl_jval v,
                              const struct sl_jval bound[3]);

#endif
