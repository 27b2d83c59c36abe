/* server/simple.c - the endpoints that generate nothing */
#include "server/task.h"

#include "base/mem.h"
#include "server/json_in.h"
#include "server/json_out.h"

static void put(struct sl_buf *b, const char *s)
{
    sl_json_put_str(b, s, strlen(s));
}

static void send_json(struct sl_exchange *x, struct sl_buf *b)
{
    if (b->failed)
        sl_error_reply(x, 503, NULL, NULL, "no memory is left for the reply");
    else
        sl_http_reply(x, 200, "application/json", b->p, b->len);
}

/* -------------------------------------------------------------------- models */

static void put_model(struct sl_buf *b, const struct sl_server *s,
                      const char *name)
{
    sl_buf_str(b, "{\"id\":");
    put(b, name);
    sl_buf_fmt(b, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":"
                  "\"sluice\",\"root\":",
               (long long)s->created);
    put(b, s->opts.root);
    sl_buf_fmt(b, ",\"parent\":null,\"max_model_len\":%u}",
               s->info.max_model_len);
}

static void one_model(struct sl_server *s, struct sl_exchange *x,
                      const char *name)
{
    struct sl_buf *b = &s->scratch;
    struct sl_refusal r = {0};

    if (sl_check_model(s, name, &r)) {
        sl_error_send(x, &r);
        return;
    }
    put_model(b, s, name);
    send_json(x, b);
}

void sl_simple_models(struct sl_server *s, struct sl_exchange *x)
{
    const char *id = strstr(x->path, "models");
    struct sl_buf *b = &s->scratch;

    sl_buf_reset(b);
    id += strlen("models");
    if (*id == '/') {
        one_model(s, x, id + 1);
        return;
    }
    sl_buf_str(b, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < s->opts.n_name; i++) {
        if (i)
            sl_buf_byte(b, ',');
        put_model(b, s, s->opts.name[i]);
    }
    sl_buf_str(b, "]}");
    send_json(x, b);
}

/* ---------------------------------------------------------------- its tokens */

static void put_named(struct sl_buf *b, const struct sl_server *s,
                      const char *key, enum sl_named_token which)
{
    int32_t id = sl_token_named(s->engine, which);
    size_t n = 0;
    const char *text = sl_token(&n, s->engine, id);

    sl_buf_fmt(b, "\"%s\":", key);
    if (id >= 0 && text)
        sl_json_put_str(b, text, n);
    else
        sl_buf_str(b, "null");
}

void sl_simple_tokenizer_info(struct sl_server *s, struct sl_exchange *x)
{
    struct sl_buf *b = &s->scratch;
    const char *text;
    size_t n;

    sl_buf_reset(b);
    sl_buf_byte(b, '{');
    put_named(b, s, "eos_token", SL_TOKEN_EOS);
    sl_buf_byte(b, ',');
    put_named(b, s, "bos_token", SL_TOKEN_BOS);
    sl_buf_byte(b, ',');
    put_named(b, s, "pad_token", SL_TOKEN_PAD);
    text = sl_chat_template(&n, s->engine);
    sl_buf_str(b, ",\"chat_template\":");
    if (text)
        sl_json_put_str(b, text, n);
    else
        sl_buf_str(b, "null");
    sl_buf_fmt(b, ",\"max_model_len\":%u}", s->info.max_model_len);
    send_json(x, b);
}

/* --------------------------------------------------- tokenize and detokenize */

struct call {
    struct sl_job job;
    struct sl_server *s;
    struct sl_exchange *x; /* NULL when the client has left */
    enum sl_simple what;
    atomic_bool cancel; /* loop sets, the worker reads */
    struct sl_buf body, out;
    struct sl_refusal refusal;
};

static struct call *call_of(struct sl_job *j)
{
    return (struct call *)(void *)((char *)j - offsetof(struct call, job));
}

static int failed(struct call *c, int rc, const char *param,
                  const struct sl_err *err)
{
    if (rc == SL_ENOMEM)
        return sl_refuse(&c->refusal, 503, NULL, NULL, SL_NO_MEMORY);
    return sl_refuse(&c->refusal, 400, NULL, param, "%s", err->msg);
}

static int read_flag(bool *out, struct call *c, const json_t *root,
                     const char *key)
{
    const json_t *v = json_object_get(root, key);

    if (!v || json_is_null(v))
        return 0;
    if (!json_is_boolean(v))
        return sl_refuse(&c->refusal, 400, "invalid_type", key,
                         "%s must be a boolean", key);
    *out = json_is_true(v);
    return 0;
}

static void put_ids(struct call *c, const int32_t *ids, size_t n, bool strs)
{
    struct sl_buf *b = &c->out;

    sl_buf_fmt(b, "{\"count\":%zu,\"max_model_len\":%u,\"tokens\":[", n,
               c->s->info.max_model_len);
    for (size_t i = 0; i < n; i++)
        sl_buf_fmt(b, i ? ",%d" : "%d", ids[i]);
    sl_buf_str(b, "],\"token_strs\":");
    if (!strs) {
        sl_buf_str(b, "null}");
        return;
    }
    sl_buf_byte(b, '[');
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *s = sl_token(&len, c->s->engine, ids[i]);

        if (i)
            sl_buf_byte(b, ',');
        sl_json_put_str(b, s ? s : "", len);
    }
    sl_buf_str(b, "]}");
}

