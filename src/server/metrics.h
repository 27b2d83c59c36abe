/* server/metrics.h - counters for Prometheus
 *
 * The names are vLLM's, so that its dashboards and its benchmark read them. The
 * loop counts and the loop prints; nothing waits for the engine.
 */
#ifndef SL_SERVER_METRICS_H
#define SL_SERVER_METRICS_H

#include "base/buf.h"

enum sl_reason { SL_R_STOP, SL_R_LENGTH, SL_R_ABORT, SL_R_ERROR, SL_N_REASON };
enum sl_hist {
    SL_H_TTFT,
    SL_H_E2E,
    SL_H_QUEUE,
    SL_H_PROMPT,
    SL_H_OUTPUT,
    SL_N_HIST
};

#define SL_MAX_BUCKET 32

struct sl_metrics {
    uint64_t reason[SL_N_REASON];
    uint64_t prompt_tokens, cached_tokens, generation_tokens;
    uint64_t drafts, draft_tokens, accepted_tokens;
    uint64_t http[6]; /* replies by the first digit of the status */
    struct {
        uint64_t n[SL_MAX_BUCKET + 1];
        double sum;
    } hist[SL_N_HIST];
};

void sl_metrics_observe(struct sl_metrics *m, enum sl_hist h, double x);

/* The text of a scrape; the gauges are given. */
void sl_metrics_print(struct sl_buf *b, const struct sl_metrics *m,
                      const char *model, uint32_t n_running,
                      uint32_t n_waiting);

#endif
