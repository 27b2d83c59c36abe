/* cli/bars.h - how far downloads are, on standard error
 *
 * On a terminal one bar per file that moves and one for all; otherwise a line
 * per file that is done, and one now and then for all.
 */
#ifndef SL_CLI_BARS_H
#define SL_CLI_BARS_H

#include "bundle/fetch.h"

#define SL_BARS_MAX 4 /* files that are shown */

struct sl_bars {
    struct {
        char name[64];
        uint64_t done, total;
    } bar[SL_BARS_MAX];
    uint64_t all_done, all_total, first_done;
    uint64_t start_ns, drawn_ns, said_ns;
    int n_line; /* that are on the screen */
    bool tty, started;
};

void sl_bars_init(struct sl_bars *b);
void sl_bars_step(struct sl_bars *b, const struct sl_fetch_step *s);

/* Take the bars away; also before other lines are written. */
void sl_bars_end(struct sl_bars *b);

#endif
