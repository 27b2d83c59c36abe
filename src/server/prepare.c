/* server/prepare.c - from the bytes of a request to its generations
 *
 * Text workers. Everything that can be wrong with a request is found here,
 * before the status line of the reply is sent.
 */
#include <openssl/evp.h> /* before ours, which ban rand */

#include "server/task.h"

#include "base/clock.h"
#include "base/mem.h"
#include "server/json_in.h"
#include "text/parse.h"

#define COMPLETION_TOKENS 16 /* of a completion that does not say; OpenAI's */

/* A failure of the library about the request's own text. */
static int failed(struct sl_task *t, int rc, const char *code,
                  const char *param, const struct sl_err *err)
{
    if (rc == SL_ENOMEM)
        return sl_refuse(&t->refusal, 503, NULL, NULL, SL_NO_MEMORY);
    if (rc == SL_EBUSY)
        return sl_refuse(&t->refusal, 503, NULL, NULL, "%s", err->msg);
    if (rc == SL_EARG || rc == SL_EFORMAT || rc == SL_EUNSUP)
        return sl_refuse(&t->refusal, 400, code, param, "%s", err->msg);
    return sl_refuse(&t->refusal, 500, "internal_error", NULL,
                     "the request failed inside of the server");
}

int sl_check_model(const struct sl_server *s, const char *name,
                   struct sl_refusal *r)
{
    if (!name || !*name)
        return 0;
    for (uint32_t i = 0; i < s->opts.n_name; i++)
        if (!strcmp(name, s->opts.name[i]))
            return 0;
    return sl_refuse(r, 404, "model_not_found", "model",
                     "the model '%.200s' is not served here; this server has "
                     "'%.200s'",
                     name, s->opts.name[0]);
}

/* Clients look for the first words, and some for the numbers. */
int sl_check_text(const struct sl_server *s, size_t len, int64_t n_out,
                  const char *param, struct sl_refusal *r)
{
    uint64_t max = (uint64_t)s->info.max_model_len * s->max_token;

    if (len <= max)
        return 0;
    return sl_refuse(
        r, 400, "context_length_exceeded", param,
        "This model's maximum context length is %u tokens. However, you "
        "requested %lld output tokens and your prompt contains at least %zu "
        "input tokens, as it has %zu bytes. Please reduce the length of the "
        "prompt.",
        s->info.max_model_len, (long long)n_out, len / s->max_token, len);
}

/* ---------------------------------------------------------------- the prompts */

static int encode(struct sl_task *t, struct sl_ids_of *out, const char *text,
                  size_t len, const char *param)
{
    struct sl_err err = {0};
    int rc;

    if (atomic_load_explicit(&t->cancel, memory_order_relaxed))
        return -1; /* and no refusal: nobody hears it */
    if (!t->q.truncate_prompt_tokens.has &&
        sl_check_text(t->s, len, t->q.max_tokens.v, param, &t->refusal))
        return -1;
    rc = sl_encode(&out->p, &out->n, t->s->engine, text, len, &err);
    return rc ? failed(t, rc, NULL, param, &err) : 0;
}

/* The library would refuse such ids, too, but cannot say in which field. */
static int check_ids(struct sl_task *t, const int32_t *ids, uint32_t n,
                     const char *field)
{
    uint32_t vocab = t->s->info.n_vocab;
    char at[128];

    for (uint32_t i = 0; i < n; i++) {
        if ((uint32_t)ids[i] < vocab)
            continue;
        snprintf(at, sizeof(at), "%s[%u]", field, i);
        return sl_refuse(&t->refusal, 400, "invalid_value", at,
                         "%s is %d; ids go from 0 to %u", at, ids[i],
                         vocab - 1);
    }
    return 0;
}

static int check_bias(struct sl_task *t)
{
    const struct sl_request *q = &t->q;
    char at[64];

    for (uint32_t i = 0; i < q->n_bias; i++) {
        if ((uint32_t)q->bias_ids[i] < t->s->info.n_vocab)
            continue;
        snprintf(at, sizeof(at), "logit_bias.%d", q->bias_ids[i]);
        return sl_refuse(&t->refusal, 400, "invalid_value", at,
                         "logit_bias names token %d; ids go from 0 to %u",
                         q->bias_ids[i], t->s->info.n_vocab - 1);
    }
    return 0;
}

