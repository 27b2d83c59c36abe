/* cli/bench_speculate.c - sluice bench speculate: what drafting gains
 *
 * Measuring is engine/bench_speculate.c; here are the prompts and the report.
 */
#include "cli/bench_speculate.h"

#include "base/file.h"
#include "base/mem.h"
#include "cli/open.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "engine/bench.h"

#define MAX_FILE ((size_t)64 << 20)
#define MAX_TABLE ((size_t)1 << 20)
#define MAX_TOKENS 128 /* of an answer, unless asked for otherwise */

/* Without a file: a story, a problem, a list. */
static const char *const known[] = {
    "Tell me a story about a fox and a river.",
    "Hilda has 28 pies. Olga takes 3 of them. How many pies are left?",
    "Write the names of ten animals, one a line.",
};

struct prompts {
    char *text;
    char **messages; /* [n] JSON, jansson's own */
    uint32_t n;
};

/* A line: text, or an object with "messages" or "prompt". */
static int add(struct prompts *p, const char *line, struct sl_err *err)
{
    json_t *j = line[0] == '{' ? json_loads(line, 0, NULL) : NULL;
    json_t *m = json_object_get(j, "messages");
    const char *s = line[0] == '{'
                        ? json_string_value(json_object_get(j, "prompt"))
                        : line;

    m = m ? json_incref(m)
          : s ? json_pack("[{s:s, s:s}]", "role", "user", "content", s) : NULL;
    p->messages[p->n] = m ? json_dumps(m, JSON_COMPACT) : NULL;
    json_decref(m);
    json_decref(j);
    if (!p->messages[p->n])
        return sl_fail(err, SL_EFORMAT,
                       "prompt %u is neither text nor a JSON object with "
                       "'messages' or 'prompt'",
                       p->n + 1);
    p->n++;
    return 0;
}

static int read_prompts(struct prompts *p, const char *path, uint32_t most,
                        struct sl_err *err)
{
    size_t len = 0;
    int rc = sl_mem_alloc(&p->messages, most, sizeof(*p->messages), "prompts",
                          err);

    for (size_t i = 0; !rc && !path && i < SL_COUNTOF(known) && p->n < most;
         i++)
        rc = add(p, known[i], err);
    if (rc || !path)
        return rc;
    rc = sl_file_read(&p->text, &len, path, MAX_FILE, err);
    for (char *s = p->text, *end; !rc && *s && p->n < most; s = end) {
        end = s + strcspn(s, "\n");
        end += *end ? (*end = 0, 1) : 0;
        if (*s)
            rc = add(p, s, err);
    }
    if (!rc && p->n == 0)
        rc = sl_fail(err, SL_EFORMAT, "there is no prompt in it");
    return sl_wrap(err, rc, "--dataset-path '%.300s'", path);
}

static void prompts_deinit(struct prompts *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        free(p->messages[i]); /* jansson's own */
    sl_mem_free(p->messages);
    sl_file_free(p->text);
}

/* ------------------------------------------------------------------ report */

static void way_text(struct sl_buf *b, const struct sl_bench_way *w)
{
    char depth[12] = "-";

    if (w->depth > 0)
        snprintf(depth, sizeof(depth), "%u", w->depth);
    sl_buf_fmt(b, "%-7s %5s %8.2f %8.3f %9.1f %8.3f %10.2f %5.2f %5.2f %6.1f  ", w->drafter,
               depth, w->tokens, 1e3 / w->tok_s, w->tok_s, w->speedup,
               w->break_even, w->step, w->pass, 100 * w->beside);
    for (uint32_t i = 0; i < w->n_accept; i++)
        sl_buf_fmt(b, " %.2f", w->accept[i]);
    if (w->experts > 0)
        sl_buf_fmt(b, "  %.1f experts", w->experts);
    sl_buf_byte(b, '\n');
}

static json_t *way_json(const struct sl_bench_way *w)
{
    json_t *at = json_array(), *pair = json_array();

    for (uint32_t i = 0; i < w->n_accept; i++)
        json_array_append_new(at, json_real(w->accept[i]));
    for (uint32_t i = 0; i < w->n_pair; i++)
        json_array_append_new(pair, json_real(w->pair[i]));
    return json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, "
                     "s:o, s:f}",
                     "drafter", w->drafter, "depth", (int)w->depth,
                     "tokens_per_round", w->tokens, "ms_per_token",
                     1e3 / w->tok_s, "tokens_per_s", w->tok_s, "speedup",
                     w->speedup, "break_even", w->break_even, "step", w->step,
                     "pass", w->pass, "beside", w->beside, "accept_by_position",
                     at, "speedups", pair, "experts", w->experts);
}

static json_t *rule_json(const struct sl_bench_rule *r)
{
    return json_pack("{s:s, s:i, s:s, s:i, s:f, s:f, s:f, s:f, s:f}", "drafter",
                     r->drafter, "depth", (int)r->depth, "rule", r->rule,
                     "pairs", (int)r->n_pair, "tokens_per_round", r->tokens,
                     "ms_per_token", 1e3 / r->tok_s, "tokens_per_s", r->tok_s,
                     "speedup", r->speedup, "mean_tv", r->tv);
}

