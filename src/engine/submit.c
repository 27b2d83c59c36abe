/* engine/submit.c - from the options of a request to a generation that waits
 *
 * Everything is checked, copied and sized here, in the caller's thread, so that
 * the token loop neither fails for a reason that could have been told before
 * nor allocates.
 */
#include "engine/gen.h"

#include "base/clock.h"
#include "base/machine.h"
#include "base/mem.h"
#include "kern/kern.h"

/* Text that may wait for a slow reader; a token is some bytes. */
#define MAX_TEXT ((size_t)256 << 20)
/* Tags of reasoning, and how the models themselves end it. */
#define THINK "<think>"
#define THINK_END "</think>"
#define CLOSE "\n</think>\n\n"
#define MAX_STOP_BYTES 4096 /* of one stop text */
/* Reserved for text that waits. Tokens are rarely longer than 100 bytes, so
 * only a reader who falls behind by this much makes a buffer grow. */
#define TEXT_RESERVE 4096

static int pieces_init(struct sl_pieces *p, const struct sl_gen *g,
                       struct sl_err *err)
{
    uint32_t n_top = g->sample.n_logprob;
    int rc = sl_mem_alloc(&p->ids, g->max_out, sizeof(*p->ids), "an answer",
                          err);

    if (!rc)
        rc = sl_mem_alloc(&p->said, g->max_out, sizeof(*p->said),
                          "an answer", err);
    sl_buf_init(&p->text, MAX_TEXT);
    sl_buf_reserve(&p->text, TEXT_RESERVE);
    if (!rc && g->sample.want_logprob)
        rc = sl_mem_alloc(&p->logprobs, g->max_out, sizeof(*p->logprobs),
                          "log-probabilities", err);
    if (!rc && n_top)
        rc = sl_mem_alloc(&p->top, (size_t)g->max_out * n_top,
                          sizeof(*p->top), "log-probabilities", err);
    return rc;
}

static void pieces_deinit(struct sl_pieces *p)
{
    sl_buf_deinit(&p->text);
    sl_mem_free(p->ids);
    sl_mem_free(p->said);
    sl_mem_free(p->logprobs);
    sl_mem_free(p->top);
}

/* ------------------------------------------------------------- submitting */

void sl_gen_opts_init(struct sl_gen_opts *o, const struct sl_engine *e)
{
    *o = (struct sl_gen_opts){
        .temperature = e->defaults.temperature,
        .top_p = e->defaults.top_p,
        .min_p = e->defaults.min_p,
        .top_k = e->defaults.top_k,
        .repetition_penalty = e->defaults.repetition_penalty,
        .presence_penalty = e->defaults.presence_penalty,
        .frequency_penalty = e->defaults.frequency_penalty,
    };
}

/* How long the answer may be. */
static int set_length(struct sl_gen *g, const struct sl_gen_opts *o,
                      struct sl_err *err)
{
    uint32_t room = g->e->opts.max_model_len, pages;
    bool only = o->prompt_only && g->n_prompt <= room;

    if (o->prompt_only && o->max_tokens)
        return sl_fail(err, SL_EARG,
                       "max_tokens is %u, but nothing is to be generated",
                       o->max_tokens);
    if (g->n_prompt == 0)
        return sl_fail(err, SL_EARG,
                       "the prompt is empty; send at least one token");
    if (g->n_prompt >= room && !only)
        return sl_fail(err, SL_EARG,
                       "the prompt has %u tokens and the context holds %u, "
                       "one of them for the answer; shorten it or raise "
                       "--max-model-len",
                       g->n_prompt, room);
    room -= g->n_prompt;
    if (o->max_tokens > room)
        return sl_fail(err, SL_EARG,
                       "max_tokens is %u, but behind a prompt of %u tokens "
                       "the context of %u holds %u more; lower it or raise "
                       "--max-model-len",
                       o->max_tokens, g->n_prompt, g->e->opts.max_model_len,
                       room);
    g->max_out = o->max_tokens || only ? o->max_tokens : room;
    pages = (g->n_prompt + g->max_out + SL_KV_PAGE - 1) / SL_KV_PAGE;
    if (pages > g->e->mem->kv->n_page)
        return sl_fail(err, SL_EARG,
                       "prompt and answer of %u tokens need %u pages of KV "
                       "cache and there are %u; lower max_tokens or raise "
                       "--kv-pool-tokens",
                       g->n_prompt + g->max_out, pages,
                       g->e->mem->kv->n_page);
    return 0;
}

