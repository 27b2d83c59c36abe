/* server/http.c - connections on libevent's bufferevents; see http.h
 *
 * Deadlines. One timer per connection. It is set when a request begins and is
 * not moved by each byte that comes, so a client that sends one byte now and
 * then gains nothing: the head has one deadline, and a body has one for all of
 * it and, sooner, one for each SL_HTTP_BODY_STEP bytes.
 *
 * What is said has a deadline of its own, which runs while bytes wait for the
 * client. libevent calls when the kernel took nothing for a while; whether the
 * client did, only the kernel knows: it has room again when a good part of its
 * buffer, which may be megabytes, was read.
 *
 * In the clear, what is said in one round of the loop goes to the kernel at the
 * end of the round, by one call: asking the kernel first when it has room, as
 * libevent does, takes three calls more for each event of a stream. libevent
 * writes what the kernel had no room for, and until then writing is disabled.
 * With TLS libevent writes everything.
 */
#include "server/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <linux/tcp.h> /* netinet/tcp.h has a shorter struct tcp_info */
#include <netdb.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "server/error.h"
#include "server/tls.h"

/* A benchmark opens a thousand connections in one instant. */
#define BACKLOG 4096

/* Bytes of later requests that are kept while one is being answered. */
#define MAX_AHEAD ((size_t)256 << 10)

/* A stream with so many bytes waiting for its reader is full, and is written
 * again when fewer than FULL_LOW wait. */
#define FULL ((size_t)256 << 10)
#define FULL_LOW ((size_t)16 << 10)

/* libevent writes 16 KiB at a time by default, which would tear events. */
#define WRITE_ONCE ((size_t)1 << 20)

/* No new connections for a while when the process has no descriptors left. */
#define ACCEPT_PAUSE_MS 100

/* A write deadline is looked at so many times while it runs. */
#define WRITE_LOOKS 4

/* Between two tries to end TLS where the kernel has no room. Chosen. */
#define BYE_MS 50

enum state { IDLE, HEAD, BODY, BUSY, SENDING, LINGER };

struct conn {
    struct conn *prev, *next; /* in h->conns */
    struct conn *said_prev, *said_next; /* in h->said */
    struct sl_http *h;
    struct bufferevent *bev;
    struct event *timer;
    enum state state;
    bool secure;    /* TLS is spoken */
    bool keep;      /* after this reply */
    bool chunked;   /* the reply is */
    bool in_read;   /* the reading loop runs: do not enter it again */
    bool dead;      /* to be freed when the reading loop ends */
    bool eof;       /* the client will send no more */
    bool held;      /* the kernel keeps what comes: enough is here */
    bool full;
    bool said;      /* in h->said */
    size_t body_mark; /* bytes of the body when its deadline was set */
    uint64_t body_ns; /* when the body began */
    uint64_t last_write_ns;
    uint64_t acked;   /* bytes that the client's machine has, at the last look */
    uint64_t taken_ns; /* when it took some, or the output began to wait */
    struct sl_message msg;
    struct sl_exchange x;
    struct sl_buf extra; /* header lines of the next reply */
};

struct sl_http {
    struct event_base *base;
    struct evconnlistener *listener;
    struct event *resume; /* accepting again */
    struct sl_http_opts opts;
    struct conn *conns;
    struct conn *said, *said_last; /* what they say is not with the kernel */
    struct event *send; /* offers it, when the loop has called all others */
    uint32_t n_said;    /* in the list */
    bool sends;         /* is being called */
    uint32_t n_conn;
    uint16_t port;
    bool draining;
};

void sl_http_limits_init(struct sl_http_limits *l)
{
    *l = (struct sl_http_limits){
        .max_body = (size_t)64 << 20,
        .max_conn = 8192,
        .header_ms = 10000,
        .body_ms = 60000,
        .body_all_ms = 600000, /* 64 MiB over one Mbit/s */
        .idle_ms = 90000, /* benchmarks reuse connections after 60 s */
        .write_ms = 60000,
        .linger_ms = 5000,
        .heartbeat_ms = 10000,
    };
}

