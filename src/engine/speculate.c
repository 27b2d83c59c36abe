/* engine/speculate.c - how many drafts are worth their time; see speculate.h
 *
 * A round of n sequences, of which i drafts k_i tokens, yields
 *
 *     E = sum over i of (1 + r_1 + r_1 r_2 + ... + r_1 ... r_(k_i))
 *
 * tokens and takes
 *
 *     T = step(n + sum of k_i + other rows) + passes of the drafters
 *
 * seconds (Leviathan et al., "Fast Inference from Transformers via Speculative
 * Decoding", 2023, with measured times). Who drafts for a sequence is chosen as
 * if all others did the same; then the drafts are taken in the order of their
 * chance to be kept, and as many as make E / T largest. Every number of them is
 * tried: times have steps, and a climb would stop at the first.
 *
 * Rows of prompts that share the step count in E as well as in T: they are of
 * use, and they fill the step, so that a draft beside them is never free. And
 * while prompts are read the rate to beat is also that of plain steps in which
 * all of them draw: with drafts the few that draw end soon, others begin, and the
 * steps stay small for ever, which costs everybody more than drafts gave the few.
 *
 * A drafter that was not used has to be shown what it missed before it is of any
 * use. What that takes is spread over the rounds to come.
 *
 * Drafting is off where it gains less than MIN_GAIN, which is about the error
 * of the tables: so it loses nothing. What is off is tried again now and then
 * by a round of a few drafts, a probe.
 *
 * All drafts are paid from one credit, whoever asks for them: with what their
 * round takes longer than a plain one, and a draft that was right earns the
 * token it gave. The credit grows by PROBE_SHARE of all time and ends at
 * MOST_CREDIT steps, which is also what a server begins with. So drafts of all
 * answers together never lose more than these steps and that share, whatever
 * comes: with one user or with many, in short answers or long, where little was
 * seen yet, and where a text is worse than all before it. And where drafting
 * paid, the next answer begins with credit, and with what was learned: nothing
 * is found out anew.
 *
 * What the drafts of answers under way earned beyond that they may lose again,
 * up to MOST_EARNED steps, of which each answer has its part: some wrong rounds
 * in a row come by chance where drafts pay, and are not to end them.
 *
 * What a probe has to show its drafter first is charged, too, as long as nobody
 * drafts for gain. There is none where even drafts that are always right would
 * not pay. A kind of drafts of which little was seen yet is a probe, however
 * good it is hoped to be: it has to be paid in advance.
 *
 * And while one drafter is used the others are tried, too, or one whose first
 * drafts were wrong by chance, or who was bad for the texts of yesterday, would
 * never be looked at again. What such a round takes more than its tokens would
 * have taken as before is paid from a purse of its own, RIVAL_SHARE of all time
 * and at most MOST_RIVAL steps. So one that turns out better is tried as
 * often as may be until it is chosen, and one that is hopeless now and then.
 *
 * What drafts were charged for and did not need is given back: rows that were not
 * verified, and passes that were not made.
 *
 * A block comes with how sure its drafter is of each token. That is held against
 * how often such tokens were right (eight bins), and the running product says
 * where the block is cut before it is verified.
 *
 * Tables can be wrong, so a guard compares what rounds with drafts really took
 * with what the table of plain steps says, and stops drafting for a while when
 * it lost. (Numbers: performance.md 4.5.)
 */
#include "engine/speculate.h"

#define GAIN 0.02       /* of one round: half a life of 35. Chosen, simulated. */
#define GAIN_ALL 0.005  /* the same for all sequences together. Chosen. */
#define GAIN_SHOWN 0.1  /* of the time that a missed row takes. Chosen. */
#define HOPE 2          /* drafts that the first guess counts for */
#define MOST_SEEN 1000000 /* counts end there, before they wrap. Chosen. */
#define PRIOR 16        /* rounds that what was seen of others counts for */
#define PROVEN 16       /* drafts that were judged: then they may be believed, and
                           until then they are paid from the credit; but for */
#define FEW 4           /* when they would pay even with */
#define DOUBT 2         /* more that were wrong. All chosen, simulated. */
#define FADE 0.97       /* from one depth to the next, where nothing is known. Chosen. */
#define LEAN 16         /* tries after which a depth stands for itself. Chosen. */
#define AGE 64          /* rounds. Chosen. */
#define MIN_GAIN 1.03   /* against plain */
#define KEEP_GAIN 1.03  /* to change the drafter */
#define PROBE_SHARE 0.005 /* of all time: below the noise. Chosen. */
#define MOST_CREDIT 5 /* steps, 1 % of an answer of 512 tokens: what can be lost at
                         once. Chosen, simulated. */
#define MOST_EARNED 15 /* steps, of all answers; simulated, see the perf-log */
#define SPREAD 32 /* rounds that pay for showing a drafter what it missed, where
                     so many are left. Chosen. */
