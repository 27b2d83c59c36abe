/* server/http.h - connections, and the exchanges on them
 *
 * A connection reads requests and hands each to the handler as an exchange. The
 * handler answers at once or later, whole or as a stream; only then is the next
 * request of that connection read, so that pipelined replies keep their order.
 *
 *     IDLE --first byte--> HEAD --> BODY --> BUSY --reply ended--> SENDING
 *                            \________\________ refused ____________^
 *     SENDING --all is with the kernel--> IDLE, or LINGER when it was the last
 *     any --client gone, deadline, close--> freed
 *
 * While BUSY the socket is still read: bytes are kept for later, and an end of
 * file or a reset means that the client has left. The exchange is then over at
 * once: `gone` is called and the exchange is freed when it returns. A client
 * that closes its writing half and goes on reading is therefore not supported.
 * One that sends more than 256 KiB ahead gets this reply and then a close.
 *
 * While SENDING no request is read. A client that takes nothing for write_ms
 * is cut off, one that takes little is not.
 *
 * LINGER: a reply was sent to a client that may still be sending. What comes is
 * thrown away for a while, because closing at once would make the kernel drop
 * the reply too.
 *
 * Loop thread, all of it.
 */
#ifndef SL_SERVER_HTTP_H
#define SL_SERVER_HTTP_H

#include "base/err.h"
#include "server/message.h"

struct event_base;
struct ssl_ctx_st;
struct sl_http;
struct sl_exchange;

/* Milliseconds; 0 is for ever. */
struct sl_http_limits {
    size_t max_body;     /* bytes */
    uint32_t max_conn;   /* more are accepted and closed at once */
    uint32_t header_ms;  /* the whole head */
    uint32_t body_ms;    /* for each SL_HTTP_BODY_STEP bytes of a body */
    uint32_t body_all_ms; /* for all of them */
    uint32_t idle_ms;    /* between two requests */
    uint32_t write_ms;   /* without a byte taken by the client */
    uint32_t linger_ms;
    uint32_t heartbeat_ms; /* a stream without a write gets a blank line */
};
#define SL_HTTP_BODY_STEP 16384

void sl_http_limits_init(struct sl_http_limits *l);

/* A whole request has come. The handler answers now or keeps x. */
typedef void sl_http_handler(void *ctx, struct sl_exchange *x);

/* An exchange has ended, answered or not; for the log and the counters. */
typedef void sl_http_ended(void *ctx, const struct sl_exchange *x);

struct sl_http_opts {
    const char *host; /* a name or an address */
    uint16_t port;    /* 0: any free one */
    uint16_t n_port;  /* it and those behind it that will do; 0: it alone */
    struct sl_http_limits limits;
    struct ssl_ctx_st *tls; /* NULL: plain */
    sl_http_handler *handle;
    sl_http_ended *ended; /* or NULL */
    void *ctx;
};

int sl_http_open(struct sl_http **out, struct event_base *base,
                 const struct sl_http_opts *opts, struct sl_err *err);
void sl_http_close(struct sl_http **h); /* drops every connection */
/* For the connections that are made from now on; of a server that has TLS. */
void sl_http_set_tls(struct sl_http *h, struct ssl_ctx_st *tls);

uint16_t sl_http_port(const struct sl_http *h);
uint32_t sl_http_n_conn(const struct sl_http *h);
uint32_t sl_http_n_busy(const struct sl_http *h); /* with something to say */

/* From now on every reply closes its connection; idle ones close now. */
void sl_http_drain(struct sl_http *h);

#define SL_HTTP_ID_LEN 128 /* bytes of a request id, at most */
#define SL_HTTP_NOTE 600   /* bytes of what a handler adds to the log */
#define SL_HTTP_MAX_REPLY_HEAD ((size_t)8 << 10)

struct sl_exchange {
    const struct sl_message *msg; /* until the exchange ends */
    char id[SL_HTTP_ID_LEN + 1];  /* request id: the client's or a random one */
    bool has_id;                  /* the client's */
    char path[512];  /* decoded, "" when it is too long or not UTF-8 */
    char peer[64];   /* address of the client */
    int status;      /* of the reply; 0: none yet */
    bool streams;    /* the reply is a stream */
    bool is_gone;    /* the client left before the reply had ended */
    uint64_t begun_ns; /* when the request was whole */
    uint64_t n_sent;   /* bytes of reply bodies */

    /* The handler's. */
    uint64_t key; /* whose it is, 0 without an API key (server/keys.h) */
    void *user;
    char note[SL_HTTP_NOTE]; /* for the line in the log: " key=value ..." */
    void (*gone)(struct sl_exchange *x);  /* x is freed when it returns */
    void (*ready)(struct sl_exchange *x); /* a stream may be written again */
};

/* Take the body of the request; the exchange has none from then on. The caller
 * ends *out with sl_buf_deinit. */
void sl_http_take_body(struct sl_exchange *x, struct sl_buf *out);

/* Add a header to the reply that is sent next. */
void sl_http_header(struct sl_exchange *x, const char *name, const char *value);

/* The whole reply. The exchange ends: x may be freed when this returns. */
void sl_http_reply(struct sl_exchange *x, int status, const char *type,
                   const char *body, size_t len);

/* A reply in pieces; each write is a unit that is not torn by us. */
void sl_http_stream(struct sl_exchange *x, int status, const char *type);
void sl_http_write(struct sl_exchange *x, const char *p, size_t len);
void sl_http_end(struct sl_exchange *x); /* x may be freed */

/* Cut the connection, so that the client cannot take what it has for a whole
 * answer. x is freed; `gone` is not called. */
void sl_http_abort(struct sl_exchange *x);

/* Does the client read too slowly? `ready` is called when it no longer does. */
bool sl_http_is_full(const struct sl_exchange *x);

#endif
