/* server/info.c - GET /: what is served here, and how
 *
 * A measurement means little without it, so all that decides what an answer is
 * and how fast it comes is said: model, weights, drafter, limits. Never a path
 * or a key.
 */
#include "server/task.h"

#include "base/clock.h"
#include "server/json_out.h"
#include "server/kept.h"

static void put(struct sl_buf *b, const char *s)
{
    if (s)
        sl_json_put_str(b, s, strlen(s));
    else
        sl_buf_str(b, "null");
}

/* ,"key":"text" or ,"key":null */
static void put_text(struct sl_buf *b, const char *key, const char *s)
{
    sl_buf_fmt(b, ",\"%s\":", key);
    put(b, s);
}

/* Who may draft; null when nobody does. */
static void put_drafter(struct sl_buf *b, const struct sl_server_draft *d)
{
    sl_buf_fmt(b, ",\"mode\":\"%s\",\"drafter\":",
               d->method ? "speculative" : "plain");
    if (!d->method) {
        sl_buf_str(b, "null");
        return;
    }
    sl_buf_str(b, "{\"method\":");
    put(b, d->method);
    put_text(b, "model", d->model);
    put_text(b, "speculate", d->speculate);
    put_text(b, "draft_depth", d->depth);
    put_text(b, "accept", d->accept);
    sl_buf_byte(b, '}');
}

/* Who drafts for the sequences that run, and how much. */
static void put_drafting(struct sl_buf *b, const struct sl_engine_stats *st)
{
    static const char *const name[SL_STATS_BY] = {"auto", "mtp", "ngram",
                                                  "dflash", "none"};

    sl_buf_str(b, ",\"speculation\":[");
    for (uint32_t i = 0; i < st->n_run && i < SL_STATS_SEQS; i++)
        sl_buf_fmt(b, "%s{\"drafter\":\"%s\",\"depth\":%u}", i ? "," : "",
                   name[st->by[i]], st->depth[i]);
    sl_buf_byte(b, ']');
}

static void put_model(struct sl_buf *b, const struct sl_server *s)
{
    sl_buf_str(b, ",\"model\":{\"id\":");
    put(b, s->opts.name[0]);
    sl_buf_str(b, ",\"aliases\":[");
    for (uint32_t k = 1; k < s->opts.n_name; k++) {
        if (k > 1)
            sl_buf_byte(b, ',');
        put(b, s->opts.name[k]);
    }
    sl_buf_byte(b, ']');
    put_text(b, "root", s->opts.root);
    put_text(b, "quantization", s->opts.weights);
    if (s->engine) {
        put_text(b, "architecture", s->info.arch);
        sl_buf_fmt(b, ",\"max_model_len\":%u", s->info.max_model_len);
    }
    sl_buf_byte(b, '}');
}

static void put_profile(struct sl_buf *b, const struct sl_server *s)
{
    const struct sl_engine_info *i = &s->info;

    sl_buf_str(b, ",\"profile\":{\"name\":");
    put(b, s->opts.profile);
    sl_buf_fmt(b,
               ",\"isa\":\"%s\",\"threads\":%u,\"max_num_seqs\":%u,"
               "\"max_num_batched_tokens\":%u,\"block_size\":64,"
               "\"kv_blocks\":%llu,\"kv_pool_tokens\":%llu,"
               "\"prefix_cache\":%s}",
               i->isa, i->n_thread, s->max_seqs, s->opts.max_batched,
               (unsigned long long)i->kv_pool_tokens / 64,
               (unsigned long long)i->kv_pool_tokens,
               i->prefix_cache ? "true" : "false");
}

static void put_sampling(struct sl_buf *b, const struct sl_server *s)
{
    struct sl_gen_opts d = {0};

    sl_gen_opts_init(&d, s->engine);
    sl_buf_str(b, ",\"default_sampling\":{\"temperature\":");
    sl_json_put_float(b, d.temperature);
    sl_buf_str(b, ",\"top_p\":");
    sl_json_put_float(b, d.top_p);
    sl_buf_fmt(b, ",\"top_k\":%d,\"min_p\":", d.top_k);
    sl_json_put_float(b, d.min_p);
    sl_buf_str(b, ",\"repetition_penalty\":");
    sl_json_put_float(b, d.repetition_penalty);
    sl_buf_byte(b, '}');
}

/* What is known only when the model is loaded. */
static void put_loaded(struct sl_buf *b, const struct sl_server *s)
{
    const struct sl_engine_info *i = &s->info;
    struct sl_engine_stats st;

    sl_engine_stats(s->engine, &st);
    put_profile(b, s);
    sl_buf_str(b, ",\"prefix_cache\":");
    sl_kept_json(b, &st.prefix, i->prefix_cache);
    put_sampling(b, s);
    sl_buf_fmt(b,
               ",\"loading_s\":{\"convert\":%.3f,\"map\":%.3f,"
               "\"calibrate\":%.3f,\"all\":%.3f}",
               i->convert_s, i->map_s, i->calibrate_s, i->load_s);
    put_drafting(b, &st);
}

static void put_limits(struct sl_buf *b, const struct sl_server *s)
{
    struct sl_http_limits l;

    sl_http_limits_init(&l);
    sl_buf_fmt(b,
               ",\"limits\":{\"max_request_bytes\":%zu,"
               "\"max_num_queued_reqs\":%u,\"max_num_queued_tokens\":%llu,"
               "\"max_n\":%d,\"max_logprobs\":%d}",
               l.max_body, s->opts.max_queued,
               (unsigned long long)s->opts.max_queued_tokens, SL_MAX_CHOICES, SL_MAX_TOP);
}

void sl_info_reply(struct sl_server *s, struct sl_exchange *x,
                   const char *const *endpoint, size_t n_endpoint)
{
    static const char *const status_word[] = {"loading", "ready", "draining",
                                              "failed"};
    struct sl_buf *b = &s->scratch;

    sl_buf_reset(b);
    sl_buf_fmt(b,
               "{\"object\":\"server.info\",\"name\":\"sluice\",\"version\":"
               "\"%s\",\"build\":",
               sl_version());
    put(b, __VERSION__); /* of the compiler */
    put_text(b, "status",
             s->pulse.is_dead ? status_word[SL_FAILED] : status_word[s->status]);
    put_drafter(b, &s->opts.draft);
    put_model(b, s);
    if (s->opts.source)
        sl_buf_fmt(b, ",\"source\":%s", s->opts.source);
    if (s->engine)
        put_loaded(b, s);
    sl_buf_str(b, ",\"parsers\":{\"reasoning\":\"qwen3\",\"tools\":");
    put(b, s->opts.tool_parser);
    sl_buf_str(b, ",\"reasoning_field\":\"both\"}");
    put_limits(b, s);
    sl_buf_fmt(b, ",\"uptime_s\":%.0f,\"endpoints\":[",
               sl_clock_s(s->start_ns, sl_clock_ns()));
    for (size_t i = 0; i < n_endpoint; i++) {
        if (i)
            sl_buf_byte(b, ',');
        put(b, endpoint[i]);
    }
    sl_buf_str(b, "]}");
    if (b->failed)
        sl_error_reply(x, 503, NULL, NULL, SL_NO_MEMORY);
    else
        sl_http_reply(x, 200, "application/json", b->p, b->len);
}