#define RIVAL_SHARE 0.002 /* of all time: what is not seen in a rate. Chosen. */
#define MOST_RIVAL 3      /* steps: one try of a block and some. Chosen. */
#define RIVAL_AGE 8       /* decisions from one such try to the next. Chosen. */
#define COULD_AGE 16      /* decisions */
#define OFF_AGE 8         /* decisions that one not to draft holds for. Chosen. */
#define COULD_DEPTH 7     /* drafts that could pay */
#define GUARD_TOK 256   /* tokens that the guard looks back at */
#define STOP_TOK 2048   /* tokens without drafts after it stopped them */
#define MIN_RATIO 0.98

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

static double most_credit_s(const struct sl_speculate *s)
{
    return MOST_CREDIT * s->plain_step_s;
}

/* The chance of draft k + 1 when those before it were right, where that of draft
 * k is `before`. What was seldom tried leans on the depth before it, and on what
 * is usual from one to the next: or it would never be, or one mishap would end it
 * for ever. */
static double chance_at(const struct sl_odds *o, uint32_t k, double before)
{
    double n = o->n_seen[k] < LEAN ? o->n_seen[k] : LEAN;
    double lean = o->fade[k] * before; /* which may have been worse until now */

    return k == 0
               ? o->right[0]
               : (n * o->right[k] + (LEAN - n) * (lean < 1 ? lean : 1)) / LEAN;
}

/* What is hoped for before anything is known, by depth: as published for heads
 * and block drafters of this family (performance.md 4.4; 4.94 tokens of a block
 * of 8); of copied text it is a guess. What is not listed fades, a chain less than
 * it was published to: what is not hoped for is not tried, and not learned. */
static void odds_init(struct sl_odds *o, enum sl_odds_of of)
{
    static const double first[SL_N_ODDS][SL_MAX_DRAFT] = {
        [SL_ODDS_SHORT] = {0.4},
        [SL_ODDS_LONG] = {0.7},
        [SL_ODDS_MTP] = {0.88},
        [SL_ODDS_FLASH] = {0.856, 0.856, 0.856, 0.856, 0.856, 0.856, 0.856}};

    for (int i = 0; i < SL_MAX_DRAFT; i++) {
        bool listed = i == 0 || first[of][i] > 0;

        o->fade[i] = i > 0 && listed ? first[of][i] / first[of][i - 1] : FADE;
        o->right[i] = listed ? first[of][i] : o->right[i - 1] * FADE;
    }
}

bool sl_speculate_is_told(const struct sl_speculate *s)
{
    return s->fixed > 0 || s->ladder.n > 0;
}

void sl_speculate_init(struct sl_speculate *s, uint32_t fixed, double ratio)
{
    *s = (struct sl_speculate){.fixed = fixed, .min_ratio = ratio};
    for (int i = 0; i < SL_N_ODDS; i++)
        odds_init(&s->odds[i], (enum sl_odds_of)i);
    for (int i = 0; i < SL_SURE_BINS; i++)
        s->sure.right[i] = (i + 0.5) / SL_SURE_BINS;
}

void sl_guess_init(struct sl_guess *g, const struct sl_speculate *s)
{
    *g = (struct sl_guess){.by = SL_BY_NONE};
    for (int i = 0; i < SL_N_ODDS; i++) {
        struct sl_odds *o = &g->odds[i];
        double before = 1;

        *o = s->odds[i];
        for (uint32_t k = 0; k < SL_MAX_DRAFT; k++) {
            /* What depths lean on is what they are to each other here. */
            o->right[k] = chance_at(&s->odds[i], k, before);
            o->fade[k] = before > 0 ? o->right[k] / before : FADE;
            o->n_seen[k] = (uint32_t)sl_min(o->n_seen[k], PRIOR);
            before = o->right[k];
        }
    }
}

/* ---------------------------------------------------------------- deciding */

double sl_speculate_passes_s(const struct sl_speculate *s, enum sl_by by,
                             uint32_t k, uint32_t n)
{
    switch (by) {
    case SL_BY_MTP: /* one pass per depth */
        return k * sl_cost_predict(&s->pass[by], n, 0);
    case SL_BY_FLASH: /* one for the block */
        return k > 0 ? sl_cost_predict(&s->pass[by], n, 0) : 0;
    case SL_BY_NONE:
    case SL_BY_NGRAM:
    case SL_N_BY:
        break;
    }
    return 0;
}

/* What a plan is made for. */
struct batch {
    struct sl_speculate *s;
    const struct sl_crowd *c;
    uint32_t n;
    double least; /* the rate that drafting has to beat */
    double alike_s[SL_MAX_DRAFT + 1]; /* a step in which each drafts so many; 0:
                                         not yet asked */
};

