/* server/server.c - routes, loading, draining; see server.h */
#include "server/server.h"

#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/plain.h"
#include "base/thread.h"
#include "server/page.h"
#include "server/task.h"

#define N_TEXT_WORKER 2
#define MAX_SCRATCH ((size_t)1 << 30)
#define PULSE_S 10 /* between two looks at the engine; chosen */
#define MAX_LOG_PATH 200 /* bytes of a path that are logged. Chosen. */
#define MAX_LOG_TRACE 80 /* of a traceparent, which has 55 */
#define MAX_LOG_TIME 40
#define LAST_WORDS_S 2 /* for the errors of those that were cut. Chosen. */

/* What the loop owns while it runs, and the loader's result. */
struct run {
    struct sl_server s;
    struct event *term, *intr, *hup, *drain_end, *tick, *late, *pulse;
    struct sl_thread loader;
    bool has_loader;
    bool last_words; /* the time to drain is over */
    struct sl_mutex mu;
    bool loaded;              /* guarded by mu */
    int load_rc;              /* guarded by mu */
    struct sl_err load_err;   /* guarded by mu */
    struct sl_engine *engine; /* guarded by mu until it is taken */
    int rc;
    struct sl_err err;
};

/* --------------------------------------------------------------------- routes */

/* Who needs no key: OPEN, nobody ever does; PUBLIC, nobody unless all is
 * protected (--protect). */
enum access { OPEN, PUBLIC, KEY };

struct route {
    const char *path;
    const char *allow; /* methods, as Allow lists them */
    enum access access;
    bool needs_model;
    void (*get)(struct sl_server *s, struct sl_exchange *x);
};

static const char engine_is_dead[] =
    "the engine has work and makes no step; start the server again";

static void health(struct sl_server *s, struct sl_exchange *x)
{
    if (s->status == SL_LOADING) {
        sl_error_reply(x, 503, "loading", NULL, "the model is being loaded");
    } else if (s->status == SL_FAILED || s->pulse.is_dead) {
        sl_error_reply(x, 503, "engine_dead", NULL, engine_is_dead);
    } else {
        sl_http_reply(x, 200, NULL, "", 0);
    }
}

static void ready(struct sl_server *s, struct sl_exchange *x)
{
    if (s->status == SL_DRAINING)
        sl_error_reply(x, 503, "draining", NULL, "the server is stopping");
    else
        health(s, x);
}

static void version(struct sl_server *s, struct sl_exchange *x)
{
    char text[100];
    int n = snprintf(text, sizeof(text), "{\"version\":\"%s\"}", sl_version());

    (void)s;
    sl_http_reply(x, 200, "application/json", text, (size_t)n);
}

static void load(struct sl_server *s, struct sl_exchange *x)
{
    char text[100];
    int n = snprintf(text, sizeof(text), "{\"server_load\":%u}",
                     sl_task_n_place(s));

    sl_http_reply(x, 200, "application/json", text, (size_t)n);
}

static void metrics(struct sl_server *s, struct sl_exchange *x);

static void chat(struct sl_server *s, struct sl_exchange *x)
{
    sl_task_start(s, x, SL_REQUEST_CHAT);
}

static void completion(struct sl_server *s, struct sl_exchange *x)
{
    sl_task_start(s, x, SL_REQUEST_COMPLETION);
}

static void tokenize(struct sl_server *s, struct sl_exchange *x)
{
    sl_simple_start(s, x, SL_SIMPLE_TOKENIZE);
}

static void detokenize(struct sl_server *s, struct sl_exchange *x)
{
    sl_simple_start(s, x, SL_SIMPLE_DETOKENIZE);
}

static void page(struct sl_server *s, struct sl_exchange *x)
{
    (void)s;
    sl_page_reply(x);
}

static void info(struct sl_server *s, struct sl_exchange *x);

/* A browser gets a page, a program gets JSON. */
static void root(struct sl_server *s, struct sl_exchange *x)
{
    sl_http_header(x, "Vary", "Accept");
    if (sl_page_is_wanted(x))
        page(s, x);
    else
        info(s, x);
}

/* Paths of the OpenAI surface are written without "/v1", which is optional. A
 * path that ends with a slash is the beginning of one. */
