/* engine/gen.h - one generation, from inside
 *
 *            submit            admit             end token, limit, error,
 *   (caller) ------> WAITING ---------> RUNNING ------------------------> ENDED
 *                     ^  |   preempt      |        cancel, from any state ^
 *                     +--|----------------+                               |
 *                        +------------------------------------------------+
 *
 * In WAITING it owns no sequence, in RUNNING one. A preempted generation keeps
 * its tokens and reads them again later: the same bits (D2), so nothing is lost
 * but time. ENDED owns no sequence again, and the engine thread does not touch
 * it any more: `let_go` says so, and sl_gen_close waits for it.
 */
#ifndef SL_ENGINE_GEN_H
#define SL_ENGINE_GEN_H

#include <stdatomic.h>

#include "engine/engine.h"
#include "engine/ngram.h"
#include "engine/ring.h"
#include "engine/stop.h"
#include "text/detokenize.h"

/* Pieces that were made and not yet taken. */
struct sl_pieces {
    struct sl_buf text;
    int32_t *ids;                /* [max_out] */
    uint32_t *said;              /* [max_out] */
    struct sl_logprob *logprobs; /* [max_out], or NULL */
    struct sl_logprob *top;      /* [max_out][n_top], or NULL */
    size_t n_ids;
};

struct sl_gen {
    struct sl_gen *next; /* in a list */

    /* Set by submit, then read-only. */
    struct sl_engine *e;
    uint32_t n_prompt, max_out;
    struct sl_sample_opts sample;
    struct sl_bias *bias;
    int32_t *end_ids;
    uint32_t n_stop_ids; /* of end_ids, in front: the request's */
    uint32_t *cut; /* [n_cut] rising: tokens of the prompt after which its state
                      is kept */
    uint32_t n_cut;
    char **stop;
    uint32_t n_stop;
    int32_t *allowed;            /* copies of what `sample` points to */
    struct sl_bad_word *bad;
    struct sl_ids bad_ids;
    bool include_stop, no_cache, forks;
    struct sl_ids close; /* what ends reasoning that takes too long; empty: it
                            may */
    int32_t think_id, think_end_id;
    uint32_t max_thinking;
    bool scores; /* log-probabilities of the prompt are wanted */
    uint32_t n_score_top;
    uint64_t salt;
    int32_t priority;
    uint64_t client;
    void (*wake)(void *ctx);
    void *wake_ctx;
    uint64_t submit_ns;

    atomic_bool cancel; /* any thread sets, engine thread reads; a flag */

    /* Engine thread until the first piece, then read-only. */
    struct sl_logprob *score; /* [n_prompt] */
    uint32_t *score_rank;     /* [n_prompt] */
    struct sl_logprob *score_top; /* [n_prompt][n_score_top] */

    /* Engine thread. */
    int32_t *tok;     /* [n_prompt + max_out] prompt, then what was drawn */
    uint32_t n_known; /* of them */
    bool thinks;      /* the newest think tag is an opening one */
    uint32_t n_thought, n_closed; /* tokens of reasoning; used up of `close` */
    bool may_draft;
    int32_t draft[SL_MAX_DRAFT]; /* proposed to follow tok[n_known - 1] */
    float sure[SL_MAX_DRAFT]; /* of them, when a block drafter proposed */
    uint32_t n_draft;
    enum sl_by by; /* who proposed them */
    enum sl_odds_of odds;
    struct sl_guess guess;
    struct sl_ngram *ngram; /* NULL: not used */
    uint32_t n_headed; /* of tok, for which the drafters' head has rows */
    struct sl_ring ring; /* final hidden rows that the draft head has not seen */
    struct sl_ring taps; /* and residuals for the block drafter, */
    bool began, far;     /* which was asked; its context is too long for it */
    bool is_passed;     /* it waits for something, and others pass it */
    bool has_news;      /* tokens whose reader was not woken yet */
    uint32_t n_older;   /* of its client and priority that run, for the order */
    uint32_t n_asked;   /* times that its prompt was to be loaded */
    uint32_t n_disk;    /* tokens of it that the disk has; 0: not known */
    uint64_t last_turn; /* of its own (engine/schedule.h) */
    struct sl_seq *seq; /* RUNNING: its n_tok first tokens went through */
    enum sl_finish why; /* it ends, once that is published */
    struct sl_history *hist;
    struct sl_detok detok;
    struct sl_stop stopper;
    struct sl_buf fresh; /* text of the newest token */
    uint32_t n_said;     /* bytes of the text of all */
    struct sl_shaping shaping;

    /* There is something to take. Set and cleared with mu held; read without,
     * too, by who polls many of which most have nothing. */
    atomic_bool is_ready;

    struct sl_mutex mu;
    struct sl_cond ready;
    /* Guarded by mu. */
    struct sl_pieces back;
    enum sl_finish finish;
    int32_t stop_text, stop_id; /* what ended it, or -1 */
    struct sl_err err;
    uint32_t n_out, n_cached;
    uint32_t n_round, n_drafted, n_accepted, n_judged;
    double tv, plain_s, round_s; /* of a token; of a round, a mean */
    bool let_go;
    uint64_t n_errand; /* of the pool: some of them may call wake */
    uint64_t admit_ns, first_ns, last_ns; /* 0: not yet */

    /* The thread that calls next or poll. */
    struct sl_pieces front;
    bool told_end;
};

/* Engine thread: the token that has to come next, whatever the model wants, or
 * -1. */
int32_t sl_gen_forced(const struct sl_gen *g);

/* Engine thread: a token was drawn. NONE when the generation goes on, otherwise
 * why it ends; ERROR fills err. */
enum sl_finish sl_gen_put(struct sl_gen *g, const struct sl_draw *d,
                          struct sl_err *err);

/* Engine thread: wake whoever reads one of them that has something new: once for
 * all that a step drew, and once for neighbours who share a reader. One that
 * were woken for each would take the processor from the draws of the others. A
 * worker that waits does it, so that who is woken does not take the engine's
 * processor, either. */
void sl_gen_tell(struct sl_gen *const *all, uint32_t n);

/* Engine thread: it is over, and g may be gone when this returns. Pieces that
 * wait are kept; g->err is there before when `why` is ERROR. */
void sl_gen_end(struct sl_gen *g, enum sl_finish why);

/* Nobody runs it: give back all that it has. */
void sl_gen_free(struct sl_gen *g);

/* What drafters hold of a generation (engine/draft.c): made when it is
 * submitted, in the caller's thread; brought up to date before its state is kept
 * for others; given up with its sequence. The latter two in the engine thread. */
int sl_draft_open(struct sl_gen *g, struct sl_err *err);
void sl_draft_close(struct sl_gen *g);
void sl_draft_catch_up(struct sl_gen *g);
void sl_draft_forget(struct sl_gen *g);

/* Where the state of a prompt is worth keeping (engine/keep.c): fills cut. */
int sl_keep_plan(struct sl_gen *g, struct sl_err *err);

/* Append the ids of a text, in which special tokens are recognised. Any
 * thread. */
int sl_text_encode(struct sl_ids *out, struct sl_engine *e, const char *text,
                   size_t len, struct sl_err *err);

/* The prompt of a request as token ids (engine/prompt.c). Any thread. */
int sl_prompt_encode(struct sl_ids *out, struct sl_engine *e,
                     const struct sl_gen_opts *o, struct sl_err *err);

#endif
