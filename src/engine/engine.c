/* engine/engine.c - one loaded model and its thread: open, loop, close
 *
 * Opening reads the files in the caller's thread, decides how much memory goes
 * to what, and starts the engine thread. That thread sleeps while nothing is
 * submitted, and otherwise runs step after step (engine/step.c).
 */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/mem.h"
#include "engine/cost_file.h"
#include "engine/drafter.h"
#include "engine/gen.h"
#include "model/packing.h"
#include "model/shape.h"

#define DEFAULT_SEQS 32    /* as llama-server and vLLM users expect */
#define DRAFT_LOGITS 32    /* rows of logits for drafts, of all sequences */
#define DEPTH 7            /* drafts of one sequence: where a chain ends */
#define DEFAULT_ROWS 512   /* of a step; chosen, not measured */
#define MAX_TEMPLATE ((size_t)16 << 20)
#define PATH_CAP 4096
#define CANCEL_MS 20 /* until a cancel is seen while a load is waited for */
#define DFLASH_HYSTERESIS 1024 /* tokens; of the second bundle */
#define DRAFTER "drafter" /* the folder of a model's block drafter */
#define TURN "<|im_start|>" /* begins a turn in the family's chat format */

/* KV takes at most this part of the memory that is free once the weights are
 * in; the rest is left to the page cache and to others. Chosen. */
#define KV_SHARE 0.5

/* And the states of the prefix cache this part; at most so many. Chosen. */
#define PREFIX_SHARE 0.1
#define MAX_KEEP 4096u

void sl_engine_opts_init(struct sl_engine_opts *o)
{
    *o = (struct sl_engine_opts){
        .pin = true,
        .cpu_mask = SL_CPU_ALL,
        .max_num_seqs = DEFAULT_SEQS,
        .max_num_batched_tokens = DEFAULT_ROWS,
        .kv_type = SL_KV_BF16,
        .prefix_cache = true,
        .draft = SL_DRAFT_ALL,
        .mtp_prime = UINT32_MAX,
        .lenience = 1,
        .relax_threshold = 0.3f,
        .spec_disable_ratio = -1,
        .dflash_hysteresis = DFLASH_HYSTERESIS,
    };
}

int sl_engine_take_encoder(struct sl_encoder **out, struct sl_engine *e,
                           struct sl_err *err)
{
    struct sl_encoder *enc = NULL;

    sl_lock(&e->encoder_mu);
    if (e->n_encoder > 0)
        enc = e->encoder[--e->n_encoder];
    sl_unlock(&e->encoder_mu);
    if (!enc)
        return sl_encoder_open(out, e->tok, err);
    *out = enc;
    return 0;
}

void sl_engine_give_encoder(struct sl_engine *e, struct sl_encoder *enc)
{
    sl_lock(&e->encoder_mu);
    if (e->n_encoder < SL_MAX_IDLE_ENCODER) {
        e->encoder[e->n_encoder++] = enc;
        enc = NULL;
    }
    sl_unlock(&e->encoder_mu);
    sl_encoder_close(&enc);
}

/* ------------------------------------------------------------------ the loop */

/* mu is held. Sleep while there is nothing to do. While a load is waited for a
 * cancel has to be seen, which may come from a signal handler: that can set a
 * flag, but wake nobody. */
static void rest(struct sl_engine *e)
{
    bool late = false;

    while (!late && !e->stop && !e->submitted.head && !e->loaded &&
           e->n_run == 0 && (!e->waiting.head || e->loading)) {
        late = e->waiting.head != NULL;
        if (late)
            sl_cond_wait_ms(&e->work, &e->mu, CANCEL_MS);
        else
            sl_cond_wait(&e->work, &e->mu);
    }
    e->loaded = false;
}

/* Move what was submitted to the waiting ones; false when it is time to stop. */
static bool take_submitted(struct sl_engine *e)
{
    struct sl_gen_list got;
    bool stop;

    sl_lock(&e->mu);
    rest(e);
    got = e->submitted;
    e->submitted = (struct sl_gen_list){0};
    stop = e->stop;
    sl_unlock(&e->mu);
    for (struct sl_gen *g; (g = sl_gen_list_pop(&got)) != NULL;)
        sl_gen_list_insert(&e->waiting, g, false);
    return !stop;
}

static void *engine_main(void *arg)
{
    struct sl_engine *e = arg;

    while (take_submitted(e))
        sl_engine_step(e);
    for (struct sl_gen *g; (g = sl_gen_list_pop(&e->waiting)) != NULL;)
        sl_gen_end(g, SL_FINISH_CANCEL);
    while (e->n_run > 0)
        sl_gen_end(e->run[--e->n_run], SL_FINISH_CANCEL);
    return NULL;
}

/* ------------------------------------------------------------------- opening */

/* generation_config.json, when there is one. */
static int read_defaults(struct sl_defaults *d, const json_t *j,
                         struct sl_err *err)
{
    double t = 1, p = 1, m = 0, r = 1;
    int64_t k = 0;
    bool sample = true;
    int rc = 0;

    if (j) {
        rc = sl_json_bool(&sample, j, "do_sample", false, err);
        if (!rc)
            rc = sl_json_f64(&t, j, "temperature", false, 0, 2, err);
        if (!rc)
            rc = sl_json_f64(&p, j, "top_p", false, 0, 1, err);
        if (!rc)
            rc = sl_json_f64(&m, j, "min_p", false, 0, 1, err);
        if (!rc)
            rc = sl_json_f64(&r, j, "repetition_penalty", false, 0, 100, err);
        if (!rc)
            rc = sl_json_i64(&k, j, "top_k", false, -1, INT32_MAX, err);
    }
    *d = (struct sl_defaults){.temperature = sample ? (float)t : 0,
                              .top_p = (float)p,
                              .min_p = (float)m,
                              .repetition_penalty = (float)r,
                              .top_k = (int32_t)k};
    return sl_wrap(err, rc, "generation_config.json");
}

