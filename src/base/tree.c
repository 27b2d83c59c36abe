/* base/tree.c - folders and links; see tree.h
 *
 * What others may look at is made under another name and renamed. Temporary
 * names carry the process, so that two at work at once do not meet.
 */
#include "base/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/mem.h"

#define MAX_DEPTH 64 /* folders below one that is removed */
#define STAT_BLOCK 512 /* bytes of what stat(2) counts */
#define COPY_BYTES ((size_t)1 << 16)

bool sl_tree_stat(struct sl_stat *out, const char *path, bool follow)
{
    struct stat st;

    if (follow ? stat(path, &st) : lstat(path, &st))
        return false;
    *out =
        (struct sl_stat){.kind = S_ISREG(st.st_mode)   ? SL_FILE_REGULAR
                                 : S_ISDIR(st.st_mode) ? SL_FILE_DIR
                                                       : SL_FILE_OTHER,
                         .link = S_ISLNK(st.st_mode),
                         .size = (uint64_t)st.st_size,
                         .held = (uint64_t)st.st_blocks * STAT_BLOCK,
                         .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 +
                                     st.st_mtim.tv_nsec,
                         .inode = st.st_ino,
                         .dev = st.st_dev};
    return true;
}

int sl_tree_make(const char *dir, struct sl_err *err)
{
    char path[SL_TREE_PATH];
    int n = snprintf(path, sizeof(path), "%s", dir);

    if (n < 1 || (size_t)n >= sizeof(path))
        return sl_fail(err, SL_EARG, "the path '%.100s...' is too long", dir);
    for (char *p = path + 1;; p++) {
        bool end = *p == 0;

        if (*p != '/' && !end)
            continue;
        *p = 0;
        if (mkdir(path, 0777) && errno != EEXIST) {
            int e = errno;

            /* A folder may exist above which nothing can be made. */
            if (sl_file_kind(path) != SL_FILE_DIR)
                return sl_fail_errno(err, e, "making the folder '%s'", path);
        }
        if (end)
            break;
        *p = '/';
    }
    if (sl_file_kind(path) != SL_FILE_DIR)
        return sl_fail(err, SL_EIO, "'%s' is not a folder; move it away", path);
    return 0;
}

bool sl_tree_can_write(const char *dir)
{
    return access(dir, W_OK | X_OK) == 0;
}

bool sl_tree_can_run(const char *path)
{
    return access(path, X_OK) == 0;
}

int sl_tree_real(char out[SL_TREE_PATH], const char *path, struct sl_err *err)
{
    char *real = realpath(path, NULL);
    int n;

    if (!real)
        return sl_fail_errno(err, errno, "'%s'", path);
    n = snprintf(out, SL_TREE_PATH, "%s", real);
    free(real);
    if (n < 0 || n >= SL_TREE_PATH)
        return sl_fail(err, SL_EARG, "the path '%.100s...' is too long", path);
    return 0;
}

/* -------------------------------------------------------------- below */

/* The folder that root/rel lies in, made where it is missing; *leaf is the last
 * part of rel. */
static int open_parent(int *out, const char **leaf, const char *root,
                       const char *rel, struct sl_err *err)
{
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *p = rel, *slash;

    if (fd < 0)
        return sl_fail_errno(err, errno, "opening the folder '%s'", root);
    for (; (slash = strchr(p, '/')); p = slash + 1) {
        char part[256];
        int next, e,
            n = snprintf(part, sizeof(part), "%.*s", (int)(slash - p), p);

        if (n < 1 || (size_t)n >= sizeof(part)) {
            close(fd);
            return sl_fail(err, SL_EARG, "the path '%.200s' has a bad part",
                           rel);
        }
        (void)mkdirat(fd, part, 0777);
        next =
            openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        e = errno;
        close(fd);
        if (next < 0)
            return sl_fail_errno(err, e, "'%s/%s': the part '%s' is no folder",
                                 root, rel, part);
        fd = next;
    }
    *out = fd;
    *leaf = p;
    return 0;
}

static void temporary(char out[80], const char *what)
{
    snprintf(out, 80, ".sluice-%s-%016llx.tmp", what,
             (unsigned long long)sl_machine_random());
}

int sl_tree_link_below(const char *root, const char *rel, const char *target,
                       struct sl_err *err)
{
    const char *leaf;
    char tmp[80];
    int fd, e, rc = open_parent(&fd, &leaf, root, rel, err);

