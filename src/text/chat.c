/* text/chat.c - a conversation -> the text of a prompt
 *
 * The messages are prepared (messages.c), the switches of the request become
 * variables, and the template of the model makes the text. Two things are done
 * around it:
 *
 * Effort. Templates of Qwen3.8 know low, medium and xhigh and raise an
 * exception for other words; earlier ones know no effort, only thinking on and
 * off. A request may use any of the seven words of the OpenAI interface
 * (serving.md 2.5), so they are translated to what the template's text
 * mentions.
 *
 * Continuing. To leave the last turn open, a mark is put behind its content,
 * and the prompt is cut where the mark comes out. If the template trimmed the
 * blank at the end of the mark, it trims contents, and what is before the cut
 * is trimmed like it. So does transformers.
 */
#include "text/chat.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/jinja_text.h"
#include "text/messages.h"
#include "text/template.h"

#define MARK "CONTINUE_FINAL_MESSAGE_TAG"
#define MAX_CONF ((size_t)64 << 20) /* bytes of tokenizer_config.json */
#define JINJA "chat_template.jinja"

struct sl_chat {
    struct sl_template *plain;
    struct sl_template *tools; /* for requests with tools; may be NULL */
    json_t *tokens;            /* bos_token and its like */
};

void sl_chat_opts_init(struct sl_chat_opts *o)
{
    *o = (struct sl_chat_opts){.add_generation_prompt = true,
                               .now_s = (int64_t)time(NULL)};
}

/* ---- opening ---- */

/* bos_token and its like, which may be a string or an object that holds it. */
static int load_tokens(struct sl_chat *c, const json_t *conf,
                       struct sl_err *err)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token",
                                        "sep_token", "pad_token", "cls_token",
                                        "mask_token"};

    c->tokens = json_object();
    if (!c->tokens)
        return sl_fail(err, SL_ENOMEM, "no memory is left for a template");
    for (size_t i = 0; i < SL_COUNTOF(names); i++) {
        json_t *v = json_object_get(conf, names[i]);

        if (json_is_object(v))
            v = json_object_get(v, "content");
        if (json_is_string(v) && json_object_set(c->tokens, names[i], v))
            return sl_fail(err, SL_ENOMEM, "no memory is left for a template");
    }
    return 0;
}

static int open_string(struct sl_template **out, const json_t *text,
                       const char *what, struct sl_err *err)
{
    return sl_template_open(out, json_string_value(text),
                            json_string_length(text), what, err);
}

/* [{"name": "default", "template": "..."}, ...] */
static int open_named(struct sl_chat *c, const json_t *list, struct sl_err *err)
{
    int rc = 0;

    for (size_t i = 0; !rc && i < json_array_size(list); i++) {
        const json_t *e = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(e, "name"));
        const json_t *text = json_object_get(e, "template");

        if (!name || !json_is_string(text))
            return sl_fail(err, SL_EFORMAT,
                           "chat_template[%zu] in tokenizer_config.json needs "
                           "a name and a template",
                           i);
        if (strcmp(name, "default") == 0 && !c->plain)
            rc = open_string(&c->plain, text, "default", err);
        else if (strcmp(name, "tool_use") == 0 && !c->tools)
            rc = open_string(&c->tools, text, "tool_use", err);
    }
    return rc;
}

static int no_template(const char *what, struct sl_err *err)
{
    bool folder = !strcmp(what, JINJA);

    return sl_fail(err, SL_ENOTFOUND,
                   "the model has no chat template: %s%s%s; give one with "
                   "--chat-template, or send plain text",
                   folder ? "neither " : "no ", what,
                   folder ? " nor chat_template in tokenizer_config.json" : "");
}

static int open_from_conf(struct sl_chat *c, const json_t *conf,
                          const char *what, struct sl_err *err)
{
    const json_t *t = json_object_get(conf, "chat_template");
    int rc = 0;

    if (json_is_string(t))
        return open_string(&c->plain, t, "tokenizer_config.json", err);
    if (json_is_array(t))
        rc = open_named(c, t, err);
    else if (t && !json_is_null(t))
        return sl_fail(err, SL_EFORMAT,
                       "chat_template in tokenizer_config.json must be a "
                       "string or a list of named templates");
    if (!rc && !c->plain)
        rc = no_template(what, err);
    return rc;
}