static const struct route routes[] = {
    {"/chat/completions", "POST", KEY, true, chat},
    {"/completions", "POST", KEY, true, completion},
    {"/models", "GET, HEAD", KEY, true, sl_simple_models},
    {"/models/", "GET, HEAD", KEY, true, sl_simple_models},
    {"/tokenize", "POST", PUBLIC, true, tokenize},
    {"/detokenize", "POST", PUBLIC, true, detokenize},
    {"/tokenizer_info", "GET, HEAD", PUBLIC, true, sl_simple_tokenizer_info},
    {"/health", "GET, HEAD", OPEN, false, health},
    {"/ping", "GET, HEAD, POST", OPEN, false, health},
    {"/ready", "GET, HEAD", OPEN, false, ready},
    {"/version", "GET, HEAD", PUBLIC, false, version},
    {"/load", "GET, HEAD", PUBLIC, false, load},
    {"/metrics", "GET, HEAD", PUBLIC, false, metrics},
    {"/", "GET, HEAD", PUBLIC, false, root},
    {"/page.css", "GET, HEAD", OPEN, false, page},
    {"/page.js", "GET, HEAD", OPEN, false, page},
};

static const struct route *find_route(const char *path)
{
    if (!strncmp(path, "/v1/", 4))
        path += 3;
    for (size_t i = 0; i < SL_COUNTOF(routes); i++) {
        size_t n = strlen(routes[i].path);
        bool prefix = n > 1 && routes[i].path[n - 1] == '/';

        if (prefix ? !strncmp(path, routes[i].path, n) && path[n]
                   : !strcmp(path, routes[i].path))
            return &routes[i];
    }
    return NULL;
}

static void info(struct sl_server *s, struct sl_exchange *x)
{
    char text[SL_COUNTOF(routes)][40];
    const char *path[SL_COUNTOF(routes)];

    for (size_t i = 0; i < SL_COUNTOF(routes); i++) {
        snprintf(text[i], sizeof(text[i]), "%s%s",
                 routes[i].access == KEY ? "/v1" : "", routes[i].path);
        path[i] = text[i];
    }
    sl_info_reply(s, x, path, SL_COUNTOF(routes));
}

/* How the metrics call a route; the last is all that is none. */
static size_t handler_of(const char *path)
{
    const struct route *r = find_route(path);

    return r ? (size_t)(r - routes) : SL_N_HANDLER - 1;
}

/* Sequences that wait. */
static uint32_t n_waiting(struct sl_server *s, const struct sl_engine_stats *e)
{
    uint32_t n = sl_task_n_place(s);

    return n > e->n_run ? n - e->n_run : 0;
}

static void metrics(struct sl_server *s, struct sl_exchange *x)
{
    const char *handler[SL_N_HANDLER] = {NULL};
    struct sl_metrics_more more = {.model = s->opts.name[0],
                                   .handler = handler,
                                   .prefix_cache = s->info.prefix_cache};

    _Static_assert(SL_COUNTOF(routes) < SL_N_HANDLER, "each has a place");
    for (size_t i = 0; i < SL_COUNTOF(routes); i++)
        handler[i] = routes[i].path;
    handler[SL_N_HANDLER - 1] = "none";
    if (s->engine)
        sl_engine_stats(s->engine, &more.engine);
    more.n_waiting = n_waiting(s, &more.engine);
    sl_buf_reset(&s->scratch);
    sl_metrics_print(&s->scratch, &s->metrics, &more);
    sl_http_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8",
                  s->scratch.p, s->scratch.len);
}

/* Is `method` a word of the list "GET, HEAD"? */
static bool allows(const char *list, const char *method)
{
    size_t n = strlen(method);
    const char *p = strstr(list, method);

    return p && (p[n] == 0 || p[n] == ',') && (p == list || p[-1] == ' ');
}

