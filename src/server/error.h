/* server/error.h - what a client is told when it gets no answer
 *
 * Every reply that is no success has the one shape that clients parse:
 *
 *     {"error": {"message": text, "type": class, "param": path | null,
 *                "code": word | null}}
 *
 * The class follows from the status. Messages are whole characters, what a
 * terminal would obey as \xNN. They name the field and the value and
 * say what to do; they never hold paths, addresses or other users' text.
 */
#ifndef SL_SERVER_ERROR_H
#define SL_SERVER_ERROR_H

#include "base/buf.h"

struct sl_exchange;

/* How much was wanted, and for what, is not the client's to know. */
#define SL_NO_MEMORY "no memory is left; try again in a moment"

/* One refusal, on its way from where it is found to where it is sent. */
struct sl_refusal {
    int status;        /* 0: none */
    const char *code;  /* static, or NULL */
    char param[128];   /* "" for none */
    char message[1000];
    uint32_t retry_s;  /* Retry-After; 0: none */
};

/* Fill `r` and return -1, so that a check can end with it. */
int sl_refuse(struct sl_refusal *r, int status, const char *code,
              const char *param, const char *fmt, ...) SL_PRINTF(5, 6);

/* The object, as text, without a newline. */
void sl_error_json(struct sl_buf *b, const struct sl_refusal *r);

/* Answer with it; the exchange ends. */
void sl_error_send(struct sl_exchange *x, const struct sl_refusal *r);

/* The same in one call. */
void sl_error_reply(struct sl_exchange *x, int status, const char *code,
                    const char *param, const char *fmt, ...) SL_PRINTF(5, 6);

#endif
