/* server/answer.c - what a completion says: events of a stream, or one reply
 *
 * A whole reply is the concatenation of what the stream would have said, so
 * both take the same way: text -> parser (of a chat) -> `say`, which writes an
 * event or gathers. The framing is serving.md 3.2: "data: ", one line of JSON,
 * two line feeds; absent keys instead of null ones.
 */
#include "server/task.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "server/json_out.h"

static bool is_chat(const struct sl_task *t)
{
    return t->kind == SL_REQUEST_CHAT;
}

static struct sl_buf *event(struct sl_task *t)
{
    struct sl_buf *b = &t->s->scratch;

    sl_buf_reset(b);
    return b;
}

static void send_event(struct sl_task *t, struct sl_buf *b)
{
    sl_buf_str(b, "\n\n");
    if (t->x && !b->failed)
        sl_http_write(t->x, b->p, b->len);
}

/* "id" to "model", of an event or a reply. */
static void put_common(struct sl_buf *b, const struct sl_task *t,
                       const char *object)
{
    sl_buf_fmt(b, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":",
               t->id, object, (long long)t->created);
    sl_json_put_str(b, t->s->opts.name[0], strlen(t->s->opts.name[0]));
    if (t->s->info.fingerprint[0])
        sl_buf_fmt(b, ",\"system_fingerprint\":\"%s\"",
                   t->s->info.fingerprint);
}

/* Tokens of a prompt that were known before: choices that follow the first one
 * know all of it, which says nothing. */
static uint32_t n_cached(const struct sl_task *t, uint32_t prompt)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < t->n_choice; i++)
        if (t->choice[i].prompt == prompt)
            least = (uint32_t)sl_min(least, t->choice[i].n_cached);
    return least == UINT32_MAX ? 0 : least;
}

static void put_usage(struct sl_buf *b, const struct sl_task *t)
{
    uint64_t n_prompt = 0, n_out = 0, cached = 0, reason = 0;
    uint64_t n_draft = 0, n_accept = 0;
    struct sl_gen_stats st;

    for (uint32_t i = 0; i < t->n_prompt; i++) {
        n_prompt += t->prompt[i].n;
        cached += n_cached(t, i);
    }
    for (uint32_t i = 0; i < t->n_choice; i++) {
        n_out += t->choice[i].n_out;
        reason += t->choice[i].n_reason;
        if (!t->choice[i].gen)
            continue;
        sl_gen_stats(t->choice[i].gen, &st);
        n_draft += st.n_draft;
        n_accept += st.n_accept;
    }
    sl_buf_fmt(b,
               "\"usage\":{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,"
               "\"total_tokens\":%llu,\"prompt_tokens_details\":{"
               "\"cached_tokens\":%llu}",
               (unsigned long long)n_prompt, (unsigned long long)n_out,
               (unsigned long long)(n_prompt + n_out),
               (unsigned long long)cached);
    if (is_chat(t))
        sl_buf_fmt(b,
                   ",\"completion_tokens_details\":{\"reasoning_tokens\":%llu,"
                   "\"draft_tokens\":%llu,\"accepted_draft_tokens\":%llu}",
                   (unsigned long long)reason, (unsigned long long)n_draft,
                   (unsigned long long)n_accept);
    sl_buf_byte(b, '}');
}

/* -------------------------------------------------------- log-probabilities */

static void put_token(struct sl_buf *b, const struct sl_task *t, int32_t id)
{
    char name[32];
    size_t n;
    const char *s = sl_token(&n, t->s->engine, id);

    if (t->q.token_id_strings.v) {
        snprintf(name, sizeof(name), "token_id:%d", id);
        sl_json_put_str(b, name, strlen(name));
    } else {
        sl_json_put_str(b, s ? s : "", n);
    }
}

static void put_bytes(struct sl_buf *b, const struct sl_task *t, int32_t id)
{
    size_t n;
    const char *s = sl_token(&n, t->s->engine, id);

    sl_buf_str(b, ",\"bytes\":[");
    for (size_t i = 0; i < n; i++)
        sl_buf_fmt(b, i ? ",%u" : "%u", (unsigned char)s[i]);
    sl_buf_byte(b, ']');
}

