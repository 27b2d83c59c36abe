/* engine/stop.h - texts that end an answer
 *
 * Text passes through as it comes; what could be the beginning of a stop text
 * waits. What follows a stop text is never given out, and the stop text itself
 * only when it was asked for. Several hits: the one that ends first wins, of
 * those the one that begins first, so that it makes no difference in how many
 * pieces the text comes.
 */
#ifndef SL_ENGINE_STOP_H
#define SL_ENGINE_STOP_H

#include "base/buf.h"

struct sl_stop {
    char *const *text; /* [n] borrowed, none empty */
    uint32_t n;
    bool include; /* a stop text that was found is given out */
    uint32_t hit; /* index of the text that was found */
    struct sl_buf held; /* not yet given out */
};

void sl_stop_init(struct sl_stop *s, char *const *text, uint32_t n);
void sl_stop_deinit(struct sl_stop *s);

/* Move the text in `in` (which is emptied) through; what is safe is appended
 * to `out`. True when a stop text was found: nothing more will come. */
bool sl_stop_feed(struct sl_stop *s, struct sl_buf *in, struct sl_buf *out);

/* The same for text that cannot end the answer yet: a stop text counts only if
 * it ends in text that is fed later. */
void sl_stop_pass(struct sl_stop *s, struct sl_buf *in, struct sl_buf *out);

/* The answer ended by itself: give out what waits. */
void sl_stop_flush(struct sl_stop *s, struct sl_buf *out);

#endif
