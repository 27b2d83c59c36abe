/* cli/progress.c - how far a long job is; see progress.h */
#include "cli/progress.h"

#include "base/clock.h"
#include "base/term.h"
#include "cli/verb.h"

#define QUIET_NS                                                               \
    300000000u             /* before the first bar: less is not worth a look   \
                            */
#define DRAW_NS 100000000u /* between two bars: faster only flickers */
#define BAR 24             /* characters of a full bar */
#define TEXT_COLS 60       /* of a line beside its bar, at most */

void sl_progress_init(struct sl_progress *p, const char *what)
{
    *p = (struct sl_progress){.what = what,
                              .start_ns = sl_clock_ns(),
                              .tty = sl_term_is_tty(SL_STDERR)};
}

static void draw(const struct sl_progress *p, uint64_t now, uint64_t done,
                 uint64_t total)
{
    char have[SL_CLI_BYTES_LEN], all[SL_CLI_BYTES_LEN], rate[SL_CLI_BYTES_LEN];
    double s = sl_clock_s(p->start_ns, now);
    double per_s = (double)done / s;
    int full = (int)(BAR * done / total);

    sl_cli_bytes(have, done);
    sl_cli_bytes(all, total);
    sl_cli_bytes(rate, (uint64_t)per_s);
    if (sl_term_width() < BAR + TEXT_COLS)
        sl_note("\r%s of %s\033[K", have, all);
    else
        sl_note("\r%.24s [%.*s%*s] %s of %s, %s/s, %.0f s left\033[K", p->what,
                full, "########################", BAR - full, "", have, all,
                rate, done ? (double)(total - done) / per_s : 0.0);
}

void sl_progress_step(void *ctx, uint64_t done_bytes, uint64_t total_bytes)
{
    struct sl_progress *p = ctx;
    uint64_t now = sl_clock_ns();
    char all[SL_CLI_BYTES_LEN];

    if (total_bytes == 0 || done_bytes > total_bytes)
        return;
    if (!p->tty && !p->started) {
        sl_cli_bytes(all, total_bytes);
        sl_note("%s: %s\n", p->what, all);
        p->started = true;
    }
    if (!p->tty || now - p->start_ns < QUIET_NS || now - p->drawn_ns < DRAW_NS)
        return;
    p->started = true;
    p->drawn_ns = now;
    draw(p, now, done_bytes, total_bytes);
}

void sl_progress_end(struct sl_progress *p)
{
    if (p->tty && p->started)
        sl_note("\r\033[K");
    p->started = false;
}