static void put_chat_entry(struct sl_buf *b, const struct sl_task *t,
                           const struct sl_logprob *l)
{
    sl_buf_str(b, "{\"token\":");
    put_token(b, t, l->id);
    sl_buf_str(b, ",\"logprob\":");
    sl_json_put_float(b, l->logprob);
    put_bytes(b, t, l->id);
}

static void comma(struct sl_buf *b)
{
    if (b->len)
        sl_buf_byte(b, ',');
}

static void chat_logprob(struct sl_choice *c, const struct sl_logprob *l,
                         const struct sl_logprob *top, uint32_t n_top)
{
    struct sl_buf *b = &c->lp[0];

    comma(b);
    put_chat_entry(b, c->t, l);
    sl_buf_str(b, ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < n_top && top[i].id >= 0; i++) {
        if (i)
            sl_buf_byte(b, ',');
        put_chat_entry(b, c->t, &top[i]);
        sl_buf_byte(b, '}');
    }
    sl_buf_str(b, "]}");
}

/* Do a and b have the same key? Bytes that are no character look alike. */
static bool same_token(const struct sl_task *t, int32_t a, int32_t b)
{
    size_t n, m;
    const char *p = sl_token(&n, t->s->engine, a);
    const char *q = sl_token(&m, t->s->engine, b);
    struct sl_buf x, y;
    bool same;

    if (a == b || t->q.token_id_strings.v || !p || !q)
        return a == b;
    if (sl_utf8_valid(p, n) == n || sl_utf8_valid(q, m) == m)
        return n == m && !memcmp(p, q, n);
    sl_buf_init(&x, 1 << 16);
    sl_buf_init(&y, 1 << 16);
    sl_json_put_str(&x, p, n);
    sl_json_put_str(&y, q, m);
    same = x.len == y.len && !memcmp(x.p, y.p, x.len);
    sl_buf_deinit(&x);
    sl_buf_deinit(&y);
    return same;
}

/* Alternatives have their texts as keys, and of two with the same text the
 * larger is kept: they come in falling order. */
static void put_alternatives(struct sl_buf *b, const struct sl_task *t,
                             const struct sl_logprob *l,
                             const struct sl_logprob *top, uint32_t n_top)
{
    bool has = false;

    sl_buf_byte(b, '{');
    for (uint32_t i = 0; i < n_top && top[i].id >= 0; i++) {
        bool again = false;

        for (uint32_t k = 0; k < i && !again; k++)
            again = same_token(t, top[i].id, top[k].id);
        if (again)
            continue;
        has = has || same_token(t, top[i].id, l->id);
        if (i)
            sl_buf_byte(b, ',');
        put_token(b, t, top[i].id);
        sl_buf_byte(b, ':');
        sl_json_put_float(b, top[i].logprob);
    }
    if (!has) {
        if (n_top && top[0].id >= 0)
            sl_buf_byte(b, ',');
        put_token(b, t, l->id);
        sl_buf_byte(b, ':');
        sl_json_put_float(b, l->logprob);
    }
    sl_buf_byte(b, '}');
}

/* Characters, as clients count. */
static uint32_t n_chars(const char *s, size_t n)
{
    uint32_t k = 0;

    for (size_t i = 0; i < n; i++)
        k += ((unsigned char)s[i] & 0xc0) != 0x80;
    return k;
}

static void text_logprob(struct sl_choice *c, const struct sl_logprob *l,
                         const struct sl_logprob *top, uint32_t n_top)
{
    for (int k = 0; k < SL_N_LP; k++)
        comma(&c->lp[k]);
    put_token(&c->lp[0], c->t, l->id);
    sl_json_put_float(&c->lp[1], l->logprob);
    put_alternatives(&c->lp[2], c->t, l, top, n_top);
    sl_buf_fmt(&c->lp[3], "%u", c->n_text_off);
}

/* Characters of a token of the prompt, which is shown as it is. */
static uint32_t n_chars_of(const struct sl_choice *c, int32_t id)
{
    size_t n;
    const char *s = sl_token(&n, c->t->s->engine, id);

    return s ? n_chars(s, n) : 0;
}

