/* server/pulse.h - does the engine move, and what does it do meanwhile
 *
 * The loop looks now and then at what the engine tells of itself. An engine
 * that has work and makes no step for very long is dead: /health says so, and
 * whoever watches it starts the server again. What counts as long follows from
 * the steps that were seen.
 *
 * Pure: it knows no clock. Loop thread.
 */
#ifndef SL_SERVER_PULSE_H
#define SL_SERVER_PULSE_H

#include "base/buf.h"
#include "sluice/sluice.h"

/* Without a step for so long, and so many times the longest seen, it is dead.
 * The first step may read all weights from a slow disk: 60 GB at 200 MB/s take
 * 300 s. Chosen. */
#define SL_PULSE_DEAD_S 300
#define SL_PULSE_STEPS 20

/* What one look counts at most: when the loop did not run for longer, the whole
 * process was stopped, and the engine with it. Chosen. */
#define SL_PULSE_GAP_S 30

struct sl_pulse {
    struct sl_engine_stats last; /* at the last look */
    uint64_t last_ns;
    double still_s; /* with work and without a step */
    uint64_t n_out, n_prompt, n_cached; /* tokens, at the last look */
    double longest_s; /* step, on average between two looks */
    bool begun, is_dead;
};

/* What the server has counted, all since its start. */
struct sl_pulse_counts {
    uint64_t n_out;              /* tokens that came */
    uint64_t n_prompt, n_cached; /* of requests that ended */
    uint32_t n_waiting;          /* sequences, now */
    bool has_work;               /* for the engine, now */
};

/* Look. With steps since the last one `line` gets how it goes, as an event for
 * the log; when it is found dead that, once; else it stays as it is. */
void sl_pulse_look(struct sl_pulse *p, const struct sl_engine_stats *e,
                   const struct sl_pulse_counts *c, uint64_t now_ns,
                   struct sl_buf *line);

/* When a client that found no place should ask again: answers take answer_s on
 * average, 0 when none has ended, and n_seq run at once, so that a place is free
 * about every answer_s / n_seq. */
#define SL_PULSE_RETRY_S 30
uint32_t sl_pulse_retry_s(double answer_s, uint32_t n_seq);

#endif
