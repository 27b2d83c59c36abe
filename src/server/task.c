/* server/task.c - the life of a completion request; see task.h */
#include "server/task.h"

#include <event2/event.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/plain.h"

/* For the engine to begin with what has a place; chosen, not measured. */
#define GRACE_S 1.0

static const char NOT_BEGUN[] = "the server is stopping and had not begun "
                                "with this request; send it again";

static struct sl_task *task_of(struct sl_job *j)
{
    return (struct sl_task *)(void *)((char *)j -
                                      offsetof(struct sl_task, job));
}

/* ---------------------------------------------------------------- the end */

static void free_choice(struct sl_choice *c)
{
    sl_gen_close(&c->gen);
    sl_parse_close(&c->parse);
    sl_align_deinit(&c->align);
    sl_buf_deinit(&c->notes.buf);
    sl_buf_deinit(&c->notes.text);
    sl_buf_deinit(&c->stop_reason);
    sl_buf_deinit(&c->text);
    sl_buf_deinit(&c->reasoning);
    sl_buf_deinit(&c->calls);
    sl_buf_deinit(&c->ids);
    for (int k = 0; k < SL_N_LP; k++)
        sl_buf_deinit(&c->lp[k]);
}

/* Reaper: closing a generation waits until the engine has let go of it. */
static void dispose_run(struct sl_job *j)
{
    struct sl_task *t = task_of(j);

    for (uint32_t i = 0; i < t->n_choice; i++)
        free_choice(&t->choice[i]);
    for (uint32_t i = 0; i < t->n_prompt; i++) {
        if (t->prompt)
            sl_free(t->prompt[i].p);
        if (t->echo)
            sl_free(t->echo[i]);
    }
    sl_mem_free(t->prompt);
    sl_mem_free(t->echo);
    sl_mem_free(t->echo_len);
    sl_mem_free(t->shape.text);
    sl_mem_free(t->choice);
    if (t->parsed)
        sl_request_deinit(&t->q);
    sl_buf_deinit(&t->body);
}

static void release(struct sl_task *t)
{
    atomic_fetch_sub_explicit(&t->s->n_place, t->n_reserved,
                              memory_order_relaxed);
    t->n_reserved = 0;
}

static void dispose_done(struct sl_job *j)
{
    struct sl_task *t = task_of(j);

    release(t);
    t->s->n_task--;
    sl_mem_free(t);
}

/* Does the engine run nothing of it? */
static bool is_idle(const struct sl_task *t)
{
    for (uint32_t i = 0; i < t->n_choice; i++)
        if (t->choice[i].gen && !t->choice[i].ended)
            return false;
    return true;
}

/* Its prompts were read, or will not be. */
static void leave_queue(struct sl_task *t)
{
    atomic_fetch_sub_explicit(&t->s->n_queued, t->n_queued,
                              memory_order_relaxed);
    t->n_queued = 0;
}

static void dispose(struct sl_task *t)
{
    struct sl_server *s = t->s;

    leave_queue(t);
    /* Whoever has an answer may ask again at once. */
    if (is_idle(t))
        release(t);
    if (t->is_reading)
        sl_task_read(s);
    t->is_reading = false;
    if (t->late)
        event_free(t->late);
    t->late = NULL;
    if (t->wait)
        event_free(t->wait);
    t->wait = NULL;
    if (t->is_live) {
        if (t->prev)
            t->prev->next = t->next;
        else
            s->live = t->next;
        if (t->next)
            t->next->prev = t->prev;
        t->is_live = false;
    }
    t->job = (struct sl_job){.run = dispose_run, .done = dispose_done};
    sl_work_push(s->reaper, &t->job);
}

/* How it ended: as its first choice did, or not at all. */
static const char *finish_of(const struct sl_task *t, enum sl_reason why)
{
    static const char *const early[SL_N_REASON] = {[SL_R_ABORT] = "abort",
                                                   [SL_R_ERROR] = "error"};

    if (early[why])
        return early[why];
    return t->n_choice && t->choice[0].finish ? t->choice[0].finish : "-";
}

/* What the line in the log says besides of a request that got so far: sums over
 * its choices, and the times of the first. */
