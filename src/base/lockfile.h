/* base/lockfile.h - one process at a time, by a lock on a file
 *
 * The lock ends with the process, however that ends. It is a courtesy, not a
 * guarantee: some network file systems grant it to everybody, so what it
 * guards must be right without it. Lock files are never removed.
 */
#ifndef SL_BASE_LOCKFILE_H
#define SL_BASE_LOCKFILE_H

#include "base/err.h"

enum sl_lock_mode { SL_LOCK_SHARED, SL_LOCK_ALONE };

struct sl_lockfile {
    int fd; /* -1 when not held */
};

/* Wait up to wait_ms; then SL_EBUSY, with the process that holds it where the
 * system tells. `what` names what is locked. The folder must exist. `waiting`
 * (may be NULL) is called once when it has to wait. */
int sl_lockfile_take(struct sl_lockfile *l, const char *path,
                     enum sl_lock_mode mode, unsigned wait_ms, const char *what,
                     void (*waiting)(const char *what), struct sl_err *err);
void sl_lockfile_give(struct sl_lockfile *l);

/* Who is at work holds a lock on the file or folder itself: what a killed
 * process left is what nobody holds. A number of a process says less: those that
 * share a disk may not see each other's. */
enum sl_lock_got {
    SL_LOCK_TAKEN, /* nobody held one */
    SL_LOCK_HELD,  /* somebody does */
    SL_LOCK_VAIN   /* nobody knows: there are no locks here, or all have them */
};

/* At once, on an open file or folder, until that is closed. */
enum sl_lock_got sl_lockfile_try_fd(int fd);
/* On one that is there, until given, unless somebody holds it; TAKEN also where
 * nothing is there. */
enum sl_lock_got sl_lockfile_try(struct sl_lockfile *l, const char *path);

/* Does a process with this number live? For where locks are in vain. */
bool sl_lockfile_lives(int64_t pid);

#endif