/* What the rows of others add to a step in which n_row draw. */
static double others_s(const struct sl_crowd *c, uint32_t n_row)
{
    double s = sl_cost_predict(c->step, n_row + c->n_row, 0) -
               sl_cost_predict(c->step, n_row, 0);

    return c->n_row > 0 && s > 0 ? s : 0;
}

static double step_s(const struct batch *b, uint32_t n_draft)
{
    const struct sl_crowd *c = b->c;
    double each = (double)c->n_context / c->n;

    return sl_cost_predict(c->verify, c->n + n_draft,
                           c->n_context + (uint64_t)(each * n_draft)) +
           others_s(c, c->n + n_draft);
}

/* A step in which all draft k deep: asked for each of them. */
static double alike_s(struct batch *b, uint32_t k)
{
    if (b->alike_s[k] <= 0)
        b->alike_s[k] = step_s(b, b->n * k);
    return b->alike_s[k];
}

/* Useful rows per second without drafts: now, and when everybody draws. */
static double plain_rate(const struct batch *b)
{
    const struct sl_crowd *c = b->c;
    uint32_t all = c->n + c->n_other;
    double now = (c->n + c->n_row) / step_s(b, 0);
    double later = all / sl_cost_predict(c->verify, all, c->n_context / c->n * all);

    return c->n_row > 0 && later > now ? later : now;
}

/* Seconds of each of the next rounds for what `by` has missed of a sequence. */
static double missed_s(const struct batch *b, const struct sl_bid *bid,
                       enum sl_by by)
{
    uint32_t rounds = (uint32_t)sl_min(SPREAD, sl_max(bid->left, 1));

    return bid->missed[by] * b->s->row_s[by] / rounds;
}

/* The best depth up to `most`, if all drafted alike, and that took each of them
 * more_s besides, and the rate of the batch there; without odds: if every draft
 * were right. */
static uint32_t best_depth(double *rate, struct batch *b, enum sl_by by,
                           const struct sl_odds *o, uint32_t most,
                           double more_s)
{
    double tokens = 1, chain = 1, c = 1;
    uint32_t depth = 0;

    *rate = 0;
    for (uint32_t k = 1; k <= most; k++) {
        double time = alike_s(b, k) +
                      sl_speculate_passes_s(b->s, by, k, b->n) + b->n * more_s;
        double r;

        c = o ? chance_at(o, k - 1, c) : 1;
        chain *= c;
        tokens += chain;
        r = time > 0 ? (b->n * tokens + b->c->n_row) / time : 0;
        depth = r > *rate ? k : depth;
        *rate = r > *rate ? r : *rate;
    }
    return depth;
}

static double best_rate(struct batch *b, enum sl_by by,
                        const struct sl_odds *o, uint32_t most, double more_s)
{
    double rate;

    best_depth(&rate, b, by, o, most, more_s);
    return rate;
}

/* Which drafters would pay if every draft were right? As the tables move slowly
 * it is asked now and then: being off is to cost nothing. */
static bool could_pay(struct batch *b)
{
    struct sl_speculate *s = b->s;
    bool any = false;

    if (s->could_n != b->n || s->could_other != b->c->n_other ||
        s->n_plan - s->could_plan >= COULD_AGE) {
        for (enum sl_by by = SL_BY_NONE + 1; by < SL_N_BY; by++)
            s->could[by] = best_rate(b, by, NULL, COULD_DEPTH, 0) > b->least;
        s->could_n = b->n;
        s->could_other = b->c->n_other;
        s->could_plan = s->n_plan;
    }
    for (int by = 0; by < SL_N_BY; by++)
        any |= s->could[by];
    return any;
}

/* What a round takes longer in which one sequence drafts k deep. */
static double try_s(const struct batch *b, enum sl_by by, uint32_t k)
{
    return step_s(b, k) - step_s(b, 0) +
           sl_speculate_passes_s(b->s, by, k, 1);
}

/* How deep a try should be, of at most `most` drafts: where least is lost or most
 * won if the odds are as hoped for, as some numbers of rows take hardly longer
 * than fewer. 0: the credit is not enough for any. */
static uint32_t try_depth(const struct batch *b, const struct sl_bid *bid,
                          enum sl_by by, uint32_t most)
{
    const struct sl_odds *o = &bid->guess->odds[bid->odds[by]];
    double best = 0, tokens = 0, chain = 1, c = 1;
    uint32_t depth = 0;

    most = (uint32_t)sl_min(sl_min(most, bid->most[by]), COULD_DEPTH);
    for (uint32_t k = 1; k <= most; k++) {
        double cost = try_s(b, by, k), gain;

        c = chance_at(o, k - 1, c);
        tokens += chain *= c;
        gain = tokens * b->s->token_s - cost;
        if (cost > b->s->credit_s || (depth > 0 && gain <= best))
            continue;
        best = gain;
        depth = k;
    }
    return depth;
}