static struct conn *conn_of(struct sl_exchange *x)
{
    return (struct conn *)((char *)x - offsetof(struct conn, x));
}

/* Does libevent write what is said? */
static bool is_written(const struct conn *c)
{
    return bufferevent_get_enabled(c->bev) & EV_WRITE;
}

/* Something was added to the output: it goes at the end of this round. Never
 * past TLS, also while libevent has stopped writing there. */
static void offer(struct conn *c)
{
    struct sl_http *h = c->h;

    if (c->said || c->secure || is_written(c))
        return;
    c->said = true;
    c->said_next = NULL;
    c->said_prev = h->said_last;
    if (h->said_last)
        h->said_last->said_next = c;
    else
        h->said = c;
    h->said_last = c;
    if (h->n_said++ == 0 && !h->sends)
        event_active(h->send, EV_TIMEOUT, 0);
}

/* ----------------------------------------------------------------- deadlines */

static struct timeval to_tv(uint32_t ms)
{
    return (struct timeval){.tv_sec = ms / 1000,
                            .tv_usec = (suseconds_t)(ms % 1000) * 1000};
}

static void set_timer(struct conn *c, uint32_t ms)
{
    struct timeval tv = to_tv(ms);

    if (ms)
        event_add(c->timer, &tv);
    else
        event_del(c->timer);
}

/* For the next SL_HTTP_BODY_STEP bytes, and not beyond that of the whole. */
static uint32_t body_ms(const struct conn *c)
{
    const struct sl_http_limits *l = &c->h->opts.limits;
    uint64_t gone = (sl_clock_ns() - c->body_ns) / 1000000;
    uint32_t left;

    if (!l->body_all_ms)
        return l->body_ms;
    left = gone < l->body_all_ms ? l->body_all_ms - (uint32_t)gone : 1;
    return l->body_ms ? (uint32_t)sl_min(l->body_ms, left) : left;
}

static void enter(struct conn *c, enum state s)
{
    const struct sl_http_limits *l = &c->h->opts.limits;

    c->state = s;
    switch (s) {
    case IDLE:
        set_timer(c, l->idle_ms);
        break;
    case HEAD:
        set_timer(c, l->header_ms);
        break;
    case BODY:
        c->body_mark = c->msg.body.len;
        set_timer(c, body_ms(c));
        break;
    case BUSY:
    case SENDING: /* the write deadline holds */
        set_timer(c, 0);
        break;
    case LINGER:
        set_timer(c, l->linger_ms);
        break;
    }
    if (c->held && !c->eof && (s == IDLE || s == LINGER)) {
        c->held = false;
        bufferevent_enable(c->bev, EV_READ);
    }
}

/* ------------------------------------------------------------- end of a life */

static void leave_said(struct conn *c)
{
    struct sl_http *h = c->h;

    if (!c->said)
        return;
    c->said = false;
    h->n_said--;
    if (c->said_prev)
        c->said_prev->said_next = c->said_next;
    else
        h->said = c->said_next;
    if (c->said_next)
        c->said_next->said_prev = c->said_prev;
    else
        h->said_last = c->said_prev;
}

static void free_conn(struct conn *c)
{
    struct sl_http *h = c->h;

    leave_said(c);
    if (c->prev)
        c->prev->next = c->next;
    else
        h->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    h->n_conn--;
    if (c->bev)
        bufferevent_free(c->bev);
    if (c->timer)
        event_free(c->timer);
    sl_message_deinit(&c->msg);
    sl_buf_deinit(&c->extra);
    sl_mem_free(c);
}

static void drop(struct conn *c)
{
    if (c->in_read)
        c->dead = true;
    else
        free_conn(c);
}

static void tell_ended(struct conn *c)
{
    if (c->h->opts.ended)
        c->h->opts.ended(c->h->opts.ctx, &c->x);
}

/* The client has left, or must leave. */
static void hang_up(struct conn *c)
{
    if (c->dead)
        return;
    if (c->state == BUSY) {
        c->x.is_gone = true;
        if (c->x.gone)
            c->x.gone(&c->x);
        tell_ended(c);
    }
    drop(c);
}

/* --------------------------------------------------------------- the request */

