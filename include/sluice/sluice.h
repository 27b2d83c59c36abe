/* sluice.h - the engine as a library
 *
 * Open a model, submit generations, take pieces of their answers, close.
 *
 *     struct sl_engine_opts eo;
 *     struct sl_gen_opts go;
 *     sl_engine_opts_init(&eo);
 *     sl_engine_open(&engine, "models/demo", &eo, &err);
 *     sl_gen_opts_init(&go, engine);
 *     sl_gen_submit(&gen, engine, &go, &err);
 *     while (sl_gen_next(gen, &piece, &err) > 0)
 *         fwrite(piece.text, 1, piece.n_text, stdout);
 *     sl_gen_close(&gen);
 *     sl_engine_close(&engine);
 *
 * Threads: one engine thread per open engine runs all live generations. Submit,
 * cancel and close may be called from any thread; next and poll from one thread
 * at a time per generation. No call-back runs but `wake` and `progress`.
 *
 * Errors: functions return 0 (or a count, where they say so), or a negative
 * enum sl_code after filling `err`, which may be NULL. On failure outputs are
 * untouched. Messages are one line that says what to do.
 *
 * Text is UTF-8. Times are seconds. Ids are int32_t.
 */
#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/err.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SL_API __attribute__((visibility("default")))

struct sl_engine; /* one loaded model and its thread */
struct sl_gen;    /* one generation */

/* ------------------------------------------------------------ the engine */

enum sl_kv_type { SL_KV_BF16, SL_KV_F32, SL_KV_BFP8 };

/* Who drafts. A draft is kept if it is the token that would have been drawn
 * anyway, so this changes the time of an answer and never its text. */
enum sl_draft_who { SL_DRAFT_OFF, SL_DRAFT_GREEDY, SL_DRAFT_ALL };

/* Which drafters may: all there are and the controller chooses among them, the
 * model's MTP head, the text itself (what followed the last tokens before), a
 * block drafter. */
enum sl_draft_by {
    SL_DRAFTER_AUTO,
    SL_DRAFTER_MTP,
    SL_DRAFTER_NGRAM,
    SL_DRAFTER_DFLASH,
    SL_DRAFTER_NONE
};

/* Types of the drafters' own weights, and of their copy of the output head. They
 * change how often drafts are right, never the text. Auto is q4 where they are
 * stored as numbers of 16 or 32 bits, and otherwise as stored. */
enum sl_draft_weights {
    SL_DRAFT_WEIGHTS_AUTO,
    SL_DRAFT_WEIGHTS_STORED,
    SL_DRAFT_WEIGHTS_Q8,
    SL_DRAFT_WEIGHTS_Q4
};

/* Which drafts are kept. Exact ones are those that would have been drawn; the
 * others change the distribution of sampled answers to keep more, by as much as
 * sl_gen_stats.tv says. Greedy answers and those with log-probabilities are
 * always exact. */
enum sl_accept_how { SL_KEEP_EXACT, SL_KEEP_LENIENT, SL_KEEP_RELAXED };

/* Types of the weights in memory: those of the files, or quantised while they
 * are loaded. */
enum sl_weight_plan { SL_WEIGHTS_AUTO, SL_WEIGHTS_Q8, SL_WEIGHTS_Q4,
                      SL_WEIGHTS_BFP4 };