/* May it be drafted for gain, or was too little seen of it? */
static bool is_proven(struct batch *b, enum sl_by by, enum sl_odds_of of)
{
    struct sl_odds low = b->s->odds[of];
    double n = low.n_seen[0];

    if (n >= PROVEN)
        return true;
    if (n < FEW)
        return false;
    low.right[0] *= n / (n + DOUBT);
    return best_rate(b, by, &low, COULD_DEPTH, 0) > b->least;
}

/* Pay for a round of at most `most` drafts of a sequence from the credit, if there
 * is enough; the passes are charged as they come. */
static bool pay(const struct batch *b, struct sl_bid *bid, enum sl_by by,
                uint32_t most)
{
    struct sl_speculate *s = b->s;
    uint32_t k = try_depth(b, bid, by, most);

    if (k == 0)
        return false;
    s->last_probe[by] = s->n_plan;
    bid->guess->paid_s = step_s(b, k) - step_s(b, 0);
    bid->guess->paid_for = k;
    s->credit_s -= bid->guess->paid_s;
    bid->guess->probing = true;
    bid->by = by;
    bid->depth = k;
    return true;
}

/* Who is believed to be the fastest for one sequence while little was seen of
 * anybody; he gets what who drafts already gets: with times and hopes that are
 * about equal it is he. */
static enum sl_by likely(const struct batch *b, const struct sl_bid *bid)
{
    return sl_ladder_prior(b->n, b->c->n_context / b->n,
                           bid->guess->by == SL_BY_FLASH);
}

/* Who drafts for one sequence, if anybody does. */
static void choose(struct batch *b, struct sl_bid *bid)
{
    enum sl_by first = likely(b, bid);
    double best = 0;

    for (enum sl_by by = SL_BY_NONE + 1; by < SL_N_BY; by++) {
        const struct sl_odds *o = &bid->guess->odds[bid->odds[by]];
        double rate;

        if (bid->most[by] == 0 ||
            (!is_proven(b, by, bid->odds[by]) &&
             try_depth(b, bid, by, COULD_DEPTH) == 0))
            continue;
        rate = best_rate(b, by, o, bid->most[by], missed_s(b, bid, by));
        if (by == bid->guess->by ||
            (by == first && b->s->odds[bid->odds[by]].n_seen[0] < PROVEN))
            rate *= KEEP_GAIN;
        if (rate > best) {
            best = rate;
            bid->by = by;
        }
    }
}

static const struct sl_odds *odds_of(const struct sl_bid *bid)
{
    return &bid->guess->odds[bid->odds[bid->by]];
}

/* Back to no draft. */
static void clear(struct sl_bid *bid, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        bid[i].depth = 0;
        bid[i].chance = bid[i].reach =
            bid[i].by == SL_BY_NONE ? 0 : chance_at(odds_of(&bid[i]), 0, 1);
    }
}

/* One draft more. */
static void deepen(struct sl_bid *bid)
{
    if (++bid->depth == SL_MAX_DRAFT)
        return;
    bid->chance = chance_at(odds_of(bid), bid->depth, bid->chance);
    bid->reach *= bid->chance;
}

/* The bid whose next draft is the likeliest to be kept; n when none has one. */
static uint32_t likeliest(const struct sl_bid *bid, uint32_t n)
{
    uint32_t best = n;

    for (uint32_t i = 0; i < n; i++)
        if (bid[i].by != SL_BY_NONE && bid[i].depth < bid[i].most[bid[i].by] &&
            (best == n || bid[i].reach > bid[best].reach))
            best = i;
    return best;
}

/* Seconds of all passes for the depths as they are. */
static double all_passes_s(const struct batch *b, const struct sl_bid *bid)
{
    double s = 0;
    uint32_t n;

    for (uint32_t k = 1; k <= SL_MAX_DRAFT; k++) {
        n = 0;
        for (uint32_t i = 0; i < b->n; i++)
            n += bid[i].by == SL_BY_MTP && bid[i].depth >= k;
        if (n == 0)
            break;
        s += sl_speculate_passes_s(b->s, SL_BY_MTP, 1, n);
    }
    n = 0;
    for (uint32_t i = 0; i < b->n; i++)
        n += bid[i].by == SL_BY_FLASH && bid[i].depth > 0;
    return s + (n ? sl_speculate_passes_s(b->s, SL_BY_FLASH, 1, n) : 0);
}

/* How many drafts of all sequences together give the best rate; 0 when that is
 * less than MIN_GAIN better than none. Leaves the depths of the most. */
