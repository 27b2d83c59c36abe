/* engine/gen.c - one generation: submit, take pieces, cancel, close; see gen.h
 *
 * The engine thread adds text, ids and log-probabilities to `back`; the reader
 * swaps it with `front` and has all that came since. Both are sized when the
 * generation is submitted, so that the token loop allocates nothing.
 */
#include "engine/gen.h"

#include "base/clock.h"
#include "base/machine.h"
#include "base/mem.h"
#include "kern/kern.h"

/* Text that may wait for a slow reader; a token is some bytes. */
#define MAX_TEXT ((size_t)256 << 20)
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
    };
}

/* How long the answer may be. */
static int set_length(struct sl_gen *g, const struct sl_gen_opts *o,
                      struct sl_err *err)
{
    uint32_t room = g->e->opts.max_model_len, pages;

    if (g->n_prompt == 0)
        return sl_fail(err, SL_EARG,
                       "the prompt is empty; send at least one token");
    if (g->n_prompt >= room)
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
    g->max_out = o->max_tokens ? o->max_tokens : room;
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
    s->min_tokens = o->min_tokens;
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
        rc = set_end_ids(g, o, err);
    if (!rc)
        rc = sl_sample_opts_check(s, g->e->n_vocab, err);
    return rc;
}

static int set_output(struct sl_gen *g, struct sl_err *err)
{
    int rc = sl_history_open(&g->hist, g->n_prompt + g->max_out, err);

    if (!rc)
        rc = sl_keep_plan(g, err);
    if (!rc && g->may_draft)
        rc = sl_mem_alloc(&g->ring, SL_DRAFT_RING,
                          g->e->weights->conf.hidden * sizeof(*g->ring),
                          "the rows for drafting", err);
    sl_buf_reserve(&g->fresh, TEXT_RESERVE);
    sl_buf_reserve(&g->stopper.held, TEXT_RESERVE);
    if (!rc)
        rc = sl_history_push(g->hist, g->tok, g->n_prompt, false, err);
    if (!rc)
        rc = pieces_init(&g->front, g, err);
    if (!rc)
        rc = pieces_init(&g->back, g, err);
    if (g->e->tok)
        sl_detokenize_init(&g->detok, g->e->tok, true);
    return rc;
}

static void free_gen(struct sl_gen *g)
{
    sl_seq_close(&g->seq);
    sl_history_close(&g->hist);
    sl_stop_deinit(&g->stopper);
    sl_buf_deinit(&g->fresh);
    pieces_deinit(&g->front);
    pieces_deinit(&g->back);
    for (uint32_t i = 0; i < g->n_stop; i++)
        sl_mem_free(g->stop[i]);
    sl_mem_free(g->stop);
    sl_mem_free(g->bias);
    sl_mem_free(g->cut);
    sl_mem_free(g->ring);
    sl_mem_free(g->end_ids);
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
    g->ignore_eos = o->ignore_eos;
    g->stop_text = g->stop_id = -1;
    g->may_draft = e->drafts && (e->opts.draft == SL_DRAFT_ALL ||
                                 o->temperature <= 0);
    g->submit_ns = sl_clock_ns();
    sl_mutex_init(&g->mu, SL_RANK_GEN);
    sl_cond_init(&g->ready);
    sl_buf_init(&g->fresh, MAX_TEXT);
    rc = set_prompt(g, o, err);
    if (!rc)
        rc = set_stop(g, o, err);
    sl_stop_init(&g->stopper, g->stop, g->n_stop);
    if (!rc)
        rc = set_sampling(g, o, err);
    if (!rc)
        rc = set_output(g, err);
    if (rc) {
        free_gen(g);
        return rc;
    }
    sl_lock(&e->mu);
    sl_gen_list_push(&e->submitted, g);
    sl_cond_wake_all(&e->work);
    sl_unlock(&e->mu);
    *out = g;
    return 0;
}

/* ---------------------------------------------------------- the engine side */

static bool is_end(const struct sl_gen *g, int32_t id)
{
    for (uint32_t i = 0; i < g->sample.n_end; i++)
        if (g->sample.end[i] == id)
            return true;
    return false;
}

/* mu is held. */
static void put_id(struct sl_gen *g, const struct sl_draw *d)
{
    struct sl_pieces *b = &g->back;
    uint32_t n_top = g->sample.n_logprob;
    struct sl_logprob *top = n_top ? b->top + b->n_ids * n_top : NULL;

    b->ids[b->n_ids] = d->id;
    if (b->logprobs)
        b->logprobs[b->n_ids] =
            (struct sl_logprob){.id = d->id, .logprob = d->logprob};
    for (uint32_t i = 0; i < n_top; i++)
        top[i] = i < d->n_top
                     ? (struct sl_logprob){d->top_id[i], d->top_logprob[i]}
                     : (struct sl_logprob){.id = -1};
    b->n_ids++;
    g->n_out++;
    g->last_ns = sl_clock_ns();
    if (!g->first_ns)
        g->first_ns = g->last_ns;
}

/* Why the generation ends with this token, or NONE. */
static enum sl_finish finish_of(struct sl_gen *g, const struct sl_draw *d,
                                bool stopped)
{
    if (stopped)
        g->stop_text = (int32_t)g->stopper.hit;
    for (uint32_t i = 0; !stopped && i < g->n_stop_ids; i++)
        if (g->end_ids[i] == d->id)
            g->stop_id = d->id;
    if (stopped || is_end(g, d->id))
        return SL_FINISH_STOP;
    return g->n_out == g->max_out ? SL_FINISH_LENGTH : SL_FINISH_NONE;
}