static int set_prompt(struct sl_gen *g, const struct sl_gen_opts *o,
                      struct sl_err *err)
{
    struct sl_ids ids;
    int rc;

    sl_ids_init(&ids, INT32_MAX / 2);
    rc = sl_prompt_encode(&ids, g->e, o, err);
    if (rc) {
        sl_ids_deinit(&ids);
        return rc;
    }
    g->tok = ids.p; /* taken */
    g->n_prompt = g->n_known = (uint32_t)ids.len;
    rc = set_length(g, o, err);
    if (!rc)
        rc = sl_mem_resize(&g->tok, (size_t)g->n_prompt + g->max_out,
                           sizeof(*g->tok), "the tokens of a request", err);
    return rc;
}

/* Ids that end the answer: the request's and, unless it ignores them, the
 * model's. */
static int set_end_ids(struct sl_gen *g, const struct sl_gen_opts *o,
                       struct sl_err *err)
{
    const struct sl_conf *c = &g->e->weights->conf;
    uint32_t n = o->n_stop_ids;
    int32_t eos;
    int rc = sl_mem_alloc(&g->end_ids, (size_t)n + c->n_eos + 1,
                          sizeof(*g->end_ids), "stop ids", err);

    if (rc)
        return rc;
    if (n)
        memcpy(g->end_ids, o->stop_ids, n * sizeof(*g->end_ids));
    g->n_stop_ids = n;
    for (uint32_t i = 0; !o->ignore_eos && i < c->n_eos; i++)
        g->end_ids[n++] = c->eos[i];
    if (!o->ignore_eos && g->e->tok && sl_tokenizer_eos(g->e->tok, &eos))
        g->end_ids[n++] = eos;
    g->sample.end = g->end_ids;
    g->sample.n_end = n;
    return 0;
}

static int set_stop(struct sl_gen *g, const struct sl_gen_opts *o,
                    struct sl_err *err)
{
    int rc = sl_mem_alloc(&g->stop, o->n_stop, sizeof(*g->stop), "stop texts",
                          err);

    for (; !rc && g->n_stop < o->n_stop; g->n_stop++) {
        const char *s = o->stop[g->n_stop];
        size_t len = strlen(s);

        if (len == 0 || len > MAX_STOP_BYTES)
            return sl_fail(err, SL_EARG,
                           "stop text %u has %zu bytes; use 1 to %d",
                           g->n_stop, len, MAX_STOP_BYTES);
        rc = sl_mem_dup(&g->stop[g->n_stop], s, len, err);
    }
    return rc;
}

static int set_allowed(struct sl_gen *g, const struct sl_gen_opts *o,
                       struct sl_err *err)
{
    int rc;

    if (!o->allowed_ids)
        return 0;
    rc = sl_mem_alloc(&g->allowed, sl_max(o->n_allowed, 1), sizeof(*g->allowed),
                      "allowed ids", err);
    if (rc)
        return rc;
    if (o->n_allowed)
        memcpy(g->allowed, o->allowed_ids, o->n_allowed * sizeof(*g->allowed));
    g->sample.allowed = g->allowed;
    g->sample.n_allowed = o->n_allowed;
    return 0;
}

/* One bad word as tokens at the end of bad_ids; n of them. */
static int add_bad(struct sl_gen *g, const char *word, bool space, uint32_t *n,
                   struct sl_err *err)
{
    size_t before = g->bad_ids.len;
    struct sl_buf text;
    int rc;

