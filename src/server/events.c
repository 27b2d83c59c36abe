/* server/events.c - server-sent events, read; see events.h */
#include "server/events.h"

static const char prefix[] = "data: ", last[] = "[DONE]";

static bool begins(const char *s, size_t n, const char *with)
{
    return n >= strlen(with) && !memcmp(s, with, strlen(with));
}

static void one(const char *s, size_t n, sl_on_event *on_event, void *ctx)
{
    size_t skip = strlen(prefix);
    json_t *j;

    if (!begins(s, n, prefix) || begins(s + skip, n - skip, last))
        return;
    j = json_loadb(s + skip, n - skip, JSON_ALLOW_NUL, NULL);
    on_event(ctx, j, s, n);
    json_decref(j);
}

void sl_events_take(struct sl_buf *b, sl_on_event *on_event, void *ctx)
{
    size_t at = 0;
    const char *end;

    while (b->len > at &&
           (end = memmem(b->p + at, b->len - at, "\n\n", 2)) != NULL) {
        while (b->p[at] == '\n' && b->p + at < end)
            at++;
        one(b->p + at, (size_t)(end - b->p) - at, on_event, ctx);
        at = (size_t)(end - b->p) + 2;
    }
    if (at == 0)
        return;
    memmove(b->p, b->p + at, b->len - at + 1);
    b->len -= at;
}