/* What the prompt said of its own tokens, or false. */
static bool get_scores(const struct sl_choice *c, struct sl_prompt_logprobs *out)
{
    return sl_task_scores(c->t) && c->gen &&
           !sl_gen_prompt_logprobs(sl_task_scorer(c)->gen, out, NULL);
}

/* echo: the tokens of the prompt come first, the first of them without value. */
static void note_prompt(struct sl_choice *c)
{
    struct sl_prompt_logprobs l;

    if (!c->t->q.echo.v || !c->t->q.logprobs.has || !get_scores(c, &l))
        return;
    put_token(&c->lp[0], c->t, l.at[0].id);
    sl_buf_str(&c->lp[1], "null");
    sl_buf_str(&c->lp[2], "null");
    sl_buf_str(&c->lp[3], "0");
    c->n_text_off = n_chars_of(c, l.at[0].id);
    for (uint32_t i = 1; i < l.n; i++) {
        text_logprob(c, &l.at[i], l.top + (size_t)i * l.n_top,
                     (uint32_t)sl_min(l.n_top, (size_t)c->t->q.logprobs.v));
        c->n_text_off += n_chars_of(c, l.at[i].id);
    }
}

/* "id":{"logprob":-1.0,"rank":1,"decoded_token":"a"} */
static void put_scored(struct sl_buf *b, const struct sl_task *t,
                       const struct sl_logprob *l, uint32_t rank)
{
    sl_buf_fmt(b, "\"%d\":{\"logprob\":", l->id);
    sl_json_put_float(b, l->logprob);
    sl_buf_fmt(b, ",\"rank\":%u,\"decoded_token\":", rank);
    put_token(b, t, l->id);
    sl_buf_byte(b, '}');
}

/* prompt_logprobs: an entry per token of the prompt, null for the first. */
static void put_scores(struct sl_buf *b, const struct sl_choice *c)
{
    struct sl_prompt_logprobs l;

    if (!c->t->q.prompt_logprobs.has || !get_scores(c, &l))
        return;
    sl_buf_str(b, ",\"prompt_logprobs\":[null");
    for (uint32_t i = 1; i < l.n; i++) {
        const struct sl_logprob *top = l.top + (size_t)i * l.n_top;

        sl_buf_str(b, ",{");
        put_scored(b, c->t, &l.at[i], l.rank[i]);
        for (uint32_t k = 0; k < c->t->q.prompt_logprobs.v && top[k].id >= 0;
             k++) {
            if (top[k].id == l.at[i].id)
                continue;
            sl_buf_byte(b, ',');
            put_scored(b, c->t, &top[k], k + 1);
        }
        sl_buf_byte(b, '}');
    }
    sl_buf_byte(b, ']');
}

/* ------------------------------------------- tokens whose text is to come */

/* A token is told with the event that has its text. */
struct note {
    uint32_t said; /* bytes of the answer up to the end of its text */
    bool hidden;   /* a part of reasoning that the client does not want */
    struct sl_logprob own;
    uint32_t n_top;
    struct sl_logprob top[];
};

static struct note *note_at(const struct sl_notes *x, size_t i)
{
    return (struct note *)(void *)(x->buf.p + i * x->size);
}

/* The tokens of a piece wait. */
static void queue_notes(struct sl_choice *c, const struct sl_piece *p)
{
    struct sl_notes *x = &c->notes;
    uint32_t n_top = p->top ? p->n_top : 0;

    if (!p->logprobs && !c->t->q.return_token_ids.v)
        return;
    x->size = sizeof(struct note) + n_top * sizeof(struct sl_logprob);
    for (size_t i = 0; i < p->n_ids; i++) {
        struct note n = {.said = p->said[i],
                         .own = {.id = p->ids[i]},
                         .n_top = n_top};

        if (p->logprobs)
            n.own = p->logprobs[i];
        sl_buf_add(&x->buf, (const char *)&n, sizeof(n));
        if (n_top)
            sl_buf_add(&x->buf, (const char *)(p->top + i * n_top),
                       n_top * sizeof(*p->top));
        x->n += !x->buf.failed;
    }
}

