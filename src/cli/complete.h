/* cli/complete.h - completion of the shell: bash and zsh */
#ifndef SL_CLI_COMPLETE_H
#define SL_CLI_COMPLETE_H

#include "base/option.h"

struct sl_cli_complete {
    const char *name;
    enum sl_verb verb;
    const char *does; /* in a line */
};

/* The shell's function, for all verbs. */
void sl_cli_complete(struct sl_buf *b, bool zsh,
                     const struct sl_cli_complete *verb, size_t n);

#endif
