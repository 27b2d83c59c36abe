/* sample/history.h - what the sampler reads of a history; see sample.h
 */
#ifndef SL_SAMPLE_HISTORY_H
#define SL_SAMPLE_HISTORY_H

#include "sample/sample.h"

/* A token that occurs in the sequence. */
struct sl_seen {
    int32_t id;
    uint32_t n_out; /* times it was generated; 0: only in the prompt */
};

/* All of them, each once, in the order of first occurrence; until the next
 * push. */
const struct sl_seen *sl_history_seen(const struct sl_history *h, size_t *n);

/* The entry of one token, or NULL. */
const struct sl_seen *sl_history_get(const struct sl_history *h, int32_t id);

/* The generated tokens, oldest first; sl_history_n_out of them. */
const int32_t *sl_history_out(const struct sl_history *h);

/* All invariants, slowly (rule A5). */
bool sl_history_check(const struct sl_history *h);

#endif
