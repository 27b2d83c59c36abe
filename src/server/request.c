/* server/request.c - the fields of a completion request; see request.h */
#include "server/request.h"

#include <math.h>

#include "base/mem.h"
#include "base/num.h"

#define MAX_MESSAGES 10000
#define MAX_TOOLS 1024
#define MAX_TIMEOUT_S 1e9 /* a deadline in some decades is none */

/* A value as a message may show it. */
static const char *show(char out[210], const json_t *v)
{
    char *s = v ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    snprintf(out, 210, "%.200s", s ? s : v ? "?" : "missing");
    free(s); /* jansson's own */
    return out;
}

static int wrong_type(struct sl_refusal *r, const json_t *v, const char *path,
                      const char *want)
{
    char got[210];

    return sl_refuse(r, 400, "invalid_type", path, "%s must be %s, not %s",
                     path, want, show(got, v));
}

static int wrong_value(struct sl_refusal *r, const json_t *v, const char *path,
                       const char *why)
{
    char got[210];

    return sl_refuse(r, 400, "invalid_value", path, "%s is %s; %s", path,
                     show(got, v), why);
}

/* ----------------------------------------------------------- lenient readers */

/* *out is the number, integral or not. */
static int read_any(double *out, int64_t *whole, bool *is_whole,
                    const json_t *v, const char *path, struct sl_refusal *r)
{
    const char *s = json_string_value(v);

    *is_whole = false;
    if (json_is_integer(v)) {
        *whole = json_integer_value(v);
        *is_whole = true;
        *out = (double)*whole;
        return 0;
    }
    if (s && !sl_num_i64(whole, s, strlen(s), INT64_MIN, INT64_MAX, "", NULL)) {
        *is_whole = true;
        *out = (double)*whole;
        return 0;
    }
    if (json_is_real(v))
        *out = json_real_value(v);
    else if (!s ||
             sl_num_f64(out, s, strlen(s), -1.7e308, 1.7e308, "", NULL))
        return wrong_type(r, v, path, "a number");
    if (*out >= -0x1p62 && *out <= 0x1p62 && *out == (double)(int64_t)*out) {
        *whole = (int64_t)*out;
        *is_whole = true;
    }
    return 0;
}

int sl_read_int(int64_t *out, const json_t *v, int64_t lo, int64_t hi,
                const char *path, struct sl_refusal *r)
{
    bool is_whole;
    char why[100];
    double x = 0;

    if (read_any(&x, out, &is_whole, v, path, r))
        return -1;
    if (!is_whole && x > -0x1p62 && x < 0x1p62)
        return wrong_type(r, v, path, "a whole number");
    snprintf(why, sizeof(why), "it must be from %lld to %lld", (long long)lo,
             (long long)hi);
    if (!is_whole || *out < lo || *out > hi)
        return wrong_value(r, v, path, why);
    return 0;
}

static int read_num(double *out, const json_t *v, double lo, double hi,
                    const char *path, struct sl_refusal *r)
{
    char why[100];
    bool is_whole;
    int64_t whole;

    if (read_any(out, &whole, &is_whole, v, path, r))
        return -1;
    snprintf(why, sizeof(why), "it must be from %g to %g", lo, hi);
    if (!(*out >= lo && *out <= hi))
        return wrong_value(r, v, path, why);
    return 0;
}

int sl_read_ids(int32_t **out, uint32_t *n, const json_t *v, const char *path,
                struct sl_refusal *r)
{
    char at[128];
    int64_t id = 0;

    if (!json_is_array(v))
        return wrong_type(r, v, path, "an array of token ids");
    if (sl_mem_alloc(out, json_array_size(v), sizeof(**out), "ids", NULL))
        return sl_refuse(r, 503, NULL, path, "no memory is left for %s", path);
    *n = (uint32_t)json_array_size(v);
    for (uint32_t i = 0; i < *n; i++) {
        snprintf(at, sizeof(at), "%s[%u]", path, i);
        if (sl_read_int(&id, json_array_get(v, i), 0, INT32_MAX, at, r))
            return -1;
        (*out)[i] = (int32_t)id;
    }
    return 0;
}

