/* cli/bench_serve.c - sluice bench serve: a running server under load
 *
 * Options, names and definitions are those of `vllm bench serve` (load.h); the
 * last line is t/s/u, the tokens per second that a user sees: 1 / mean TPOT.
 */
#include "cli/bench_serve.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/plain.h"
#include "base/process.h"
#include "base/term.h"
#include "cli/verb.h"
#include "server/load.h"

#define MAX_FILE ((size_t)256 << 20)
#define VOCAB 768 /* random ids below: every tokenizer has so many */
#define DRAW_NS 100000000u /* between two bars */
#define BAR 24

void sl_cli_bench_bar(struct sl_bench_bar *b, const char *what)
{
    *b = (struct sl_bench_bar){.what = what,
                               .tty = sl_term_is_tty(SL_STDERR),
                               .start_ns = sl_clock_ns()};
}

void sl_cli_bench_draw(void *ctx, uint32_t done, uint32_t total)
{
    struct sl_bench_bar *b = ctx;
    uint64_t now = sl_clock_ns();
    int full = (int)((uint64_t)BAR * done / total);
    double s = sl_clock_s(b->start_ns, now);

    if (!b->tty || (done < total && now - b->drawn_ns < DRAW_NS))
        return;
    b->drawn_ns = now;
    sl_note("\r[%.*s%*s] %u of %u %s, %.0f s left\033[K", full,
            "########################", BAR - full, "", done, total, b->what,
            done ? s / done * (total - done) : 0.0);
    if (done == total)
        sl_note("\r\033[K");
}

/* A prompt per line: text, or a JSON object with "prompt". */
struct prompts {
    char *text;
    json_t **line;
    const char **prompt;
    uint32_t n;
};

static int add_line(struct prompts *p, char *s, uint32_t n_line,
                    struct sl_err *err)
{
    const char *text = s;

    if (s[0] == '{') {
        p->line[p->n] = json_loads(s, 0, NULL);
        text = json_string_value(json_object_get(p->line[p->n], "prompt"));
        if (!text) {
            json_decref(p->line[p->n]);
            return sl_fail(err, SL_EFORMAT,
                           "line %u is no JSON object with a text 'prompt'",
                           n_line);
        }
    }
    p->prompt[p->n++] = text;
    return 0;
}

static int read_prompts(struct prompts *p, const char *path, struct sl_err *err)
{
    size_t len = 0, lines = 1;
    uint32_t n = 0;
    int rc = sl_file_read(&p->text, &len, path, MAX_FILE, err);

    for (size_t i = 0; !rc && i < len; i++)
        lines += p->text[i] == '\n';
    if (!rc)
        rc = sl_mem_alloc(&p->line, lines, sizeof(*p->line), "prompts", err);
    if (!rc)
        rc = sl_mem_alloc(&p->prompt, lines, sizeof(*p->prompt), "prompts",
                          err);
    for (char *s = p->text, *end; !rc && s && *s; s = end) {
        end = s + strcspn(s, "\n");
        end += *end ? (*end = 0, 1) : 0;
        n++;
        if (*s)
            rc = add_line(p, s, n, err);
    }
    if (!rc && p->n == 0)
        rc = sl_fail(err, SL_EFORMAT, "there is no prompt in it");
    return sl_wrap(err, rc, "--dataset-path '%.300s'", path);
}

static void prompts_deinit(struct prompts *p)
{
    for (uint32_t i = 0; p->line && i < p->n; i++)
        json_decref(p->line[i]);
    sl_mem_free(p->line);
    sl_mem_free(p->prompt);
    sl_file_free(p->text);
}

/* -------------------------------------------------------------------- report */

static const struct {
    const char *key, *name;
    size_t off;
} series[] = {
    {"ttft", "Time to First Token", offsetof(struct sl_load_result, ttft)},
    {"tpot", "Time per Output Token (excl. 1st token)",
     offsetof(struct sl_load_result, tpot)},
    {"itl", "Inter-token Latency", offsetof(struct sl_load_result, itl)},
    {"e2el", "End-to-end Latency", offsetof(struct sl_load_result, e2e)},
};

static const struct sl_load_series *get(const struct sl_load_result *r,
                                        size_t i)
{
    return (const void *)((const char *)r + series[i].off);
}

static void put(json_t *j, const char *stat, const char *key, double s)
{
    char name[60];

    snprintf(name, sizeof(name), "%s_%s_ms", stat, key);
    json_object_set_new(j, name, json_real(s * 1e3));
}

static double per_user(const struct sl_load_result *r)
{
    double mean = sl_load_mean(&r->tpot);

    return mean > 0 ? 1 / mean : 0;
}

