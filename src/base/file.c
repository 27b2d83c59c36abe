/* base/file.c - files and maps; see file.h */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/mem.h"

/* Open a regular file for reading; *len is its size. */
static int open_regular(int *fd, size_t *len, const char *path,
                        struct sl_err *err)
{
    struct stat st;
    int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (f < 0)
        return sl_fail_errno(err, errno, "opening '%s'", path);
    if (fstat(f, &st) || !S_ISREG(st.st_mode)) {
        close(f);
        return sl_fail(err, SL_EARG, "'%s' is not a regular file", path);
    }
    *fd = f;
    *len = (size_t)st.st_size;
    return 0;
}

int sl_map_open(struct sl_map *m, const char *path, struct sl_err *err)
{
    void *p = NULL;
    size_t len;
    int fd, e, rc = open_regular(&fd, &len, path, err);

    if (rc)
        return rc;
    if (len > 0)
        p = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
    e = errno;
    close(fd);
    if (p == MAP_FAILED)
        return sl_fail_errno(err, e, "mapping '%s' (%zu bytes)", path, len);
    *m = (struct sl_map){.p = p, .len = len};
    return 0;
}

void sl_map_close(struct sl_map *m)
{
    if (m->p)
        (void)munmap((void *)(uintptr_t)m->p, m->len);
    *m = (struct sl_map){0};
}

/* madvise on the pages that lie wholly inside [offset, offset + len). */
static void advise(const struct sl_map *m, size_t offset, size_t len,
                   int advice)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t lo = sl_round_up(offset, page);
    size_t hi = (offset + len) / page * page;

    if (m->p && offset <= m->len && len <= m->len - offset && lo < hi)
        (void)madvise((void *)((uintptr_t)m->p + lo), hi - lo, advice);
}

void sl_map_drop(const struct sl_map *m, size_t offset, size_t len)
{
    advise(m, offset, len, MADV_DONTNEED);
}

void sl_map_want(const struct sl_map *m, size_t offset, size_t len)
{
    advise(m, offset, len, MADV_WILLNEED);
}

static int read_all(int fd, char *p, size_t len, const char *path,
                    struct sl_err *err)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = read(fd, p + got, len - got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sl_fail_errno(err, errno, "reading '%s'", path);
        if (n == 0)
            return sl_fail(err, SL_EIO,
                           "'%s' became shorter while it was read", path);
        got += (size_t)n;
    }
    return 0;
}

int sl_file_read(char **out, size_t *len, const char *path, size_t max,
                 struct sl_err *err)
{
    char *p = NULL;
    size_t n;
    int fd, rc = open_regular(&fd, &n, path, err);

    if (rc)
        return rc;
    if (n > max)
        rc = sl_fail(err, SL_EFORMAT,
                     "'%s' has %zu bytes and the limit is %zu; is it the "
                     "right file?",
                     path, n, max);
    if (!rc)
        rc = sl_mem_alloc(&p, n + 1, 1, path, err);
    if (!rc)
        rc = read_all(fd, p, n, path, err);
    close(fd);
    if (rc) {
        sl_mem_free(p);
        return rc;
    }
    *out = p;
    *len = n;
    return 0;
}

void sl_file_free(char *text)
{
    sl_mem_free(text);
}

static int write_all(int fd, const char *p, size_t len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = write(fd, p + done, len - done);

        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0)
            done += (size_t)n;
    }
    return fsync(fd);
}

int sl_file_write(const char *path, const void *p, size_t len,
                  struct sl_err *err)
{
    char tmp[4096];
    /* No process number: other containers have the same ones. */
    int n = snprintf(tmp, sizeof(tmp), "%s.%016llx.tmp", path,
                     (unsigned long long)sl_machine_random());
    int fd, e;

    if (n < 0 || (size_t)n >= sizeof(tmp))
        return sl_fail(err, SL_EARG, "the path '%.100s...' is too long", path);
    fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return sl_fail_errno(err, errno, "writing '%s'", path);
    e = write_all(fd, p, len) ? errno : 0;
    if (close(fd) && !e)
        e = errno;
    if (!e && rename(tmp, path))
        e = errno;
    if (!e)
        return 0;
    (void)unlink(tmp);
    return sl_fail_errno(err, e, "writing '%s'", path);
}

