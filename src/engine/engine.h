/* engine/engine.h - one loaded model and its thread, from inside
 *
 * Who owns what:
 *   set while opening, then read-only: any thread
 *   guarded by mu:  generations that were submitted and not yet taken
 *   engine thread:  everything else
 */
#ifndef SL_ENGINE_ENGINE_H
#define SL_ENGINE_ENGINE_H

#include "base/thread.h"
#include "engine/pace.h"
#include "engine/record.h"
#include "engine/ring.h"
#include "engine/schedule.h"
#include "engine/shape.h"
#include "engine/spec_log.h"
#include "engine/speculate.h"
#include "engine/tally.h"
#include "model/dflash.h"
#include "model/draft_copy.h"
#include "model/qwen35.h"
#include "sample/accept.h"
#include "sample/sample.h"
#include "sluice/sluice.h"
#include "state/prefix.h"
#include "text/chat.h"
#include "text/tokenize.h"

#define SL_MAX_IDLE_ENCODER 8

/* Sampling that the model's authors recommend: generation_config.json. */
struct sl_defaults {
    float temperature, top_p, min_p, repetition_penalty;
    float presence_penalty, frequency_penalty;
    int32_t top_k;
};

struct sl_gen_list {
    struct sl_gen *head, *tail;
};

struct sl_engine {
    /* Read-only once open. */
    struct sl_engine_opts opts; /* with the defaults filled in */
    struct sl_kern kern;
    struct sl_pool *pool;
    struct sl_weights *weights;
    struct sl_tokenizer *tok; /* NULL with dummy weights and no files */
    struct sl_chat *chat;     /* NULL without a template */
    struct sl_shapes *shapes; /* NULL without a tokenizer */
    struct sl_defaults defaults;
    uint32_t n_vocab; /* ids that can be drawn */
    uint32_t n_keep;  /* prefixes that the cache holds at most */
    int32_t turn_id;  /* the token that begins a turn of a chat; -1: none */
    double load_s, convert_s, map_s, calibrate_s;
    const char *shape; /* while it opens: in the place of a model's files */
    uint8_t weights_id[SL_SHA256]; /* of the weights, for what is kept on disk */
    bool has_weights_id;
    char fingerprint[SL_FINGERPRINT]; /* "": there is none */

    struct sl_mutex mu;
    struct sl_cond work;          /* with mu: submitted, or stop */
    struct sl_gen_list submitted; /* guarded by mu */
    bool stop;                    /* guarded by mu */
    bool loaded; /* guarded by mu: the shelf has ended a load; wakes */
    struct sl_engine_stats told;  /* guarded by mu */
    struct sl_thread thread;
    bool started;

    struct sl_mutex encoder_mu;
    struct sl_encoder *encoder[SL_MAX_IDLE_ENCODER]; /* guarded by encoder_mu */
    uint32_t n_encoder;

    struct sl_ring_store rings, tap_rings; /* of MTP, of the block drafter */

    /* Engine thread. */
    struct sl_model *model;
    struct sl_memory *mem;
    struct sl_prefix *prefix;
    struct sl_shelf *shelf;          /* NULL: prefixes are in memory only */
    bool loading;                    /* the shelf's one place is taken */
    const struct sl_gen *loads_for;  /* in `waiting`; NULL: nobody any more */
    uint64_t load_ns; /* when the load began */
    double disk_tok_s; /* that loading a token takes; 0: not measured yet */
    struct sl_sampler *sampler;
    struct sl_gen_list waiting;
    struct sl_gen **run; /* [max_num_seqs] as they may stay */
    struct sl_gen **run_work; /* [max_num_seqs] while they are ordered */
    uint32_t n_run;
    struct sl_cost cost;
    struct sl_cost verify; /* of steps that draw behind every row: a prompt's
                              rows take less, and say nothing about drafts */
    struct sl_pace pace;   /* of both, and the drafters' passes */
    double score_s; /* of a prompt's row whose logits are wanted; 0: unknown */
    double stretch; /* see sl_schedule_stretch */
    double alone_s; /* of this step, without its prompts; 0: not both kinds */
    bool touched;   /* the weights were read, by a step or to measure one */
    uint64_t n_step;
    struct sl_engine_stats now; /* as the engine thread counts */
    bool drafts;        /* somebody may draft */
    bool uses_mtp;      /* the model's head among them */
    uint32_t max_depth; /* drafts of one sequence */
    struct sl_draft_head *draft_head; /* NULL: drafters use the whole head */
    struct sl_draft_copy *draft_copy; /* the MTP head, in fewer bits */
    struct sl_flash *flash; /* the block drafter, or NULL */
    const struct sl_flash_conf *flash_conf;
    uint32_t flash_plane;
    float *taps, *flash_in; /* [max_num_batched_tokens][n_tap * hidden]: as the
                               step gives them, and side by side */
    float *flash_sure; /* [max_num_seqs][block - 1] */
    int32_t *flash_anchor, *flash_draft; /* [max_num_seqs], times block - 1 */
    uint32_t step_n_row;    /* of the step that was run last */
    const struct sl_drafter *drafter[SL_N_BY]; /* NULL: not used */
    struct sl_accept_opts accept;
    struct sl_speculate spec;
    struct sl_spec_log spec_log;
    struct sl_record *record; /* NULL: nobody measures; and with it, perhaps */
    struct sl_oracle *oracle;
    double draft_s, round_s; /* the drafters behind the newest step; and a step
                                with the drafters before it */
    double pass_s; /* of draft_s, the passes of drafters that are networks */
    struct sl_bid *bid; /* [max_num_seqs] */
    struct sl_seq **step_seq; /* [max_num_seqs], the step being built */
    uint32_t *step_rows;      /* [max_num_seqs] */
    struct sl_part *part;     /* [max_num_seqs] as in run */
    uint32_t *logit_row;      /* [max_logit] */
    uint32_t *score_row;      /* [max_logit] */
    uint32_t max_logit;
    int32_t *step_tok;        /* [max_num_batched_tokens] */
    float *hidden;            /* [max_num_batched_tokens][hidden], if uses_mtp */
    uint32_t *draft_n, *draft_pos; /* [max_num_seqs], a step of the drafter */
    struct sl_sched_seq *sched;           /* [max_num_seqs] */
    struct sl_sched_work sched_work;      /* for max_num_seqs, */
    struct sl_tally tally;                /* as this */
};

