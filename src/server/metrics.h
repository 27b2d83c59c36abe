/* server/metrics.h - counters for Prometheus
 *
 * The names are vLLM's, so that its dashboards and its benchmark read them. The
 * loop counts and the loop prints; nothing waits for the engine.
 */
#ifndef SL_SERVER_METRICS_H
#define SL_SERVER_METRICS_H

#include "base/buf.h"
#include "sluice/sluice.h"

enum sl_reason { SL_R_STOP, SL_R_LENGTH, SL_R_ABORT, SL_R_ERROR, SL_N_REASON };
enum sl_hist {
    SL_H_TTFT,
    SL_H_ITL,  /* between two steps of an answer */
    SL_H_TPOT, /* per answer */
    SL_H_E2E,
    SL_H_QUEUE,
    SL_H_INFERENCE,
    SL_H_PREFILL,
    SL_H_DECODE,
    SL_H_PROMPT,
    SL_H_COMPUTED,
    SL_H_OUTPUT,
    SL_H_MAX_OUTPUT,
    SL_H_MAX_TOKENS,
    SL_H_N,
    SL_N_HIST
};

#define SL_MAX_BUCKET 32

#define SL_N_HANDLER 24 /* routes, and one for all other paths */
enum sl_method { SL_M_GET, SL_M_POST, SL_M_OTHER, SL_N_METHOD };

/* Requests of a route and a method. */
struct sl_http_count {
    uint64_t status[6]; /* by the first digit; 0: no reply */
    uint64_t le[16];    /* by duration */
    double sum;
};

struct sl_metrics {
    uint64_t reason[SL_N_REASON];
    uint64_t prompt_tokens, cached_tokens, generation_tokens;
    uint64_t corrupted; /* logits that were NaN */
    uint64_t tool_parse[2][2]; /* answers that might call tools: streamed?
                                  called? */
    struct sl_http_count http[SL_N_HANDLER][SL_N_METHOD];
    struct {
        uint64_t n[SL_MAX_BUCKET + 1];
        double sum;
    } hist[SL_N_HIST];
};

void sl_metrics_observe(struct sl_metrics *m, enum sl_hist h, double x);

/* 0 when nothing was observed. */
double sl_metrics_mean(const struct sl_metrics *m, enum sl_hist h);

void sl_metrics_http(struct sl_metrics *m, size_t handler, const char *method,
                     int status, double s);

/* What a scrape knows besides. */
struct sl_metrics_more {
    const char *model;
    const char *const *handler; /* [SL_N_HANDLER] names; NULL: not used */
    struct sl_engine_stats engine;
    uint32_t n_waiting;
    bool prefix_cache;
};

/* The text of a scrape. */
void sl_metrics_print(struct sl_buf *b, const struct sl_metrics *m,
                      const struct sl_metrics_more *more);

#endif
