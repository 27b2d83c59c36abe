/* server/replay.c - recorded conversations, turn by turn; see replay.h
 *
 * Turns wait for each other, so a simple blocking client is enough; times are
 * taken where its bytes arrive.
 */
#include "server/replay.h"

/* Before ours, which bans a name in it. */
#include <curl/curl.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/events.h"

#define MAX_REPLY ((size_t)64 << 20) /* bytes that are not yet an event */
#define MAX_TURNS 100000u
#define MAX_WHY 300
#define STALLED_S                                                              \
    600L /* without a byte; the first may wait for a long prompt */

/* What was sent and answered before, as token ids. */
struct past {
    int32_t *ids; /* [n] */
    uint32_t n, cap;
    size_t conversation; /* its number */
};

struct conversation {
    const char *name; /* borrowed from a line */
    json_t *body;     /* of its last request, the answer added */
    uint32_t n_turn;
};

struct replay {
    const struct sl_replay_opts *o;
    struct sl_replay *out;
    CURL *curl;
    struct curl_slist *fields;
    json_t **line; /* [n_line] */
    uint32_t n_line;
    struct conversation *conv; /* [n_conv] at most n_line */
    size_t n_conv;
    struct past *past; /* [out->n] */

    /* The turn that runs. */
    struct sl_turn *turn;
    struct past *now;
    struct sl_buf raw, content, reasoning;
    json_t *calls; /* array of tool calls, as a message has them */
    uint64_t t0, first, last;
    bool usage, failed;
    char why[MAX_WHY];
};

/* --------------------------------------------------------------- the recording
 */

static int read_line(struct replay *r, const char *s, size_t n, uint32_t no,
                     struct sl_err *err)
{
    json_t *j = NULL, *m, *a;
    char what[40];
    int rc;

    snprintf(what, sizeof(what), "line %u", no);
    rc = sl_json_parse(&j, s, n, what, err);
    if (rc)
        return rc;
    r->line[r->n_line++] = j;
    m = json_object_get(j, "messages");
    a = json_object_get(j, "add");
    if (json_is_array(m) == json_is_array(a) || (m && a))
        return sl_fail(err, SL_EFORMAT,
                       "line %u has to have one list, 'messages' or 'add'", no);
    if (json_object_get(j, "conversation") &&
        !json_is_string(json_object_get(j, "conversation")))
        return sl_fail(err, SL_EFORMAT,
                       "line %u: 'conversation' has to be a text", no);
    return 0;
}

static int read_lines(struct replay *r, const char *text, size_t len,
                      struct sl_err *err)
{
    const char *end = text + len;
    uint32_t no = 0;
    int rc = sl_mem_alloc(&r->line, MAX_TURNS, sizeof(*r->line), "turns", err);

    while (!rc && text < end) {
        const char *e = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((e ? e : end) - text);

        no++;
        if (n > 0 && r->n_line == MAX_TURNS)
            return sl_fail(err, SL_EFORMAT, "there are more than %u turns",
                           MAX_TURNS);
        if (n > 0)
            rc = read_line(r, text, n, no, err);
        text += n + 1;
    }
    if (!rc && r->n_line == 0)
        rc = sl_fail(err, SL_EFORMAT, "there is no turn in it");
    return rc;
}

static struct conversation *find(struct replay *r, const char *name)
{
    for (size_t i = 0; i < r->n_conv; i++)
        if (!strcmp(r->conv[i].name, name))
            return &r->conv[i];
    r->conv[r->n_conv].name = name;
    r->conv[r->n_conv].body = json_object();
    return &r->conv[r->n_conv++];
}

