/* state/recurrent.h - committed recurrent states and pending rows
 *
 * A slot holds the state of all DeltaNet layers behind some token: S and the
 * last three conv inputs, fp32. It is written by one visit and may then be
 * shared: a fork, a snapshot and a restore are counts, not copies (D3). A
 * sequence's next visit reads its slot as `src` and writes `dst`: the same slot
 * when nobody else holds it, a fresh one otherwise.
 *
 * Tentative rows leave what redoes them in the sequence's buffer; the accepted
 * ones are pending, and the next visit replays them. There are two buffers, for
 * a visit reads the old rows while it writes the new.
 *
 * Engine thread only. All memory is taken by sl_rec_open.
 */
#ifndef SL_STATE_RECURRENT_H
#define SL_STATE_RECURRENT_H

#include "base/err.h"
#include "ops/delta.h"

struct sl_rec_shape {
    uint32_t n_layer; /* DeltaNet layers */
    uint32_t n_key, n_val, key_dim, val_dim;
    uint32_t max_tent; /* tentative rows of one step; 0: nobody drafts */
};

struct sl_rec {
    struct sl_rec_shape shape;
    size_t s_floats, conv_floats; /* of one layer */
    size_t slot_floats, tent_floats; /* of one slot; of one buffer */
    float *slot; /* [n_slot][slot_floats] */
    float *tent; /* [n_buf][2][tent_floats] */
    uint32_t n_slot, n_free;
    uint32_t *free, *ref; /* [n_slot] */
    uint32_t n_buf, n_buf_free;
    uint32_t *buf_free; /* [n_buf] */
};

#define SL_REC_ZERO UINT32_MAX /* the state before the first token */
#define SL_REC_NONE UINT32_MAX /* no buffers yet */

/* One sequence's part. */
struct sl_rec_seq {
    uint32_t slot; /* committed state, or SL_REC_ZERO */
    uint32_t dst;  /* during a step: the slot that is written */
    uint32_t buf;  /* its pair of buffers, from its first tentative row on */
    uint32_t side; /* which of the two holds the pending rows */
    uint32_t n_pend;
};

/* n_buf sequences that have tentative rows at once, n_slot states (at least one
 * more than there are sequences). */
int sl_rec_open(struct sl_rec **out, const struct sl_rec_shape *shape,
                uint32_t n_buf, uint32_t n_slot, struct sl_err *err);
void sl_rec_close(struct sl_rec **r);

size_t sl_rec_slot_bytes(const struct sl_rec_shape *shape);

/* A sequence before its first token. */
void sl_rec_seq_init(struct sl_rec_seq *q);
void sl_rec_seq_deinit(struct sl_rec *r, struct sl_rec_seq *q);

/* Give back the buffers of one without pending rows. */
void sl_rec_rest(struct sl_rec *r, struct sl_rec_seq *q);

/* Choose dst for a visit; false when no slot, or no buffer for n_tent > 0
 * tentative rows, is free. */
bool sl_rec_begin(struct sl_rec *r, struct sl_rec_seq *q, uint32_t n_tent);
/* The visit is done, and the first n_accept of its tentative rows will stay. */
void sl_rec_end(struct sl_rec *r, struct sl_rec_seq *q, uint32_t n_accept);

/* `q` takes over the state of `from`, which has no pending rows. */
void sl_rec_share(struct sl_rec *r, struct sl_rec_seq *q,
                  const struct sl_rec_seq *from);

/* Between begin and end: the pointers of one layer. Row fields are left. */
void sl_rec_view(const struct sl_rec *r, const struct sl_rec_seq *q,
                 uint32_t layer, struct sl_delta_seq *out);

/* The committed state of one sequence without pending rows, [slot_floats];
 * NULL for SL_REC_ZERO. Borrowed until the next begin. */
const float *sl_rec_get(const struct sl_rec *r, const struct sl_rec_seq *q);

void sl_rec_check(const struct sl_rec *r);

#endif
