/* text/parse_look.c - what stands at a place of the text; see parse_look.h
 *
 * Every question has three answers, and MORE is given only while both others
 * are still possible. That, and that states act on the other two alone, is why
 * the events do not depend on how the text was cut. How far one has to look is
 * bounded by SL_PARSE_MAX_GAP and SL_PARSE_MAX_NAME.
 */
#include "text/parse_look.h"

#include "text/parse_out.h"

int sl_parse_look_token(const struct sl_parse *p, size_t at,
                        enum sl_parse_tag tag)
{
    if (at == p->in.len)
        return SL_TAG_MORE;
    if (p->tags_by_id)
        return (unsigned char)p->in.p[at] == SL_PARSE_MARK + (unsigned)tag;
    return sl_tag_exact(p->in.p + at, p->in.len - at, sl_parse_tag_text(tag));
}

int sl_parse_look_close(const struct sl_parse *p, size_t at, const char *word)
{
    return sl_tag_loose(p->in.p + at, p->in.len - at, true, word, '>');
}

int sl_parse_look_open(const struct sl_parse *p, size_t at, const char *word)
{
    return sl_tag_loose(p->in.p + at, p->in.len - at, false, word, '=');
}

/* Skip space between tags: 1 and *at is what follows; MORE; 0: too long. */
static int skip_gap(const struct sl_parse *p, size_t *at)
{
    size_t i = *at;

    while (i < p->in.len && i - *at <= SL_PARSE_MAX_GAP &&
           (p->in.p[i] == ' ' || (p->in.p[i] >= '\t' && p->in.p[i] <= '\r')))
        i++;
    if (i - *at > SL_PARSE_MAX_GAP)
        return 0;
    *at = i;
    return i < p->in.len ? 1 : SL_TAG_MORE;
}

bool sl_parse_look_name(const struct sl_parse *p, size_t at,
                        struct sl_parse_name *out)
{
    const char *s = p->in.p;
    size_t to = at;

    while (to < p->in.len && to - at <= SL_PARSE_MAX_NAME && s[to] != '>' &&
           s[to] != '\n' && !sl_parse_is_mark(s[to]))
        to++;
    if (to - at > SL_PARSE_MAX_NAME)
        return false;
    out->ended = to < p->in.len;
    out->next = out->ended && !sl_parse_is_mark(s[to]) ? to + 1 : to;
    while (at < to && (s[at] == ' ' || s[at] == '\t' || s[at] == '\r'))
        at++;
    while (at < to &&
           (s[to - 1] == ' ' || s[to - 1] == '\t' || s[to - 1] == '\r'))
        to--;
    out->at = at;
    out->len = to - at;
    return out->len > 0 || !out->ended;
}

/* The name of the function that is called. `any`: the tool may be unknown. At
 * the end of the output a known name counts though its `>` is missing. */
static int look_function(const struct sl_parse *p, size_t at, bool any,
                         struct sl_parse_name *out)
{
    const char *s;
    int r = sl_parse_look_open(p, at, "function");

    if (r <= 0)
        return r;
    if (!sl_parse_look_name(p, at + (size_t)r, out))
        return 0;
    s = p->in.p + out->at;
    if (out->ended)
        return any || sl_schema_has_tool(p->tools, s, out->len, false);
    if (!p->final)
        return any || sl_schema_has_tool(p->tools, s, out->len, true)
                   ? SL_TAG_MORE
                   : 0;
    return p->end == SL_PARSE_STOP && out->len &&
           sl_schema_has_tool(p->tools, s, out->len, false);
}

/* A brace and a quote, or an empty object, is the beginning of a call. */
static int look_object(const struct sl_parse *p, size_t at,
                       struct sl_parse_opening *out)
{
    size_t i = at + 1;
    int r = skip_gap(p, &i);

    if (r <= 0)
        return r;
    if (p->in.p[i] != '"' && p->in.p[i] != '\'' && p->in.p[i] != '}')
        return 0;
    out->json = true;
    out->object = at;
    return 1;
}

int sl_parse_look_call(const struct sl_parse *p, struct sl_parse_opening *out)
{
    size_t i = p->at;
    int r;

    *out = (struct sl_parse_opening){.outer = false};
    if (!p->tools || p->n_begun == SL_PARSE_MAX_CALLS)
        return 0;
    r = sl_parse_look_token(p, i, SL_PARSE_TAG_CALL);
    if (r > 0) {
        out->outer = true;
        i += (size_t)r;
        r = skip_gap(p, &i);
        if (r <= 0)
            return r;
        if (p->in.p[i] == '{')
            return look_object(p, i, out);
        return look_function(p, i, true, &out->name);
    }
    if (r < 0)
        return r;
    if (p->state != SL_PARSE_IN_CONTENT)
        return 0;
    if (p->between)
        return look_function(p, i, true, &out->name);
    if (p->line_start && p->style == SL_PARSE_QWEN3_CODER)
        return look_function(p, i, false, &out->name);
    return 0;
}

/* </parameter> ends a value only if the call goes on or ends behind it, or the
 * next one begins: a value may be a text about this very markup. */
static int look_end_tag(const struct sl_parse *p, size_t at)
{
    int r = skip_gap(p, &at), a, b, c, d;

    if (r < 0)
        return r;
    if (r == 0)
        return 1;
    a = sl_parse_look_open(p, at, "parameter");
    b = sl_parse_look_close(p, at, "function");
    c = sl_parse_look_token(p, at, SL_PARSE_TAG_CALL_END);
    d = sl_parse_look_token(p, at, SL_PARSE_TAG_CALL);
    if (a > 0 || b > 0 || c > 0 || d > 0)
        return 1;
    return a < 0 || b < 0 || c < 0 || d < 0 ? SL_TAG_MORE : 0;
}

/* </function> and </tool_call>, without a </parameter>. */
static int look_end_call(const struct sl_parse *p, size_t at)
{
    int r = sl_parse_look_close(p, at, "function");

    if (r <= 0)
        return r;
    at += (size_t)r;
    r = skip_gap(p, &at);
    if (r <= 0)
        return r;
    r = sl_parse_look_token(p, at, SL_PARSE_TAG_CALL_END);
    return r > 0 ? 1 : r;
}

/* The next parameter, of a key in the schema, without a </parameter>. */
static int look_next(const struct sl_parse *p, size_t at)
{
    struct sl_parse_name name;
    int r = sl_parse_look_open(p, at, "parameter");

    if (r <= 0)
        return r;
    if (!sl_parse_look_name(p, at + (size_t)r, &name) ||
        !sl_schema_has_key(p->params, p->in.p + name.at, name.len, !name.ended))
        return 0;
    return name.ended ? 1 : SL_TAG_MORE;
}

int sl_parse_look_end(const struct sl_parse *p, size_t at, bool line_start,
                      size_t *next)
{
    int r = sl_parse_look_close(p, at, "parameter"), a, b;

    if (r > 0) {
        *next = at + (size_t)r;
        return look_end_tag(p, *next);
    }
    *next = at;
    a = look_end_call(p, at);
    b = line_start ? look_next(p, at) : 0;
    if (a > 0 || b > 0)
        return 1;
    return r < 0 || a < 0 || b < 0 ? SL_TAG_MORE : 0;
}
