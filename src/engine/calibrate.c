/* engine/calibrate.c - what steps and passes take, before the first request
 *
 * The controller needs the time of a step by rows, and of the drafter's passes,
 * before it can choose (D7). Both are corrected by every step later, so this is
 * a start, not a measurement: each number is the best of a few. One, two, four
 * rows and so on are always measured, for what is predicted from one row alone
 * never pays; the sizes between them until the time is up. A later start finds
 * the figures in a file (cost_file.h).
 *
 * Thread that opens, before the engine's own exists.
 */
#include "base/clock.h"
#include "engine/engine.h"
#include "model/mtp.h"

#define LIMIT_S 0.5 /* chosen: a user waits */
#define REPEAT 3

/* One step of n rows of one sequence, all but the first tentative. */
static double step_s(struct sl_engine *e, struct sl_seq **q, uint32_t n)
{
    uint64_t t0;
    struct sl_step s = {.seq = q,
                        .n_seq = 1,
                        .tok = e->step_tok,
                        .n_row = n,
                        .logit_row = e->logit_row,
                        .n_logit = n,
                        .hidden = e->uses_mtp ? e->hidden : NULL};

    for (uint32_t i = 0; i < n; i++)
        e->logit_row[i] = i;
    if (sl_seq_begin(*q, 1, n - 1, NULL))
        return 0;
    t0 = sl_clock_ns();
    sl_forward(e->model, &s);
    sl_seq_end(*q, 0);
    return sl_clock_s(t0, sl_clock_ns());
}

/* One pass of the draft head over n rows with logits; for its weights it does
 * not matter that they are of one sequence. */
static double pass_s(struct sl_engine *e, struct sl_seq **q, uint32_t n)
{
    uint32_t pos = (*q)->n_tok;
    uint64_t t0 = sl_clock_ns();
    struct sl_mtp_step s = {.seq = q,
                            .n_seq = 1,
                            .n = &n,
                            .pos = &pos,
                            .n_row = n,
                            .tok = e->step_tok,
                            .hidden = e->hidden,
                            .y = e->hidden,
                            .head = e->draft_head,
                            .logit_row = e->logit_row,
                            .n_logit = n};

    for (uint32_t i = 0; i < n; i++)
        e->logit_row[i] = i;
    if (sl_seq_reserve(*q, pos + n, NULL))
        return 0;
    sl_mtp_forward(e->model, &s);
    return sl_clock_s(t0, sl_clock_ns());
}

/* n rows that the draft head missed. */
static double show_s(struct sl_engine *e, struct sl_seq **q, uint32_t n)
{
    uint32_t pos = (*q)->n_tok;
    uint64_t t0 = sl_clock_ns();
    struct sl_mtp_step s = {.seq = q,
                            .n_seq = 1,
                            .n = &n,
                            .pos = &pos,
                            .n_row = n,
                            .tok = e->step_tok,
                            .hidden = e->hidden};

    if (sl_seq_reserve(*q, pos + n, NULL))
        return 0;
    sl_mtp_forward(e->model, &s);
    return sl_clock_s(t0, sl_clock_ns());
}

/* One block of the block drafter; n is 1. */
static double block_s(struct sl_engine *e, struct sl_seq **q, uint32_t n)
{
    struct sl_flash_blocks b = {.seq = q,
                                .n_seq = n,
                                .anchor = e->flash_anchor,
                                .n_vocab = e->n_vocab,
                                .head = e->draft_head,
                                .draft = e->flash_draft};
    uint64_t t0 = sl_clock_ns();

    if (sl_seq_reserve(*q, (*q)->n_tok + e->flash_conf->block, NULL))
        return 0;
    sl_flash_draft(e->flash, e->model, &b);
    return sl_clock_s(t0, sl_clock_ns());
}

typedef double time_fn(struct sl_engine *e, struct sl_seq **q, uint32_t n);

/* The best of a few; of fewer when they are long: of two for the first size,
 * for the first of all touches the weights. */
static void learn(struct sl_engine *e, struct sl_seq **q, struct sl_cost *c,
                  time_fn *time, uint32_t n)
{
    int least = n == 1 ? 2 : 1;
    double best = 0, total = 0;

    for (int i = 0; i < REPEAT && (i < least || total < LIMIT_S / 8); i++) {
        double s = time(e, q, n);

        total += s;
        best = best <= 0 || s < best ? s : best;
    }
    sl_cost_learn(c, n, 0, best);
}

bool sl_engine_calibrate(struct sl_engine *e)
{
    struct sl_seq *q = NULL;
    uint32_t rows = e->opts.max_num_batched_tokens, len = e->opts.max_model_len;
    uint32_t step = (uint32_t)sl_min(e->max_depth + 1, rows);
    uint32_t pass = (uint32_t)sl_min(e->opts.max_num_seqs, rows);
    uint64_t t0 = sl_clock_ns();

    /* Each step commits a row, and the last of them has more behind it. */
    if (len < (REPEAT + 1) * (step + 1) + pass + SL_FLASH_MAX_BLOCK ||
        sl_seq_open(&q, e->mem, NULL))
        return false;
    for (uint32_t n = 1; n <= pass && e->uses_mtp; n *= 2)
        learn(e, &q, &e->spec.pass[SL_BY_MTP], pass_s, n);
    e->spec.touched[SL_BY_MTP] = e->uses_mtp;
    e->spec.touched[SL_BY_FLASH] = e->flash != NULL;
    if (e->uses_mtp)
        sl_speculate_shown(&e->spec, SL_BY_MTP, pass, show_s(e, &q, pass));
    if (e->flash)
        learn(e, &q, &e->spec.pass[SL_BY_FLASH], block_s, 1);
    for (uint32_t n = 1; n <= step; n++)
        if ((n & (n - 1)) == 0 || n == step)
            learn(e, &q, &e->verify, step_s, n);
    for (uint32_t n = 1; n < step && n <= SL_COST_EXACT; n++)
        if (!sl_cost_known(&e->verify, n - 1) &&
            sl_clock_s(t0, sl_clock_ns()) < LIMIT_S)
            learn(e, &q, &e->verify, step_s, n);
    e->cost = e->verify;
    e->touched = true;
    sl_seq_close(&q);
    return true;
}
