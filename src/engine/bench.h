/* engine/bench.h - how fast this machine is, and how much of it we use
 *
 * Each function measures on the calling thread with a pool of its own, and
 * returns medians of rounds in which everything takes its turn, the bandwidth
 * probe too: on a shared machine only ratios of one round mean something.
 * 1 MAC is a multiplication and an addition. Errors are those of opening what is
 * measured.
 */
#ifndef SL_ENGINE_BENCH_H
#define SL_ENGINE_BENCH_H

#include "sluice/sluice.h"

/* Ceilings of one core and of all. */
struct sl_roofline {
    unsigned n_core;
    const char *isa;
    double read_one, read_all; /* bytes/s from memory */
    double int8_one, int8_all; /* MAC/s from registers */
    double fp32_one, fp32_all;
};

int sl_bench_roofline(struct sl_roofline *out, const struct sl_engine_opts *o,
                      struct sl_err *err);

/* One number of rows of a step. */
struct sl_bench_row {
    uint32_t rows;
    double s, best_s;  /* median and least time of a step */
    double experts;    /* of a layer that were used, mean; 0: it has none */
    double bytes;      /* that a step reads and writes: weights, those of experts
                          that were used, K/V, recurrent state */
    double macs;       /* of the layers' weights */
    double probe;      /* bytes/s in the same rounds, median */
};

struct sl_forward_opts {
    const struct sl_engine_opts *engine; /* threads, types of weights and KV */
    const char *shape; /* a name of model/shape.h, or NULL: */
    const char *dir;   /* a checkpoint folder */
    uint32_t depth;    /* tokens that each step looks back at */
    uint32_t n_sample; /* rounds */
    uint32_t n_row;    /* entries of the result, whose `rows` are given */
};

#define SL_BENCH_VERIFY 8u /* up to so many rows are a draft to verify, whose
                             logits are all wanted; more are a prompt */

struct sl_forward_info {
    unsigned n_thread;
    const char *isa;
    double peak;      /* MAC/s of one core, for the types of the weights */
    uint64_t weight_bytes;
};

/* Steps of the whole network, alone. */
int sl_bench_forward(struct sl_bench_row *rows, struct sl_forward_info *info,
                     const struct sl_forward_opts *o, struct sl_err *err);

/* One matrix product. */
struct sl_bench_kernel {
    const char *type;
    uint32_t rows, cols, n_tok;
    double s, macs, bytes, probe;
};

#define SL_BENCH_KERNELS 32 /* results at most */

int sl_bench_kernels(struct sl_bench_kernel out[SL_BENCH_KERNELS],
                     uint32_t *n, const struct sl_engine_opts *o,
                     struct sl_err *err);

/* ------------------------------------------------------------- speculation */

#define SL_BENCH_PAIRS 100 /* samples at most */

/* One way of drafting, over all prompts. */
struct sl_bench_way {
    const char *drafter; /* "plain", "mtp", "ngram", "dflash", "auto" */
    uint32_t depth;      /* 0: none, or decided in every round */
    double tok_s;        /* tokens/s behind the first of each answer, or with
                            several users of all in all; median */
    double speedup;      /* against plain in the same round; median of */
    double pair[SL_BENCH_PAIRS]; /* these */
    uint32_t n_pair;
    double tokens;       /* of a round */
    double break_even;   /* tokens of a round with which it would be as fast as
                            plain */
    double step, pass;   /* from the table, in plain steps: one of depth and one
                            rows, and one pass of the drafter; 0: no drafter */
    double beside;       /* part of the time that is neither step nor pass of a
                            drafter, of one user; 0 */
    double experts;      /* of a layer that a round read, mean; 0: it has none */
    double accept[16];   /* part of the rounds that kept so many drafts and one */
    uint32_t n_accept;
};

/* What a rule of acceptance gives on recorded pairs of a target's distribution
 * and a draft. */
struct sl_bench_rule {
    const char *drafter, *rule;
    uint32_t depth, n_pair;
    double tokens, tok_s, speedup;
    double tv; /* mean distance in total variation of a judged draft */
};

#define SL_BENCH_WAYS 12
#define SL_BENCH_RULES 9

struct sl_bench_speculation {
    struct sl_bench_way way[SL_BENCH_WAYS];
    struct sl_bench_rule rule[SL_BENCH_RULES];
    uint32_t n_way, n_rule;
    /* argmax of E / T of the measured tables and acceptances, by the plain
     * rounds as they were: with whom, how deep, and its rate, with what is beside
     * plain rounds; and the rate of auto. */
    const char *best;
    uint32_t best_depth;
    double ceiling, reached;
    uint32_t n_thread;
    const char *isa;
};

struct sl_speculation_opts {
    const struct sl_engine_opts *engine;
    const char *shape; /* or NULL: */
    const char *dir;
    const char *const *messages; /* [n_prompt] JSON, as in sl_gen_opts; with a
                                    shape, or without a tokenizer, unused */
    uint32_t n_prompt, n_sample, max_tokens;
    uint32_t n_user;   /* that ask the same at once, and draw differently */
    uint32_t n_random; /* ids of a random prompt in the place of messages; 0:
                          not */
    bool ignore_eos;   /* all answers have max_tokens */
    enum sl_draft_by only; /* MTP, NGRAM, DFLASH: this drafter and plain; NONE:
                              plain and the controller; AUTO: all ways */
    uint64_t seed;
    double temperature; /* of what is timed; pairs are recorded at 1 */
    double synthetic;   /* chance of each draft to be right: an oracle's, at the
                           cost of the real drafter; below 0: real drafts */
};

int sl_bench_speculate(struct sl_bench_speculation *out,
                       const struct sl_speculation_opts *o,
                       struct sl_err *err);

#endif
