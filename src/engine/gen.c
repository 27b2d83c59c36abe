/* engine/gen.c - one generation: take pieces, cancel, close; see gen.h
 *
 * The engine thread adds text, ids and log-probabilities to `back`; the reader
 * swaps it with `front` and has all that came since. Both were sized when the
 * generation was submitted (engine/submit.c).
 */
#include "engine/gen.h"

#include "base/clock.h"
#include "base/mem.h"

static const char NOT_READY[] = "no piece is ready yet";

/* ---------------------------------------------------------- the engine side */

static bool is_end(const struct sl_gen *g, int32_t id)
{
    for (uint32_t i = 0; i < g->sample.n_end; i++)
        if (g->sample.end[i] == id)
            return true;
    return false;
}

/* mu is held, which orders what there is to take: a flag alone. */
static void set_ready(struct sl_gen *g, bool yes)
{
    atomic_store_explicit(&g->is_ready, yes, memory_order_relaxed);
}

static bool is_ready(const struct sl_gen *g)
{
    return atomic_load_explicit(&g->is_ready, memory_order_relaxed);
}

/* mu is held. */
static void put_id(struct sl_gen *g, const struct sl_draw *d)
{
    struct sl_pieces *b = &g->back;
    uint32_t n_top = g->sample.n_logprob;
    struct sl_logprob *top = n_top ? b->top + b->n_ids * n_top : NULL;

    b->ids[b->n_ids] = d->id;
    b->said[b->n_ids] = g->n_said;
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
    set_ready(g, true);
}

/* Why the generation ends with this token, or NONE. */
static enum sl_finish finish_of(struct sl_gen *g, const struct sl_draw *d,
                                bool stopped, bool whole)
{
    if (stopped)
        g->stop_text = (int32_t)g->stopper.hit;
    for (uint32_t i = 0; !stopped && i < g->n_stop_ids; i++)
        if (g->end_ids[i] == d->id)
            g->stop_id = d->id;
    if (stopped || whole || is_end(g, d->id))
        return SL_FINISH_STOP;
    return g->n_out == g->max_out ? SL_FINISH_LENGTH : SL_FINISH_NONE;
}

/* Is the text of this token shown? Not that of an end, unless the request named
 * it and wants to see it. */
static bool has_text(const struct sl_gen *g, int32_t id)
{
    for (uint32_t i = 0; g->include_stop && i < g->n_stop_ids; i++)
        if (g->end_ids[i] == id)
            return true;
    return !is_end(g, id);
}

/* mu is held: the text of the newest token goes to the reader. True when it
 * completed a stop text. */
static bool put_text(struct sl_gen *g)
{
    if (g->n_out >= g->sample.min_tokens)
        return sl_stop_feed(&g->stopper, &g->fresh, &g->back.text);
    sl_stop_pass(&g->stopper, &g->fresh, &g->back.text);
    return false;
}

int32_t sl_gen_forced(const struct sl_gen *g)
{
    bool late = g->thinks && g->n_thought >= g->max_thinking;

    return g->close.len > 0 && (late || g->n_closed > 0) ? g->close.p[g->n_closed]
                                                         : -1;
}

/* Where reasoning stands behind this token. */
static void count_thought(struct sl_gen *g, int32_t id)
{
    if (g->close.len == 0)
        return;
    if (sl_gen_forced(g) >= 0) {
        g->n_closed = (uint32_t)((g->n_closed + 1) % g->close.len);
        g->thinks = g->n_closed > 0;
    } else if (id == g->think_id || id == g->think_end_id) {
        g->thinks = id == g->think_id;
    } else {
        g->n_thought += g->thinks;
    }
}

/* The newest token goes into the shape of the answer. *whole: nothing can
 * follow. */
static int put_shape(struct sl_gen *g, int32_t id, bool *whole,
                     struct sl_err *err)
{
    struct sl_shaping *x = &g->shaping;
    int rc;

    if (!x->m || is_end(g, id))
        return 0;
    rc = sl_shaping_put(x, g->e->tok, id, whole, err);
    g->thinks &= x->waits; /* a call ends it without its tag */
    g->sample.never_end = x->waits;
    g->sample.shape = x->waits ? NULL : x->m;
    return rc;
}

enum sl_finish sl_gen_put(struct sl_gen *g, const struct sl_draw *d,
                          struct sl_err *err)
{
    bool stopped, whole = false;
    enum sl_finish why;
    int rc = sl_history_push(g->hist, &d->id, 1, true, err);

    if (!rc && g->e->tok && has_text(g, d->id))
        rc = sl_detokenize_push(&g->detok, d->id, &g->fresh, err);
    if (rc)
        return SL_FINISH_ERROR;
    g->n_said += (uint32_t)g->fresh.len;
    g->tok[g->n_known++] = d->id;
    count_thought(g, d->id);
    if (put_shape(g, d->id, &whole, err))
        return SL_FINISH_ERROR;
    sl_lock(&g->mu);
    stopped = put_text(g);
    put_id(g, d);
    why = finish_of(g, d, stopped, whole);
    if (why == SL_FINISH_NONE)
        sl_cond_wake_all(&g->ready);
    sl_unlock(&g->mu);
    g->has_news = why == SL_FINISH_NONE;
    if (why != SL_FINISH_NONE && !stopped && g->e->tok)
        sl_detokenize_flush(&g->detok, &g->fresh);
    return why;
}