/* ------------------------------------------------------- fields that are not */
/* plain: each gets its value, which is not null */

typedef int field_fn(struct sl_request *q, const json_t *v,
                     struct sl_refusal *r);

static int stream_options(struct sl_request *q, const json_t *v,
                          struct sl_refusal *r)
{
    const json_t *a, *b;

    if (!json_is_object(v))
        return wrong_type(r, v, "stream_options", "an object");
    if (!q->stream.v)
        return sl_refuse(r, 400, "invalid_value", "stream_options",
                         "stream_options is given but stream is not true");
    a = json_object_get(v, "include_usage");
    b = json_object_get(v, "continuous_usage_stats");
    if (a && !json_is_boolean(a) && !json_is_null(a))
        return wrong_type(r, a, "stream_options.include_usage", "a boolean");
    if (b && !json_is_boolean(b) && !json_is_null(b))
        return wrong_type(r, b, "stream_options.continuous_usage_stats",
                          "a boolean");
    q->include_usage.v = json_is_true(a);
    q->continuous_usage.v = json_is_true(a) && json_is_true(b);
    return 0;
}

static int one_stop(struct sl_request *q, const json_t *v, const char *path,
                    struct sl_refusal *r)
{
    const char *s = json_string_value(v);

    if (json_is_null(v))
        return 0;
    if (!s)
        return wrong_type(r, v, path, "a string or an array of strings");
    if (!*s || json_string_length(v) > SL_MAX_STOP_BYTES ||
        strlen(s) != json_string_length(v))
        return wrong_value(r, v, path,
                           "a stop text has 1 to 4096 bytes and no zero");
    if (q->n_stop == SL_MAX_STOP)
        return sl_refuse(r, 400, "invalid_value", path,
                         "%s: stop has more than %d texts", path, SL_MAX_STOP);
    q->stop[q->n_stop++] = s;
    return 0;
}

static int stop(struct sl_request *q, const json_t *v, struct sl_refusal *r)
{
    char path[32];
    size_t i;
    json_t *item;

    if (!json_is_array(v))
        return one_stop(q, v, "stop", r);
    json_array_foreach((json_t *)(uintptr_t)v, i, item)
    {
        snprintf(path, sizeof(path), "stop[%zu]", i);
        if (one_stop(q, item, path, r))
            return -1;
    }
    return 0;
}

static int stop_token_ids(struct sl_request *q, const json_t *v,
                          struct sl_refusal *r)
{
    return sl_read_ids(&q->stop_ids, &q->n_stop_ids, v, "stop_token_ids", r);
}

static int allowed_token_ids(struct sl_request *q, const json_t *v,
                             struct sl_refusal *r)
{
    if (json_is_array(v) && json_array_size(v) == 0)
        return wrong_value(r, v, "allowed_token_ids",
                           "no token could be drawn; leave it out to allow "
                           "all");
    return sl_read_ids(&q->allowed_ids, &q->n_allowed, v, "allowed_token_ids",
                       r);
}

static int bad_words(struct sl_request *q, const json_t *v,
                     struct sl_refusal *r)
{
    size_t n = json_array_size(v), i;
    json_t *item;
    char path[32];

    if (!json_is_array(v))
        return wrong_type(r, v, "bad_words", "an array of strings");
    if (n > SL_MAX_BAD_WORDS)
        return sl_refuse(r, 400, "invalid_value", "bad_words",
                         "bad_words has %zu entries; send at most %d", n,
                         SL_MAX_BAD_WORDS);
    if (sl_mem_alloc(&q->bad_words, n, sizeof(*q->bad_words), "bad words",
                     NULL))
        return sl_refuse(r, 503, NULL, "bad_words", "no memory is left");
    json_array_foreach((json_t *)(uintptr_t)v, i, item)
    {
        const char *s = json_string_value(item);

        snprintf(path, sizeof(path), "bad_words[%zu]", i);
        if (!s)
            return wrong_type(r, item, path, "a string");
        if (!s[strspn(s, " ")] || json_string_length(item) > SL_MAX_STOP_BYTES ||
            strlen(s) != json_string_length(item))
            return wrong_value(r, item, path,
                               "a word has 1 to 4096 bytes, not all of them "
                               "spaces, and no zero");
        q->bad_words[q->n_bad_words++] = s;
    }
    return 0;
}

