/* text/jinja_seq.h - filters over sequences */
#ifndef SL_TEXT_JINJA_SEQ_H
#define SL_TEXT_JINJA_SEQ_H

#include "text/jinja_args.h"

/* Each is a filter of that name: v is what is filtered. */
struct sl_jval sl_jinja_dictsort(struct sl_jrun *r, struct sl_jval v,
                                 const struct sl_jargs *a);
struct sl_jval sl_jinja_first(struct sl_jrun *r, struct sl_jval v,
                              const struct sl_jargs *a);
struct sl_jval sl_jinja_items(struct sl_jrun *r, struct sl_jval v,
                              const struct sl_jargs *a);
struct sl_jval sl_jinja_join(struct sl_jrun *r, struct sl_jval v,
                             const struct sl_jargs *a);
struct sl_jval sl_jinja_last(struct sl_jrun *r, struct sl_jval v,
                             const struct sl_jargs *a);
struct sl_jval sl_jinja_to_list(struct sl_jrun *r, struct sl_jval v,
                                const struct sl_jargs *a);
struct sl_jval sl_jinja_map(struct sl_jrun *r, struct sl_jval v,
                            const struct sl_jargs *a);
struct sl_jval sl_jinja_max(struct sl_jrun *r, struct sl_jval v,
                            const struct sl_jargs *a);
struct sl_jval sl_jinja_min(struct sl_jrun *r, struct sl_jval v,
                            const struct sl_jargs *a);
struct sl_jval sl_jinja_select(struct sl_jrun *r, struct sl_jval v,
                               const struct sl_jargs *a);
struct sl_jval sl_jinja_reject(struct sl_jrun *r, struct sl_jval v,
                               const struct sl_jargs *a);
struct sl_jval sl_jinja_selectattr(struct sl_jrun *r, struct sl_jval v,
                                   const struct sl_jargs *a);
struct sl_jval sl_jinja_rejectattr(struct sl_jrun *r, struct sl_jval v,
                                   const struct sl_jargs *a);
struct sl_jval sl_jinja_reverse(struct sl_jrun *r, struct sl_jval v,
                                const struct sl_jargs *a);
struct sl_jval sl_jinja_sort(struct sl_jrun *r, struct sl_jval v,
                             const struct sl_jargs *a);
struct sl_jval sl_jinja_sum(struct sl_jrun *r, struct sl_jval v,
                            const struct sl_jargs *a);
struct sl_jval sl_jinja_unique(struct sl_jrun *r, struct sl_jval v,
                               const struct sl_jargs *a);

#endif
