/* server/metrics.c - counters for Prometheus; see metrics.h */
#include "server/metrics.h"

#include "base/mem.h"
#include "server/json_out.h"
#include "server/kept.h"

static const double seconds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08,
                                 0.1,   0.25,  0.5,  0.75, 1,    2.5,  5,
                                 7.5,   10,    20,   40,   80,   160,  640,
                                 2560};
static const double long_seconds[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5,
                                      5,   10,  15,  20, 30,  40,  50,
                                      60,  120, 240, 480, 960, 1920, 7680};
static const double gaps[] = {0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.075,
                              0.1,   0.15,  0.2,   0.3,  0.4,   0.5,  0.75,
                              1,     2.5,   5,     7.5,  10,    20,   40,
                              80};
static const double few[] = {1, 2, 5, 10, 20};
static const double rows[SL_STATS_ROWS - 1] = {1,    8,    16,   32,  64,
                                               128,  256,  512,  1024, 2048,
                                               4096, 8192, 16384};
static const double replies[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75,
                                 1,    1.5,   2,    5,     10,  30,   60};
static const double tokens[] = {1,    2,    5,     10,    20,    50,
                                100,  200,  500,   1000,  2000,  5000,
                                10000, 20000, 50000, 100000, 200000};

static const struct {
    const char *name, *help;
    const double *le;
    size_t n;
} hists[SL_N_HIST] = {
#define H(name, le, help) {name, help, le, SL_COUNTOF(le)}
    [SL_H_TTFT] = H("time_to_first_token_seconds", seconds,
                    "Time from the request to its first token."),
    [SL_H_ITL] = H("inter_token_latency_seconds", gaps,
                   "Time between two steps of an answer."),
    [SL_H_TPOT] = H("request_time_per_output_token_seconds", gaps,
                    "Time of an answer per token behind the first."),
    [SL_H_E2E] = H("e2e_request_latency_seconds", long_seconds,
                   "Time from the request to its last token."),
    [SL_H_QUEUE] = H("request_queue_time_seconds", long_seconds,
                     "Time in the queue."),
    [SL_H_INFERENCE] = H("request_inference_time_seconds", long_seconds,
                         "Time behind the queue."),
    [SL_H_PREFILL] = H("request_prefill_time_seconds", long_seconds,
                       "Time from the queue to the first token."),
    [SL_H_DECODE] = H("request_decode_time_seconds", long_seconds,
                      "Time from the first token to the last."),
    [SL_H_PROMPT] = H("request_prompt_tokens", tokens, "Tokens of a prompt."),
    [SL_H_COMPUTED] = H("request_prefill_kv_computed_tokens", tokens,
                        "Tokens of a prompt that were not known already."),
    [SL_H_OUTPUT] = H("request_generation_tokens", tokens,
                      "Tokens of an answer."),
    [SL_H_MAX_OUTPUT] = H("request_max_num_generation_tokens", tokens,
                          "Tokens of the longest answer of a request."),
    [SL_H_MAX_TOKENS] = H("request_params_max_tokens", tokens,
                          "max_tokens of a request."),
    [SL_H_N] = H("request_params_n", few, "n of a request."),
#undef H
};

void sl_metrics_observe(struct sl_metrics *m, enum sl_hist h, double x)
{
    size_t i = 0;

    while (i < hists[h].n && x > hists[h].le[i])
        i++;
    m->hist[h].n[i]++;
    m->hist[h].sum += x;
}