int sl_chat_parse(struct sl_chat **out, const char *jinja, size_t len,
                  const char *conf, size_t conf_len, const char *what,
                  struct sl_err *err)
{
    struct sl_chat *c = NULL;
    json_t *j = NULL;
    int rc = sl_mem_alloc(&c, 1, sizeof(*c), "a chat template", err);

    if (!rc && conf)
        rc = sl_json_parse(&j, conf, conf_len, "tokenizer_config.json", err);
    if (!rc)
        rc = load_tokens(c, j, err);
    if (!rc && jinja)
        rc = sl_template_open(&c->plain, jinja, len, what, err);
    else if (!rc)
        rc = open_from_conf(c, j, what, err);
    json_decref(j);
    if (rc)
        sl_chat_close(&c);
    else
        *out = c;
    return rc;
}

/* The file, or NULL if there is none. */
static int read_if(char **text, size_t *len, const char *dir, const char *name,
                   size_t max, struct sl_err *err)
{
    char path[4096];
    int rc = sl_path_join(path, sizeof(path), dir, name, err);

    if (rc || sl_file_kind(path) == SL_FILE_NONE)
        return rc;
    return sl_file_read(text, len, path, max, err);
}

int sl_chat_load(struct sl_chat **out, const char *dir, struct sl_err *err)
{
    char *jinja = NULL, *conf = NULL;
    size_t len = 0, conf_len = 0;
    int rc = read_if(&jinja, &len, dir, JINJA, SL_TEMPLATE_MAX_SOURCE, err);

    if (!rc)
        rc = read_if(&conf, &conf_len, dir, "tokenizer_config.json", MAX_CONF,
                     err);
    if (!rc)
        rc = sl_chat_parse(out, jinja, len, conf, conf_len, JINJA, err);
    if (jinja)
        sl_file_free(jinja);
    if (conf)
        sl_file_free(conf);
    return sl_wrap(err, rc, "chat template of '%s'", dir);
}

void sl_chat_close(struct sl_chat **c)
{
    if (!*c)
        return;
    sl_template_close(&(*c)->plain);
    sl_template_close(&(*c)->tools);
    json_decref((*c)->tokens);
    sl_mem_free(*c);
    *c = NULL;
}

const char *sl_chat_source(size_t *len, const struct sl_chat *c)
{
    return sl_template_source(len, c->plain);
}

bool sl_chat_mentions(const struct sl_chat *c, const char *word)
{
    return sl_template_mentions(c->plain, word) ||
           (c->tools && sl_template_mentions(c->tools, word));
}

/* ---- variables ---- */

static int put(json_t *vars, const char *key, json_t *v, struct sl_err *err)
{
    if (v && json_object_set_new(vars, key, v) == 0)
        return 0;
    return sl_fail(err, SL_ENOMEM, "no memory is left for the prompt");
}

/* A copy that counts one more owner; json_incref takes no const. */
static json_t *share(const json_t *j)
{
    json_t *v;

    memcpy(&v, &j, sizeof(v));
    return v ? json_incref(v) : json_null();
}

static int put_switch(json_t *vars, const char *key, enum sl_chat_switch s,
                      struct sl_err *err)
{
    return s == SL_CHAT_UNSET
               ? 0
               : put(vars, key, json_boolean(s == SL_CHAT_ON), err);
}

static const struct effort {
    const char *word, *known; /* to templates that say xhigh but not high */
} efforts[] = {
    {"none", NULL},       {"minimal", "low"}, {"low", "low"},
    {"medium", "medium"}, {"high", "xhigh"},  {"xhigh", "xhigh"},
    {"max", "xhigh"},
};

static const struct effort *find_effort(const char *word)
{
    for (size_t i = 0; i < SL_COUNTOF(efforts); i++)
        if (strcmp(efforts[i].word, word) == 0)
            return &efforts[i];
    return NULL;
}