static void random_id(char *out)
{
    snprintf(out, SL_HTTP_ID_LEN, "%016llx%016llx",
             (unsigned long long)sl_machine_random(),
             (unsigned long long)sl_machine_random());
}

static void take_id(struct sl_exchange *x)
{
    const char *s = sl_message_header(x->msg, "X-Request-Id");
    size_t n = s ? strlen(s) : 0;

    x->has_id = n > 0 && n <= SL_HTTP_ID_LEN;
    for (size_t i = 0; i < n && x->has_id; i++)
        x->has_id = s[i] > ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\\';
    if (x->has_id)
        memcpy(x->id, s, n + 1);
    else
        random_id(x->id);
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The target's path, decoded; one slash for several in front, none behind. */
static void take_path(struct sl_exchange *x)
{
    const char *s = sl_message_target(x->msg);
    size_t n = strcspn(s, "?#"), out = 0;

    x->path[0] = 0;
    /* "http://host/path" of a proxy's client. */
    if (!strncasecmp(s, "http://", 7) || !strncasecmp(s, "https://", 8)) {
        const char *slash = strchr(strstr(s, "://") + 3, '/');

        s = slash ? slash : "/";
        n = strcspn(s, "?#");
    }
    for (size_t i = 0; i < n; i++) {
        char c = s[i];

        if (out + 1 >= sizeof(x->path))
            return;
        if (c == '%' && i + 2 < n && hex(s[i + 1]) >= 0 && hex(s[i + 2]) >= 0) {
            c = (char)(hex(s[i + 1]) * 16 + hex(s[i + 2]));
            i += 2;
        }
        if (c == 0)
            return;
        if (c == '/' && out == 1 && x->path[0] == '/')
            continue;
        x->path[out++] = c;
    }
    while (out > 1 && x->path[out - 1] == '/')
        out--;
    if (sl_utf8_valid(x->path, out) != out)
        out = 0;
    x->path[out] = 0;
}

static void begin_exchange(struct conn *c)
{
    struct sl_exchange *x = &c->x;
    char peer[sizeof(x->peer)];

    memcpy(peer, x->peer, sizeof(peer));
    *x = (struct sl_exchange){.msg = &c->msg, .begun_ns = sl_clock_ns()};
    memcpy(x->peer, peer, sizeof(peer));
    take_id(x);
    take_path(x);
    sl_buf_reset(&c->extra);
    c->full = false;
    enter(c, BUSY);
}

/* A request that is refused before it is whole. */
static void refuse(struct conn *c, int status, const char *why)
{
    begin_exchange(c);
    c->keep = false;
    sl_error_reply(&c->x, status, NULL, NULL, "%s", why);
}

static void handle(struct conn *c)
{
    c->keep = c->msg.keep && !c->h->draining;
    begin_exchange(c);
    c->h->opts.handle(c->h->opts.ctx, &c->x);
}

/* Where the message is, the connection is. */
static void follow(struct conn *c)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

    if (c->msg.state == SL_MESSAGE_BAD) {
        refuse(c, c->msg.status, c->msg.why);
        return;
    }
    if (c->state == IDLE && c->msg.begun)
        enter(c, HEAD);
    if (c->state == HEAD && c->msg.state == SL_MESSAGE_BODY) {
        c->body_ns = sl_clock_ns();
        enter(c, BODY);
    }
    if (c->state == BODY && c->msg.body.len - c->body_mark >= SL_HTTP_BODY_STEP)
        enter(c, BODY);
    if (c->msg.expects && c->msg.body.len == 0) {
        bufferevent_write(c->bev, go_on, sizeof(go_on) - 1);
        offer(c);
    }
    c->msg.expects = false;
    if (c->msg.state == SL_MESSAGE_DONE)
        handle(c);
}

/* Enough of later requests is here. While one is being worked on the socket is
 * read on, or nobody would see the client leave; what comes is thrown away, and
 * so the reply is the connection's last. While a reply is on its way its
 * deadline watches, and the rest may wait with the kernel. */
