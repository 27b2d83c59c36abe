/* bundle/client.c - many requests to one hub, with patience; see client.h
 *
 * The state of a job:
 *
 *              begin             finish: 2xx, done
 *   WAITING ----------> RUNNING ------------------> ENDED
 *      ^                   |  finish: redirection: RUNNING again
 *      +-------------------+
 *        finish: may pass       finish: refused, out of tries ---> ENDED
 *
 * Retries: what may pass is tried again after 1, 2, 4, 8 s, each times a random
 * number from one half to one, so that many clients do not come back together.
 * Five tries without progress are the end; a download that has grown starts the
 * count anew, so over a bad line it ends as long as it moves.
 *
 * libcurl does not follow redirections itself: each hop is judged here.
 */
#include "bundle/client.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/num.h"

#define MAX_HOPS 5
#define MAX_TRIES                                                              \
    5 /* without progress; these and the times: bundles.md 4.6                 \
       */
#define FIRST_WAIT_MS 1000
#define MAX_WAIT_MS 8000
#define MAX_RETRY_AFTER_S 600
#define CONNECT_S 10
#define LATER_NS 100000000 /* start said: not yet */
#define POLL_MS 100

enum { WAITING, RUNNING, ENDED };

struct sl_client {
    struct sl_client_opts o;
    CURLM *multi;
    bool public_hub;
    unsigned hurry_s; /* 0: patient */
    bool soon;        /* a start, or who waits for an end, wants a turn now */
};

/* --------------------------------------------------------------- fields */

int64_t sl_client_retry_after(const char *value, int64_t now_s)
{
    int64_t s;

    if (sl_num_i64(&s, value, strlen(value), 0, INT64_MAX, "", NULL)) {
        s = (int64_t)curl_getdate(value, NULL);
        if (s < 0)
            return -1;
        s = s > now_s ? s - now_s : 0;
    }
    return s < MAX_RETRY_AFTER_S ? s : MAX_RETRY_AFTER_S;
}

/* "api";r=0;t=55 */
int64_t sl_client_rate_limit(const char *value)
{
    const char *t = strstr(value, ";t=");
    int64_t s;

    if (!t)
        return -1;
    t += 3;
    if (sl_num_i64(&s, t, strspn(t, "0123456789"), 0, INT64_MAX, "", NULL))
        return -1;
    return s < MAX_RETRY_AFTER_S ? s : MAX_RETRY_AFTER_S;
}

/* W/"abc" -> abc */
static void bare_etag(char out[SL_CLIENT_FIELD], const char *s)
{
    size_t n;

    if (s[0] == 'W' && s[1] == '/')
        s += 2;
    n = strlen(s);
    if (n >= 2 && s[0] == '"' && s[n - 1] == '"') {
        s++;
        n -= 2;
    }
    snprintf(out, SL_CLIENT_FIELD, "%.*s", (int)n, s);
}

static int64_t number(const char *s)
{
    int64_t v;

    return sl_num_i64(&v, s, strlen(s), 0, INT64_MAX, "", NULL) ? -1 : v;
}

static void keep(struct sl_client_head *h, const char *name, const char *v)
{
    if (!strcmp(name, "x-linked-etag")) {
        bare_etag(h->etag, v);
        h->linked = true;
    } else if (!strcmp(name, "etag") && !h->linked) {
        bare_etag(h->etag, v);
    } else if (!strcmp(name, "x-repo-commit")) {
        snprintf(h->commit, sizeof(h->commit), "%s", v);
    } else if (!strcmp(name, "location")) {
        snprintf(h->location, sizeof(h->location), "%s", v);
    } else if (!strcmp(name, "link")) {
        snprintf(h->link, sizeof(h->link), "%s", v);
    } else if (!strcmp(name, "x-error-code")) {
        snprintf(h->error_code, sizeof(h->error_code), "%s", v);
    } else if (!strcmp(name, "x-error-message")) {
        snprintf(h->error_text, sizeof(h->error_text), "%s", v);
    } else if (!strcmp(name, "content-range")) {
        snprintf(h->range, sizeof(h->range), "%s", v);
    } else if (!strcmp(name, "content-encoding")) {
        snprintf(h->encoding, sizeof(h->encoding), "%s", v);
    } else if (!strcmp(name, "content-length")) {
        h->length = number(v);
    } else if (!strcmp(name, "x-linked-size")) {
        h->linked_size = number(v);
    } else if (!strcmp(name, "date")) {
        h->date_s = (int64_t)curl_getdate(v, NULL);
    } else if (!strcmp(name, "retry-after")) {
        h->retry_s = sl_client_retry_after(v, (int64_t)time(NULL));
    } else if (!strcmp(name, "ratelimit") && h->retry_s < 0) {
        h->retry_s = sl_client_rate_limit(v);
    }
}