static int json_ids(struct sl_task *t, struct sl_ids_of *out, const json_t *v,
                    const char *path)
{
    uint32_t n = 0;

    if (sl_read_ids(&out->p, &n, v, path, &t->refusal))
        return -1;
    out->n = n;
    return check_ids(t, out->p, n, path);
}

static int one_prompt(struct sl_task *t, uint32_t i)
{
    const struct sl_prompt *p = &t->q.prompt[i];
    struct sl_ids_of *out = &t->prompt[i];
    char path[32];

    snprintf(path, sizeof(path), t->q.many_prompts ? "prompt[%u]" : "prompt",
             i);
    if (!p->text)
        return json_ids(t, out, p->ids, path);
    return encode(t, out, p->text, p->len, path);
}

/* What echo repeats: the text as it was sent, or the text of the ids. */
static int make_echo(struct sl_task *t)
{
    struct sl_err err = {0};
    int rc = 0;

    if (!t->q.echo.v)
        return 0;
    rc = sl_mem_alloc(&t->echo, t->n_prompt, sizeof(*t->echo), "echo", &err);
    if (!rc)
        rc = sl_mem_alloc(&t->echo_len, t->n_prompt, sizeof(*t->echo_len),
                          "echo", &err);
    for (uint32_t i = 0; !rc && i < t->n_prompt; i++) {
        const struct sl_prompt *p = &t->q.prompt[i];

        if (p->text) {
            rc = sl_mem_dup(&t->echo[i], p->text, p->len, &err);
            t->echo_len[i] = p->len;
        } else {
            rc = sl_decode(&t->echo[i], &t->echo_len[i], t->s->engine,
                           t->prompt[i].p, t->prompt[i].n, false, &err);
        }
    }
    return rc ? failed(t, rc, NULL, "echo", &err) : 0;
}

/* The field that a refusal to render a conversation begins with. */
static void render_param(char out[128], const struct sl_err *err)
{
    static const char *const known[] = {"messages", "tools",
                                        "chat_template_kwargs",
                                        "continue_final_message",
                                        "reasoning_effort"};
    size_t n = strcspn(err->msg, " ");

    snprintf(out, 128, "messages");
    for (size_t i = 0; i < SL_COUNTOF(known) && n < 128; i++)
        if (strncmp(err->msg, known[i], strlen(known[i])) == 0)
            snprintf(out, 128, "%.*s", (int)n, err->msg);
}

int sl_render_chat(char **text, size_t *len, const struct sl_server *s,
                   const struct sl_request *q, char param[128],
                   struct sl_err *err)
{
    char *m = json_dumps(q->messages, JSON_COMPACT);
    char *tools = q->tools ? json_dumps(q->tools, JSON_COMPACT) : NULL;
    char *kw = json_dumps(q->kwargs, JSON_COMPACT);
    int rc = SL_ENOMEM;

    if (m && kw && (tools || !q->tools))
        rc = sl_render(text, len, s->engine, m, tools, kw, err);
    free(m); /* jansson's own */
    free(tools);
    free(kw);
    render_param(param, err);
    return rc;
}

static int chat_prompt(struct sl_task *t)
{
    struct sl_err err = {0};
    char param[128], *text = NULL;
    size_t len = 0;
    int rc = sl_render_chat(&text, &len, t->s, &t->q, param, &err);

    if (rc)
        return failed(t, rc, "invalid_template_input", param, &err);
    t->start = sl_parse_start_of(text, len);
    rc = encode(t, &t->prompt[0], text, len, "messages");
    sl_free(text);
    return rc;
}

