/* The HTTP layer with a hostile client: requests cut anywhere, too large, too
 * slow, pipelined, abandoned; replies whole and in pieces.
 *
 * Client and server share one thread: the client's sockets do not block, and
 * the server's loop is turned by hand until what is expected has come.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* First: OpenSSL's headers use names that are banned behind base.h. */
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/term.h"
#include "server/error.h"
#include "server/http.h"
#include "server/task.h"
#include "server/tls.h"

#define LIMIT_S 20.0 /* for anything that is awaited */
#define BIG 100000   /* bytes of the reply to /big */

/* -------------------------------------------------------------- the message */

/* All that a program can see of a message, as text. */
static void dump(struct sl_buf *out, const struct sl_message *m)
{
    sl_buf_fmt(out, "%d %d %d\n", m->state, m->status, m->keep);
    if (m->state != SL_MESSAGE_DONE)
        return;
    sl_buf_fmt(out, "%s %s\n", sl_message_method(m), sl_message_target(m));
    for (uint32_t i = 0; i < m->n_line; i++)
        sl_buf_fmt(out, "[%s]=[%s]\n", m->head.p + m->line[i].name,
                   m->head.p + m->line[i].value);
    sl_buf_add(out, m->body.p ? m->body.p : "", m->body.len);
}

/* Every message in `text`, fed in pieces of `step` bytes. */
static void run_message(struct sl_buf *out, const char *text, size_t len,
                        size_t step)
{
    static struct sl_message m;
    size_t at = 0;

    sl_message_init(&m, 1000);
    while (at < len) {
        size_t n = sl_min(step, len - at);
        size_t used = sl_message_feed(&m, text + at, n);

        at += used;
        if (m.state == SL_MESSAGE_DONE || m.state == SL_MESSAGE_BAD) {
            dump(out, &m);
            if (m.state == SL_MESSAGE_BAD)
                break;
            sl_message_reset(&m);
        } else {
            assert_int_equal(used, n);
        }
    }
    sl_message_deinit(&m);
}

