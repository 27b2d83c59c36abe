/* cli/bars.c - how far downloads are; see bars.h */
#include "cli/bars.h"

#include "base/clock.h"
#include "base/term.h"
#include "cli/verb.h"

#define DRAW_NS 100000000u             /* between two pictures */
#define SAY_NS ((uint64_t)10000000000) /* between two lines for all */
#define BAR 24                         /* characters of a full bar */
#define NAME 28                        /* of a name */
#define TEXT_COLS 76                   /* of a line with its bar, at most */

void sl_bars_init(struct sl_bars *b)
{
    *b = (struct sl_bars){.tty = sl_term_is_tty(SL_STDERR)};
}

void sl_bars_end(struct sl_bars *b)
{
    if (b->n_line > 0)
        sl_note("\033[%dA\033[J", b->n_line);
    b->n_line = 0;
}

/* "left" in seconds, minutes or hours. */
static void left(char out[32], double s)
{
    if (s < 100)
        snprintf(out, 32, "%.0f s", s);
    else if (s < 6000)
        snprintf(out, 32, "%.0f min", s / 60);
    else
        snprintf(out, 32, "%.1f h", s / 3600);
}

static void rate_text(char out[100], const struct sl_bars *b, uint64_t now)
{
    double s = sl_clock_s(b->start_ns, now);
    double per_s = s > 0 ? (double)(b->all_done - b->first_done) / s : 0;
    char rate[SL_CLI_BYTES_LEN], time[32];

    sl_cli_bytes(rate, (uint64_t)per_s);
    left(time, per_s > 0 ? (double)(b->all_total - b->all_done) / per_s : 0);
    snprintf(out, 100, "%s/s, %s left", rate, time);
}

static void line(struct sl_bars *b, const char *name, uint64_t done,
                 uint64_t total, const char *more)
{
    char have[SL_CLI_BYTES_LEN], all[SL_CLI_BYTES_LEN];
    int full = total ? (int)(BAR * done / total) : BAR;

    sl_cli_bytes(have, done);
    sl_cli_bytes(all, total);
    if (sl_term_width() < TEXT_COLS + BAR)
        sl_note("%.*s %s of %s\033[K\n", NAME, name, have, all);
    else
        sl_note("%-*.*s [%.*s%*s] %s of %s%s%s\033[K\n", NAME, NAME, name, full,
                "########################", BAR - full, "", have, all,
                *more ? ", " : "", more);
    b->n_line++;
}

static void draw(struct sl_bars *b, uint64_t now)
{
    char more[100];

    sl_bars_end(b);
    for (int i = 0; i < SL_BARS_MAX; i++)
        if (b->bar[i].name[0])
            line(b, b->bar[i].name, b->bar[i].done, b->bar[i].total, "");
    rate_text(more, b, now);
    line(b, "all", b->all_done, b->all_total, more);
}

/* The end of a path says most. */
static const char *tail(const char *path)
{
    size_t n = strlen(path);

    return n > NAME ? path + n - NAME : path;
}

/* Remember the file; forget it when it is done. */
static void keep(struct sl_bars *b, const struct sl_fetch_step *s)
{
    const char *name = tail(s->path);
    int at = -1;

    for (int i = 0; i < SL_BARS_MAX; i++) {
        if (!strcmp(b->bar[i].name, name)) {
            at = i;
            break;
        }
        if (!b->bar[i].name[0] && at < 0)
            at = i;
    }
    if (at < 0)
        return;
    snprintf(b->bar[at].name, sizeof(b->bar[at].name), "%s",
             s->finished ? "" : name);
    b->bar[at].done = s->done;
    b->bar[at].total = s->total;
}

static void say(struct sl_bars *b, const struct sl_fetch_step *s, uint64_t now)
{
    char bytes[SL_CLI_BYTES_LEN], more[100];

    if (s->finished) {
        sl_cli_bytes(bytes, s->total);
        sl_note("  %s: %s\n", s->path, bytes);
    }
    if (now - b->said_ns < SAY_NS)
        return;
    b->said_ns = now;
    rate_text(more, b, now);
    sl_note("  %llu %% of all, %s\n",
            (unsigned long long)(b->all_total ? 100 * b->all_done / b->all_total
                                              : 100),
            more);
}

void sl_bars_step(struct sl_bars *b, const struct sl_fetch_step *s)
{
    uint64_t now = sl_clock_ns();

    if (!b->started) {
        b->started = true;
        b->start_ns = b->said_ns = b->drawn_ns = now;
        b->first_done = s->all_done;
    }
    b->all_done = s->all_done;
    b->all_total = s->all_total;
    if (b->first_done > b->all_done)
        b->first_done = b->all_done;
    keep(b, s);
    if (!b->tty)
        say(b, s, now);
    else if (now - b->drawn_ns >= DRAW_NS || s->finished) {
        b->drawn_ns = now;
        draw(b, now);
    }
}