/* A place for each answer, before the work of reading the prompts. */
static int reserve(struct sl_task *t)
{
    uint64_t n = t->q.n.has ? (uint64_t)t->q.n.v : 1;
    uint32_t all = t->s->opts.max_queued + t->s->max_seqs;

    t->n_prompt = t->kind == SL_REQUEST_CHAT ? 1 : t->q.n_prompt;
    n *= t->n_prompt;
    if (n > all)
        return sl_refuse(&t->refusal, 400, "invalid_value",
                         t->n_prompt > 1 ? "prompt" : "n",
                         "n and the number of prompts ask for %llu answers, "
                         "and this server takes %u at a time "
                         "(--max-num-queued-reqs and --max-num-seqs); ask for "
                         "fewer",
                         (unsigned long long)n, all);
    if (!sl_task_reserve(t, (uint32_t)n))
        return sl_refuse(&t->refusal, 503, "overloaded", NULL, "%s",
                         sl_queue_is_full);
    return 0;
}

static int queue_tokens(struct sl_task *t)
{
    if (sl_task_queue_tokens(t))
        return 0;
    return sl_refuse(&t->refusal, 503, "overloaded", NULL, "%s",
                     sl_queue_is_full);
}

static int make_prompts(struct sl_task *t)
{
    if (sl_mem_alloc(&t->prompt, t->n_prompt, sizeof(*t->prompt), "prompts",
                     NULL))
        return sl_refuse(&t->refusal, 503, NULL, NULL, SL_NO_MEMORY);
    if (t->kind == SL_REQUEST_CHAT)
        return chat_prompt(t);
    for (uint32_t i = 0; i < t->n_prompt; i++)
        if (one_prompt(t, i))
            return -1;
    return make_echo(t);
}

/* ------------------------------------------------------------- does it fit? */

/* Where a chat's prompt leaves the answer now that it was cut. */
static int find_start(struct sl_task *t, const struct sl_ids_of *p)
{
    struct sl_err err = {0};
    char *text = NULL;
    size_t len = 0;
    int rc = sl_decode(&text, &len, t->s->engine, p->p, p->n, false, &err);

    if (rc)
        return failed(t, rc, NULL, "truncate_prompt_tokens", &err);
    t->start = sl_parse_start_of(text, len);
    sl_free(text);
    return 0;
}

/* Keep the last tokens of the prompt, or the first, as the client asked. */
static int truncate_prompt(struct sl_task *t, struct sl_ids_of *p)
{
    int64_t keep = t->q.truncate_prompt_tokens.v;
    int64_t room = (int64_t)t->s->info.max_model_len -
                   (t->q.max_tokens.has ? t->q.max_tokens.v : 1);

    if (!t->q.truncate_prompt_tokens.has)
        return 0;
    if (keep > room || room < 1)
        return sl_refuse(&t->refusal, 400, "invalid_value",
                         "truncate_prompt_tokens",
                         "truncate_prompt_tokens is %lld, but beside the "
                         "requested output there is room for %lld",
                         (long long)keep, (long long)room);
    if (keep < 0)
        keep = room;
    if (p->n > (size_t)keep) {
        if (!t->q.truncate_right.v)
            memmove(p->p, p->p + p->n - keep, (size_t)keep * sizeof(*p->p));
        p->n = (size_t)keep;
        if (t->kind == SL_REQUEST_CHAT)
            return find_start(t, p);
    }
    return 0;
}

/* Clients parse this sentence. */
static int too_long(struct sl_task *t, size_t n_prompt, int64_t n_out)
{
    return sl_refuse(
        &t->refusal, 400, "context_length_exceeded",
        t->kind == SL_REQUEST_CHAT ? "messages" : "prompt",
        "This model's maximum context length is %u tokens. However, you "
        "requested %lld output tokens and your prompt contains %zu input "
        "tokens. Please reduce the length of the prompt or of the output.",
        t->s->info.max_model_len, (long long)n_out, n_prompt);
}

static uint32_t n_output(const struct sl_task *t, size_t n_prompt)
{
    uint32_t room = t->s->info.max_model_len - (uint32_t)n_prompt;

    if (t->q.max_tokens.has)
        return (uint32_t)t->q.max_tokens.v;
    return t->kind == SL_REQUEST_CHAT
               ? room
               : (uint32_t)sl_min(COMPLETION_TOKENS, room);
}

