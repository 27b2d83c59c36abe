/* text/jinja_filter.h - filters and tests by name */
#ifndef SL_TEXT_JINJA_FILTER_H
#define SL_TEXT_JINJA_FILTER_H

#include "text/jinja_args.h"

/* The number of a filter or test; -1 if there is none of that name. */
int sl_jinja_filter_find(const char *p, size_t len);
int sl_jinja_test_find(const char *p, size_t len);

struct sl_jval sl_jinja_filter(struct sl_jrun *r, int fn, struct sl_jval v,
                               const struct sl_jargs *a);
bool sl_jinja_test(struct sl_jrun *r, int fn, struct sl_jval v,
                   const struct sl_jargs *a);

#endif
