/* text/reply.h - a whole reply, collected from the events of its parser
 *
 * A reply that is not streamed is, by definition, what the stream says in all.
 *
 *     sl_reply_init(&r);
 *     ... feed ...; rc = sl_reply_take(&r, p, err);
 *     ... finish ...; rc = sl_reply_take(&r, p, err);
 *     sl_reply_deinit(&r);
 */
#ifndef SL_TEXT_REPLY_H
#define SL_TEXT_REPLY_H

#include "base/buf.h"
#include "text/parse.h"

#define SL_REPLY_MAX_TEXT ((size_t)256 << 20) /* bytes of each text; chosen */

struct sl_reply_call {
    char id[SL_PARSE_ID_BYTES];
    struct sl_buf name;
    struct sl_buf args; /* the JSON of an object, also when cut */
    bool complete;      /* false: the output ended inside of it */
};

/* Plain data; texts may contain zero bytes. p of an empty text may be NULL. */
struct sl_reply {
    struct sl_buf reasoning, content;
    struct sl_reply_call *call; /* [n_call] */
    size_t n_call, cap_call;
    bool ended; /* DONE has come */
};

void sl_reply_init(struct sl_reply *r);
void sl_reply_deinit(struct sl_reply *r);

/* Take all events that `p` has now. After a failure *r can only be ended. */
int sl_reply_take(struct sl_reply *r, struct sl_parse *p, struct sl_err *err);

#endif