static void limit_ahead(struct conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    size_t n = evbuffer_get_length(in);

    if (n < MAX_AHEAD)
        return;
    if (c->state == BUSY) {
        c->keep = false;
        evbuffer_drain(in, n);
    } else if (c->state == SENDING) {
        c->held = true;
        bufferevent_disable(c->bev, EV_READ);
    }
}

/* Feed what has come, until a request is being answered. */
static void read_some(struct conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);

    if (c->in_read)
        return;
    c->in_read = true;
    while (!c->dead && c->state < BUSY && evbuffer_get_length(in) > 0) {
        struct evbuffer_iovec v;
        size_t n;

        if (evbuffer_peek(in, -1, NULL, &v, 1) < 1)
            break;
        n = sl_message_feed(&c->msg, v.iov_base, v.iov_len);
        evbuffer_drain(in, n);
        follow(c);
        if (c->eof && c->state == BUSY)
            hang_up(c); /* there is nobody to wait for it */
    }
    if (!c->dead && c->state == LINGER)
        evbuffer_drain(in, evbuffer_get_length(in));
    if (c->eof && c->state < BUSY)
        c->dead = true; /* the rest of this one will never come */
    if (!c->dead)
        limit_ahead(c);
    c->in_read = false;
    if (c->dead)
        free_conn(c);
}

/* ----------------------------------------------------------------- call-backs */

static void on_read(struct bufferevent *bev, void *arg)
{
    (void)bev;
    read_some(arg);
}

/* Nothing is owed to the client: close. */
static void leave(struct conn *c)
{
    if (c->secure)
        (void)sl_tls_bye(c->bev);
    drop(c);
}

static bool has_output(const struct conn *c)
{
    return evbuffer_get_length(bufferevent_get_output(c->bev)) > 0;
}

/* All that will be said was said, and the kernel has it. */
static void end_writing(struct conn *c)
{
    if (c->eof) {
        leave(c);
        return;
    }
    if (c->secure && !sl_tls_bye(c->bev)) {
        set_timer(c, BYE_MS);
        return;
    }
    shutdown(bufferevent_getfd(c->bev), SHUT_WR);
    enter(c, LINGER);
    read_some(c);
}

/* A reply has been sent: the next request, if there may be one. */
static void end_sending(struct conn *c)
{
    bool ends = c->eof && !evbuffer_get_length(bufferevent_get_input(c->bev));

    if (!c->keep || ends) {
        end_writing(c);
        return;
    }
    enter(c, IDLE);
    read_some(c);
}

static void on_write(struct bufferevent *bev, void *arg)
{
    struct conn *c = arg;
    size_t left = evbuffer_get_length(bufferevent_get_output(bev));

    if (left == 0 && !c->secure && is_written(c))
        bufferevent_disable(bev, EV_WRITE);
    if (c->state == SENDING && left == 0) {
        end_sending(c);
        return;
    }
    if (c->full && c->state == BUSY && left <= FULL_LOW) {
        c->full = false;
        if (c->x.ready)
            c->x.ready(&c->x);
    }
}

/* The kernel takes what it has room for, and libevent sees to the rest, and to
 * what a failure means. */
static void send_now(struct conn *c)
{
    struct evbuffer *out = bufferevent_get_output(c->bev);

    /* A bufferevent lets nobody else take from the front. */
    evbuffer_unfreeze(out, 1);
    (void)evbuffer_write_atmost(out, bufferevent_getfd(c->bev), WRITE_ONCE);
    evbuffer_freeze(out, 1);
    if (has_output(c))
        bufferevent_enable(c->bev, EV_WRITE);
    if (evbuffer_get_length(out) <= FULL_LOW)
        on_write(c->bev, c); /* which may free c */
}

/* Those that speak up meanwhile come behind a look at all sockets: a client
 * that sent a thousand requests at once must not keep others waiting. */
static void on_send(evutil_socket_t fd, short what, void *arg)
{
    struct sl_http *h = arg;
    struct timeval now = {0};

    (void)fd;
    (void)what;
    h->sends = true;
    for (uint32_t n = h->n_said; n > 0 && h->said; n--) {
        struct conn *c = h->said;

        leave_said(c);
        send_now(c);
    }
    h->sends = false;
    if (h->said)
        event_add(h->send, &now);
}