static int set(float *out, const json_t *j, const char *key, double lo,
               double hi, struct sl_err *err)
{
    double x = *out;
    int rc = sl_json_f64(&x, j, key, false, lo, hi, err);

    *out = (float)x;
    return rc;
}

/* What the user, or a bundle, puts in their place. */
static int replace_defaults(struct sl_defaults *d, const char *text,
                            struct sl_err *err)
{
    static const char *const known[] = {
        "temperature",      "top_p", "min_p", "top_k", "repetition_penalty",
        "presence_penalty", "frequency_penalty"};
    int64_t k = d->top_k;
    const char *key;
    json_t *j = NULL, *v;
    int rc = sl_json_parse(&j, text, strlen(text), "the defaults", err);

    if (!rc && !json_is_object(j))
        rc = sl_fail(err, SL_EARG, "the defaults are no JSON object");
    json_object_foreach(j, key, v)
    {
        bool found = false;

        for (size_t i = 0; i < SL_COUNTOF(known); i++)
            found |= !strcmp(known[i], key);
        if (!rc && !found)
            rc = sl_fail(err, SL_EARG, "'%.60s' is no default of sampling",
                         key);
    }
    if (!rc)
        rc = set(&d->temperature, j, "temperature", 0, 2, err);
    if (!rc)
        rc = set(&d->top_p, j, "top_p", 0, 1, err);
    if (!rc)
        rc = set(&d->min_p, j, "min_p", 0, 1, err);
    if (!rc)
        rc = set(&d->repetition_penalty, j, "repetition_penalty", 1e-3, 1e3,
                 err);
    if (!rc)
        rc = set(&d->presence_penalty, j, "presence_penalty", -2, 2, err);
    if (!rc)
        rc = set(&d->frequency_penalty, j, "frequency_penalty", -2, 2, err);
    if (!rc)
        rc = sl_json_i64(&k, j, "top_k", false, -1, INT32_MAX, err);
    d->top_k = (int32_t)k;
    json_decref(j);
    return rc ? sl_wrap(err, SL_EARG, "--override-generation-config") : 0;
}

/* A file of the user's replaces the template, but not the tokens that the
 * model names. */
static int chat_from_file(struct sl_engine *e, const struct sl_source *src,
                          struct sl_err *err)
{
    char *jinja = NULL;
    size_t len = 0;
    int rc = sl_file_read(&jinja, &len, e->opts.chat_template, MAX_TEMPLATE,
                          err);

    if (!rc)
        rc = sl_source_chat(&e->chat, src, jinja, len, err);
    sl_file_free(jinja);
    return sl_wrap(err, rc, "--chat-template '%s'", e->opts.chat_template);
}

static int open_chat(struct sl_engine *e, const struct sl_source *src,
                     struct sl_err *err)
{
    struct sl_err why = {0};
    int rc;

    if (e->opts.chat_template)
        return chat_from_file(e, src, err);
    rc = sl_source_chat(&e->chat, src, NULL, 0, &why);
    /* Without a template plain text can still be continued. */
    if (rc == SL_ENOTFOUND) {
        sl_log(SL_LOG_WARN, "no chat template: %s", why.msg);
        return 0;
    }
    return rc ? sl_fail(err, (enum sl_code)rc, "%s", why.msg) : 0;
}

/* Tokenizer and template. Dummy weights do without, for benchmarks. */
static int open_text(struct sl_engine *e, const struct sl_source *src,
                     struct sl_err *err)
{
    struct sl_err why = {0};
    int rc = sl_source_tokenizer(&e->tok, src, &why);

    e->turn_id = -1;
    if (rc == SL_ENOTFOUND && e->opts.dummy)
        return 0;
    if (rc)
        return sl_fail(err, (enum sl_code)rc, "%s", why.msg);
    if (!sl_tokenizer_find(e->tok, TURN, strlen(TURN), &e->turn_id))
        e->turn_id = -1;
    return open_chat(e, src, err);
}

/* Memory that may go to keys and values, in pages. */
static uint64_t affordable_pages(size_t page_bytes, size_t other_bytes)
{
    uint64_t have = sl_machine_free_bytes();

    if (have <= other_bytes)
        return 0;
    return (uint64_t)(KV_SHARE * (double)(have - other_bytes)) / page_bytes;
}

/* Prefixes that the cache may hold. */
static uint32_t places_to_keep(const struct sl_engine *e, size_t slot_bytes)
{
    uint64_t bytes = e->opts.prefix_cache_bytes;

    if (!e->opts.prefix_cache)
        return 0;
    if (bytes == 0)
        bytes = (uint64_t)(PREFIX_SHARE * (double)sl_machine_free_bytes());
    return (uint32_t)sl_min((size_t)(bytes / sl_max(slot_bytes, 1)), MAX_KEEP);
}

enum sl_dtype_plan sl_engine_plan(enum sl_weight_plan p)
{
    switch (p) {
    case SL_WEIGHTS_Q8:
        return SL_PLAN_Q8;
    case SL_WEIGHTS_Q4:
        return SL_PLAN_Q4;
    case SL_WEIGHTS_BFP4:
        return SL_PLAN_BFP4;
    case SL_WEIGHTS_AUTO:
        break;
    }
    return SL_PLAN_AUTO;
}