static void reset_head(struct sl_job *j)
{
    j->in =
        (struct sl_client_head){.length = -1,
                                .linked_size = -1,
                                .retry_s = -1,
                                .date_s = -1};
    j->text[0] = 0;
}

/* Remember what a call-back said; true when the transfer may go on. */
static bool go_on(struct sl_job *j, int rc)
{
    if (rc)
        j->rc = rc;
    return rc == 0;
}

static bool is_good(long status)
{
    return status >= 200 && status < 300;
}

/* One line of the head, as libcurl hands it over. */
static size_t on_field(char *p, size_t size, size_t n, void *ctx)
{
    struct sl_job *j = ctx;
    char line[SL_CLIENT_URL], *colon, *v;
    size_t len = size * n, end = len;

    while (end > 0 && (p[end - 1] == '\r' || p[end - 1] == '\n'))
        end--;
    if (end == 0) {
        curl_easy_getinfo(j->easy, CURLINFO_RESPONSE_CODE, &j->status);
        if (is_good(j->status) && j->head && !go_on(j, j->head(j, &j->err)))
            return 0;
        return len;
    }
    if (end >= sizeof(line))
        return len; /* longer than anything that is kept */
    memcpy(line, p, end);
    line[end] = 0;
    if (!strncmp(line, "HTTP/", 5)) {
        reset_head(j);
        return len;
    }
    colon = strchr(line, ':');
    if (!colon)
        return len;
    *colon = 0;
    for (char *c = line; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c + 'a' - 'A');
    v = colon + 1;
    v += strspn(v, " \t");
    keep(&j->in, line, v);
    return len;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
    struct sl_job *j = ctx;
    size_t len = size * n, old = strlen(j->text), room;

    if (is_good(j->status)) {
        return !j->body || go_on(j, j->body(j, p, len, &j->err)) ? len : 0;
    }
    /* The words of a refusal; the rest is not read: finish() takes that for
     * the end. */
    room = sizeof(j->text) - 1 - old;
    memcpy(j->text + old, p, sl_min(len, room));
    j->text[old + sl_min(len, room)] = 0;
    return len > room ? 0 : len;
}

/* The address that is about to be connected to. */
static curl_socket_t on_socket(void *ctx, curlsocktype purpose,
                               struct curl_sockaddr *a)
{
    struct sl_job *j = ctx;
    const unsigned char *ip = NULL;
    size_t n = 0;

    (void)purpose;
    if (a->family == AF_INET) {
        ip = (const unsigned char *)&(
                 (const struct sockaddr_in *)(const void *)&a->addr)
                 ->sin_addr;
        n = 4;
    } else if (a->family == AF_INET6) {
        ip = (const unsigned char *)&(
                 (const struct sockaddr_in6 *)(const void *)&a->addr)
                 ->sin6_addr;
        n = 16;
    }
    if (j->hops > 0 && j->http->public_hub && !j->http->o.places->proxied &&
        ip && sl_address_is_private(ip, n)) {
        j->private_address = true;
        return CURL_SOCKET_BAD;
    }
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

/* ---------------------------------------------------------------- begin */

static void add_field(struct sl_job *j, const char *fmt, const char *v)
{
    char line[SL_CLIENT_FIELD];
    struct curl_slist *l;

    if (snprintf(line, sizeof(line), "%s%s", fmt, v) >= (int)sizeof(line))
        return;
    l = curl_slist_append(j->fields, line);
    if (l)
        j->fields = l;
}

static void set_fields(struct sl_client *h, struct sl_job *j)
{
    const struct sl_places *p = h->o.places;
    char from[32];

    curl_slist_free_all(j->fields);
    j->fields = NULL;
    add_field(j, "Accept-Encoding: ", "identity");
    add_field(j, "User-Agent: ", h->o.agent);
    if (*p->token && sl_address_same_origin(j->url, p->endpoint))
        add_field(j, "Authorization: Bearer ", p->token);
    if (j->from > 0) {
        snprintf(from, sizeof(from), "%llu-", (unsigned long long)j->from);
        add_field(j, "Range: bytes=", from);
    }
    if (j->post) {
        add_field(j, "Content-Type: ", j->post_type);
        add_field(j, "Accept: ",
                  strstr(j->post_type, "json") ? j->post_type : "*/*");
        add_field(j, "Expect:", ""); /* do not wait for a 100 */
    }
}

static void set_easy(struct sl_client *h, struct sl_job *j)
{
    CURL *e = j->easy;
    bool plain = !strncmp(h->o.places->endpoint, "http:", 5);

    curl_easy_setopt(e, CURLOPT_URL, j->url);
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, j->fields);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, plain ? "http,https" : "https");
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, (long)h->o.places->stall_s);
    curl_easy_setopt(e, CURLOPT_TIMEOUT,
                     !j->metadata ? 0L
                     : h->hurry_s ? (long)h->hurry_s
                                  : (long)h->o.places->meta_s);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_field);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, j);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, j);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, j);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, j->why);
    curl_easy_setopt(e, CURLOPT_PRIVATE, j);
    if (j->post) {
        curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE,
                         (curl_off_t)j->post_len);
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, j->post);
        if (j->put)
            curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, "PUT");
    }
}

