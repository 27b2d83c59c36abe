/* server/replay.h - recorded conversations, sent to a server turn by turn
 *
 * A recording is JSON lines; each is one turn, a request of
 * /v1/chat/completions:
 *
 *   {"messages": [...], ...}   the whole history, as an agent sends it
 *   {"add": [...], ...}        the history of the last turn, what the model
 *                              answered to it now, and these messages
 *
 * "conversation" names the one that a line belongs to; without it there is only
 * one. Other keys go into the request and stay for the later turns of the same
 * conversation. Turns are sent one after the other, in the order of the lines.
 *
 * How much of a prompt could be known: what it shares with the beginning of any
 * prompt, with its answer, that was sent before. The least that has to be read
 * is the rest, and at least one token, whose logits are wanted. For this the
 * server must give token ids (return_token_ids), as vLLM does.
 *
 * One thread; blocks.
 */
#ifndef SL_SERVER_REPLAY_H
#define SL_SERVER_REPLAY_H

#include <jansson.h>

#include "base/err.h"

struct sl_replay_opts {
    const char *host;
    uint16_t port;
    const char *key, *model; /* NULL: none */
    uint32_t n_out;          /* tokens of an answer whose turn does not say */
    bool has_seed;
    uint64_t seed;
    /* After each turn. NULL allowed. */
    void (*progress)(void *ctx, uint32_t done, uint32_t total);
    void *progress_ctx;
};

struct sl_turn {
    char *conversation;                 /* owned */
    uint32_t turn;                      /* of the conversation, from 1 */
    uint32_t n_prompt, n_out, n_cached; /* tokens */
    bool has_ids;                       /* and so these are known: */
    uint32_t n_new; /* tokens that the turn before did not begin with */
    uint32_t least; /* that had to be read */
    double ttft_s, all_s;
};

struct sl_replay {
    struct sl_turn *turn; /* [n] */
    uint32_t n;
};

/* `text` holds the lines. SL_EFORMAT names the line that is none; SL_EIO the
 * turn that failed, with what the server said. sl_replay_deinit ends *out, also
 * after a failure. */
int sl_replay_run(struct sl_replay *out, const char *text, size_t len,
                  const struct sl_replay_opts *o, struct sl_err *err);
void sl_replay_deinit(struct sl_replay *r);

#endif