struct sl_engine_opts {
    uint32_t n_thread;       /* 0: one per physical core */
    bool pin;                /* bind workers to cores */
    uint32_t cpu_mask;       /* instruction sets allowed; all bits: all */
    uint32_t max_model_len;  /* tokens of one sequence; 0: the model's */
    uint32_t max_num_seqs;   /* sequences that run at once */
    uint32_t max_num_batched_tokens; /* rows of one step */
    uint64_t kv_pool_tokens; /* tokens of all sequences; 0: chosen to fit */
    enum sl_kv_type kv_type;
    enum sl_weight_plan weights;
    bool prefix_cache;       /* keep what was read for later prompts */
    uint64_t prefix_cache_bytes; /* for recurrent states; 0: a part of memory */
    /* A folder that kept prefixes are written to, so that they outlive the
     * engine; NULL: memory only. What it holds at most; 0: 10 GiB. */
    const char *prefix_cache_dir;
    uint64_t prefix_cache_dir_bytes;
    enum sl_draft_who draft;
    enum sl_draft_by drafter;
    const char *draft_model; /* the folder of a block drafter; NULL: drafter/ in
                                the model's folder, if it is there */
    enum sl_draft_weights draft_weights;
    uint32_t draft_depth;    /* tokens proposed at once, at most 7; 0: what the
                                measured times and hits say */
    enum sl_accept_how accept;
    float lenience; /* lenient: a draft of probability p is kept with p^lenience;
                       above 0, and 1 is exact */
    float relax_threshold; /* relaxed: a draft is kept that is at least so likely,
                              compared with the likeliest; above 0, to 1 */
    const char *spec_ladder; /* rows to verify by users, "users:rows,...", in
                                place of the decision: "1:8,4:8,8:4"; or with who
                                drafts, "4:8:dflash,8:4:mtp"; NULL: none. Read in
                                open */
    bool spec_ladder_cut; /* of a ladder that was written for other drafters: to
                             what those here can, with a line in the log; else
                             it is an error */
    float spec_disable_ratio; /* drafting stops for a while when it gives less
                                 than this part of the plain rate; 0: never; below
                                 0: 0.98, and never with a depth or a ladder */
    uint32_t spec_log_rounds; /* log how drafting goes every so many rounds; 0:
                                 not */
    uint32_t dflash_max_context; /* tokens up to which the block drafter is used;
                                    0: always */
    uint32_t dflash_hysteresis;  /* a sequence that begins closer to that than so
                                    many tokens is not drafted by it */
    uint32_t mtp_prime;      /* the MTP head sees the last so many tokens of a
                                prompt; UINT32_MAX: all */
    bool dummy;              /* random weights from config.json alone */
    const char *chat_template; /* a file that replaces the model's, or NULL */
    /* A folder that keeps weights as they are in memory, so that the next start
     * maps them; NULL: they are packed into memory at every start. */
    const char *cache_dir;
    bool copy_weights; /* kept weights are read into memory, not mapped */
    const char *sampling; /* a JSON object whose values replace those of
                             generation_config.json, or NULL; read in open */
    /* Called while loading, from the thread that opens. NULL allowed. */
    void (*progress)(void *ctx, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_ctx;
};

SL_API void sl_engine_opts_init(struct sl_engine_opts *o);

/* Load the model at `path` (a checkpoint folder, a GGUF file or a packed file)
 * and start its thread. Blocks until the
 * model is ready. The caller ends *out with sl_engine_close. */
SL_API int sl_engine_open(struct sl_engine **out, const char *path,
                          const struct sl_engine_opts *opts,
                          struct sl_err *err);

/* Cancels what still runs, ends the thread, frees everything. Every sl_gen of
 * this engine must have been closed before. NULL inside is allowed. */
SL_API void sl_engine_close(struct sl_engine **e);

/* What a program may want to show. Strings live as long as the engine. */
#define SL_FINGERPRINT 20 /* bytes, with the zero */
struct sl_engine_info {
    const char *arch;       /* architectures[0] */
    const char *isa;        /* kernels in use: "avx2", "ref" */
    uint32_t n_thread, n_layer, hidden;
    uint32_t n_vocab;       /* ids that can be drawn */
    uint32_t max_model_len; /* tokens */
    uint64_t weight_bytes;
    uint64_t kv_bytes, kv_pool_tokens, state_bytes; /* pool; per sequence */
    bool prefix_cache; /* prefixes are kept */
    /* Two engines with the same one answer a request alike, where drafts are
     * exact; by another rule they draft alike, but how much goes by measured
     * times. "": unknown. */
    char fingerprint[SL_FINGERPRINT];
    double load_s;    /* opening took so long; of it: */
    double convert_s; /* packing weights, and writing the file */
    double map_s;     /* mapping them, or reading them into memory */
    double calibrate_s;
};
SL_API void sl_engine_info(const struct sl_engine *e,
                           struct sl_engine_info *out);

/* What it does now and has done since it was opened, as of the newest step.
 * Does not wait for the engine. Any thread. */
#define SL_STATS_DRAFT 15 /* drafts of one round, at most */
#define SL_STATS_BY 5     /* enum sl_draft_by; AUTO is unused, NONE nobody */
#define SL_STATS_SEQS 64  /* sequences that are told one by one */
#define SL_STATS_ROWS 14  /* 1, 8, 16, 32, ... 16384 rows, and more */
/* What the cache of prefixes does, and what it holds. */
struct sl_prefix_cache_stats {
    uint32_t n_kept;        /* prefixes in memory */
    uint64_t n_hit, n_miss; /* prompts that began with one, and that did not */
    uint64_t n_tok_hit;     /* tokens that were not read again */
    uint64_t n_put, n_evict;
    uint64_t page_bytes, state_bytes; /* in memory */
    bool on_disk;                     /* the rest counts */
    uint32_t n_disk;                  /* prefixes that can be read back */
    uint64_t disk_bytes;
    uint64_t n_disk_put, n_disk_load, n_disk_tok; /* written, read back */
    uint64_t n_disk_evict, n_disk_drop; /* files; damaged or not written */
};

struct sl_engine_stats {
    uint32_t n_run;                /* generations that run */
    uint32_t n_deferred; /* that wait for what another one is reading */
    uint64_t kv_used, kv_total;    /* tokens of the pool, those kept included */
    uint32_t n_state, n_state_max; /* recurrent states in use */
    struct sl_prefix_cache_stats prefix;
    uint64_t n_preempt;
    uint64_t n_step, n_row;
    double step_s; /* time inside of the model, of all steps */
    double draft_s; /* time of the drafters between them */
    uint64_t step_rows[SL_STATS_ROWS]; /* steps by rows: at most 1, 8, 16, ... */
    uint64_t n_round, n_draft, n_accept; /* verified rounds with drafts */
    uint64_t accept_at[SL_STATS_DRAFT];  /* of them, drafts in this place */
    uint64_t by_draft[SL_STATS_BY], by_accept[SL_STATS_BY]; /* the same, by who */
    uint64_t n_stop;        /* times that drafting was stopped: it lost */
    double tv;              /* as in sl_gen_stats, */
    uint64_t n_judged;      /* of all */
    uint8_t by[SL_STATS_SEQS], depth[SL_STATS_SEQS]; /* who drafts for each that
                               runs, and how much, behind the newest step */
};
SL_API void sl_engine_stats(struct sl_engine *e, struct sl_engine_stats *out);

/* -------------------------------------------------------- a generation */

/* What an answer must look like. Tokens that cannot lead there are not drawn,
 * and the answer ends with SL_FINISH_STOP when it is whole and nothing can
 * follow; it is not whole when it ends with SL_FINISH_LENGTH. */
enum sl_shape_kind {
    SL_SHAPE_FREE,
    SL_SHAPE_SCHEMA,  /* JSON that is valid under this JSON schema */
    SL_SHAPE_REGEX,   /* what this pattern matches, from end to end */
    SL_SHAPE_CHOICE,  /* one of the strings in this JSON array */
    SL_SHAPE_GRAMMAR, /* what the rule root of this grammar matches; GBNF */
    SL_SHAPE_CALLS,   /* calls of tools as the model writes them. A JSON object:
                         "tools", an array; "name", the one that is called;
                         "must", false: other text is an answer, too; "many",
                         more than one call; "content", the schema of that
                         other text; "hermes", calls are JSON objects. All but
                         tools may be left out; then they are null or false */
};

struct sl_gen_opts {
    /* The prompt: token ids, or text, or messages. Exactly one is set. All are
     * copied by sl_gen_submit. */
    const int32_t *ids;
    size_t n_ids;
    const char *text; /* encoded as it is; special tokens are recognised */
    size_t n_text;
    const char *messages; /* JSON: an array of chat messages */
    const char *tools;    /* JSON: an array, or NULL */
    const char *template_kwargs; /* JSON: an object, or NULL */

