/* server/message.c - one HTTP/1.1 request; see message.h
 *
 * http_parser 2.9.4 accepts more than RFC 9112: a blank before the colon of a
 * header and transfer codings in front of chunked. Both have been used to make
 * two servers see two different requests, so they are refused here.
 */
#include "server/message.h"

#include <strings.h>

#include "base/mem.h"

/* Memory that one connection keeps between two requests. */
#define KEEP_BYTES ((size_t)64 << 10)

static int refuse(struct sl_message *m, int status, const char *why)
{
    m->state = SL_MESSAGE_BAD;
    m->status = status;
    m->why = why;
    return -1;
}

static int add_head(struct sl_message *m, const char *p, size_t n)
{
    sl_buf_add(&m->head, p, n);
    if (m->head.failed == SL_ENOMEM)
        return refuse(m, 503, "no memory is left for the request");
    if (m->head.failed)
        return refuse(m, 431, "the request line and headers are longer than "
                              "64 KiB; send fewer or shorter headers");
    return 0;
}

/* A line is begun with its name or, when the value is empty, ended here. */
static int end_value(struct sl_message *m)
{
    if (!m->in_value)
        return 0;
    m->in_value = false;
    return add_head(m, "", 1);
}

/* ------------------------------------------------- call-backs of the parser */

static struct sl_message *of(http_parser *p)
{
    return p->data;
}

static int on_begin(http_parser *p)
{
    of(p)->begun = true;
    return 0;
}

static int on_url(http_parser *p, const char *s, size_t n)
{
    return add_head(of(p), s, n);
}

/* Called once per piece of a name: a new line begins when the piece before was
 * a value, or the target. */
static int on_field(http_parser *p, const char *s, size_t n)
{
    struct sl_message *m = of(p);

    if (m->trailing)
        return 0;
    if (memchr(s, ' ', n))
        return refuse(m, 400, "a header has a blank in its name or before "
                              "its colon; remove it");
    if (m->in_value || m->n_line == 0) {
        if (m->n_line == 0 ? add_head(m, "", 1) : end_value(m))
            return -1;
        if (m->n_line == SL_MESSAGE_MAX_LINES)
            return refuse(m, 431, "the request has more than 256 header "
                                  "lines; send fewer");
        m->line[m->n_line++].name = (uint32_t)m->head.len;
    }
    return add_head(m, s, n);
}

static int on_value(http_parser *p, const char *s, size_t n)
{
    struct sl_message *m = of(p);

    if (m->trailing)
        return 0;
    if (!m->in_value) {
        if (add_head(m, "", 1))
            return -1;
        m->line[m->n_line - 1].value = (uint32_t)m->head.len;
        m->in_value = true;
    }
    return add_head(m, s, n);
}

/* chunked, in one line: of several a proxy may see another one. */
static bool is_coding_known(const struct sl_message *m)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < m->n_line; i++)
        if (!strcasecmp(m->head.p + m->line[i].name, "Transfer-Encoding") &&
            (n++ || strcasecmp(m->head.p + m->line[i].value, "chunked")))
            return false;
    return true;
}

static int check_head(struct sl_message *m)
{
    const char *expect = sl_message_header(m, "Expect");
    const http_parser *p = &m->parser;

    if (p->http_major != 1 || p->http_minor > 1)
        return refuse(m, 505, "this server speaks HTTP/1.1 and 1.0 only");
    if (!is_coding_known(m))
        return refuse(m, 501, "the only transfer coding is chunked; send the "
                              "body with a Content-Length");
    if (expect && strcasecmp(expect, "100-continue"))
        return refuse(m, 417, "the only expectation is 100-continue");
    if (!(p->flags & F_CHUNKED) && (p->flags & F_CONTENTLENGTH) &&
        p->content_length > m->max_body)
        return refuse(m, 413, "the body is longer than this server takes");
    m->expects = expect && ((p->flags & F_CHUNKED) || p->content_length > 0) &&
                 p->http_minor == 1;
    return 0;
}

