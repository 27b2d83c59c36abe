/* base/sink.c - a file that grows; see sink.h */
#include "base/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int sl_sink_open(struct sl_sink *s, const char *path, struct sl_err *err)
{
    int n = snprintf(s->path, sizeof(s->path), "%s", path);
    struct stat st;

    s->fd = -1;
    s->room = 0;
    if (n < 0 || (size_t)n >= sizeof(s->path))
        return sl_fail(err, SL_EARG, "the path '%.100s...' is too long", path);
    s->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
                 0600);
    if (s->fd < 0)
        return sl_fail_errno(err, errno, "opening '%s'", path);
    if (fstat(s->fd, &st) || !S_ISREG(st.st_mode)) {
        sl_sink_close(s);
        return sl_fail(err, SL_EIO, "'%s' is not a regular file; remove it",
                       path);
    }
    s->len = (uint64_t)st.st_size;
    return 0;
}

void sl_sink_close(struct sl_sink *s)
{
    struct stat st;

    if (s->fd < 0)
        return;
    /* To its own length: it may have grown in other hands (fetch.c). */
    if (s->room > s->len && !fstat(s->fd, &st) && ftruncate(s->fd, st.st_size))
        s->room = 0; /* it stays taken, then */
    (void)close(s->fd);
    s->fd = -1;
}

int sl_sink_reserve(struct sl_sink *s, uint64_t total, struct sl_err *err)
{
    if (total <= s->len || fallocate(s->fd, FALLOC_FL_KEEP_SIZE, (off_t)s->len,
                                     (off_t)(total - s->len)) == 0) {
        s->room = total;
        return 0;
    }
    if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
        return sl_fail_errno(err, ENOSPC, "'%s' needs %llu bytes more", s->path,
                             (unsigned long long)(total - s->len));
    return 0; /* the file system cannot; the writes will tell */
}

int sl_sink_add(struct sl_sink *s, const void *p, size_t len,
                struct sl_err *err)
{
    const char *c = p;

    while (len > 0) {
        ssize_t n = pwrite(s->fd, c, len, (off_t)s->len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sl_fail_errno(err, errno, "writing '%s'", s->path);
        s->len += (uint64_t)n;
        c += n;
        len -= (size_t)n;
    }
    return 0;
}

int sl_sink_read(const struct sl_sink *s, uint64_t at, void *p, size_t n,
                 struct sl_err *err)
{
    char *c = p;

    while (n > 0) {
        ssize_t k = pread(s->fd, c, n, (off_t)at);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return sl_fail_errno(err, errno, "reading '%s'", s->path);
        if (k == 0)
            return sl_fail(err, SL_EIO, "'%s' became shorter while it was read",
                           s->path);
        at += (uint64_t)k;
        c += k;
        n -= (size_t)k;
    }
    return 0;
}

bool sl_sink_is_there(const struct sl_sink *s)
{
    struct stat a, b;

    return !fstat(s->fd, &a) && !lstat(s->path, &b) && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

int sl_sink_cut(struct sl_sink *s, uint64_t len, struct sl_err *err)
{
    char path[sizeof(s->path)];

    if (!sl_sink_is_there(s)) {
        memcpy(path, s->path, sizeof(path));
        sl_sink_close(s);
        if (sl_sink_open(s, path, err))
            return SL_EIO;
        len = sl_min(len, s->len);
    }
    if (ftruncate(s->fd, (off_t)len))
        return sl_fail_errno(err, errno, "cutting '%s'", s->path);
    s->len = len;
    return 0;
}

int sl_sink_sync(struct sl_sink *s, struct sl_err *err)
{
    return fdatasync(s->fd) ? sl_fail_errno(err, errno, "writing '%s'", s->path)
                            : 0;
}

int sl_sink_finish(struct sl_sink *s, struct sl_err *err)
{
    mode_t mask = umask(022);

    (void)umask(mask);
    /* The room that was reserved beyond the end is given back by the cut. */
    if (ftruncate(s->fd, (off_t)s->len) || fchmod(s->fd, 0644 & ~mask) ||
        fsync(s->fd))
        return sl_fail_errno(err, errno, "writing '%s'", s->path);
    return 0;
}
