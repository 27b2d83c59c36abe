/* engine/schedule.c - which rows run now; see schedule.h */
#include "engine/schedule.h"

/* A step of prompts alone. Chosen, not measured: short against the patience of a
 * user, long against the fixed cost of a step; which on a slow machine, or with
 * a large model, is itself longer than that, so that a few of it is the measure.
 */
#define STEP_S 0.25
#define STEP_STRETCH 4
#define DECODE_STRETCH 1.7 /* below 2, which is the promise, by what steps vary */
#define FIRST_ROWS 32      /* of a prompt, before anything was measured */

#define SHARES 2 /* equal parts that a client, or a prompt, may have at most */

/* A plan being made. */
struct plan {
    struct sl_sched_seq *seq;
    uint32_t n, n_client;
    uint64_t turn;
    uint32_t *rows;
    struct sl_sched_client *client;
};

/* The k-th in the order of who has waited longest. */
static uint32_t nth(const struct plan *p, uint32_t k)
{
    return p->client[k].seq;
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

/* How many clients can use more than `level` rows, and how many rows all use
 * together when none has more. */
static uint32_t n_above(const struct plan *p, uint32_t level, uint32_t *used)
{
    uint32_t n = 0;

    *used = 0;
    for (uint32_t c = 0; c < p->n_client; c++) {
        n += p->client[c].want > level;
        *used += (uint32_t)sl_min(p->client[c].want, level);
    }
    return n;
}

/* What a client may have of `total` rows. Whoever cannot use an equal part
 * leaves the rest to the others, until nothing is left to be dealt. */
static uint32_t most_of(const struct plan *p, uint32_t total)
{
    uint32_t level = 0, used, n;

    while ((n = n_above(p, level, &used)) > 0 && total - used >= n)
        level += (total - used) / n;
    if (n == 0) /* there is enough for everybody */
        return total;
    return (uint32_t)sl_max(SHARES * level + SHARES * (total - used) / n, 1);
}

/* Client c decodes too much: it has single rows, for its sequences in turn. */
static void restrain(struct plan *p, uint32_t c)
{
    uint32_t most = p->client[c].most;

    p->client[c].rows = 0;
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t i = nth(p, k);

        if (p->seq[i].client != c)
            continue;
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
        uint32_t i = nth(p, k);

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
    for (uint32_t k = 0; k < p->n && left > 0; k++) {
        uint32_t i = nth(p, k), got;

        if (p->seq[i].client != c || !is_hungry(p, i))
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
            uint32_t c = p->client[k].turn, n = p->client[c].n_hungry;
            uint32_t mine = (uint32_t)sl_min(part, left);

            if (n > 0)
                left -= mine -
                        deal(p, c, mine, (uint32_t)sl_max(mine / n, 1));
        }
    }
    return left;
}

/* Rows that prompt i may have while prompts are served by length. */
static uint32_t part_of(const struct plan *p, uint32_t i, uint32_t equal)
{
    uint32_t n = p->client[p->seq[i].client].n_prompt;

    return SHARES * ((equal + n - 1) / n);
}

/* The hungry prompt with the least to read of those below their parts. n when
 * there is none. */
static uint32_t shortest(const struct plan *p, uint32_t equal)
{
    uint32_t best = p->n;

    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t i = nth(p, k);

        if (is_hungry(p, i) && p->rows[i] < part_of(p, i, equal) &&
            (best == p->n || p->seq[i].n_all < p->seq[best].n_all))
            best = i;
    }
    return best;
}

/* One after the other. `equal`: an equal part of a client. */
static uint32_t deal_short(struct plan *p, uint32_t left, uint32_t equal)
{
    while (left > 0) {
        uint32_t i = shortest(p, equal), got;
        const struct sl_sched_client *c;

        if (i == p->n)
            break;
        c = &p->client[p->seq[i].client];
        got = (uint32_t)sl_min(p->seq[i].n_left, part_of(p, i, equal));
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

/* Orders by when it was whose turn, the longest ago first. */
static void sort(struct plan *p)
{
    struct sl_sched_client *at = p->client;

    for (uint32_t i = 0, k; i < p->n; i++) {
        for (k = i; k > 0 && p->seq[at[k - 1].seq].last > p->seq[i].last; k--)
            at[k].seq = at[k - 1].seq;
        at[k].seq = i;
    }
    for (uint32_t c = 0, k; c < p->n_client; c++) {
        for (k = c; k > 0 && at[at[k - 1].turn].last > at[c].last; k--)
            at[k].turn = at[k - 1].turn;
        at[k].turn = c;
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
                          uint32_t *rows, struct sl_sched_client *client)
{
    struct plan p = {.seq = seq,
                     .n = n,
                     .turn = turn,
                     .rows = rows,
                     .client = client};
    uint32_t sum = 0;

    add_clients(&p);
    (void)deal_prompts(&p, deal_decoding(&p, max_row, max_prompt));
    for (uint32_t c = 0; c < p.n_client; c++)
        sum += client[c].rows;
    return sum;
}

uint32_t sl_schedule_prompt_rows(const struct sl_cost *c, uint32_t n_dec,
                                 uint64_t dec_context, uint32_t n_prompt,
                                 uint64_t depth, uint32_t max_row)
{
    uint32_t soon = n_dec > 0 && n_prompt > 0 ? n_dec + n_prompt - 1 : n_dec;
    double now = sl_cost_predict(c, soon, dec_context);
    double limit = DECODE_STRETCH * now;
    uint32_t rows;

    if (now <= 0)
        return FIRST_ROWS;
    if (n_dec == 0) /* now is a step of one row */
        limit = STEP_STRETCH * now > STEP_S ? STEP_STRETCH * now : STEP_S;
    limit -= c->context_s * (double)dec_context;
    rows = sl_cost_rows(c, limit, depth, max_row);
    return rows > n_dec ? rows - n_dec : 1;
}