/* A preflight: the browser asks before it sends. */
static void options(struct sl_exchange *x)
{
    const char *want = sl_message_header(x->msg,
                                         "Access-Control-Request-Headers");
    bool plain = want && strspn(want, "abcdefghijklmnopqrstuvwxyz"
                                      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789-_, ") == strlen(want);

    sl_http_header(x, "Access-Control-Allow-Methods",
                   "GET, HEAD, POST, OPTIONS");
    sl_http_header(x, "Access-Control-Allow-Headers", plain ? want : "*");
    sl_http_header(x, "Access-Control-Max-Age", "600");
    sl_http_reply(x, 204, NULL, "", 0);
}

/* application/json, with parameters or without. */
static bool is_json(const char *type)
{
    static const char json[] = "application/json";
    const char *rest;

    type += strspn(type, " \t");
    if (strncasecmp(type, json, sizeof(json) - 1))
        return false;
    rest = type + sizeof(json) - 1;
    rest += strspn(rest, " \t");
    return *rest == 0 || *rest == ';';
}

/* True when the exchange was answered. */
static bool refuse_body(struct sl_exchange *x)
{
    const char *type = sl_message_header(x->msg, "Content-Type");
    const char *coding = sl_message_header(x->msg, "Content-Encoding");

    if (coding && *coding && strcasecmp(coding, "identity")) {
        sl_error_reply(x, 415, NULL, NULL,
                       "the content coding '%.60s' is not read; send the body "
                       "as it is",
                       coding);
        return true;
    }
    if (type && *type && x->msg->body.len && !is_json(type)) {
        sl_error_reply(x, 400, NULL, NULL,
                       "the body's Content-Type is '%.60s'; it must be "
                       "application/json",
                       type);
        return true;
    }
    return false;
}

static bool needs_key(const struct sl_server *s, const struct route *r,
                      const struct sl_exchange *x)
{
    if (!s->trust.keys.n || r->access == OPEN)
        return false;
    if (r->access == KEY)
        return true;
    /* A browser cannot send a key before it has the page that asks for it. */
    return s->opts.protect_all && !(r->get == root && sl_page_is_wanted(x));
}

static bool refuse_state(struct sl_server *s, const struct route *r,
                         struct sl_exchange *x)
{
    x->key = sl_keys_find(&s->trust.keys, x->msg);
    if (needs_key(s, r, x) && !x->key) {
        sl_error_reply(x, 401, NULL, NULL,
                       "the API key is missing or wrong, or two differ; send "
                       "'Authorization: Bearer KEY'");
        return true;
    }
    if (r->needs_model && !s->engine) {
        sl_error_reply(x, 503, "loading", NULL, "the model is being loaded; "
                                                "try again in a moment");
        return true;
    }
    if (r->needs_model && s->pulse.is_dead) {
        sl_error_reply(x, 503, "engine_dead", NULL, engine_is_dead);
        return true;
    }
    if (r->needs_model && s->status == SL_DRAINING) {
        sl_error_reply(x, 503, "draining", NULL, "the server is stopping");
        return true;
    }
    return false;
}

static void handle(void *ctx, struct sl_exchange *x)
{
    struct sl_server *s = ctx;
    const char *method = sl_message_method(x->msg);
    const struct route *r = find_route(x->path);

    if (!strcmp(method, "OPTIONS")) {
        options(x);
    } else if (!r) {
        sl_error_reply(x, 404, NULL, NULL,
                       "there is nothing at %s; the API begins at /v1",
                       x->path[0] ? x->path : "this address");
    } else if (!allows(r->allow, method)) {
        sl_http_header(x, "Allow", r->allow);
        sl_error_reply(x, 405, NULL, NULL, "%s is not for %s; use %s", x->path,
                       method, r->allow);
    } else if (!refuse_state(s, r, x) &&
               (strcmp(method, "POST") || !refuse_body(x))) {
        r->get(s, x);
    }
}

/* Asked every few seconds, by machines. */
static bool is_probe(size_t handler)
{
    const struct route *r = routes;

    if (handler >= SL_COUNTOF(routes))
        return false;
    r += handler;
    return r->get == health || r->get == ready || r->get == metrics;
}

/* UTC, to the millisecond. */
static void put_time(char out[MAX_LOG_TIME])
{
    struct timespec now;
    struct tm tm;
    size_t n;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    n = strftime(out, MAX_LOG_TIME, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, MAX_LOG_TIME - n, ".%03ldZ", now.tv_nsec / 1000000);
}

/* What a client's tracing calls the request, if it is what it should be. */
static void put_trace(char out[MAX_LOG_TRACE], const char *parent)
{
    size_t n = parent ? strspn(parent, "0123456789abcdef-") : 0;

    if (n > 0 && !parent[n] && n < MAX_LOG_TRACE - sizeof(" trace="))
        snprintf(out, MAX_LOG_TRACE, " trace=%s", parent);
    else
        out[0] = 0;
}

/* The access log: every end of a request is a line; of probes that find all well
 * only who debugs wants it. */
static void ended(void *ctx, const struct sl_exchange *x)
{
    struct sl_server *s = ctx;
    bool whole = x->msg->state == SL_MESSAGE_DONE;
    char path[MAX_LOG_PATH], when[MAX_LOG_TIME], trace[MAX_LOG_TRACE];
    double spent = sl_clock_s(x->begun_ns, sl_clock_ns());
    int status = x->is_gone ? 499 : x->status;
    size_t handler = handler_of(x->path);
    bool quiet = status == 200 && is_probe(handler);

    if (whole)
        sl_metrics_http(&s->metrics, handler,
                        sl_message_method(x->msg), x->is_gone ? 0 : x->status,
                        spent);
    (void)sl_plain_word(path, sizeof(path), x->path[0] ? x->path : "-");
    put_time(when);
    put_trace(trace, whole ? sl_message_header(x->msg, "traceparent") : NULL);
    sl_log(quiet ? SL_LOG_DEBUG : SL_LOG_INFO,
           "time=%s http=%d method=%s path=%s peer=%s key=%08x id=%s%s "
           "bytes=%llu ms=%.1f%s%s",
           when, status, whole ? sl_message_method(x->msg) : "-", path,
           x->peer, (unsigned)(x->key >> 32), x->id, trace,
           (unsigned long long)x->n_sent, spent * 1e3,
           x->is_gone ? " gone=1" : "", x->note);
}

/* -------------------------------------------------------------------- loading */

static void *load_model(void *arg)
{
    struct run *r = arg;
    struct sl_engine *e = NULL;
    struct sl_err err = {0};
    int rc = r->s.opts.open(r->s.opts.ctx, &e, &err);

    sl_lock(&r->mu);
    r->load_rc = rc;
    r->load_err = err;
    r->engine = e;
    r->loaded = true;
    sl_unlock(&r->mu);
    sl_work_wake(r->s.work);
    return NULL;
}

static void stop_loop(struct run *r)
{
    event_base_loopbreak(r->s.base);
}

static uint32_t longest_token(const struct sl_engine *e, uint32_t n_vocab)
{
    size_t most = 1, n;

    for (uint32_t i = 0; i < n_vocab; i++)
        if (sl_token(&n, e, (int32_t)i))
            most = sl_max(most, n);
    return (uint32_t)most;
}

/* The loop takes the engine, or gives up. */
static void take_engine(struct run *r)
{
    bool loaded;

    sl_lock(&r->mu);
    loaded = r->loaded;
    sl_unlock(&r->mu);
    if (!loaded || !r->has_loader)
        return;
    sl_thread_join(&r->loader);
    r->has_loader = false;
    r->s.engine = r->engine;
    if (r->load_rc) {
        r->rc = r->load_rc;
        r->err = r->load_err;
        r->s.status = SL_FAILED;
        stop_loop(r);
        return;
    }
    sl_engine_info(r->s.engine, &r->s.info);
    r->s.max_token = longest_token(r->s.engine, r->s.info.n_vocab);
    r->s.tag[SL_PARSE_TAG_THINK] = sl_token_named(r->s.engine, SL_TOKEN_THINK);
    r->s.tag[SL_PARSE_TAG_THINK_END] =
        sl_token_named(r->s.engine, SL_TOKEN_THINK_END);
    r->s.tag[SL_PARSE_TAG_CALL] = sl_token_named(r->s.engine, SL_TOKEN_CALL);
    r->s.tag[SL_PARSE_TAG_CALL_END] =
        sl_token_named(r->s.engine, SL_TOKEN_CALL_END);
    if (r->s.status == SL_LOADING)
        r->s.status = SL_READY;
    if (r->s.opts.ready)
        r->s.opts.ready(r->s.opts.ctx, r->s.engine);
}

static void on_wake(void *ctx)
{
    struct run *r = ctx;

    if (r->has_loader)
        take_engine(r);
    sl_task_poll_all(&r->s);
}

/* ------------------------------------------------------------------- stopping */

/* Time is over: once for the answers, and once for telling that. */
static void on_drain_end(evutil_socket_t fd, short what, void *arg)
{
    struct run *r = arg;
    struct timeval wait = {.tv_sec = LAST_WORDS_S};

    (void)fd;
    (void)what;
    sl_task_abort_all(&r->s);
    if (r->last_words) {
        stop_loop(r);
        return;
    }
    r->last_words = true;
    event_add(r->drain_end, &wait);
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
    struct run *r = arg;

    (void)fd;
    (void)what;
    if (!r->has_loader)
        return;
    if (r->s.opts.late)
        r->s.opts.late(r->s.opts.ctx);
    _exit(EXIT_FAILURE);
}

/* How does it go? A line of that while it is busy. */
static void on_pulse(evutil_socket_t fd, short what, void *arg)
{
    struct sl_server *s = &((struct run *)arg)->s;
    struct sl_pulse_counts c = {.n_out = s->n_out,
                                .n_prompt = s->metrics.prompt_tokens,
                                .n_cached = s->metrics.cached_tokens};
    struct sl_engine_stats e;

    (void)fd;
    (void)what;
    if (!s->engine)
        return;
    sl_engine_stats(s->engine, &e);
    c.has_work = e.n_run > 0 || sl_task_has_work(s);
    c.n_waiting = n_waiting(s, &e);
    sl_buf_reset(&s->scratch);
    sl_pulse_look(&s->pulse, &e, &c, sl_clock_ns(), &s->scratch);
    if (s->scratch.len && !s->scratch.failed)
        sl_log(s->pulse.is_dead ? SL_LOG_ERROR : SL_LOG_INFO, "%.*s",
               (int)s->scratch.len, s->scratch.p);
}

/* While draining: is everything told? */
static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct run *r = arg;

    (void)fd;
    (void)what;
    if (r->s.n_task == 0 && sl_http_n_busy(r->s.http) == 0)
        stop_loop(r);
}

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
    struct run *r = arg;
    struct timeval wait = {.tv_sec = r->s.opts.drain_ms / 1000,
                           .tv_usec = (r->s.opts.drain_ms % 1000) * 1000};
    struct timeval tick = {.tv_usec = 20000};

    (void)what;
    /* Nothing runs while loading, and loading cannot be cut short. */
    if (r->s.status == SL_DRAINING || r->has_loader)
        _exit(128 + (int)sig);
    sl_log(SL_LOG_INFO, "signal=%d action=drain tasks=%u", (int)sig,
           r->s.n_task);
    r->s.status = SL_DRAINING;
    sl_http_drain(r->s.http);
    sl_task_refuse_waiting(&r->s);
    event_add(r->drain_end, &wait);
    event_add(r->tick, &tick);
}