/* What the request says about effort, in the words of the template. */
static int put_effort(const struct sl_template *t, json_t *vars,
                      const struct sl_chat_opts *o, struct sl_err *err)
{
    const json_t *given = json_object_get(vars, "reasoning_effort");
    const char *word = json_string_value(given), *known;
    const struct effort *e;
    int rc = 0;

    if (o->as_is && !word && o->reasoning_effort)
        return put(vars, "reasoning_effort", json_string(o->reasoning_effort),
                   err);
    if (o->as_is || (!word && !o->reasoning_effort))
        return 0;
    e = find_effort(word ? word : o->reasoning_effort);
    if (!e && word)
        return 0; /* a word of the template's own, among its variables */
    if (!e)
        return sl_fail(err, SL_EARG,
                       "reasoning_effort is '%.60s' and must be none, minimal, "
                       "low, medium, high, xhigh or max",
                       o->reasoning_effort);
    if (!json_object_get(vars, "enable_thinking"))
        rc = put(vars, "enable_thinking", json_boolean(e->known != NULL), err);
    known = e->known;
    if (!sl_template_mentions(t, "xhigh") || sl_template_mentions(t, "high"))
        known = e->word;
    if (rc || !sl_template_mentions(t, "reasoning_effort") || !e->known) {
        (void)json_object_del(vars, "reasoning_effort");
        return rc;
    }
    return put(vars, "reasoning_effort", json_string(known), err);
}

static int flag(bool *out, json_t *vars, const char *key, struct sl_err *err)
{
    const json_t *v = json_object_get(vars, key);

    if (v && !json_is_boolean(v))
        return sl_fail(err, SL_EARG, "chat_template_kwargs.%s must be true or false",
                       key);
    if (v)
        *out = json_is_true(v);
    return 0;
}

/* ---- continuing ---- */

/* Put the mark behind the content of the last message. */
static int mark_last(json_t *messages, struct sl_err *err)
{
    json_t *m = json_array_get(messages, json_array_size(messages) - 1);
    json_t *c = json_object_get(m, "content"), *holder = m;
    const char *role = json_string_value(json_object_get(m, "role"));
    const char *key = "content";
    struct sl_buf b;
    int rc;

    if (!role || strcmp(role, "assistant") != 0)
        return sl_fail(err, SL_EARG,
                       "continue_final_message needs the assistant's message "
                       "last, and the last is of the role '%.60s'",
                       role ? role : "");
    for (size_t i = json_array_size(c); i > 0 && holder == m; i--)
        if (json_object_get(json_array_get(c, i - 1), "text")) {
            /* The parts belong to the caller: mark a copy. */
            holder = json_copy(json_array_get(c, i - 1));
            key = "text";
            c = json_copy(c);
            if (!holder || !c || json_array_set_new(c, i - 1, holder) ||
                json_object_set_new(m, "content", c))
                return sl_fail(err, SL_ENOMEM,
                               "no memory is left for the prompt");
        }
    c = json_object_get(holder, key);
    if (!json_is_string(c))
        return sl_fail(err, SL_EARG,
                       "continue_final_message needs text in the last message");
    sl_buf_init(&b, SIZE_MAX);
    sl_buf_add(&b, json_string_value(c), json_string_length(c));
    sl_buf_str(&b, MARK " ");
    rc = put(holder, key, b.failed ? NULL : json_stringn(b.p, b.len), err);
    sl_buf_deinit(&b);
    return rc;
}

/* Cut the prompt, out from `from` on, at the mark. */
static int cut_at_mark(struct sl_buf *out, size_t from, struct sl_err *err)
{
    const size_t n = sizeof(MARK) - 1;
    size_t at = out->len, len;
    const char *p;

    while (at >= from + n && memcmp(out->p + at - n, MARK, n) != 0)
        at--;
    if (at < from + n)
        return sl_fail(err, SL_EARG,
                       "the template drops the text of the last message, so "
                       "it cannot be continued");
    len = at - n - from;
    p = out->p + from;
    if (at == out->len || out->p[at] != ' ')
        sl_jinja_strip(&p, &len, NULL, 0, false, true);
    out->len = from + len;
    out->p[out->len] = 0;
    return 0;
}

/* ---- rendering ---- */