enum sl_dtype sl_engine_kv_dtype(enum sl_kv_type t)
{
    switch (t) {
    case SL_KV_F32:
        return SL_F32;
    case SL_KV_BFP8:
        return SL_BFP8;
    case SL_KV_BF16:
        break;
    }
    return SL_BF16;
}

/* Fill in max_model_len and kv_pool_tokens: what was asked for, or what fits. */
static int size_context(struct sl_engine *e, size_t page_bytes,
                        size_t other_bytes, struct sl_err *err)
{
    struct sl_engine_opts *o = &e->opts;
    uint32_t len = o->max_model_len ? o->max_model_len
                                    : e->weights->conf.max_pos;
    uint64_t per_seq = (len + SL_KV_PAGE - 1) / SL_KV_PAGE;
    uint64_t pages = per_seq * o->max_num_seqs, fit;

    fit = o->kv_pool_tokens ? o->kv_pool_tokens / SL_KV_PAGE
                            : affordable_pages(page_bytes, other_bytes);
    if (o->kv_pool_tokens || pages > fit)
        pages = fit;
    if (pages < per_seq && (o->max_model_len || pages == 0))
        return sl_fail(err, SL_ENOMEM,
                       "a context of %u tokens needs %.2f GiB of KV cache and "
                       "%.2f GiB are there for it; lower --max-model-len to "
                       "%llu%s",
                       len, (double)per_seq * (double)page_bytes / 0x1p30,
                       (double)pages * (double)page_bytes / 0x1p30,
                       (unsigned long long)pages * SL_KV_PAGE,
                       o->kv_pool_tokens ? " or raise --kv-pool-tokens" : "");
    if (pages < per_seq) {
        sl_log(SL_LOG_WARN,
               "context=%llu of %u tokens fit in memory",
               (unsigned long long)pages * SL_KV_PAGE, len);
        len = (uint32_t)(pages * SL_KV_PAGE);
    }
    o->max_model_len = len;
    o->kv_pool_tokens = pages * SL_KV_PAGE;
    return 0;
}

static int open_memory(struct sl_engine *e, struct sl_err *err)
{
    const struct sl_conf *c = &e->weights->conf;
    struct sl_kv_plane plane[SL_MODEL_PLANES + 1];
    struct sl_memory_opts m = {
        .planes = plane,
        .kv_type = sl_engine_kv_dtype(e->opts.kv_type),
        .n_seq = e->opts.max_num_seqs,
        .n_slot = e->opts.max_num_seqs + 1};
    /* Rows that waited for the draft head go through it at once. */
    struct sl_model_opts work = {.max_row =
                                     (uint32_t)sl_max(
                                         e->opts.max_num_batched_tokens,
                                         e->uses_mtp ? SL_DRAFT_RING : 0),
                                 .max_seq = e->opts.max_num_seqs,
                                 .max_logit = e->max_logit};
    size_t other;
    int rc;

    m.n_plane = sl_model_planes(c, e->uses_mtp, plane);
    if (e->flash) {
        e->flash_plane = m.n_plane++;
        sl_flash_plane(e->flash, &plane[e->flash_plane]);
        sl_flash_set_plane(e->flash, e->flash_plane);
    }
    m.n_draft = e->opts.max_num_seqs;
    sl_model_rec_shape(c, e->max_depth, &m.rec);
    e->n_keep = places_to_keep(e, sl_rec_slot_bytes(&m.rec));
    if (e->opts.prefix_cache && e->n_keep == 0)
        sl_log(SL_LOG_WARN,
               "event=prefix_cache why=\"every prompt is read anew: a state of "
               "%.2f GiB does not fit; raise --prefix-cache-gib\"",
               (double)sl_rec_slot_bytes(&m.rec) / 0x1p30);
    /* And one that is being read back from the disk. */
    m.n_seq += e->n_keep + (e->opts.prefix_cache_dir != NULL);
    m.n_slot += e->n_keep + (e->opts.prefix_cache_dir != NULL);
    other = sl_model_work_bytes(c, sl_pool_n_thread(e->pool), &work) +
            m.n_slot * sl_rec_slot_bytes(&m.rec);
    rc = size_context(e, sl_kv_page_bytes(plane, m.n_plane, m.kv_type), other, err);
    if (rc)
        return rc;
    m.n_page = (uint32_t)(e->opts.kv_pool_tokens / SL_KV_PAGE);
    m.max_tok = e->opts.max_model_len;
    rc = sl_memory_open(&e->mem, &m, err);
    if (!rc)
        rc = sl_prefix_open(&e->prefix, e->mem, e->n_keep, err);
    if (!rc)
        rc = sl_model_open(&e->model, e->weights, e->pool, &e->kern, &work,
                           err);
    return rc;
}

