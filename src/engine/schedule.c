/* engine/schedule.c - which rows run now; see schedule.h */
#include "engine/schedule.h"

#include "base/mem.h"
#include "base/order.h"

/* A step of prompts alone. Chosen, not measured: short against the patience of a
 * user, long against the fixed cost of a step; which on a slow machine, or with
 * a large model, is itself longer than that, so that a few of it is the measure.
 */
#define STEP_S 0.12
#define STEP_STRETCH 4
#define FIRST_ROWS 32 /* of a prompt, before anything was measured */

/* Of answers beside prompts. The promise is 2 for all steps but one in a hundred;
 * what a user measures has more in it than the step. A prompt is read at all by
 * LEAST, however much the machine is disturbed. */
#define LATE 1.7
#define LEAST_STRETCH 1.1
#define LATE_PART 0.005  /* of the steps, at most */
#define STRETCH_DOWN 0.1 /* by a late step; chosen */

#define SHARES 2 /* equal parts that a client, or a prompt, may have at most */

/* A plan being made. */
struct plan {
    struct sl_sched_seq *seq;
    uint32_t n, n_client;
    uint64_t turn;
    uint32_t *rows;
    struct sl_sched_client *client;
    struct sl_sched_work *w;
};

#define NONE UINT32_MAX /* no sequence */

int sl_sched_work_open(struct sl_sched_work *w, uint32_t n, struct sl_err *err)
{
    uint32_t **const at[] = {&w->seq, &w->turn, &w->brief, &w->next, &w->tmp};
    int rc;

    *w = (struct sl_sched_work){.client = NULL};
    rc = sl_mem_alloc(&w->client, n, sizeof(*w->client), "the scheduler", err);
    for (size_t i = 0; !rc && i < SL_COUNTOF(at); i++)
        rc = sl_mem_alloc(at[i], n, sizeof(**at[i]), "the scheduler", err);
    return rc;
}

void sl_sched_work_close(struct sl_sched_work *w)
{
    sl_mem_free(w->client);
    sl_mem_free(w->seq);
    sl_mem_free(w->turn);
    sl_mem_free(w->brief);
    sl_mem_free(w->next);
    sl_mem_free(w->tmp);
}

static void give(struct plan *p, uint32_t i, uint32_t rows)
{
    p->rows[i] += rows;
    p->client[p->seq[i].client].rows += rows;
}

static void give_in_turn(struct plan *p, uint32_t i, uint32_t rows)
{
    give(p, i, rows);
    p->seq[i].last = p->turn;
}

/* ------------------------------------------------------------- fair shares */

static bool wants_less(const void *ctx, uint32_t a, uint32_t b)
{
    const struct plan *p = ctx;

    return p->client[a].want < p->client[b].want;
}

/* What a client may have of `total` rows. Whoever cannot use an equal part
 * leaves the rest to the others, until nothing is left to be dealt. */
static uint32_t most_of(const struct plan *p, uint32_t total)
{
    uint32_t *at = p->w->brief, left = total, n = p->n_client;

    for (uint32_t c = 0; c < n; c++)
        at[c] = c;
    sl_order(at, p->w->tmp, n, wants_less, p);
    for (uint32_t k = 0; k < n; k++) {
        uint64_t want = p->client[at[k]].want;
        uint32_t level = left / (n - k); /* of those that are left */

        if (want > level)
            return (uint32_t)sl_max(
                SHARES * level + SHARES * (left - level * (n - k)) / (n - k),
                1);
        left -= (uint32_t)want;
    }
    return total; /* there is enough for everybody */
}

/* Client c decodes too much: it has single rows, for its sequences in turn. */
static void restrain(struct plan *p, uint32_t c)
{
    uint32_t most = p->client[c].most;

    p->client[c].rows = 0;
    for (uint32_t i = p->client[c].first; i != NONE; i = p->w->next[i]) {
        p->rows[i] = 0;
        if (p->client[c].rows < most)
            give_in_turn(p, i, 1);
    }
}

