/* text/jinja_args.h - what a function, filter, test or method is called with */
#ifndef SL_TEXT_JINJA_ARGS_H
#define SL_TEXT_JINJA_ARGS_H

#include "text/jinja_value.h"

struct sl_jargs {
    struct sl_jval *v; /* by position */
    size_t n;
    const struct sl_jdict *kw; /* by keyword, or NULL */
    const char *who;           /* for messages; static or of the template */
    size_t who_len;
};

/* Put the arguments in the order of `names` (separated by spaces); what was
 * not given has the kind SL_J_MISSING. Fails for an unknown keyword, a value
 * given twice, and too many or fewer than `need`. */
bool sl_jinja_bind(struct sl_jrun *r, const struct sl_jargs *a,
                   const char *names, size_t need, struct sl_jval *out);

/* The type must be that, or the argument absent and *out untouched. */
void sl_jinja_arg_int(struct sl_jrun *r, const struct sl_jargs *a,
                      struct sl_jval v, int64_t *out);
void sl_jinja_arg_bool(struct sl_jrun *r, struct sl_jval v, bool *out);

/* The string, or NULL after a failure. */
const struct sl_jstr *
sl_jinja_arg_str(struct sl_jrun *r, const struct sl_jargs *a, struct sl_jval v);

#endif
