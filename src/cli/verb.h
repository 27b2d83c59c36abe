/* cli/verb.h - the verbs of the program
 *
 * A verb is one file with one function. It gets its options parsed, writes its
 * answer to standard output and returns 0 or a negative enum sl_code after
 * filling `err`; main.c reports, and turns the code into an exit status.
 */
#ifndef SL_CLI_VERB_H
#define SL_CLI_VERB_H

#include "base/option.h"

typedef int sl_verb_fn(const struct sl_opts *o, struct sl_err *err);

sl_verb_fn sl_cli_run, sl_cli_info, sl_cli_tokenize, sl_cli_doctor,
    sl_cli_version, sl_cli_eval, sl_cli_serve, sl_cli_bench, sl_cli_pull,
    sl_cli_list, sl_cli_rm, sl_cli_gc, sl_cli_verify, sl_cli_profiles,
    sl_cli_init, sl_cli_build, sl_cli_push, sl_cli_search, sl_cli_login,
    sl_cli_logout, sl_cli_ps, sl_cli_stop, sl_cli_logs, sl_cli_convert;

/* SL_EARG when there are more than `max` arguments beside the options; `want`
 * says what they are. */
int sl_cli_max_args(const struct sl_opts *o, uint32_t max, const char *want,
                    struct sl_err *err);

/* SL_EARG when the command line has an option of the list that `me`, a bit, is
 * not among the users of; `what` names who that is. Verbs that do several
 * things use it, so that nothing is accepted and ignored. */
struct sl_cli_use {
    enum sl_opt_id id;
    unsigned users; /* bits */
};

int sl_cli_uses(const struct sl_opts *o, const struct sl_cli_use *list,
                size_t n, unsigned me, const char *what, struct sl_err *err);

/* Words of the user that are not UTF-8 are a bad command line, with the offset
 * of the first bad byte. */
int sl_cli_text(const char *s, size_t len, const char *what,
                struct sl_err *err);

/* 'demo' or a path -> the folder that the library opens. See cli/ready.h for
 * everything that a user may call a model. */
#define SL_CLI_PATH 4096
int sl_cli_folder(char path[SL_CLI_PATH], const char *name, struct sl_err *err);

/* Read a model whole, in any form; *n_bytes is what was checked. */
int sl_cli_check(uint64_t *n_bytes, const char *path, const struct sl_opts *o,
                 struct sl_err *err);

/* sluice eval kl FILE, with the model in `dir`. */
int sl_cli_eval_kl(const struct sl_opts *o, const char *dir,
                   struct sl_err *err);

/* What the file `dst`, made of `src` with weights of this name, lost, on this
 * text: printed as a table, or (--json) only given as *json, which the caller
 * ends. */
int sl_cli_report(json_t **json, const struct sl_opts *o, const char *text,
                  size_t n_text, const char *src, const char *dst,
                  const char *weights, struct sl_err *err);

/* Print a JSON value on a line of its own, and end it. */
int sl_cli_print_json(json_t *j, struct sl_err *err);

/* Print what was built in `b`, and end it; `what` names it. */
int sl_cli_print(struct sl_buf *b, const char *what, struct sl_err *err);

/* "1.50 GiB", "640 KiB" or "12 B" into out. */
#define SL_CLI_BYTES_LEN 32
void sl_cli_bytes(char out[SL_CLI_BYTES_LEN], uint64_t bytes);

#endif