/* Bytes wait for the client: has its machine taken some within write_ms? */
static bool is_taking(struct conn *c)
{
    struct tcp_info i = {0};
    uint32_t write_ms = c->h->opts.limits.write_ms;
    socklen_t n = sizeof(i);
    uint64_t now = sl_clock_ns();

    /* A kernel before 4.1 does not say; then nothing has moved. */
    if (!getsockopt(bufferevent_getfd(c->bev), IPPROTO_TCP, TCP_INFO, &i, &n) &&
        i.tcpi_bytes_acked != c->acked) {
        c->acked = i.tcpi_bytes_acked;
        c->taken_ns = now;
    }
    return !write_ms || (now - c->taken_ns) / 1000000 < write_ms;
}

static void set_up(struct conn *c);

/* A request in the clear where TLS is spoken gets an answer in the clear. The
 * bufferevent of TLS takes its descriptor with it, so a copy goes on. */
static void answer_plain(struct conn *c)
{
    int fd = dup(bufferevent_getfd(c->bev));
    struct bufferevent *bev =
        fd < 0 ? NULL
               : bufferevent_socket_new(c->h->base, fd, BEV_OPT_CLOSE_ON_FREE);

    if (!bev) {
        if (fd >= 0)
            evutil_closesocket(fd);
        drop(c);
        return;
    }
    bufferevent_free(c->bev);
    c->bev = bev;
    c->secure = false;
    set_up(c);
    refuse(c, 400, "this port speaks HTTPS and the request came without TLS; "
                   "write https:// in front of the address");
}

/* The end of file behind a request that was answered: let the answer go, and
 * those of the requests that came with it. TLS stops writing when the other
 * side ends, and may have written all before on_write hears of it. */
static bool ends_later(struct conn *c)
{
    if (c->state != SENDING)
        return false;
    c->eof = true;
    bufferevent_disable(c->bev, EV_READ);
    if (c->secure)
        bufferevent_enable(c->bev, EV_WRITE);
    if (!has_output(c))
        end_sending(c);
    return true;
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct conn *c = arg;

    if (what & BEV_EVENT_CONNECTED)
        return;
    /* While writing it is TLS' word for a client that takes nothing any more.
     */
    if ((what & BEV_EVENT_EOF) && !(what & BEV_EVENT_WRITING) && ends_later(c))
        return;
    if ((what & BEV_EVENT_ERROR) && c->secure && c->state == IDLE &&
        sl_tls_met_http(bev)) {
        answer_plain(c);
        return;
    }
    if ((what & BEV_EVENT_TIMEOUT) && (what & BEV_EVENT_WRITING) &&
        is_taking(c)) {
        bufferevent_enable(bev, EV_WRITE); /* which a timeout has disabled */
        return;
    }
    hang_up(c);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct conn *c = arg;

    (void)fd;
    (void)what;
    switch (c->state) {
    case HEAD:
        refuse(c, 408, "the headers did not come in time");
        break;
    case BODY:
        refuse(c, 408, "the body did not come in time");
        break;
    case BUSY: {
        uint32_t ms = c->h->opts.limits.heartbeat_ms;
        uint64_t idle = (sl_clock_ns() - c->last_write_ns) / 1000000;

        /* A blank line is no event, and every parser skips it. */
        if (idle + 1 >= ms &&
            evbuffer_get_length(bufferevent_get_output(c->bev)) == 0)
            sl_http_write(&c->x, "\n", 1);
        set_timer(c, idle + 1 >= ms ? ms : ms - (uint32_t)idle);
        break;
    }
    case SENDING: /* only TLS is still to be ended */
        if (is_taking(c))
            end_writing(c);
        else
            drop(c);
        break;
    case IDLE:
        leave(c);
        break;
    case LINGER:
        drop(c);
        break;
    }
}

/* ------------------------------------------------------------------ accepting */

