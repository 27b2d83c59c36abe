/* base/process.c - other processes of this user; see process.h */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/num.h"

#define STAT 1024        /* bytes of /proc/PID/stat that are read */
#define FIELD_STARTED 20 /* fields behind the name; proc(5), starttime is 22   \
                          */

static int ready_fd = -1; /* of a detached child: its parent waits there */

int64_t sl_process_self(void)
{
    return getpid();
}

uint64_t sl_process_began(int64_t pid)
{
    char path[64], text[STAT], *p;
    int64_t v;
    size_t n;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    f = pid > 0 ? fopen(path, "re") : NULL;
    if (!f)
        return 0;
    n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = 0;
    /* The name may hold anything; it ends at the last bracket. */
    p = strrchr(text, ')');
    for (int i = 0; p && i < FIELD_STARTED; i++) {
        p = strchr(p + 1, ' ');
        /* A zombie has ended. */
        if (p && i == 0 && p[1] == 'Z')
            return 0;
    }
    if (!p || sl_num_i64(&v, p + 1, strspn(p + 1, "0123456789"), 0, INT64_MAX,
                         "", NULL))
        return 0;
    return (uint64_t)v;
}

int sl_process_end(int64_t pid, bool kill_it, struct sl_err *err)
{
    if (pid <= 1 || pid > INT32_MAX)
        return sl_fail(err, SL_EARG, "%lld is no process", (long long)pid);
    if (kill((pid_t)pid, kill_it ? SIGKILL : SIGTERM) && errno != ESRCH)
        return sl_fail_errno(err, errno, "ending process %lld", (long long)pid);
    return 0;
}

void sl_process_sleep_ms(unsigned ms)
{
    struct timespec t = {.tv_sec = ms / 1000,
                         .tv_nsec = (long)(ms % 1000) * 1000000};

    (void)nanosleep(&t, NULL);
}

int sl_process_own_dir(const char *dir, struct sl_err *err)
{
    if (mkdir(dir, 0700) && errno != EEXIST)
        return sl_fail_errno(err, errno, "making the folder '%s'", dir);
    return sl_process_check_dir(dir, err);
}

int sl_process_check_dir(const char *dir, struct sl_err *err)
{
    struct stat st;

    if (lstat(dir, &st) || !S_ISDIR(st.st_mode) || st.st_uid != getuid() ||
        (st.st_mode & 022))
        return sl_fail(err, SL_EIO,
                       "'%s' is no folder of yours alone; remove it, or set "
                       "XDG_RUNTIME_DIR",
                       dir);
    return 0;
}

/* In the child: no terminal, outputs in the log. 0 or errno. */
static int settle(int log)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (setsid() < 0 || null < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 ||
        dup2(log, 2) < 0)
        return errno;
    (void)close(null);
    return 0;
}

static int wait_ready(int fd, pid_t child, int *status, struct sl_err *err)
{
    char c = 0;
    ssize_t n;

    do
        n = read(fd, &c, 1);
    while (n < 0 && errno == EINTR);
    if (n == 1)
        return 1;
    *status = 1;
    while (waitpid(child, status, 0) < 0 && errno == EINTR)
        ;
    *status = WIFEXITED(*status) ? WEXITSTATUS(*status) : 1;
    return sl_fail(err, SL_EIO, "the server ended before it was ready");
}

int sl_process_detach(const char *log, int64_t *pid, int *status,
                      struct sl_err *err)
{
    int fd[2], out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    pid_t child;
    int rc;

    if (out < 0)
        return sl_fail_errno(err, errno, "opening '%s'", log);
    if (pipe2(fd, O_CLOEXEC)) {
        rc = sl_fail_errno(err, errno, "a pipe");
        close(out);
        return rc;
    }
    child = fork();
    if (child == 0) {
        (void)close(fd[0]);
        if (settle(out))
            _exit(1);
        (void)close(out);
        ready_fd = fd[1];
        return 0;
    }
    rc = child < 0 ? sl_fail_errno(err, errno, "starting a process") : 0;
    close(out);
    close(fd[1]);
    *pid = child;
    if (!rc)
        rc = wait_ready(fd[0], child, status, err);
    close(fd[0]);
    return rc;
}

void sl_process_ready(void)
{
    if (ready_fd < 0)
        return;
    (void)!write(ready_fd, "R", 1);
    (void)close(ready_fd);
    ready_fd = -1;
}

void sl_process_open_many(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur == r.rlim_max)
        return;
    r.rlim_cur = r.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &r); /* then it stays as it was */
}