static void put_note(struct sl_choice *c, const struct note *n)
{
    const struct sl_request *q = &c->t->q;

    if (is_chat(c->t) && q->chat_logprobs.v)
        chat_logprob(c, &n->own, n->top, n->n_top);
    else if (!is_chat(c->t) && q->logprobs.has)
        text_logprob(c, &n->own, n->top, n->n_top);
    if (!q->return_token_ids.v)
        return;
    comma(&c->ids);
    sl_buf_fmt(&c->ids, "%d", n->own.id);
}

/* What follows is behind the text of n, which may be none: that of a special
 * token is not shown, and a stop text was cut. */
static void pass_text(struct sl_choice *c, const struct note *n)
{
    struct sl_notes *x = &c->notes;
    size_t at = (size_t)(x->text.len - (x->n_said - x->n_told));
    size_t len = (size_t)(sl_min(n->said, x->n_said) - x->n_told);

    if (len > 0)
        c->n_text_off += n_chars(x->text.p + at, len);
    x->n_told += len;
}

/* The text of one more token has come. */
static void ready_note(struct sl_choice *c, bool hidden)
{
    struct sl_notes *x = &c->notes;

    if (x->n_ready < x->n)
        note_at(x, x->n_ready++)->hidden = hidden;
}

/* The next event has the text up to byte `to` of the answer, and its tokens. */
static void tell_notes(struct sl_choice *c, uint64_t to)
{
    struct sl_notes *x = &c->notes;

    for (; x->i < x->n_ready && note_at(x, x->i)->said <= to; x->i++) {
        if (!note_at(x, x->i)->hidden)
            put_note(c, note_at(x, x->i));
        if (!is_chat(c->t))
            pass_text(c, note_at(x, x->i));
    }
    c->t->failed |= x->buf.failed || x->text.failed;
    if (x->i < x->n || x->n == 0)
        return;
    x->i = x->n_ready = x->n = 0;
    sl_buf_reset(&x->buf);
}

static void put_buf(struct sl_buf *b, const struct sl_buf *from)
{
    sl_buf_add(b, from->p ? from->p : "", from->len);
}

/* ,"logprobs":...  What was noted since the last time, in a stream. */
static void put_logprobs(struct sl_buf *b, struct sl_choice *c)
{
    const struct sl_task *t = c->t;

    sl_buf_str(b, ",\"logprobs\":");
    if (is_chat(t) ? !t->q.chat_logprobs.v : !t->q.logprobs.has) {
        sl_buf_str(b, "null");
    } else if (is_chat(t)) {
        sl_buf_str(b, "{\"content\":[");
        put_buf(b, &c->lp[0]);
        sl_buf_str(b, "]}");
    } else {
        static const char *const key[] = {"{\"tokens\":[", "],"
                                          "\"token_logprobs\":[",
                                          "],\"top_logprobs\":[",
                                          "],\"text_offset\":["};

        for (int k = 0; k < SL_N_LP; k++) {
            sl_buf_str(b, key[k]);
            put_buf(b, &c->lp[k]);
        }
        sl_buf_str(b, "]}");
    }
    if (t->q.return_token_ids.v) {
        sl_buf_str(b, ",\"token_ids\":[");
        put_buf(b, &c->ids);
        sl_buf_byte(b, ']');
    }
    if (t->q.stream.v) {
        for (int k = 0; k < SL_N_LP; k++)
            sl_buf_reset(&c->lp[k]);
        sl_buf_reset(&c->ids);
    }
}

static void put_finish(struct sl_buf *b, const struct sl_choice *c)
{
    if (!c->finish) {
        sl_buf_str(b, ",\"finish_reason\":null");
        return;
    }
    sl_buf_fmt(b, ",\"finish_reason\":\"%s\",\"stop_reason\":", c->finish);
    if (c->stop_reason.len)
        put_buf(b, &c->stop_reason);
    else
        sl_buf_str(b, "null");
}