static void note(struct sl_task *t, enum sl_reason why, uint64_t n_prompt)
{
    struct sl_gen_stats st, first = {0};
    uint64_t n_out = 0, cached = 0, reasoning = 0, drafts = 0, accepted = 0;
    char id[sizeof(t->id)], model[SL_HTTP_NOTE / 4];
    const struct sl_choice *c = t->choice;
    struct sl_exchange *x = t->x;
    double ttft_s = t->first_ns ? sl_clock_s(x->begun_ns, t->first_ns) : 0;

    for (uint32_t i = 0; i < t->n_choice; i++) {
        n_out += c[i].n_out;
        cached += c[i].n_cached;
        reasoning += c[i].n_reason;
        if (!c[i].gen)
            continue;
        sl_gen_stats(c[i].gen, &st);
        drafts += st.n_draft;
        accepted += st.n_accept;
        first = i ? first : st;
    }
    (void)sl_plain_word(id, sizeof(id), t->id);
    (void)sl_plain_word(model, sizeof(model), t->s->opts.name[0]);
    snprintf(x->note, sizeof(x->note),
             " request=%s model=%s stream=%d n=%u finish=%s prompt=%llu "
             "cached=%llu output=%llu reasoning=%llu draft=%llu accepted=%llu "
             "seed=%llu queue_ms=%.1f ttft_ms=%.1f tpot_ms=%.2f%s",
             id, model, t->q.stream.v, t->n_choice, finish_of(t, why),
             (unsigned long long)n_prompt, (unsigned long long)cached,
             (unsigned long long)n_out, (unsigned long long)reasoning,
             (unsigned long long)drafts, (unsigned long long)accepted,
             t->n_choice && c->gen ? (unsigned long long)sl_gen_seed(c->gen)
                                   : 0ull,
             first.queue_s * 1e3, ttft_s * 1e3,
             t->n_choice && c->n_out > 1
                 ? first.decode_s / (c->n_out - 1) * 1e3
                 : 0,
             why == SL_R_ABORT ? " abort=client_gone" : "");
}

/* Counters and the note for the log, once for each request that got so far. */
static void account(struct sl_task *t, enum sl_reason why)
{
    struct sl_metrics *m = &t->s->metrics;
    uint64_t n_prompt = 0, n_out = 0, n_cached = 0, most = 0;
    struct sl_gen_stats st;

    for (uint32_t i = 0; i < t->n_choice; i++) {
        struct sl_choice *c = &t->choice[i];

        n_out += c->n_out;
        n_cached += c->n_cached;
        n_prompt += t->prompt[c->prompt].n;
        if (why == SL_R_ABORT || why == SL_R_ERROR)
            m->reason[why]++;
        else if (c->finish)
            m->reason[strcmp(c->finish, "length") ? SL_R_STOP : SL_R_LENGTH]++;
        if (c->finish && t->q.tools)
            m->tool_parse[t->q.stream.v]
                         [c->parse && sl_parse_n_calls(c->parse) > 0]++;
        if (!c->gen)
            continue;
        sl_gen_stats(c->gen, &st);
        sl_metrics_observe(m, SL_H_QUEUE, st.queue_s);
        sl_metrics_observe(m, SL_H_INFERENCE, st.prefill_s + st.decode_s);
        sl_metrics_observe(m, SL_H_PREFILL, st.prefill_s);
        sl_metrics_observe(m, SL_H_DECODE, st.decode_s);
        if (c->n_out > 1)
            sl_metrics_observe(m, SL_H_TPOT, st.decode_s / (c->n_out - 1));
        most = c->n_out > most ? c->n_out : most;
    }
    m->prompt_tokens += n_prompt;
    m->generation_tokens += n_out;
    m->cached_tokens += n_cached;
    sl_metrics_observe(m, SL_H_PROMPT, (double)n_prompt);
    sl_metrics_observe(m, SL_H_COMPUTED, (double)(n_prompt - n_cached));
    sl_metrics_observe(m, SL_H_OUTPUT, (double)n_out);
    sl_metrics_observe(m, SL_H_MAX_OUTPUT, (double)most);
    if (t->q.max_tokens.has)
        sl_metrics_observe(m, SL_H_MAX_TOKENS, (double)t->q.max_tokens.v);
    sl_metrics_observe(m, SL_H_N, t->q.n.has ? (double)t->q.n.v : 1);
    note(t, why, n_prompt);
}