/* The request of a turn becomes the body of its conversation. */
static int make_body(struct replay *r, struct conversation *c,
                     const json_t *line, struct sl_err *err)
{
    json_t *add = json_object_get(line, "add");

    if (add && !json_object_get(c->body, "messages"))
        return sl_fail(err, SL_EFORMAT,
                       "its first turn has 'add', and there is nothing yet to "
                       "add to; begin with 'messages'");
    /* A copy, for the recorded list must not grow. */
    for (void *it = json_object_iter((json_t *)(uintptr_t)(const void *)line);
         it; it = json_object_iter_next((json_t *)(uintptr_t)(const void *)line,
                                        it)) {
        const char *key = json_object_iter_key(it);

        if (strcmp(key, "add") && strcmp(key, "conversation"))
            json_object_set_new(c->body, key,
                                json_deep_copy(json_object_iter_value(it)));
    }
    if (add)
        json_array_extend(json_object_get(c->body, "messages"), add);
    if (r->o->model)
        json_object_set_new(c->body, "model", json_string(r->o->model));
    if (!json_object_get(c->body, "max_tokens") &&
        !json_object_get(c->body, "max_completion_tokens"))
        json_object_set_new(c->body, "max_tokens",
                            json_integer((json_int_t)r->o->n_out));
    if (r->o->has_seed)
        json_object_set_new(c->body, "seed",
                            json_integer((json_int_t)r->o->seed));
    json_object_set_new(c->body, "stream", json_true());
    json_object_set_new(c->body, "return_token_ids", json_true());
    return json_object_set_new(c->body, "stream_options",
                               json_pack("{s:b}", "include_usage", 1))
               ? sl_fail(err, SL_ENOMEM, "no memory is left for a request")
               : 0;
}

/* ------------------------------------------------------------------- a reply
 */

static void why(struct replay *r, const char *s, size_t n)
{
    r->failed = true;
    if (!r->why[0])
        snprintf(r->why, sizeof(r->why), "%.*s", (int)sl_min(n, MAX_WHY - 1),
                 s);
}

static void push_ids(struct replay *r, const json_t *list)
{
    struct past *p = r->now;
    size_t n = json_array_size(list);

    if (n > UINT32_MAX / 2 - p->n)
        return;
    if (p->n + n > p->cap) {
        uint32_t cap = (uint32_t)(2 * (p->n + n));

        if (sl_mem_resize(&p->ids, cap, sizeof(*p->ids), "tokens", NULL)) {
            why(r, "no memory is left for tokens", 28);
            return;
        }
        p->cap = cap;
    }
    for (size_t i = 0; i < n; i++)
        p->ids[p->n++] = (int32_t)json_integer_value(json_array_get(list, i));
}

static void add_text(struct sl_buf *b, const json_t *delta, const char *key)
{
    const json_t *v = json_object_get(delta, key);

    if (json_is_string(v))
        sl_buf_add(b, json_string_value(v), json_string_length(v));
}

/* A part of a tool call: the first has its name, later ones add arguments. */
static void on_call(struct replay *r, const json_t *part)
{
    size_t i = (size_t)json_integer_value(json_object_get(part, "index"));
    const json_t *fn = json_object_get(part, "function");
    const json_t *name = json_object_get(fn, "name");
    const char *more = json_string_value(json_object_get(fn, "arguments"));
    const char *old;
    json_t *call, *own;

    if (i == json_array_size(r->calls) && json_is_string(name))
        json_array_append_new(
            r->calls, json_pack("{s:O*, s:s, s:{s:O, s:s}}", "id",
                                json_object_get(part, "id"), "type", "function",
                                "function", "name", name, "arguments", ""));
    call = json_array_get(r->calls, i);
    own = json_object_get(call, "function");
    old = json_string_value(json_object_get(own, "arguments"));
    if (old && more)
        json_object_set_new(own, "arguments", json_sprintf("%s%s", old, more));
}

static void on_choice(struct replay *r, const json_t *c)
{
    const json_t *delta = json_object_get(c, "delta");
    const json_t *ids = json_object_get(c, "token_ids");
    const json_t *calls = json_object_get(delta, "tool_calls");
    size_t before = r->content.len + r->reasoning.len;

    add_text(&r->content, delta, "content");
    add_text(&r->reasoning, delta, "reasoning_content");
    for (size_t i = 0; i < json_array_size(calls); i++)
        on_call(r, json_array_get(calls, i));
    push_ids(r, ids);
    if (json_array_size(ids) == 0 && !calls &&
        r->content.len + r->reasoning.len == before)
        return; /* says who speaks, or why it ended */
    r->last = sl_clock_ns();
    if (!r->first)
        r->first = r->last;
}

static uint32_t count(const json_t *usage, const char *key)
{
    return (uint32_t)json_integer_value(json_object_get(usage, key));
}