    while (*word == ' ')
        word++;
    sl_buf_init(&text, 2 * MAX_STOP_BYTES);
    if (space)
        sl_buf_byte(&text, ' ');
    sl_buf_str(&text, word);
    rc = sl_buf_check(&text, "a bad word", err);
    if (!rc)
        rc = sl_text_encode(&g->bad_ids, g->e, text.p, text.len, err);
    sl_buf_deinit(&text);
    *n = (uint32_t)(g->bad_ids.len - before);
    return rc;
}

/* A word is forbidden as it begins a text and, when that is another token, as
 * it follows a space: vLLM's rule. */
static int set_bad_words(struct sl_gen *g, const struct sl_gen_opts *o,
                         struct sl_err *err)
{
    struct sl_sample_opts *s = &g->sample;
    int rc = sl_mem_alloc(&g->bad, 2 * (size_t)o->n_bad_words, sizeof(*g->bad),
                          "bad words", err);

    for (uint32_t i = 0; !rc && i < o->n_bad_words; i++) {
        uint32_t plain = 0, spaced = 0;

        if (!o->bad_words[i][strspn(o->bad_words[i], " ")])
            return sl_fail(err, SL_EARG,
                           "item %u of bad_words is empty; remove it", i);
        rc = add_bad(g, o->bad_words[i], false, &plain, err);
        if (!rc)
            rc = add_bad(g, o->bad_words[i], true, &spaced, err);
        if (rc)
            return rc;
        g->bad[s->n_bad++].n = plain;
        if (spaced == plain &&
            g->bad_ids.p[g->bad_ids.len - spaced] !=
                g->bad_ids.p[g->bad_ids.len - spaced - plain])
            g->bad[s->n_bad++].n = spaced;
        else
            g->bad_ids.len -= spaced;
    }
    /* The array has stopped moving. */
    for (uint32_t i = 0, at = 0; !rc && i < s->n_bad; at += g->bad[i++].n)
        g->bad[i].ids = g->bad_ids.p + at;
    s->bad = g->bad;
    return rc;
}

/* Is there a token that the answer may begin with, as far as can be told without
 * its shape? */
static int check_masks(const struct sl_gen *g, struct sl_err *err)
{
    const struct sl_sample_opts *s = &g->sample;
    uint32_t n = g->e->n_vocab, n_left = 0;
    bool *may = NULL;
    int rc;

    if (!s->allowed && s->n_bad == 0)
        return 0;
    rc = sl_mem_alloc(&may, n, sizeof(*may), "the masks of a request", err);
    if (rc)
        return rc;
    if (!s->allowed)
        memset(may, true, n);
    for (uint32_t i = 0; s->allowed && i < s->n_allowed; i++)
        may[s->allowed[i]] = true;
    for (uint32_t i = 0; i < s->n_bad; i++)
        if (s->bad[i].n == 1)
            may[s->bad[i].ids[0]] = false;
    for (uint32_t i = 0; s->min_tokens > 0 && i < s->n_end; i++)
        if ((uint32_t)s->end[i] < n)
            may[s->end[i]] = false;
    for (uint32_t i = 0; i < n; i++)
        n_left += may[i];
    sl_mem_free(may);
    return n_left ? 0
                  : sl_fail(err, SL_EARG,
                            "allowed_token_ids, bad_words and min_tokens leave "
                            "no token that the answer may begin with; relax "
                            "one of them");
}

static int set_masks(struct sl_gen *g, const struct sl_gen_opts *o,
                     struct sl_err *err)
{
    int rc = set_end_ids(g, o, err);

    g->sample.min_tokens = o->min_tokens;
    if (!rc)
        rc = set_allowed(g, o, err);
    if (!rc)
        rc = set_bad_words(g, o, err);
    return rc;
}

static void free_masks(struct sl_gen *g)
{
    sl_mem_free(g->end_ids);
    sl_mem_free(g->allowed);
    sl_mem_free(g->bad);
    sl_ids_deinit(&g->bad_ids);
}

int sl_gen_can_begin(struct sl_engine *e, const struct sl_gen_opts *o,
                     struct sl_err *err)
{
    struct sl_gen *g = NULL;
    int rc = sl_mem_alloc(&g, 1, sizeof(*g), "a generation", err);