/* The rows that decode, at most max_row. Returns what is left for prompts. */
static uint32_t deal_decoding(struct plan *p, uint32_t max_row,
                              uint32_t max_prompt)
{
    uint32_t sum = 0, total;

    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t i = p->w->seq[k];

        p->rows[i] = 0;
        if (p->seq[i].n_left == 1 && sum < max_row) {
            give_in_turn(p, i, 1);
            sum++;
        }
    }
    total = sum + (uint32_t)sl_min(max_row - sum, max_prompt);
    for (uint32_t c = 0, most = most_of(p, total); c < p->n_client; c++) {
        p->client[c].most = most;
        if (p->client[c].rows < most || p->client[c].want <= most)
            continue;
        sum -= p->client[c].rows - most;
        restrain(p, c);
    }
    return total - sum;
}

/* ------------------------------------------------------------------ prompts */

static bool is_hungry(const struct plan *p, uint32_t i)
{
    const struct sl_sched_client *c = &p->client[p->seq[i].client];

    return p->seq[i].n_left > 1 && p->rows[i] < p->seq[i].n_left &&
           c->rows < c->most;
}

/* Counts the hungry prompts of each client; returns how many have any. */
static uint32_t n_hungry(struct plan *p)
{
    uint32_t n = 0;

    for (uint32_t c = 0; c < p->n_client; c++)
        p->client[c].n_hungry = 0;
    for (uint32_t i = 0; i < p->n; i++)
        if (is_hungry(p, i))
            n += p->client[p->seq[i].client].n_hungry++ == 0;
    return n;
}

/* One round: every hungry prompt of client c gets up to `part` rows, all of them
 * `left`. Returns what remains. */
static uint32_t deal(struct plan *p, uint32_t c, uint32_t left, uint32_t part)
{
    for (uint32_t i = p->client[c].first; i != NONE && left > 0;
         i = p->w->next[i]) {
        uint32_t got;

        if (!is_hungry(p, i))
            continue;
        got = (uint32_t)sl_min(sl_min(p->seq[i].n_left - p->rows[i], part),
                               sl_min(p->client[c].most - p->client[c].rows,
                                      left));
        give_in_turn(p, i, got);
        left -= got;
    }
    return left;
}

/* `left` rows in equal parts to the clients; what one does not need, or may not
 * have, goes to the others. Each round satisfies a prompt or a client, or hands
 * out everything. Returns what nobody wants. */
static uint32_t deal_all(struct plan *p, uint32_t left)
{
    uint32_t hungry;

    while (left > 0 && (hungry = n_hungry(p)) > 0) {
        uint32_t part = (uint32_t)sl_max(left / hungry, 1);

        for (uint32_t k = 0; k < p->n_client && left > 0; k++) {
            uint32_t c = p->w->turn[k], n = p->client[c].n_hungry;
            uint32_t mine = (uint32_t)sl_min(part, left);

            if (n > 0)
                left -= mine -
                        deal(p, c, mine, (uint32_t)sl_max(mine / n, 1));
        }
    }
    return left;
}

/* Rows that i, a prompt, may have while prompts are served by length. */
static uint32_t part_of(const struct plan *p, uint32_t i, uint32_t equal)
{
    uint32_t n = p->client[p->seq[i].client].n_prompt;

    return SHARES * ((equal + n - 1) / n);
}

static bool is_briefer(const void *ctx, uint32_t a, uint32_t b)
{
    const struct plan *p = ctx;

    return p->seq[a].n_all < p->seq[b].n_all;
}

/* One after the other, the one with the least to read first, of equals in their
 * order; each has its part then, or all, or its client has its most, so nobody
 * is looked at twice. `equal`: an equal part of a client. */
static uint32_t deal_short(struct plan *p, uint32_t left, uint32_t equal)
{
    uint32_t *at = p->w->brief;

    memcpy(at, p->w->seq, p->n * sizeof(*at));
    sl_order(at, p->w->tmp, p->n, is_briefer, p);
    for (uint32_t k = 0; k < p->n && left > 0; k++) {
        uint32_t i = at[k], got, part;
        const struct sl_sched_client *c = &p->client[p->seq[i].client];

        if (!is_hungry(p, i))
            continue;
        part = part_of(p, i, equal);
        if (p->rows[i] >= part)
            continue;
        got = (uint32_t)sl_min(p->seq[i].n_left, part);
        got = (uint32_t)sl_min(got - p->rows[i],
                               sl_min(c->most - c->rows, left));
        give(p, i, got);
        left -= got;
    }
    return left;
}