/* As vLLM has it: once in a chat, in every choice of completions. */
static void put_prompt_ids(struct sl_buf *b, const struct sl_task *t,
                           uint32_t prompt)
{
    const struct sl_ids_of *p = &t->prompt[prompt];

    if (!t->q.return_token_ids.v)
        return;
    sl_buf_str(b, "\"prompt_token_ids\":[");
    for (size_t i = 0; i < p->n; i++)
        sl_buf_fmt(b, i ? ",%d" : "%d", p->p[i]);
    sl_buf_str(b, "],");
}

/* ------------------------------------------------------- events of a stream */

/* Up to what stands for the text: `"choices":[{"index":0,` */
static struct sl_buf *begin_event(struct sl_choice *c)
{
    struct sl_task *t = c->t;
    struct sl_buf *b = event(t);

    sl_buf_str(b, "data: ");
    put_common(b, t, is_chat(t) ? "chat.completion.chunk" : "text_completion");
    sl_buf_fmt(b, ",\"choices\":[{\"index\":%u,", c->index);
    if (!is_chat(t) && !c->spoke)
        put_prompt_ids(b, t, c->prompt);
    return b;
}

static void end_event(struct sl_choice *c, struct sl_buf *b)
{
    put_logprobs(b, c);
    put_finish(b, c);
    sl_buf_str(b, "}]");
    if (c->t->q.continuous_usage.v) {
        sl_buf_byte(b, ',');
        put_usage(b, c->t);
    }
    sl_buf_byte(b, '}');
    send_event(c->t, b);
}

static void text_event(struct sl_choice *c, const char *s, size_t n)
{
    struct sl_buf *b = begin_event(c);

    sl_buf_str(b, "\"text\":");
    sl_json_put_str(b, s, n);
    end_event(c, b);
}

/* The role comes with the first event, never before there is a token. */
static void speak(struct sl_choice *c)
{
    struct sl_buf *b;

    if (c->spoke)
        return;
    c->spoke = true;
    b = event(c->t);
    sl_buf_str(b, "data: ");
    put_common(b, c->t, "chat.completion.chunk");
    sl_buf_byte(b, ',');
    put_prompt_ids(b, c->t, c->prompt);
    sl_buf_fmt(b,
               "\"choices\":[{\"index\":%u,\"delta\":{\"role\":\"assistant\","
               "\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]",
               c->index);
    if (c->t->q.continuous_usage.v) {
        sl_buf_byte(b, ',');
        put_usage(b, c->t);
    }
    sl_buf_byte(b, '}');
    send_event(c->t, b);
}

/* `"delta":{...}` of what the parser said. */
static void put_delta(struct sl_buf *b, const struct sl_parse_event *e)
{
    switch (e->kind) {
    case SL_PARSE_REASONING:
        sl_buf_str(b, "{\"reasoning\":");
        sl_json_put_str(b, e->text, e->len);
        sl_buf_str(b, ",\"reasoning_content\":");
        sl_json_put_str(b, e->text, e->len);
        sl_buf_byte(b, '}');
        break;
    case SL_PARSE_CONTENT:
        sl_buf_str(b, "{\"content\":");
        sl_json_put_str(b, e->text, e->len);
        sl_buf_byte(b, '}');
        break;
    case SL_PARSE_BEGIN:
        sl_buf_fmt(b,
                   "{\"tool_calls\":[{\"index\":%u,\"id\":\"%s\",\"type\":"
                   "\"function\",\"function\":{\"name\":",
                   e->call, e->id);
        sl_json_put_str(b, e->text, e->len);
        sl_buf_str(b, ",\"arguments\":\"\"}}]}");
        break;
    default:
        sl_buf_fmt(b,
                   "{\"tool_calls\":[{\"index\":%u,\"function\":{"
                   "\"arguments\":",
                   e->call);
        sl_json_put_str(b, e->text, e->len);
        sl_buf_str(b, "}}]}");
    }
}

/* ------------------------------------------------------------- both together */

