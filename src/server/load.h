/* server/load.h - a load generator: many streamed requests, and their times
 *
 * The definitions are those of `vllm bench serve`, so that its users can compare:
 * t0 is just before the connection is opened; TTFT is the first event with
 * choices; ITL are the gaps between such events, which may carry several tokens;
 * a request's latency ends with its last such event; TPOT is (latency - TTFT) /
 * (output tokens - 1). Token counts are the server's own, from the usage event.
 *
 * The caller's thread runs the loop and blocks in sl_load_run.
 */
#ifndef SL_SERVER_LOAD_H
#define SL_SERVER_LOAD_H

#include "base/err.h"

struct sl_load_opts {
    const char *host;
    uint16_t port;
    const char *key;   /* NULL: none is sent */
    const char *model; /* NULL: the server's */
    bool chat;         /* /v1/chat/completions instead of /v1/completions */
    uint32_t n_request;
    uint32_t concurrency; /* requests in flight at most; 0: all at once */
    double rate;          /* requests per second, Poisson; 0: no limit */
    uint32_t n_in, n_out; /* tokens; n_in is of random prompts */
    uint32_t n_vocab;     /* random ids are below */
    uint64_t seed;
    const char *const *prompt; /* [n_prompt] texts that take turns */
    uint32_t n_prompt;         /* 0: random ids */
    /* From the loop. NULL allowed. */
    void (*progress)(void *ctx, uint32_t done, uint32_t total);
    void *progress_ctx;
};

struct sl_load_series {
    double *s; /* seconds, rising */
    size_t n, cap;
};

struct sl_load_result {
    uint32_t n_ok, n_failed;
    uint64_t n_in, n_out; /* tokens of those that succeeded */
    double duration_s;
    uint32_t most_at_once;
    struct sl_load_series ttft, tpot, itl, e2e;
    char why[300]; /* of the first failure; "" without one */
};

/* Run it to its end. Requests that fail are counted, not errors; SL_EIO when
 * the server cannot be reached at all. sl_load_deinit ends *out. */
int sl_load_run(struct sl_load_result *out, const struct sl_load_opts *o,
                struct sl_err *err);
void sl_load_deinit(struct sl_load_result *r);

/* Of a rising series: percentile p, 0 to 100, linear between neighbours; mean;
 * deviation of the whole population. 0 when it is empty. */
double sl_load_percentile(const struct sl_load_series *s, double p);
double sl_load_mean(const struct sl_load_series *s);
double sl_load_std(const struct sl_load_series *s);

#endif
