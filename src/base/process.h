/* base/process.h - other processes of this user, and becoming one of them */
#ifndef SL_BASE_PROCESS_H
#define SL_BASE_PROCESS_H

#include "base/err.h"

int64_t sl_process_self(void);

/* When it began, in the kernel's ticks since boot; 0 when there is none. A
 * number that was given to another process has another beginning. */
uint64_t sl_process_began(int64_t pid);

/* Ask it to end (SIGTERM), or end it (SIGKILL). */
int sl_process_end(int64_t pid, bool kill_it, struct sl_err *err);

void sl_process_sleep_ms(unsigned ms);

/* The folder, for this user alone: made, or checked that nobody else owns it.
 */
int sl_process_own_dir(const char *dir, struct sl_err *err);

/* The same of a folder that is there already, without making it. */
int sl_process_check_dir(const char *dir, struct sl_err *err);

/* Go on in a process of its own, in no terminal, with both outputs in `log`.
 *
 * In the parent: 1, after the child called sl_process_ready, with its number in
 * *pid; SL_EIO when the child ended before, with its exit status in *status.
 * In the child: 0. Call before any thread is started. */
int sl_process_detach(const char *log, int64_t *pid, int *status,
                      struct sl_err *err);
void sl_process_ready(
    void); /* does nothing in a process that was not detached */

/* As many open files as this user may have. The lower limit that a shell sets is
 * for programs that use select(), which cannot name more than 1,024. */
void sl_process_open_many(void);

#endif