static void on_event(void *ctx, const json_t *j, const char *s, size_t n)
{
    struct replay *r = ctx;
    const json_t *usage, *ids;

    if (!j || json_object_get(j, "error"))
        why(r, s, n);
    ids = json_object_get(j, "prompt_token_ids");
    if (json_is_array(ids)) {
        r->turn->has_ids = true;
        push_ids(r, ids);
        r->turn->n_prompt = r->now->n;
    }
    if (json_array_size(json_object_get(j, "choices")) > 0)
        on_choice(r, json_array_get(json_object_get(j, "choices"), 0));
    usage = json_object_get(j, "usage");
    if (json_is_object(usage)) {
        r->usage = true;
        r->turn->n_prompt = count(usage, "prompt_tokens");
        r->turn->n_out = count(usage, "completion_tokens");
        r->turn->n_cached = count(
            json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
    }
}

/* Of curl: some bytes of the body. */
static size_t on_bytes(char *p, size_t size, size_t n, void *arg)
{
    struct replay *r = arg;
    struct sl_buf *b = &r->raw;
    long status = 0;

    (void)size; /* 1 */
    sl_buf_add(b, p, n);
    (void)curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &status);
    if (b->failed || status != 200)
        return b->failed ? 0 : n;
    sl_events_take(b, on_event, r);
    return r->failed ? 0 : n;
}

/* -------------------------------------------------------------------- a turn
 */

static int post(struct replay *r, const json_t *body, struct sl_err *err)
{
    char *text = json_dumps(body, JSON_COMPACT);
    CURLcode c = CURLE_OUT_OF_MEMORY;
    long status = 0;

    r->first = r->last = 0;
    r->usage = r->failed = false;
    r->why[0] = 0;
    sl_buf_reset(&r->raw);
    sl_buf_reset(&r->content);
    sl_buf_reset(&r->reasoning);
    json_array_clear(r->calls);
    curl_easy_setopt(r->curl, CURLOPT_POSTFIELDS, text ? text : "");
    curl_easy_setopt(r->curl, CURLOPT_POSTFIELDSIZE,
                     text ? (long)strlen(text) : 0L);
    r->t0 = sl_clock_ns();
    if (text)
        c = curl_easy_perform(r->curl);
    free(text); /* jansson's own */
    (void)curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200 && r->raw.len)
        why(r, r->raw.p, r->raw.len);
    else if (c != CURLE_OK)
        why(r, curl_easy_strerror(c), strlen(curl_easy_strerror(c)));
    else if (!r->usage || !r->first)
        why(r, "the answer ended before it was complete", 39);
    return r->failed ? sl_fail(err, SL_EIO, "%s", r->why) : 0;
}

static uint32_t shared(const struct past *a, uint32_t n, const struct past *b)
{
    uint32_t i = 0;

    while (i < n && i < b->n && a->ids[i] == b->ids[i])
        i++;
    return i;
}

/* What could have been known of the prompt. */
static void compare(struct replay *r)
{
    struct sl_turn *t = r->turn;
    uint32_t n = t->n_prompt, most = 0, own = 0;

    if (!t->has_ids || n > r->now->n || n == 0)
        return;
    for (struct past *p = r->past; p < r->now; p++) {
        uint32_t k = shared(r->now, n, p);

        most = (uint32_t)sl_max(most, k);
        if (p->conversation == r->now->conversation)
            own = k; /* of its last turn in the end */
    }
    t->n_new = n - own;
    t->least = n - (uint32_t)sl_min(most, n - 1);
}

/* The answer becomes a part of the history. */
static void add_answer(struct replay *r, struct conversation *c)
{
    json_t *m =
        json_pack("{s:s, s:s%}", "role", "assistant", "content",
                  r->content.p ? r->content.p : "", (size_t)r->content.len);

    if (m && r->reasoning.len)
        json_object_set_new(m, "reasoning_content",
                            json_stringn(r->reasoning.p, r->reasoning.len));
    if (m && json_array_size(r->calls) > 0)
        json_object_set_new(m, "tool_calls", json_deep_copy(r->calls));
    json_array_append_new(json_object_get(c->body, "messages"), m);
}