static int open_step(struct sl_engine *e, struct sl_err *err)
{
    uint32_t n = e->opts.max_num_seqs, rows = e->opts.max_num_batched_tokens;
    size_t hidden = e->uses_mtp ? e->weights->conf.hidden : 0;
    size_t taps = e->flash ? e->flash_conf->n_tap * e->flash_conf->hidden : 0;
    size_t block = e->flash ? e->flash_conf->block - 1 : 0;
    const struct {
        void *at;
        size_t n, size;
    } array[] = {
        {&e->taps, rows, taps * sizeof(*e->taps)},
        {&e->flash_in, rows, taps * sizeof(*e->flash_in)},
        {&e->flash_anchor, block ? n : 0, sizeof(*e->flash_anchor)},
        {&e->flash_draft, n, block * sizeof(*e->flash_draft)},
        {&e->flash_sure, n, block * sizeof(*e->flash_sure)},
        {&e->run, n, sizeof(*e->run)},
        {&e->step_seq, n, sizeof(*e->step_seq)},
        {&e->step_rows, n, sizeof(*e->step_rows)},
        {&e->part, n, sizeof(*e->part)},
        {&e->bid, n, sizeof(*e->bid)},
        {&e->logit_row, e->max_logit, sizeof(*e->logit_row)},
        {&e->score_row, e->max_logit, sizeof(*e->score_row)},
        {&e->sched, n, sizeof(*e->sched)},
        {&e->run_work, n, sizeof(*e->run_work)},
        {&e->step_tok, rows, sizeof(*e->step_tok)},
        {&e->hidden, rows, hidden * sizeof(*e->hidden)},
        {&e->draft_n, n, sizeof(*e->draft_n)},
        {&e->draft_pos, n, sizeof(*e->draft_pos)},
    };
    int rc = sl_sampler_open_padded(&e->sampler, &e->kern, e->n_vocab,
                                    e->weights->conf.vocab, err);

    for (size_t i = 0; !rc && i < SL_COUNTOF(array); i++)
        rc = sl_mem_alloc(array[i].at, array[i].n, array[i].size,
                          "the engine", err);
    if (!rc)
        rc = sl_sched_work_open(&e->sched_work, n, err);
    if (!rc)
        rc = sl_tally_open(&e->tally, n, err);
    return rc;
}

/* What says how to draft was given, and something says that nobody does. */
static int check_idle(const struct sl_engine_opts *o, struct sl_err *err)
{
    bool off = o->draft == SL_DRAFT_OFF;
    const struct {
        const char *name;
        bool is_set;
    } option[] = {
        {"--speculate greedy", o->draft == SL_DRAFT_GREEDY},
        {"--drafter", off && o->drafter != SL_DRAFTER_AUTO &&
                          o->drafter != SL_DRAFTER_NONE},
        {"--draft-model", o->draft_model != NULL},
        {"--draft-dtype", o->draft_weights != SL_DRAFT_WEIGHTS_AUTO},
        {"--draft-depth", o->draft_depth > 0},
        {"--accept", o->accept != SL_KEEP_EXACT},
        {"--spec-ladder", o->spec_ladder != NULL},
        {"--spec-disable-ratio", o->spec_disable_ratio >= 0},
        {"--spec-log-rounds", o->spec_log_rounds > 0},
        {"--dflash-max-context", o->dflash_max_context > 0},
        {"--mtp-prime", o->mtp_prime != UINT32_MAX},
    };

    if (!off && o->drafter != SL_DRAFTER_NONE)
        return 0;
    for (size_t i = 0; i < SL_COUNTOF(option); i++)
        if (option[i].is_set)
            return sl_fail(err, SL_EARG,
                           "%s says how to draft, but with %s nobody "
                           "drafts; remove one of them",
                           option[i].name,
                           off ? "--speculate off" : "--drafter none");
    return 0;
}

static int check_opts(const struct sl_engine_opts *o, const char *path,
                      struct sl_err *err)
{
    if (o->max_num_seqs == 0 || o->max_num_batched_tokens < o->max_num_seqs)
        return sl_fail(err, SL_EARG,
                       "--max-num-batched-tokens is %u and --max-num-seqs %u; "
                       "the first must be at least the second, and that at "
                       "least 1",
                       o->max_num_batched_tokens, o->max_num_seqs);
    if (o->draft_depth > DEPTH)
        return sl_fail(err, SL_EARG,
                       "--draft-depth is %u; at most %d tokens are drafted at "
                       "once",
                       o->draft_depth, DEPTH);
    if (check_idle(o, err))
        return SL_EARG;
    if (o->prefix_cache_dir && !o->prefix_cache)
        return sl_fail(err, SL_EARG,
                       "--prefix-cache-dir keeps prefixes on a disk and "
                       "--prefix-cache off says that none are kept; remove one "
                       "of them");
    if (o->prefix_cache_dir_bytes > 0 && !o->prefix_cache_dir)
        return sl_fail(err, SL_EARG,
                       "--prefix-cache-dir-gib limits the folder of "
                       "--prefix-cache-dir, which is not given; give it, or "
                       "remove the limit");
    if (path && sl_file_kind(path) == SL_FILE_NONE)
        return sl_fail(err, SL_ENOTFOUND,
                       "there is no model at '%s'; give the folder of a "
                       "checkpoint or a GGUF file",
                       path);
    return 0;
}

/* What can be refused without the weights, which may take minutes. */
static int check_model(const struct sl_engine *e, const struct sl_source *src,
                       struct sl_err *err)
{
    if (e->opts.max_model_len <= src->conf.max_pos)
        return 0;
    return sl_fail(err, SL_EARG,
                   "--max-model-len is %u and the model was trained for %u "
                   "tokens; lower it",
                   e->opts.max_model_len, src->conf.max_pos);
}