/* What a running generation has in a step. */
struct sl_part {
    uint32_t row0, firm, tent; /* rows row0 .. row0 + firm + tent - 1 */
    uint32_t n_kept;           /* of them committed: firm and accepted ones */
    bool broken;               /* its logits are of no use */
    enum sl_finish why;
};

/* Fill fingerprint, of an engine that knows its model and who drafts; `drafter` is
 * the folder of the block drafter, or NULL. */
void sl_engine_fingerprint(struct sl_engine *e, const char *drafter);

void sl_gen_list_push(struct sl_gen_list *l, struct sl_gen *g);
/* By rising priority number; of equals the newest last, or first when it has
 * waited before. */
void sl_gen_list_insert(struct sl_gen_list *l, struct sl_gen *g, bool first);
struct sl_gen *sl_gen_list_pop(struct sl_gen_list *l); /* NULL when empty */
void sl_gen_list_remove(struct sl_gen_list *l, struct sl_gen *g);

/* Of those that wait and were not passed over, who starts next; NULL: nobody. And
 * put those that run in the order in which they may stay (engine/queue.c). */
struct sl_gen *sl_queue_next(struct sl_engine *e);
void sl_queue_arrange(struct sl_engine *e);

/* What the public face calls a plan, and the type of stored keys and values. */
enum sl_dtype_plan sl_engine_plan(enum sl_weight_plan p);
enum sl_dtype sl_engine_kv_dtype(enum sl_kv_type t);

/* An engine with random weights of a published shape (model/shape.h), with an MTP
 * head and without a tokenizer; otherwise as sl_engine_open. */
int sl_engine_open_shape(struct sl_engine **out, const char *shape,
                         const struct sl_engine_opts *opts,
                         struct sl_err *err);

/* Run one step over the running generations (engine/step.c). */
void sl_engine_step(struct sl_engine *e);

/* What the disk holds of prompts (engine/restore.c). Open: after the prefix
 * cache. Waits: g waits for its load, or for another one's and then for its own.
 * Start: g->seq, which has read less than the disk holds, is given away to be
 * filled; true when g has to wait for that. Finish: once a step. Cancel: g ends.
 * Give up: the pages of a load are needed; waits for one file, false when there
 * is no load. Engine thread, but for open and close. */
int sl_restore_open(struct sl_engine *e, const char *drafter,
                    struct sl_err *err);
void sl_restore_close(struct sl_engine *e);
bool sl_restore_waits(struct sl_engine *e, struct sl_gen *g);
bool sl_restore_start(struct sl_engine *e, struct sl_gen *g);
void sl_restore_finish(struct sl_engine *e);
void sl_restore_cancel(struct sl_engine *e, const struct sl_gen *g);
bool sl_restore_give_up(struct sl_engine *e);

/* Is somebody reading what g begins with, so that g should wait for it
 * (engine/share.c)? */
bool sl_share_waits(const struct sl_engine *e, const struct sl_gen *g);

/* The log-probabilities of the prompt's rows in the step that was run, for
 * those that want them (engine/score.c). Overwrites the step's logits. False
 * when there were none. */
bool sl_engine_score(struct sl_engine *e);

/* Let the drafters see the step that has just been drawn, and propose what comes
 * next (engine/draft.c). */
void sl_engine_draft(struct sl_engine *e);

/* Time steps and passes before the first request, in the thread that opens
 * (engine/calibrate.c); false when there is too little context for it. */
bool sl_engine_calibrate(struct sl_engine *e);

/* Count, and let others see (engine/stats.c). */
void sl_engine_count_step(struct sl_engine *e, uint32_t n_row, double s);
void sl_engine_count_round(struct sl_engine *e, enum sl_by by,
                           uint32_t n_draft, uint32_t n_accept);
void sl_engine_publish(struct sl_engine *e);

/* An encoder to use until it is given back; any thread. */
int sl_engine_take_encoder(struct sl_encoder **out, struct sl_engine *e,
                           struct sl_err *err);
void sl_engine_give_encoder(struct sl_engine *e, struct sl_encoder *enc);

#endif