static uint32_t best_total(const struct batch *b, struct sl_bid *bid,
                           uint32_t max_draft)
{
    double best = b->least, rows = b->n + b->c->n_row, missed = 0;
    uint32_t total = 0;

    clear(bid, b->n);
    for (uint32_t m = 1; m <= max_draft; m++) {
        uint32_t i = likeliest(bid, b->n);
        double rate;

        if (i == b->n)
            break;
        rows += bid[i].reach;
        if (bid[i].depth == 0)
            missed += missed_s(b, &bid[i], bid[i].by);
        deepen(&bid[i]);
        rate = rows / (step_s(b, m) + all_passes_s(b, bid) + missed);
        if (rate > best) {
            best = rate;
            total = m;
        }
    }
    return total;
}

/* Hand out `total` drafts in the order in which they were counted. */
static void deal(struct sl_bid *bid, uint32_t n, uint32_t total)
{
    clear(bid, n);
    for (uint32_t m = 0; m < total; m++)
        deepen(&bid[likeliest(bid, n)]);
}

/* Drafts of all. */
static uint32_t n_dealt(const struct sl_bid *bid, uint32_t n)
{
    uint32_t total = 0;

    for (uint32_t i = 0; i < n; i++)
        total += bid[i].depth;
    return total;
}

/* Drafts that are believed need not be paid in advance: the credit may fall
 * below nothing by what one round costs. */
static void charge(const struct batch *b, const struct sl_bid *bid)
{
    uint32_t total = 0;
    double rows_s, passes_s;

    for (uint32_t i = 0; i < b->n; i++)
        total += bid[i].guess->probing ? 0 : bid[i].depth;
    if (total == 0)
        return;
    rows_s = step_s(b, total) - step_s(b, 0);
    passes_s = all_passes_s(b, bid);
    b->s->credit_s -= rows_s + passes_s;
    for (uint32_t i = 0; i < b->n; i++) {
        struct sl_guess *g = bid[i].guess;

        if (g->probing || bid[i].depth == 0)
            continue;
        g->paid_s = rows_s * bid[i].depth / total;
        g->pass_paid_s = passes_s * bid[i].depth / total;
        g->paid_for = bid[i].depth;
    }
}

/* Fill the credit up with what these answers' own drafts earned, of which each
 * keeps its part of MOST_EARNED. Whose drafts are off lends nothing: wrong rounds
 * are of others then. */
static void draw_on(struct sl_speculate *s, const struct sl_bid *bid, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct sl_guess *g = bid[i].guess;
        double lacks = most_credit_s(s) - s->credit_s, part;

        g->earned_s = lesser(g->earned_s, MOST_EARNED * s->plain_step_s / n);
        part = lesser(g->earned_s, lacks);
        if (part <= 0 || g->by == SL_BY_NONE)
            continue;
        s->credit_s += part;
        g->earned_s -= part;
    }
}

/* What is not proven is a try, or nothing. Returns how many drafts are left of
 * those that are believed. */
static uint32_t pay_unproven(struct batch *b, struct sl_bid *bid)
{
    uint32_t total = 0;

    for (uint32_t i = 0; i < b->n; i++) {
        if (bid[i].depth == 0)
            continue;
        if (is_proven(b, bid[i].by, bid[i].odds[bid[i].by])) {
            total += bid[i].depth;
        } else if (!pay(b, &bid[i], bid[i].by, bid[i].depth)) {
            bid[i].by = SL_BY_NONE;
            bid[i].depth = 0;
        }
    }
    return total;
}

/* Who could draft for a sequence, and was not tried for the longest. */
static enum sl_by untried(const struct sl_speculate *s, const struct sl_bid *bid)
{
    enum sl_by who = SL_BY_NONE;

    for (enum sl_by by = SL_BY_NONE + 1; by < SL_N_BY; by++)
        if (s->could[by] && bid->most[by] > 0 &&
            (who == SL_BY_NONE || s->last_probe[by] < s->last_probe[who]))
            who = by;
    return who;
}

/* Let one sequence that does not draft, the next that has something to try, try
 * it, when there is credit for it. */
static void probe(const struct batch *b, struct sl_bid *bid, uint32_t most)
{
    struct sl_speculate *s = b->s;

    for (uint32_t i = 0; i < b->n; i++, s->next_probe++) {
        struct sl_bid *x = &bid[s->next_probe % b->n];
        enum sl_by who = x->depth > 0 ? SL_BY_NONE : untried(s, x);

        if (who == SL_BY_NONE)
            continue;
        s->next_probe += pay(b, x, who, most); /* or it keeps its turn */
        return;
    }
}

/* Of the drafts of a sequence so many are expected to be kept. */
static double expected(const struct sl_bid *bid)
{
    double sum = 0, chain = 1, c = 1;

    for (uint32_t k = 0; k < bid->depth; k++) {
        c = chance_at(odds_of(bid), k, c);
        sum += chain *= c;
    }
    return sum;
}

/* Who could be faster than the one who drafts for a sequence, and was not tried
 * for the longest. */