static void name_peer(struct conn *c, const struct sockaddr *sa)
{
    const struct sockaddr_in *v4 = (const void *)sa;
    const struct sockaddr_in6 *v6 = (const void *)sa;

    if (sa->sa_family == AF_INET)
        inet_ntop(AF_INET, &v4->sin_addr, c->x.peer, sizeof(c->x.peer));
    else if (sa->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &v6->sin6_addr, c->x.peer, sizeof(c->x.peer));
}

static struct bufferevent *make_bev(struct sl_http *h, evutil_socket_t fd)
{
    if (h->opts.tls)
        return sl_tls_accept(h->opts.tls, h->base, fd);
    return bufferevent_socket_new(h->base, fd, BEV_OPT_CLOSE_ON_FREE);
}

static void set_up(struct conn *c)
{
    uint32_t write_ms = c->h->opts.limits.write_ms;
    struct timeval tv = to_tv(write_ms / WRITE_LOOKS + 1);

    bufferevent_setcb(c->bev, on_read, on_write, on_event, c);
    bufferevent_setwatermark(c->bev, EV_WRITE, FULL_LOW, 0);
    bufferevent_set_max_single_write(c->bev, WRITE_ONCE);
    bufferevent_set_timeouts(c->bev, NULL, write_ms ? &tv : NULL);
    bufferevent_enable(c->bev, EV_READ);
    if (c->secure)
        bufferevent_enable(c->bev, EV_WRITE);
    else
        bufferevent_disable(c->bev, EV_WRITE);
    enter(c, IDLE);
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd,
                      struct sockaddr *sa, int len, void *arg)
{
    struct sl_http *h = arg;
    struct conn *c = NULL;
    int on = 1;