/* Send the request that j->url says. */
static int send_job(struct sl_client *h, struct sl_job *j, struct sl_err *err)
{
    if (!j->easy)
        j->easy = curl_easy_init();
    if (!j->easy)
        return sl_fail(err, SL_ENOMEM, "no memory is left for a request");
    reset_head(j);
    set_fields(h, j);
    set_easy(h, j);
    j->status = 0;
    j->rc = 0;
    j->why[0] = 0;
    j->private_address = false;
    if (curl_multi_add_handle(h->multi, j->easy) != CURLM_OK)
        return sl_fail(err, SL_ENOMEM, "no memory is left for a request");
    j->state = RUNNING;
    return 0;
}

/* A first try, or a new one from the endpoint: signed addresses expire. */
static int begin(struct sl_client *h, struct sl_job *j, struct sl_err *err)
{
    int n, rc = j->start ? j->start(j, err) : 0;

    if (rc == SL_JOB_AGAIN) {
        j->wake_ns = sl_clock_ns() + LATER_NS;
        return 0;
    }
    if (rc == SL_JOB_SOON) {
        h->soon = true;
        return 0;
    }
    if (rc == SL_JOB_HAVE)
        j->state = ENDED;
    if (rc)
        return rc < 0 ? rc : 0;
    n = *j->to ? snprintf(j->url, sizeof(j->url), "%s", j->to)
               : snprintf(j->url, sizeof(j->url), "%s%s",
                          h->o.places->endpoint, j->path);
    if (n < 0 || (size_t)n >= sizeof(j->url))
        return sl_fail(err, SL_EARG, "%s: the address is too long", j->what);
    j->hops = 0;
    return send_job(h, j, err);
}

/* --------------------------------------------------------------- finish */

static void note(const struct sl_client *h, const char *text)
{
    if (h->o.note)
        h->o.note(h->o.ctx, text);
}

uint64_t sl_client_wait_ms(int tries, int64_t retry_s, uint64_t random)
{
    uint64_t ms = FIRST_WAIT_MS;

    for (int i = 1; i < tries && ms < MAX_WAIT_MS; i++)
        ms *= 2;
    ms = ms / 2 + random % (ms / 2 + 1);
    return retry_s > 0 ? sl_max(ms, (uint64_t)retry_s * 1000) : ms;
}

/* Wait, then begin again; or give up. */
static int again(struct sl_client *h, struct sl_job *j, const char *why,
                 struct sl_err *err)
{
    char text[500];

    j->tries++;
    if (h->hurry_s)
        return sl_fail(err, SL_ENET, "%s: %.300s", j->what, why);
    if (j->tries >= MAX_TRIES)
        return sl_fail(err, SL_ENET,
                       "%s: %.300s, %d times without progress; what came is "
                       "kept, so run the same command again later",
                       j->what, why, MAX_TRIES);
    if (j->in.retry_s >= 0) {
        snprintf(text, sizeof(text),
                 "%s: %.200s; the hub asks to wait %lld s%s", j->what, why,
                 (long long)j->in.retry_s,
                 *h->o.places->token ? ""
                                     : " (with a token, see 'sluice login', it "
                                       "allows more)");
        note(h, text);
    } else {
        snprintf(text, sizeof(text), "%s: %.200s; trying again", j->what, why);
        note(h, text);
    }
    j->state = WAITING;
    j->wake_ns = sl_clock_ns() + sl_client_wait_ms(j->tries, j->in.retry_s,
                                                   sl_machine_random()) *
                                     1000000;
    return 0;
}