    uint32_t max_tokens; /* 0: as many as the context holds */
    float temperature, top_p, min_p;
    int32_t top_k;
    float presence_penalty, frequency_penalty, repetition_penalty;
    uint64_t seed;
    bool has_seed; /* otherwise a random one is taken; see sl_gen_seed */
    uint32_t choice; /* of several answers to one request; draws differ */
    const int32_t *bias_ids; /* logit bias, n_bias pairs */
    const float *bias;
    uint32_t n_bias;
    const int32_t *stop_ids; /* end the generation; beside the model's own */
    uint32_t n_stop_ids;
    const char *const *stop; /* texts that end it */
    uint32_t n_stop;
    bool include_stop; /* what ended it, a text of `stop` or a printable id of
                          `stop_ids`, is part of the answer */
    uint32_t min_tokens; /* before so many nothing but max_tokens ends it */
    bool ignore_eos;
    const int32_t *allowed_ids; /* only these are drawn; none: all are */
    uint32_t n_allowed;
    const char *const *bad_words; /* texts that are not generated, alone or
                                     behind a space; as vLLM reads them */
    uint32_t n_bad_words;
    bool limit_thinking; /* reasoning that the prompt, or the answer, has opened
                            is closed after so many of its tokens */
    uint32_t max_thinking;
    bool show_special; /* special tokens are printed, too */
    bool want_logprobs;
    uint32_t n_top_logprobs; /* 0 to 20 */
    bool want_prompt_logprobs; /* see sl_gen_prompt_logprobs; reads the whole
                                  prompt */
    uint32_t n_prompt_top; /* 0 to 20 */
    bool prompt_only; /* end with LENGTH behind the prompt; max_tokens is 0 */
    int32_t priority; /* of those that wait the lowest starts first; of those
                         that run the highest gives way first */
    uint64_t client; /* who asks; any numbers. Clients share places and rows
                        alike, however many generations each has */
    bool no_cache;       /* read the whole prompt, whatever is known of it */
    bool forks; /* others with the same prompt come right behind it: they share
                   it to its last token but one */
    uint64_t cache_salt; /* prompts of different salts share nothing */

