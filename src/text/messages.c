/* text/messages.c - the messages of a request -> what a template can take
 *
 * See messages.h for what is done and serving.md 2.5 for why. Unreadable
 * arguments of a call are kept as text rather than refused: they come from a
 * generation that was cut, stay in the history of the client, and a refusal
 * would end that conversation for ever.
 *
 * Messages are copied one level deep; what is inside is shared with the input
 * and not written to. jansson counts references atomically.
 */
#include "text/messages.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/num.h"
#include "base/plain.h"

#define MAX_TEXT ((size_t)256 << 20) /* bytes of one message */
#define MAX_LOG 60 /* bytes of a name that are logged */
#define JSON_FLAGS (JSON_ALLOW_NUL | JSON_DECODE_ANY)

/* Set key; `v` is given. */
static int set(json_t *obj, const char *key, json_t *v, struct sl_err *err)
{
    if (v && json_object_set_new(obj, key, v) == 0)
        return 0;
    return sl_fail(err, SL_ENOMEM, "no memory is left for the messages");
}

static int push(json_t *array, json_t *v, struct sl_err *err)
{
    if (v && json_array_append_new(array, v) == 0)
        return 0;
    return sl_fail(err, SL_ENOMEM, "no memory is left for the messages");
}

static json_t *string_of(const struct sl_buf *b)
{
    return b->failed ? NULL : json_stringn(b->p ? b->p : "", b->len);
}

static bool is(const json_t *v, const char *s)
{
    return json_is_string(v) && strcmp(json_string_value(v), s) == 0;
}

static bool is_role(const json_t *m, const char *role)
{
    return is(json_object_get(m, "role"), role);
}

/* ---- content ---- */

static bool is_refusal(const json_t *part)
{
    return is(json_object_get(part, "type"), "refusal");
}

/* The text of a part; NULL for another kind of part. */
static const json_t *part_text(const json_t *part)
{
    static const char *const kinds[] = {"text", "input_text", "output_text"};
    const json_t *type = json_object_get(part, "type"), *text;

    if (json_is_string(part))
        return part;
    if (is_refusal(part))
        return json_object_get(part, "refusal");
    text = json_object_get(part, "text");
    if (!type)
        return text;
    for (size_t i = 0; i < SL_COUNTOF(kinds); i++)
        if (is(type, kinds[i]))
            return text;
    return NULL;
}

static int check_part(const json_t *part, size_t i, size_t k,
                      struct sl_err *err)
{
    const json_t *text = part_text(part);
    const char *type = json_string_value(json_object_get(part, "type"));

    if (json_is_string(text))
        return 0;
    if (!json_is_object(part))
        return sl_fail(err, SL_EARG,
                       "messages[%zu].content[%zu] must be an object such as "
                       "{\"type\": \"text\", \"text\": \"...\"}",
                       i, k);
    if (text || is_refusal(part) || (type && strcmp(type, "text") == 0))
        return sl_fail(err, SL_EARG,
                       "messages[%zu].content[%zu].%s is no text; give it as a "
                       "string",
                       i, k, is_refusal(part) ? "refusal" : "text");
    if (!type)
        return sl_fail(err, SL_EARG,
                       "messages[%zu].content[%zu].type is missing; it is "
                       "\"text\" for a text",
                       i, k);
    return sl_fail(err, SL_EARG,
                   "messages[%zu].content[%zu].type is '%.60s', and this "
                   "engine reads text only; send its content as text",
                   i, k, type);
}

static int join_parts(json_t *m, const json_t *parts, struct sl_err *err)
{
    struct sl_buf b;
    int rc;

    sl_buf_init(&b, MAX_TEXT);
    for (size_t k = 0; k < json_array_size(parts); k++) {
        const json_t *t = part_text(json_array_get(parts, k));

        sl_buf_add(&b, json_string_value(t), json_string_length(t));
    }
    rc = set(m, "content", string_of(&b), err);
    sl_buf_deinit(&b);
    return rc;
}