static bool may_pass(long status)
{
    return status == 408 || status == 429 || status == 500 || status == 502 ||
           status == 503 || status == 504;
}

static bool is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 ||
           status == 308;
}

static int redirect(struct sl_client *h, struct sl_job *j, struct sl_err *err)
{
    char to[SL_CLIENT_URL];
    int rc;

    if (++j->hops > MAX_HOPS)
        return sl_fail(err, SL_ENET,
                       "%s: the hub redirects more than %d times; it is out of "
                       "order",
                       j->what, MAX_HOPS);
    rc = j->hop ? j->hop(j, err) : 0;
    if (rc)
        return rc;
    rc = sl_address_follow(to, j->url, j->in.location, h->o.places->endpoint,
                          err);
    if (rc)
        return sl_wrap(err, rc, "%s", j->what);
    j->moved |= sl_address_same_origin(to, h->o.places->endpoint);
    memcpy(j->url, to, sizeof(j->url));
    return send_job(h, j, err);
}

static int refuse(struct sl_client *h, struct sl_job *j, struct sl_err *err)
{
    int rc = j->refused ? j->refused(j, err) : 0;

    if (rc == SL_JOB_AGAIN)
        return again(h, j, "the hub refused the rest", err);
    if (rc)
        return rc;
    return sl_fail(err, SL_ENET, "%s: the hub answers with status %ld", j->what,
                   j->status);
}

/* The transfer of j is over, as `code` says. */
static int finish(struct sl_client *h, struct sl_job *j, CURLcode code,
                  struct sl_err *err)
{
    char why[400];
    int rc;

    if (j->rc < 0) { /* a call-back refused what came */
        if (err)
            *err = j->err;
        return j->rc;
    }
    if (j->private_address)
        return sl_fail(err, SL_EFORMAT,
                       "%s: the hub redirects into a private network, which is "
                       "refused",
                       j->what);
    if (j->rc == SL_JOB_AGAIN)
        return again(h, j, "what came does not fit what was there", err);
    if (code == CURLE_WRITE_ERROR && j->status && !is_good(j->status))
        code = CURLE_OK; /* we had heard enough */
    if (code != CURLE_OK) {
        snprintf(why, sizeof(why), "%s",
                 *j->why ? j->why : curl_easy_strerror(code));
        return again(h, j, why, err);
    }
    if (is_redirect(j->status) && *j->in.location)
        return redirect(h, j, err);
    if (may_pass(j->status)) {
        snprintf(why, sizeof(why), "the hub answers with status %ld",
                 j->status);
        return again(h, j, why, err);
    }
    if (!is_good(j->status))
        return refuse(h, j, err);
    rc = j->done ? j->done(j, err) : 0;
    if (rc == SL_JOB_AGAIN)
        return again(h, j, "the download is damaged", err);
    j->state = ENDED;
    return rc;
}

/* ------------------------------------------------------------------ run */

static int finish_all(struct sl_client *h, struct sl_err *err)
{
    const CURLMsg *m;
    int left, rc = 0;

    while (!rc && (m = curl_multi_info_read(h->multi, &left))) {
        struct sl_job *j = NULL;
        CURLcode code = m->data.result;
        CURL *easy = m->easy_handle;

        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&j);
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &j->status);
        curl_multi_remove_handle(h->multi, easy);
        rc = finish(h, j, code, err);
        h->soon = true;
    }
    return rc;
}

/* Begin what may begin; *n_open is how many are not over. */
static int begin_all(struct sl_client *h, struct sl_job *const *job, size_t n,
                     unsigned n_parallel, size_t *n_open, struct sl_err *err)
{
    size_t n_run = 0, n_wait = 0;
    uint64_t now = sl_clock_ns();
    int rc = 0;

    for (size_t i = 0; i < n; i++)
        n_run += job[i]->state == RUNNING;
    for (size_t i = 0; !rc && i < n; i++) {
        struct sl_job *j = job[i];

        if (j->state == WAITING && n_run < n_parallel && j->wake_ns <= now) {
            rc = begin(h, j, err);
            n_run += j->state == RUNNING;
        }
        n_wait += j->state == WAITING;
    }
    *n_open = n_run + n_wait;
    return rc;
}

