/* text/jinja_run.c - one rendering: its memory, its budget, its first error
 *
 * See jinja_run.h. The heap is a list of chunks of doubling size. In debug
 * builds every object is a chunk of its own, so that AddressSanitizer sees an
 * overrun of one.
 */
#include "text/jinja_run.h"

#include <stdarg.h>

#include "base/mem.h"
#include "base/utf8.h"

#define CHUNK_MIN ((size_t)16 << 10) /* bytes; a short chat fits in one */
#define CHUNK_MAX ((size_t)1 << 20)  /* chosen, not measured */
#define ALIGN 16
#define BYTES_PER_STEP 64 /* of output; about what a node costs to visit */

struct sl_jchunk {
    struct sl_jchunk *prev;
    size_t used, cap; /* of the bytes behind this header */
};

_Static_assert(sizeof(struct sl_jchunk) <= 2 * ALIGN, "header of a chunk");

void sl_jheap_init(struct sl_jheap *h, size_t max)
{
    *h = (struct sl_jheap){.max = max};
}

void sl_jheap_deinit(struct sl_jheap *h)
{
    while (h->last) {
        struct sl_jchunk *prev = h->last->prev;

        sl_mem_free(h->last);
        h->last = prev;
    }
    h->used = 0;
}

static bool add_chunk(struct sl_jheap *h, size_t bytes)
{
    size_t cap = h->last ? 2 * h->last->cap : CHUNK_MIN;
    struct sl_jchunk *c;

    cap = sl_max(sl_min(cap, CHUNK_MAX), bytes);
    if (SL_DEBUG)
        cap = bytes;
    if (cap > h->max - h->used)
        cap = bytes;
    if (cap > h->max - h->used) {
        h->failed = SL_EARG;
        return false;
    }
    if (sl_mem_alloc(&c, 1, 2 * ALIGN + cap, "a template", NULL)) {
        h->failed = SL_ENOMEM;
        return false;
    }
    *c = (struct sl_jchunk){.prev = h->last, .cap = cap};
    h->last = c;
    h->used += cap;
    return true;
}

void *sl_jheap_get(struct sl_jheap *h, size_t n, size_t size)
{
    size_t bytes;
    unsigned char *p;

    if (h->failed)
        return NULL;
    if (!sl_mul_size(&bytes, n, size) || bytes > h->max) {
        h->failed = SL_EARG;
        return NULL;
    }
    bytes = sl_round_up(bytes ? bytes : 1, ALIGN);
    if (!h->last || bytes > h->last->cap - h->last->used)
        if (!add_chunk(h, bytes))
            return NULL;
    p = (unsigned char *)h->last + 2 * ALIGN + h->last->used;
    h->last->used += bytes;
    return p;
}

void sl_jinja_where(char *out, size_t cap, const char *src, size_t len,
                    size_t at)
{
    size_t line = 1, col = 1;

    for (size_t i = 0; i < at && i < len; i++) {
        if (src[i] == '\n') {
            line++;
            col = 1;
        } else if (((unsigned char)src[i] & 0xc0) != 0x80) {
            col++;
        }
    }
    snprintf(out, cap, "line %zu, column %zu", line, col);
}

void sl_jinja_fail(struct sl_jrun *r, enum sl_code code, const char *fmt, ...)
{
    char where[64];
    va_list ap;
    size_t n;

    if (r->rc)
        return;
    r->rc = code;
    if (!r->err)
        return;
    r->err->code = code;
    sl_jinja_where(where, sizeof(where), r->src, r->src_len, r->at);
    snprintf(r->err->msg, sizeof(r->err->msg), "%s: ", where);
    n = strlen(r->err->msg);
    va_start(ap, fmt);
    vsnprintf(r->err->msg + n, sizeof(r->err->msg) - n, fmt, ap);
    va_end(ap);
    /* A message that was cut ends with a whole character. */
    n = strlen(r->err->msg);
    r->err->msg[n - sl_utf8_partial(r->err->msg, n)] = 0;
}

bool sl_jinja_spend(struct sl_jrun *r, size_t n)
{
    if (r->rc)
        return false;
    if (n >= r->steps_left) {
        r->steps_left = 0;
        sl_jinja_fail(r, SL_EARG,
                      "the template takes too many steps; a loop in it does "
                      "not end, or the conversation is too long for it");
        return false;
    }
    r->steps_left -= n;
    return true;
}

bool sl_jinja_enter(struct sl_jrun *r)
{
    if (r->rc)
        return false;
    if (r->depth >= SL_JINJA_DEPTH) {
        sl_jinja_fail(r, SL_EARG,
                      "the template or its data nests deeper than %d levels; "
                      "a macro in it calls itself without end",
                      SL_JINJA_DEPTH);
        return false;
    }
    r->depth++;
    return true;
}

void sl_jinja_leave(struct sl_jrun *r)
{
    r->depth--;
}

void *sl_jinja_get(struct sl_jrun *r, size_t n, size_t size)
{
    void *p;

    if (r->rc)
        return NULL;
    p = sl_jheap_get(&r->heap, n, size);
    if (p)
        return p;
    if (r->heap.failed == SL_ENOMEM)
        sl_jinja_fail(r, SL_ENOMEM,
                      "the system has no more memory for this template");
    else
        sl_jinja_fail(r, SL_EARG,
                      "the template takes more than the %zu bytes of memory "
                      "allowed; shorten the conversation or mend the template",
                      r->heap.max);
    return NULL;
}

size_t sl_jinja_mark(const struct sl_jrun *r)
{
    return r->out->len;
}

void sl_jinja_emit(struct sl_jrun *r, const char *p, size_t len)
{
    if (!sl_jinja_spend(r, len / BYTES_PER_STEP))
        return;
    sl_buf_add(r->out, p, len);
    if (r->out->failed == SL_ENOMEM)
        sl_jinja_fail(r, SL_ENOMEM,
                      "the system has no more memory for the prompt");
    else if (r->out->failed)
        sl_jinja_fail(r, SL_EARG,
                      "the text is longer than the %zu bytes allowed; shorten "
                      "the conversation",
                      r->out->max);
}

void sl_jinja_emit_str(struct sl_jrun *r, const char *s)
{
    sl_jinja_emit(r, s, strlen(s));
}

void sl_jinja_drop(struct sl_jrun *r, size_t mark)
{
    if (r->out->len > mark) {
        r->out->len = mark;
        r->out->p[mark] = 0;
    }
}