    if (rc)
        return rc;
    g->e = e;
    sl_ids_init(&g->bad_ids, INT32_MAX / 2);
    sl_sample_opts_init(&g->sample);
    rc = set_masks(g, o, err);
    if (!rc)
        rc = sl_sample_opts_check(&g->sample, e->n_vocab, err);
    if (!rc)
        rc = check_masks(g, err);
    free_masks(g);
    sl_mem_free(g);
    return rc;
}

static int set_sampling(struct sl_gen *g, const struct sl_gen_opts *o,
                        struct sl_err *err)
{
    struct sl_sample_opts *s = &g->sample;
    int rc;

    sl_sample_opts_init(s);
    s->temperature = o->temperature;
    s->top_p = o->top_p;
    s->top_k = o->top_k;
    s->min_p = o->min_p;
    s->presence = o->presence_penalty;
    s->frequency = o->frequency_penalty;
    s->repetition = o->repetition_penalty;
    s->seed = o->has_seed ? o->seed : sl_machine_random();
    s->choice = o->choice;
    s->want_logprob = o->want_logprobs;
    s->n_logprob = o->want_logprobs ? o->n_top_logprobs : 0;
    rc = sl_mem_alloc(&g->bias, o->n_bias, sizeof(*g->bias), "logit bias",
                      err);
    for (uint32_t i = 0; !rc && i < o->n_bias; i++)
        g->bias[i] =
            (struct sl_bias){.id = o->bias_ids[i], .value = o->bias[i]};
    s->bias = g->bias;
    s->n_bias = o->n_bias;
    if (!rc)
        rc = set_masks(g, o, err);
    if (!rc)
        rc = sl_sample_opts_check(s, g->e->n_vocab, err);
    if (!rc)
        rc = check_masks(g, err);
    if (!rc)
        rc = sl_shaping_open(&g->shaping, g->e->shapes, o, err);
    s->never_end = g->shaping.waits;
    s->shape = g->shaping.waits ? NULL : g->shaping.m;
    return rc;
}

/* Is the newest think tag of the prompt an opening one? */
static bool is_open(const struct sl_gen *g)
{
    for (uint32_t i = g->n_prompt; i > 0; i--) {
        if (g->tok[i - 1] == g->think_id)
            return true;
        if (g->tok[i - 1] == g->think_end_id)
            return false;
    }
    return false;
}

static int set_thinking(struct sl_gen *g, const struct sl_gen_opts *o,
                        struct sl_err *err)
{
    const struct sl_tokenizer *t = g->e->tok;

    if (!o->limit_thinking)
        return 0;
    if (!t || !sl_tokenizer_find(t, THINK, strlen(THINK), &g->think_id) ||
        !sl_tokenizer_find(t, THINK_END, strlen(THINK_END), &g->think_end_id))
        return sl_fail(err, SL_EARG,
                       "a budget for thinking needs a model with the tokens "
                       "%s and %s; leave it out",
                       THINK, THINK_END);
    g->max_thinking = o->max_thinking;
    g->thinks = is_open(g);
    return sl_text_encode(&g->close, g->e, CLOSE, strlen(CLOSE), err);
}

static int set_scores(struct sl_gen *g, const struct sl_gen_opts *o,
                      struct sl_err *err)
{
    const char *what = "the log-probabilities of a prompt";
    int rc;

    if (!o->want_prompt_logprobs)
        return 0;
    if (o->n_prompt_top > SL_MAX_LOGPROB)
        return sl_fail(err, SL_EARG,
                       "%u alternatives to the tokens of the prompt are more "
                       "than %d; ask for fewer",
                       o->n_prompt_top, SL_MAX_LOGPROB);
    g->scores = g->no_cache = true; /* what is not read has no logits */
    g->n_score_top = o->n_prompt_top;
    rc = sl_mem_alloc(&g->score, g->n_prompt, sizeof(*g->score), what, err);
    if (!rc)
        rc = sl_mem_alloc(&g->score_rank, g->n_prompt, sizeof(*g->score_rank),
                          what, err);
    if (!rc)
        rc = sl_mem_alloc(&g->score_top, (size_t)g->n_prompt * g->n_score_top,
                          sizeof(*g->score_top), what, err);
    if (!rc)
        g->score[0].id = g->tok[0]; /* all that there is of the first one */
    return rc;
}