    enum sl_shape_kind shape;
    const char *shape_text; /* copied by sl_gen_submit; SL_EARG and SL_EUNSUP
                               name what it does not understand */
    size_t n_shape_text;
    bool shape_after_think; /* the prompt leaves reasoning open: the shape
                               begins behind "</think>", which comes */

    /* Called from threads of the engine when a piece is ready or the generation
     * has ended, at most once per piece, and perhaps from two at once; for
     * generations that have the same `wake` and `wake_ctx` it may be called
     * once for all, so poll each of them. It is not called any more when
     * sl_gen_close has returned. It must not block and must not call into the
     * library. NULL: use sl_gen_next. */
    void (*wake)(void *ctx);
    void *wake_ctx;
};

/* The model's own defaults (generation_config.json), nothing else set. */
SL_API void sl_gen_opts_init(struct sl_gen_opts *o, const struct sl_engine *e);

/* Queue a generation. Does not wait for it to start. SL_EARG names what is out
 * of range (an empty prompt, a prompt longer than the context, ...); SL_EFORMAT
 * a prompt that is not valid UTF-8. The caller ends *out with sl_gen_close. */
SL_API int sl_gen_submit(struct sl_gen **out, struct sl_engine *e,
                         const struct sl_gen_opts *opts, struct sl_err *err);

/* Is there a token that the answer may begin with, as far as allowed_ids,
 * bad_words, min_tokens and stop_ids say? SL_EARG: none, or they are out of
 * range. sl_gen_submit asks the same; this tells who is to blame. Any thread. */
SL_API int sl_gen_can_begin(struct sl_engine *e, const struct sl_gen_opts *opts,
                            struct sl_err *err);

enum sl_finish {
    SL_FINISH_NONE,   /* still running */
    SL_FINISH_STOP,   /* an end token or a stop text */
    SL_FINISH_LENGTH, /* max_tokens, or the context is full */
    SL_FINISH_CANCEL,
    SL_FINISH_ERROR,
};

struct sl_logprob {
    int32_t id;
    float logprob; /* natural logarithm, of the raw distribution */
};

/* One step of the answer. A piece of text may be empty while a character or a
 * stop text is incomplete. */
struct sl_piece {
    const char *text; /* whole characters; not terminated */
    size_t n_text;
    const int32_t *ids; /* tokens that this piece consumed */
    const uint32_t *said; /* [n_ids] bytes of the whole answer where the text
                             of each ends. Text that may begin a stop text
                             comes with a later piece than its ids */
    size_t n_ids;
    const struct sl_logprob *logprobs; /* [n_ids], or NULL if not asked for */
    const struct sl_logprob *top;      /* [n_ids][n_top] */
    uint32_t n_top;
    enum sl_finish finish; /* not NONE on the last piece */
    int32_t stop_text; /* finish is STOP: index of the text that was met, */
    int32_t stop_id;   /* or the id of stop_ids; both -1 for the model's end */
    uint32_t n_prompt, n_cached, n_output; /* tokens so far */
};

/* The next piece. Blocks until there is one. 1: *out is filled and borrows from
 * the generation until the next call. 0: it ended with the piece before. A
 * negative code: it failed and can only be closed. */
SL_API int sl_gen_next(struct sl_gen *g, struct sl_piece *out,
                       struct sl_err *err);

/* The same without blocking; SL_EBUSY when there is no piece yet. */
SL_API int sl_gen_poll(struct sl_gen *g, struct sl_piece *out,
                       struct sl_err *err);

/* How likely the model found each token of the prompt, for those that asked.
 * There from the first piece on, SL_EBUSY before; the arrays live as long as
 * the generation. Thread as sl_gen_next. */
struct sl_prompt_logprobs {
    uint32_t n;                  /* tokens of the prompt */
    const struct sl_logprob *at; /* [n]; nothing comes before the first one:
                                    its logprob means nothing */
    const uint32_t *rank; /* [n] tokens that were at least as likely; from 1 */
    const struct sl_logprob *top; /* [n][n_top] by falling probability */
    uint32_t n_top;
};
SL_API int sl_gen_prompt_logprobs(struct sl_gen *g,
                                  struct sl_prompt_logprobs *out,
                                  struct sl_err *err);

/* Stop soon; the last piece says SL_FINISH_CANCEL. Safe from a signal handler
 * and from any thread. */
SL_API void sl_gen_cancel(struct sl_gen *g);

SL_API uint64_t sl_gen_seed(const struct sl_gen *g);

/* Cancels if needed, waits for the engine to let go, frees. */
SL_API void sl_gen_close(struct sl_gen **g);

/* Seconds spent so far; valid at any time. */
struct sl_gen_stats {
    double queue_s, prefill_s, decode_s;
    bool is_admitted; /* it runs, or has run; it no longer waits for a place */
    uint32_t n_prompt, n_cached, n_output;
    uint32_t n_round;           /* steps that drew tokens */
    uint32_t n_draft, n_accept; /* tokens proposed, and right */
    double plain_s, round_s; /* what a token took without drafts, as measured in
                                this run, and what a round took; 0: unknown */
    double tv; /* lossy rules: the distances in total variation, summed over the
                  drafts that were judged */
    uint32_t n_judged;
};
SL_API void sl_gen_stats(struct sl_gen *g, struct sl_gen_stats *out);

/* ------------------------------------------------------------ the rest */

/* Render messages as the model's template does. *out is freed with
 * sl_free. Any thread. */
SL_API int sl_render(char **out, size_t *len, const struct sl_engine *e,
                     const char *messages, const char *tools,
                     const char *template_kwargs, struct sl_err *err);
SL_API void sl_free(void *p);

/* The template that it renders with, without tools, line ends as \n. NULL:
 * there is none. Lives as long as the engine. */
SL_API const char *sl_chat_template(size_t *len, const struct sl_engine *e);

/* Text to token ids and back, as a generation does it: special tokens are
 * recognised in text and, unless skipped, printed. Outputs are freed with
 * sl_free. SL_EARG for an id that does not exist. Any thread. */
SL_API int sl_encode(int32_t **ids, size_t *n, struct sl_engine *e,
                     const char *text, size_t len, struct sl_err *err);
SL_API int sl_decode(char **text, size_t *len, const struct sl_engine *e,
                     const int32_t *ids, size_t n, bool skip_special,
                     struct sl_err *err);

/* The bytes that a token stands for, perhaps not whole characters; NULL when
 * the id does not exist. Lives as long as the engine. */
SL_API const char *sl_token(size_t *len, const struct sl_engine *e, int32_t id);

/* Tokens with a name: the end of a text, padding, the beginning; <think>,
 * </think>, <tool_call> and </tool_call>. -1: none. */
enum sl_named_token {
    SL_TOKEN_EOS,
    SL_TOKEN_PAD,
    SL_TOKEN_BOS,
    SL_TOKEN_THINK,
    SL_TOKEN_THINK_END,
    SL_TOKEN_CALL,
    SL_TOKEN_CALL_END,
};
SL_API int32_t sl_token_named(const struct sl_engine *e,
                              enum sl_named_token which);

/* What the model at `path` is and what it takes, as the text of a
 * JSON object: dimensions, parameters, weight bytes by class, bytes of keys and
 * values per token, of state per sequence. Reads config.json and the headers of
 * the weight files if there are some; without them sizes are those of bf16
 * weights. *out is freed with sl_free. Any thread. */
SL_API int sl_inspect(char **out, const char *path, struct sl_err *err);

/* The kernels that this machine would use when the mask allows them. Bits of the
 * mask: 1 "avx2", 2 "avx-vnni", 4 "avx512-vnni"; 8 "neon", 16 "neon-dotprod",
 * 32 "neon-i8mm"; none: "ref". Static. */
SL_API const char *sl_isa(uint32_t cpu_mask);

SL_API const char *sl_version(void);

#ifdef __cplusplus
}
#endif

#endif
