/* model/draft_copy.h - a drafter's weights in fewer bits
 *
 * What a drafter says never reaches the text, so its weights may be rounded
 * further than those of the model: half or a quarter of the bytes and of the
 * multiplications of bf16. Matrices that are quantised already stay as they are.
 */
#ifndef SL_MODEL_DRAFT_COPY_H
#define SL_MODEL_DRAFT_COPY_H

#include "base/pool.h"
#include "kern/kern.h"
#include "model/weights.h"

/* The type that a copy of m has when `want` is wanted: that of m itself, where it
 * is quantised or its columns are no whole blocks. */
enum sl_dtype sl_draft_type(const struct sl_mat *m, enum sl_dtype want);

/* Groups g0 to before g1 of m as type t, which is quantised, to dst. room: (cols
 * floats and eight rows of t). */
void sl_draft_groups(void *dst, const struct sl_mat *m, enum sl_dtype t,
                     const struct sl_kern *kern, size_t g0, size_t g1,
                     void *room);
size_t sl_draft_room(const struct sl_mat *m, enum sl_dtype t);

/* The MTP head as `want`, experts excepted, which stay in memory of w. */
struct sl_draft_copy;

int sl_draft_copy_open(struct sl_draft_copy **out, const struct sl_weights *w,
                       enum sl_dtype want, struct sl_pool *pool,
                       const struct sl_kern *kern, struct sl_err *err);
const struct sl_mtp_w *sl_draft_copy_get(const struct sl_draft_copy *c);
void sl_draft_copy_close(struct sl_draft_copy **c);

#endif