/* It becomes a header and a part of the reply's id. */
static int request_id(struct sl_request *q, const json_t *v,
                      struct sl_refusal *r)
{
    const char *s = json_string_value(v);
    size_t n = json_string_length(v);
    bool ok = n > 0 && n <= SL_MAX_REQUEST_ID;

    if (!s)
        return wrong_type(r, v, "request_id", "a string");
    for (size_t i = 0; i < n; i++)
        ok = ok && s[i] > ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\\';
    if (!ok)
        return wrong_value(r, v, "request_id",
                           "an id has 1 to 128 printable ASCII characters "
                           "without space, quote and backslash");
    q->request_id = s;
    return 0;
}

static int cache_salt(struct sl_request *q, const json_t *v,
                      struct sl_refusal *r)
{
    if (!json_is_string(v))
        return wrong_type(r, v, "cache_salt", "a string");
    if (json_string_length(v) == 0 ||
        json_string_length(v) != strlen(json_string_value(v)))
        return wrong_value(r, v, "cache_salt",
                           "it must not be empty or hold a zero; leave it out "
                           "to share what is known of a prompt");
    q->cache_salt = json_string_value(v);
    return 0;
}

static int truncation_side(struct sl_request *q, const json_t *v,
                           struct sl_refusal *r)
{
    const char *s = json_string_value(v);

    if (!s || (strcmp(s, "left") && strcmp(s, "right")))
        return wrong_value(r, v, "truncation_side", "it must be left or right");
    q->truncate_right.v = !strcmp(s, "right");
    return 0;
}

static int truncate(struct sl_request *q, const json_t *v,
                    struct sl_refusal *r)
{
    q->truncate_prompt_tokens.has = true;
    if (sl_read_int(&q->truncate_prompt_tokens.v, v, -1, INT32_MAX,
                    "truncate_prompt_tokens", r))
        return -1;
    if (q->truncate_prompt_tokens.v == 0)
        return wrong_value(r, v, "truncate_prompt_tokens",
                           "nothing would be left; send a number of tokens, "
                           "or -1 for as many as fit");
    return 0;
}

static int logit_bias(struct sl_request *q, const json_t *v,
                      struct sl_refusal *r)
{
    const char *key;
    json_t *item;
    size_t n;

    if (!json_is_object(v))
        return wrong_type(r, v, "logit_bias", "an object of id: number");
    n = json_object_size(v);
    if (sl_mem_alloc(&q->bias_ids, n, sizeof(*q->bias_ids), "bias", NULL) ||
        sl_mem_alloc(&q->bias, n, sizeof(*q->bias), "bias", NULL))
        return sl_refuse(r, 503, NULL, "logit_bias", "no memory is left");
    json_object_foreach((json_t *)(uintptr_t)v, key, item)
    {
        char path[64];
        int64_t id = 0;
        double x = 0;

        snprintf(path, sizeof(path), "logit_bias.%.40s", key);
        /* "05" and "+5" would be second names for "5". */
        if (sl_num_i64(&id, key, strlen(key), 0, INT32_MAX, "", NULL) ||
            (key[0] == '0' && key[1]) || key[0] < '0')
            return sl_refuse(r, 400, "invalid_value", path,
                             "a key of logit_bias is '%.100s'; it must be a "
                             "token id, in digits",
                             key);
        if (read_num(&x, item, -1e30, 1e30, path, r))
            return -1;
        q->bias_ids[q->n_bias] = (int32_t)id;
        q->bias[q->n_bias++] = (float)(x < -100 ? -100 : x > 100 ? 100 : x);
    }
    return 0;
}

static int add_prompt(struct sl_request *q, const json_t *v, const char *path,
                      struct sl_refusal *r)
{
    struct sl_prompt *p = &q->prompt[q->n_prompt];