static int check_fit(struct sl_task *t)
{
    int64_t room = t->s->info.max_model_len, want = t->q.max_tokens.v;
    bool said = t->q.max_tokens.has;

    for (uint32_t i = 0; i < t->n_prompt; i++) {
        struct sl_ids_of *p = &t->prompt[i];

        if (truncate_prompt(t, p))
            return -1;
        if (p->n == 0)
            return sl_refuse(&t->refusal, 400, "invalid_value", "prompt",
                             "the prompt is empty; send at least one token");
        if (!said)
            want = t->kind == SL_REQUEST_CHAT ? 1 : COMPLETION_TOKENS;
        if ((int64_t)p->n + want > room) {
            /* Without a number the rest of the context is taken. */
            if (said || (int64_t)p->n + 1 > room)
                return too_long(t, p->n, said ? want : 1);
        }
        want = said ? want : n_output(t, p->n);
        if (t->q.min_tokens.v > want)
            return sl_refuse(&t->refusal, 400, "invalid_value", "min_tokens",
                             "min_tokens is %lld and the answer has at most "
                             "%lld; lower it or raise max_tokens",
                             (long long)t->q.min_tokens.v, (long long)want);
    }
    return 0;
}

/* ----------------------------------------------------------------- submitting */

/* Engine thread. The loop looks at all: the engine calls this once for all that
 * a step drew. */
static void on_wake(void *ctx)
{
    struct sl_server *s = ctx;

    sl_work_wake(s->reaper); /* lives longer than any generation */
}

/* Tenants choose their salts, so that it takes a hash which cannot be steered
 * to keep them apart. 0 is no salt. */
static uint64_t salt_of(const char *s)
{
    unsigned char sum[EVP_MAX_MD_SIZE] = {0};
    unsigned int n = 0;
    uint64_t x = 0;

    if (!s || !EVP_Digest(s, strlen(s), sum, &n, EVP_sha256(), NULL))
        return 0;
    memcpy(&x, sum, sizeof(x));
    return x ? x : 1;
}

bool sl_task_scores(const struct sl_task *t)
{
    return t->q.prompt_logprobs.has || (t->q.echo.v && t->q.logprobs.has);
}

struct sl_choice *sl_task_scorer(const struct sl_choice *c)
{
    uint32_t n = (uint32_t)(c->t->q.n.has ? c->t->q.n.v : 1);

    return &c->t->choice[c->index - c->index % n];
}

/* What echo and prompt_logprobs need of the prompt, which the first of its
 * choices reads for all of them. */
static void set_scores(struct sl_gen_opts *o, const struct sl_task *t,
                       bool first)
{
    int64_t echo = t->q.echo.v ? t->q.logprobs.v : 0;

    o->want_prompt_logprobs = first && sl_task_scores(t);
    o->n_prompt_top = (uint32_t)sl_max((size_t)t->q.prompt_logprobs.v,
                                       (size_t)echo);
    o->prompt_only = t->q.max_tokens.has && t->q.max_tokens.v == 0;
}

