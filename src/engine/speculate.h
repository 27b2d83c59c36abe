/* engine/speculate.h - how many drafts are worth their time, and whose
 *
 * A draft is kept if it is the token that would have been drawn anyway (D4), so
 * drafting never changes a text; it only costs or saves time. This decides who
 * drafts for each sequence, and how deep, from what was measured: the time of
 * steps by rows (cost.h), the time of the drafters' passes, and how often drafts
 * were right, of this sequence and of all before it.
 *
 * Engine thread only; sl_speculate_plan is a function of its arguments alone.
 */
#ifndef SL_ENGINE_SPECULATE_H
#define SL_ENGINE_SPECULATE_H

#include "engine/cost.h"
#include "engine/ladder.h"

#define SL_MAX_DRAFT 15 /* tokens proposed at once: a block of 16 */

/* What is counted apart: a long match is right more often than a short one. */
enum sl_odds_of {
    SL_ODDS_SHORT,
    SL_ODDS_LONG,
    SL_ODDS_MTP,
    SL_ODDS_FLASH,
    SL_N_ODDS
};

/* Part of the drafts of depth i + 1 that were right, of those whose
 * predecessors were; and how many those were. */
struct sl_odds {
    double right[SL_MAX_DRAFT];
    double fade[SL_MAX_DRAFT]; /* of a depth against the one before, usually */
    uint32_t n_seen[SL_MAX_DRAFT];
};

/* How sure a block drafter was of a draft, against how often such drafts were
 * right. */
#define SL_SURE_BINS 8
struct sl_sure {
    double right[SL_SURE_BINS]; /* by eighths of its share */
    uint32_t n_seen[SL_SURE_BINS];
};

/* What one sequence remembers. */
struct sl_guess {
    struct sl_odds odds[SL_N_ODDS];
    enum sl_by by; /* who drafted last */
    bool probing;  /* the drafts of this round are a probe */
    double earned_s; /* of its drafts: what the credit had no room for */

    /* What this round was charged for, until it is known what became of it. */
    double paid_s, pass_paid_s; /* rows of paid_for drafts, and passes */
    uint32_t paid_for;
    double rival_paid_s; /* another drafter has this round: paid for it, and what */
    double rival_tok_s;  /* a token takes otherwise; 0: no other has it */
};

/* What a sequence could draft now, and what was decided. */
struct sl_bid {
    struct sl_guess *guess;
    uint32_t most[SL_N_BY]; /* drafts that each can give; 0: none */
    uint32_t missed[SL_N_BY]; /* rows that it has to be shown before it can */
    uint32_t left; /* tokens that this sequence may still get */
    enum sl_odds_of odds[SL_N_BY];
    enum sl_by by;
    uint32_t depth;
    double chance, reach; /* of the draft behind depth: to be right, to be kept */
};

struct sl_speculate {
    uint32_t fixed;     /* depth asked for; 0: decide */
    struct sl_ladder ladder; /* rows asked for by users; n 0: decide */
    double min_ratio; /* of the plain rate; below it drafting is stopped; 0:
                         never */
    struct sl_odds odds[SL_N_ODDS]; /* of all sequences */
    struct sl_sure sure;
    struct sl_cost pass[SL_N_BY];   /* one pass of a drafter, by sequences */
    double row_s[SL_N_BY]; /* to show it a row that it missed; 0: unknown */
    bool touched[SL_N_BY]; /* its weights were read */
    uint64_t n_round, n_draft, n_accept;
    uint64_t n_plan;            /* decisions, of which each */
    uint64_t last_use[SL_N_BY]; /* was the last to choose it, but for probes; */
    uint64_t last_probe[SL_N_BY]; /* and to probe it */
    uint32_t next_probe; /* the sequence whose turn it is */
    /* One sequence of which the last decision was that nobody drafts: so it is for
     * some more, while it could have the same drafts and nothing was learned. */
    uint32_t off_left, off_key;
    bool pays;           /* somebody drafts now because it is faster */
    bool could[SL_N_BY]; /* so it would be if every draft were right; as of */
    uint32_t could_n, could_other; /* so many sequences and */
    uint64_t could_plan; /* this decision */