    if (json_is_string(v)) {
        p->text = json_string_value(v);
        p->len = json_string_length(v);
    } else if (json_is_array(v) && json_array_size(v) > 0) {
        p->ids = v;
    } else {
        return wrong_type(r, v, path,
                          "a string, an array of token ids, or an array of "
                          "those");
    }
    q->n_prompt++;
    return 0;
}

static int prompt(struct sl_request *q, const json_t *v, struct sl_refusal *r)
{
    size_t n = json_array_size(v), i;
    const json_t *first = json_array_get(v, 0);
    bool many = json_is_string(first) || json_is_array(first);
    json_t *item;
    char path[32];

    if (many && n > SL_MAX_PROMPTS)
        return sl_refuse(r, 400, "invalid_value", "prompt",
                         "prompt has %zu texts; send at most %d", n,
                         SL_MAX_PROMPTS);
    if (sl_mem_alloc(&q->prompt, many ? n : 1, sizeof(*q->prompt), "prompts",
                     NULL))
        return sl_refuse(r, 503, NULL, "prompt", "no memory is left");
    q->many_prompts = many;
    if (!many)
        return add_prompt(q, v, "prompt", r);
    json_array_foreach((json_t *)(uintptr_t)v, i, item)
    {
        snprintf(path, sizeof(path), "prompt[%zu]", i);
        if (json_is_string(item) != json_is_string(first))
            return wrong_type(r, item, path, "of one kind with the others");
        if (add_prompt(q, item, path, r))
            return -1;
    }
    return 0;
}

/* What each message says is for the template to judge; who says it is not. */
static int check_message(const json_t *m, size_t i, struct sl_refusal *r)
{
    static const char *const role[] = {"system",    "developer", "user",
                                       "assistant", "tool",      "function"};
    const char *s = json_string_value(json_object_get(m, "role"));
    char path[64];

    snprintf(path, sizeof(path), "messages[%zu]", i);
    if (!json_is_object(m))
        return wrong_type(r, m, path, "an object");
    for (size_t k = 0; s && k < SL_COUNTOF(role); k++)
        if (!strcmp(s, role[k]))
            return 0;
    snprintf(path, sizeof(path), "messages[%zu].role", i);
    return sl_refuse(r, 400, "invalid_value", path,
                     "%s is '%.60s'; it must be system, developer, user, "
                     "assistant, tool or function",
                     path, s ? s : "");
}

static int messages(struct sl_request *q, const json_t *v, struct sl_refusal *r)
{
    json_t *m;
    size_t i;

    if (!json_is_array(v) || json_array_size(v) == 0)
        return wrong_type(r, v, "messages", "an array of at least one message");
    if (json_array_size(v) > MAX_MESSAGES)
        return sl_refuse(r, 400, "invalid_value", "messages",
                         "messages has more than %d entries", MAX_MESSAGES);
    json_array_foreach((json_t *)(uintptr_t)v, i, m)
    {
        if (check_message(m, i, r))
            return -1;
    }
    q->messages = (json_t *)(uintptr_t)v;
    return 0;
}

/* The name of a tool, which sl_request_init has seen. */
static const char *tool_name(const json_t *tool)
{
    return json_string_value(
        json_object_get(json_object_get(tool, "function"), "name"));
}

