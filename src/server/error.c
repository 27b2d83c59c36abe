/* server/error.c - the error object; see error.h */
#include "server/error.h"

#include <stdarg.h>

#include "base/plain.h"
#include "base/utf8.h"
#include "server/http.h"
#include "server/json_out.h"

/* Seconds after which a client should try again when nobody said; chosen. Who
 * loads a model or stops is busy with it for longer. */
#define RETRY_S 1
#define RETRY_LATER_S 5

static const char *class_of(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 408:
    case 504:
        return "timeout_error";
    case 429:
        return "rate_limit_error";
    case 501:
        return "not_supported_error";
    case 503:
        return "unavailable_error";
    default:
        return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

static const char *code_of(int status)
{
    switch (status) {
    case 401:
        return "invalid_api_key";
    case 405:
        return "method_not_allowed";
    case 408:
        return "request_timeout";
    case 413:
        return "request_too_large";
    case 415:
        return "unsupported_media_type";
    case 429:
        return "rate_limit_exceeded";
    case 503:
        return "overloaded";
    default:
        return NULL;
    }
}

static uint32_t retry_of(int status, const char *code)
{
    if (status != 503 && status != 429)
        return 0;
    if (!strcmp(code, "engine_dead"))
        return 0; /* it does not come back by itself */
    return strcmp(code, "loading") && strcmp(code, "draining") ? RETRY_S
                                                               : RETRY_LATER_S;
}

/* vsnprintf cuts characters in two, at its end and at every "%.60s": what is
 * left of them goes. */
static void mend(char *s)
{
    size_t len = strlen(s);
    char *to = s;

    while (len > 0) {
        size_t good = sl_utf8_valid(s, len), bad = good < len;

        while (bad && good + bad < len && (s[good + bad] & 0xc0) == 0x80)
            bad++;
        memmove(to, s, good + bad);
        to += good;
        if (sl_utf8_partial(s + good, bad) != bad)
            to += bad; /* no piece of a character: it is shown as \xNN */
        s += good + bad;
        len -= good + bad;
    }
    *to = 0;
}

static void fill(struct sl_refusal *r, int status, const char *code,
                 const char *param, const char *fmt, va_list ap)
{
    char raw[sizeof(r->message)];

    *r = (struct sl_refusal){.status = status,
                             .code = code ? code : code_of(status)};
    r->retry_s = retry_of(status, r->code);
    snprintf(r->param, sizeof(r->param), "%s", param ? param : "");
    vsnprintf(raw, sizeof(raw), fmt, ap);
    mend(r->param);
    mend(raw);
    (void)sl_plain(r->message, sizeof(r->message), raw);
}

int sl_refuse(struct sl_refusal *r, int status, const char *code,
              const char *param, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fill(r, status, code, param, fmt, ap);
    va_end(ap);
    return -1;
}

static void add_or_null(struct sl_buf *b, const char *s)
{
    if (s && *s)
        sl_json_put_str(b, s, strlen(s));
    else
        sl_buf_str(b, "null");
}

void sl_error_json(struct sl_buf *b, const struct sl_refusal *r)
{
    sl_buf_str(b, "{\"error\":{\"message\":");
    sl_json_put_str(b, r->message, strlen(r->message));
    sl_buf_fmt(b, ",\"type\":\"%s\",\"param\":", class_of(r->status));
    add_or_null(b, r->param);
    sl_buf_str(b, ",\"code\":");
    add_or_null(b, r->code);
    sl_buf_str(b, "}}");
}

void sl_error_send(struct sl_exchange *x, const struct sl_refusal *r)
{
    char num[16];
    struct sl_buf b;

    sl_buf_init(&b, 16384); /* a message of 1,000 bytes, each escaped */
    sl_error_json(&b, r);
    if (r->status == 401)
        sl_http_header(x, "WWW-Authenticate", "Bearer");
    if (r->retry_s) {
        snprintf(num, sizeof(num), "%u", r->retry_s);
        sl_http_header(x, "Retry-After", num);
    }
    sl_http_reply(x, r->status, "application/json", b.p ? b.p : "", b.len);
    sl_buf_deinit(&b);
}

void sl_error_reply(struct sl_exchange *x, int status, const char *code,
                    const char *param, const char *fmt, ...)
{
    struct sl_refusal r;
    va_list ap;

    va_start(ap, fmt);
    fill(&r, status, code, param, fmt, ap);
    va_end(ap);
    sl_error_send(x, &r);
}
