/* engine/eval.h - how far a model's answers are from another's
 *
 * Both read the same text, token by token as it stands (teacher-forced), and
 * their logits are compared at every position. What is in the way of the
 * weights alone, K and V included, counts.
 */
#ifndef SL_ENGINE_EVAL_H
#define SL_ENGINE_EVAL_H

#include "sluice/sluice.h"

struct sl_eval_kl_opts {
    const char *model, *reference; /* paths; may be the same */
    enum sl_weight_plan weights;   /* of the model; the reference's are as
                                      stored, with K and V in fp32 */
    enum sl_kv_type kv_type;       /* of the model */
    uint32_t n_thread, cpu_mask;   /* as in sl_engine_opts */
    bool pin;                      /* likewise */
    const char *text;              /* UTF-8 */
    size_t n_text;
    uint32_t max_tokens; /* of the text that are looked at; 0: all */
    /* NULL allowed; units are tokens. */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *progress_ctx;
};

/* Over all positions. KL is of the reference from the model, in nats; PCC the
 * correlation of the two rows of logits (Pearson). */
struct sl_eval_kl {
    uint32_t n_tok;
    double kl_mean, kl_median, kl_max;
    double top1; /* share of positions with the same most likely token */
    double pcc_mean, pcc_median, pcc_min;
    double nll, nll_reference; /* nats per token of the text */
    uint64_t weight_bytes, reference_bytes;
};

/* The weights of a class, and what their rounding cost. */
#define SL_EVAL_CLASSES 8 /* enum sl_weight_class */
struct sl_eval_class {
    const char *name;
    uint64_t n_weight, bytes; /* bytes are the model's; 0 weights: none */
    double error, power;      /* sums of squares, of the difference and of the
                                 reference: their ratio's root is the error */
    uint64_t n_across; /* weights in bfp8 or bfp4, and what these would */
    double across;     /* lose (squares) with the exponent shared along
                          the outputs, as Tenstorrent's boards do */
};

struct sl_eval_loss {
    struct sl_eval_class class[SL_EVAL_CLASSES];
};

/* Two forms of one model; both as they are stored. Both are in memory. */
int sl_eval_loss(struct sl_eval_loss *out, const char *model,
                 const char *reference, uint32_t n_thread, bool pin,
                 struct sl_err *err);

/* SL_EFORMAT when a logit of either is not finite. */
int sl_eval_kl(struct sl_eval_kl *out, const struct sl_eval_kl_opts *o,
               struct sl_err *err);

/* Is it a packed file, whose types are what they are? */
bool sl_eval_is_packed(const char *path);

#endif