    (void)l;
    (void)len;
    if (h->n_conn >= h->opts.limits.max_conn ||
        sl_mem_alloc(&c, 1, sizeof(*c), "a connection", NULL)) {
        sl_log(SL_LOG_WARN, "connection=refused open=%u", h->n_conn);
        evutil_closesocket(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    c->h = h;
    c->next = h->conns;
    if (h->conns)
        h->conns->prev = c;
    h->conns = c;
    h->n_conn++;
    sl_message_init(&c->msg, h->opts.limits.max_body);
    sl_buf_init(&c->extra, SL_HTTP_MAX_REPLY_HEAD);
    name_peer(c, sa);
    c->timer = evtimer_new(h->base, on_timer, c);
    c->secure = h->opts.tls != NULL;
    c->bev = c->timer ? make_bev(h, fd) : NULL;
    if (!c->bev) {
        evutil_closesocket(fd);
        free_conn(c);
        return;
    }
    set_up(c);
}

static void on_accept_error(struct evconnlistener *l, void *arg)
{
    struct sl_http *h = arg;
    struct timeval tv = to_tv(ACCEPT_PAUSE_MS);

    sl_log(SL_LOG_ERROR, "accept=failed errno=%d open=%u", errno, h->n_conn);
    evconnlistener_disable(l);
    event_add(h->resume, &tv);
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
    struct sl_http *h = arg;

    (void)fd;
    (void)what;
    evconnlistener_enable(h->listener);
}

static uint16_t port_of(evutil_socket_t fd)
{
    struct sockaddr_storage ss;
    socklen_t n = sizeof(ss);

    if (getsockname(fd, (struct sockaddr *)&ss, &n))
        return 0;
    if (ss.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&ss)->sin6_port);
    return ntohs(((struct sockaddr_in *)&ss)->sin_port);
}

/* Bind one port: 0 or an errno in *why. */
static int listen_port(struct sl_http *h, unsigned number, int *why,
                       struct sl_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    char port[8];
    int rc;

    snprintf(port, sizeof(port), "%u", number);
    rc = getaddrinfo(h->opts.host, port, &hints, &found);
    if (rc)
        return sl_fail(err, SL_EARG,
                       "the host '%.200s' is not known here: %s; give an "
                       "address of this machine, or 127.0.0.1",
                       h->opts.host, gai_strerror(rc));
    for (struct addrinfo *a = found; a && !h->listener; a = a->ai_next)
        h->listener = evconnlistener_new_bind(
            h->base, on_accept, h,
            LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_EXEC,
            BACKLOG, a->ai_addr, (int)a->ai_addrlen);
    *why = h->listener ? 0 : errno;
    freeaddrinfo(found);
    return 0;
}

/* The port, or one of the n_port - 1 behind it when those before are taken. */
static int listen_on(struct sl_http *h, struct sl_err *err)
{
    unsigned port = h->opts.port;
    unsigned last = h->opts.n_port ? port + h->opts.n_port - 1 : port;
    int why = 0, rc = listen_port(h, port, &why, err);

    while (!rc && why == EADDRINUSE && port < sl_min(last, 65535))
        rc = listen_port(h, ++port, &why, err);
    if (rc)
        return rc;
    if (why == EADDRINUSE)
        return sl_fail(err, SL_EBUSY,
                       "%.200s port %u is taken by another program; choose "
                       "another --port, or 0 for any free one",
                       h->opts.host, port);
    if (why)
        return sl_fail_errno(err, why, "listening on %.200s port %u",
                             h->opts.host, port);
    evconnlistener_set_error_cb(h->listener, on_accept_error);
    h->port = port_of(evconnlistener_get_fd(h->listener));
    return 0;
}

int sl_http_open(struct sl_http **out, struct event_base *base,
                 const struct sl_http_opts *opts, struct sl_err *err)
{
    struct sl_http *h = NULL;
    int rc = sl_mem_alloc(&h, 1, sizeof(*h), "the HTTP server", err);

    if (rc)
        return rc;
    h->base = base;
    h->opts = *opts;
    h->resume = evtimer_new(base, on_resume, h);
    h->send = evtimer_new(base, on_send, h);
    rc = h->resume && h->send
             ? listen_on(h, err)
             : sl_fail(err, SL_ENOMEM, "no memory is left for a timer");
    if (rc) {
        sl_http_close(&h);
        return rc;
    }
    *out = h;
    return 0;
}

void sl_http_close(struct sl_http **ph)
{
    struct sl_http *h = *ph;

    *ph = NULL;
    if (!h)
        return;
    while (h->conns)
        hang_up(h->conns);
    if (h->listener)
        evconnlistener_free(h->listener);
    if (h->resume)
        event_free(h->resume);
    if (h->send)
        event_free(h->send);
    sl_mem_free(h);
}

void sl_http_set_tls(struct sl_http *h, struct ssl_ctx_st *tls)
{
    h->opts.tls = tls;
}

uint16_t sl_http_port(const struct sl_http *h)
{
    return h->port;
}

uint32_t sl_http_n_conn(const struct sl_http *h)
{
    return h->n_conn;
}

uint32_t sl_http_n_busy(const struct sl_http *h)
{
    uint32_t n = 0;

    for (const struct conn *c = h->conns; c; c = c->next)
        n += c->state == BUSY || has_output(c);
    return n;
}

void sl_http_drain(struct sl_http *h)
{
    struct conn *next;

    h->draining = true;
    for (struct conn *c = h->conns; c; c = next) {
        next = c->next;
        c->keep = false;
        /* The client may just be sending: it sees a close and tries again. */
        if (c->state == IDLE)
            leave(c);
    }
}

/* ------------------------------------------------------------------ the reply */

void sl_http_take_body(struct sl_exchange *x, struct sl_buf *out)
{
    struct conn *c = conn_of(x);

    *out = c->msg.body;
    sl_buf_init(&c->msg.body, c->msg.max_body);
}

void sl_http_header(struct sl_exchange *x, const char *name, const char *value)
{
    sl_buf_fmt(&conn_of(x)->extra, "%s: %s\r\n", name, value);
}

static void note_write(struct conn *c)
{
    c->last_write_ns = sl_clock_ns();
    if (!has_output(c))
        c->taken_ns = c->last_write_ns;
}

/* Without these a browser hides the reply from its page; errors need them too.
 */
static const char cors[] =
    "Access-Control-Allow-Origin: *\r\n"
    "Access-Control-Expose-Headers: X-Request-Id, Retry-After\r\n";

static void write_head(struct conn *c, int status, const char *type,
                       int64_t len)
{
    struct evbuffer *out = bufferevent_get_output(c->bev);
    struct sl_exchange *x = &c->x;

    note_write(c);
    x->status = status;
    evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\nServer: sluice/%s\r\n", status,
                        http_status_str((enum http_status)status), SL_VERSION);
    evbuffer_add_printf(out, "X-Request-Id: %s\r\n", x->id);
    evbuffer_add(out, cors, sizeof(cors) - 1);
    if (type)
        evbuffer_add_printf(out, "Content-Type: %s\r\n", type);
    if (len >= 0 && status != 204)
        evbuffer_add_printf(out, "Content-Length: %lld\r\n", (long long)len);
    else if (c->chunked)
        evbuffer_add_printf(out, "Transfer-Encoding: chunked\r\n");
    evbuffer_add_printf(out, "Connection: %s\r\n",
                        c->keep ? "keep-alive" : "close");
    if (!c->extra.failed && c->extra.len)
        evbuffer_add(out, c->extra.p, c->extra.len);
    evbuffer_add(out, "\r\n", 2);
    sl_buf_reset(&c->extra);
    offer(c);
}