static int content(json_t *m, size_t i, bool repair, struct sl_err *err)
{
    json_t *c = json_object_get(m, "content");
    int rc = 0;

    if (json_is_string(c))
        return 0;
    if (!c)
        return repair ? set(m, "content", json_string(""), err) : 0;
    if (!json_is_array(c))
        return sl_fail(err, SL_EARG,
                       "messages[%zu].content must be a string or an array of "
                       "parts",
                       i);
    for (size_t k = 0; !rc && k < json_array_size(c); k++)
        rc = check_part(json_array_get(c, k), i, k, err);
    if (rc || !repair)
        return rc;
    return join_parts(m, c, err);
}

/* The first name that is used counts, and templates read two of them. */
static int reasoning(json_t *m, size_t i, struct sl_err *err)
{
    static const char *const names[] = {"reasoning_content", "thinking",
                                        "reasoning"};
    json_t *v = NULL;
    int rc = 0;

    for (size_t k = 0; k < SL_COUNTOF(names) && !v; k++)
        v = json_object_get(m, names[k]);
    if (!v)
        return 0;
    if (!json_is_string(v))
        return sl_fail(err, SL_EARG,
                       "messages[%zu].reasoning_content must be a string", i);
    if (!json_object_get(m, "thinking"))
        rc = set(m, "thinking", json_incref(v), err);
    if (!rc)
        rc = set(m, "reasoning_content", json_incref(v), err);
    return rc;
}

/* ---- calls ---- */

/* The parameters that a tool takes, a schema; NULL when nobody says. */
static const json_t *params_of(const json_t *tools, const char *name)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *f = json_object_get(json_array_get(tools, i), "function");

        if (is(json_object_get(f, "name"), name))
            return json_object_get(f, "parameters");
    }
    return NULL;
}

/* Under which parameter the model sees text that is no object: the first that
 * the tool requires, or takes. */
static const char *place_of(const json_t *params)
{
    json_t *props = json_object_get(params, "properties");
    const char *s = json_string_value(
        json_array_get(json_object_get(params, "required"), 0));

    if (!s)
        s = json_object_iter_key(json_object_iter(props));
    return s ? s : "arguments";
}

static bool is_blank(const json_t *s)
{
    const char *p = json_string_value(s);
    size_t n = json_string_length(s);

    while (n && strchr(" \t\r\n", p[n - 1]) && p[n - 1])
        n--;
    return n == 0;
}

/* Bytes of the number at s that is larger than the parser reads; 0: none is. */
static size_t large_number(const char *s)
{
    size_t n = strspn(s, "+-.0123456789eE");
    int64_t whole;
    double x;

    if (n < 5 || (s[0] != '-' && (s[0] < '0' || s[0] > '9')) ||
        !sl_num_i64(&whole, s, n, INT64_MIN, INT64_MAX, "", NULL) ||
        (strcspn(s, ".eE") < n &&
         !sl_num_f64(&x, s, n, -1.7e308, 1.7e308, "", NULL)))
        return 0;
    return n;
}

/* What the text spells when numbers beyond 64 bits are strings: templates print
 * a string argument as it stands, so not a digit is lost. */
static json_t *parse_large(const json_t *text)
{
    const char *s = json_string_value(text);
    bool in_str = false;
    struct sl_buf b;
    json_t *v = NULL;

    sl_buf_init(&b, MAX_TEXT);
    for (size_t i = 0, n; s[i]; i += n) {
        n = in_str ? 1 : strspn(s + i, "+-.0123456789eE");
        n = n ? n : 1;
        if (!in_str && large_number(s + i)) {
            sl_buf_byte(&b, '"');
            sl_buf_add(&b, s + i, n);
            sl_buf_byte(&b, '"');
            continue;
        }
        n += in_str && s[i] == '\\' && s[i + 1];
        in_str = in_str != (s[i] == '"');
        sl_buf_add(&b, s + i, n);
    }
    if (!b.failed && b.len)
        v = json_loadb(b.p, b.len, JSON_FLAGS, NULL);
    sl_buf_deinit(&b);
    return v;
}