/* Which drafts are kept. A number that the rule does not use is a mistake. */
static int check_accept(struct sl_engine *e, struct sl_err *err)
{
    const struct sl_engine_opts *o = &e->opts;
    struct sl_engine_opts init;

    sl_engine_opts_init(&init);
    sl_accept_opts_init(&e->accept);
    switch (o->accept) {
    case SL_KEEP_EXACT:
        break;
    case SL_KEEP_LENIENT:
        e->accept.rule = SL_ACCEPT_LENIENT;
        break;
    case SL_KEEP_RELAXED:
        e->accept.rule = SL_ACCEPT_RELAXED;
        break;
    }
    if (o->accept != SL_KEEP_EXACT && o->draft == SL_DRAFT_GREEDY)
        return sl_fail(err, SL_EARG,
                       "--accept keeps more drafts of sampled answers, and "
                       "with --speculate greedy none of them is drafted; "
                       "remove one of them");
    e->accept.lenience = o->lenience;
    e->accept.relax = o->relax_threshold;
    if (o->accept != SL_KEEP_LENIENT && o->lenience != init.lenience)
        return sl_fail(err, SL_EARG,
                       "--lenience is %g, but only --accept lenient uses it",
                       (double)o->lenience);
    if (o->accept != SL_KEEP_RELAXED &&
        o->relax_threshold != init.relax_threshold)
        return sl_fail(err, SL_EARG,
                       "--relax-threshold is %g, but only --accept relaxed "
                       "uses it",
                       (double)o->relax_threshold);
    return sl_accept_opts_check(&e->accept, err);
}

/* The type of drafters' weights; SL_N_DTYPE: as they are. */
static enum sl_dtype draft_type(const struct sl_engine *e)
{
    switch (e->opts.draft_weights) {
    case SL_DRAFT_WEIGHTS_Q8:
        return SL_Q8_0;
    case SL_DRAFT_WEIGHTS_AUTO:
    case SL_DRAFT_WEIGHTS_Q4:
        return SL_Q4_0;
    case SL_DRAFT_WEIGHTS_STORED:
        break;
    }
    return SL_N_DTYPE;
}

/* The block drafter: the one that was named; a random one for a shape, when it is
 * asked for; or the folder drafter/ in that of
 * the model; `inside` says which. */
static int open_flash(struct sl_engine *e, const char *path,
                      char inside[PATH_CAP], struct sl_err *err)
{
    const struct sl_model_opts o = {
        .max_row = (uint32_t)sl_max(e->opts.max_num_batched_tokens,
                                    SL_DRAFT_RING),
        .max_seq = e->opts.max_num_seqs,
        .max_logit = e->max_logit};
    const char *dir = inside;
    int rc = 0;

    inside[0] = 0;
    if (e->opts.draft_model) {
        if (snprintf(inside, PATH_CAP, "%s", e->opts.draft_model) >= PATH_CAP)
            rc = sl_fail(err, SL_EARG, "--draft-model is too long a path");
    } else if (e->shape) {
        if (e->opts.drafter != SL_DRAFTER_DFLASH)
            return 0;
        dir = NULL;
    } else {
        rc = sl_path_join(inside, PATH_CAP, path, DRAFTER, err);
        if (!rc && sl_file_kind(dir) != SL_FILE_DIR) {
            if (e->opts.drafter != SL_DRAFTER_DFLASH)
                return 0;
            return sl_fail(err, SL_EARG,
                           "--drafter dflash needs a block drafter, and there "
                           "is no '%.300s'; give one with --draft-model",
                           dir);
        }
    }
    if (!rc)
        rc = sl_flash_open(&e->flash, dir, e->weights, draft_type(e), e->pool, &o,
                           err);
    if (rc)
        return rc;
    e->flash_conf = sl_flash_get_conf(e->flash);
    e->drafter[SL_BY_FLASH] = &sl_draft_flash;
    e->max_depth = (uint32_t)sl_max(DEPTH, e->flash_conf->block - 1);
    return 0;
}

static const char *no_head(const struct sl_engine *e)
{
    return e->weights->conf.n_mtp
               ? "the files lack tensors of the one that metadata announces"
               : "this model has none";
}

/* What only the model's draft head uses, where it is not used. */
static int check_head(const struct sl_engine *e, struct sl_err *err)
{
    const struct sl_engine_opts *o = &e->opts;
    const char *why = e->weights->has_mtp ? "--drafter leaves it out"
                                          : no_head(e);

    if (!e->drafts || e->uses_mtp)
        return 0;
    if (o->mtp_prime != UINT32_MAX)
        return sl_fail(err, SL_EARG,
                       "--mtp-prime is for the model's draft head, and %s; "
                       "remove it",
                       why);
    if (o->draft_weights != SL_DRAFT_WEIGHTS_AUTO && !e->flash)
        return sl_fail(err, SL_EARG,
                       "--draft-dtype is for a draft head or a block drafter: "
                       "of the first, %s, and of the second nobody gave one; "
                       "remove it",
                       why);
    return 0;
}

/* The most tokens that a drafter proposes at once, or NONE: any of those in
 * use. */
static uint32_t deepest(const struct sl_engine *e, enum sl_by by)
{
    if (by == SL_BY_FLASH || e->opts.drafter == SL_DRAFTER_DFLASH)
        return e->flash_conf->block - 1;
    return by == SL_BY_NONE ? e->max_depth : DEPTH;
}

/* Rungs of a ladder become what those who draft here can give. */
static void cut_ladder(struct sl_engine *e)
{
    struct sl_ladder *l = &e->spec.ladder;
    uint32_t n_cut = 0;

    for (uint32_t i = 0; i < l->n; i++) {
        bool gone = !e->drafter[l->rung[i].by] && l->rung[i].by != SL_BY_NONE;
        uint32_t most;

        if (gone)
            l->rung[i].by = SL_BY_NONE;
        most = deepest(e, l->rung[i].by) + 1;
        n_cut += gone || l->rung[i].rows > most;
        l->rung[i].rows = (uint32_t)sl_min(l->rung[i].rows, most);
    }
    if (n_cut > 0)
        sl_log(SL_LOG_WARN,
               "event=spec_ladder_cut rungs=%u most_rows=%u why=\"the bundle's "
               "ladder asks for drafters, or for drafts at once, that are not "
               "there\"",
               n_cut, deepest(e, SL_BY_NONE) + 1);
}

