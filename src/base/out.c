/* base/out.c - a large file, written as a whole; see out.h */
#include "base/out.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/machine.h"
#include "base/mem.h"

#define PATH_CAP 4096
#define TRIES 8 /* chosen: each needs another process in a window of us */

/* --- what killed processes left --- */

struct sweep {
    const char *dir, *name; /* of the file that is to be written */
};

/* Who writes one holds a lock on it, which ends with the process. */
bool sl_out_left(const char *path, bool remove)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    bool left;

    if (fd < 0)
        return false;
    left = !flock(fd, LOCK_EX | LOCK_NB);
    if (left && remove)
        left = !unlink(path);
    (void)close(fd);
    return left;
}

/* NAME.DIGITS.tmp. */
static void sweep_one(void *ctx, const char *name)
{
    const struct sweep *w = ctx;
    size_t n = strlen(w->name), digits;
    char path[PATH_CAP];

    if (strncmp(name, w->name, n) || name[n] != '.')
        return;
    digits = strspn(name + n + 1, "0123456789");
    if (!digits || strcmp(name + n + 1 + digits, ".tmp") ||
        sl_path_join(path, sizeof(path), w->dir, name, NULL))
        return;
    (void)sl_out_left(path, true);
}

/* The folder that a path is in; NULL when its name is too long. *name is the
 * rest. */
static const char *folder_of(char dir[PATH_CAP], const char *path,
                             const char **name)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 0;

    *name = path + n;
    if (n >= PATH_CAP)
        return NULL;
    memcpy(dir, n ? path : "./", n ? n : 2);
    dir[n ? n : 2] = 0;
    return dir;
}

void sl_out_sweep(const char *path)
{
    char dir[PATH_CAP];
    struct sweep w;

    w.dir = folder_of(dir, path, &w.name);
    if (w.dir)
        (void)sl_dir_each(dir, sweep_one, &w, NULL);
}

/* Lock what was just made. False when another took it for a leftover before. */
static bool own(int fd)
{
    struct stat st;

    (void)flock(fd, LOCK_EX | LOCK_NB); /* not every file system has locks */
    return !fstat(fd, &st) && st.st_nlink > 0;
}

/* --- the file --- */

/* A file without a name, of which nothing is left however we end. -1 where the
 * file system has none. */
static int open_nameless(const char *path, mode_t mode)
{
    char dir[PATH_CAP];
    const char *name;

    if (!folder_of(dir, path, &name))
        return -1;
    return open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
}

static int start(struct sl_out *o, struct sl_err *err)
{
    int how = O_RDWR | O_CREAT | O_CLOEXEC | O_EXCL;
    mode_t mode = o->spare || o->secret ? 0600 : 0666;

    o->fd = open_nameless(o->path, mode);
    o->nameless = o->fd >= 0;
    for (int i = 0; o->fd < 0 && i < TRIES; i++) {
        o->fd = open(o->tmp, how, mode);
        if (o->fd < 0)
            return sl_fail_errno(err, errno, "writing '%.300s'", o->tmp);
        if (!o->spare && !own(o->fd)) {
            (void)close(o->fd);
            o->fd = -1;
        }
    }
    if (o->fd < 0)
        return sl_fail(err, SL_EBUSY,
                       "other processes remove '%.300s' while it is made; try "
                       "again",
                       o->tmp);
    o->open = true;
    return 0;
}

int sl_out_size(struct sl_out *o, uint64_t bytes, struct sl_err *err)
{
    int e = bytes ? posix_fallocate(o->fd, 0, (off_t)bytes) : 0;

    o->bytes = bytes;
    if (e)
        return sl_fail_errno(err, e, "'%.300s' needs %.2f GiB", o->path,
                             (double)bytes / 0x1p30);
    return 0;
}

int sl_out_rename(struct sl_out *o, const char *path, struct sl_err *err)
{
    char *p = NULL;
    int rc = sl_mem_dup(&p, path, strlen(path), err);

    if (rc)
        return rc;
    sl_mem_free(o->path);
    o->path = p;
    return 0;
}