static int variables(json_t **out, const struct sl_chat *c, const json_t *tools,
                     const struct sl_chat_opts *o, struct sl_err *err)
{
    json_t *vars = json_copy(c->tokens);
    int rc =
        vars ? 0 : sl_fail(err, SL_ENOMEM, "no memory is left for the prompt");

    if (!rc)
        rc = put_switch(vars, "enable_thinking", o->enable_thinking, err);
    if (!rc)
        rc = put_switch(vars, "preserve_thinking", o->preserve_thinking, err);
    if (!rc)
        rc = put(vars, "documents", json_null(), err);
    if (!rc && o->kwargs && !json_is_object(o->kwargs))
        rc = sl_fail(err, SL_EARG, "chat_template_kwargs must be an object");
    if (!rc && o->kwargs) {
        json_t *kw = share(o->kwargs);

        if (json_object_update(vars, kw))
            rc = sl_fail(err, SL_ENOMEM, "no memory is left for the prompt");
        json_decref(kw);
    }
    if (!rc)
        rc = put(vars, "tools", share(tools), err);
    if (!rc)
        *out = vars;
    else
        json_decref(vars);
    return rc;
}

static int render(const struct sl_template *t, json_t *vars,
                  const struct sl_chat_opts *o, struct sl_buf *out,
                  struct sl_err *err)
{
    bool open = o->add_generation_prompt, go_on = o->continue_final_message;
    size_t mark = out->len;
    struct sl_template_opts to;
    int rc = flag(&go_on, vars, "continue_final_message", err);

    /* Continuing by field turns the default of the other off. */
    if (!rc && go_on && !json_object_get(vars, "add_generation_prompt") &&
        !o->continue_final_message)
        open = false;
    if (!rc)
        rc = flag(&open, vars, "add_generation_prompt", err);
    if (!rc && open && go_on)
        rc = sl_fail(err, SL_EARG,
                     "continue_final_message and add_generation_prompt exclude "
                     "each other; set the latter to false");
    if (!rc)
        rc = put_effort(t, vars, o, err);
    if (!rc)
        rc = put(vars, "add_generation_prompt", json_boolean(open), err);
    if (!rc && go_on)
        rc = mark_last(json_object_get(vars, "messages"), err);
    if (rc)
        return rc;
    (void)json_object_del(vars, "continue_final_message");
    sl_template_opts_init(&to);
    to.now_s = o->now_s;
    rc = sl_template_render(t, vars, &to, out, err);
    if (!rc && go_on) {
        rc = cut_at_mark(out, mark, err);
        if (rc) {
            out->len = mark;
            out->p[mark] = 0;
        }
    }
    return rc;
}

int sl_chat_render(const struct sl_chat *c, const json_t *messages,
                   const json_t *tools, const struct sl_chat_opts *o,
                   struct sl_buf *out, struct sl_err *err)
{
    json_t *list = NULL, *vars = NULL;
    int rc = 0;

    if (json_is_null(tools) ||
        (json_is_array(tools) && !o->as_is && json_array_size(tools) == 0))
        tools = NULL;
    if (tools && !json_is_array(tools))
        return sl_fail(err, SL_EARG, "tools must be an array");
    rc = sl_messages_prepare(&list, messages, tools, !o->as_is, err);
    if (!rc)
        rc = variables(&vars, c, tools, o, err);
    if (!rc)
        rc = put(vars, "messages", json_incref(list), err);
    if (!rc)
        rc = render(tools && c->tools ? c->tools : c->plain, vars, o, out, err);
    json_decref(list);
    json_decref(vars);
    return rc;
}

static int parse(json_t **out, const char *text, const char *what,
                 struct sl_err *err)
{
    json_error_t je;

    if (!text)
        return 0;
    *out = json_loads(text, JSON_ALLOW_NUL, &je);
    if (*out)
        return 0;
    return sl_fail(err, SL_EARG, "%s: line %d, column %d: %s", what, je.line,
                   je.column, je.text);
}

int sl_chat_render_text(const struct sl_chat *c, const char *messages,
                        const char *tools, const char *kwargs,
                        const struct sl_chat_opts *o, struct sl_buf *out,
                        struct sl_err *err)
{
    json_t *m = NULL, *t = NULL, *k = NULL;
    struct sl_chat_opts opts = *o;
    int rc = parse(&m, messages, "messages", err);

    if (!rc)
        rc = parse(&t, tools, "tools", err);
    if (!rc)
        rc = parse(&k, kwargs, "chat_template_kwargs", err);
    opts.kwargs = k;
    if (!rc)
        rc = sl_chat_render(c, m, t, &opts, out, err);
    json_decref(m);
    json_decref(t);
    json_decref(k);
    return rc;
}