static void set_sampling(struct sl_gen_opts *o, const struct sl_request *q)
{
    if (q->temperature.has)
        o->temperature = q->temperature.v > 0 && q->temperature.v < 0.01
                             ? 0.01f
                             : (float)q->temperature.v;
    if (q->top_p.has)
        o->top_p = (float)q->top_p.v;
    if (q->top_k.has)
        o->top_k = (int32_t)q->top_k.v;
    if (q->min_p.has)
        o->min_p = (float)q->min_p.v;
    if (q->presence_penalty.has)
        o->presence_penalty = (float)q->presence_penalty.v;
    if (q->frequency_penalty.has)
        o->frequency_penalty = (float)q->frequency_penalty.v;
    if (q->repetition_penalty.has)
        o->repetition_penalty = (float)q->repetition_penalty.v;
    o->has_seed = q->seed.has;
    o->seed = (uint64_t)q->seed.v;
    o->bias_ids = q->bias_ids;
    o->bias = q->bias;
    o->n_bias = q->n_bias;
    o->stop_ids = q->stop_ids;
    o->n_stop_ids = q->n_stop_ids;
    o->stop = q->stop;
    o->n_stop = q->n_stop;
    o->include_stop = q->include_stop.v;
    o->show_special = q->skip_special_tokens.has && !q->skip_special_tokens.v;
    o->allowed_ids = q->allowed_ids;
    o->n_allowed = q->n_allowed;
    o->bad_words = q->bad_words;
    o->n_bad_words = q->n_bad_words;
    o->limit_thinking =
        q->thinking_token_budget.has && q->thinking_token_budget.v >= 0;
    o->max_thinking = (uint32_t)q->thinking_token_budget.v;
    o->priority = (int32_t)q->priority.v;
    o->no_cache = q->cache_prompt.has && !q->cache_prompt.v;
    o->cache_salt = salt_of(q->cache_salt);
    o->min_tokens = (uint32_t)q->min_tokens.v;
    o->ignore_eos = q->ignore_eos.v;
    o->want_logprobs = q->chat_logprobs.v || q->logprobs.has;
    o->n_top_logprobs =
        (uint32_t)(q->logprobs.has ? q->logprobs.v : q->top_logprobs.v);
}

static int open_parser(struct sl_task *t, struct sl_choice *c)
{
    struct sl_parse_opts o;
    struct sl_err err = {0};
    int rc;

    if (t->kind != SL_REQUEST_CHAT)
        return 0;
    sl_parse_opts_init(&o);
    sl_align_init(&c->align, t->s->tag);
    o.start = t->start;
    o.reasoning = true;
    o.tags_by_id = c->align.by_id;
    o.style = SL_PARSE_NO_TOOLS;
    if (t->q.tools && !(t->q.form.tool_choice &&
                        !strcmp(t->q.form.tool_choice, "none")))
        (void)sl_parse_style_find(t->s->opts.tool_parser, &o.style);
    o.tools = t->q.tools;
    rc = sl_parse_open(&c->parse, &o, &err);
    return rc ? failed(t, rc, NULL, "tools", &err) : 0;
}

/* The shape of the answers, for all choices. */
static int make_shape(struct sl_task *t)
{
    enum sl_parse_style style = SL_PARSE_NO_TOOLS;

    (void)sl_parse_style_find(t->s->opts.tool_parser, &style);
    if (sl_form_must_call(&t->q.form) && style == SL_PARSE_NO_TOOLS)
        return sl_refuse(&t->refusal, 400, "invalid_value", "tool_choice",
                         "tool_choice forces a call, and this server does not "
                         "look for calls; start it with --tool-call-parser "
                         "qwen3_coder");
    return sl_form_shape(&t->shape, &t->q.form, t->q.tools,
                         !t->q.parallel_tool_calls.has ||
                             t->q.parallel_tool_calls.v,
                         style == SL_PARSE_QWEN3_HERMES, &t->refusal);
}

/* The shape is not understood: which field is to blame? What is wrong with a tool
 * begins with its place. */
static int fail_shape(struct sl_task *t, int rc, struct sl_err *err)
{
    const char *field = t->q.form.field ? t->q.form.field : "tools";
    char param[128];
    size_t n = strcspn(err->msg, ":");

    if (strncmp(err->msg, "tools[", 6) == 0 && n < sizeof(param)) {
        snprintf(param, sizeof(param), "%.*s", (int)n, err->msg);
        return failed(t, rc, "invalid_value", param, err);
    }
    (void)sl_wrap(err, rc, "%s", field);
    return failed(t, rc, "invalid_value", field, err);
}