/* --------------------------------------------------------------- reading again */

/* Without a restart: connections and requests that there are go on. */
static void on_hup(evutil_socket_t sig, short what, void *arg)
{
    struct run *r = arg;
    struct sl_err err = {0};
    char why[sizeof(err.msg)];

    (void)what;
    if (sl_trust_load(&r->s.trust, &r->s.opts.trust, &err)) {
        /* It may quote the name of a file, and what is in it. */
        (void)sl_plain_quoted(why, sizeof(why), err.msg);
        sl_log(SL_LOG_ERROR, "signal=%d action=reload error=\"%s\"", (int)sig,
               why);
        return;
    }
    sl_http_set_tls(r->s.http, r->s.trust.tls);
    sl_log(SL_LOG_INFO, "signal=%d action=reload keys=%u", (int)sig,
           r->s.trust.keys.n);
}

/* ------------------------------------------------------------------- together */

static int open_events(struct run *r, struct sl_err *err)
{
    struct event_base *b = r->s.base;
    struct timeval late = {.tv_sec = r->s.opts.ready_s};
    struct timeval pulse = {.tv_sec = PULSE_S};

    r->term = evsignal_new(b, SIGTERM, on_signal, r);
    r->intr = evsignal_new(b, SIGINT, on_signal, r);
    r->hup = evsignal_new(b, SIGHUP, on_hup, r);
    r->drain_end = evtimer_new(b, on_drain_end, r);
    r->tick = event_new(b, -1, EV_PERSIST, on_tick, r);
    r->late = evtimer_new(b, on_late, r);
    r->pulse = event_new(b, -1, EV_PERSIST, on_pulse, r);
    if (!r->term || !r->intr || !r->hup || !r->drain_end || !r->tick ||
        !r->late || !r->pulse || event_add(r->pulse, &pulse) ||
        event_add(r->term, NULL) || event_add(r->intr, NULL) ||
        event_add(r->hup, NULL) ||
        (r->s.opts.ready_s && event_add(r->late, &late)))
        return sl_fail(err, SL_ENOMEM, "no memory is left for the loop");
    return 0;
}

