/* server/metrics.c - counters for Prometheus; see metrics.h */
#include "server/metrics.h"

#include "server/json_out.h"

static const double seconds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08,
                                 0.1,   0.25,  0.5,  0.75, 1,    2.5,  5,
                                 7.5,   10,    20,   40,   80,   160,  640,
                                 2560};
static const double long_seconds[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5,
                                      5,   10,  15,  20, 30,  40,  50,
                                      60,  120, 240, 480, 960, 1920, 7680};
static const double tokens[] = {1,    2,    5,     10,    20,    50,
                                100,  200,  500,   1000,  2000,  5000,
                                10000, 20000, 50000, 100000, 200000};

static const struct {
    const char *name, *help;
    const double *le;
    size_t n;
} hists[SL_N_HIST] = {
    [SL_H_TTFT] = {"time_to_first_token_seconds",
                   "Time from the request to its first token.", seconds,
                   SL_COUNTOF(seconds)},
    [SL_H_E2E] = {"e2e_request_latency_seconds",
                  "Time from the request to its last token.", long_seconds,
                  SL_COUNTOF(long_seconds)},
    [SL_H_QUEUE] = {"request_queue_time_seconds", "Time in the queue.",
                    long_seconds, SL_COUNTOF(long_seconds)},
    [SL_H_PROMPT] = {"request_prompt_tokens", "Tokens of a prompt.", tokens,
                     SL_COUNTOF(tokens)},
    [SL_H_OUTPUT] = {"request_generation_tokens", "Tokens of an answer.",
                     tokens, SL_COUNTOF(tokens)},
};

void sl_metrics_observe(struct sl_metrics *m, enum sl_hist h, double x)
{
    size_t i = 0;

    while (i < hists[h].n && x > hists[h].le[i])
        i++;
    m->hist[h].n[i]++;
    m->hist[h].sum += x;
}

static void head(struct sl_buf *b, const char *name, const char *type,
                 const char *help)
{
    sl_buf_fmt(b, "# HELP vllm:%s %s\n# TYPE vllm:%s %s\n", name, help, name,
               type);
}

/* One series without further labels. */
static void one(struct sl_buf *b, const char *name, const char *type,
                const char *help, const char *labels, double x)
{
    head(b, name, type, help);
    sl_buf_fmt(b, "vllm:%s{%s} %.17g\n", name, labels, x);
}

static void print_hist(struct sl_buf *b, const struct sl_metrics *m,
                       enum sl_hist h, const char *labels)
{
    const char *name = hists[h].name;
    uint64_t sum = 0;

    head(b, name, "histogram", hists[h].help);
    for (size_t i = 0; i < hists[h].n; i++) {
        sum += m->hist[h].n[i];
        sl_buf_fmt(b, "vllm:%s_bucket{%s,le=\"%g\"} %llu\n", name, labels,
                   hists[h].le[i], (unsigned long long)sum);
    }
    sum += m->hist[h].n[hists[h].n];
    sl_buf_fmt(b,
               "vllm:%s_bucket{%s,le=\"+Inf\"} %llu\nvllm:%s_sum{%s} %.17g\n"
               "vllm:%s_count{%s} %llu\n",
               name, labels, (unsigned long long)sum, name, labels,
               m->hist[h].sum, name, labels, (unsigned long long)sum);
}

static void print_counts(struct sl_buf *b, const struct sl_metrics *m,
                         const char *labels)
{
    one(b, "prompt_tokens_total", "counter", "Prompt tokens.", labels,
        (double)m->prompt_tokens);
    one(b, "prompt_tokens_cached_total", "counter",
        "Prompt tokens that were known already.", labels,
        (double)m->cached_tokens);
    one(b, "prefix_cache_queries_total", "counter",
        "Prompt tokens looked up in the prefix cache.", labels,
        (double)m->prompt_tokens);
    one(b, "prefix_cache_hits_total", "counter",
        "Prompt tokens found in the prefix cache.", labels,
        (double)m->cached_tokens);
    one(b, "generation_tokens_total", "counter", "Generated tokens.", labels,
        (double)m->generation_tokens);
    one(b, "spec_decode_num_drafts_total", "counter", "Steps with a draft.",
        labels, (double)m->drafts);
    one(b, "spec_decode_num_draft_tokens_total", "counter", "Tokens proposed.",
        labels, (double)m->draft_tokens);
    one(b, "spec_decode_num_accepted_tokens_total", "counter",
        "Proposed tokens that were right.", labels,
        (double)m->accepted_tokens);
}

void sl_metrics_print(struct sl_buf *b, const struct sl_metrics *m,
                      const char *model, uint32_t n_running,
                      uint32_t n_waiting)
{
    static const char *const reason[] = {"stop", "length", "abort", "error"};
    struct sl_buf labels;

    sl_buf_init(&labels, 4096);
    sl_buf_str(&labels, "model_name=");
    sl_json_put_str(&labels, model, strlen(model));
    sl_buf_str(&labels, ",engine=\"0\"");
    if (labels.failed) {
        sl_buf_deinit(&labels);
        return;
    }
    one(b, "num_requests_running", "gauge", "Sequences that run.", labels.p,
        n_running);
    one(b, "num_requests_waiting", "gauge", "Sequences that wait.", labels.p,
        n_waiting);
    head(b, "request_success_total", "counter", "Requests that ended.");
    for (int i = 0; i < SL_N_REASON; i++)
        sl_buf_fmt(b,
                   "vllm:request_success_total{%s,finished_reason=\"%s\"} "
                   "%llu\n",
                   labels.p, reason[i], (unsigned long long)m->reason[i]);
    print_counts(b, m, labels.p);
    for (int i = 0; i < SL_N_HIST; i++)
        print_hist(b, m, (enum sl_hist)i, labels.p);
    sl_buf_deinit(&labels);
}