static int one_tool(const json_t *v, size_t i, struct sl_refusal *r)
{
    const json_t *t = json_array_get(v, i), *f = json_object_get(t, "function");
    const json_t *type = json_object_get(t, "type");
    const json_t *p = json_object_get(f, "parameters");
    const char *name = tool_name(t);
    char path[64];

    snprintf(path, sizeof(path), "tools[%zu]", i);
    if (!json_is_object(t))
        return wrong_type(r, t, path, "an object");
    snprintf(path, sizeof(path), "tools[%zu].type", i);
    if (!type || !json_is_string(type) ||
        strcmp(json_string_value(type), "function"))
        return wrong_type(r, type, path, "\"function\"");
    snprintf(path, sizeof(path), "tools[%zu].function", i);
    if (!json_is_object(f))
        return wrong_type(r, f, path, "an object");
    snprintf(path, sizeof(path), "tools[%zu].function.parameters", i);
    if (p && !json_is_object(p) && !json_is_null(p))
        return wrong_type(r, p, path, "an object");
    snprintf(path, sizeof(path), "tools[%zu].function.name", i);
    if (!name || !*name)
        return wrong_type(r, json_object_get(f, "name"), path,
                          "a string that is not empty");
    for (size_t k = 0; k < i; k++)
        if (!strcmp(name, tool_name(json_array_get(v, k))))
            return sl_refuse(r, 400, "invalid_value", path,
                             "%s: two tools have the name '%.100s'", path,
                             name);
    return 0;
}

static int tools(struct sl_request *q, const json_t *v, struct sl_refusal *r)
{
    if (!json_is_array(v) || json_array_size(v) == 0)
        return wrong_type(r, v, "tools", "an array of at least one tool");
    if (json_array_size(v) > MAX_TOOLS)
        return sl_refuse(r, 400, "invalid_value", "tools",
                         "tools has more than %d entries", MAX_TOOLS);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (one_tool(v, i, r))
            return -1;
    q->tools = (json_t *)(uintptr_t)v;
    return 0;
}

static int read_effort(struct sl_request *q, const json_t *v, const char *path,
                       struct sl_refusal *r)
{
    static const char *const word[] = {"none", "minimal", "low", "medium",
                                       "high", "xhigh",   "max"};
    const char *s = json_string_value(v);

    for (size_t i = 0; s && i < SL_COUNTOF(word); i++)
        if (!strcmp(s, word[i])) {
            q->effort = word[i];
            return 0;
        }
    return wrong_value(r, v, path,
                       "it must be none, minimal, low, medium, high, xhigh or "
                       "max");
}

static int effort(struct sl_request *q, const json_t *v, struct sl_refusal *r)
{
    return read_effort(q, v, "reasoning_effort", r);
}

static int reasoning(struct sl_request *q, const json_t *v,
                     struct sl_refusal *r)
{
    const json_t *e = json_object_get(v, "effort");

    if (!json_is_object(v))
        return wrong_type(r, v, "reasoning", "an object with effort");
    return e && !json_is_null(e) && !q->effort
               ? read_effort(q, e, "reasoning.effort", r)
               : 0;
}

static int template_kwargs(struct sl_request *q, const json_t *v,
                           struct sl_refusal *r)
{
    (void)q;
    return json_is_object(v)
               ? 0
               : wrong_type(r, v, "chat_template_kwargs", "an object");
}

/* ------------------------------------------------------------------ the table */

#define C SL_REQUEST_CHAT
#define P SL_REQUEST_COMPLETION
#define CP (C | P)

enum type { INT, NUM, BOOL, STR, SPECIAL, FORM, SORRY };

struct field {
    const char *name;
    int on;
    enum type type;
    size_t off;      /* of the member of struct sl_request */
    double lo, hi;
    field_fn *fn;    /* SPECIAL */
    const char *say; /* SORRY: why not */
    sl_form_fn *form; /* FORM */
};

#define AT(m) offsetof(struct sl_request, m)
#define PLAIN(name, on, type, member, lo, hi)                                  \
    {name, on, type, AT(member), lo, hi, NULL, NULL, NULL}
#define OWN(name, on, fn) {name, on, SPECIAL, 0, 0, 0, fn, NULL, NULL}
#define NOT_YET(name, on, say) {name, on, SORRY, 0, 0, 0, NULL, say, NULL}
#define SHAPE(name, on, form) {name, on, FORM, 0, 0, 0, NULL, NULL, form}

