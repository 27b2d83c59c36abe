/* base/term.h - the standard streams and the terminal
 *
 * For the program, not for the library's users. Standard output is written
 * without a buffer of ours, so that an answer appears as it is made and a full
 * disk or a closed pipe is noticed at the write that meets it.
 */
#ifndef SL_BASE_TERM_H
#define SL_BASE_TERM_H

#include <signal.h>

#include "base/err.h"

/* Once, at start. A closed pipe becomes an error of the write instead of the
 * silent end of the process, and so does a file that passes the limit of its
 * size (ulimit -f); closed standard streams are occupied, so that no
 * file of ours can take their numbers. */
void sl_term_init(void);

/* All n bytes to standard output. A closed output is SL_EIO, a full disk
 * SL_ENOSPACE; the message says what to do. */
int sl_out_write(const char *p, size_t n, struct sl_err *err);
int sl_out_str(const char *s, struct sl_err *err);

/* To standard error; failures are ignored, there is nobody to tell. */
void sl_note(const char *fmt, ...) SL_PRINTF(1, 2);

/* All of standard input, at most max bytes, with a zero behind it. The caller
 * ends *out with sl_mem_free. */
int sl_in_read(char **out, size_t *len, size_t max, struct sl_err *err);

enum sl_stream { SL_STDIN, SL_STDOUT, SL_STDERR };
bool sl_term_is_tty(enum sl_stream s);

/* Columns of the terminal on standard error; 80 when nobody knows. */
unsigned sl_term_width(void);

/* What Ctrl-C does: fn(ctx), from inside the signal handler, where it may do
 * only what is safe there. NULL: it ends the process. */
struct sl_on_interrupt {
    void (*fn)(void *ctx);
    void *ctx;
};

/* From now on do `new`; what was done before is returned, to be put back. fn
 * runs on the thread that called this, which is always the same. Blocking reads
 * of standard input return early. */
struct sl_on_interrupt sl_term_on_interrupt(struct sl_on_interrupt new);

/* Wait until standard input can be read without waiting (or has ended): true;
 * or until *hit, which a handler as above sets: false. A Ctrl-C that came
 * before the call, or comes at any moment of it, is seen. */
bool sl_in_wait(const volatile sig_atomic_t *hit);

#endif