static int open_all(struct run *r, struct sl_err *err)
{
    struct sl_server *s = &r->s;
    struct sl_http_opts ho = {.host = s->opts.host,
                              .port = s->opts.port,
                              .n_port = s->opts.n_port,
                              .handle = handle,
                              .ended = ended,
                              .ctx = s};
    int rc;

    s->base = event_base_new();
    if (!s->base)
        return sl_fail(err, SL_ENOMEM, "no memory is left for the loop");
    rc = sl_trust_load(&s->trust, &s->opts.trust, err);
    ho.tls = s->trust.tls;
    sl_http_limits_init(&ho.limits);
    if (!rc)
        rc = open_events(r, err);
    if (!rc)
        rc = sl_work_open(&s->work, s->base, N_TEXT_WORKER, on_wake, r, err);
    if (!rc)
        rc = sl_work_open(&s->reaper, s->base, 1, on_wake, r, err);
    if (!rc)
        rc = sl_http_open(&s->http, s->base, &ho, err);
    if (!rc)
        rc = sl_thread_start(&r->loader, load_model, r, "the loader", err);
    r->has_loader = !rc;
    return rc;
}

static void close_all(struct run *r)
{
    struct sl_server *s = &r->s;

    if (r->has_loader)
        take_engine(r);
    sl_http_close(&s->http); /* cancels what still runs */
    sl_work_close(&s->work);
    sl_work_close(&s->reaper);
    sl_engine_close(&s->engine);
    if (r->term)
        event_free(r->term);
    if (r->intr)
        event_free(r->intr);
    if (r->hup)
        event_free(r->hup);
    if (r->drain_end)
        event_free(r->drain_end);
    if (r->tick)
        event_free(r->tick);
    if (r->late)
        event_free(r->late);
    if (r->pulse)
        event_free(r->pulse);
    if (s->base)
        event_base_free(s->base);
    sl_trust_deinit(&s->trust);
    sl_buf_deinit(&s->scratch);
    sl_mutex_deinit(&r->mu);
}

int sl_server_run(const struct sl_server_opts *o, struct sl_err *err)
{
    struct run *r = NULL;
    struct timespec now;
    int rc;

    sl_mem_give_back();
    rc = sl_mem_alloc(&r, 1, sizeof(*r), "the server", err);
    if (rc)
        return rc;
    clock_gettime(CLOCK_REALTIME, &now);
    r->s.opts = *o;
    r->s.created = now.tv_sec;
    r->s.start_ns = sl_clock_ns();
    r->s.max_seqs = o->max_seqs;
    sl_buf_init(&r->s.scratch, MAX_SCRATCH);
    sl_mutex_init(&r->mu, SL_RANK_WORK);
    rc = open_all(r, err);
    if (!rc) {
        o->listening(o->ctx, o->host, sl_http_port(r->s.http));
        event_base_dispatch(r->s.base);
        rc = r->rc;
        if (rc)
            (void)sl_fail(err, r->err.code, "%s", r->err.msg);
    }
    close_all(r);
    sl_mem_free(r);
    return rc;
}