/* A rung that nobody can fill. */
static int check_ladder(struct sl_engine *e, struct sl_err *err)
{
    const struct sl_ladder *l = &e->spec.ladder;

    if (e->opts.spec_ladder_cut)
        cut_ladder(e);
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->rung[i].by != SL_BY_NONE && !e->drafter[l->rung[i].by])
            return sl_fail(err, SL_EARG,
                           "--spec-ladder: %u:%u:%s names a drafter that is "
                           "not there, or that --drafter leaves out; remove the "
                           "name",
                           l->rung[i].users, l->rung[i].rows,
                           sl_by_name(l->rung[i].by));
        if (l->rung[i].rows > deepest(e, l->rung[i].by) + 1)
            return sl_fail(err, SL_EARG,
                           "--spec-ladder: %u:%u asks for %u drafts at once, "
                           "and who drafts proposes at most %u; lower "
                           "it to %u rows",
                           l->rung[i].users, l->rung[i].rows,
                           l->rung[i].rows - 1, deepest(e, l->rung[i].by),
                           deepest(e, l->rung[i].by) + 1);
    }
    return 0;
}

/* What only the block drafter uses, where there is none. */
static int check_flash(const struct sl_engine *e, struct sl_err *err)
{
    const struct sl_engine_opts *o = &e->opts;

    if (o->dflash_max_context > 0 &&
        o->dflash_hysteresis >= o->dflash_max_context)
        return sl_fail(err, SL_EARG,
                       "--dflash-hysteresis is %u; it must be below "
                       "--dflash-max-context, which is %u",
                       o->dflash_hysteresis, o->dflash_max_context);
    if (o->dflash_max_context == 0 && o->dflash_hysteresis != DFLASH_HYSTERESIS)
        return sl_fail(err, SL_EARG,
                       "--dflash-hysteresis is %u, but without "
                       "--dflash-max-context nothing uses it",
                       o->dflash_hysteresis);
    if (!e->flash && o->dflash_max_context > 0)
        return sl_fail(err, SL_EARG,
                       "--dflash-max-context is %u, but there is no block "
                       "drafter; give one with --draft-model, or remove it",
                       o->dflash_max_context);
    if (e->flash && o->drafter == SL_DRAFTER_DFLASH &&
        o->draft_depth >= e->flash_conf->block)
        return sl_fail(err, SL_EARG,
                       "--draft-depth is %u, and the block drafter of "
                       "--drafter dflash proposes %u tokens at once; lower it",
                       o->draft_depth, e->flash_conf->block - 1);
    return 0;
}

/* A model that announces a head and comes without is no error: many that were
 * trained further lost it. */
static void tell_lost_head(const struct sl_engine *e)
{
    if (e->weights->conf.n_mtp > 0 && !e->weights->has_mtp)
        sl_log(SL_LOG_WARN,
               "event=no_draft_head why=\"the configuration announces an MTP "
               "head, and the files do not have all of it\" cost=\"no drafts "
               "from the model itself\"");
}

/* Who drafts: what was asked for, or whoever can; `drafter` is the folder of
 * the block drafter, if there is one. */
static int open_drafters(struct sl_engine *e, const char *path,
                         char drafter[PATH_CAP], struct sl_err *err)
{
    enum sl_draft_by by = e->opts.drafter;
    bool all = by == SL_DRAFTER_AUTO;

    sl_speculate_init(&e->spec, e->opts.draft_depth,
                      (double)e->opts.spec_disable_ratio);
    e->max_logit = e->opts.max_num_seqs;
    if (e->opts.draft == SL_DRAFT_OFF || by == SL_DRAFTER_NONE)
        return 0;
    if (by == SL_DRAFTER_MTP && !e->weights->has_mtp)
        return sl_fail(err, SL_EARG,
                       "--drafter mtp needs the model's draft head, and %s; "
                       "use --drafter ngram, or leave it out",
                       no_head(e));
    e->uses_mtp = e->weights->has_mtp && (all || by == SL_DRAFTER_MTP);
    if (e->uses_mtp)
        e->drafter[SL_BY_MTP] = &sl_draft_mtp;
    else if (all)
        tell_lost_head(e);
    if (all || by == SL_DRAFTER_NGRAM)
        e->drafter[SL_BY_NGRAM] = &sl_draft_ngram;
    e->drafts = true;
    e->spec_log.every = e->opts.spec_log_rounds;
    e->max_depth = DEPTH;
    e->max_logit += DRAFT_LOGITS;
    if (e->opts.spec_ladder &&
        sl_ladder_parse(&e->spec.ladder, e->opts.spec_ladder, err))
        return SL_EARG;
    if (all || by == SL_DRAFTER_DFLASH)
        return open_flash(e, path, drafter, err);
    if (e->opts.draft_model)
        return sl_fail(err, SL_EARG,
                       "--draft-model names a block drafter, but --drafter "
                       "asks for another; remove one of them");
    return 0;
}

/* *src becomes its packed form. */
static int pack_weights(struct sl_engine *e, struct sl_source **src,
                        const struct sl_load_opts *lo, struct sl_err *err)
{
    struct sl_packing_opts po = {.pool = e->pool,
                                 .plan = lo->plan,
                                 .progress = lo->progress,
                                 .progress_ctx = lo->progress_ctx};

    return sl_packing_cached(src, e->opts.cache_dir, &po, err);
}