static void gather(struct sl_choice *c, const struct sl_parse_event *e)
{
    switch (e->kind) {
    case SL_PARSE_REASONING:
        sl_buf_add(&c->reasoning, e->text, e->len);
        break;
    case SL_PARSE_CONTENT:
        sl_buf_add(&c->text, e->text, e->len);
        break;
    case SL_PARSE_BEGIN:
        comma(&c->calls);
        sl_buf_fmt(&c->calls,
                   "{\"id\":\"%s\",\"type\":\"function\",\"function\":{"
                   "\"name\":",
                   e->id);
        sl_json_put_str(&c->calls, e->text, e->len);
        sl_buf_str(&c->calls, ",\"arguments\":\"");
        c->n_calls++;
        break;
    case SL_PARSE_ARGS:
        sl_json_put_text(&c->calls, e->text, e->len);
        break;
    case SL_PARSE_CUT:
        sl_json_put_text(&c->calls, e->text, e->len);
        sl_buf_str(&c->calls, "\"}}");
        break;
    case SL_PARSE_END:
        sl_buf_str(&c->calls, "\"}}");
        break;
    case SL_PARSE_DONE:
        break;
    }
}

static bool hides_reasoning(const struct sl_task *t)
{
    return is_chat(t) && t->q.include_reasoning.has &&
           !t->q.include_reasoning.v;
}

static bool hidden(const struct sl_choice *c, const struct sl_parse_event *e)
{
    return c->cut || e->kind == SL_PARSE_DONE ||
           (e->kind == SL_PARSE_REASONING && hides_reasoning(c->t));
}

static void send_delta(struct sl_choice *c, const struct sl_parse_event *e)
{
    struct sl_buf *b = begin_event(c);

    sl_buf_str(b, "\"delta\":");
    put_delta(b, e);
    end_event(c, b);
}

/* Of a stream: text waits for more of its kind until the end of the piece, so
 * that a step is one event however many tokens it has. */
static void flush(struct sl_choice *c)
{
    struct sl_parse_event e = {.kind = SL_PARSE_REASONING};
    struct sl_buf *from[] = {&c->reasoning, &c->text};

    for (size_t i = 0; c->t->q.stream.v && i < SL_COUNTOF(from); i++) {
        e.text = from[i]->p;
        e.len = from[i]->len;
        if (e.len)
            send_delta(c, &e);
        sl_buf_reset(from[i]);
        e.kind = SL_PARSE_CONTENT;
    }
}

/* Bytes of a chat's answer that the parser has let go of. */
static uint64_t n_parsed(const struct sl_choice *c)
{
    return c->align.n_given - sl_parse_held(c->parse);
}

static void say(struct sl_choice *c, const struct sl_parse_event *e)
{
    bool stream = c->t->q.stream.v;

    if (hidden(c, e))
        return;
    /* Reasoning and content do not wait beside each other. */
    if (stream && (e->kind != SL_PARSE_REASONING || c->text.len) &&
        (e->kind != SL_PARSE_CONTENT || c->reasoning.len))
        flush(c);
    tell_notes(c, n_parsed(c));
    if (!stream || e->kind == SL_PARSE_REASONING || e->kind == SL_PARSE_CONTENT)
        gather(c, e);
    else if (e->kind == SL_PARSE_BEGIN || e->kind == SL_PARSE_ARGS)
        send_delta(c, e);
    c->cut = e->kind == SL_PARSE_END && c->t->q.parallel_tool_calls.has &&
             !c->t->q.parallel_tool_calls.v;
}

static void say_all(struct sl_choice *c)
{
    struct sl_parse_event e;

    while (sl_parse_next(c->parse, &e))
        say(c, &e);
}

/* The call that a request names is its answer, and no choice of the model. */
static void set_finish(struct sl_choice *c, const struct sl_piece *p)
{
    const struct sl_request *q = &c->t->q;
    bool called = c->cut || (c->parse && sl_parse_n_calls(c->parse) > 0);

    c->finish = p->finish == SL_FINISH_LENGTH && !c->cut ? "length"
                : called && !q->form.tool                ? "tool_calls"
                                                         : "stop";
    if (c->cut || p->finish != SL_FINISH_STOP)
        return;
    if (p->stop_text >= 0 && (uint32_t)p->stop_text < q->n_stop)
        sl_json_put_str(&c->stop_reason, q->stop[p->stop_text],
                        strlen(q->stop[p->stop_text]));
    else if (p->stop_id >= 0)
        sl_buf_fmt(&c->stop_reason, "%d", p->stop_id);
}