static const struct {
    const char *text;
    const char *want; /* the beginning of the dump */
} messages[] = {
    {"GET / HTTP/1.1\r\n\r\n", "2 0 1\nGET /\n"},
    {"GET / HTTP/1.0\r\n\r\n", "2 0 0\nGET /\n"},
    {"\r\nGET /a?b=c HTTP/1.1\r\nHost: x\r\nEmpty:\r\nLast: y z \r\n\r\n",
     "2 0 1\nGET /a?b=c\n[Host]=[x]\n[Empty]=[]\n[Last]=[y z"},
    {"POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloGET /2 HTTP/1.1\r\n"
     "Connection: close\r\n\r\n",
     "2 0 1\nPOST /x\n[Content-Length]=[5]\nhello2 0 0\nGET /2\n"},
    {"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n"
     "2\r\nde\r\n0\r\nTrailer: t\r\n\r\nGET /2 HTTP/1.1\r\n\r\n",
     "2 0 1\nPOST /x\n[Transfer-Encoding]=[chunked]\nabcde2 0 1\nGET /2\n"},
    {"GET / HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
     "\r\nGET /2 HTTP/1.1\r\n\r\n",
     "2 0 1\nGET /\n[Connection]=[Upgrade, HTTP2-Settings]\n[Upgrade]=[h2c]\n"
     "2 0 1\nGET /2\n"},
    {"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", "3 413 0\n"},
    {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n", ""},
    {"GET / HTTP/1.1\r\nHost : x\r\n\r\n", "3 400 0\n"},
    {"GET / HTTP/2.0\r\n\r\n", "3 505 0\n"},
    {"BREW / HTTP/1.1\r\n\r\n", "3 400 0\n"},
    {"hello", "3 400 0\n"},
    {"\x16\x03\x01\x02", "3 400 0\n"},
    {"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "3 501"},
    {"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", "3 "},
    {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
     "Transfer-Encoding: gzip, chunked\r\n\r\n",
     "3 501"},
    {"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
     "3 400 0\n"},
    {"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
     "3 400 0\n"},
    {"POST / HTTP/1.1\r\nContent-Length: -3\r\n\r\n", "3 400 0\n"},
    {"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", "3 4"},
    {"POST / HTTP/1.1\r\nExpect: tea\r\n\r\n", "3 417 0\n"},
};

static void cut_anywhere(void **state)
{
    struct sl_buf whole, cut;

    (void)state;
    sl_buf_init(&whole, 1 << 20);
    sl_buf_init(&cut, 1 << 20);
    for (size_t i = 0; i < SL_COUNTOF(messages); i++) {
        const char *t = messages[i].text, *want = messages[i].want;
        size_t n = strlen(t);

        sl_buf_reset(&whole);
        run_message(&whole, t, n, n);
        if (*want && strncmp(whole.p, want, strlen(want)))
            fail_msg("case %zu:\n%s\nwanted\n%s", i, whole.p, want);
        for (size_t step = 1; step < n; step++) {
            sl_buf_reset(&cut);
            run_message(&cut, t, n, step);
            assert_int_equal(cut.len, whole.len);
            if (cut.len)
                assert_memory_equal(cut.p, whole.p, whole.len);
        }
    }
    sl_buf_deinit(&whole);
    sl_buf_deinit(&cut);
}

/* --------------------------------------------------------------- the server */

static struct event_base *base;
static struct sl_http *http;
static struct {
    int n_handled, n_gone, n_ended, n_ready;
    struct sl_exchange *x; /* of /wait: answered by the test */
    char path[520];
    size_t n_body;
} seen;

static void on_gone(struct sl_exchange *x)
{
    assert_ptr_equal(x, seen.x);
    seen.n_gone++;
    seen.x = NULL;
}

static void on_ready(struct sl_exchange *x)
{
    (void)x;
    seen.n_ready++;
}

/* A request that was refused for want of a place, on a server whose answers
 * took 20 s, two at a time. */
static void refuse_waiting(struct sl_exchange *x)
{
    static struct sl_server s = {.max_seqs = 2};
    static struct sl_task t;

    sl_metrics_observe(&s.metrics, SL_H_INFERENCE, 20);
    t = (struct sl_task){.s = &s, .x = x};
    sl_answer_error(&t, 503, "overloaded", "waited");
}

static void handle(void *ctx, struct sl_exchange *x)
{
    static char big[BIG];

    (void)ctx;
    seen.n_handled++;
    snprintf(seen.path, sizeof(seen.path), "%s", x->path);
    seen.n_body = x->msg->body.len;
    if (!strcmp(x->path, "/wait")) {
        seen.x = x;
        x->gone = on_gone;
        x->ready = on_ready;
    } else if (!strcmp(x->path, "/big")) {
        sl_http_reply(x, 200, "text/plain", big, sizeof(big));
    } else if (!strcmp(x->path, "/waited")) {
        refuse_waiting(x);
    } else if (!strcmp(x->path, "/error")) {
        sl_error_reply(x, 404, NULL, "p", "no \"%s\"", "thing");
    } else {
        sl_http_reply(x, 200, "text/plain", x->path, strlen(x->path));
    }
}

static void on_ended(void *ctx, const struct sl_exchange *x)
{
    (void)ctx;
    assert_true(x->status != 0 || x->is_gone);
    seen.n_ended++;
}

static struct ssl_ctx_st *tls; /* or NULL */

static void start(const struct sl_http_limits *l)
{
    struct sl_http_opts o = {.host = "127.0.0.1",
                             .limits = *l,
                             .tls = tls,
                             .handle = handle,
                             .ended = on_ended};
    struct sl_err err = {0};

    memset(&seen, 0, sizeof(seen));
    base = event_base_new();
    if (sl_http_open(&http, base, &o, &err))
        fail_msg("%s", err.msg);
}

static void stop(void)
{
    sl_http_close(&http);
    event_base_free(base);
}

static void start_plain(void)
{
    struct sl_http_limits l;

    sl_http_limits_init(&l);
    l.max_body = 100000;
    start(&l);
}

static int dial(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(sl_http_port(http)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void turn(void)
{
    event_base_loop(base, EVLOOP_NONBLOCK);
}

static void say_n(int fd, const char *p, size_t n)
{
    uint64_t t0 = sl_clock_ns();

    while (n > 0 && sl_clock_s(t0, sl_clock_ns()) < LIMIT_S) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

        if (k < 0 && errno != EAGAIN)
            return; /* the server has had enough */
        if (k > 0) {
            p += k;
            n -= (size_t)k;
        }
        turn();
    }
}

static void say(int fd, const char *s)
{
    say_n(fd, s, strlen(s));
}

static struct sl_buf big_reply;
static char got[1 << 20];
static size_t n_got;

/* Read until `end` has come, or, with NULL, until the server closes. Returns
 * false when the connection was reset. */
static bool hear(int fd, const char *end)
{
    uint64_t t0 = sl_clock_ns();

    n_got = 0;
    got[0] = 0;
    while (sl_clock_s(t0, sl_clock_ns()) < LIMIT_S) {
        ssize_t k = recv(fd, got + n_got, sizeof(got) - 1 - n_got, 0);

        turn();
        if (k == 0) {
            if (end)
                fail_msg("closed before '%s':\n%s", end, got);
            return true;
        }
        if (k < 0 && errno == EAGAIN)
            continue;
        if (k < 0)
            return false;
        n_got += (size_t)k;
        got[n_got] = 0;
        if (end && strstr(got, end))
            return true;
    }
    fail_msg("no '%s' in time; got:\n%s", end ? end : "end", got);
    return false;
}

static void until(const int *n, int want)
{
    uint64_t t0 = sl_clock_ns();

    while (*n < want && sl_clock_s(t0, sl_clock_ns()) < LIMIT_S)
        turn();
    assert_int_equal(*n, want);
}

static void has(const char *s)
{
    if (!strstr(got, s))
        fail_msg("no '%s' in:\n%s", s, got);
}

static void replies(void **state)
{
    int fd;

    (void)state;
    start_plain();
    fd = dial();
    say(fd, "GET /one HTTP/1.1\r\nX-Request-Id: abc-1\r\n\r\n");
    hear(fd, "/one");
    has("HTTP/1.1 200 OK\r\n");
    has("X-Request-Id: abc-1\r\n");
    has("Content-Length: 4\r\n");
    has("Connection: keep-alive\r\n");
    has("Access-Control-Allow-Origin: *\r\n");
    /* The same connection again; HEAD has no body. */
    say(fd, "HEAD /two HTTP/1.1\r\nX-Request-Id: bad id\r\n\r\n"
            "GET //three/%41%2fb/?q HTTP/1.1\r\n\r\n");
    hear(fd, "/three/A/b");
    has("Content-Length: 4\r\n");
    assert_null(strstr(got, "/two"));
    assert_null(strstr(got, "bad id"));
    say(fd, "GET /waited HTTP/1.1\r\n\r\n");
    hear(fd, "\"code\":\"overloaded\"");
    has("HTTP/1.1 503 ");
    has("Retry-After: 11\r\n"); /* of a place in two, 20 s each */
    say(fd, "GET /error HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_true(hear(fd, NULL));
    has("HTTP/1.1 404 Not Found\r\n");
    has("Connection: close\r\n");
    has("\r\n\r\n{\"error\":{\"message\":\"no \\\"thing\\\"\",\"type\":"
        "\"not_found_error\",\"param\":\"p\",\"code\":null}}");
    close(fd);
    fd = dial();
    say(fd, "GET /old HTTP/1.0\r\n\r\n");
    assert_true(hear(fd, NULL));
    has("/old");
    close(fd);
    assert_int_equal(seen.n_ended, 6);
    stop();
}

/* What a message quotes may be anything, cut anywhere. */
static void messages_are_whole(void **state)
{
    static const struct {
        const char *quoted, *want;
    } cases[] = {
        {"a\xc3\xa9\xc3\xa9z", "'a\xc3\xa9' is wrong; drop it"},
        {"ab\xe2\x82\xac", "'ab' is wrong; drop it"},
        {"\xff\n\x1b[m", "'\\xff\\x0a\\x1b[' is wrong; drop it"},
        {"a\x80\x80", "'a\\x80\\x80' is wrong; drop it"},
    };
    char longer[1200];
    struct sl_refusal r;

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(cases); i++) {
        sl_refuse(&r, 400, NULL, NULL, "'%.4s' is wrong; drop it",
                  cases[i].quoted);
        assert_string_equal(r.message, cases[i].want);
    }
    for (size_t i = 0; i + 2 < sizeof(longer); i += 2)
        memcpy(longer + i, "\xc3\xa9", 3);
    sl_refuse(&r, 400, NULL, longer, "a%s", longer);
    assert_int_equal(strlen(r.message), 999);
    assert_int_equal(strlen(r.param), 126);
    /* Whom it helps to try again is told when. */
    sl_refuse(&r, 400, NULL, NULL, "no");
    assert_int_equal(r.retry_s, 0);
    sl_refuse(&r, 429, NULL, NULL, "no");
    assert_int_equal(r.retry_s, 1);
    sl_refuse(&r, 503, "draining", NULL, "no");
    assert_int_equal(r.retry_s, 5);
    sl_refuse(&r, 503, "engine_dead", NULL, "no");
    assert_int_equal(r.retry_s, 0);
}

static void pipelined(void **state)
{
    char *one, *two;
    int fd;

    (void)state;
    start_plain();
    fd = dial();
    say(fd, "GET /wait HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n"
            "POST /c HTTP/1.1\r\nContent-Length: 3\r\n\r\nxyzGET /d ");
    until(&seen.n_handled, 1);
    say(fd, "HTTP/1.1\r\n\r\n");
    for (int i = 0; i < 20; i++)
        turn();
    assert_int_equal(seen.n_handled, 1);
    assert_int_equal(seen.n_gone, 0);
    sl_http_reply(seen.x, 200, "text/plain", "first", 5);
    hear(fd, "/d");
    one = strstr(got, "first");
    two = strstr(got, "/b");
    assert_true(one && two && one < two && strstr(two, "/c"));
    assert_int_equal(seen.n_handled, 4);
    close(fd);
    stop();
}

static void reset(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(fd);
}

/* n requests, together more than is kept while an answer is sent; returns the
 * bytes of one. */
static size_t many_asks(char *out, size_t n)
{
    char ask[1200];
    size_t len = (size_t)snprintf(ask, sizeof(ask),
                                  "GET /big HTTP/1.1\r\nX: %01000d\r\n\r\n", 0);

    for (size_t i = 0; i < n; i++)
        memcpy(out + i * len, ask, len);
    return len;
}

/* Answers to one who asks and asks and does not read stay unmade; when he does
 * read, he gets them all. */
static void answers_wait(void **state)
{
    enum { N = 400 };
    static char asks[N * 1200];
    uint64_t t0 = sl_clock_ns();
    size_t total = 0, n_ask;
    int fd, before;

    (void)state;
    start_plain();
    n_ask = many_asks(asks, N);
    fd = dial();
    say_n(fd, asks, N * n_ask);
    for (int i = 0; i < 2000; i++)
        turn();
    before = seen.n_handled;
    assert_in_range(before, 1, N / 2);
    while (total < (size_t)N * BIG && sl_clock_s(t0, sl_clock_ns()) < LIMIT_S) {
        ssize_t k = recv(fd, got, sizeof(got), 0);

        total += k > 0 ? (size_t)k : 0;
        turn();
    }
    assert_int_equal(seen.n_handled, N);
    assert_int_equal(seen.n_ended, N);
    close(fd);
    /* One who half-closes behind them gets them, too, and then the end. */
    fd = dial();
    say_n(fd, asks, 3 * n_ask);
    shutdown(fd, SHUT_WR);
    assert_true(hear(fd, NULL));
    assert_int_equal(seen.n_handled, N + 3);
    assert_in_range(n_got, 3 * BIG, sizeof(got));
    close(fd);
    stop();
}

/* Sends more than is kept while his request is worked on: he is still seen to
 * leave, the loop rests, and the reply is the last. */
static void far_ahead(void **state)
{
    static char ahead[900000];
    struct timeval rest = {.tv_usec = 50000};
    clock_t cpu;
    int fd;

    (void)state;
    start_plain();
    memset(ahead, 'a', sizeof(ahead));
    for (int how = 0; how < 3; how++) {
        fd = dial();
        say(fd, "GET /wait HTTP/1.1\r\n\r\n");
        until(&seen.n_handled, how + 1);
        say_n(fd, ahead, sizeof(ahead));
        cpu = clock();
        event_base_loopexit(base, &rest);
        event_base_dispatch(base);
        assert_true(clock() - cpu < CLOCKS_PER_SEC / 40);
        assert_int_equal(seen.n_gone, how < 2 ? how : 2);
        if (how == 2) {
            sl_http_reply(seen.x, 200, "text/plain", "the last", 8);
            assert_true(hear(fd, NULL));
            has("the last");
            close(fd);
        } else if (how) {
            reset(fd);
        } else {
            close(fd);
        }
        until(&seen.n_gone, how < 1 ? 1 : 2);
    }
    stop();
}

static void client_leaves(void **state)
{
    int fd;

    (void)state;
    start_plain();
    for (int how = 0; how < 4; how++) {
        fd = dial();
        say(fd, "GET /wait HTTP/1.1\r\n\r\n");
        until(&seen.n_handled, how + 1);
        if (how & 1) /* bytes of a next request are no end of file */
            say(fd, "GET /next HTT");
        for (int i = 0; i < 20; i++)
            turn();
        assert_int_equal(seen.n_gone, how);
        if (how & 2)
            reset(fd);
        else
            close(fd);
        until(&seen.n_gone, how + 1);
        assert_int_equal(sl_http_n_conn(http), 0);
    }
    /* Half a request, and gone. */
    fd = dial();
    say(fd, "POST /x HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
    close(fd);
    for (int i = 0; i < 50 && sl_http_n_conn(http); i++)
        turn();
    assert_int_equal(sl_http_n_conn(http), 0);
    assert_int_equal(seen.n_handled, 4);
    assert_int_equal(seen.n_ended, 4);
    stop();
}

static void refusals(void **state)
{
    static char big[1 << 20];
    int fd;

    (void)state;
    start_plain();
    memset(big, 'a', sizeof(big) - 1);
    fd = dial();
    say(fd, "GET / HTTP/1.1\r\nX: ");
    say_n(fd, big, 70000);
    assert_true(hear(fd, NULL));
    has("HTTP/1.1 431 ");
    has("\"error\"");
    close(fd);
    fd = dial();
    say(fd, "GET / HTTP/1.1\r\n");
    for (int i = 0; i < 257; i++)
        say(fd, "A: b\r\n");
    assert_true(hear(fd, NULL));
    has("HTTP/1.1 431 ");
    close(fd);
    /* One byte too many; the client sends all of it before it listens. */
    fd = dial();
    say(fd, "POST /x HTTP/1.1\r\nContent-Length: 100001\r\n\r\n");
    say_n(fd, big, 100001);
    assert_true(hear(fd, NULL));
    has("HTTP/1.1 413 ");
    has("request_too_large");
    has("Connection: close");
    close(fd);
    fd = dial();
    say(fd, "POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n186a1\r\n");
    say_n(fd, big, 100001);
    assert_true(hear(fd, NULL));
    has("HTTP/1.1 413 ");
    close(fd);
    assert_int_equal(seen.n_handled, 0);
    /* And exactly the limit. */
    fd = dial();
    say(fd, "POST /x HTTP/1.1\r\nContent-Length: 100000\r\n\r\n");
    say_n(fd, big, 100000);
    hear(fd, "/x");
    assert_int_equal(seen.n_body, 100000);
    close(fd);
    fd = dial();
    say(fd, "nonsense\r\n\r\n");
    assert_true(hear(fd, NULL));
    has("HTTP/1.1 400 Bad Request\r\n");
    has("invalid_request_error");
    close(fd);
    stop();
}

static void expects(void **state)
{
    int fd;

    (void)state;
    start_plain();
    fd = dial();
    say(fd, "POST /x HTTP/1.1\r\nContent-Length: 3\r\n"
            "Expect: 100-continue\r\n\r\n");
    hear(fd, "HTTP/1.1 100 Continue\r\n\r\n");
    say(fd, "abc");
    hear(fd, "/x");
    assert_int_equal(seen.n_body, 3);
    /* Not when the body is too long. */
    say(fd, "POST /x HTTP/1.1\r\nContent-Length: 300000\r\n"
            "Expect: 100-continue\r\n\r\n");
    assert_true(hear(fd, NULL));
    has("413");
    assert_null(strstr(got, "100 Continue"));
    close(fd);
    stop();
}

static void deadlines(void **state)
{
    struct sl_http_limits l;
    int head, body, idle, drip;
    uint64_t t0;

    (void)state;
    sl_http_limits_init(&l);
    l.header_ms = l.body_ms = l.idle_ms = 150;
    start(&l);
    head = dial();
    body = dial();
    idle = dial();
    drip = dial();
    say(head, "GET / HTTP/1.1\r\nHost:");
    say(body, "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc");
    /* A byte now and then does not help. */
    t0 = sl_clock_ns();
    say(drip, "GET / HTTP/1.1\r\nX:");
    while (sl_clock_s(t0, sl_clock_ns()) < 0.25) {
        usleep(10000);
        if (send(drip, "a", 1, MSG_NOSIGNAL) < 0)
            break;
        turn();
    }
    assert_true(hear(drip, NULL));
    has("HTTP/1.1 408 ");
    assert_true(hear(head, NULL));
    has("HTTP/1.1 408 ");
    has("timeout_error");
    assert_true(hear(body, NULL));
    has("HTTP/1.1 408 ");
    assert_true(hear(idle, NULL));
    assert_int_equal(n_got, 0);
    assert_true(sl_clock_s(t0, sl_clock_ns()) < 5);
    close(head);
    close(body);
    close(idle);
    close(drip);
    stop();
}

/* However steadily it comes: a body has a deadline for all of it. */
static void body_takes_too_long(void **state)
{
    static char step[SL_HTTP_BODY_STEP];
    struct sl_http_limits l;
    uint64_t t0;
    int fd;

    (void)state;
    sl_http_limits_init(&l);
    l.body_ms = 100;
    l.body_all_ms = 150;
    start(&l);
    fd = dial();
    say(fd, "POST / HTTP/1.1\r\nContent-Length: 60000000\r\n\r\n");
    t0 = sl_clock_ns();
    while (seen.n_ended == 0 && sl_clock_s(t0, sl_clock_ns()) < 1) {
        say_n(fd, step, sizeof(step));
        usleep(10000);
        turn();
    }
    assert_int_equal(seen.n_ended, 1);
    assert_true(hear(fd, NULL));
    has("HTTP/1.1 408 ");
    close(fd);
    stop();
}

static void streams(void **state)
{
    struct sl_http_limits l;
    int fd;

    (void)state;
    sl_http_limits_init(&l);
    l.heartbeat_ms = 30;
    start(&l);
    fd = dial();
    say(fd, "GET /wait HTTP/1.1\r\n\r\n");
    until(&seen.n_handled, 1);
    sl_http_stream(seen.x, 200, "text/event-stream; charset=utf-8");
    hear(fd, "\r\n\r\n");
    has("Transfer-Encoding: chunked\r\n");
    assert_null(strstr(got, "Content-Length"));
    sl_http_write(seen.x, "data: 1\n\n", 9);
    hear(fd, "\n\n");
    assert_string_equal(got, "9\r\ndata: 1\n\n\r\n");
    hear(fd, "\r\n\n\r\n"); /* nothing is said for a while */
    assert_memory_equal(got, "1\r\n\n\r\n", 6);
    sl_http_write(seen.x, "data: [DONE]\n\n", 14);
    sl_http_end(seen.x);
    hear(fd, "0\r\n\r\n");
    /* The connection lives on. HTTP/1.0 has no chunks and closes. */
    say(fd, "GET /wait HTTP/1.0\r\n\r\n");
    until(&seen.n_handled, 2);
    sl_http_stream(seen.x, 200, "text/event-stream");
    sl_http_write(seen.x, "data: 2\n\n", 9);
    sl_http_end(seen.x);
    assert_true(hear(fd, NULL));
    has("\r\n\r\ndata: 2\n\n");
    assert_null(strstr(got, "chunked"));
    close(fd);
    /* A stream that cannot be finished does not look finished. */
    fd = dial();
    say(fd, "GET /wait HTTP/1.1\r\n\r\n");
    until(&seen.n_handled, 3);
    sl_http_stream(seen.x, 200, "text/event-stream");
    sl_http_write(seen.x, "data: 3\n\n", 9);
    hear(fd, "data: 3\n\n");
    sl_http_abort(seen.x);
    assert_false(hear(fd, NULL));
    close(fd);
    assert_int_equal(seen.n_ended, 3);
    stop();
}

/* libevent's calls end here first: whether it asks when a socket has room. */
static int n_ctl;

__attribute__((visibility("default"))) int epoll_ctl(int ep, int op, int fd,
                                                     struct epoll_event *e)
{
    n_ctl++;
    return (int)syscall(SYS_epoll_ctl, ep, op, fd, e);
}

/* What the kernel has room for it is given, and asked nothing. */
static void events_cost_one_call(void **state)
{
    int fd, n;

    (void)state;
    start_plain();
    n = n_ctl;
    fd = dial();
    say(fd, "GET /wait HTTP/1.1\r\n\r\n");
    until(&seen.n_handled, 1);
    assert_true(n_ctl > n); /* it counts at all */
    sl_http_stream(seen.x, 200, "text/event-stream");
    sl_http_write(seen.x, "data: 0\n\n", 9);
    hear(fd, "data: 0\n\n\r\n");
    n = n_ctl;
    for (int i = 0; i < 50; i++) {
        sl_http_write(seen.x, "data: 1\n\n", 9);
        sl_http_write(seen.x, "data: 2\n\n", 9);
        hear(fd, "data: 2\n\n\r\n"); /* when the kernel has brought it */
        assert_int_equal(n_got, 28);
    }
    sl_http_end(seen.x);
    hear(fd, "0\r\n\r\n");
    assert_int_equal(n_ctl, n);
    close(fd);
    stop();
}

static void slow_reader(void **state)
{
    static char big[100000];
    int fd, n = 0;
    size_t total = 0;
    uint64_t t0 = sl_clock_ns();

    (void)state;
    start_plain();
    memset(big, 'x', sizeof(big));
    fd = dial();
    say(fd, "GET /wait HTTP/1.0\r\n\r\n");
    until(&seen.n_handled, 1);
    sl_http_stream(seen.x, 200, "text/plain");
    for (; n < 1000 && !sl_http_is_full(seen.x); n++) {
        seen.n_ready = 0; /* the kernel may have made room meanwhile */
        sl_http_write(seen.x, big, sizeof(big));
        for (int i = 0; i < 5; i++)
            turn();
    }
    assert_true(n < 1000); /* at some time the kernel takes no more */
    assert_int_equal(seen.n_ready, 0);
    while (!seen.n_ready && sl_clock_s(t0, sl_clock_ns()) < LIMIT_S) {
        ssize_t k = recv(fd, got, sizeof(got), 0);

        total += k > 0 ? (size_t)k : 0;
        turn();
    }
    assert_int_equal(seen.n_ready, 1);
    sl_http_end(seen.x);
    hear(fd, NULL);
    close(fd);
    stop();
    /* One who never reads is cut off. */
    struct sl_http_limits l;

    sl_http_limits_init(&l);
    l.write_ms = 100;
    start(&l);
    fd = dial();
    say(fd, "GET /wait HTTP/1.1\r\n\r\n");
    until(&seen.n_handled, 1);
    sl_http_stream(seen.x, 200, "text/plain");
    for (int i = 0; i < 200; i++)
        sl_http_write(seen.x, big, sizeof(big));
    until(&seen.n_gone, 1);
    close(fd);
    stop();
}

/* ---------------------------------------------------------------------- TLS */

/* A key and a certificate of its own, in files, as an operator has them. */
static void write_pair(const char *cert, const char *key)
{
    FILE *c = fopen(cert, "w"), *k = fopen(key, "w");
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    X509 *x = X509_new();

    X509_gmtime_adj(X509_getm_notBefore(x), 0);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, pair);
    assert_true(X509_sign(x, pair, EVP_sha256()) > 0);
    assert_true(PEM_write_X509(c, x));
    assert_true(PEM_write_PrivateKey(k, pair, NULL, NULL, 0, NULL, NULL));
    fclose(c);
    fclose(k);
    X509_free(x);
    EVP_PKEY_free(pair);
}

static void open_tls(struct ssl_ctx_st **out)
{
    char cert[] = "/tmp/sluice-cert-XXXXXX", key[] = "/tmp/sluice-key-XXXXXX";
    struct sl_err err;

    close(mkstemp(cert));
    close(mkstemp(key));
    write_pair(cert, key);
    if (sl_tls_open(out, cert, key, &err))
        fail_msg("%s", err.msg);
    unlink(cert);
    unlink(key);
}

static void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

/* Keys and certificate are read again: both count, or neither, and the message
 * names each that is to blame. */
static void trust_is_whole(void **state)
{
    char cert[] = "/tmp/sluice-cert-XXXXXX", key[] = "/tmp/sluice-key-XXXXXX";
    char keys[] = "/tmp/sluice-keys-XXXXXX";
    struct sl_trust_from from = {{NULL, 0, keys}, cert, key};
    struct sl_trust t = {0};
    struct ssl_ctx_st *first;
    char hash[SL_KEYS_HASH];
    struct sl_err err;

    (void)state;
    close(mkstemp(cert));
    close(mkstemp(key));
    close(mkstemp(keys));
    write_pair(cert, key);
    put_file(keys, "one\n");
    assert_int_equal(sl_trust_load(&t, &from, &err), 0);
    assert_non_null(first = t.tls);
    memcpy(hash, t.keys.hash.p, sizeof(hash));
    for (int bad = 1; bad < 4; bad++) { /* the keys, the certificate, both */
        write_pair(cert, key);
        put_file(keys, bad & 1 ? "# none\n" : "two\n");
        if (bad & 2)
            put_file(cert, "no certificate\n");
        assert_int_equal(sl_trust_load(&t, &from, &err), SL_EARG);
        assert_true(t.tls == first && t.keys.n == 1);
        assert_memory_equal(hash, t.keys.hash.p, sizeof(hash));
        assert_int_equal(strstr(err.msg, keys) != NULL, bad & 1);
        assert_int_equal(strstr(err.msg, cert) != NULL, bad > 1);
    }
    write_pair(cert, key);
    assert_int_equal(sl_trust_load(&t, &from, &err), SL_EARG);
    put_file(keys, "two\n");
    assert_int_equal(sl_trust_load(&t, &from, &err), 0);
    assert_memory_not_equal(hash, t.keys.hash.p, sizeof(hash));
    sl_trust_deinit(&t);
    unlink(cert);
    unlink(key);
    unlink(keys);
}

/* Do `what` with the server's loop turning; returns SSL_get_error. */
static int speak(SSL *s, int (*what)(SSL *s))
{
    uint64_t t0 = sl_clock_ns();
    int e;

    do {
        turn();
        e = SSL_get_error(s, what(s));
    } while ((e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) &&
             sl_clock_s(t0, sl_clock_ns()) < LIMIT_S);
    return e;
}

static int read_all(SSL *s)
{
    int n = SSL_read(s, got + n_got, (int)(sizeof(got) - 1 - n_got));

    if (n <= 0)
        return n;
    n_got += (size_t)n;
    got[n_got] = 0;
    return read_all(s);
}

/* A request; the answer is not decrypted. */
static void ask_secure(SSL_CTX *t, int fd, const char *text)
{
    SSL *s = SSL_new(t);

    SSL_set_fd(s, fd);
    assert_int_equal(speak(s, SSL_connect), SSL_ERROR_NONE);
    assert_int_equal(SSL_write(s, text, (int)strlen(text)), (int)strlen(text));
    SSL_free(s);
}

/* A connection over TLS, on *fd, that has sent `ask`. */
static SSL *ask_tls(SSL_CTX *t, int *fd, const char *ask)
{
    SSL *s = SSL_new(t);

    *fd = dial();
    SSL_set_fd(s, *fd);
    assert_int_equal(speak(s, SSL_connect), SSL_ERROR_NONE);
    assert_int_equal(SSL_write(s, ask, (int)strlen(ask)), (int)strlen(ask));
    return s;
}

/* No connection is left after some turns. */
static void all_leave(void)
{
    for (int k = 0; k < 50 && sl_http_n_conn(http); k++)
        turn();
    assert_int_equal(sl_http_n_conn(http), 0);
}

/* A TLS connection says that it ends, and does so at once; one that does not
 * know of TLS is told. */
static void tls_ends(void **state)
{
    static const char *const ask[] = {
        "GET /last HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET /next HTTP/1.1\r\n\r\n",
    };
    SSL_CTX *t = SSL_CTX_new(TLS_client_method());
    struct ssl_ctx_st *newer = NULL;
    EVP_PKEY *key[2];
    struct sl_http_limits l;
    int fd;

    (void)state;
    open_tls(&tls);
    sl_http_limits_init(&l);
    l.idle_ms = 1000; /* of the shaking of hands too, on a busy machine */
    start(&l);
    for (size_t i = 0; i < SL_COUNTOF(ask); i++) {
        SSL *s = ask_tls(t, &fd, ask[i]);

        n_got = 0;
        assert_int_equal(speak(s, read_all), SSL_ERROR_ZERO_RETURN);
        key[i] = X509_get_pubkey(SSL_get0_peer_certificate(s));
        if (i == 0) { /* the operator has another certificate now */
            open_tls(&newer);
            sl_http_set_tls(http, newer);
            sl_tls_close(&tls);
        }
        has(i ? "/next" : "/last");
        SSL_free(s);
        close(fd);
        all_leave();
    }
    fd = dial();
    say(fd, "GET / HTTP/1.1\r\nHost: me\r\n\r\n");
    assert_true(hear(fd, NULL));
    has("HTTP/1.1 400 ");
    has("https://");
    close(fd);
    stop();
    assert_int_equal(EVP_PKEY_eq(key[0], key[1]), 0);
    EVP_PKEY_free(key[0]);
    EVP_PKEY_free(key[1]);
    SSL_CTX_free(t);
    sl_tls_close(&newer);
}

/* Read a little of `fd` now and then, for longer than `write_ms`; the answer
 * began at t0. Returns false when this process itself was kept waiting, so that
 * nothing can be said. */
static bool sip(int fd, uint32_t write_ms, uint64_t t0)
{
    uint64_t last = t0, now = t0;

    while (sl_clock_s(t0, now) < 4e-3 * write_ms) {
        (void)!recv(fd, got, 20000, 0);
        usleep(5000);
        turn();
        now = sl_clock_ns();
        if (sl_clock_s(last, now) > 5e-4 * write_ms)
            return false;
        last = now;
    }
    return true;
}

/* A little now and then is enough, of a stream or of a whole reply, beyond
 * every deadline; nothing at all is not. Returns what sip() does. */
static bool reads_slowly(const struct sl_http_limits *l, SSL_CTX *t, bool whole)
{
    static const char ask[] = "GET /wait HTTP/1.1\r\n\r\n";
    int fd, small = 65536;
    uint64_t t0;
    bool calm;

    start(l);
    fd = dial();
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    if (tls)
        ask_secure(t, fd, ask);
    else
        say(fd, ask);
    until(&seen.n_handled, 1);
    t0 = sl_clock_ns();
    if (whole) {
        sl_http_reply(seen.x, 200, "text/plain", big_reply.p, big_reply.len);
    } else {
        sl_http_stream(seen.x, 200, "text/plain");
        sl_http_write(seen.x, big_reply.p, big_reply.len);
    }
    calm = sip(fd, l->write_ms, t0);
    if (calm) {
        assert_int_equal(sl_http_n_conn(http), 1);
        assert_int_equal(seen.n_gone, 0);
    }
    t0 = sl_clock_ns();
    while (sl_http_n_conn(http) && sl_clock_s(t0, sl_clock_ns()) < LIMIT_S)
        turn();
    assert_int_equal(sl_http_n_conn(http), 0);
    close(fd);
    stop();
    return calm;
}

static void slow_but_alive(void **state)
{
    static char big[200000];
    SSL_CTX *t = SSL_CTX_new(TLS_client_method());
    struct sl_http_limits l;

    (void)state;
    sl_http_limits_init(&l);
    l.write_ms = l.linger_ms = 80;
    l.idle_ms = 1000; /* of the shaking of hands too */
    l.heartbeat_ms = 20;
    sl_buf_init(&big_reply, 8 << 20);
    for (int i = 0; i < 30; i++)
        sl_buf_add(&big_reply, big, sizeof(big));
    for (int how = 0; how < 4; how++) {
        int tries = 1;

        if (how == 2) /* the same over TLS */
            open_tls(&tls);
        while (!reads_slowly(&l, t, how & 1) && tries++ < 50)
            continue;
        if (tries > 50)
            printf("this machine is too busy to read slowly: not tried\n");
    }
    sl_buf_deinit(&big_reply);
    SSL_CTX_free(t);
    sl_tls_close(&tls);
}

/* A client that ends TLS behind its requests, before it has read anything: the
 * answers come, and the connection ends. */
static void tls_ends_behind_asks(void **state)
{
    static const char *const ask[] = {
        "GET /one HTTP/1.1\r\n\r\nGET /two HTTP/1.1\r\n\r\n",
        "GET /big HTTP/1.1\r\n\r\nGET /two HTTP/1.1\r\n\r\n",
    };
    static char asks[50 * 1200];
    SSL_CTX *t = SSL_CTX_new(TLS_client_method());
    int fd;

    (void)state;
    open_tls(&tls);
    start_plain();
    for (size_t i = 0; i < SL_COUNTOF(ask); i++) {
        SSL *s = ask_tls(t, &fd, ask[i]);

        (void)SSL_shutdown(s);
        n_got = 0;
        assert_int_equal(speak(s, read_all), SSL_ERROR_ZERO_RETURN);
        assert_int_equal(seen.n_handled, 2 * i + 2);
        assert_memory_equal(got + n_got - 4, "/two", 4);
        all_leave();
        SSL_free(s);
        close(fd);
    }
    /* One who is gone altogether: what is written to him fails. */
    asks[50 * many_asks(asks, 50)] = 0;
    fd = dial();
    ask_secure(t, fd, asks);
    for (int k = 0; k < 5; k++)
        turn();
    close(fd);
    for (int k = 0; k < 100 && sl_http_n_conn(http); k++)
        turn();
    assert_int_equal(sl_http_n_conn(http), 0);
    stop();
    SSL_CTX_free(t);
    sl_tls_close(&tls);
}

/* Requests far ahead over TLS: none is lost between OpenSSL and us. */
static void tls_far_ahead(void **state)
{
    enum { N = 300 };
    static char asks[N * 1200];
    SSL_CTX *t = SSL_CTX_new(TLS_client_method());
    uint64_t t0 = sl_clock_ns();
    size_t sent = 0, total = 0, all;
    SSL *s;
    int fd;

    (void)state;
    open_tls(&tls);
    start_plain();
    all = N * many_asks(asks, N);
    fd = dial();
    s = SSL_new(t);
    SSL_set_fd(s, fd);
    SSL_set_mode(s, SSL_MODE_ENABLE_PARTIAL_WRITE);
    assert_int_equal(speak(s, SSL_connect), SSL_ERROR_NONE);
    while (total < (size_t)N * BIG && sl_clock_s(t0, sl_clock_ns()) < LIMIT_S) {
        int k = sent < all ? SSL_write(s, asks + sent, (int)(all - sent)) : 0;

        sent += k > 0 ? (size_t)k : 0;
        turn();
        /* He writes all before he reads. */
        if (sent < all && sl_clock_s(t0, sl_clock_ns()) < 0.2)
            continue;
        k = SSL_read(s, got, sizeof(got));
        total += k > 0 ? (size_t)k : 0;
    }
    assert_int_equal(seen.n_handled, N);
    SSL_free(s);
    close(fd);
    stop();
    SSL_CTX_free(t);
    sl_tls_close(&tls);
}

static void draining(void **state)
{
    int idle, busy;

    (void)state;
    start_plain();
    idle = dial();
    busy = dial();
    say(busy, "GET /wait HTTP/1.1\r\n\r\n");
    until(&seen.n_handled, 1);
    sl_http_drain(http);
    assert_true(hear(idle, NULL));
    sl_http_reply(seen.x, 200, "text/plain", "late", 4);
    assert_true(hear(busy, NULL));
    has("Connection: close\r\n");
    has("late");
    close(idle);
    close(busy);
    stop();
}

static void many(void **state)
{
    enum { N = 300 };
    int fd[N];

    (void)state;
    start_plain();
    for (int i = 0; i < N; i++) {
        fd[i] = dial();
        turn();
    }
    for (int i = 0; i < N; i++)
        say(fd[i], "GET /x HTTP/1.1\r\n\r\n");
    for (int i = 0; i < N; i++)
        hear(fd[i], "/x");
    assert_int_equal(sl_http_n_conn(http), N);
    for (int i = 0; i < N; i++)
        close(fd[i]);
    assert_int_equal(seen.n_ended, N);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(replies),
        cmocka_unit_test(pipelined),
        cmocka_unit_test(client_leaves),
        cmocka_unit_test(refusals),
        cmocka_unit_test(expects),
        cmocka_unit_test(deadlines),
        cmocka_unit_test(streams),
        cmocka_unit_test(events_cost_one_call),
        cmocka_unit_test(slow_reader),
        cmocka_unit_test(draining),
        cmocka_unit_test(many),
        cmocka_unit_test(answers_wait),
        cmocka_unit_test(messages_are_whole),
        cmocka_unit_test(far_ahead),
        cmocka_unit_test(slow_but_alive),
        cmocka_unit_test(body_takes_too_long),
        cmocka_unit_test(trust_is_whole),
        cmocka_unit_test(tls_ends),
        cmocka_unit_test(tls_far_ahead),
        cmocka_unit_test(tls_ends_behind_asks),
    };

    sl_term_init(); /* a peer who is gone is an error, not a signal */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