/* Is there all of the answer, though the engine may be in a step yet that
 * nobody wants? */
static bool is_whole(const struct sl_task *t)
{
    for (uint32_t i = 0; i < t->n_choice; i++)
        if (!t->choice[i].finish)
            return false;
    return !t->failed;
}

static void on_gone(struct sl_exchange *x)
{
    struct sl_task *t = x->user;

    atomic_store_explicit(&t->cancel, true, memory_order_relaxed);
    /* The other end has all of a stream whose choices told their ends. */
    if (t->is_live)
        account(t, t->q.stream.v && is_whole(t) ? SL_R_STOP : SL_R_ABORT);
    t->x = NULL;
    if (t->is_live)
        dispose(t); /* else a worker has it; prepared() sees that x is gone */
}

/* ------------------------------------------------------------------- living */

static void fail(struct sl_task *t, int status, const char *code,
                 const char *msg)
{
    account(t, SL_R_ERROR);
    sl_answer_error(t, status, code, msg);
    dispose(t);
}

static void end(struct sl_task *t)
{
    account(t, SL_R_STOP);
    if (t->x)
        sl_metrics_observe(&t->s->metrics, SL_H_E2E,
                           sl_clock_s(t->x->begun_ns, sl_clock_ns()));
    sl_answer_end(t);
    dispose(t);
}

/* Time is over: an answer that is whole is no less so for that. */
static void end_or_fail(struct sl_task *t, int status, const char *code,
                        const char *msg)
{
    if (is_whole(t))
        end(t);
    else
        fail(t, status, code, msg);
}

/* When a piece came; one without tokens is only an end. */
static void note_time(struct sl_choice *c, const struct sl_piece *p)
{
    struct sl_task *t = c->t;
    uint64_t now = sl_clock_ns();

    if (p->n_ids == 0)
        return;
    t->s->n_out += p->n_ids;
    if (!t->first_ns) {
        t->first_ns = now;
        leave_queue(t);
        sl_metrics_observe(&t->s->metrics, SL_H_TTFT,
                           sl_clock_s(t->x->begun_ns, now));
    }
    if (c->last_ns)
        sl_metrics_observe(&t->s->metrics, SL_H_ITL,
                           sl_clock_s(c->last_ns, now));
    c->last_ns = now;
}

/* The generation of c failed: what the client's shape asked for in vain is the
 * client's to know, the rest is the server's. */
static void fail_gen(struct sl_choice *c, int rc, const struct sl_err *err)
{
    struct sl_task *t = c->t;
    char why[sizeof(err->msg)], id[sizeof(t->id)];

    /* It may quote the client's schema, and the id is the client's. */
    (void)sl_plain_quoted(why, sizeof(why), err->msg);
    (void)sl_plain_word(id, sizeof(id), t->id);
    sl_log(SL_LOG_ERROR, "request=%s error=\"%s\"", id, why);
    t->s->metrics.corrupted += rc == SL_EFORMAT;
    if (rc == SL_EARG || rc == SL_EUNSUP)
        fail(t, 400, "invalid_value", err->msg);
    else if (rc == SL_EFORMAT)
        fail(t, 500, "internal_error",
             "the model's output cannot be used: no token may be drawn");
    else
        fail(t, 500, "internal_error",
             "the generation failed inside of the server");
}

/* A piece of c, or its failure. False when the task is over. */
static bool take_piece(struct sl_choice *c, int rc, const struct sl_piece *p,
                       const struct sl_err *err)
{
    struct sl_task *t = c->t;

    if (rc < 0 || p->finish == SL_FINISH_ERROR ||
        p->finish == SL_FINISH_CANCEL) {
        fail_gen(c, rc, err);
        return false;
    }
    note_time(c, p);
    sl_answer_piece(c, p);
    if (c->finish && p->finish == SL_FINISH_NONE)
        sl_gen_cancel(c->gen); /* nobody wants the rest */
    if (!t->failed)
        return true;
    fail(t, 503, NULL, "no memory is left for the answer");
    return false;
}

