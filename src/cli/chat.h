/* cli/chat.h - a conversation at the terminal */
#ifndef SL_CLI_CHAT_H
#define SL_CLI_CHAT_H

#include "base/json.h"
#include "sluice/sluice.h"

/* Ask for lines and answer them until the user ends it. `messages` begins the
 * conversation and grows with it; messages of `opts` are set here. */
int sl_chat(struct sl_engine *e, struct sl_gen_opts *opts, json_t *messages,
            struct sl_err *err);

#endif