/* The next part of the answer, perhaps the end of a token's text. */
static int feed(struct sl_choice *c, const struct sl_align_step *s)
{
    bool reasons = sl_parse_is_reasoning(c->parse);
    int rc = sl_align_feed(c->parse, s, NULL);

    if (rc)
        return rc;
    if (s->token) {
        c->n_out++;
        c->n_reason += reasons;
        ready_note(c, reasons && hides_reasoning(c->t));
    }
    say_all(c);
    return 0;
}

/* All that can be said of a piece. */
static int parse(struct sl_choice *c, const struct sl_piece *p)
{
    bool last = p->finish != SL_FINISH_NONE;
    struct sl_align_step s;
    int rc = sl_align_put(&c->align, p->text, p->n_text, p->ids, p->said,
                          p->n_ids, last, NULL);

    while (!rc && !c->cut && sl_align_next(&c->align, &s))
        rc = feed(c, &s);
    if (!rc && !c->cut && last)
        rc = sl_parse_finish(c->parse,
                             p->finish == SL_FINISH_LENGTH ? SL_PARSE_LENGTH
                                                           : SL_PARSE_STOP,
                             NULL);
    if (!rc)
        say_all(c);
    tell_notes(c, last || c->cut ? UINT64_MAX : n_parsed(c));
    return rc;
}

static void chat_piece(struct sl_choice *c, const struct sl_piece *p)
{
    int rc;

    if (c->t->q.stream.v && (p->n_ids || p->finish != SL_FINISH_NONE))
        speak(c);
    queue_notes(c, p);
    rc = parse(c, p);
    flush(c);
    c->t->failed |= rc != 0;
    if (rc || (p->finish == SL_FINISH_NONE && !c->cut))
        return;
    set_finish(c, p);
    if (c->t->q.stream.v) {
        struct sl_buf *b = begin_event(c);

        sl_buf_str(b, "\"delta\":{}");
        end_event(c, b);
    }
}

/* The text of a piece, behind what waits for the rest of its token. */
static void keep_text(struct sl_notes *x, const struct sl_piece *p)
{
    size_t n = (size_t)(x->n_said - x->n_told);

    if (x->size == 0)
        return;
    if (n > 0)
        memmove(x->text.p, x->text.p + x->text.len - n, n);
    x->text.len = n;
    sl_buf_add(&x->text, p->text, p->n_text);
    x->n_said += p->n_text;
}

static void text_piece(struct sl_choice *c, const struct sl_piece *p)
{
    struct sl_notes *x = &c->notes;

    if (!c->began)
        note_prompt(c);
    queue_notes(c, p);
    x->n_ready = x->n;
    keep_text(x, p);
    tell_notes(c, p->finish == SL_FINISH_NONE ? x->n_said : UINT64_MAX);
    c->n_out += (uint32_t)p->n_ids;
    if (p->finish != SL_FINISH_NONE)
        set_finish(c, p);
    if (!c->t->q.stream.v) {
        sl_buf_add(&c->text, p->text, p->n_text);
        return;
    }
    if (!c->spoke && c->t->echo) {
        sl_buf_add(&c->text, c->t->echo[c->prompt], c->t->echo_len[c->prompt]);
        sl_buf_add(&c->text, p->text, p->n_text);
        text_event(c, c->text.p ? c->text.p : "", c->text.len);
    } else {
        text_event(c, p->text, p->n_text);
    }
    c->spoke = true;
}

void sl_answer_piece(struct sl_choice *c, const struct sl_piece *p)
{
    c->n_cached = p->n_cached;
    if (is_chat(c->t))
        chat_piece(c, p);
    else
        text_piece(c, p);
    c->began = true;
}

