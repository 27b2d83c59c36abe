/* base/lockfile.c - one process at a time; see lockfile.h */
#include "base/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"

#define LOOK_NS 50000000 /* between two looks; chosen, not measured */
#define LINE 256         /* bytes of a line of /proc/locks */

/* The process that holds a lock on the file, or 0. A line of /proc/locks is
 * "1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF". */
static long holder(int fd)
{
    FILE *f = fopen("/proc/locks", "re");
    char line[LINE], want[64];
    struct stat st;
    long pid = 0;

    if (!f)
        return 0;
    if (fstat(fd, &st)) {
        fclose(f);
        return 0;
    }
    snprintf(want, sizeof(want), " %02x:%02x:%llu ", major(st.st_dev),
             minor(st.st_dev), (unsigned long long)st.st_ino);
    while (pid == 0 && fgets(line, sizeof(line), f)) {
        const char *at = strstr(line, want), *p = at;

        if (!at || !strstr(line, "FLOCK"))
            continue;
        while (p > line && p[-1] >= '0' && p[-1] <= '9')
            p--;
        for (; p < at; p++)
            pid = pid * 10 + (*p - '0');
    }
    fclose(f);
    return pid;
}

static int busy(int fd, const char *what, struct sl_err *err)
{
    long pid = holder(fd);

    if (pid)
        return sl_fail(err, SL_EBUSY,
                       "%s is in use by process %ld; wait for it to end", what,
                       pid);
    return sl_fail(err, SL_EBUSY,
                   "%s is in use by another process; wait for it to end", what);
}

int sl_lockfile_take(struct sl_lockfile *l, const char *path,
                     enum sl_lock_mode mode, unsigned wait_ms, const char *what,
                     void (*waiting)(const char *what), struct sl_err *err)
{
    uint64_t end = sl_clock_ns() + (uint64_t)wait_ms * 1000000;
    int how = (mode == SL_LOCK_ALONE ? LOCK_EX : LOCK_SH) | LOCK_NB;
    /* A lock file of another user can be locked but not be written. */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0664), rc;

    l->fd = -1;
    if (fd < 0)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return sl_fail_errno(err, errno, "opening the lock '%s'", path);
    while (flock(fd, how)) {
        struct timespec t = {.tv_nsec = LOOK_NS};

        /* No locks on this file system: go on, as the header says. */
        if (errno == ENOLCK || errno == ENOTSUP || errno == EINVAL)
            break;
        if (errno != EWOULDBLOCK && errno != EINTR) {
            rc = sl_fail_errno(err, errno, "locking '%s'", path);
            close(fd);
            return rc;
        }
        if (sl_clock_ns() >= end) {
            rc = busy(fd, what, err);
            close(fd);
            return rc;
        }
        if (waiting)
            waiting(what);
        waiting = NULL;
        (void)nanosleep(&t, NULL);
    }
    l->fd = fd;
    return 0;
}

void sl_lockfile_give(struct sl_lockfile *l)
{
    if (l->fd >= 0)
        (void)close(l->fd);
    l->fd = -1;
}

/* As it is there. Some file systems lock only what could be written, and nobody
 * writes a folder. */
static int open_there(const char *path, int how)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | how);

    return fd >= 0 ? fd : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | how);
}

/* A file system that grants everything grants a second one, too. */
static bool is_granted_twice(int fd)
{
    char self[64];
    bool twice;
    int again;

    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    again = open_there(self, 0);
    twice = again < 0 || !flock(again, LOCK_EX | LOCK_NB) ||
            errno != EWOULDBLOCK;
    if (again >= 0)
        (void)close(again);
    return twice;
}

enum sl_lock_got sl_lockfile_try_fd(int fd)
{
    if (flock(fd, LOCK_EX | LOCK_NB))
        return errno == EWOULDBLOCK ? SL_LOCK_HELD : SL_LOCK_VAIN;
    return is_granted_twice(fd) ? SL_LOCK_VAIN : SL_LOCK_TAKEN;
}

enum sl_lock_got sl_lockfile_try(struct sl_lockfile *l, const char *path)
{
    enum sl_lock_got got;

    l->fd = open_there(path, O_NOFOLLOW);
    if (l->fd < 0)
        return errno == ENOENT ? SL_LOCK_TAKEN : SL_LOCK_VAIN;
    got = sl_lockfile_try_fd(l->fd);
    if (got == SL_LOCK_HELD)
        sl_lockfile_give(l);
    return got;
}

bool sl_lockfile_lives(int64_t pid)
{
    return pid > 0 && pid <= INT32_MAX &&
           (kill((pid_t)pid, 0) == 0 || errno == EPERM);
}