static void head_text(struct sl_buf *b, const char *what,
                      const struct sl_bench_speculation *r,
                      const struct sl_speculation_opts *o)
{
    sl_buf_fmt(b,
               "%s: %u threads, %s, %u users, %u prompts, answers of %u tokens, "
               "median of %u\n",
               what, r->n_thread, r->isa, o->n_user, o->n_prompt, o->max_tokens,
               o->n_sample);
    if (o->synthetic >= 0)
        sl_buf_fmt(b,
                   "SYNTHETIC: an oracle replays the plain answer, each draft "
                   "right with chance %.2f; the drafters' work is real\n",
                   o->synthetic);
    sl_buf_str(b, "drafter depth tokens/r ms/token  tokens/s speed-up "
                  "break-even  step  pass beside%  kept by place\n");
}

static int report(const struct sl_opts *o, const char *what,
                  const struct sl_bench_speculation *r,
                  const struct sl_speculation_opts *so, struct sl_err *err)
{
    json_t *ways = json_array(), *rules = json_array();
    struct sl_buf b;

    sl_buf_init(&b, MAX_TABLE);
    head_text(&b, what, r, so);
    for (uint32_t i = 0; i < r->n_way; i++) {
        way_text(&b, &r->way[i]);
        json_array_append_new(ways, way_json(&r->way[i]));
    }
    if (r->reached > 0)
        sl_buf_fmt(&b,
               "ceiling argmax E/T: %.1f tokens/s with %s %u; the controller "
               "reaches %.1f %%\n",
               r->ceiling, r->best, r->best_depth,
               100 * r->reached / r->ceiling);
    if (r->n_rule > 0)
        sl_buf_str(&b, "pairs at temperature 1, one set under every rule:\n"
                       "drafter depth rule          pairs tokens/r  tokens/s "
                       "speed-up  mean TV\n");
    for (uint32_t i = 0; i < r->n_rule; i++) {
        const struct sl_bench_rule *x = &r->rule[i];

        sl_buf_fmt(&b, "%-7s %5u %-12s %7u %8.2f %9.1f %8.3f %8.5f\n",
                   x->drafter, x->depth, x->rule, x->n_pair, x->tokens,
                   x->tok_s, x->speedup, x->tv);
        json_array_append_new(rules, rule_json(x));
    }
    return sl_cli_bench_print(
        o, &b,
        json_pack("{s:s, s:i, s:s, s:b, s:f, s:o, s:s, s:i, s:f, s:f, s:o}",
                  "model", what, "threads", (int)r->n_thread, "isa", r->isa,
                  "synthetic", so->synthetic >= 0, "synthetic_acceptance",
                  so->synthetic, "ways", ways, "ceiling_drafter", r->best,
                  "ceiling_depth", (int)r->best_depth, "ceiling_tokens_per_s",
                  r->ceiling, "controller_of_ceiling", r->reached / r->ceiling,
                  "rules", rules),
        err);
}

int sl_cli_bench_speculate(const struct sl_opts *o, const char *what,
                           const char *dir, struct sl_err *err)
{
    const struct sl_opt_value *v = o->value;
    struct sl_bench_speculation r;
    struct prompts p = {.n = 0};
    struct sl_engine_opts eo;
    struct sl_progress bar;
    struct sl_speculation_opts so = {
        .engine = &eo,
        .shape = dir ? NULL : v[SL_OPT_SHAPE].s,
        .dir = dir,
        .n_sample = (uint32_t)v[SL_OPT_SAMPLES].i,
        .max_tokens = sl_opts_has(o, SL_OPT_MAX_TOKENS)
                          ? (uint32_t)v[SL_OPT_MAX_TOKENS].i
                          : MAX_TOKENS,
        .n_user = v[SL_OPT_MAX_CONCURRENCY].i
                      ? (uint32_t)v[SL_OPT_MAX_CONCURRENCY].i
                      : 1,
        .n_random = sl_opts_has(o, SL_OPT_RANDOM_INPUT_LEN)
                        ? (uint32_t)v[SL_OPT_RANDOM_INPUT_LEN].i
                        : 0,
        .ignore_eos = !sl_opts_has(o, SL_OPT_IGNORE_EOS) ||
                      v[SL_OPT_IGNORE_EOS].i,
        .seed = (uint64_t)v[SL_OPT_SEED].i,
        .temperature =
            sl_opts_has(o, SL_OPT_TEMPERATURE) ? v[SL_OPT_TEMPERATURE].f : 0,
        .synthetic = sl_opts_has(o, SL_OPT_SYNTHETIC_ACCEPTANCE)
                         ? v[SL_OPT_SYNTHETIC_ACCEPTANCE].f
                         : -1};
    int rc;

    sl_cli_engine_opts(&eo, o);
    if (eo.drafter == SL_DRAFTER_NONE)
        return sl_fail(err, SL_EARG,
                       "--drafter none leaves nothing to compare: plain "
                       "decoding is always measured; name a drafter, auto for "
                       "the controller, or leave it out for all");
    rc = read_prompts(&p, v[SL_OPT_DATASET_PATH].s,
                          (uint32_t)v[SL_OPT_NUM_PROMPTS].i, err);

    /* Without --drafter all ways; with auto the controller against plain. */
    so.only = SL_DRAFTER_AUTO;
    if (sl_opts_has(o, SL_OPT_DRAFTER))
        so.only = eo.drafter == SL_DRAFTER_AUTO ? SL_DRAFTER_NONE : eo.drafter;
    so.messages = (const char *const *)p.messages;
    so.n_prompt = p.n;
    sl_progress_init(&bar, what);
    eo.progress = sl_progress_step;
    eo.progress_ctx = &bar;
    if (!rc)
        rc = sl_bench_speculate(&r, &so, err);
    sl_progress_end(&bar);
    if (!rc)
        rc = report(o, what, &r, &so, err);
    prompts_deinit(&p);
    return rc;
}