enum sl_finish sl_gen_put(struct sl_gen *g, const struct sl_draw *d,
                          struct sl_err *err)
{
    bool has_text = g->e->tok && !is_end(g, d->id), stopped;
    enum sl_finish why;
    int rc = sl_history_push(g->hist, &d->id, 1, true, err);

    if (!rc && has_text)
        rc = sl_detokenize_push(&g->detok, d->id, &g->fresh, err);
    if (rc)
        return SL_FINISH_ERROR;
    g->tok[g->n_known++] = d->id;
    sl_lock(&g->mu);
    stopped = sl_stop_feed(&g->stopper, &g->fresh, &g->back.text);
    put_id(g, d);
    why = finish_of(g, d, stopped);
    if (why == SL_FINISH_NONE)
        sl_cond_wake_all(&g->ready);
    sl_unlock(&g->mu);
    if (why == SL_FINISH_NONE && g->wake)
        g->wake(g->wake_ctx);
    if (why != SL_FINISH_NONE && !stopped && g->e->tok)
        sl_detokenize_flush(&g->detok, &g->fresh);
    return why;
}

void sl_gen_end(struct sl_gen *g, enum sl_finish why, const struct sl_err *err)
{
    void (*wake)(void *) = g->wake;
    void *ctx = g->wake_ctx;

    sl_seq_close(&g->seq);
    sl_lock(&g->mu);
    if (!sl_stop_feed(&g->stopper, &g->fresh, &g->back.text))
        sl_stop_flush(&g->stopper, &g->back.text);
    g->finish = why;
    if (err)
        g->err = *err;
    sl_unlock(&g->mu);
    /* From let_go on the caller may free g. */
    if (wake)
        wake(ctx);
    sl_lock(&g->mu);
    g->let_go = true;
    sl_cond_wake_all(&g->ready);
    sl_unlock(&g->mu);
}

/* -------------------------------------------------------------- the reader */

/* mu is held: what has come goes to the reader. */
static int take(struct sl_gen *g, struct sl_piece *out, struct sl_err *err)
{
    struct sl_pieces old = g->front;
    bool ended = g->finish != SL_FINISH_NONE;

    if (g->finish == SL_FINISH_ERROR) {
        g->told_end = true;
        return sl_fail(err, g->err.code, "%s", g->err.msg);
    }
    g->front = g->back;
    g->back = old;
    sl_buf_reset(&g->back.text);
    g->back.n_ids = 0;
    g->told_end = ended;
    *out = (struct sl_piece){
        .text = g->front.text.p ? g->front.text.p : "",
        .n_text = g->front.text.len,
        .ids = g->front.ids,
        .n_ids = g->front.n_ids,
        .logprobs = g->front.logprobs,
        .top = g->front.top,
        .n_top = g->sample.n_logprob,
        .finish = ended ? g->finish : SL_FINISH_NONE,
        .n_prompt = g->n_prompt,
        .stop_text = g->stop_text,
        .stop_id = g->stop_id,
        .n_cached = g->n_cached,
        .n_output = g->n_out,
    };
    return 1;
}

static bool has_piece(const struct sl_gen *g)
{
    return g->back.n_ids > 0 || g->finish != SL_FINISH_NONE;
}

int sl_gen_next(struct sl_gen *g, struct sl_piece *out, struct sl_err *err)
{
    int rc;

    if (g->told_end)
        return 0;
    sl_lock(&g->mu);
    while (!has_piece(g))
        sl_cond_wait(&g->ready, &g->mu);
    rc = take(g, out, err);
    sl_unlock(&g->mu);
    return rc;
}

int sl_gen_poll(struct sl_gen *g, struct sl_piece *out, struct sl_err *err)
{
    int rc;

    if (g->told_end)
        return 0;
    sl_lock(&g->mu);
    rc = has_piece(g) ? take(g, out, err)
                      : sl_fail(err, SL_EBUSY, "no piece is ready yet");
    sl_unlock(&g->mu);
    return rc;
}

void sl_gen_cancel(struct sl_gen *g)
{
    /* A flag that the engine reads between steps; orders nothing else. */
    atomic_store_explicit(&g->cancel, true, memory_order_relaxed);
}

uint64_t sl_gen_seed(const struct sl_gen *g)
{
    return g->sample.seed;
}

void sl_gen_close(struct sl_gen **pg)
{
    struct sl_gen *g = *pg;

    if (!g)
        return;
    *pg = NULL;
    sl_gen_cancel(g);
    sl_lock(&g->mu);
    while (!g->let_go)
        sl_cond_wait(&g->ready, &g->mu);
    sl_unlock(&g->mu);
    free_gen(g);
}

void sl_gen_stats(struct sl_gen *g, struct sl_gen_stats *out)
{
    uint64_t now = sl_clock_ns(), admit, first, end;

    sl_lock(&g->mu);
    admit = g->admit_ns ? g->admit_ns : now;
    first = g->first_ns ? g->first_ns : now;
    end = g->finish != SL_FINISH_NONE && g->last_ns ? g->last_ns : now;
    *out = (struct sl_gen_stats){
        .queue_s = sl_clock_s(g->submit_ns, admit),
        .prefill_s = first > admit ? sl_clock_s(admit, first) : 0,
        .decode_s = end > first ? sl_clock_s(first, end) : 0,
        .n_prompt = g->n_prompt,
        .n_cached = g->n_cached,
        .n_output = g->n_out,
        .n_round = g->n_round,
        .n_draft = g->n_drafted,
        .n_accept = g->n_accepted,
    };
    sl_unlock(&g->mu);
}