static void end_job(struct sl_client *h, struct sl_job *j)
{
    if (j->easy) {
        curl_multi_remove_handle(h->multi, j->easy);
        curl_easy_cleanup(j->easy);
    }
    curl_slist_free_all(j->fields);
    j->easy = j->fields = NULL;
}

int sl_client_run(struct sl_client *h, struct sl_job *const *job, size_t n,
                  unsigned n_parallel, struct sl_err *err)
{
    size_t n_open = 1;
    int running, rc = 0;

    if (h->o.places->offline)
        return sl_fail(err, SL_ENET,
                       "%s: the network is not to be used (offline)",
                       n ? job[0]->what : "the hub");
    for (size_t i = 0; i < n; i++) {
        job[i]->state = WAITING;
        job[i]->wake_ns = 0;
        job[i]->tries = 0;
        job[i]->http = h;
    }
    while (!rc && n_open > 0) {
        h->soon = false;
        rc = begin_all(h, job, n, n_parallel, &n_open, err);
        if (rc || n_open == 0)
            break;
        if (curl_multi_perform(h->multi, &running) == CURLM_OK)
            rc = finish_all(h, err);
        else
            rc = sl_fail(err, SL_EIO, "fetching from the hub failed");
        if (!rc && curl_multi_poll(h->multi, NULL, 0, h->soon ? 0 : POLL_MS,
                                   NULL) != CURLM_OK)
            rc = sl_fail(err, SL_EIO, "waiting for the hub failed");
        if (!rc && h->o.cancelled && h->o.cancelled(h->o.ctx))
            rc = sl_fail(err, SL_ECANCEL,
                         "interrupted; what came is kept, run the same command "
                         "to go on");
    }
    for (size_t i = 0; i < n; i++)
        end_job(h, job[i]);
    return rc;
}

/* ------------------------------------------------------------ small ones */

static int add_body(struct sl_job *j, const char *p, size_t n,
                    struct sl_err *err)
{
    struct sl_buf *b = j->ctx;

    if (n > b->max - b->len)
        return sl_fail(err, SL_EFORMAT,
                       "%s: the hub's answer has more than %zu bytes", j->what,
                       b->max);
    sl_buf_add(b, p, n);
    return sl_buf_check(b, j->what, err);
}

static int new_body(struct sl_job *j, struct sl_err *err)
{
    (void)err;
    sl_buf_reset(j->ctx);
    return 0;
}

static int plain_head(struct sl_job *j, struct sl_err *err)
{
    if (!*j->in.encoding || !strcmp(j->in.encoding, "identity"))
        return 0;
    return sl_fail(err, SL_EFORMAT,
                   "%s: the hub answers in the encoding '%.40s', which was not "
                   "asked for",
                   j->what, j->in.encoding);
}

int sl_client_get(struct sl_client *h, struct sl_job *job, struct sl_buf *out,
                  struct sl_err *err)
{
    job->metadata = !job->patient;
    job->ctx = out;
    job->start = new_body;
    job->head = plain_head;
    job->body = add_body;
    return sl_client_run(h, &job, 1, 1, err);
}

const struct sl_places *sl_client_places(const struct sl_client *h)
{
    return h->o.places;
}

void sl_client_hurry(struct sl_client *h, unsigned meta_s)
{
    h->hurry_s = meta_s;
}

int sl_client_open(struct sl_client **out, const struct sl_client_opts *o,
                   struct sl_err *err)
{
    struct sl_client *h = NULL;
    char host[256] = "";
    int rc;

    if (!o->places->offline &&
        (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
         !sl_address_host(host, o->places->endpoint)))
        return sl_fail(err, SL_EARG, "HF_ENDPOINT '%s' is no address",
                       o->places->endpoint);
    rc = sl_mem_alloc(&h, 1, sizeof(*h), "the hub's client", err);
    if (rc)
        return rc;
    h->o = *o;
    if (!o->places->offline) {
        h->public_hub = !sl_address_private_host(host);
        h->multi = curl_multi_init();
        if (!h->multi) {
            sl_mem_free(h);
            return sl_fail(err, SL_ENOMEM,
                           "no memory is left for the hub's "
                           "client");
        }
        curl_multi_setopt(h->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, 8L);
    }
    *out = h;
    return 0;
}

void sl_client_close(struct sl_client **h)
{
    if (!*h)
        return;
    if ((*h)->multi)
        curl_multi_cleanup((*h)->multi);
    sl_mem_free(*h);
    *h = NULL;
}