static int load_model(struct sl_engine *e, struct sl_source **src,
                      struct sl_err *err)
{
    struct sl_load_opts lo = {.dummy = e->opts.dummy,
                              .plan = sl_engine_plan(e->opts.weights),
                              .copy = e->opts.copy_weights,
                              .progress = e->opts.progress,
                              .progress_ctx = e->opts.progress_ctx};
    bool keep = e->opts.cache_dir && !e->opts.dummy;
    uint64_t t0, t1;
    int rc = check_model(e, *src, err);

    if (!rc && keep)
        (void)sl_packing_find(src, e->opts.cache_dir, lo.plan);
    if (!rc)
        rc = read_defaults(&e->defaults, (*src)->generation, err);
    if (!rc && e->opts.sampling)
        rc = replace_defaults(&e->defaults, e->opts.sampling, err);
    if (!rc)
        rc = open_text(e, *src, err);
    if (!rc)
        rc = sl_pool_open(&e->pool, e->opts.n_thread, e->opts.pin, err);
    lo.pool = e->pool;
    t0 = sl_clock_ns();
    if (!rc && keep && !lo.copy)
        rc = pack_weights(e, src, &lo, err);
    t1 = sl_clock_ns();
    e->convert_s = sl_clock_s(t0, t1);
    if (!rc)
        e->has_weights_id = sl_packing_id(e->weights_id, *src, lo.plan);
    if (!rc && e->opts.prefix_cache_dir && e->has_weights_id &&
        !(*src)->packed)
        sl_log(SL_LOG_INFO,
               "event=prefix_disk why=\"these weights are not kept packed and "
               "have no digest, so a copy of them, or another mount, finds "
               "nothing of what is kept\"");
    if (!rc)
        rc = sl_wrap(err, sl_weights_load(&e->weights, *src, &lo, err),
                     "loading '%.300s'", (*src)->path);
    e->map_s = sl_clock_s(t1, sl_clock_ns());
    return rc;
}

static int load_files(struct sl_engine *e, const char *path,
                      struct sl_err *err)
{
    struct sl_source *src = NULL;
    int rc = sl_source_open(&src, path, err);

    if (!rc)
        rc = load_model(e, &src, err);
    sl_source_close(&src);
    return rc;
}

/* Random weights of a published shape. */
static int load_shape(struct sl_engine *e, struct sl_err *err)
{
    struct sl_load_opts lo = {.dummy = true,
                              .plan = sl_engine_plan(e->opts.weights),
                              .progress = e->opts.progress,
                              .progress_ctx = e->opts.progress_ctx};
    struct sl_conf *c = NULL;
    int rc = sl_mem_alloc(&c, 1, sizeof(*c), "a shape", err);

    e->turn_id = -1;
    if (!rc)
        rc = sl_shape_get(c, e->shape, err);
    if (!rc)
        rc = read_defaults(&e->defaults, NULL, err);
    if (!rc)
        rc = sl_pool_open(&e->pool, e->opts.n_thread, e->opts.pin, err);
    lo.pool = e->pool;
    lo.shape = c;
    if (!rc) {
        c->n_mtp = 1;
        rc = sl_weights_open(&e->weights, e->shape, &lo, err);
    }
    sl_mem_free(c);
    return rc;
}

/* What drafters use in the place of the model's weights. */
static int open_copies(struct sl_engine *e, struct sl_err *err)
{
    enum sl_dtype want = draft_type(e);
    int rc = 0;

    if (e->uses_mtp || e->flash)
        rc = sl_draft_head_open(&e->draft_head, &e->weights->head, e->n_vocab,
                                want, e->pool, &e->kern, err);
    if (rc || !e->uses_mtp || want == SL_N_DTYPE)
        return rc;
    rc = sl_draft_copy_open(&e->draft_copy, e->weights, want, e->pool,
                            &e->kern, err);
    if (!rc)
        sl_model_set_mtp(e->model, sl_draft_copy_get(e->draft_copy));
    return rc;
}

/* What steps and passes take, before the first of them. */
static void learn_times(struct sl_engine *e, const char *drafter)
{
    char path[PATH_CAP];
    bool kept = sl_cost_file_path(path, sizeof(path), e, drafter);

    if (kept && sl_cost_file_read(e, path))
        return;
    if (sl_engine_calibrate(e) && kept)
        sl_cost_file_write(e, path);
}

static int load(struct sl_engine *e, const char *path, struct sl_err *err)
{
    char drafter[PATH_CAP];
    uint64_t t0;
    int rc;

    sl_kern_init(&e->kern, e->opts.cpu_mask);
    rc = e->shape ? load_shape(e, err) : load_files(e, path, err);
    if (!rc)
        e->n_vocab = e->weights->conf.vocab;
    if (!rc && e->tok)
        e->n_vocab =
            (uint32_t)sl_min(e->n_vocab, sl_tokenizer_n_ids(e->tok));
    if (!rc && e->tok)
        rc = sl_shapes_open(&e->shapes, e->tok, e->n_vocab, err);
    if (!rc)
        rc = check_accept(e, err);
    if (!rc)
        rc = open_drafters(e, path, drafter, err);
    if (!rc)
        rc = check_head(e, err);
    if (!rc)
        rc = check_flash(e, err);
    if (!rc)
        rc = check_ladder(e, err);
    if (!rc)
        rc = open_memory(e, err);
    if (!rc)
        rc = sl_restore_open(e, e->flash ? drafter : NULL, err);
    if (!rc)
        sl_engine_fingerprint(e, e->flash ? drafter : NULL);
    if (!rc)
        rc = open_step(e, err);
    if (!rc)
        rc = open_copies(e, err);
    t0 = sl_clock_ns();
    if (!rc && e->drafts)
        learn_times(e, e->flash ? drafter : NULL);
    e->calibrate_s = sl_clock_s(t0, sl_clock_ns());
    e->stretch = SL_STRETCH;
    sl_pace_add(&e->pace, &e->cost);
    sl_pace_add(&e->pace, &e->verify);
    for (int by = SL_BY_MTP; by < SL_N_BY; by++)
        sl_pace_add(&e->pace, &e->spec.pass[by]);
    return rc;
}