double sl_metrics_mean(const struct sl_metrics *m, enum sl_hist h)
{
    uint64_t n = 0;

    for (size_t i = 0; i <= hists[h].n; i++)
        n += m->hist[h].n[i];
    return n ? m->hist[h].sum / (double)n : 0;
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

static void buckets(struct sl_buf *b, const char *name, const char *labels,
                    const double *le, size_t n, const uint64_t *count,
                    double sum)
{
    uint64_t all = 0;

    for (size_t i = 0; i < n; i++) {
        all += count[i];
        sl_buf_fmt(b, "%s_bucket{%s,le=\"%g\"} %llu\n", name, labels, le[i],
                   (unsigned long long)all);
    }
    all += count[n];
    sl_buf_fmt(b,
               "%s_bucket{%s,le=\"+Inf\"} %llu\n%s_sum{%s} %.17g\n"
               "%s_count{%s} %llu\n",
               name, labels, (unsigned long long)all, name, labels, sum, name,
               labels, (unsigned long long)all);
}

static void print_hist(struct sl_buf *b, const struct sl_metrics *m,
                       enum sl_hist h, const char *labels)
{
    char name[80];

    head(b, hists[h].name, "histogram", hists[h].help);
    snprintf(name, sizeof(name), "vllm:%s", hists[h].name);
    buckets(b, name, labels, hists[h].le, hists[h].n, m->hist[h].n,
            m->hist[h].sum);
}

/* Without the label of an engine, as vLLM has it; there a stream counts once for
 * each of its events, here once, as other answers do. */
static void print_tools(struct sl_buf *b, const struct sl_metrics *m,
                        const char *model)
{
    static const char *const mode[] = {"non_streaming", "streaming"};
    static const char *const outcome[] = {"no_tool_call", "tool_call"};

    head(b, "tool_call_parser_invocations_total", "counter",
         "Answers that were looked through for calls of tools.");
    for (int k = 0; k < 4; k++)
        sl_buf_fmt(b,
                   "vllm:tool_call_parser_invocations_total{%s,mode=\"%s\","
                   "outcome=\"%s\",request_type=\"chat_completions\"} %llu\n",
                   model, mode[k / 2], outcome[k % 2],
                   (unsigned long long)m->tool_parse[k / 2][k % 2]);
}

/* ------------------------------------------------------------ HTTP requests */

static const char *const method_name[] = {"GET", "POST", "other"};

void sl_metrics_http(struct sl_metrics *m, size_t handler, const char *method,
                     int status, double s)
{
    size_t k = SL_M_OTHER, i = 0;
    struct sl_http_count *c;

    _Static_assert(SL_COUNTOF(replies) < SL_COUNTOF(c->le), "borders fit");
    while (k > 0 && strcmp(method, method_name[k]))
        k--;
    if (strcmp(method, method_name[k]))
        k = SL_M_OTHER;
    c = &m->http[handler < SL_N_HANDLER ? handler : SL_N_HANDLER - 1][k];
    c->status[status >= 100 && status < 600 ? status / 100 : 0]++;
    while (i < SL_COUNTOF(replies) && s > replies[i])
        i++;
    c->le[i]++;
    c->sum += s;
}

static uint64_t n_requests(const struct sl_http_count *c)
{
    uint64_t n = 0;

    for (size_t i = 0; i < SL_COUNTOF(c->status); i++)
        n += c->status[i];
    return n;
}

static void print_http(struct sl_buf *b, const struct sl_metrics *m,
                       const char *const *handler)
{
    char labels[200];

    sl_buf_str(b, "# HELP http_requests_total Requests.\n"
                  "# TYPE http_requests_total counter\n");
    for (size_t h = 0; h < SL_N_HANDLER; h++)
        for (int k = 0; k < SL_N_METHOD; k++)
            for (size_t d = 0; d < 6; d++)
                if (m->http[h][k].status[d])
                    sl_buf_fmt(b,
                               "http_requests_total{handler=\"%s\",method="
                               "\"%s\",status=\"%zuxx\"} %llu\n",
                               handler[h], method_name[k], d,
                               (unsigned long long)m->http[h][k].status[d]);
    sl_buf_str(b, "# HELP http_request_duration_seconds Time of a reply.\n"
                  "# TYPE http_request_duration_seconds histogram\n");
    for (size_t h = 0; h < SL_N_HANDLER; h++)
        for (int k = 0; k < SL_N_METHOD; k++) {
            const struct sl_http_count *c = &m->http[h][k];

            if (!n_requests(c))
                continue;
            snprintf(labels, sizeof(labels), "handler=\"%s\",method=\"%s\"",
                     handler[h], method_name[k]);
            buckets(b, "http_request_duration_seconds", labels, replies,
                    SL_COUNTOF(replies), c->le, c->sum);
        }
}

/* -------------------------------------------------------------- the engine's */

static void print_drafts(struct sl_buf *b, const struct sl_engine_stats *e,
                         const char *labels)
{
    one(b, "spec_decode_num_drafts_total", "counter", "Steps with a draft.",
        labels, (double)e->n_round);
    one(b, "spec_decode_num_draft_tokens_total", "counter", "Tokens proposed.",
        labels, (double)e->n_draft);
    one(b, "spec_decode_num_accepted_tokens_total", "counter",
        "Proposed tokens that were right.", labels, (double)e->n_accept);
    head(b, "spec_decode_num_accepted_tokens_per_pos_total", "counter",
         "Proposed tokens that were right, by their place.");
    for (int i = 0; i < SL_STATS_DRAFT; i++)
        sl_buf_fmt(b,
                   "vllm:spec_decode_num_accepted_tokens_per_pos_total{%s,"
                   "position=\"%d\"} %llu\n",
                   labels, i, (unsigned long long)e->accept_at[i]);
}

/* The same by who drafted, which vLLM has no names for. */
static void print_drafters(struct sl_buf *b, const struct sl_engine_stats *e,
                           const char *labels)
{
    static const struct {
        enum sl_draft_by by;
        const char *name;
    } who[] = {{SL_DRAFTER_MTP, "mtp"},
               {SL_DRAFTER_NGRAM, "ngram"},
               {SL_DRAFTER_DFLASH, "dflash"}};

    for (int accepted = 0; accepted < 2; accepted++) {
        const char *name = accepted ? "accepted_draft" : "draft";

        sl_buf_fmt(b,
                   "# HELP sluice:%s_tokens_total Tokens %s, by drafter.\n"
                   "# TYPE sluice:%s_tokens_total counter\n",
                   name, accepted ? "proposed that were right" : "proposed",
                   name);
        for (size_t i = 0; i < SL_COUNTOF(who); i++)
            sl_buf_fmt(b, "sluice:%s_tokens_total{%s,drafter=\"%s\"} %llu\n",
                       name, labels, who[i].name,
                       (unsigned long long)(accepted
                                                ? e->by_accept[who[i].by]
                                                : e->by_draft[who[i].by]));
    }
}

/* Names that only we have are never under vllm: */
static void print_own(struct sl_buf *b, const struct sl_engine_stats *e,
                      const char *labels)
{
    const struct {
        const char *name, *type, *help;
        double n;
    } own[] = {
        {"recurrent_slots_in_use", "gauge", "Recurrent states in use.",
         (double)e->n_state},
        {"recurrent_checkpoints", "gauge", "Prefixes that are kept.",
         (double)e->prefix.n_kept},
        {"recurrent_checkpoint_restores_total", "counter",
         "Prompts that began with a kept prefix.", (double)e->prefix.n_hit},
        {"steps_total", "counter", "Steps of the engine.", (double)e->n_step},
        {"rows_total", "counter", "Rows of all steps.", (double)e->n_row},
        {"step_seconds_total", "counter", "Time inside of the model.",
         e->step_s},
        {"speculation_stops_total", "counter",
         "Times that drafting was stopped because it lost.",
         (double)e->n_stop},
        {"speculation_total_variation", "counter",
         "Distances of a lossy rule, summed over the drafts that were judged.",
         e->tv},
        {"speculation_judged_total", "counter",
         "Drafts that a lossy rule judged.", (double)e->n_judged},
        {"draft_seconds_total", "counter",
         "Time of the drafters between the steps.", e->draft_s},
        {"memory_blocks", "gauge", "Blocks of memory that are allocated.",
         (double)sl_mem_live()},
    };

    for (size_t i = 0; i < SL_COUNTOF(own); i++)
        sl_buf_fmt(b,
                   "# HELP sluice:%s %s\n# TYPE sluice:%s %s\n"
                   "sluice:%s{%s} %.17g\n",
                   own[i].name, own[i].help, own[i].name, own[i].type,
                   own[i].name, labels, own[i].n);
}

static void print_engine(struct sl_buf *b, const struct sl_metrics_more *x,
                         const char *labels)
{
    const struct sl_engine_stats *e = &x->engine;
    uint32_t deferred = (uint32_t)sl_min(e->n_deferred, x->n_waiting);

    one(b, "num_requests_running", "gauge", "Sequences that run.", labels,
        e->n_run);
    one(b, "num_requests_waiting", "gauge", "Sequences that wait.", labels,
        x->n_waiting);
    head(b, "num_requests_waiting_by_reason", "gauge", "Why they wait.");
    sl_buf_fmt(b,
               "vllm:num_requests_waiting_by_reason{%s,reason=\"capacity\"} "
               "%u\nvllm:num_requests_waiting_by_reason{%s,reason="
               "\"deferred\"} %u\n",
               labels, x->n_waiting - deferred, labels, deferred);
    one(b, "kv_cache_usage_perc", "gauge",
        "Part of the KV pool that is in use, 0 to 1.", labels,
        e->kv_total ? (double)e->kv_used / (double)e->kv_total : 0);
    one(b, "num_preemptions_total", "counter",
        "Sequences that had to wait again for room.", labels,
        (double)e->n_preempt);
    head(b, "cache_config_info", "gauge", "The KV pool.");
    sl_buf_fmt(b,
               "vllm:cache_config_info{%s,block_size=\"64\",num_gpu_blocks="
               "\"%llu\",enable_prefix_caching=\"%s\"} 1\n",
               labels, (unsigned long long)(e->kv_total / 64),
               x->prefix_cache ? "True" : "False");
    print_drafts(b, e, labels);
    head(b, "iteration_tokens_total", "histogram", "Rows of a step.");
    buckets(b, "vllm:iteration_tokens_total", labels, rows, SL_COUNTOF(rows),
            e->step_rows, (double)e->n_row);
    print_drafters(b, e, labels);
    print_own(b, e, labels);
    sl_kept_metrics(b, &e->prefix, labels);
}

static void print_counts(struct sl_buf *b, const struct sl_metrics *m,
                         const char *labels)
{
    const struct {
        const char *name, *help;
        uint64_t n;
    } counts[] = {
        {"prompt_tokens_total", "Prompt tokens.", m->prompt_tokens},
        {"prompt_tokens_cached_total",
         "Prompt tokens that were known already.", m->cached_tokens},
        {"prefix_cache_queries_total",
         "Prompt tokens looked up in the prefix cache.", m->prompt_tokens},
        {"prefix_cache_hits_total",
         "Prompt tokens found in the prefix cache.", m->cached_tokens},
        {"generation_tokens_total", "Generated tokens.", m->generation_tokens},
        {"corrupted_requests_total", "Requests that met NaN logits.",
         m->corrupted},
    };
    const struct {
        const char *name;
        uint64_t n;
    } source[] = {
        {"local_compute", m->prompt_tokens - m->cached_tokens},
        {"local_cache_hit", m->cached_tokens},
        {"external_kv_transfer", 0},
    };

    for (size_t i = 0; i < SL_COUNTOF(counts); i++)
        one(b, counts[i].name, "counter", counts[i].help, labels,
            (double)counts[i].n);
    head(b, "prompt_tokens_by_source_total", "counter",
         "Prompt tokens, by where they came from.");
    for (size_t i = 0; i < SL_COUNTOF(source); i++)
        sl_buf_fmt(b,
                   "vllm:prompt_tokens_by_source_total{%s,source=\"%s\"} "
                   "%llu\n",
                   labels, source[i].name, (unsigned long long)source[i].n);
}

void sl_metrics_print(struct sl_buf *b, const struct sl_metrics *m,
                      const struct sl_metrics_more *x)
{
    /* The last is vLLM's and never happens here. */
    static const char *const reason[] = {"stop", "length", "abort", "error",
                                         "repetition"};
    struct sl_buf labels;
    size_t n_model;

    sl_buf_init(&labels, 4096);
    sl_buf_str(&labels, "model_name=");
    sl_json_put_str(&labels, x->model, strlen(x->model));
    n_model = labels.len;
    sl_buf_str(&labels, ",engine=\"0\"");
    if (labels.failed) {
        sl_buf_deinit(&labels);
        return;
    }
    print_engine(b, x, labels.p);
    head(b, "request_success_total", "counter", "Requests that ended.");
    for (size_t i = 0; i < SL_COUNTOF(reason); i++)
        sl_buf_fmt(b,
                   "vllm:request_success_total{%s,finished_reason=\"%s\"} "
                   "%llu\n",
                   labels.p, reason[i],
                   i < SL_N_REASON ? (unsigned long long)m->reason[i] : 0ull);
    print_counts(b, m, labels.p);
    for (int i = 0; i < SL_N_HIST; i++)
        print_hist(b, m, (enum sl_hist)i, labels.p);
    print_http(b, m, x->handler);
    labels.p[n_model] = 0;
    print_tools(b, m, labels.p);
    sl_buf_deinit(&labels);
}
