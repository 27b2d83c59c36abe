/* base/term.c - the standard streams and the terminal; see term.h */
#include "base/term.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

#define MAX_NOTE 4096   /* bytes of one line on standard error */
#define READ_BYTES 4096 /* a call's share of the stack */

void sl_term_init(void)
{
    struct sigaction a = {.sa_handler = SIG_IGN};

    sigaction(SIGPIPE, &a, NULL);
    sigaction(SIGXFSZ, &a, NULL); /* a file that may not grow: an error */
    for (int fd = 0; fd <= 2; fd++)
        /* The wrong direction on purpose: reading or writing it still fails. */
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

static int out_failed(int e, struct sl_err *err)
{
    if (e == EPIPE)
        return sl_fail(err, SL_EIO,
                       "standard output was closed by its reader before "
                       "everything was written; keep it open until the end");
    if (e == EBADF)
        return sl_fail(err, SL_EIO,
                       "standard output is not open for writing; redirect it "
                       "to a file or to /dev/null");
    if (e == ENOSPC || e == EDQUOT)
        return sl_fail(err, SL_ENOSPACE,
                       "standard output: the disk is full; free some space or "
                       "write elsewhere");
    return sl_fail_errno(err, e, "writing to standard output");
}

int sl_out_write(const char *p, size_t n, struct sl_err *err)
{
    while (n > 0) {
        ssize_t done = write(STDOUT_FILENO, p, n);

        if (done > 0) {
            p += done;
            n -= (size_t)done;
        } else if (done < 0 && errno == EAGAIN) {
            /* Somebody shares the stream and made it non-blocking. */
            struct pollfd f = {.fd = STDOUT_FILENO, .events = POLLOUT};

            (void)poll(&f, 1, -1);
        } else if (done < 0 && errno != EINTR) {
            return out_failed(errno, err);
        }
    }
    return 0;
}

int sl_out_str(const char *s, struct sl_err *err)
{
    return sl_out_write(s, strlen(s), err);
}

void sl_note(const char *fmt, ...)
{
    char line[MAX_NOTE];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (n > 0 &&
        write(STDERR_FILENO, line, sl_min((size_t)n, sizeof(line) - 1)) < 0)
        return;
}

int sl_in_read(char **out, size_t *len, size_t max, struct sl_err *err)
{
    struct sl_buf b;
    char chunk[READ_BYTES];
    int rc = 0;

    sl_buf_init(&b, max);
    for (;;) {
        ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = sl_fail_errno(err, errno, "reading standard input");
        if (n <= 0)
            break;
        sl_buf_add(&b, chunk, (size_t)n);
        if (b.failed)
            break;
    }
    if (!rc)
        rc = sl_buf_check(&b, "standard input", err);
    if (!rc && !b.p)
        rc = sl_mem_dup(&b.p, "", 0, err);
    if (rc) {
        sl_buf_deinit(&b);
        return rc;
    }
    *out = b.p;
    *len = b.len;
    return 0;
}

bool sl_term_is_tty(enum sl_stream s)
{
    return isatty((int)s) == 1;
}

unsigned sl_term_width(void)
{
    struct winsize w;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) || w.ws_col == 0)
        return 80;
    return w.ws_col;
}

static struct {
    struct sl_on_interrupt now;
    pthread_t thread;
} on_interrupt; /* of `thread`; changed only while it blocks SIGINT */

static void handler(int sig)
{
    int saved = errno;

    /* Any thread may be hit, but only one knows whether ctx is alive. */
    if (!pthread_equal(pthread_self(), on_interrupt.thread))
        pthread_kill(on_interrupt.thread, sig);
    else if (on_interrupt.now.fn)
        on_interrupt.now.fn(on_interrupt.now.ctx);
    errno = saved;
}

/* Hold SIGINT back; *old is as it was. */
static void block(sigset_t *old)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, old);
}

struct sl_on_interrupt sl_term_on_interrupt(struct sl_on_interrupt new)
{
    /* No SA_RESTART: a prompt that waits for a line has to notice. */
    struct sigaction a = {.sa_handler = new.fn ? handler : SIG_DFL};
    struct sl_on_interrupt before;
    sigset_t old;

    block(&old);
    before = on_interrupt.now;
    on_interrupt.now = new;
    on_interrupt.thread = pthread_self();
    sigaction(SIGINT, &a, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return before;
}

bool sl_in_wait(const volatile sig_atomic_t *hit)
{
    struct pollfd f = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t old;
    int n = -1;

    /* Let in only while it waits, so never between the look and the wait. */
    block(&old);
    while (!*hit && n < 0) {
        n = ppoll(&f, 1, NULL, &old);
        if (n < 0 && errno != EINTR)
            n = 1; /* the read will say */
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return n > 0;
}
