/* text/tool_json.c - a tool call written as one JSON object; see tool_json.h
 *
 * The name may come behind the arguments, and their schema is found by the
 * name. So the arguments are skipped first, where they are is remembered, and
 * they are read once the object has ended.
 */
#include "text/tool_json.h"

#include "text/literal.h"

/* Where the arguments begin; SIZE_MAX: there are none. */
struct found {
    size_t args;
    bool named;
};

void sl_tool_json_init(struct sl_tool_json *t, size_t max_bytes)
{
    *t = (struct sl_tool_json){.n_ignored = 0};
    sl_buf_init(&t->name, max_bytes);
    sl_buf_init(&t->args, max_bytes);
}

void sl_tool_json_deinit(struct sl_tool_json *t)
{
    sl_buf_deinit(&t->name);
    sl_buf_deinit(&t->args);
}

static bool is(const struct sl_buf *key, const char *word)
{
    return key->len == strlen(word) && memcmp(key->p, word, key->len) == 0;
}

/* One member. `args` is used as work space. */
static bool member(struct sl_tool_json *t, struct sl_literal *r,
                   struct found *f)
{
    struct sl_schema none = {NULL, NULL};

    sl_buf_reset(&t->args);
    if (!sl_literal_string(r, &t->args) || !sl_literal_take(r, ':'))
        return false;
    sl_literal_space(r);
    if (is(&t->args, "name") && !f->named) {
        f->named = true;
        return sl_literal_string(r, &t->name);
    }
    if ((is(&t->args, "arguments") || is(&t->args, "parameters")) &&
        f->args == SIZE_MAX)
        f->args = r->at;
    else
        t->n_ignored++;
    sl_buf_reset(&t->args);
    return sl_literal_value(r, none, &t->args);
}

static bool members(struct sl_tool_json *t, struct sl_literal *r,
                    struct found *f)
{
    bool more = sl_literal_take(r, '{');

    while (more) {
        if (sl_literal_take(r, '}'))
            break;
        if (!member(t, r, f))
            return false;
        more = sl_literal_take(r, ',');
        if (!more && !sl_literal_take(r, '}') &&
            !(r->repair && r->at == r->len))
            return false;
    }
    sl_literal_space(r);
    return r->at == r->len;
}

/* The object that comes next, by the schema of the tool. */
static bool object(struct sl_tool_json *t, struct sl_literal *r, json_t *tools)
{
    struct sl_schema schema = sl_schema_tool(tools, t->name.p, t->name.len);

    sl_literal_space(r);
    return r->at < r->len && r->s[r->at] == '{' &&
           sl_literal_value(r, schema, &t->args);
}

/* The text of an object inside of a string. */
static bool object_text(struct sl_tool_json *t, struct sl_literal *r,
                        json_t *tools)
{
    struct sl_buf text;
    struct sl_literal in;
    bool ok = false;

    sl_buf_init(&text, t->args.max);
    if (sl_literal_string(r, &text)) {
        in = (struct sl_literal){.s = text.p ? text.p : "", .len = text.len};
        sl_literal_space(&in);
        if (in.at == in.len) {
            sl_buf_str(&t->args, "{}");
            ok = true;
        } else {
            ok = object(t, &in, tools);
            sl_literal_space(&in);
            ok = ok && in.at == in.len;
        }
    }
    sl_buf_deinit(&text);
    return ok;
}

bool sl_tool_json_read(struct sl_tool_json *t, const char *s, size_t len,
                       bool repair, json_t *tools)
{
    struct sl_literal r = {.s = s, .len = len, .repair = repair};
    struct found f = {.args = SIZE_MAX};

    if (!members(t, &r, &f) || t->name.len == 0)
        return false;
    sl_buf_reset(&t->args);
    if (f.args == SIZE_MAX || s[f.args] == 'n' || s[f.args] == 'N') {
        sl_buf_str(&t->args, "{}"); /* absent, null or None */
        return !t->args.failed;
    }
    r.at = f.args;
    if (s[f.args] == '{')
        return object(t, &r, tools) && !t->args.failed;
    return object_text(t, &r, tools) && !t->args.failed;
}