static int submit(struct sl_task *t, struct sl_choice *c, uint64_t seed)
{
    const struct sl_ids_of *p = &t->prompt[c->prompt];
    uint32_t n = (uint32_t)(t->q.n.has ? t->q.n.v : 1);
    struct sl_gen_opts o;
    struct sl_err err = {0};
    int rc;

    if (open_parser(t, c))
        return -1;
    sl_gen_opts_init(&o, t->s->engine);
    set_sampling(&o, &t->q);
    set_scores(&o, t, c->index % n == 0);
    if (!o.has_seed && c->index > 0) {
        o.has_seed = true; /* one for all choices; they differ by index */
        o.seed = seed;
    }
    o.shape = t->shape.kind;
    o.shape_text = t->shape.text;
    o.n_shape_text = t->shape.len;
    o.shape_after_think =
        t->kind == SL_REQUEST_CHAT && t->start == SL_PARSE_THINK_OPEN;
    o.ids = p->p;
    o.n_ids = p->n;
    o.choice = c->index % n;
    o.forks = n > 1;
    o.client = t->client;
    o.max_tokens = n_output(t, p->n);
    o.wake = on_wake;
    o.wake_ctx = t->s;
    if (c->index == 0 && (o.allowed_ids || o.n_bad_words) &&
        (rc = sl_gen_can_begin(t->s->engine, &o, &err)))
        return failed(t, rc, "invalid_value",
                      o.allowed_ids ? "allowed_token_ids" : "bad_words", &err);
    rc = sl_gen_submit(&c->gen, t->s->engine, &o, &err);
    /* What else could be wrong was looked at before. */
    if (rc && o.shape)
        return fail_shape(t, rc, &err);
    return rc ? failed(t, rc, "invalid_value", NULL, &err) : 0;
}

/* Nothing is generated, and nothing has to be read either. */
static bool only_echo(const struct sl_task *t)
{
    return t->q.max_tokens.has && t->q.max_tokens.v == 0 &&
           !sl_task_scores(t);
}

static int make_choices(struct sl_task *t)
{
    uint32_t n = (uint32_t)(t->q.n.has ? t->q.n.v : 1);
    uint64_t seed = 0;

    if (sl_mem_alloc(&t->choice, t->n_reserved, sizeof(*t->choice), "choices",
                     NULL))
        return sl_refuse(&t->refusal, 503, NULL, NULL, SL_NO_MEMORY);
    t->n_choice = t->n_reserved;
    for (uint32_t i = 0; i < t->n_choice; i++) {
        struct sl_choice *c = &t->choice[i];

        c->t = t;
        c->index = i;
        c->prompt = i / n;
        sl_buf_init(&c->text, SIZE_MAX / 4);
        sl_buf_init(&c->reasoning, SIZE_MAX / 4);
        sl_buf_init(&c->calls, SIZE_MAX / 4);
        sl_buf_init(&c->ids, SIZE_MAX / 4);
        sl_buf_init(&c->stop_reason, SIZE_MAX / 4);
        sl_buf_init(&c->notes.buf, SIZE_MAX / 4);
        sl_buf_init(&c->notes.text, SIZE_MAX / 4);
        for (int k = 0; k < SL_N_LP; k++)
            sl_buf_init(&c->lp[k], SIZE_MAX / 4);
    }
    for (uint32_t i = 0; i < t->n_choice && !only_echo(t); i++) {
        if (atomic_load_explicit(&t->cancel, memory_order_relaxed))
            return -1; /* and no refusal: nobody hears it */
        if (submit(t, &t->choice[i], seed))
            return -1;
        if (i == 0)
            seed = sl_gen_seed(t->choice[0].gen);
    }
    return 0;
}

void sl_task_prepare(struct sl_job *j)
{
    struct sl_task *t =
        (struct sl_task *)(void *)((char *)j - offsetof(struct sl_task, job));
    json_t *root = NULL;

    if (atomic_load_explicit(&t->cancel, memory_order_relaxed))
        return;
    if (sl_json_in(&root, t->body.p ? t->body.p : (char[]){0}, t->body.len,
                   &t->refusal))
        return;
    t->parsed = true;
    if (sl_request_init(&t->q, t->kind, root, &t->refusal))
        return;
    sl_buf_deinit(&t->body);
    if (sl_check_model(t->s, t->q.model, &t->refusal) ||
        check_bias(t) ||
        check_ids(t, t->q.allowed_ids, t->q.n_allowed, "allowed_token_ids") ||
        reserve(t) || make_prompts(t) || check_fit(t) || queue_tokens(t))
        return;
    if (!make_shape(t))
        (void)make_choices(t);
}