static int open_engine(struct sl_engine **out, const char *path,
                       const char *shape, const struct sl_engine_opts *opts,
                       struct sl_err *err)
{
    struct sl_engine *e = NULL;
    uint64_t t0 = sl_clock_ns();
    int rc = check_opts(opts, shape ? NULL : path, err);

    if (!rc)
        rc = sl_mem_alloc(&e, 1, sizeof(*e), "the engine", err);
    if (rc)
        return sl_wrap(err, rc, "opening '%s'", path);
    e->opts = *opts;
    e->shape = shape;
    sl_mutex_init(&e->mu, SL_RANK_ENGINE);
    sl_mutex_init(&e->encoder_mu, SL_RANK_ENCODER);
    sl_ring_store_init(&e->rings, opts->max_num_seqs);
    sl_ring_store_init(&e->tap_rings, opts->max_num_seqs);
    sl_cond_init(&e->work);
    rc = load(e, path, err);
    e->load_s = sl_clock_s(t0, sl_clock_ns());
    if (!rc)
        sl_engine_publish(e);
    if (!rc)
        rc = sl_thread_start(&e->thread, engine_main, e, "the engine", err);
    e->started = rc == 0;
    if (rc)
        sl_engine_close(&e);
    else
        *out = e;
    return sl_wrap(err, rc, "opening '%s'", path);
}

int sl_engine_open(struct sl_engine **out, const char *path,
                   const struct sl_engine_opts *opts, struct sl_err *err)
{
    return open_engine(out, path, NULL, opts, err);
}

int sl_engine_open_shape(struct sl_engine **out, const char *shape,
                         const struct sl_engine_opts *opts, struct sl_err *err)
{
    return open_engine(out, shape, shape, opts, err);
}

void sl_engine_close(struct sl_engine **pe)
{
    struct sl_engine *e = *pe;

    if (!e)
        return;
    *pe = NULL;
    if (e->started) {
        sl_lock(&e->mu);
        e->stop = true;
        sl_cond_wake_all(&e->work);
        sl_unlock(&e->mu);
        sl_thread_join(&e->thread);
    }
    while (e->n_encoder > 0)
        sl_encoder_close(&e->encoder[--e->n_encoder]);
    sl_sampler_close(&e->sampler);
    sl_model_close(&e->model);
    sl_restore_close(e);
    sl_prefix_close(&e->prefix);
    sl_flash_close(&e->flash);
    sl_draft_head_close(&e->draft_head);
    sl_draft_copy_close(&e->draft_copy);
    sl_memory_close(&e->mem);
    sl_chat_close(&e->chat);
    sl_shapes_close(&e->shapes);
    sl_tokenizer_close(&e->tok);
    sl_weights_close(&e->weights);
    sl_pool_close(&e->pool);
    sl_mem_free(e->run);
    sl_mem_free(e->step_seq);
    sl_mem_free(e->step_rows);
    sl_mem_free(e->part);
    sl_mem_free(e->bid);
    sl_mem_free(e->taps);
    sl_mem_free(e->flash_in);
    sl_mem_free(e->flash_anchor);
    sl_mem_free(e->flash_draft);
    sl_mem_free(e->flash_sure);
    sl_mem_free(e->hidden);
    sl_mem_free(e->draft_n);
    sl_mem_free(e->draft_pos);
    sl_mem_free(e->logit_row);
    sl_mem_free(e->score_row);
    sl_mem_free(e->sched);
    sl_mem_free(e->run_work);
    sl_sched_work_close(&e->sched_work);
    sl_tally_close(&e->tally);
    sl_mem_free(e->step_tok);
    sl_cond_deinit(&e->work);
    sl_ring_store_deinit(&e->tap_rings);
    sl_ring_store_deinit(&e->rings);
    sl_mutex_deinit(&e->encoder_mu);
    sl_mutex_deinit(&e->mu);
    sl_mem_free(e);
}

void sl_engine_info(const struct sl_engine *e, struct sl_engine_info *out)
{
    const struct sl_conf *c = &e->weights->conf;

    *out = (struct sl_engine_info){
        .arch = c->arch,
        .isa = e->kern.isa,
        .n_thread = sl_pool_n_thread(e->pool),
        .n_layer = c->n_layer,
        .hidden = c->hidden,
        .n_vocab = e->n_vocab,
        .max_model_len = e->opts.max_model_len,
        .weight_bytes = e->weights->bytes,
        .kv_bytes = e->mem->kv->bytes,
        .kv_pool_tokens = e->opts.kv_pool_tokens,
        .state_bytes = sl_rec_slot_bytes(&e->mem->rec->shape),
        .prefix_cache = e->n_keep > 0,
        .load_s = e->load_s,
        .convert_s = e->convert_s,
        .map_s = e->map_s,
        .calibrate_s = e->calibrate_s,
    };
    memcpy(out->fingerprint, e->fingerprint, sizeof(out->fingerprint));
}
