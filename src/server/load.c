/* server/load.c - a load generator; see load.h
 *
 * One connection per request. Arrivals are due times, drawn before the run;
 * whoever is due and finds a free place is started, so that waiting for a place
 * is not counted, as in vLLM.
 */
#include "server/load.h"

#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <http_parser.h>
#include <jansson.h>
#include <netdb.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "server/events.h"
#include "server/json_out.h"

#define MAX_BODY ((size_t)256 << 20)
#define MAX_WHY 200

struct load;

struct one {
    struct load *l;
    struct bufferevent *be;
    http_parser parser;
    struct sl_buf body; /* not yet looked at */
    uint64_t t0, first, last;
    uint64_t n_in, n_out;
    int status;
    bool done, broken, over;
};

struct load {
    const struct sl_load_opts *o;
    struct sl_load_result *r;
    struct event_base *base;
    struct event *timer;
    struct addrinfo *addr;
    struct one *one; /* [n_request] */
    double *due;     /* [n_request] seconds from the start */
    uint32_t n_begun, n_ended, n_live;
    uint64_t start;
    uint64_t random;
    int rc;
};

/* ------------------------------------------------------------------- numbers */

/* splitmix64 (Steele, Lea, Flood, 2014). */
static uint64_t next(struct load *l)
{
    uint64_t z = l->random += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double uniform(struct load *l)
{
    return (double)(next(l) >> 11) * 0x1p-53;
}

/* Exponential, mean 1, without a logarithm: von Neumann, "Various techniques
 * used in connection with random digits", 1951. A falling run of odd length
 * accepts its first number. */
static double exponential(struct load *l)
{
    for (double whole = 0;; whole++) {
        double first = uniform(l), a = first, b = uniform(l);
        unsigned n = 1;

        for (; b < a; n++) {
            a = b;
            b = uniform(l);
        }
        if (n % 2 == 1)
            return whole + first;
    }
}

static int add(struct load *l, struct sl_load_series *s, double x)
{
    size_t cap = s->cap ? 2 * s->cap : 1024;

    if (s->n == s->cap) {
        int rc = sl_mem_resize(&s->s, cap, sizeof(*s->s), "times", NULL);

        if (rc) {
            l->rc = rc;
            return rc;
        }
        s->cap = cap;
    }
    s->s[s->n++] = x;
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void sort(struct sl_load_series *s)
{
    if (s->n)
        qsort(s->s, s->n, sizeof(*s->s), by_value);
}

double sl_load_percentile(const struct sl_load_series *s, double p)
{
    double at = p / 100 * (s->n ? (double)(s->n - 1) : 0);
    size_t i = (size_t)at;

    if (s->n == 0)
        return 0;
    if (i + 1 >= s->n)
        return s->s[s->n - 1];
    return s->s[i] + (at - (double)i) * (s->s[i + 1] - s->s[i]);
}

double sl_load_mean(const struct sl_load_series *s)
{
    double sum = 0;

    for (size_t i = 0; i < s->n; i++)
        sum += s->s[i];
    return s->n ? sum / (double)s->n : 0;
}

double sl_load_std(const struct sl_load_series *s)
{
    double mean = sl_load_mean(s), sum = 0;

    for (size_t i = 0; i < s->n; i++)
        sum += (s->s[i] - mean) * (s->s[i] - mean);
    return s->n ? __builtin_sqrt(sum / (double)s->n) : 0;
}

/* ------------------------------------------------------------------- a reply */

static void why(struct load *l, const char *s, size_t n)
{
    if (!l->r->why[0])
        snprintf(l->r->why, sizeof(l->r->why), "%.*s",
                 (int)sl_min(n, MAX_WHY), s);
}

static void on_event(void *ctx, const json_t *j, const char *s, size_t n)
{
    struct one *x = ctx;
    const json_t *usage = json_object_get(j, "usage");
    uint64_t now = sl_clock_ns();

    if (!j || json_object_get(j, "error")) {
        x->broken = true;
        why(x->l, s, n);
    }
    if (json_array_size(json_object_get(j, "choices")) > 0) {
        if (!x->first)
            x->first = now;
        else if (add(x->l, &x->l->r->itl, sl_clock_s(x->last, now)))
            x->broken = true;
        x->last = now;
    }
    if (json_is_object(usage)) {
        x->n_in = (uint64_t)json_integer_value(
            json_object_get(usage, "prompt_tokens"));
        x->n_out = (uint64_t)json_integer_value(
            json_object_get(usage, "completion_tokens"));
    }
}

static int on_body(http_parser *p, const char *s, size_t n)
{
    struct one *x = p->data;

    sl_buf_add(&x->body, s, n);
    if (p->status_code == 200)
        sl_events_take(&x->body, on_event, x);
    return x->body.failed ? 1 : 0;
}

static int on_done(http_parser *p)
{
    struct one *x = p->data;

    x->done = true;
    x->status = p->status_code;
    return 0;
}

static const http_parser_settings settings = {
    .on_body = on_body,
    .on_message_complete = on_done,
};

/* ----------------------------------------------------------------- a request */

static void pump(struct load *l);

static void account(struct one *x)
{
    struct sl_load_result *r = x->l->r;
    double ttft = sl_clock_s(x->t0, x->first), all = sl_clock_s(x->t0, x->last);

    if (!x->done || x->broken || x->status != 200 || !x->first) {
        r->n_failed++;
        if (x->body.len)
            why(x->l, x->body.p, x->body.len);
        why(x->l, "the connection was closed before the answer had ended", 53);
        return;
    }
    r->n_ok++;
    r->n_in += x->n_in;
    r->n_out += x->n_out;
    (void)add(x->l, &r->ttft, ttft);
    (void)add(x->l, &r->e2e, all);
    if (x->n_out > 1)
        (void)add(x->l, &r->tpot, (all - ttft) / (double)(x->n_out - 1));
}

static void finish(struct one *x)
{
    struct load *l = x->l;

    if (x->over)
        return;
    x->over = true;
    account(x);
    bufferevent_free(x->be);
    x->be = NULL;
    sl_buf_deinit(&x->body);
    l->n_live--;
    l->n_ended++;
    if (l->o->progress)
        l->o->progress(l->o->progress_ctx, l->n_ended, l->o->n_request);
    if (l->n_ended == l->o->n_request || l->rc)
        event_base_loopbreak(l->base);
    else
        pump(l);
}

static void on_read(struct bufferevent *be, void *arg)
{
    struct one *x = arg;
    char some[16384];
    size_t n;

    while (!x->done && (n = bufferevent_read(be, some, sizeof(some))) > 0) {
        if (http_parser_execute(&x->parser, &settings, some, n) != n &&
            !x->done) {
            x->broken = true;
            why(x->l, "the reply is not HTTP", 21);
            break;
        }
    }
    if (x->done || x->broken)
        finish(x);
}

static void on_change(struct bufferevent *be, short what, void *arg)
{
    struct one *x = arg;

    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) {
        if (what & BEV_EVENT_ERROR)
            why(x->l, strerror(errno), strlen(strerror(errno)));
        on_read(be, x);
        finish(x);
    }
}

static void put_prompt(struct load *l, struct sl_buf *b, uint32_t i)
{
    const struct sl_load_opts *o = l->o;
    const char *text = o->n_prompt ? o->prompt[i % o->n_prompt] : NULL;

    if (text && o->chat) {
        sl_buf_str(b, "\"messages\":[{\"role\":\"user\",\"content\":[{"
                      "\"type\":\"text\",\"text\":");
        sl_json_put_str(b, text, strlen(text));
        sl_buf_str(b, "}]}]");
    } else if (text) {
        sl_buf_str(b, "\"prompt\":");
        sl_json_put_str(b, text, strlen(text));
    } else {
        sl_buf_str(b, "\"prompt\":[");
        for (uint32_t k = 0; k < o->n_in; k++)
            sl_buf_fmt(b, k ? ",%llu" : "%llu",
                       (unsigned long long)(next(l) % o->n_vocab));
        sl_buf_byte(b, ']');
    }
}

static void put_body(struct load *l, struct sl_buf *b, uint32_t i)
{
    const struct sl_load_opts *o = l->o;

    sl_buf_byte(b, '{');
    if (o->model) {
        sl_buf_str(b, "\"model\":");
        sl_json_put_str(b, o->model, strlen(o->model));
        sl_buf_byte(b, ',');
    }
    put_prompt(l, b, i);
    sl_buf_fmt(b,
               ",\"%s\":%u,\"ignore_eos\":true,\"repetition_penalty\":1.0,"
               "\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
               o->chat ? "max_completion_tokens" : "max_tokens", o->n_out);
}

static int write_request(struct one *x, uint32_t i)
{
    const struct sl_load_opts *o = x->l->o;
    struct sl_buf head, body;
    int rc = 0;

    sl_buf_init(&head, 1 << 16);
    sl_buf_init(&body, MAX_BODY);
    put_body(x->l, &body, i);
    sl_buf_fmt(&head,
               "POST /v1/%s HTTP/1.1\r\nHost: %s:%u\r\nContent-Type: "
               "application/json\r\nContent-Length: %zu\r\nConnection: close"
               "\r\n",
               o->chat ? "chat/completions" : "completions", o->host, o->port,
               body.len);
    if (o->key)
        sl_buf_fmt(&head, "Authorization: Bearer %s\r\n", o->key);
    sl_buf_str(&head, "\r\n");
    if (head.failed || body.failed ||
        bufferevent_write(x->be, head.p, head.len) ||
        bufferevent_write(x->be, body.p, body.len))
        rc = SL_ENOMEM;
    sl_buf_deinit(&head);
    sl_buf_deinit(&body);
    return rc;
}

static void begin(struct load *l, uint32_t i)
{
    struct one *x = &l->one[i];

    x->l = l;
    sl_buf_init(&x->body, MAX_BODY);
    http_parser_init(&x->parser, HTTP_RESPONSE);
    x->parser.data = x;
    l->n_live++;
    l->r->most_at_once = (uint32_t)sl_max(l->r->most_at_once, l->n_live);
    x->be = bufferevent_socket_new(l->base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (!x->be || write_request(x, i)) {
        l->rc = SL_ENOMEM;
        event_base_loopbreak(l->base);
        return;
    }
    bufferevent_setcb(x->be, on_read, NULL, on_change, x);
    bufferevent_enable(x->be, EV_READ | EV_WRITE);
    x->t0 = sl_clock_ns();
    (void)bufferevent_socket_connect(x->be, l->addr->ai_addr,
                                     (int)l->addr->ai_addrlen);
}

/* Start whoever is due and finds a place. */
static void pump(struct load *l)
{
    const struct sl_load_opts *o = l->o;
    uint32_t places = o->concurrency ? o->concurrency : UINT32_MAX;
    double now = sl_clock_s(l->start, sl_clock_ns()), wait;
    struct timeval tv;

    while (!l->rc && l->n_begun < o->n_request && l->n_live < places &&
           l->due[l->n_begun] <= now)
        begin(l, l->n_begun++);
    if (l->rc || l->n_begun == o->n_request || l->n_live >= places)
        return;
    wait = l->due[l->n_begun] - now;
    tv.tv_sec = (time_t)wait;
    tv.tv_usec = (suseconds_t)((wait - (double)tv.tv_sec) * 1e6) + 1;
    event_add(l->timer, &tv);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    pump(arg);
}

/* ------------------------------------------------------------------ together */

static int open_load(struct load *l, struct sl_err *err)
{
    const struct sl_load_opts *o = l->o;
    const struct addrinfo want = {.ai_socktype = SOCK_STREAM};
    char port[8];
    int rc = sl_mem_alloc(&l->one, o->n_request, sizeof(*l->one), "requests",
                          err);

    if (!rc)
        rc = sl_mem_alloc(&l->due, o->n_request, sizeof(*l->due), "requests",
                          err);
    if (rc)
        return rc;
    for (uint32_t i = 0; o->rate > 0 && i < o->n_request; i++)
        l->due[i] = (i ? l->due[i - 1] : 0) + exponential(l) / o->rate;
    snprintf(port, sizeof(port), "%u", o->port);
    if (getaddrinfo(o->host, port, &want, &l->addr))
        return sl_fail(err, SL_ENOTFOUND,
                       "there is no host '%.200s'; name another with --host",
                       o->host);
    l->base = event_base_new();
    l->timer = l->base ? evtimer_new(l->base, on_timer, l) : NULL;
    return l->timer ? 0
                    : sl_fail(err, SL_ENOMEM, "no memory is left for the loop");
}

int sl_load_run(struct sl_load_result *out, const struct sl_load_opts *o,
                struct sl_err *err)
{
    struct load l = {.o = o, .r = out, .random = o->seed};
    int rc;

    *out = (struct sl_load_result){0};
    rc = open_load(&l, err);
    if (!rc) {
        l.start = sl_clock_ns();
        pump(&l);
        while (!l.rc && l.n_ended < o->n_request)
            event_base_loop(l.base, EVLOOP_ONCE);
        out->duration_s = sl_clock_s(l.start, sl_clock_ns());
        if (l.rc)
            rc = sl_fail(err, (enum sl_code)l.rc,
                         "no memory is left for %u requests", o->n_request);
    }
    for (uint32_t i = 0; l.one && i < l.n_begun; i++) {
        if (l.one[i].be)
            bufferevent_free(l.one[i].be);
        sl_buf_deinit(&l.one[i].body);
    }
    if (l.timer)
        event_free(l.timer);
    if (l.base)
        event_base_free(l.base);
    if (l.addr)
        freeaddrinfo(l.addr);
    sl_mem_free(l.one);
    sl_mem_free(l.due);
    if (!rc && out->n_ok == 0)
        rc = sl_fail(err, SL_EIO,
                     "none of %u requests to %s:%u succeeded: %.200s",
                     o->n_request, o->host, o->port, out->why);
    sort(&out->ttft);
    sort(&out->tpot);
    sort(&out->itl);
    sort(&out->e2e);
    return rc;
}

void sl_load_deinit(struct sl_load_result *r)
{
    sl_mem_free(r->ttft.s);
    sl_mem_free(r->tpot.s);
    sl_mem_free(r->itl.s);
    sl_mem_free(r->e2e.s);
    *r = (struct sl_load_result){0};
}
