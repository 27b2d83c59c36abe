/* model/plan.h - which bytes of a checkpoint go where, before any is read
 *
 * A plan is a list of items, one per matrix or vector of the model, each with a
 * place of its own in one reservation that does not exist yet. The walk over
 * the model (names.c) appends them; what it looks for and does not find, or
 * finds with another shape, is collected and reported as one list.
 *
 * The first other failure sticks to `rc` (rule E6). Loading thread only.
 */
#ifndef SL_MODEL_PLAN_H
#define SL_MODEL_PLAN_H

#include "file/checkpoint.h"
#include "file/packed.h"
#include "model/pack.h"
#include "model/weights.h"

/* Where in the reservation a matrix or vector may begin. */
#define SL_ITEM_ALIGN SL_LINE

struct sl_item {
    struct sl_mat *out_mat;      /* filled by sl_item_place; NULL in vectors */
    const float **out_vec;       /* the same; NULL in matrices */
    size_t tensor, scale;        /* numbers in the checkpoint */
    size_t src_offset;           /* of mat.src in the tensor, in bytes */
    size_t src_bytes;            /* that are read; of a dummy, written */
    size_t offset, scale_offset; /* in the reservation */
    enum sl_weight_class class;
    struct sl_pack_mat mat;
    struct sl_pack_vec vec;
};

/* Names for people: the first few, and how many there are. */
struct sl_list {
    char text[240];
    size_t len, n, n_shown;
};

struct sl_plan {
    struct sl_weights *w;           /* conf is filled */
    struct sl_ckpt *ckpt;           /* NULL: dummy weights, or packed ones */
    const struct sl_packed *packed; /* NULL: not packed; borrowed */
    uint64_t dummy_seed;
    enum sl_dtype_plan types;
    struct sl_item *item;
    size_t n_item, cap_item;
    size_t bytes; /* of the reservation */
    size_t class_bytes[8];
    uint8_t *seen; /* [tensors of ckpt], enum sl_seen */
    struct sl_list missing, wrong, extra;
    struct sl_list unsup; /* types that there is no arithmetic for, each once */
    const char *want;     /* what the first of them must be */
    int rc;
    struct sl_err *err;
};

enum sl_seen { SL_SEEN_NOT, SL_SEEN_USED, SL_SEEN_WRONG };

/* A tensor that the model needs, or a part of it. */
struct sl_src {
    const char *name;
    uint32_t n_dim;
    size_t dim[3];  /* the shape it must have */
    uint32_t n_alt; /* 0: no other shape */
    size_t alt[3];  /* or this, with the same bytes */
    size_t slice;   /* first index, when the shape has three */
    size_t row0;    /* first row of the part */
    struct sl_perm row_perm, col_perm;
    /* Of vectors: what is done to it, and its range in dummy weights. */
    enum sl_pack_rule rule;
    float dummy_lo, dummy_hi;
};

/* Start; plan->w, ckpt and dummy_seed are set. */
int sl_plan_init(struct sl_plan *p, struct sl_err *err);
void sl_plan_deinit(struct sl_plan *p);

bool sl_plan_has(const struct sl_plan *p, const char *name);

/* Append a matrix of rows x cols, or a vector of n. */
void sl_plan_mat(struct sl_plan *p, struct sl_mat *out,
                 enum sl_weight_class class, const struct sl_src *s,
                 size_t rows, size_t cols);
void sl_plan_vec(struct sl_plan *p, const float **out,
                 enum sl_weight_class class, const struct sl_src *s, size_t n);

/* Note a problem without an item. */
void sl_plan_missing(struct sl_plan *p, const char *name);
void sl_plan_extra(struct sl_plan *p, const char *name);

/* Is the model refused, whatever comes? */
bool sl_plan_is_bad(const struct sl_plan *p);

/* 0, or one error with all lists: SL_EUNSUP when types are the reason, else
 * SL_EFORMAT. */
int sl_plan_check(const struct sl_plan *p, struct sl_err *err);

/* Give an item its place; base is aligned to SL_ITEM_ALIGN. */
void sl_item_place(struct sl_item *it, unsigned char *base);

/* Give every item of a plan that was walked and checked a place in a new
 * reservation of plan->bytes, which the caller ends with sl_mem_unmap, also
 * after a failure that left *data set; and pack it (model/weights.c). */
int sl_weights_pack(void **data, struct sl_plan *plan,
                    const struct sl_load_opts *opts, struct sl_err *err);

/* The error for the value at `at`, in the bytes of the item's tensors, that is
 * not finite. */
int sl_plan_report_bad(const struct sl_plan *p, const struct sl_item *it,
                       const unsigned char *at, struct sl_err *err);

#endif