/* An object that holds the text. */
static json_t *keep_text(const char *text, size_t len, const json_t *tools,
                         const char *name)
{
    const char *at = place_of(params_of(tools, name));
    char tool[MAX_LOG], kept[MAX_LOG];
    json_t *obj = json_object();

    (void)sl_plain_word(tool, sizeof(tool), name);
    (void)sl_plain_word(kept, sizeof(kept), at);
    sl_log(SL_LOG_WARN, "event=arguments_unreadable tool=%s kept_as=%s", tool,
           kept);
    if (obj && json_object_set_new(obj, at, json_stringn(text, len)) == 0)
        return obj;
    json_decref(obj);
    return NULL;
}

/* The object that the text spells, or one that holds the text. */
static json_t *parse_arguments(const json_t *text, const json_t *tools,
                               const char *name)
{
    json_error_t je;
    json_t *v;

    if (is_blank(text))
        return json_object();
    v = json_loadb(json_string_value(text), json_string_length(text),
                   JSON_FLAGS, &je);
    if (!v)
        v = parse_large(text);
    if (json_is_object(v))
        return v;
    json_decref(v);
    return keep_text(json_string_value(text), json_string_length(text), tools,
                     name);
}

/* Some clients send what they have read: an object, or a value that is none. */
static json_t *value_arguments(const json_t *v, const json_t *tools,
                               const char *name)
{
    json_t *obj;
    char *s;

    if (!v || json_is_null(v))
        return json_object();
    s = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    obj = s ? keep_text(s, strlen(s), tools, name) : NULL;
    free(s); /* jansson's own */
    return obj;
}

/* A copy of the call in which the arguments are an object. */
static int one_call(json_t *calls, const json_t *call, const json_t *tools,
                    size_t i, size_t k, struct sl_err *err)
{
    const json_t *inner = json_object_get(call, "function"), *f, *args;
    json_t *copy, *fn, *shared;
    const char *name;
    int rc;

    f = inner ? inner : call;
    args = json_object_get(f, "arguments");
    if (!json_is_object(f) || !json_is_string(json_object_get(f, "name")))
        return sl_fail(err, SL_EARG,
                       "messages[%zu].tool_calls[%zu].%s must name the function "
                       "that was called",
                       i, k, json_is_object(f) ? "function.name" : "function");
    memcpy(&shared, &f, sizeof(shared)); /* json_copy takes no const */
    fn = json_copy(shared);
    if (!fn)
        return sl_fail(err, SL_ENOMEM, "no memory is left for the messages");
    name = json_string_value(json_object_get(f, "name"));
    if (json_is_string(args))
        rc = set(fn, "arguments", parse_arguments(args, tools, name), err);
    else if (json_is_object(args))
        rc = 0;
    else
        rc = set(fn, "arguments", value_arguments(args, tools, name), err);
    if (rc || !inner) {
        if (!rc)
            return push(calls, fn, err);
        json_decref(fn);
        return rc;
    }
    memcpy(&shared, &call, sizeof(shared));
    copy = json_copy(shared);
    rc = copy ? set(copy, "function", fn, err)
              : sl_fail(err, SL_ENOMEM, "no memory is left for the messages");
    if (!copy)
        json_decref(fn);
    if (!rc)
        return push(calls, copy, err);
    json_decref(copy);
    return rc;
}

static int tool_calls(json_t *m, size_t i, const json_t *tools,
                      struct sl_err *err)
{
    json_t *old = json_object_get(m, "tool_calls"), *calls;
    int rc = 0;

    if (!old)
        return 0;
    if (!json_is_array(old))
        return sl_fail(err, SL_EARG,
                       "messages[%zu].tool_calls must be an array", i);
    if (json_array_size(old) == 0) {
        (void)json_object_del(m, "tool_calls");
        return 0;
    }
    calls = json_array();
    for (size_t k = 0; calls && !rc && k < json_array_size(old); k++)
        rc = one_call(calls, json_array_get(old, k), tools, i, k, err);
    if (!rc)
        return set(m, "tool_calls", calls, err);
    json_decref(calls);
    return rc;
}

/* ---- messages ---- */