void sl_answer_error(struct sl_task *t, int status, const char *code,
                     const char *msg)
{
    struct sl_refusal r;
    struct sl_exchange *x = t->x;
    struct sl_buf *b;

    if (!x)
        return;
    sl_refuse(&r, status, code, NULL, "%s", msg);
    t->x = NULL;
    x->gone = NULL;
    if (!x->streams) {
        sl_task_tell_when(t->s, &r);
        sl_error_send(x, &r);
        return;
    }
    b = event(t);
    sl_buf_str(b, "data: ");
    sl_error_json(b, &r);
    sl_buf_str(b, "\n\ndata: [DONE]\n\n");
    sl_http_write(x, b->p, b->len);
    sl_http_end(x);
}

/* ------------------------------------------------------------- whole replies */

static void put_message(struct sl_buf *b, const struct sl_choice *c)
{
    sl_buf_str(b, "\"message\":{\"role\":\"assistant\",\"content\":");
    if (c->n_calls && !c->text.len)
        sl_buf_str(b, "null");
    else
        sl_json_put_str(b, c->text.p ? c->text.p : "", c->text.len);
    if (c->reasoning.len) {
        sl_buf_str(b, ",\"reasoning\":");
        sl_json_put_str(b, c->reasoning.p, c->reasoning.len);
        sl_buf_str(b, ",\"reasoning_content\":");
        sl_json_put_str(b, c->reasoning.p, c->reasoning.len);
    }
    if (c->n_calls) {
        sl_buf_str(b, ",\"tool_calls\":[");
        put_buf(b, &c->calls);
        sl_buf_byte(b, ']');
    }
    sl_buf_byte(b, '}');
}

static void put_text(struct sl_buf *b, const struct sl_choice *c)
{
    const struct sl_task *t = c->t;

    sl_buf_str(b, "\"text\":\"");
    if (t->echo)
        sl_json_put_text(b, t->echo[c->prompt], t->echo_len[c->prompt]);
    sl_json_put_text(b, c->text.p ? c->text.p : "", c->text.len);
    sl_buf_byte(b, '"');
}

static void whole_reply(struct sl_task *t)
{
    struct sl_buf *b = event(t);
    struct sl_exchange *x = t->x;

    put_common(b, t, is_chat(t) ? "chat.completion" : "text_completion");
    sl_buf_str(b, ",\"choices\":[");
    for (uint32_t i = 0; i < t->n_choice; i++) {
        struct sl_choice *c = &t->choice[i];

        sl_buf_fmt(b, i ? ",{\"index\":%u," : "{\"index\":%u,", c->index);
        if (is_chat(t)) {
            put_message(b, c);
        } else {
            put_prompt_ids(b, t, c->prompt);
            put_text(b, c);
        }
        put_logprobs(b, c);
        put_finish(b, c);
        if (!is_chat(t))
            put_scores(b, c);
        sl_buf_byte(b, '}');
    }
    sl_buf_byte(b, ']');
    if (is_chat(t))
        put_scores(b, &t->choice[0]);
    sl_buf_byte(b, ',');
    if (is_chat(t))
        put_prompt_ids(b, t, 0);
    put_usage(b, t);
    sl_buf_byte(b, '}');
    if (b->failed) {
        sl_answer_error(t, 503, NULL, "no memory is left for the reply");
        return;
    }
    t->x = NULL;
    x->gone = NULL;
    sl_http_reply(x, 200, "application/json", b->p, b->len);
}

void sl_answer_end(struct sl_task *t)
{
    struct sl_exchange *x = t->x;
    struct sl_buf *b;

    if (!x)
        return;
    if (!t->q.stream.v) {
        whole_reply(t);
        return;
    }
    b = event(t);
    if (t->q.include_usage.v) {
        sl_buf_str(b, "data: ");
        put_common(b, t,
                   is_chat(t) ? "chat.completion.chunk" : "text_completion");
        sl_buf_str(b, ",\"choices\":[],");
        put_usage(b, t);
        sl_buf_str(b, "}\n\n");
    }
    sl_buf_str(b, "data: [DONE]\n\n");
    t->x = NULL;
    x->gone = NULL;
    x->ready = NULL;
    if (!b->failed)
        sl_http_write(x, b->p, b->len);
    sl_http_end(x);
}
