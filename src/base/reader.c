/* base/reader.c - a file that is read in parts; see reader.h */
#include "base/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int sl_reader_open(struct sl_reader *r, const char *path, struct sl_err *err)
{
    struct stat st;

    *r = (struct sl_reader){.path = path};
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (r->fd < 0)
        return sl_fail_errno(err, errno, "opening '%.300s'", path);
    if (fstat(r->fd, &st) || !S_ISREG(st.st_mode)) {
        sl_reader_close(r);
        return sl_fail(err, SL_EARG, "'%.300s' is not a regular file", path);
    }
    r->bytes = (uint64_t)st.st_size;
    return 0;
}

int sl_reader_read(const struct sl_reader *r, uint64_t at, void *p, size_t n,
                   struct sl_err *err)
{
    char *to = p;

    while (n > 0) {
        ssize_t k = pread(r->fd, to, n, (off_t)at);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return sl_fail_errno(err, errno, "reading '%.300s'", r->path);
        if (k == 0)
            return sl_fail(err, SL_EFORMAT, "'%.300s' ends too early", r->path);
        to += k;
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return 0;
}

void sl_reader_close(struct sl_reader *r)
{
    if (r->fd >= 0)
        (void)close(r->fd);
    r->fd = -1;
}
