/* base/out.c - a large file, written as a whole; see out.h */
#include "base/out.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/mem.h"

static int start(struct sl_out *o, struct sl_err *err)
{
    int how = O_RDWR | O_CREAT | O_CLOEXEC;

    o->fd = open(o->tmp, how | (o->spare ? O_EXCL : O_TRUNC),
                 o->spare ? 0600 : 0666);
    if (o->fd < 0)
        return sl_fail_errno(err, errno, "writing '%.300s'", o->tmp);
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

static int open_out(struct sl_out *o, const char *path, uint64_t bytes,
                    bool spare, struct sl_err *err)
{
    char tmp[4096];
    uint64_t tag = spare ? sl_machine_random() : (uint64_t)getpid();
    int n = snprintf(tmp, sizeof(tmp), spare ? "%s.%016llx.tmp" : "%s.%llu.tmp",
                     path, (unsigned long long)tag);
    int rc;

    *o = (struct sl_out){.fd = -1, .spare = spare};
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
    return open_out(o, path, bytes, false, err);
}

int sl_out_open_spare(struct sl_out *o, const char *path, uint64_t bytes,
                      struct sl_err *err)
{
    return open_out(o, path, bytes, true, err);
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

/* fsync (if it matters), close and rename. */
static int finish(struct sl_out *o, struct sl_err *err)
{
    int e = !o->spare && fsync(o->fd) ? errno : 0;

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
        if (rc)
            (void)unlink(o->tmp);
    }
    sl_mem_free(o->path);
    sl_mem_free(o->tmp);
    *o = (struct sl_out){.fd = -1};
    return rc;
}