static int set_output(struct sl_gen *g, bool show_special, struct sl_err *err)
{
    int rc = sl_history_open(&g->hist, g->n_prompt + g->max_out, err);

    if (!rc)
        rc = sl_keep_plan(g, err);
    if (!rc)
        rc = sl_draft_open(g, err);
    sl_buf_reserve(&g->fresh, TEXT_RESERVE);
    sl_buf_reserve(&g->stopper.held, TEXT_RESERVE);
    if (!rc)
        rc = sl_history_push(g->hist, g->tok, g->n_prompt, false, err);
    if (!rc)
        rc = pieces_init(&g->front, g, err);
    if (!rc)
        rc = pieces_init(&g->back, g, err);
    if (g->e->tok)
        sl_detokenize_init(&g->detok, g->e->tok, !show_special);
    return rc;
}

void sl_gen_free(struct sl_gen *g)
{
    sl_seq_close(&g->seq);
    sl_history_close(&g->hist);
    sl_shaping_close(&g->shaping);
    sl_stop_deinit(&g->stopper);
    sl_buf_deinit(&g->fresh);
    pieces_deinit(&g->front);
    pieces_deinit(&g->back);
    for (uint32_t i = 0; i < g->n_stop; i++)
        sl_mem_free(g->stop[i]);
    sl_mem_free(g->stop);
    sl_mem_free(g->bias);
    free_masks(g);
    sl_ids_deinit(&g->close);
    sl_mem_free(g->cut);
    sl_mem_free(g->score);
    sl_mem_free(g->score_rank);
    sl_mem_free(g->score_top);
    sl_draft_close(g);
    sl_mem_free(g->tok);
    sl_cond_deinit(&g->ready);
    sl_mutex_deinit(&g->mu);
    sl_mem_free(g);
}

int sl_gen_submit(struct sl_gen **out, struct sl_engine *e,
                  const struct sl_gen_opts *o, struct sl_err *err)
{
    struct sl_gen *g = NULL;
    int rc = sl_mem_alloc(&g, 1, sizeof(*g), "a generation", err);

    if (rc)
        return rc;
    g->e = e;
    g->wake = o->wake;
    g->wake_ctx = o->wake_ctx;
    g->include_stop = o->include_stop;
    g->no_cache = o->no_cache;
    g->forks = o->forks;
    g->salt = o->cache_salt;
    g->priority = o->priority;
    g->client = o->client;
    g->stop_text = g->stop_id = -1;
    g->may_draft = e->drafts && !o->prompt_only &&
                   (e->opts.draft == SL_DRAFT_ALL || o->temperature <= 0);
    g->submit_ns = sl_clock_ns();
    sl_mutex_init(&g->mu, SL_RANK_GEN);
    sl_cond_init(&g->ready);
    sl_buf_init(&g->fresh, MAX_TEXT);
    sl_ids_init(&g->bad_ids, INT32_MAX / 2);
    sl_ids_init(&g->close, 64);
    rc = set_prompt(g, o, err);
    if (!rc)
        rc = set_stop(g, o, err);
    sl_stop_init(&g->stopper, g->stop, g->n_stop);
    g->stopper.include = o->include_stop;
    if (!rc)
        rc = set_sampling(g, o, err);
    if (!rc)
        rc = set_thinking(g, o, err);
    if (!rc)
        rc = set_scores(g, o, err);
    if (!rc)
        rc = set_output(g, o->show_special, err);
    if (rc) {
        sl_gen_free(g);
        return rc;
    }
    sl_lock(&e->mu);
    sl_gen_list_push(&e->submitted, g);
    sl_cond_wake_all(&e->work);
    sl_unlock(&e->mu);
    *out = g;
    return 0;
}
