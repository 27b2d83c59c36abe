/* base/buf.c - a growing run of bytes with a ceiling; see buf.h */
#include "base/buf.h"

#include <stdarg.h>

#include "base/mem.h"

#if SL_SMALL
#define FIRST_CAP 23 /* odd and tiny: every boundary is crossed in tests */
#else
#define FIRST_CAP 256
#endif

void sl_buf_init(struct sl_buf *b, size_t max)
{
    *b = (struct sl_buf){.max = max};
}

void sl_buf_deinit(struct sl_buf *b)
{
    sl_mem_free(b->p);
    *b = (struct sl_buf){0};
}

void sl_buf_reset(struct sl_buf *b)
{
    b->len = 0;
    b->failed = SL_OK;
    if (b->p)
        b->p[0] = 0;
}

/* Room for `more` bytes and the zero. */
static bool grow(struct sl_buf *b, size_t more)
{
    size_t cap = b->cap ? b->cap : FIRST_CAP;

    if (b->failed)
        return false;
    if (more > b->max - b->len) {
        b->failed = SL_EARG;
        return false;
    }
    if (b->cap - b->len > more) /* cap 0 has no room even for the zero */
        return true;
    while (cap - b->len <= more)
        cap *= 2;
    if (sl_mem_resize(&b->p, cap, 1, "a text", NULL)) {
        b->failed = SL_ENOMEM;
        return false;
    }
    b->cap = cap;
    return true;
}

void sl_buf_reserve(struct sl_buf *b, size_t more)
{
    (void)grow(b, more);
}

void sl_buf_add(struct sl_buf *b, const char *p, size_t len)
{
    if (!grow(b, len))
        return;
    if (len)
        memcpy(b->p + b->len, p, len);
    b->len += len;
    b->p[b->len] = 0;
}

void sl_buf_str(struct sl_buf *b, const char *s)
{
    sl_buf_add(b, s, strlen(s));
}

void sl_buf_byte(struct sl_buf *b, char c)
{
    sl_buf_add(b, &c, 1);
}

void sl_buf_fmt(struct sl_buf *b, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !grow(b, (size_t)n))
        return;
    va_start(ap, fmt);
    vsnprintf(b->p + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

int sl_buf_check(const struct sl_buf *b, const char *what, struct sl_err *err)
{
    if (!b->failed)
        return 0;
    if (b->failed == SL_ENOMEM)
        return sl_fail(err, SL_ENOMEM, "no memory is left for %s", what);
    return sl_fail(err, b->failed, "%s is longer than the limit of %zu bytes",
                   what, b->max);
}