static void wake(struct sl_gen *g)
{
    if (!sl_pool_errand(g->e->pool, g->wake, g->wake_ctx))
        g->wake(g->wake_ctx);
}

void sl_gen_tell(struct sl_gen *const *all, uint32_t n)
{
    const struct sl_gen *told = NULL;

    for (uint32_t i = 0; i < n; i++) {
        struct sl_gen *g = all[i];

        if (!g->has_news)
            continue;
        g->has_news = false;
        if (!g->wake || (told && told->wake == g->wake &&
                         told->wake_ctx == g->wake_ctx))
            continue;
        wake(g);
        told = g;
    }
}

void sl_gen_end(struct sl_gen *g, enum sl_finish why)
{
    sl_seq_close(&g->seq);
    sl_shaping_stop(&g->shaping);
    sl_lock(&g->mu);
    if (!sl_stop_feed(&g->stopper, &g->fresh, &g->back.text))
        sl_stop_flush(&g->stopper, &g->back.text);
    g->finish = why;
    set_ready(g, true);
    sl_unlock(&g->mu);
    if (g->wake)
        wake(g);
    /* From let_go on the caller may free g. */
    sl_lock(&g->mu);
    g->n_errand = sl_pool_n_errand(g->e->pool);
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
    set_ready(g, ended);
    g->told_end = ended;
    *out = (struct sl_piece){
        .text = g->front.text.p ? g->front.text.p : "",
        .n_text = g->front.text.len,
        .ids = g->front.ids,
        .said = g->front.said,
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

int sl_gen_next(struct sl_gen *g, struct sl_piece *out, struct sl_err *err)
{
    int rc;

    if (g->told_end)
        return 0;
    sl_lock(&g->mu);
    while (!is_ready(g))
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
    /* Who was woken sees the flag: waking orders. Nothing is formatted here: a
     * server asks thousands that wait at every step. */
    if (!is_ready(g)) {
        if (err) {
            err->code = SL_EBUSY;
            memcpy(err->msg, NOT_READY, sizeof(NOT_READY));
        }
        return SL_EBUSY;
    }
    sl_lock(&g->mu);
    rc = take(g, out, err);
    sl_unlock(&g->mu);
    return rc;
}

int sl_gen_prompt_logprobs(struct sl_gen *g, struct sl_prompt_logprobs *out,
                           struct sl_err *err)
{
    bool ready;

    if (!g->scores)
        return sl_fail(err, SL_EARG,
                       "log-probabilities of the prompt were not asked for");
    sl_lock(&g->mu);
    ready = g->n_out > 0 || g->finish == SL_FINISH_LENGTH;
    sl_unlock(&g->mu);
    if (!ready)
        return sl_fail(err, SL_EBUSY, "the prompt is not yet read");
    *out = (struct sl_prompt_logprobs){.n = g->n_prompt,
                                       .at = g->score,
                                       .rank = g->score_rank,
                                       .top = g->score_top,
                                       .n_top = g->n_score_top};
    return 0;
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
    /* A worker may be about to call wake, or be kept from coming back: rare,
     * and nobody tells of it. */
    while (g->wake && !sl_pool_is_back(g->e->pool, g->n_errand))
        sl_cond_wait_ms(&g->ready, &g->mu, 1);
    sl_unlock(&g->mu);
    sl_gen_free(g);
}

void sl_gen_stats(struct sl_gen *g, struct sl_gen_stats *out)
{
    uint64_t now = sl_clock_ns(), admit, first, end;

    sl_lock(&g->mu);
    admit = g->admit_ns ? g->admit_ns : now;
    first = g->first_ns ? g->first_ns : now;
    end = g->finish != SL_FINISH_NONE && g->last_ns ? g->last_ns : now;
    *out = (struct sl_gen_stats){
        .is_admitted = g->admit_ns != 0,
        .queue_s = sl_clock_s(g->submit_ns, admit),
        .prefill_s = first > admit ? sl_clock_s(admit, first) : 0,
        .decode_s = end > first ? sl_clock_s(first, end) : 0,
        .n_prompt = g->n_prompt,
        .n_cached = g->n_cached,
        .n_output = g->n_out,
        .n_round = g->n_round,
        .n_draft = g->n_drafted,
        .n_accept = g->n_accepted,
        .tv = g->tv,
        .n_judged = g->n_judged,
        .plain_s = g->plain_s,
        .round_s = g->n_round > 0 ? g->round_s / g->n_round : 0,
    };
    sl_unlock(&g->mu);
}