    if (rc)
        return rc;
    temporary(tmp, "link");
    e = symlinkat(target, fd, tmp) ? errno : 0;
    if (!e && renameat(fd, tmp, fd, leaf)) {
        e = errno;
        (void)unlinkat(fd, tmp, 0);
    }
    close(fd);
    return e ? sl_fail_errno(err, e, "linking '%s/%s'", root, rel) : 0;
}

/* All of `in` into `out`; 0 or errno. */
static int copy_bytes(int in, int out)
{
    char *p = NULL;
    int e = 0;

    if (sl_mem_alloc(&p, COPY_BYTES, 1, "a copy", NULL))
        return ENOMEM;
    while (!e) {
        ssize_t n = read(in, p, COPY_BYTES), done = 0;

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            e = n < 0 ? errno : 0;
            break;
        }
        while (!e && done < n) {
            ssize_t k = write(out, p + done, (size_t)(n - done));

            if (k < 0 && errno != EINTR)
                e = errno;
            if (k > 0)
                done += k;
        }
    }
    sl_mem_free(p);
    return e;
}

static int copy_at(int dir, const char *leaf, const char *from, unsigned mode)
{
    int in = open(from, O_RDONLY | O_CLOEXEC), out, e;

    if (in < 0)
        return errno;
    out = openat(dir, leaf,
                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    e = out < 0 ? errno : copy_bytes(in, out);
    if (!e && fsync(out))
        e = errno;
    if (out >= 0 && close(out) && !e)
        e = errno;
    close(in);
    if (e && out >= 0)
        (void)unlinkat(dir, leaf, 0);
    return e;
}

int sl_tree_share_below(const char *root, const char *rel, const char *from,
                        unsigned mode, struct sl_err *err)
{
    const char *leaf;
    int fd, e = 0, rc = open_parent(&fd, &leaf, root, rel, err);
    struct stat st;

    if (rc)
        return rc;
    /* A link shares its mode: only for files that are not to be run. A shared
     * cache holds what a name says for ever, so nobody writes to it. */
    if (stat(from, &st) || (st.st_mode & 0111) != (mode & 0111) ||
        linkat(AT_FDCWD, from, fd, leaf, AT_SYMLINK_FOLLOW))
        e = copy_at(fd, leaf, from, mode);
    close(fd);
    return e ? sl_fail_errno(err, e, "copying '%s' to '%s/%s'", from, root, rel)
             : 0;
}

int sl_tree_copy_below(const char *root, const char *rel, const char *from,
                       unsigned mode, struct sl_err *err)
{
    const char *leaf;
    int fd, e, rc = open_parent(&fd, &leaf, root, rel, err);

    if (rc)
        return rc;
    e = copy_at(fd, leaf, from, mode);
    close(fd);
    return e ? sl_fail_errno(err, e, "copying '%s' to '%s/%s'", from, root, rel)
             : 0;
}

/* -------------------------------------------------------------- names */

int sl_tree_read_link(char out[SL_TREE_PATH], const char *path,
                      struct sl_err *err)
{
    ssize_t n = readlink(path, out, SL_TREE_PATH);

    if (n < 0 || n >= SL_TREE_PATH)
        return sl_fail(err, SL_ENOTFOUND, "'%s' is no link", path);
    out[n] = 0;
    return 0;
}

int sl_tree_adopt(const char *from, const char *to, struct sl_err *err)
{
    int e;

    if (link(from, to) == 0) {
        (void)unlink(from);
        return 0;
    }
    e = errno;
    if (e == EEXIST)
        return 1;
    if (e != EPERM && e != ENOTSUP && e != ENOSYS && e != EMLINK)
        return sl_fail_errno(err, e, "naming '%s'", to);
    /* No hard links here. */
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno == EEXIST)
        return 1;
    if (errno != EINVAL && errno != ENOSYS)
        return sl_fail_errno(err, errno, "naming '%s'", to);
    return sl_tree_rename(from, to, err);
}

int sl_tree_rename(const char *from, const char *to, struct sl_err *err)
{
    return rename(from, to) ? sl_fail_errno(err, errno, "naming '%s'", to) : 0;
}

int sl_tree_unlink(const char *path, struct sl_err *err)
{
    return unlink(path) && errno != ENOENT
               ? sl_fail_errno(err, errno, "removing '%s'", path)
               : 0;
}

