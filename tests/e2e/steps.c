/* tests/e2e/steps.c - a program that dies, or meets a full disk, at one step
 *
 * Preloaded. The calls with which a download changes the file system are
 * counted, and at the one with the number $STEPS_DIE the process is gone, as
 * by kill -9 between two lines. $STEPS_FULL: after so many bytes of partial
 * files the disk is full, and room cannot be reserved before. $STEPS_NO_LOCK:
 * flock lets everybody through, as on some network file systems.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/types.h>
#include <unistd.h>

static long number(const char *name)
{
    const char *s = getenv(name);

    return s ? strtol(s, NULL, 10) : 0;
}

static void step(void)
{
    static long n;
    long die = number("STEPS_DIE");

    if (__atomic_add_fetch(&n, 1, __ATOMIC_SEQ_CST) == die)
        kill(getpid(), SIGKILL);
}

#define REAL(f) ((__typeof__(&f))dlsym(RTLD_NEXT, #f))

int fallocate(int fd, int mode, off_t at, off_t n)
{
    if (getenv("STEPS_FULL")) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return REAL(fallocate)(fd, mode, at, n);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    long full = number("STEPS_FULL");

    if (full && at + (off_t)n > full) {
        errno = ENOSPC;
        return -1;
    }
    step();
    return REAL(pwrite)(fd, p, n, at);
}

int flock(int fd, int how)
{
    return getenv("STEPS_NO_LOCK") ? 0 : REAL(flock)(fd, how);
}

int fsync(int fd)
{
    step();
    return REAL(fsync)(fd);
}

int link(const char *a, const char *b)
{
    step();
    return REAL(link)(a, b);
}

int unlink(const char *a)
{
    step();
    return REAL(unlink)(a);
}

int rename(const char *a, const char *b)
{
    step();
    return REAL(rename)(a, b);
}

int renameat(int i, const char *a, int k, const char *b)
{
    step();
    return REAL(renameat)(i, a, k, b);
}

int symlinkat(const char *a, int fd, const char *b)
{
    step();
    return REAL(symlinkat)(a, fd, b);
}

int mkdir(const char *a, mode_t mode);
int mkdir(const char *a, mode_t mode)
{
    step();
    return REAL(mkdir)(a, mode);
}