/* A copy without the keys whose value is null. */
static json_t *copy_message(const json_t *m)
{
    json_t *copy = json_object(), *v;
    const char *key;
    int rc = copy ? 0 : -1;

    json_object_foreach((json_t *)(uintptr_t)m, key, v) /* takes no const */
    {
        if (!rc && !json_is_null(v))
            rc = json_object_set(copy, key, v);
    }
    if (!rc)
        return copy;
    json_decref(copy);
    return NULL;
}

static int rename_role(json_t *m, struct sl_err *err)
{
    if (is_role(m, "developer"))
        return set(m, "role", json_string("system"), err);
    if (is_role(m, "function"))
        return set(m, "role", json_string("tool"), err);
    return 0;
}

static int one_message(json_t *list, const json_t *m, size_t i,
                       const json_t *tools, bool repair, struct sl_err *err)
{
    json_t *copy;
    int rc;

    if (!json_is_object(m) || !json_is_string(json_object_get(m, "role")))
        return sl_fail(err, SL_EARG,
                       "messages[%zu] must be an object with a 'role', such "
                       "as {\"role\": \"user\", \"content\": \"...\"}",
                       i);
    copy = copy_message(m);
    rc = push(list, copy, err); /* the list's now */
    if (!rc)
        rc = content(copy, i, repair, err);
    if (!rc)
        rc = reasoning(copy, i, err);
    if (!rc && repair)
        rc = rename_role(copy, err);
    if (!rc && repair)
        rc = tool_calls(copy, i, tools, err);
    return rc;
}

/* Several or late system messages become one at the front. */
static int merge_system(json_t *list, struct sl_err *err)
{
    size_t n = 0, last = 0;
    struct sl_buf b;
    json_t *m;
    int rc;

    for (size_t i = 0; i < json_array_size(list); i++)
        if (is_role(json_array_get(list, i), "system")) {
            last = i;
            n++;
        }
    if (n == 0 || (n == 1 && last == 0))
        return 0;
    sl_buf_init(&b, MAX_TEXT);
    for (size_t i = 0; i < json_array_size(list);) {
        const json_t *c;

        m = json_array_get(list, i);
        if (!is_role(m, "system")) {
            i++;
            continue;
        }
        c = json_object_get(m, "content");
        if (b.len && json_string_length(c))
            sl_buf_str(&b, "\n\n");
        sl_buf_add(&b, json_string_value(c), json_string_length(c));
        (void)json_array_remove(list, i);
    }
    m = json_object();
    rc = m ? set(m, "role", json_string("system"), err)
           : sl_fail(err, SL_ENOMEM, "no memory is left for the messages");
    if (!rc)
        rc = set(m, "content", string_of(&b), err);
    sl_buf_deinit(&b);
    if (!rc && json_array_insert(list, 0, m))
        rc = sl_fail(err, SL_ENOMEM, "no memory is left for the messages");
    json_decref(m);
    return rc;
}

/* Templates look for a turn of the user and refuse to go on without. */
static int need_user(json_t *list, struct sl_err *err)
{
    size_t at = is_role(json_array_get(list, 0), "system");
    json_t *m;

    for (size_t i = 0; i < json_array_size(list); i++)
        if (is_role(json_array_get(list, i), "user"))
            return 0;
    sl_log(SL_LOG_INFO, "event=no_user_message added=empty");
    m = json_pack("{s:s, s:s}", "role", "user", "content", "");
    if (m && json_array_insert_new(list, at, m) == 0)
        return 0;
    return sl_fail(err, SL_ENOMEM, "no memory is left for the messages");
}

int sl_messages_prepare(json_t **out, const json_t *messages,
                        const json_t *tools, bool repair, struct sl_err *err)
{
    json_t *list;
    int rc = 0;

    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return sl_fail(err, SL_EARG,
                       "messages must be an array of at least one message");
    list = json_array();
    if (!list)
        return sl_fail(err, SL_ENOMEM, "no memory is left for the messages");
    for (size_t i = 0; !rc && i < json_array_size(messages); i++)
        rc = one_message(list, json_array_get(messages, i), i, tools, repair,
                         err);
    if (!rc && repair)
        rc = merge_system(list, err);
    if (!rc && repair)
        rc = need_user(list, err);
    if (rc)
        json_decref(list);
    else
        *out = list;
    return rc;
}