static enum sl_by rival_of(struct batch *b, const struct sl_bid *bid)
{
    const struct sl_speculate *s = b->s;
    double now = best_rate(b, bid->by, odds_of(bid), bid->most[bid->by], 0);
    enum sl_by who = SL_BY_NONE;

    for (enum sl_by by = SL_BY_NONE + 1; by < SL_N_BY; by++)
        if (by != bid->by && s->could[by] && bid->most[by] > 0 &&
            (who == SL_BY_NONE || s->last_probe[by] < s->last_probe[who]) &&
            best_rate(b, by, NULL, bid->most[by], missed_s(b, bid, by)) > now)
            who = by;
    return who;
}

/* Let another drafter have this round of one sequence that drafts, when there
 * is enough for it: what the round then takes longer, and the drafts that it
 * does not have. Its own that are right are paid back (learn). The credit is
 * charged for its drafts as for any. */
static void try_rival(struct batch *b, struct sl_bid *bid, uint32_t most)
{
    struct sl_speculate *s = b->s;
    struct sl_bid *x = &bid[s->n_rival % b->n], was = *x;
    uint32_t n_draft = n_dealt(bid, b->n);
    double before_s = step_s(b, n_draft) + all_passes_s(b, bid), cost, rate;
    double tokens = b->n + b->c->n_row;
    enum sl_by by;

    if (s->n_plan < s->next_rival)
        return;
    s->n_rival++;
    if (x->depth == 0 || x->guess->probing)
        return;
    s->next_rival = s->n_plan + RIVAL_AGE;
    by = rival_of(b, x);
    if (by == SL_BY_NONE)
        return;
    for (uint32_t i = 0; i < b->n; i++)
        tokens += expected(&bid[i]);
    x->by = by;
    x->depth = best_depth(&rate, b, by, odds_of(x),
                          (uint32_t)sl_min(x->most[by], was.depth + most), 0);
    cost = step_s(b, n_draft - was.depth + x->depth) + all_passes_s(b, bid) +
           x->missed[by] * s->row_s[by] - before_s +
           expected(&was) * before_s / tokens;
    if (cost > s->rival_s) {
        *x = was;
        return;
    }
    s->rival_s -= cost;
    s->last_probe[by] = s->n_plan;
    x->guess->rival_paid_s = cost;
    x->guess->rival_tok_s = before_s / tokens;
}

/* The depth that was asked for, with so many users. */
static uint32_t told_depth(const struct sl_speculate *s, uint32_t n)
{
    uint32_t depth = s->fixed ? s->fixed : SL_MAX_DRAFT;

    return s->ladder.n
               ? (uint32_t)sl_min(depth, sl_ladder_rows(&s->ladder, n) - 1)
               : depth;
}

/* Tokens per second if all drafted k deep alike. */
static double rate_at(struct batch *b, enum sl_by by,
                      const struct sl_odds *o, uint32_t k)
{
    double time = alike_s(b, k) + sl_speculate_passes_s(b->s, by, k, b->n);
    double tokens = 1, chain = 1, c = 1;

    for (uint32_t i = 0; i < k; i++) {
        c = chance_at(o, i, c);
        tokens += chain *= c;
    }
    return tokens / (time > 0 ? time : 1);
}

/* How much was asked for; who, where it was not said or he cannot, is still a
 * matter of times and odds. */
static void plan_told(struct batch *b, struct sl_bid *bid,
                      uint32_t max_draft)
{
    uint32_t depth = told_depth(b->s, b->n);
    enum sl_by who = sl_ladder_who(&b->s->ladder, b->n);

    for (uint32_t i = 0; i < b->n && depth > 0; i++) {
        double best = 0;

        for (enum sl_by by = SL_BY_NONE + 1; by < SL_N_BY; by++) {
            uint32_t k = (uint32_t)sl_min(depth, bid[i].most[by]);
            double rate;

            if (k == 0 || (by != who && bid[i].most[who] > 0))
                continue;
            rate = rate_at(b, by, &bid[i].guess->odds[bid[i].odds[by]], k);
            if (rate > best) {
                best = rate;
                bid[i].by = by;
                bid[i].depth = (uint32_t)sl_min(k, max_draft);
            }
        }
        max_draft -= bid[i].depth;
    }
}

/* What a sequence could draft, as a number that is not 0. */
static uint32_t key_of(const struct sl_bid *bid)
{
    uint32_t key = 1;

    for (int by = 0; by < SL_N_BY; by++)
        key = key << 4 | (bid->most[by] > 0 ? 8u : 0) | (uint32_t)bid->odds[by];
    return key;
}

