/* base/term.h - the standard streams and the terminal
 *
 * For the program, not for the library's users. Standard output is written
 * without a buffer of ours, so that an answer appears as it is made and a full
 * disk or a closed pipe is noticed at the write that meets it.
 */
#ifndef SL_BASE_TERM_H
#define SL_BASE_TERM_H

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

/* Call fn(ctx) on Ctrl-C from inside the signal handler: it may do only what is
 * safe there. It runs on the thread that called this, which is always the same.
 * NULL: Ctrl-C ends the process again. Blocking reads of standard input return
 * early. */
void sl_term_on_interrupt(void (*fn)(void *ctx), void *ctx);

#endif
