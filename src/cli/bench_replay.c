/* cli/bench_replay.c - sluice bench serve --replay: what turns of a
 * conversation cost
 *
 * The interesting column is `again`: tokens that were read although the server
 * could have known them. A cache that works leaves less than a page and a
 * message of it.
 */
#include "cli/bench_serve.h"

#include "base/file.h"
#include "cli/verb.h"
#include "server/replay.h"

#define MAX_FILE ((size_t)256 << 20)
#define MAX_TABLE ((size_t)64 << 20)

static uint32_t n_read(const struct sl_turn *t)
{
    return t->n_prompt - t->n_cached;
}

/* Read without need; a server may also know more than this replay. */
static uint32_t again(const struct sl_turn *t)
{
    return n_read(t) > t->least ? n_read(t) - t->least : 0;
}

struct sum {
    uint64_t prompt, cached, least, again;
    uint32_t most;
    bool has_ids;
};

static struct sum add_up(const struct sl_replay *r)
{
    struct sum s = {.has_ids = true};

    for (uint32_t i = 0; i < r->n; i++) {
        const struct sl_turn *t = &r->turn[i];

        s.prompt += t->n_prompt;
        s.cached += t->n_cached;
        s.least += t->least;
        s.has_ids = s.has_ids && t->has_ids;
        s.again += again(t);
        s.most = (uint32_t)sl_max(s.most, again(t));
    }
    return s;
}

static json_t *known(const struct sl_turn *t, uint32_t n)
{
    return t->has_ids ? json_integer(n) : json_null();
}

static json_t *as_json(const struct sl_replay *r)
{
    struct sum s = add_up(r);
    json_t *list = json_array();

    for (uint32_t i = 0; i < r->n; i++) {
        const struct sl_turn *t = &r->turn[i];

        json_array_append_new(
            list,
            json_pack("{s:s, s:i, s:i, s:o, s:i, s:i, s:o, s:o, s:i, s:f, s:f}",
                      "conversation", t->conversation, "turn", (int)t->turn,
                      "prompt_tokens", (int)t->n_prompt, "new_tokens",
                      known(t, t->n_new), "cached_tokens", (int)t->n_cached,
                      "read_tokens", (int)n_read(t), "least_tokens",
                      known(t, t->least), "again_tokens", known(t, again(t)),
                      "output_tokens", (int)t->n_out, "ttft_ms",
                      t->ttft_s * 1e3, "e2el_ms", t->all_s * 1e3));
    }
    return json_pack(
        "{s:o, s:I, s:I, s:I, s:o, s:o, s:o}", "turns", list, "prompt_tokens",
        (json_int_t)s.prompt, "cached_tokens", (json_int_t)s.cached,
        "read_tokens", (json_int_t)(s.prompt - s.cached), "least_tokens",
        s.has_ids ? json_integer((json_int_t)s.least) : json_null(),
        "again_tokens",
        s.has_ids ? json_integer((json_int_t)s.again) : json_null(),
        "most_again_tokens", s.has_ids ? json_integer(s.most) : json_null());
}

static int as_text(const struct sl_replay *r, struct sl_err *err)
{
    struct sum s = add_up(r);
    struct sl_buf b;

    sl_buf_init(&b, MAX_TABLE);
    sl_buf_str(&b, "conversation      turn   prompt      new     read    least"
                   "    again  TTFT ms\n");
    for (uint32_t i = 0; i < r->n; i++) {
        const struct sl_turn *t = &r->turn[i];

        sl_buf_fmt(&b, "%-16.16s %5u %8u ", t->conversation, t->turn,
                   t->n_prompt);
        if (t->has_ids)
            sl_buf_fmt(&b, "%8u %8u %8u %8u", t->n_new, n_read(t), t->least,
                       again(t));
        else
            sl_buf_fmt(&b, "%8s %8u %8s %8s", "-", n_read(t), "-", "-");
        sl_buf_fmt(&b, " %8.1f\n", t->ttft_s * 1e3);
    }
    sl_buf_fmt(&b, "%u turns: %llu prompt tokens, %llu read", r->n,
               (unsigned long long)s.prompt,
               (unsigned long long)(s.prompt - s.cached));
    if (s.has_ids)
        sl_buf_fmt(&b, ", of them %llu without need, at most %u in a turn",
                   (unsigned long long)s.again, s.most);
    else
        sl_buf_str(&b, "; the server gives no token ids, so it is not known "
                       "how many were needed");
    sl_buf_byte(&b, '\n');
    return sl_cli_print(&b, "the report", err);
}

int sl_cli_bench_replay(const struct sl_opts *o, struct sl_err *err)
{
    const struct sl_opt_value *v = o->value;
    const char *path = v[SL_OPT_REPLAY].s;
    struct sl_replay r = {0};
    struct sl_replay_opts ro = {
        .host = v[SL_OPT_HOST].s ? v[SL_OPT_HOST].s : "127.0.0.1",
        .port = (uint16_t)v[SL_OPT_PORT].i,
        .key = v[SL_OPT_API_KEY].s,
        .model = v[SL_OPT_SERVED_MODEL_NAME].s,
        .n_out = (uint32_t)v[SL_OPT_RANDOM_OUTPUT_LEN].i,
        .has_seed = sl_opts_has(o, SL_OPT_SEED),
        .seed = (uint64_t)v[SL_OPT_SEED].i,
        .progress = sl_cli_bench_draw,
    };
    struct sl_bench_bar bar;
    char *text = NULL;
    size_t len = 0;
    int rc = sl_cli_max_args(o, 1, "'bench serve' takes none", err);

    sl_cli_bench_bar(&bar, "turns");
    ro.progress_ctx = &bar;
    if (!rc)
        rc = sl_file_read(&text, &len, path, MAX_FILE, err);
    if (!rc)
        rc = sl_replay_run(&r, text, len, &ro, err);
    sl_file_free(text);
    rc = sl_wrap(err, rc, "--replay '%.300s'", path);
    if (!rc)
        rc = v[SL_OPT_JSON].i ? sl_cli_print_json(as_json(&r), err)
                              : as_text(&r, err);
    sl_replay_deinit(&r);
    return rc;
}