/* The next request is read when this reply is with the kernel: the answers to
 * a client that asks and never reads do not gather here. */
static void end_exchange(struct conn *c)
{
    tell_ended(c);
    sl_message_reset(&c->msg);
    c->x.gone = NULL;
    c->x.ready = NULL;
    enter(c, SENDING);
    if (!has_output(c))
        end_sending(c);
}

static bool is_head(const struct conn *c)
{
    return c->msg.state == SL_MESSAGE_DONE &&
           c->msg.parser.method == HTTP_HEAD;
}

void sl_http_reply(struct sl_exchange *x, int status, const char *type,
                   const char *body, size_t len)
{
    struct conn *c = conn_of(x);

    SL_CHECK(c->state == BUSY && !x->streams);
    write_head(c, status, type, (int64_t)len);
    if (len && !is_head(c))
        evbuffer_add(bufferevent_get_output(c->bev), body, len);
    x->n_sent += len;
    end_exchange(c);
}

void sl_http_stream(struct sl_exchange *x, int status, const char *type)
{
    struct conn *c = conn_of(x);

    SL_CHECK(c->state == BUSY && !x->streams);
    /* HTTP/1.0 knows no chunks: there the end of the connection ends it. */
    c->chunked = c->msg.parser.http_minor >= 1;
    c->keep = c->keep && c->chunked;
    write_head(c, status, type, -1);
    x->streams = true;
    set_timer(c, c->h->opts.limits.heartbeat_ms);
}

void sl_http_write(struct sl_exchange *x, const char *p, size_t len)
{
    struct conn *c = conn_of(x);
    struct evbuffer *out = bufferevent_get_output(c->bev);

    SL_CHECK(c->state == BUSY && x->streams);
    if (len == 0 || is_head(c))
        return;
    note_write(c);
    if (c->chunked)
        evbuffer_add_printf(out, "%zx\r\n", len);
    evbuffer_add(out, p, len);
    if (c->chunked)
        evbuffer_add(out, "\r\n", 2);
    offer(c);
    x->n_sent += len;
    c->full = evbuffer_get_length(out) > FULL;
}

void sl_http_end(struct sl_exchange *x)
{
    struct conn *c = conn_of(x);

    SL_CHECK(c->state == BUSY && x->streams);
    if (c->chunked && !is_head(c)) {
        evbuffer_add(bufferevent_get_output(c->bev), "0\r\n\r\n", 5);
        offer(c);
    }
    c->chunked = false;
    end_exchange(c);
}

void sl_http_abort(struct sl_exchange *x)
{
    struct conn *c = conn_of(x);
    struct linger now = {.l_onoff = 1, .l_linger = 0};

    x->gone = NULL;
    setsockopt(bufferevent_getfd(c->bev), SOL_SOCKET, SO_LINGER, &now,
               sizeof(now));
    hang_up(c);
}

bool sl_http_is_full(const struct sl_exchange *x)
{
    return ((const struct conn *)((const char *)x - offsetof(struct conn, x)))
        ->full;
}
