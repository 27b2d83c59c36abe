/* cli/answer.h - one answer, from submission to its last piece */
#ifndef SL_CLI_ANSWER_H
#define SL_CLI_ANSWER_H

#include "base/buf.h"
#include "base/json.h"
#include "sluice/sluice.h"

struct sl_answer {
    struct sl_buf text;
    json_t *ids; /* owned; an array */
    enum sl_finish finish;
    uint64_t seed;
    struct sl_gen_stats stats;
};

/* Submit, and gather the answer to its end; with `stream` every piece goes to
 * standard output as it comes, on a terminal as paint.h says. Ctrl-C ends the answer, not the program: finish
 * is then SL_FINISH_CANCEL. The caller ends *out with sl_answer_deinit, also
 * after a failure. */
int sl_answer_get(struct sl_answer *out, struct sl_engine *e,
                  const struct sl_gen_opts *opts, bool stream,
                  struct sl_err *err);
void sl_answer_deinit(struct sl_answer *a);

/* Tokens and rates, one line on standard error. */
void sl_answer_note(const struct sl_answer *a);

/* "stop", "length", "cancel", "error" */
const char *sl_finish_name(enum sl_finish f);

#endif