/* All that c has now. False when the task is over and must not be touched. */
static bool poll_choice(struct sl_choice *c)
{
    struct sl_task *t = c->t;
    struct sl_err err;
    struct sl_piece p;
    int rc;

    err.code = SL_OK;
    err.msg[0] = '\0'; /* not all of it: most have nothing */
    while (!c->ended && !(t->q.stream.v && sl_http_is_full(t->x))) {
        rc = sl_gen_poll(c->gen, &p, &err);
        if (rc == SL_EBUSY || rc == 0)
            return true;
        /* Behind its end there may be more, which nobody wants: the engine is
         * waited for, so that its place is free when the answer ends. */
        if (!c->finish && !take_piece(c, rc, &p, &err))
            return false;
        c->ended = rc < 0 || p.finish != SL_FINISH_NONE;
        t->n_ended += c->ended;
    }
    return true;
}

static void poll_task(struct sl_task *t)
{
    for (uint32_t i = 0; i < t->n_choice; i++) {
        struct sl_choice *c = &t->choice[i];

        /* Later: echo begins with what the prompt's scorer has to say. */
        if (sl_task_scores(t) && sl_task_scorer(c) != c &&
            !sl_task_scorer(c)->began)
            continue;
        if (c->gen && !poll_choice(c))
            return;
    }
    if (t->n_ended == t->n_choice)
        end(t);
}

static void on_ready(struct sl_exchange *x)
{
    poll_task(x->user);
}

void sl_task_poll_all(struct sl_server *s)
{
    struct sl_task *next;

    for (struct sl_task *t = s->live; t; t = next) {
        next = t->next;
        poll_task(t);
    }
}

/* Of one that only echoes its prompt nothing has to begin. */
static bool has_begun(const struct sl_task *t)
{
    struct sl_gen_stats st = {.is_admitted = true};

    for (uint32_t i = 0; i < t->n_choice; i++) {
        if (t->choice[i].gen)
            sl_gen_stats(t->choice[i].gen, &st);
        if (st.is_admitted)
            return true;
    }
    return false;
}

bool sl_task_has_work(const struct sl_server *s)
{
    const struct sl_task *t = s->live;

    while (t && has_begun(t))
        t = t->next;
    return t != NULL;
}

void sl_task_refuse_waiting(struct sl_server *s)
{
    struct sl_task *next;

    for (struct sl_task *t = s->live; t; t = next) {
        next = t->next;
        if (!has_begun(t))
            fail(t, 503, "draining", NOT_BEGUN);
    }
}

void sl_task_abort_all(struct sl_server *s)
{
    while (s->live)
        end_or_fail(
            s->live, 503, "draining",
            "the server is stopping and its time to end what runs is over");
}

/* ---------------------------------------------------------------- deadlines */

static void on_late(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    end_or_fail(arg, 504, "deadline_exceeded",
                "the answer was not complete when the time was over that the "
                "request (timeout, deadline_ms) or the server "
                "(--request-timeout) gives; give it more, or ask for less");
}

static void fail_wait(struct sl_task *t)
{
    fail(t, 503, "overloaded",
         "the request waited for its turn for as long as the server lets it "
         "(--queue-timeout); try again in a moment");
}

/* Sequences of others that are here. */
static uint32_t n_others(const struct sl_task *t)
{
    return atomic_load_explicit(&t->s->n_place, memory_order_relaxed) -
           t->n_reserved;
}

/* Call f(t) in s seconds, by *out. False when there is no memory. */
static bool set_timer(struct event **out, struct sl_task *t,
                      event_callback_fn f, double s)
{
    struct timeval tv = {.tv_sec = (time_t)s,
                         .tv_usec =
                             (suseconds_t)((s - (double)(time_t)s) * 1e6)};

    if (!*out)
        *out = evtimer_new(t->s->base, f, t);
    return *out && !event_add(*out, &tv);
}

static void on_wait(evutil_socket_t fd, short what, void *arg);

/* Wait for a turn for s more seconds. False when there is no memory, and t is
 * gone. */
static bool wait_for_turn(struct sl_task *t, double s)
{
    if (set_timer(&t->wait, t, on_wait, s))
        return true;
    fail(t, 503, NULL, "no memory is left for a deadline");
    return false;
}