static json_t *as_json(const struct sl_load_result *r,
                       const struct sl_load_opts *o)
{
    double d = r->duration_s;
    char why[4 * sizeof(r->why)];
    json_t *j = json_pack(
        "{s:s, s:i, s:f, s:i, s:f, s:i, s:i, s:I, s:I, s:f, s:f, s:f, s:i, "
        "s:f}",
        "backend", o->chat ? "openai-chat" : "openai", "num_prompts",
        (int)o->n_request, "request_rate", o->rate, "max_concurrency",
        (int)o->concurrency, "duration", d, "completed", (int)r->n_ok,
        "failed", (int)r->n_failed, "total_input_tokens", (json_int_t)r->n_in,
        "total_output_tokens", (json_int_t)r->n_out, "request_throughput",
        r->n_ok / d, "output_throughput", (double)r->n_out / d,
        "total_token_throughput", (double)(r->n_in + r->n_out) / d,
        "max_concurrent_requests", (int)r->most_at_once, "tokens_per_s_per_user",
        per_user(r));

    for (size_t i = 0; i < SL_COUNTOF(series); i++) {
        const struct sl_load_series *s = get(r, i);
        const char *key = series[i].key;

        put(j, "mean", key, sl_load_mean(s));
        put(j, "median", key, sl_load_percentile(s, 50));
        put(j, "std", key, sl_load_std(s));
        put(j, "p90", key, sl_load_percentile(s, 90));
        put(j, "p99", key, sl_load_percentile(s, 99));
    }
    if (r->n_failed) {
        sl_plain(why, sizeof(why), r->why);
        json_object_set_new(j, "first_failure", json_string(why));
    }
    return j;
}

static int as_text(const struct sl_load_result *r, struct sl_err *err)
{
    double d = r->duration_s;
    char why[4 * sizeof(r->why)];
    struct sl_buf b;

    sl_buf_init(&b, 1 << 16);
    sl_buf_fmt(&b,
               "Successful requests:           %10u\n"
               "Failed requests:               %10u\n"
               "Benchmark duration (s):        %10.2f\n"
               "Total input tokens:            %10llu\n"
               "Total generated tokens:        %10llu\n"
               "Request throughput (req/s):    %10.2f\n"
               "Output throughput (tok/s):     %10.2f\n"
               "Total throughput (tok/s):      %10.2f\n"
               "Peak concurrent requests:      %10u\n",
               r->n_ok, r->n_failed, d, (unsigned long long)r->n_in,
               (unsigned long long)r->n_out, r->n_ok / d, (double)r->n_out / d,
               (double)(r->n_in + r->n_out) / d, r->most_at_once);
    sl_buf_str(&b, "\n                                             mean   median"
                   "      std      p90      p99\n");
    for (size_t i = 0; i < SL_COUNTOF(series); i++) {
        const struct sl_load_series *s = get(r, i);

        sl_buf_fmt(&b, "%-40s %8.2f %8.2f %8.2f %8.2f %8.2f ms\n",
                   series[i].name, sl_load_mean(s) * 1e3,
                   sl_load_percentile(s, 50) * 1e3, sl_load_std(s) * 1e3,
                   sl_load_percentile(s, 90) * 1e3,
                   sl_load_percentile(s, 99) * 1e3);
    }
    sl_buf_fmt(&b, "Tokens per second and user:    %10.2f\n", per_user(r));
    if (r->n_failed) {
        sl_plain(why, sizeof(why), r->why);
        sl_buf_fmt(&b, "First failure: %s\n", why);
    }
    return sl_cli_print(&b, "the report", err);
}

int sl_cli_bench_serve(const struct sl_opts *o, struct sl_err *err)
{
    const struct sl_opt_value *v = o->value;
    struct prompts p = {0};
    struct sl_load_result r = {0};
    struct sl_bench_bar bar;
    struct sl_load_opts l = {
        .host = v[SL_OPT_HOST].s ? v[SL_OPT_HOST].s : "127.0.0.1",
        .port = (uint16_t)v[SL_OPT_PORT].i,
        .key = v[SL_OPT_API_KEY].s,
        .model = v[SL_OPT_SERVED_MODEL_NAME].s,
        .chat = v[SL_OPT_BACKEND].i == 1,
        .n_request = (uint32_t)v[SL_OPT_NUM_PROMPTS].i,
        .concurrency = (uint32_t)v[SL_OPT_MAX_CONCURRENCY].i,
        .rate = v[SL_OPT_REQUEST_RATE].f,
        .n_in = (uint32_t)v[SL_OPT_RANDOM_INPUT_LEN].i,
        .n_out = (uint32_t)v[SL_OPT_RANDOM_OUTPUT_LEN].i,
        .n_vocab = VOCAB,
        .seed = sl_opts_has(o, SL_OPT_SEED) ? (uint64_t)v[SL_OPT_SEED].i
                                            : sl_machine_random(),
        .progress = sl_cli_bench_draw,
        .progress_ctx = &bar,
    };
    int rc = sl_cli_max_args(o, 1, "'bench serve' takes none", err);

    sl_process_open_many(); /* a user is a connection */
    sl_cli_bench_bar(&bar, "requests");
    if (!rc && v[SL_OPT_DATASET_PATH].s)
        rc = read_prompts(&p, v[SL_OPT_DATASET_PATH].s, err);
    else if (!rc && l.chat)
        rc = sl_fail(err, SL_EARG,
                     "a chat has no prompts of random ids; give texts with "
                     "--dataset-path, or use --backend openai");
    l.prompt = p.prompt;
    l.n_prompt = p.n;
    if (!rc)
        rc = sl_load_run(&r, &l, err);
    if (!rc)
        rc = v[SL_OPT_JSON].i ? sl_cli_print_json(as_json(&r, &l), err)
                              : as_text(&r, err);
    sl_load_deinit(&r);
    prompts_deinit(&p);
    return rc;
}
