/* text/jinja_run.h - one rendering: its memory, its budget, its first error
 *
 * Everything a template makes while it runs lives in the heap of the run and
 * ends with it. Strings are built at the end of the output buffer and taken
 * from there, so that buffer's ceiling bounds them too:
 *
 *     size_t mark = sl_jinja_mark(r);
 *     sl_jinja_emit(r, "a", 1);
 *     v = sl_jinja_take(r, mark);       (text/jinja_value.h)
 *
 * Errors stick to the run (rule E6): after the first, r->rc is not 0, every
 * function returns at once with something harmless, and loops end because they
 * look at r->rc.
 */
#ifndef SL_TEXT_JINJA_RUN_H
#define SL_TEXT_JINJA_RUN_H

#include "base/buf.h"

struct sl_jchunk;
struct sl_jdict;

/* Memory that is freed as a whole, in chunks, with a ceiling. */
struct sl_jheap {
    struct sl_jchunk *last;
    size_t used, max; /* bytes asked of the system */
    enum sl_code failed;
};

void sl_jheap_init(struct sl_jheap *h, size_t max);
void sl_jheap_deinit(struct sl_jheap *h);

/* n * size bytes aligned for any type, not cleared; NULL when that is too
 * much, and h->failed says why. */
void *sl_jheap_get(struct sl_jheap *h, size_t n, size_t size);

struct sl_jrun {
    struct sl_jheap heap;
    struct sl_buf *out;
    struct sl_err *err;
    int rc;          /* the first failure */
    const char *src; /* of the template, for line and column */
    size_t src_len;
    uint32_t at;                 /* offset in src of what is being evaluated */
    uint64_t steps_left;         /* budget of work */
    int depth;                   /* of nested evaluation */
    const struct sl_jdict *vars; /* what the caller passed in */
    int64_t now_s;               /* for strftime_now, local seconds */
};

/* How deep evaluation, macros and nested values may go. A level costs about
 * half a KiB of stack, more under sanitizers; Python's own limit is 1000. */
#if SL_DEBUG
#define SL_JINJA_DEPTH 400
#else
#define SL_JINJA_DEPTH 900
#endif

/* Remember a failure with line and column in front of it. */
void sl_jinja_fail(struct sl_jrun *r, enum sl_code code, const char *fmt, ...)
    SL_PRINTF(3, 4);

/* "line 3, column 7" of an offset. Columns count characters. */
void sl_jinja_where(char *out, size_t cap, const char *src, size_t len,
                    size_t at);

/* Take n steps from the budget; false when the run has failed. */
bool sl_jinja_spend(struct sl_jrun *r, size_t n);

/* One level deeper; false (and failed) at SL_JINJA_DEPTH. Every true is
 * followed by sl_jinja_leave. */
bool sl_jinja_enter(struct sl_jrun *r);
void sl_jinja_leave(struct sl_jrun *r);

/* Memory of the run; NULL after a failure, which is then on record. */
void *sl_jinja_get(struct sl_jrun *r, size_t n, size_t size);

size_t sl_jinja_mark(const struct sl_jrun *r);
void sl_jinja_emit(struct sl_jrun *r, const char *p, size_t len);
void sl_jinja_emit_str(struct sl_jrun *r, const char *s);
void sl_jinja_drop(struct sl_jrun *r, size_t mark); /* what came after mark */

#endif