static int one_turn(struct replay *r, uint32_t i, struct sl_err *err)
{
    const json_t *line = r->line[i];
    const char *name = json_string_value(json_object_get(line, "conversation"));
    struct conversation *c = find(r, name ? name : "");
    int rc = make_body(r, c, line, err);

    r->turn = &r->out->turn[i];
    r->now = &r->past[i];
    r->now->conversation = (size_t)(c - r->conv);
    r->turn->turn = ++c->n_turn;
    if (!rc)
        rc = sl_mem_dup(&r->turn->conversation, c->name, strlen(c->name), err);
    if (!rc)
        rc = post(r, c->body, err);
    if (rc)
        return sl_wrap(err, rc, "turn %u", i + 1);
    r->turn->ttft_s = sl_clock_s(r->t0, r->first);
    r->turn->all_s = sl_clock_s(r->t0, r->last);
    compare(r);
    add_answer(r, c);
    r->out->n++;
    if (r->o->progress)
        r->o->progress(r->o->progress_ctx, i + 1, r->n_line);
    return 0;
}

/* ------------------------------------------------------------------ together
 */

static int open_client(struct replay *r, struct sl_err *err)
{
    char url[600], auth[1100];
    int n = snprintf(url, sizeof(url), "http://%s:%u/v1/chat/completions",
                     r->o->host, r->o->port);

    if (n < 0 || (size_t)n >= sizeof(url))
        return sl_fail(err, SL_EARG, "the name of the host is too long");
    r->curl = curl_easy_init();
    r->fields = curl_slist_append(NULL, "Content-Type: application/json");
    if (r->o->key) {
        n = snprintf(auth, sizeof(auth), "Authorization: Bearer %s", r->o->key);
        if (n < 0 || (size_t)n >= sizeof(auth))
            return sl_fail(err, SL_EARG, "--api-key is too long");
        r->fields = curl_slist_append(r->fields, auth);
    }
    if (!r->curl || !r->fields)
        return sl_fail(err, SL_ENOMEM, "no memory is left for a connection");
    curl_easy_setopt(r->curl, CURLOPT_URL, url);
    curl_easy_setopt(r->curl, CURLOPT_HTTPHEADER, r->fields);
    curl_easy_setopt(r->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(r->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(r->curl, CURLOPT_LOW_SPEED_TIME, STALLED_S);
    curl_easy_setopt(r->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(r->curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(r->curl, CURLOPT_WRITEDATA, r);
    return 0;
}

static void deinit(struct replay *r)
{
    for (uint32_t i = 0; i < r->n_line; i++) {
        json_decref(r->line[i]);
        if (r->past)
            sl_mem_free(r->past[i].ids);
    }
    for (size_t i = 0; i < r->n_conv; i++)
        json_decref(r->conv[i].body);
    sl_mem_free(r->line);
    sl_mem_free(r->conv);
    sl_mem_free(r->past);
    sl_buf_deinit(&r->raw);
    sl_buf_deinit(&r->content);
    sl_buf_deinit(&r->reasoning);
    json_decref(r->calls);
    curl_slist_free_all(r->fields);
    if (r->curl)
        curl_easy_cleanup(r->curl);
}

int sl_replay_run(struct sl_replay *out, const char *text, size_t len,
                  const struct sl_replay_opts *o, struct sl_err *err)
{
    struct replay r = {.o = o, .out = out, .calls = json_array()};
    int rc;

    *out = (struct sl_replay){0};
    sl_buf_init(&r.raw, MAX_REPLY);
    sl_buf_init(&r.content, MAX_REPLY);
    sl_buf_init(&r.reasoning, MAX_REPLY);
    rc = read_lines(&r, text, len, err);
    if (!rc)
        rc = open_client(&r, err);
    if (!rc)
        rc = sl_mem_alloc(&r.conv, r.n_line, sizeof(*r.conv), "turns", err);
    if (!rc)
        rc = sl_mem_alloc(&r.past, r.n_line, sizeof(*r.past), "turns", err);
    if (!rc)
        rc = sl_mem_alloc(&out->turn, r.n_line, sizeof(*out->turn), "turns",
                          err);
    for (uint32_t i = 0; !rc && i < r.n_line; i++)
        rc = one_turn(&r, i, err);
    if (rc && out->turn && r.turn && out->n < r.n_line)
        sl_mem_free(out->turn[out->n].conversation);
    deinit(&r);
    return rc;
}

void sl_replay_deinit(struct sl_replay *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        sl_mem_free(r->turn[i].conversation);
    sl_mem_free(r->turn);
    *r = (struct sl_replay){0};
}