/* In this order: stream before stream_options. */
static const struct field fields[] = {
    PLAIN("model", CP, STR, model, 0, 0),
    OWN("request_id", CP, request_id),
    PLAIN("stream", CP, BOOL, stream, 0, 0),
    OWN("stream_options", CP, stream_options),
    PLAIN("max_tokens", C, INT, max_tokens, 1, INT32_MAX),
    PLAIN("max_tokens", P, INT, max_tokens, 0, INT32_MAX),
    PLAIN("max_completion_tokens", C, INT, max_completion_tokens, 1,
          INT32_MAX),
    PLAIN("max_completion_tokens", P, INT, max_completion_tokens, 0,
          INT32_MAX),
    PLAIN("min_tokens", CP, INT, min_tokens, 0, INT32_MAX),
    PLAIN("n", CP, INT, n, 1, SL_MAX_CHOICES),
    PLAIN("best_of", CP, INT, best_of, 1, SL_MAX_CHOICES),
    PLAIN("use_beam_search", CP, BOOL, use_beam_search, 0, 0),
    PLAIN("length_penalty", CP, NUM, length_penalty, 1, 1), /* of beams */
    PLAIN("seed", CP, INT, seed, -0x1p63, 0x1p63),
    PLAIN("priority", CP, INT, priority, INT32_MIN, INT32_MAX),
    OWN("truncate_prompt_tokens", CP, truncate),
    OWN("truncation_side", CP, truncation_side),
    OWN("cache_salt", CP, cache_salt),
    PLAIN("timeout", CP, NUM, timeout, 1e-6, MAX_TIMEOUT_S),
    PLAIN("deadline_ms", CP, NUM, deadline_ms, 1e-3, MAX_TIMEOUT_S * 1e3),
    PLAIN("temperature", CP, NUM, temperature, 0, 2),
    PLAIN("top_p", CP, NUM, top_p, 1e-9, 1),
    PLAIN("top_k", CP, INT, top_k, -1, INT32_MAX),
    PLAIN("min_p", CP, NUM, min_p, 0, 1),
    PLAIN("presence_penalty", CP, NUM, presence_penalty, -2, 2),
    PLAIN("frequency_penalty", CP, NUM, frequency_penalty, -2, 2),
    PLAIN("repetition_penalty", CP, NUM, repetition_penalty, 1e-6, 1e6),
    PLAIN("ignore_eos", CP, BOOL, ignore_eos, 0, 0),
    PLAIN("echo", CP, BOOL, echo, 0, 0),
    PLAIN("logprobs", C, BOOL, chat_logprobs, 0, 0),
    PLAIN("top_logprobs", C, INT, top_logprobs, 0, SL_MAX_TOP),
    PLAIN("logprobs", P, INT, logprobs, 0, SL_MAX_TOP),
    PLAIN("return_token_ids", CP, BOOL, return_token_ids, 0, 0),
    PLAIN("return_tokens_as_token_ids", CP, BOOL, token_id_strings, 0, 0),
    PLAIN("skip_special_tokens", CP, BOOL, skip_special_tokens, 0, 0),
    /* Tokens of this family are bytes: nothing is ever put between them, and
     * nothing in front of a prompt. */
    PLAIN("spaces_between_special_tokens", CP, BOOL, spaces_between_special, 0,
          0),
    PLAIN("add_special_tokens", CP, BOOL, add_special_tokens, 0, 0),
    PLAIN("include_stop_str_in_output", CP, BOOL, include_stop, 0, 0),
    PLAIN("cache_prompt", CP, BOOL, cache_prompt, 0, 0),
    PLAIN("prompt_logprobs", CP, INT, prompt_logprobs, -1, SL_MAX_TOP),
    PLAIN("thinking_token_budget", CP, INT, thinking_token_budget, -1,
          INT32_MAX),
    OWN("stop", CP, stop),
    OWN("stop_token_ids", CP, stop_token_ids),
    OWN("allowed_token_ids", CP, allowed_token_ids),
    OWN("bad_words", CP, bad_words),
    OWN("logit_bias", CP, logit_bias),
    OWN("prompt", P, prompt),
    OWN("messages", C, messages),
    OWN("tools", C, tools),
    SHAPE("tool_choice", C, sl_form_tool_choice),
    OWN("reasoning_effort", C, effort),
    OWN("reasoning", C, reasoning),
    OWN("chat_template_kwargs", C, template_kwargs),
    PLAIN("parallel_tool_calls", C, BOOL, parallel_tool_calls, 0, 0),
    PLAIN("include_reasoning", C, BOOL, include_reasoning, 0, 0),
    PLAIN("enable_thinking", C, BOOL, enable_thinking, 0, 0),
    PLAIN("add_generation_prompt", C, BOOL, add_generation_prompt, 0, 0),
    PLAIN("continue_final_message", C, BOOL, continue_final_message, 0, 0),
    SHAPE("response_format", CP, sl_form_response_format),
    SHAPE("structured_outputs", CP, sl_form_structured),
    SHAPE("guided_json", CP, sl_form_guided_json),
    SHAPE("guided_regex", CP, sl_form_guided_regex),
    SHAPE("guided_choice", CP, sl_form_guided_choice),
    SHAPE("guided_grammar", CP, sl_form_guided_grammar),
    SHAPE("json_schema", CP, sl_form_json_schema),
    SHAPE("grammar", CP, sl_form_grammar),
    NOT_YET("logits_processors", CP, "this server runs no code of clients"),
    NOT_YET("logprob_token_ids", CP, "use logprobs"),
    NOT_YET("repetition_detection", CP, "this version does not look for it"),
    NOT_YET("structural_tag", CP,
            "this version knows no structural tags; use structured_outputs"),
    NOT_YET("suffix", P, "these models do not fill in the middle"),
    NOT_YET("chat_template", C, "the template is the operator's"),
    NOT_YET("functions", C, "it is old; use tools"),
    NOT_YET("function_call", C, "it is old; use tool_choice"),
};

