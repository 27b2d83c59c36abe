/* text/parse_out.c - what the parser gives out; see parse_out.h
 *
 * All events of a feed share one buffer of text, in order, so that a delta of
 * the kind of the one before just makes that one longer.
 */
#include "text/parse_out.h"

#include "base/mem.h"

const char *sl_parse_tag_text(enum sl_parse_tag tag)
{
    switch (tag) {
    case SL_PARSE_TAG_THINK:
        return "<think>";
    case SL_PARSE_TAG_THINK_END:
        return "</think>";
    case SL_PARSE_TAG_CALL:
        return "<tool_call>";
    case SL_PARSE_TAG_CALL_END:
        return "</tool_call>";
    }
    return "";
}

void sl_parse_spell(struct sl_buf *b, const char *s, size_t len)
{
    size_t plain = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c < SL_PARSE_MARK)
            continue;
        sl_buf_add(b, s + plain, i - plain);
        sl_buf_str(b,
                   sl_parse_tag_text((enum sl_parse_tag)(c - SL_PARSE_MARK)));
        plain = i + 1;
    }
    sl_buf_add(b, s + plain, len - plain);
}

static bool is_delta(enum sl_parse_kind kind)
{
    return kind == SL_PARSE_REASONING || kind == SL_PARSE_CONTENT ||
           kind == SL_PARSE_ARGS;
}

/* A new event at the end; false when there is no memory. */
static bool add(struct sl_parse *p, enum sl_parse_kind kind)
{
    if (p->failed)
        return false;
    if (p->n_ev == p->cap_ev) {
        size_t cap = p->cap_ev ? 2 * p->cap_ev : 8;

        if (sl_mem_resize(&p->ev, cap, sizeof(*p->ev), "events", NULL)) {
            p->failed = SL_ENOMEM;
            return false;
        }
        p->cap_ev = cap;
    }
    p->ev[p->n_ev++] = (struct sl_parse_record){
        .kind = kind,
        .call = p->n_begun ? p->n_begun - 1 : 0,
        .off = p->text.len,
    };
    return true;
}

void sl_parse_out_start(struct sl_parse *p, enum sl_parse_kind kind)
{
    if (!is_delta(kind) || p->n_ev == p->i_ev ||
        p->ev[p->n_ev - 1].kind != kind)
        (void)add(p, kind);
}

void sl_parse_out_end(struct sl_parse *p)
{
    struct sl_parse_record *e;

    if (p->failed || p->n_ev == 0)
        return;
    e = &p->ev[p->n_ev - 1];
    e->len = p->text.len - e->off;
    if (e->len == 0 && is_delta(e->kind))
        p->n_ev--;
}

void sl_parse_out(struct sl_parse *p, enum sl_parse_kind kind, const char *s,
                  size_t len)
{
    sl_parse_out_start(p, kind);
    sl_parse_spell(&p->text, s, len);
    sl_parse_out_end(p);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Space waits in a buffer of bounded length, whose fills do not depend on how
 * the text was cut. */
static void hold(struct sl_parse *p, enum sl_parse_kind kind, const char *s,
                 size_t len)
{
    while (len) {
        size_t n = sl_min(len, SL_PARSE_MAX_SPACE - p->space.len);

        sl_buf_add(&p->space, s, n);
        s += n;
        len -= n;
        if (p->space.failed || p->space.len < SL_PARSE_MAX_SPACE)
            return;
        sl_parse_out(p, kind, p->space.p, p->space.len);
        sl_buf_reset(&p->space);
    }
}

void sl_parse_put(struct sl_parse *p, enum sl_parse_kind kind, const char *s,
                  size_t len)
{
    size_t from = 0, to = len;

    if (len == 0)
        return;
    p->line_start = s[len - 1] == '\n';
    while (p->skip_space && from < len && is_space(s[from]))
        from++;
    if (from == len)
        return;
    p->skip_space = false;
    while (to > from && is_space(s[to - 1]))
        to--;
    if (to > from) {
        sl_parse_out(p, kind, p->space.p ? p->space.p : "", p->space.len);
        sl_buf_reset(&p->space);
        sl_parse_out(p, kind, s + from, to - from);
        p->said = p->said || kind == SL_PARSE_CONTENT;
        p->between = false;
        p->may_repeat = false;
    }
    hold(p, kind, s + to, len - to);
}