/* It has waited for as long as anything may, from when it was whole; or alone,
 * for a thread that has not looked yet, which is no queue. */
static void on_wait(evutil_socket_t fd, short what, void *arg)
{
    struct sl_task *t = arg;

    (void)fd;
    (void)what;
    if (has_begun(t))
        return;
    if (n_others(t) == 0)
        (void)wait_for_turn(t, GRACE_S);
    else
        fail_wait(t);
}

/* False when it has waited too long, or there is no memory, and t is gone. The
 * server's own time to read it counts, where others have all places; where they
 * do not, it would be refused for nothing but that. */
static bool limit_wait(struct sl_task *t, double spent_s)
{
    double s = t->s->opts.queue_s - spent_s;

    if (t->s->opts.queue_s <= 0 || has_begun(t))
        return true;
    if (n_others(t) < t->s->max_seqs)
        return wait_for_turn(t, s > GRACE_S ? s : GRACE_S);
    if (s > 0)
        return wait_for_turn(t, s);
    fail_wait(t);
    return false;
}

/* Seconds from when the request was whole: the least of what the server and the
 * request say; 0 without a deadline. */
static double limit_s(const struct sl_server *s, const struct sl_request *q)
{
    const double all[] = {s->opts.request_s, q->timeout.has ? q->timeout.v : 0,
                          q->deadline_ms.has ? q->deadline_ms.v / 1e3 : 0};
    double least = 0;

    for (size_t i = 0; i < SL_COUNTOF(all); i++)
        if (all[i] > 0 && (least <= 0 || all[i] < least))
            least = all[i];
    return least;
}

/* False when the task was too late, or has no memory, and is gone. */
static bool set_deadlines(struct sl_task *t)
{
    double spent_s = sl_clock_s(t->x->begun_ns, sl_clock_ns());
    double s = limit_s(t->s, &t->q);

    if (!limit_wait(t, spent_s))
        return false;
    if (s <= 0)
        return true;
    s -= spent_s;
    if (s <= 0) {
        on_late(-1, 0, t);
        return false;
    }
    if (set_timer(&t->late, t, on_late, s))
        return true;
    fail(t, 503, NULL, "no memory is left for a deadline");
    return false;
}

/* ---------------------------------------------------------------- beginning */

/* Nothing is generated: the prompt alone is the answer. */
static void end_echo(struct sl_task *t)
{
    struct sl_piece p = {
        .text = "", .finish = SL_FINISH_LENGTH, .stop_text = -1, .stop_id = -1};

    for (uint32_t i = 0; i < t->n_choice; i++)
        sl_answer_piece(&t->choice[i], &p);
    end(t);
}

static void set_id(struct sl_task *t)
{
    snprintf(t->id, sizeof(t->id), "%s-%s",
             t->kind == SL_REQUEST_CHAT ? "chatcmpl" : "cmpl", t->x->id);
}

/* The header's id wins over the one in the body. */
static void take_id(struct sl_task *t)
{
    _Static_assert(SL_MAX_REQUEST_ID <= SL_HTTP_ID_LEN, "an id has room");
    if (t->x->has_id || !t->q.request_id)
        return;
    t->x->has_id = true;
    memcpy(t->x->id, t->q.request_id, strlen(t->q.request_id) + 1);
    set_id(t);
}

void sl_task_tell_when(const struct sl_server *s, struct sl_refusal *r)
{
    if (r->code && !strcmp(r->code, "overloaded"))
        r->retry_s =
            sl_pulse_retry_s(sl_metrics_mean(&s->metrics, SL_H_INFERENCE),
                             s->max_seqs);
}