    /* Seconds that drafts may lose from now on: see speculate.c. */
    double credit_s, token_s; /* and what a token takes without drafts, */
    double plain_step_s;      /* and a step */
    double rival_s; /* the same for tries of others than who drafts, the next at */
    uint64_t next_rival; /* this decision, */
    uint32_t n_rival;    /* of the sequence whose turn it is */

    /* The guard: what rounds with drafts took, and what the same tokens would
     * have taken without. */
    double spent_s, plain_s;
    uint32_t n_guarded; /* tokens of these sums */
    uint32_t stopped;   /* tokens until drafting may come back */
    uint64_t n_stop;    /* times that the guard stopped it */
};

/* `ratio` below 0: the default. A ladder is set behind it. */
void sl_speculate_init(struct sl_speculate *s, uint32_t fixed, double ratio);

/* What a new sequence begins with: what was seen of others, soon forgotten. */
void sl_guess_init(struct sl_guess *g, const struct sl_speculate *s);

/* Does the user say how much, instead of measured times? */
bool sl_speculate_is_told(const struct sl_speculate *s);

/* Seconds of the passes of a drafter for drafts of depth k of n sequences. */
double sl_speculate_passes_s(const struct sl_speculate *s, enum sl_by by,
                             uint32_t k, uint32_t n);

/* What a decision is made for: n sequences that draw, in steps with rows of
 * others besides. */
struct sl_crowd {
    const struct sl_cost *verify; /* steps that draw behind every row, */
    const struct sl_cost *step;   /* and any */
    uint32_t n;
    uint32_t n_other; /* sequences that do not draw yet, or do not draft */
    uint32_t n_row;   /* what they have in a step */
    uint64_t n_context; /* as in cost.h, for one row of each of the n */
};

/* Decide for them: the most rows per second that are of use, tokens of answers
 * and of prompts alike. At most max_draft drafts in all. */
void sl_speculate_plan(struct sl_speculate *s, const struct sl_crowd *crowd,
                       struct sl_bid *bid, uint32_t max_draft);

/* Of the drafts that were decided on for a sequence n_draft are verified. What the
 * others were charged for is given back; where they are more, they are paid now. */
void sl_speculate_verifies(struct sl_speculate *s, struct sl_guess *g,
                           uint32_t n_draft);

/* Nobody drafts for it after all: there is no room. */
void sl_speculate_dropped(struct sl_speculate *s, struct sl_guess *g);

/* A pass of a drafter for n sequences took so long. The first behind a start, where
 * times were kept and none was measured, brings its weights in: it says nothing about
 * the next. */
void sl_speculate_passed(struct sl_speculate *s, enum sl_by by, uint32_t n,
                         double took_s);

/* A drafter was shown n_row rows that it had missed, and that took so long; the same
 * holds for the first. */
void sl_speculate_shown(struct sl_speculate *s, enum sl_by by, uint32_t n_row,
                        double took_s);

/* A round of one sequence: n_draft tokens were verified, the first n_accept
 * were right. */
void sl_speculate_learn(struct sl_speculate *s, struct sl_guess *g,
                        enum sl_odds_of odds, uint32_t n_draft,
                        uint32_t n_accept);

/* A block drafter did its pass for one of n sequences: how many of its n_draft
 * drafts are worth their rows, by how sure it was of each, as that turned out so
 * far: at least one. What was told or is a probe stays as planned. */
uint32_t sl_speculate_cut(const struct sl_speculate *s,
                          const struct sl_cost *step, const struct sl_guess *g,
                          const float *sure, uint32_t n_draft, uint32_t planned,
                          uint32_t n, uint64_t n_context);

/* The first n_accept of n_draft such drafts were right. */
void sl_speculate_sure(struct sl_speculate *s, const float *sure,
                       uint32_t n_draft, uint32_t n_accept);

/* A step took so long, of whatever rows; and the passes of drafters behind it: not
 * what is done in every round, drafts or not, which saving on tries would not
 * save. */
void sl_speculate_earn(struct sl_speculate *s, double step_s, double pass_s);

/* A round of the whole batch without prompt rows gave n_tok tokens in spent_s;
 * plain_s is what one token takes without drafts. */
void sl_speculate_guard(struct sl_speculate *s, uint32_t n_draft,
                        uint32_t n_tok, double spent_s, double plain_s);

#endif