/* Is the one sequence as it was when nobody was to draft for it? */
static bool is_still_off(struct sl_speculate *s, const struct sl_bid *bid,
                         uint32_t n)
{
    if (n != 1 || s->off_left == 0 || s->off_key != key_of(bid)) {
        s->off_left = 0;
        return false;
    }
    s->off_left--;
    return true;
}

void sl_speculate_plan(struct sl_speculate *s, const struct sl_crowd *crowd,
                       struct sl_bid *bid, uint32_t max_draft)
{
    uint32_t n = crowd->n, total = 0, used;
    struct batch b = {.s = s, .c = crowd, .n = n};

    if (n == 0)
        return;
    /* Of these alone: what is counted in steps is not to swing with prompts. */
    s->plain_step_s = sl_cost_predict(crowd->verify, n, crowd->n_context);
    if (s->n_plan++ == 0) {
        s->credit_s = most_credit_s(s);
        s->rival_s = MOST_RIVAL * s->plain_step_s;
        s->next_rival = RIVAL_AGE;
    }
    for (uint32_t i = 0; i < n; i++) {
        bid[i].guess->paid_for = 0;
        bid[i].guess->pass_paid_s = bid[i].guess->rival_tok_s = 0;
        bid[i].guess->probing = false;
        bid[i].by = SL_BY_NONE;
        bid[i].depth = 0;
    }
    if (is_still_off(s, bid, n))
        return;
    s->token_s = s->plain_step_s / n;
    b.least = MIN_GAIN * plain_rate(&b);
    if (s->stopped) {
        total = 0;
    } else if (sl_speculate_is_told(s)) {
        plan_told(&b, bid, max_draft);
    } else if (could_pay(&b)) {
        draw_on(s, bid, n);
        for (uint32_t i = 0; i < n; i++)
            choose(&b, &bid[i]);
        total = s->credit_s > 0 ? best_total(&b, bid, max_draft) : 0;
        deal(bid, n, total);
        total = pay_unproven(&b, bid);
        used = n_dealt(bid, n); /* tries, too */
        if (used < max_draft)
            probe(&b, bid, max_draft - used);
        if (total > 0)
            try_rival(&b, bid, max_draft - (uint32_t)sl_min(used, max_draft));
        charge(&b, bid);
    }
    s->pays = sl_speculate_is_told(s) || total > 0;
    if (n == 1 && bid->depth == 0) {
        s->off_left = OFF_AGE;
        s->off_key = key_of(bid);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (bid[i].depth == 0)
            continue;
        if (bid[i].guess->rival_tok_s <= 0)
            bid[i].guess->by = bid[i].by;
        /* Its pass gives the whole block, which is cut when it is known. */
        if (n == 1 && bid[i].by == SL_BY_FLASH && !sl_speculate_is_told(s) &&
            !bid[i].guess->probing)
            bid[i].depth =
                (uint32_t)sl_min(bid[i].most[SL_BY_FLASH], max_draft);
        if (!bid[i].guess->probing && bid[i].guess->rival_tok_s <= 0)
            s->last_use[bid[i].by] = s->n_plan;
    }
}

void sl_speculate_verifies(struct sl_speculate *s, struct sl_guess *g,
                           uint32_t n_draft)
{
    if (g->paid_for > 0)
        s->credit_s +=
            g->paid_s * ((double)g->paid_for - n_draft) / g->paid_for;
    g->paid_for = 0;
}

void sl_speculate_dropped(struct sl_speculate *s, struct sl_guess *g)
{
    sl_speculate_verifies(s, g, 0);
    s->credit_s += g->pass_paid_s;
    if (g->rival_tok_s > 0)
        s->rival_s += g->rival_paid_s;
    g->pass_paid_s = g->rival_tok_s = 0;
}

/* ---------------------------------------------------------------- learning */

/* How much one more counts, when the guess counts for `first`. */
static double gain_of(uint32_t *n_seen, uint32_t first, double least)
{
    double gain;

    *n_seen += *n_seen < MOST_SEEN;
    gain = 1.0 / (double)(*n_seen + first);
    return gain > least ? gain : least;
}

static void odds_learn(struct sl_odds *o, uint32_t n_draft, uint32_t n_accept,
                       double least)
{
    /* Behind the first wrong draft nothing can be said. The first rounds count
     * for more: a plain mean, with the guess as its first members. */
    for (uint32_t i = 0; i < n_draft && i <= n_accept; i++) {
        double gain = gain_of(&o->n_seen[i], HOPE, least);

        o->right[i] += gain * ((i < n_accept) - o->right[i]);
    }
}

/* What was seen of depths that are not tried any more is forgotten. */
static void odds_age(struct sl_odds *o, uint32_t n_draft)
{
    for (uint32_t i = n_draft; i < SL_MAX_DRAFT; i++)
        o->n_seen[i] = (uint32_t)sl_min(o->n_seen[i], LEAN) / 2;
}

