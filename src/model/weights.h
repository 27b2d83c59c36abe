/* model/weights.h - the weights of one model, ready for the kernels
 *
 * Matrices are in groups of eight rows (kern/kern.h). Value heads are in the
 * internal order, in which value head n uses key head n mod n_key (D5):
 * published safetensors are permuted while they are read. Vectors are fp32;
 * zero-centred norms hold 1 + weight. One reservation holds everything; it is
 * read-only once loaded, and any thread may read it.
 */
#ifndef SL_MODEL_WEIGHTS_H
#define SL_MODEL_WEIGHTS_H

#include "base/pool.h"
#include "model/source.h"
#include "ops/mat.h"

struct sl_attn_w {
    struct sl_mat q; /* [n_head * 2 * head_dim, hidden]: query, gate per head */
    struct sl_mat k, v;           /* [n_kv_head * head_dim, hidden] */
    struct sl_mat o;              /* [hidden, n_head * head_dim] */
    const float *q_norm, *k_norm; /* [head_dim] */
};

struct sl_lin_w {
    struct sl_mat qkv;  /* [conv_dim, hidden]: q, k, v */
    struct sl_mat z;    /* [n_val * val_dim, hidden] */
    struct sl_mat b, a; /* [n_val, hidden] */
    struct sl_mat out;  /* [hidden, n_val * val_dim] */
    const float *conv;  /* per head of q, k, v in turn: [4][its width], oldest
                           tap first */
    const float *a_neg; /* [n_val], -exp(A_log) */
    const float *dt;    /* [n_val], dt_bias */
    const float *norm;  /* [val_dim], as it is: no 1 + */
};

struct sl_moe_w {
    struct sl_mat router;      /* [n_expert, hidden] */
    struct sl_mlp_w *expert;   /* [n_expert] */
    struct sl_mlp_w shared;    /* rows 0 when the model has none */
    struct sl_mat shared_gate; /* [1, hidden] */
};

struct sl_layer_w {
    enum sl_layer_kind kind;
    bool dense;
    const float *in_norm, *post_norm; /* [hidden] */
    struct sl_attn_w attn;            /* SL_LAYER_FULL */
    struct sl_lin_w lin;              /* SL_LAYER_LINEAR */
    struct sl_mlp_w mlp;              /* dense */
    struct sl_moe_w moe;              /* otherwise */
};

struct sl_mtp_w {
    struct sl_mat fc; /* [hidden, 2 * hidden]: embedding half first */
    const float *norm_embed, *norm_hidden, *norm; /* [hidden] */
    struct sl_layer_w layer;
};

enum sl_weight_class {
    SL_W_EMBED,
    SL_W_HEAD,
    SL_W_ATTN,
    SL_W_LINEAR,
    SL_W_FFN,
    SL_W_EXPERT,
    SL_W_MTP,
    SL_W_SMALL, /* norms, convolutions, gates, router */
    SL_N_WEIGHT_CLASS
};

struct sl_weight_mat {
    const struct sl_mat *mat;
    enum sl_weight_class class;
};

struct sl_weights {
    struct sl_conf conf;
    struct sl_mat embed, head; /* [vocab, hidden]; the same when tied */
    const float *norm;         /* [hidden], final */
    struct sl_layer_w *layer;  /* [n_layer] */
    bool has_mtp;
    struct sl_mtp_w mtp;
    const unsigned char *base; /* of all weights */
    size_t bytes;              /* from there */
    size_t class_bytes[8];      /* by enum sl_weight_class, for people */
    struct sl_weight_mat *mat; /* [n_mat] every matrix once, in an order that
                                  is the same for all forms of a model */
    size_t n_mat;
    struct sl_weights_mem *mem; /* private */
};

/* Types of the weights in memory, see model/dtypes.h. */
enum sl_dtype_plan {
    SL_PLAN_AUTO,
    SL_PLAN_Q8,
    SL_PLAN_Q4,
    SL_PLAN_BFP4,
    SL_PLAN_DRAFT /* of a block drafter in 4 bits, quickly */
};

/* Told how far loading is, from the loading thread; total > 0. */
typedef void sl_progress_fn(void *ctx, uint64_t done_bytes,
                            uint64_t total_bytes);

struct sl_plan;

/* Where weights go instead of memory of their own (model/packing.c). */
struct sl_load_place {
    void *ctx;
    /* Called once everything is known and nothing is written: gives the bytes
     * that the plan asks for, aligned to 4096; they outlive the weights. */
    int (*get)(void *ctx, const struct sl_plan *p, unsigned char **base,
               struct sl_err *err);
};

/* How much the columns of each matrix count where numbers are quantised: the
 * mean square of their inputs, 1 on average. Engine code measures it. */
struct sl_importance {
    size_t n;                  /* = sl_weights.n_mat */
    float **col;               /* [n][cols], or NULL: all alike */
    uint8_t digest[SL_SHA256]; /* of all numbers */
};

struct sl_load_opts {
    struct sl_pool *pool; /* borrowed for the call */
    enum sl_dtype_plan plan;
    const struct sl_importance *importance; /* NULL: all columns are alike */
    bool dummy; /* random weights of the right shapes: no files but
                   config.json are read */
    uint64_t dummy_seed;
    const struct sl_conf *shape; /* dummy: instead of a folder's config.json;
                                    borrowed for the call */
    struct sl_load_place *place; /* NULL: memory of their own */
    bool check; /* whether they are good, and no more: memory is given back
                   piece by piece, and what is loaded is of no use */
    bool copy; /* packed weights: into memory of their own, not mapped */
    sl_progress_fn *progress; /* NULL allowed */
    void *progress_ctx;
};

/* Load a model. The caller ends *out with sl_weights_close; the source may be
 * closed before, and is NULL with a shape. A packed file is mapped, and is then
 * the weights' own. Missing, extra or misshapen tensors give one SL_EFORMAT
 * that lists them. When mtp tensors are incomplete MTP is off and a warning is
 * logged; the model still loads. */
int sl_weights_load(struct sl_weights **out, struct sl_source *src,
                    const struct sl_load_opts *opts, struct sl_err *err);

/* The same from its path alone; with a shape that is only a name. */
int sl_weights_open(struct sl_weights **out, const char *path,
                    const struct sl_load_opts *opts, struct sl_err *err);
void sl_weights_close(struct sl_weights **w);

/* What loading would make of a folder, found out without reading a weight. */
struct sl_weights_size {
    struct sl_conf conf;
    bool has_files;   /* otherwise sizes are those of bf16 weights */
    bool has_mtp;     /* a head for drafts is there, or config.json names one */
    uint32_t types;   /* bit t: a matrix has enum sl_dtype t in memory */
    const char *plan; /* dtype plan of a packed file; NULL: it has none */
    size_t n_fell;    /* matrices for which it fell back to q8_0 */
    uint64_t n_param; /* elements of all matrices and vectors */
    uint64_t file_bytes; /* of all tensors, those that are skipped too; or 0 */
    size_t bytes;
    size_t class_bytes[8]; /* by enum sl_weight_class */
};

int sl_weights_measure(struct sl_weights_size *out, const char *path,
                       struct sl_err *err);

#endif