static uint32_t deal_prompts(struct plan *p, uint32_t left)
{
    /* A single row goes in turn to all alike and to the shortest. */
    uint32_t equal = (uint32_t)((left + p->turn % 2) / 2);
    uint32_t hungry = n_hungry(p), part;

    if (hungry == 0)
        return left;
    part = (left + hungry - 1) / hungry;
    left -= equal;
    left += deal_all(p, equal);
    left = deal_short(p, left, part);
    return deal_all(p, left);
}

static bool waits_longer(const void *ctx, uint32_t a, uint32_t b)
{
    const struct plan *p = ctx;

    return p->seq[a].last < p->seq[b].last;
}

static bool client_waits_longer(const void *ctx, uint32_t a, uint32_t b)
{
    const struct plan *p = ctx;

    return p->client[a].last < p->client[b].last;
}

/* Orders by when it was whose turn, the longest ago first; the sequences of each
 * client in the same order. */
static void sort(struct plan *p)
{
    struct sl_sched_work *w = p->w;

    for (uint32_t i = 0; i < p->n; i++)
        w->seq[i] = i;
    sl_order(w->seq, w->tmp, p->n, waits_longer, p);
    for (uint32_t c = 0; c < p->n_client; c++) {
        w->turn[c] = c;
        p->client[c].first = NONE;
    }
    sl_order(w->turn, w->tmp, p->n_client, client_waits_longer, p);
    for (uint32_t k = p->n; k > 0; k--) {
        uint32_t i = w->seq[k - 1];

        w->next[i] = p->client[p->seq[i].client].first;
        p->client[p->seq[i].client].first = i;
    }
}

static void add_clients(struct plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        p->client[i] = (struct sl_sched_client){0};
        p->n_client = (uint32_t)sl_max(p->n_client, p->seq[i].client + 1);
    }
    for (uint32_t i = 0; i < p->n; i++) {
        struct sl_sched_client *c = &p->client[p->seq[i].client];

        c->want += p->seq[i].n_left;
        if (p->seq[i].n_left > 1) {
            c->n_prompt++;
            c->last = sl_max(c->last, p->seq[i].last);
        }
    }
    sort(p);
}

uint32_t sl_schedule_plan(struct sl_sched_seq *seq, uint32_t n,
                          uint32_t max_row, uint32_t max_prompt, uint64_t turn,
                          uint32_t *rows, struct sl_sched_work *w)
{
    struct plan p = {.seq = seq,
                     .n = n,
                     .turn = turn,
                     .rows = rows,
                     .client = w->client,
                     .w = w};
    uint32_t sum = 0;

    add_clients(&p);
    (void)deal_prompts(&p, deal_decoding(&p, max_row, max_prompt));
    for (uint32_t c = 0; c < p.n_client; c++)
        sum += p.client[c].rows;
    return sum;
}

double sl_schedule_alone_s(const struct sl_cost *c, uint32_t n_dec,
                           uint64_t dec_context, uint32_t n_prompt)
{
    uint32_t soon = n_dec > 0 && n_prompt > 0 ? n_dec + n_prompt - 1 : n_dec;

    return sl_cost_predict(c, soon, dec_context);
}

uint32_t sl_schedule_prompt_rows(const struct sl_cost *c, double stretch,
                                 uint32_t n_dec, uint64_t dec_context,
                                 uint32_t n_prompt, uint64_t depth,
                                 uint32_t max_row)
{
    double now = sl_schedule_alone_s(c, n_dec, dec_context, n_prompt);
    double limit = stretch * now;
    uint32_t rows;

    if (now <= 0)
        return FIRST_ROWS;
    if (n_dec == 0) /* now is a step of one row */
        limit = STEP_STRETCH * now > STEP_S ? STEP_STRETCH * now : STEP_S;
    /* Only the prompts' rows look back at `depth`. */
    limit -= c->context_s * ((double)dec_context - (double)n_dec * (double)depth);
    rows = sl_cost_rows(c, limit, depth, max_row);
    return rows > n_dec ? rows - n_dec : 1;
}

/* Stands still where LATE_PART of the steps are late (Robbins and Monro, "A
 * stochastic approximation method", 1951). */
double sl_schedule_stretch(double stretch, double took_s, double alone_s)
{
    double up = STRETCH_DOWN * LATE_PART / (1 - LATE_PART);

    stretch *= took_s > LATE * alone_s ? 1 - STRETCH_DOWN : 1 + up;
    stretch = stretch > LEAST_STRETCH ? stretch : LEAST_STRETCH;
    return stretch < LATE ? stretch : LATE;
}