void sl_speculate_learn(struct sl_speculate *s, struct sl_guess *g,
                        enum sl_odds_of odds, uint32_t n_draft,
                        uint32_t n_accept)
{
    double most = most_credit_s(s), over;

    s->n_round++;
    s->rival_s += n_accept * g->rival_tok_s;
    g->rival_tok_s = 0;
    if (n_draft == 0)
        return;
    s->off_left = 0;
    s->n_draft += n_draft;
    s->n_accept += n_accept;
    odds_learn(&s->odds[odds], n_draft, n_accept, GAIN_ALL);
    odds_learn(&g->odds[odds], n_draft, n_accept, GAIN);
    if (s->n_round % AGE == 0)
        odds_age(&g->odds[odds], n_draft);
    s->credit_s += n_accept * s->token_s;
    /* No more than these drafts gave: earn() cuts what came from elsewhere. */
    over = lesser(s->credit_s - most, n_accept * s->token_s);
    if (over <= 0)
        return;
    s->credit_s -= over;
    g->earned_s += over;
}

/* Had the weights of a drafter been read before now? */
static bool touch(struct sl_speculate *s, enum sl_by by)
{
    bool was = s->touched[by];

    s->touched[by] = true;
    return was;
}

void sl_speculate_passed(struct sl_speculate *s, enum sl_by by, uint32_t n,
                         double took_s)
{
    if (touch(s, by))
        sl_cost_learn(&s->pass[by], n, 0, took_s);
}

void sl_speculate_shown(struct sl_speculate *s, enum sl_by by, uint32_t n_row,
                        double took_s)
{
    double row_s = took_s / n_row;

    if (n_row > 0 && touch(s, by))
        s->row_s[by] += s->row_s[by] > 0 ? GAIN_SHOWN * (row_s - s->row_s[by])
                                         : row_s;
}

static uint32_t bin_of(float share)
{
    float x = share * SL_SURE_BINS;

    /* Also what is no number. */
    return x >= 1 ? (uint32_t)sl_min((size_t)x, SL_SURE_BINS - 1) : 0;
}

void sl_speculate_sure(struct sl_speculate *s, const float *sure,
                       uint32_t n_draft, uint32_t n_accept)
{
    for (uint32_t i = 0; i < n_draft && i <= n_accept; i++) {
        uint32_t k = bin_of(sure[i]);
        double gain = gain_of(&s->sure.n_seen[k], 1, GAIN_ALL);

        s->sure.right[k] += gain * ((i < n_accept) - s->sure.right[k]);
    }
}

uint32_t sl_speculate_cut(const struct sl_speculate *s,
                          const struct sl_cost *step, const struct sl_guess *g,
                          const float *sure, uint32_t n_draft, uint32_t planned,
                          uint32_t n, uint64_t n_context)
{
    double pass = sl_speculate_passes_s(s, SL_BY_FLASH, 1, n);
    double best = 0, tokens = n, reach = 1;
    uint32_t cut = (uint32_t)sl_min(1, n_draft);

    if (sl_speculate_is_told(s) || g->probing)
        return planned;
    /* The pass is spent; each row more costs what the table says. One draft is
     * always verified: or a drafter that became bad would not be found out. */
    for (uint32_t k = 1; k <= n_draft; k++) {
        double rate;

        tokens += reach *= s->sure.right[bin_of(sure[k - 1])];
        rate = tokens / (sl_cost_predict(step, n + k, n_context) + pass);
        if (rate > best) {
            best = rate;
            cut = k;
        }
    }
    return cut;
}

void sl_speculate_earn(struct sl_speculate *s, double step_s, double pass_s)
{
    s->credit_s += PROBE_SHARE * step_s;
    if (!s->pays)
        s->credit_s -= pass_s;
    s->credit_s = lesser(s->credit_s, most_credit_s(s));
    s->rival_s = lesser(s->rival_s + RIVAL_SHARE * step_s,
                        MOST_RIVAL * s->plain_step_s);
}

void sl_speculate_guard(struct sl_speculate *s, uint32_t n_draft,
                        uint32_t n_tok, double spent_s, double plain_s)
{
    double least = s->min_ratio;

    if (least < 0)
        least = sl_speculate_is_told(s) ? 0 : MIN_RATIO;
    if (s->stopped > 0) {
        s->stopped -= (uint32_t)sl_min(s->stopped, n_tok);
        return;
    }
    if (n_draft == 0 || least <= 0 || plain_s <= 0)
        return;
    s->spent_s += spent_s;
    s->plain_s += plain_s * n_tok;
    s->n_guarded += n_tok;
    if (s->n_guarded < GUARD_TOK)
        return;
    if (s->plain_s < least * s->spent_s) {
        s->stopped = STOP_TOK;
        s->n_stop++;
    }
    s->spent_s = s->plain_s = 0;
    s->n_guarded = 0;
}