static int read_field(struct sl_request *q, const struct field *f,
                      const json_t *v, struct sl_refusal *r)
{
    void *to = (char *)q + f->off;
    struct sl_opt_int *i = to;
    struct sl_opt_num *x = to;
    struct sl_opt_bool *b = to;

    switch (f->type) {
    case INT:
        i->has = true;
        return sl_read_int(&i->v, v,
                           f->lo <= -0x1p63 ? INT64_MIN : (int64_t)f->lo,
                           f->hi >= 0x1p63 ? INT64_MAX : (int64_t)f->hi,
                           f->name, r);
    case NUM:
        x->has = true;
        return read_num(&x->v, v, f->lo, f->hi, f->name, r);
    case BOOL:
        if (!json_is_boolean(v))
            return wrong_type(r, v, f->name, "a boolean");
        b->has = true;
        b->v = json_is_true(v);
        return 0;
    case STR:
        if (!json_is_string(v))
            return wrong_type(r, v, f->name, "a string");
        *(const char **)to = json_string_value(v);
        return 0;
    case SPECIAL:
        return f->fn(q, v, r);
    case FORM:
        return f->form(&q->form, v, r);
    case SORRY:
        break;
    }
    return sl_refuse(r, 400, "invalid_value", f->name,
                     "%s is not available: %s; leave it out", f->name, f->say);
}

/* ------------------------------------------------- fields that need each other */

static int check_sampling(const struct sl_request *q, struct sl_refusal *r)
{
    int64_t n = q->n.has ? q->n.v : 1;

    if (q->use_beam_search.v)
        return sl_refuse(r, 400, "invalid_value", "use_beam_search",
                         "use_beam_search is true, but beam search is not "
                         "offered; leave it out");
    if (q->best_of.has && q->best_of.v != n)
        return sl_refuse(r, 400, "invalid_value", "best_of",
                         "best_of is %lld and n is %lld; only equal numbers "
                         "are offered",
                         (long long)q->best_of.v, (long long)n);
    if (q->top_logprobs.has && q->top_logprobs.v > 0 && !q->chat_logprobs.v)
        return sl_refuse(r, 400, "invalid_value", "top_logprobs",
                         "top_logprobs needs logprobs to be true");
    if (q->prompt_logprobs.has && q->prompt_logprobs.v < 0)
        return sl_refuse(r, 400, "invalid_value", "prompt_logprobs",
                         "prompt_logprobs is -1, which asks for the whole "
                         "vocabulary; this server gives at most %d",
                         SL_MAX_TOP);
    if (q->prompt_logprobs.has && q->stream.v)
        return sl_refuse(r, 400, "invalid_value", "prompt_logprobs",
                         "prompt_logprobs cannot be streamed; set stream to "
                         "false");
    return 0;
}