/* o says of which kind. */
static int open_out(struct sl_out *o, const char *path, uint64_t bytes,
                    struct sl_err *err)
{
    char tmp[PATH_CAP];
    /* Only digits where the next one sweeps; see sweep_one. */
    int n = snprintf(tmp, sizeof(tmp),
                     o->spare ? "%s.%016llx.tmp" : "%s.%llu.tmp", path,
                     (unsigned long long)sl_machine_random());
    int rc;

    if (!o->spare)
        sl_out_sweep(path);
    if (n < 0 || (size_t)n >= sizeof(tmp))
        return sl_fail(err, SL_EARG, "the path '%.100s...' is too long", path);
    rc = sl_mem_dup(&o->path, path, strlen(path), err);
    if (!rc)
        rc = sl_mem_dup(&o->tmp, tmp, (size_t)n, err);
    if (!rc)
        rc = start(o, err);
    return rc ? rc : sl_out_size(o, bytes, err);
}

int sl_out_open(struct sl_out *o, const char *path, uint64_t bytes,
                struct sl_err *err)
{
    *o = (struct sl_out){.fd = -1};
    return open_out(o, path, bytes, err);
}

int sl_out_open_spare(struct sl_out *o, const char *path, uint64_t bytes,
                      struct sl_err *err)
{
    *o = (struct sl_out){.fd = -1, .spare = true};
    return open_out(o, path, bytes, err);
}

int sl_out_open_secret(struct sl_out *o, const char *path, struct sl_err *err)
{
    *o = (struct sl_out){.fd = -1, .secret = true};
    return open_out(o, path, 0, err);
}

int sl_out_at(const struct sl_out *o, uint64_t at, const void *p, size_t n,
              struct sl_err *err)
{
    const char *s = p;

    while (n > 0) {
        ssize_t k = pwrite(o->fd, s, n, (off_t)at);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return sl_fail_errno(err, k < 0 ? errno : EIO, "writing '%.300s'",
                                 o->tmp);
        s += k;
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return 0;
}

int sl_out_map(const struct sl_out *o, unsigned char **p, struct sl_err *err)
{
    void *m =
        mmap(NULL, o->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, o->fd, 0);

    if (m == MAP_FAILED)
        return sl_fail_errno(err, errno, "mapping '%.300s'", o->tmp);
    *p = m;
    return 0;
}

void sl_out_unmap(const struct sl_out *o, unsigned char *p)
{
    if (p)
        (void)munmap(p, o->bytes);
}

/* A name for a file without one; others that sweep see that it is ours. */
static int give_name(struct sl_out *o)
{
    char self[64];

    snprintf(self, sizeof(self), "/proc/self/fd/%d", o->fd);
    (void)flock(o->fd, LOCK_EX | LOCK_NB);
    if (linkat(AT_FDCWD, self, AT_FDCWD, o->tmp, AT_SYMLINK_FOLLOW))
        return errno;
    return 0;
}

/* fsync (if it matters), close and rename. */
static int finish(struct sl_out *o, struct sl_err *err)
{
    int e = !o->spare && fsync(o->fd) ? errno : 0;

    if (!e && o->nameless)
        e = give_name(o);
    o->nameless &= e != 0;
    if (close(o->fd) && !e)
        e = errno;
    o->fd = -1;
    if (!e && rename(o->tmp, o->path))
        e = errno;
    return e ? sl_fail_errno(err, e, "writing '%.300s'", o->path) : 0;
}

int sl_out_close(struct sl_out *o, int rc, struct sl_err *err)
{
    if (o->open) {
        if (!rc)
            rc = finish(o, err);
        if (o->fd >= 0)
            (void)close(o->fd);
        if (rc && !o->nameless)
            (void)unlink(o->tmp);
    }
    sl_mem_free(o->path);
    sl_mem_free(o->tmp);
    *o = (struct sl_out){.fd = -1};
    return rc;
}