static void prepared(struct sl_job *j)
{
    struct sl_task *t = task_of(j);
    struct sl_server *s = t->s;

    if (!t->x) {
        /* One that is refused ends no answer; how many there would have been
         * may not be known. */
        s->metrics.reason[SL_R_ABORT] += !t->refusal.status;
        dispose(t);
        return;
    }
    if (s->status == SL_DRAINING && !t->refusal.status)
        sl_refuse(&t->refusal, 503, "draining", NULL, "%s", NOT_BEGUN);
    if (t->refusal.status) {
        struct sl_exchange *x = t->x;

        t->x = NULL;
        x->gone = NULL;
        sl_task_tell_when(s, &t->refusal);
        sl_error_send(x, &t->refusal);
        dispose(t);
        return;
    }
    take_id(t);
    t->next = s->live;
    if (s->live)
        s->live->prev = t;
    s->live = t;
    t->is_live = true;
    if (!set_deadlines(t))
        return;
    if (t->q.stream.v) {
        sl_http_header(t->x, "Cache-Control", "no-cache");
        sl_http_header(t->x, "X-Accel-Buffering", "no");
        sl_http_stream(t->x, 200, "text/event-stream; charset=utf-8");
        t->x->ready = on_ready;
    }
    if (t->n_choice && !t->choice[0].gen)
        end_echo(t);
    else
        poll_task(t);
}

const char sl_queue_is_full[] = "the queue is full; try again in a moment";

uint32_t sl_task_n_place(const struct sl_server *s)
{
    return atomic_load_explicit(&s->n_place, memory_order_relaxed) +
           atomic_load_explicit(&s->n_reading, memory_order_relaxed);
}

void sl_task_read(struct sl_server *s)
{
    atomic_fetch_sub_explicit(&s->n_reading, 1, memory_order_relaxed);
}

bool sl_task_reserve(struct sl_task *t, uint32_t n)
{
    struct sl_server *s = t->s;
    uint32_t all = s->opts.max_queued + s->max_seqs;
    unsigned have = atomic_load_explicit(&s->n_place, memory_order_relaxed);

    /* First: who looks between the two must not find it counted twice, and be
     * refused for that. */
    sl_task_read(s);
    t->is_reading = false;
    /* A count, which guards no other memory. */
    do {
        if (have > all || n > all - have)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(
        &s->n_place, &have, have + n, memory_order_relaxed,
        memory_order_relaxed));
    t->n_reserved = n;
    return true;
}

bool sl_task_queue_tokens(struct sl_task *t)
{
    struct sl_server *s = t->s;
    unsigned long long have, n = 0;

    for (uint32_t i = 0; i < t->n_prompt; i++)
        n += t->prompt[i].n;
    if (!s->opts.max_queued_tokens)
        return true;
    /* A count, which guards no other memory. One alone may be larger: else it
     * could never be answered. */
    have = atomic_load_explicit(&s->n_queued, memory_order_relaxed);
    do {
        if (have > 0 && have + n > s->opts.max_queued_tokens)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(
        &s->n_queued, &have, have + n, memory_order_relaxed,
        memory_order_relaxed));
    t->n_queued = n;
    return true;
}

bool sl_task_admit(void *out, size_t size, struct sl_server *s,
                   struct sl_exchange *x)
{
    if (sl_task_n_place(s) >= s->opts.max_queued + s->max_seqs) {
        struct sl_refusal r;

        sl_refuse(&r, 503, "overloaded", NULL, "%s", sl_queue_is_full);
        sl_task_tell_when(s, &r);
        sl_error_send(x, &r);
        return false;
    }
    if (sl_mem_alloc(out, 1, size, "a request", NULL)) {
        sl_error_reply(x, 503, NULL, NULL, SL_NO_MEMORY);
        return false;
    }
    atomic_fetch_add_explicit(&s->n_reading, 1, memory_order_relaxed);
    s->n_task++;
    return true;
}

void sl_task_start(struct sl_server *s, struct sl_exchange *x,
                   enum sl_request_kind kind)
{
    struct sl_task *t = NULL;
    struct timespec now;

    if (!sl_task_admit(&t, sizeof(*t), s, x))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    t->is_reading = true;
    t->s = s;
    t->x = x;
    t->kind = kind;
    t->created = now.tv_sec;
    /* A key that all have tells nobody apart. */
    t->client = sl_keys_client(s->trust.keys.n > 1 ? x->key : 0, x->peer);
    set_id(t);
    sl_http_take_body(x, &t->body);
    x->user = t;
    x->gone = on_gone;
    t->job = (struct sl_job){.run = sl_task_prepare, .done = prepared};
    sl_work_push(s->work, &t->job);
}
