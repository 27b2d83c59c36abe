/* text/reply.c - a whole reply; see reply.h */
#include "text/reply.h"

#include "base/mem.h"

void sl_reply_init(struct sl_reply *r)
{
    *r = (struct sl_reply){.ended = false};
    sl_buf_init(&r->reasoning, SL_REPLY_MAX_TEXT);
    sl_buf_init(&r->content, SL_REPLY_MAX_TEXT);
}

void sl_reply_deinit(struct sl_reply *r)
{
    sl_buf_deinit(&r->reasoning);
    sl_buf_deinit(&r->content);
    for (size_t i = 0; i < r->n_call; i++) {
        sl_buf_deinit(&r->call[i].name);
        sl_buf_deinit(&r->call[i].args);
    }
    sl_mem_free(r->call);
    *r = (struct sl_reply){.ended = false};
}

static int begin(struct sl_reply *r, const struct sl_parse_event *ev,
                 struct sl_err *err)
{
    struct sl_reply_call *c;

    if (r->n_call == r->cap_call) {
        size_t cap = r->cap_call ? 2 * r->cap_call : 4;
        int rc = sl_mem_resize(&r->call, cap, sizeof(*c), "tool calls", err);

        if (rc)
            return rc;
        r->cap_call = cap;
    }
    c = &r->call[r->n_call++];
    *c = (struct sl_reply_call){.complete = false};
    memcpy(c->id, ev->id, sizeof(c->id));
    sl_buf_init(&c->name, SL_REPLY_MAX_TEXT);
    sl_buf_init(&c->args, SL_REPLY_MAX_TEXT);
    sl_buf_add(&c->name, ev->text, ev->len);
    return sl_buf_check(&c->name, "the name of a tool", err);
}

static int add(struct sl_buf *b, const struct sl_parse_event *ev,
               const char *what, struct sl_err *err)
{
    sl_buf_add(b, ev->text, ev->len);
    return sl_buf_check(b, what, err);
}

static int take(struct sl_reply *r, const struct sl_parse_event *ev,
                struct sl_err *err)
{
    struct sl_reply_call *c = r->n_call ? &r->call[r->n_call - 1] : NULL;

    switch (ev->kind) {
    case SL_PARSE_REASONING:
        return add(&r->reasoning, ev, "the reasoning of a reply", err);
    case SL_PARSE_CONTENT:
        return add(&r->content, ev, "the content of a reply", err);
    case SL_PARSE_BEGIN:
        return begin(r, ev, err);
    case SL_PARSE_ARGS:
    case SL_PARSE_CUT:
        SL_ASSERT(c); /* BEGIN comes first */
        return add(&c->args, ev, "the arguments of a tool call", err);
    case SL_PARSE_END:
        SL_ASSERT(c);
        c->complete = true;
        return 0;
    case SL_PARSE_DONE:
        r->ended = true;
        return 0;
    }
    return 0;
}

int sl_reply_take(struct sl_reply *r, struct sl_parse *p, struct sl_err *err)
{
    struct sl_parse_event ev;
    int rc = 0;

    while (!rc && sl_parse_next(p, &ev))
        rc = take(r, &ev, err);
    return rc;
}