static int encode(struct call *c, const char *text, size_t len, bool strs,
                  const char *param)
{
    struct sl_err err = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    int rc;

    if (atomic_load_explicit(&c->cancel, memory_order_relaxed))
        return -1;
    if (sl_check_text(c->s, len, 0, param, &c->refusal))
        return -1;
    rc = sl_encode(&ids, &n, c->s->engine, text, len, &err);
    if (rc)
        return failed(c, rc, param, &err);
    put_ids(c, ids, n, strs);
    sl_free(ids);
    return 0;
}

/* Of the fields of a chat those that the prompt depends on. NULL: no memory. */
static json_t *prompt_fields(const json_t *root)
{
    static const char *const key[] = {
        "messages",         "tools",        "add_generation_prompt",
        "chat_template",    "reasoning",    "continue_final_message",
        "reasoning_effort", "enable_thinking", "chat_template_kwargs",
    };
    json_t *o = json_object();

    for (size_t i = 0; o && i < SL_COUNTOF(key); i++) {
        json_t *v = json_object_get(root, key[i]);

        if (v && json_object_set(o, key[i], v)) {
            json_decref(o);
            return NULL;
        }
    }
    return o;
}

/* A conversation goes through the same reader as a chat does. */
static int tokenize_chat(struct call *c, const json_t *root, bool strs)
{
    json_t *fields = prompt_fields(root);
    struct sl_request q;
    struct sl_err err = {0};
    char *text = NULL, param[128];
    size_t len = 0;
    int rc;

    if (!fields)
        return sl_refuse(&c->refusal, 503, NULL, NULL, SL_NO_MEMORY);
    rc = sl_request_init(&q, SL_REQUEST_CHAT, fields, &c->refusal);
    if (!rc) {
        rc = sl_render_chat(&text, &len, c->s, &q, param, &err);
        rc = rc ? failed(c, rc, param, &err)
                : encode(c, text, len, strs, "messages");
        sl_free(text);
    }
    sl_request_deinit(&q);
    return rc;
}

static int tokenize(struct call *c, const json_t *root)
{
    const json_t *p = json_object_get(root, "prompt");
    bool strs = false, special = true;

    if (read_flag(&strs, c, root, "return_token_strs") ||
        read_flag(&special, c, root, "add_special_tokens"))
        return -1;
    if ((!p || json_is_null(p)) && json_object_get(root, "messages"))
        return tokenize_chat(c, root, strs);
    if (!json_is_string(p))
        return sl_refuse(&c->refusal, 400, "invalid_type", "prompt",
                         "prompt must be a string; or send messages");
    return encode(c, json_string_value(p), json_string_length(p), strs,
                  "prompt");
}

static int detokenize(struct call *c, const json_t *root)
{
    struct sl_err err = {0};
    int32_t *ids = NULL;
    uint32_t n = 0;
    char *text = NULL, at[32];
    size_t len = 0;
    int rc = sl_read_ids(&ids, &n, json_object_get(root, "tokens"), "tokens",
                         &c->refusal);

    for (uint32_t i = 0; !rc && i < n; i++) {
        if (sl_token(&len, c->s->engine, ids[i]))
            continue;
        snprintf(at, sizeof(at), "tokens[%u]", i);
        rc = sl_refuse(&c->refusal, 400, "invalid_value", at,
                       "%s is %d, which is no token of this model", at, ids[i]);
    }
    if (!rc) {
        rc = sl_decode(&text, &len, c->s->engine, ids, n, false, &err);
        if (rc)
            rc = failed(c, rc, "tokens", &err);
    }
    if (!rc) {
        sl_buf_str(&c->out, "{\"prompt\":");
        sl_json_put_str(&c->out, text, len);
        sl_buf_byte(&c->out, '}');
    }
    sl_free(text);
    sl_mem_free(ids);
    return rc;
}

static void call_run(struct sl_job *j)
{
    struct call *c = call_of(j);
    json_t *root = NULL;
    const json_t *m;

    if (atomic_load_explicit(&c->cancel, memory_order_relaxed))
        return;
    if (sl_json_in(&root, c->body.p ? c->body.p : (char[]){0}, c->body.len,
                   &c->refusal))
        return;
    m = json_object_get(root, "model");
    if (m && !json_is_string(m) && !json_is_null(m))
        sl_refuse(&c->refusal, 400, "invalid_type", "model",
                  "model must be a string");
    else if (!sl_check_model(c->s, json_string_value(m), &c->refusal))
        (void)(c->what == SL_SIMPLE_TOKENIZE ? tokenize(c, root)
                                             : detokenize(c, root));
    json_decref(root);
}

static void call_done(struct sl_job *j)
{
    struct call *c = call_of(j);

    if (c->x) {
        c->x->gone = NULL;
        if (c->refusal.status)
            sl_error_send(c->x, &c->refusal);
        else
            send_json(c->x, &c->out);
    }
    c->s->n_task--;
    sl_task_read(c->s);
    sl_buf_deinit(&c->body);
    sl_buf_deinit(&c->out);
    sl_mem_free(c);
}

static void call_gone(struct sl_exchange *x)
{
    struct call *c = x->user;

    c->x = NULL;
    atomic_store_explicit(&c->cancel, true, memory_order_relaxed);
}

void sl_simple_start(struct sl_server *s, struct sl_exchange *x,
                     enum sl_simple what)
{
    struct call *c = NULL;

    if (!sl_task_admit(&c, sizeof(*c), s, x))
        return;
    c->s = s;
    c->x = x;
    c->what = what;
    sl_buf_init(&c->out, (size_t)1 << 30);
    sl_http_take_body(x, &c->body);
    x->user = c;
    x->gone = call_gone;
    c->job = (struct sl_job){.run = call_run, .done = call_done};
    sl_work_push(s->work, &c->job);
}