static int on_head_end(http_parser *p)
{
    struct sl_message *m = of(p);

    if (m->n_line == 0 ? add_head(m, "", 1) : end_value(m))
        return -1;
    if (check_head(m))
        return -1;
    /* An offer to speak another protocol may be ignored (RFC 9110 7.8). */
    p->upgrade = 0;
    m->state = SL_MESSAGE_BODY;
    m->trailing = true;
    return 0;
}

static int on_body(http_parser *p, const char *s, size_t n)
{
    struct sl_message *m = of(p);

    sl_buf_add(&m->body, s, n);
    if (m->body.failed == SL_ENOMEM)
        return refuse(m, 503, "no memory is left for the body");
    if (m->body.failed)
        return refuse(m, 413, "the body is longer than this server takes");
    return 0;
}

static int on_end(http_parser *p)
{
    struct sl_message *m = of(p);

    m->state = SL_MESSAGE_DONE;
    m->keep = http_should_keep_alive(p);
    m->expects = false;
    http_parser_pause(p, 1);
    return 0;
}

static const http_parser_settings settings = {
    .on_message_begin = on_begin,
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_headers_complete = on_head_end,
    .on_body = on_body,
    .on_message_complete = on_end,
};

/* ------------------------------------------------------------------- public */

void sl_message_init(struct sl_message *m, size_t max_body)
{
    m->max_body = max_body;
    sl_buf_init(&m->head, SL_MESSAGE_MAX_HEAD);
    sl_buf_init(&m->body, max_body);
    sl_message_reset(m);
}

void sl_message_deinit(struct sl_message *m)
{
    sl_buf_deinit(&m->head);
    sl_buf_deinit(&m->body);
}

void sl_message_reset(struct sl_message *m)
{
    if (m->body.cap > KEEP_BYTES) {
        sl_buf_deinit(&m->body);
        sl_buf_init(&m->body, m->max_body);
    }
    sl_buf_reset(&m->head);
    sl_buf_reset(&m->body);
    http_parser_init(&m->parser, HTTP_REQUEST);
    m->parser.data = m;
    m->state = SL_MESSAGE_HEAD;
    m->begun = m->keep = m->expects = m->trailing = m->in_value = false;
    m->status = 0;
    m->why = NULL;
    m->n_line = 0;
}

size_t sl_message_feed(struct sl_message *m, const char *p, size_t n)
{
    enum http_errno e;
    size_t used;

    if (m->state == SL_MESSAGE_DONE || m->state == SL_MESSAGE_BAD || n == 0)
        return 0;
    used = http_parser_execute(&m->parser, &settings, p, n);
    e = HTTP_PARSER_ERRNO(&m->parser);
    if (m->state == SL_MESSAGE_DONE || m->state == SL_MESSAGE_BAD)
        return used;
    if (e == HPE_HEADER_OVERFLOW)
        refuse(m, 431, "the request line and headers are too long; send fewer "
                       "or shorter headers");
    else if (e == HPE_INVALID_TRANSFER_ENCODING ||
             e == HPE_UNEXPECTED_CONTENT_LENGTH)
        refuse(m, 400, "the headers do not say how long the body is, or say "
                       "it twice");
    else if (e != HPE_OK)
        refuse(m, 400, "this is not a valid HTTP/1.1 request");
    return used;
}

const char *sl_message_method(const struct sl_message *m)
{
    return http_method_str((enum http_method)m->parser.method);
}

const char *sl_message_target(const struct sl_message *m)
{
    return m->head.p ? m->head.p : "";
}

const char *sl_message_header(const struct sl_message *m, const char *name)
{
    for (uint32_t i = 0; i < m->n_line; i++)
        if (!strcasecmp(m->head.p + m->line[i].name, name))
            return m->head.p + m->line[i].value;
    return NULL;
}
