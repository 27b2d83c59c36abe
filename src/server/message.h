/* server/message.h - one HTTP/1.1 request out of bytes as they come
 *
 * The grammar is http_parser's; what is kept, and how much of it, is ours. A
 * message takes bytes until it is whole and then no more, so that a pipelined
 * next request stays with the caller. Cut anywhere, the bytes give the same
 * message (rule U5).
 *
 *     HEAD --headers end--> BODY --body ends--> DONE
 *       |                    |
 *       +------ refused -----+--> BAD: `status` and `why` say what to answer
 *
 * No sockets here: http.c feeds it, and so do the tests and the fuzzer. Loop
 * thread.
 */
#ifndef SL_SERVER_MESSAGE_H
#define SL_SERVER_MESSAGE_H

#include <http_parser.h>

#include "base/buf.h"

/* Bytes of the request line and all header lines, and how many lines; above
 * that the answer is 431. As nginx and vLLM's server, rounded up. */
#define SL_MESSAGE_MAX_HEAD ((size_t)64 << 10)
#define SL_MESSAGE_MAX_LINES 256

enum sl_message_state {
    SL_MESSAGE_HEAD,
    SL_MESSAGE_BODY,
    SL_MESSAGE_DONE,
    SL_MESSAGE_BAD,
};

struct sl_header {
    uint32_t name, value; /* offsets in head.p; both end with zero */
};

struct sl_message {
    http_parser parser;
    enum sl_message_state state;
    bool begun;     /* the first byte of a request line has come */
    bool keep;      /* the connection may serve another request; when DONE */
    bool expects;   /* "100-continue", and not yet answered */
    bool trailing;  /* header lines behind a chunked body are dropped */
    bool in_value;  /* the last header line has its colon */
    int status;     /* BAD: 400, 413, 417, 431, 501, 505 */
    const char *why; /* BAD: words for people, static */
    size_t max_body;
    struct sl_buf head; /* target, zero, then name, zero, value, zero ... */
    struct sl_header line[SL_MESSAGE_MAX_LINES];
    uint32_t n_line;
    struct sl_buf body;
};

void sl_message_init(struct sl_message *m, size_t max_body);
void sl_message_deinit(struct sl_message *m);

/* Ready for the next request of the connection; large buffers are let go. */
void sl_message_reset(struct sl_message *m);

/* Take bytes; returns how many. Fewer than n only when DONE or BAD. */
size_t sl_message_feed(struct sl_message *m, const char *p, size_t n);

/* From BODY on. The method's name is static; the target is as it was sent. */
const char *sl_message_method(const struct sl_message *m);
const char *sl_message_target(const struct sl_message *m);

/* The value of the first header of this name, any case; NULL when absent. */
const char *sl_message_header(const struct sl_message *m, const char *name);

#endif