int sl_tree_rmdir(const char *dir)
{
    return rmdir(dir) ? SL_EIO : 0;
}

/* Everything in the folder `fd`, which this ends; 0 or errno. Recursion is
 * bounded by `depth`. */
static int empty(int fd, int depth)
{
    DIR *d = fdopendir(fd);
    const struct dirent *e;
    int bad = 0;

    if (!d) {
        bad = errno;
        close(fd);
        return bad;
    }
    while (!bad && (e = readdir(d))) {
        int sub;

        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (unlinkat(fd, e->d_name, 0) == 0)
            continue;
        sub = openat(fd, e->d_name,
                     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (sub < 0 || depth == 0) {
            bad = depth == 0 ? ELOOP : errno;
            if (sub >= 0)
                close(sub);
            break;
        }
        bad = empty(sub, depth - 1);
        if (!bad && unlinkat(fd, e->d_name, AT_REMOVEDIR))
            bad = errno;
    }
    closedir(d);
    return bad;
}

int sl_tree_remove(const char *dir, struct sl_err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), e;

    if (fd < 0)
        return errno == ENOENT
                   ? 0
                   : sl_fail_errno(err, errno, "removing '%s'", dir);
    e = empty(fd, MAX_DEPTH);
    if (!e && rmdir(dir))
        e = errno;
    return e ? sl_fail_errno(err, e, "removing '%s'", dir) : 0;
}

int sl_tree_sync(const char *dir, struct sl_err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), e = 0;

    if (fd < 0 || fsync(fd))
        e = errno;
    if (fd >= 0)
        close(fd);
    /* Some network file systems have no fsync for folders. */
    return e && e != EINVAL ? sl_fail_errno(err, e, "writing '%s'", dir) : 0;
}

/* -------------------------------------------------------------- space */

/* `path`, or the nearest folder above it that exists. */
static void nearest(char out[SL_TREE_PATH], const char *path)
{
    struct stat st;

    snprintf(out, SL_TREE_PATH, "%s", path);
    while (*out && stat(out, &st)) {
        char *slash = strrchr(out, '/');

        if (!slash)
            snprintf(out, SL_TREE_PATH, ".");
        else
            slash[slash == out] = 0;
        if (!strcmp(out, "/") || !strcmp(out, "."))
            break;
    }
}

uint64_t sl_tree_free(const char *path)
{
    char dir[SL_TREE_PATH];
    struct statvfs v;

    nearest(dir, path);
    return statvfs(dir, &v) ? UINT64_MAX : (uint64_t)v.f_bavail * v.f_frsize;
}

uint64_t sl_tree_device(const char *path)
{
    char dir[SL_TREE_PATH];
    struct stat st;

    nearest(dir, path);
    return stat(dir, &st) ? 0 : st.st_dev;
}

/* --------------------------------------------------------------- list */

int sl_names_add(struct sl_names *l, const char *name, struct sl_err *err)
{
    int rc;

    if (l->n == SL_NAMES_MAX)
        return sl_fail(err, SL_EFORMAT, "a folder has more than %d names",
                       SL_NAMES_MAX);
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 16;

        rc = sl_mem_resize(&l->name, cap, sizeof(*l->name), "names", err);
        if (rc)
            return rc;
        l->cap = cap;
    }
    rc = sl_mem_dup(&l->name[l->n], name, strlen(name), err);
    l->n += !rc;
    return rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int sl_names_list(struct sl_names *out, const char *dir, struct sl_err *err)
{
    struct sl_names l = {.n = 0};
    DIR *d = opendir(dir);
    const struct dirent *e;
    int rc = 0;

    if (!d && errno != ENOENT && errno != ENOTDIR)
        return sl_fail_errno(err, errno, "listing '%s'", dir);
    while (d && !rc && (e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            rc = sl_names_add(&l, e->d_name, err);
    if (d)
        closedir(d);
    if (rc) {
        sl_names_deinit(&l);
        return rc;
    }
    if (l.n)
        qsort(l.name, l.n, sizeof(*l.name), by_name);
    *out = l;
    return 0;
}

void sl_names_deinit(struct sl_names *l)
{
    for (size_t i = 0; i < l->n; i++)
        sl_mem_free(l->name[i]);
    sl_mem_free(l->name);
    *l = (struct sl_names){.n = 0};
}