static int check_completion(struct sl_request *q, struct sl_refusal *r)
{
    if (q->n_prompt == 0)
        return sl_refuse(r, 400, "invalid_value", "prompt",
                         "prompt is missing; send a string or token ids");
    if (q->max_tokens.has && q->max_tokens.v == 0 && !q->echo.v)
        return sl_refuse(r, 400, "invalid_value", "max_tokens",
                         "max_tokens is 0; it must be at least 1");
    return 0;
}

static int put_kwarg(struct sl_request *q, const char *key, json_t *v)
{
    return json_object_set_new(q->kwargs, key, v);
}

/* All that the template is given, in one object. */
static int check_chat(struct sl_request *q, struct sl_refusal *r)
{
    const json_t *own = json_object_get(q->root, "chat_template_kwargs");
    int bad = 0;

    if (!q->messages)
        return sl_refuse(r, 400, "invalid_value", "messages",
                         "messages is missing; send an array of messages");
    if (q->echo.v)
        return sl_refuse(r, 400, "invalid_value", "echo",
                         "echo repeats the prompt of a completion; a chat has "
                         "it already, leave it out");
    if (sl_form_check(&q->form, q->tools, r))
        return -1;
    if (q->continue_final_message.v &&
        (!q->add_generation_prompt.has || q->add_generation_prompt.v))
        return sl_refuse(r, 400, "invalid_value", "continue_final_message",
                         "continue_final_message needs add_generation_prompt "
                         "to be false");
    q->kwargs = json_object();
    if (q->effort)
        bad |= put_kwarg(q, "reasoning_effort", json_string(q->effort));
    if (q->effort && !q->enable_thinking.has)
        bad |= put_kwarg(q, "enable_thinking",
                         json_boolean(strcmp(q->effort, "none") != 0));
    if (q->enable_thinking.has)
        bad |= put_kwarg(q, "enable_thinking",
                         json_boolean(q->enable_thinking.v));
    if (json_is_object(own))
        bad |= json_object_update(q->kwargs, (json_t *)(uintptr_t)own);
    if (q->add_generation_prompt.has)
        bad |= put_kwarg(q, "add_generation_prompt",
                         json_boolean(q->add_generation_prompt.v));
    if (q->continue_final_message.v)
        bad |= put_kwarg(q, "continue_final_message", json_true());
    if (bad || !q->kwargs)
        return sl_refuse(r, 503, NULL, NULL, "no memory is left");
    return 0;
}

int sl_request_init(struct sl_request *q, enum sl_request_kind kind,
                    json_t *root, struct sl_refusal *r)
{
    *q = (struct sl_request){.kind = kind, .root = root};
    for (size_t i = 0; i < SL_COUNTOF(fields); i++) {
        const json_t *v = json_object_get(root, fields[i].name);

        if (!(fields[i].on & (int)kind) || !v || json_is_null(v))
            continue;
        if (read_field(q, &fields[i], v, r))
            return -1;
    }
    if (q->max_completion_tokens.has)
        q->max_tokens = q->max_completion_tokens;
    if (q->seed.has && q->seed.v == -1)
        q->seed.has = false;
    if (check_sampling(q, r))
        return -1;
    return kind == SL_REQUEST_CHAT ? check_chat(q, r) : check_completion(q, r);
}

void sl_request_deinit(struct sl_request *q)
{
    sl_form_deinit(&q->form);
    sl_mem_free(q->stop_ids);
    sl_mem_free(q->allowed_ids);
    sl_mem_free(q->bad_words);
    sl_mem_free(q->bias_ids);
    sl_mem_free(q->bias);
    sl_mem_free(q->prompt);
    json_decref(q->kwargs);
    json_decref(q->root);
    *q = (struct sl_request){0};
}