enum sl_file_kind sl_file_kind(const char *path)
{
    struct stat st;

    if (stat(path, &st))
        return SL_FILE_NONE;
    if (S_ISREG(st.st_mode))
        return SL_FILE_REGULAR;
    return S_ISDIR(st.st_mode) ? SL_FILE_DIR : SL_FILE_OTHER;
}

int sl_dir_each(const char *dir, sl_dir_fn *fn, void *ctx, struct sl_err *err)
{
    DIR *d = opendir(dir);
    const struct dirent *e;

    if (!d)
        return sl_fail_errno(err, errno, "listing '%s'", dir);
    while ((e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            fn(ctx, e->d_name);
    closedir(d);
    return 0;
}

int sl_path_join(char *out, size_t cap, const char *dir, const char *name,
                 struct sl_err *err)
{
    size_t n = strlen(dir);
    const char *slash = n > 0 && dir[n - 1] != '/' ? "/" : "";
    int len = snprintf(out, cap, "%s%s%s", dir, slash, name);

    if (len < 0 || (size_t)len >= cap)
        return sl_fail(err, SL_EARG, "the path '%.100s...' is too long", dir);
    return 0;
}

int sl_path_self(char *out, size_t cap, struct sl_err *err)
{
    ssize_t n = readlink("/proc/self/exe", out, cap);
    char *slash;

    if (n < 0)
        return sl_fail_errno(err, errno, "finding the program's own folder");
    if ((size_t)n >= cap)
        return sl_fail(err, SL_EARG, "the path of the program is too long");
    out[n] = 0;
    slash = strrchr(out, '/');
    if (slash)
        *slash = 0;
    return 0;
}

bool sl_file_stamp(struct sl_file_stamp *out, const char *path)
{
    struct stat st;

    if (stat(path, &st))
        return false;
    *out = (struct sl_file_stamp){
        .dev = (uint64_t)st.st_dev,
        .inode = (uint64_t)st.st_ino,
        .size = (uint64_t)st.st_size,
        .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 +
                    st.st_mtim.tv_nsec};
    return true;
}

#define SECOND 1000000000 /* ns */

bool sl_file_touch(const char *path, int64_t ns)
{
    struct timespec t[2] = {{.tv_nsec = UTIME_OMIT},
                            {.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND}};

    /* Where nothing may be changed the file is still there. */
    return utimensat(AT_FDCWD, path, t, 0) == 0 || errno == EPERM ||
           errno == EROFS;
}

int64_t sl_file_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

int sl_dir_make(const char *dir, struct sl_err *err)
{
    char path[4096];
    size_t len = strlen(dir);

    if (len == 0 || len >= sizeof(path))
        return sl_fail(err, SL_EARG, "the path '%.100s' is empty or too long",
                       dir);
    for (size_t i = 1; i <= len; i++) {
        if (i < len && dir[i] != '/')
            continue;
        memcpy(path, dir, i);
        path[i] = 0;
        if (mkdir(path, 0777) && errno != EEXIST &&
            sl_file_kind(path) != SL_FILE_DIR)
            return sl_fail_errno(err, errno, "making the folder '%s'", path);
    }
    if (sl_file_kind(dir) != SL_FILE_DIR)
        return sl_fail(err, SL_EIO, "'%s' is there and no folder", dir);
    return 0;
}

bool sl_file_remove(const char *path)
{
    return unlink(path) == 0 || errno == ENOENT;
}

static bool lock_path(char out[4096], const char *dir, const char *name)
{
    int n = snprintf(out, 4096, "%s/.%s.lock", dir, name);

    return n > 0 && n < 4096;
}

int sl_file_lock(const char *dir, const char *name)
{
    char path[4096];
    int fd;

    if (!lock_path(path, dir, name))
        return -1;
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    while (fd >= 0 && flock(fd, LOCK_EX) && errno == EINTR)
        ;
    return fd;
}

void sl_file_unlock(int lock, const char *dir, const char *name)
{
    char path[4096];

    if (lock < 0)
        return;
    /* Who waits for the old file finds what was made, or makes it again. */
    if (lock_path(path, dir, name))
        (void)unlink(path);
    (void)close(lock);
}
