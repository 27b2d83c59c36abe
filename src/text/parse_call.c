/* text/parse_call.c - the parser inside of a tool call; see parse_call.h
 *
 * Parameters are given out in the order of the markup. A string goes out as it
 * comes, behind whatever may still be its end; any other value waits until it
 * is whole, and so does its key. Hence at any moment two characters at most
 * close the JSON that was given out.
 *
 * Text between parameters belongs nowhere. It must not be lost, and content
 * must not interrupt a call, so it is content behind the call.
 */
#include "text/parse_call.h"

#include "base/machine.h"
#include "text/coerce.h"
#include "text/parse_out.h"
#include "text/scalar.h"
#include "text/tool_json.h"

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* ---- the call as a whole ---- */

/* "call_" and letters and digits: 24 of 62 are 142 bits, so an id is unique in
 * a conversation and beyond. The remainder's bias does not matter here. */
static void make_id(struct sl_parse *p, char id[SL_PARSE_ID_BYTES])
{
    static const char set[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "abcdefghijklmnopqrstuvwxyz";
    size_t n = 5;

    memcpy(id, "call_", n);
    while (n + 1 < SL_PARSE_ID_BYTES) {
        uint64_t bits =
            p->random ? p->random(p->random_ctx) : sl_machine_random();

        /* Ten characters are 60 of the 64 bits. */
        for (int k = 0; k < 10 && n + 1 < SL_PARSE_ID_BYTES; k++, bits /= 62)
            id[n++] = set[bits % 62];
    }
    id[n] = 0;
}

/* Everything of a new call but its arguments. */
static void begin(struct sl_parse *p, const char *name, size_t len)
{
    sl_buf_reset(&p->space); /* content ends without the space before a call */
    p->n_begun++;
    sl_parse_out(p, SL_PARSE_BEGIN, name, len);
    if (!p->failed)
        make_id(p, p->ev[p->n_ev - 1].id);
    p->n_param = 0;
    p->strays = false;
    p->between = false;
    p->skip_space = true;
    p->line_start = true;
    sl_buf_reset(&p->late);
    json_object_clear(p->keys);
}

/* Behind the call: what stood between its parameters. */
static void flush_late(struct sl_parse *p)
{
    p->state = SL_PARSE_IN_CONTENT;
    if (p->late.len)
        sl_parse_put(p, SL_PARSE_CONTENT, p->late.p, p->late.len);
}

static void done(struct sl_parse *p)
{
    sl_parse_out(p, SL_PARSE_END, "", 0);
    p->n_done++;
    flush_late(p);
}

static void close_call(struct sl_parse *p)
{
    const char *rest = p->n_param ? "}" : "{}";

    sl_parse_out(p, SL_PARSE_ARGS, rest, strlen(rest));
    done(p);
}

void sl_parse_call_cut(struct sl_parse *p)
{
    const char *rest = p->n_param ? "}" : "{}";

    if (p->state == SL_PARSE_IN_VALUE && p->streams)
        rest = "\"}";
    sl_parse_out(p, SL_PARSE_CUT, rest, strlen(rest));
    p->at = p->in.len;
    flush_late(p);
}

void sl_parse_call_enter(struct sl_parse *p, const struct sl_parse_opening *o)
{
    const char *name = p->in.p + o->name.at;

    if (o->json) {
        p->json = (struct sl_parse_json){.from = p->state,
                                         .start = o->object - p->at};
        p->scan = o->object;
        p->state = SL_PARSE_IN_JSON;
        return;
    }
    p->outer_open = o->outer || (p->between && p->outer_open);
    begin(p, name, o->name.len);
    p->params = sl_schema_tool(p->tools, name, o->name.len);
    p->at = o->name.next;
    p->state = SL_PARSE_IN_ARGS;
}

/* ---- between parameters ---- */

/* `"key": ` behind a brace or a comma. */
static void put_key(struct sl_parse *p)
{
    sl_parse_out_start(p, SL_PARSE_ARGS);
    sl_buf_str(&p->text, p->n_param ? ", " : "{");
    sl_scalar_key(&p->text, p->key.p, p->key.len);
    sl_buf_str(&p->text, ": ");
    sl_parse_out_end(p);
    p->n_param++;
}

static void start_value(struct sl_parse *p, const struct sl_parse_name *name)
{
    const char *s = p->in.p + name->at;

    sl_buf_reset(&p->key);
    sl_parse_spell(&p->key, s, name->len);
    p->dropped = json_object_getn(p->keys, s, name->len) != NULL;
    if (p->dropped)
        p->n_ignored++;
    else if (json_object_setn_new_nocheck(p->keys, s, name->len, json_true()))
        p->failed = SL_ENOMEM;
    p->schema = sl_schema_member(p->params, s, name->len);
    p->streams = !p->dropped && sl_coerce_is_string(p->schema);
    if (p->streams) {
        put_key(p);
        sl_parse_out(p, SL_PARSE_ARGS, "\"", 1);
    }
    p->fresh = true;
    p->at = p->scan = name->next;
    p->state = SL_PARSE_IN_VALUE;
}

/* <parameter=KEY> at p->at. */
static int try_parameter(struct sl_parse *p)
{
    struct sl_parse_name name;
    int r = sl_parse_look_open(p, p->at, "parameter");

    if (r <= 0)
        return r;
    if (!sl_parse_look_name(p, p->at + (size_t)r, &name))
        return 0;
    if (!name.ended)
        return SL_TAG_MORE;
    start_value(p, &name);
    return 1;
}

/* Tags that end the call, at p->at. */
static int try_close(struct sl_parse *p)
{
    int a = sl_parse_look_close(p, p->at, "function");
    int b = sl_parse_look_token(p, p->at, SL_PARSE_TAG_CALL_END);
    int c = sl_parse_look_token(p, p->at, SL_PARSE_TAG_CALL);
    int d = sl_parse_look_open(p, p->at, "function");

    if (a <= 0 && b <= 0 && c <= 0 && d <= 0)
        return a < 0 || b < 0 || c < 0 || d < 0 ? SL_TAG_MORE : 0;
    if (a > 0)
        p->at += (size_t)a;
    if (b > 0)
        p->at += (size_t)b;
    if (b > 0 || c > 0)
        p->outer_open = false;
    close_call(p);
    /* Unless text came between, which put() has seen to. */
    p->between = (a > 0 || d > 0) && p->skip_space;
    return 1;
}

/* Tags that mean nothing here, at p->at. */
static int try_stray(struct sl_parse *p)
{
    int a = sl_parse_look_close(p, p->at, "parameter");
    int b = p->reasoning ? sl_parse_look_token(p, p->at, SL_PARSE_TAG_THINK_END)
                         : 0;

    if (a > 0)
        p->at += (size_t)a;
    if (b > 0)
        p->at += (size_t)b;
    if (a > 0 || b > 0)
        return 1;
    return a < 0 || b < 0 ? SL_TAG_MORE : 0;
}

static void put_late(struct sl_parse *p, size_t to)
{
    if (to - p->at > p->late.max - p->late.len)
        p->n_ignored++;
    else
        sl_parse_spell(&p->late, p->in.p + p->at, to - p->at);
    p->at = to;
    p->strays = true;
}

bool sl_parse_call_args(struct sl_parse *p)
{
    size_t i;
    int a, b, c;

    while (!p->strays && p->at < p->in.len && is_space(p->in.p[p->at]))
        p->at++;
    for (i = p->at; i < p->in.len && !sl_parse_is_mark(p->in.p[i]);)
        i++;
    if (i > p->at)
        put_late(p, i);
    if (i == p->in.len) {
        if (p->final && p->end == SL_PARSE_STOP)
            close_call(p);
        return false;
    }
    a = try_parameter(p);
    b = a > 0 ? 0 : try_close(p);
    c = a > 0 || b > 0 ? 0 : try_stray(p);
    if (a > 0 || b > 0 || c > 0) {
        p->strays = false;
        return true;
    }
    if (a == 0 && b == 0 && c == 0) {
        put_late(p, i + 1);
        return true;
    }
    if (!p->final)
        return false;
    p->n_ignored += p->in.len - p->at > 1; /* half a tag */
    p->at = p->in.len;
    return true;
}

/* ---- a value ---- */

/* in[at..to) is of the value for certain. */
static void advance(struct sl_parse *p, size_t to)
{
    const char *s = p->in.p + p->at;

    if (!p->streams && !p->dropped && to - p->at > SL_PARSE_MAX_HELD) {
        p->streams = true; /* too long to wait for: a string, whatever it is */
        put_key(p);
        sl_parse_out(p, SL_PARSE_ARGS, "\"", 1);
    }
    if (p->streams && to > p->at) {
        sl_buf_reset(&p->work);
        sl_parse_spell(&p->work, s, to - p->at);
        sl_parse_out_start(p, SL_PARSE_ARGS);
        sl_scalar_escape(&p->text, p->work.p ? p->work.p : "", p->work.len);
        sl_parse_out_end(p);
    }
    if (p->streams || p->dropped)
        p->at = to;
    p->scan = to;
}

/* The value is in[at..to), and the call goes on at `next`. */
static void end_value(struct sl_parse *p, size_t to, size_t next)
{
    advance(p, to);
    if (p->streams) {
        sl_parse_out(p, SL_PARSE_ARGS, "\"", 1);
    } else if (!p->dropped) {
        sl_buf_reset(&p->work);
        sl_parse_spell(&p->work, p->in.p + p->at, to - p->at);
        put_key(p);
        sl_parse_out_start(p, SL_PARSE_ARGS);
        sl_coerce_text(&p->text, p->work.p ? p->work.p : "", p->work.len,
                       p->schema);
        sl_parse_out_end(p);
    }
    p->streams = false;
    p->at = next;
    p->state = SL_PARSE_IN_ARGS;
}

/* The text ends at a place where the value might: behind in[..to), with what
 * is perhaps a tag at `tag`. */
static bool wait_value(struct sl_parse *p, size_t to, size_t tag)
{
    size_t len = p->in.len;

    advance(p, to);
    if (!p->final || p->end == SL_PARSE_LENGTH)
        return false;
    /* One `<` alone is more likely to be data than the beginning of a tag. */
    end_value(p, len - tag == 1 ? len : to, len);
    return true;
}

bool sl_parse_call_value(struct sl_parse *p)
{
    const char *s = p->in.p;
    size_t i, len = p->in.len, next;

    if (p->fresh && p->at < len) {
        p->fresh = false;
        p->at += s[p->at] == '\n'; /* exactly one */
        p->scan = p->at;
    }
    for (i = p->scan; i < len;) {
        size_t tag = i + (s[i] == '\n');
        int r;

        if (tag == len)
            return wait_value(p, i, len);
        if (s[tag] != '<') {
            i = tag > i ? tag : i + 1;
            continue;
        }
        r = sl_parse_look_end(p, tag, tag > i, &next);
        if (r < 0)
            return wait_value(p, i, tag);
        if (r > 0) {
            end_value(p, i, next);
            return true;
        }
        i = tag + 1;
    }
    return wait_value(p, len, len);
}

/* ---- a call written as JSON ---- */

/* It was none: in[at..to) is text after all. */
static bool spill(struct sl_parse *p, size_t to)
{
    p->state = p->json.from;
    sl_parse_put(p,
                 p->state == SL_PARSE_IN_CONTENT ? SL_PARSE_CONTENT
                                                 : SL_PARSE_REASONING,
                 p->in.p + p->at, to - p->at);
    p->at = to;
    return true;
}

/* The object ends at `to`; what follows starts at `next`, and so does the
 * text if it is no call. */
static bool try_json(struct sl_parse *p, size_t to, size_t next, bool repair)
{
    size_t start = p->at + p->json.start;
    struct sl_tool_json t;
    bool ok;

    sl_buf_reset(&p->work);
    sl_parse_spell(&p->work, p->in.p + start, to - start);
    sl_tool_json_init(&t, p->text.max);
    ok = !p->work.failed &&
         sl_tool_json_read(&t, p->work.p, p->work.len, repair, p->tools) &&
         t.name.len <= SL_PARSE_MAX_NAME;
    if (ok) {
        begin(p, t.name.p, t.name.len);
        sl_parse_out(p, SL_PARSE_ARGS, t.args.p, t.args.len);
        p->n_ignored += t.n_ignored;
        p->outer_open = true;
        p->at = to;
        done(p);
    } else {
        spill(p, next);
    }
    sl_tool_json_deinit(&t);
    return true;
}

/* A tag inside of the object, at i: it has no end of its own then. In a proper
 * string a tag is a part of it. 0: none, 1: p->at has moved, MORE. */
static int json_tag(struct sl_parse *p, size_t i)
{
    int a = sl_parse_look_token(p, i, SL_PARSE_TAG_CALL_END);
    int b = sl_parse_look_token(p, i, SL_PARSE_TAG_CALL);
    int c = p->json.from == SL_PARSE_IN_REASONING
                ? sl_parse_look_token(p, i, SL_PARSE_TAG_THINK_END)
                : 0;

    if (a > 0)
        return try_json(p, i, i + (size_t)a, true);
    if (b > 0 || c > 0)
        return spill(p, i);
    return a < 0 || b < 0 || c < 0 ? SL_TAG_MORE : 0;
}

/* One byte of the object. 1: it was the last one. */
static bool json_byte(struct sl_parse_json *j, char c)
{
    if (j->quote) {
        if (j->escape)
            j->escape = false;
        else if (c == '\\')
            j->escape = true;
        else if (c == j->quote)
            j->quote = 0;
        j->broken = j->broken || c == '\n';
        return false;
    }
    if (c == '"' || c == '\'') {
        j->quote = c;
        j->broken = false;
    } else if (c == '{' || c == '[') {
        j->depth++;
    } else if (c == '}' || c == ']') {
        return --j->depth <= 0;
    }
    return false;
}

bool sl_parse_call_json(struct sl_parse *p)
{
    size_t i;

    for (i = p->scan; i < p->in.len; i++) {
        char c = p->in.p[i];
        int r = 0;

        if (i - p->at >= SL_PARSE_MAX_HELD && (c & 0xc0) != 0x80)
            return spill(p, i);
        if (sl_parse_is_mark(c) && (!p->json.quote || p->json.broken))
            r = json_tag(p, i);
        if (r > 0)
            return true;
        if (r < 0)
            break;
        if (json_byte(&p->json, c))
            return try_json(p, i + 1, i + 1, false);
    }
    p->scan = i;
    if (!p->final)
        return false;
    if (p->end == SL_PARSE_STOP)
        return try_json(p, p->in.len, p->in.len, true);
    return spill(p, p->in.len);
}
