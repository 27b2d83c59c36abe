/* state/seq.h - what one sequence remembers
 *
 * Its KV pages, its recurrent state, and how many tokens they stand for.
 *
 *          begin                 (forward)            end
 *   IDLE ---------> IN A STEP ----------------> ... ---------> IDLE
 *    ^                                                          |
 *    +---- fork, close only here ----------------------------- +
 *
 * n_tok counts every token whose keys and values are committed. The recurrent
 * state lags behind by the pending rows; a flush (a step with no rows) brings it
 * up, and comes before a fork. Engine thread only; allocates in open alone.
 */
#ifndef SL_STATE_SEQ_H
#define SL_STATE_SEQ_H

#include "state/kv.h"
#include "state/recurrent.h"

struct sl_memory {
    struct sl_kv *kv;   /* owned */
    struct sl_rec *rec; /* owned */
    uint32_t max_tok;   /* of one sequence */
    uint32_t n_open, n_seq;
};

struct sl_memory_opts {
    const struct sl_kv_plane *planes;
    uint32_t n_plane;
    enum sl_dtype kv_type;
    struct sl_rec_shape rec;
    uint32_t n_page;  /* of all sequences */
    uint32_t max_tok; /* of one sequence */
    uint32_t n_seq;   /* at once */
    uint32_t n_draft; /* of them with tentative rows */
    uint32_t n_slot;  /* recurrent states, at least n_seq + 1 */
};

int sl_memory_open(struct sl_memory **out, const struct sl_memory_opts *opts,
                   struct sl_err *err);
void sl_memory_close(struct sl_memory **m); /* no sequence is open */

struct sl_seq {
    struct sl_memory *mem; /* borrowed */
    uint32_t *page;        /* [max_tok / 64] page numbers, n_page used */
    uint32_t n_page;
    uint32_t n_tok; /* committed tokens */
    uint32_t from[SL_KV_MAX_PLANE]; /* of each plane: positions before it were
                                       never filled, and are not looked at */
    uint32_t n_firm, n_tent; /* of the step that is running */
    struct sl_rec_seq rec;
};

/* An empty sequence. SL_EBUSY when n_seq are open. */
int sl_seq_open(struct sl_seq **out, struct sl_memory *m, struct sl_err *err);
void sl_seq_close(struct sl_seq **q); /* releases everything */

/* Make room for a step of n_firm + n_tent rows. SL_EBUSY when pages or states
 * are short (nothing is changed), SL_EARG when the sequence would pass max_tok
 * or n_tent its maximum. */
int sl_seq_begin(struct sl_seq *q, uint32_t n_firm, uint32_t n_tent,
                 struct sl_err *err);

/* Pages for positions up to n_pos, as begin takes them; for drafters, whose rows
 * run ahead. SL_EBUSY when pages are short. */
int sl_seq_reserve(struct sl_seq *q, uint32_t n_pos, struct sl_err *err);

/* The step is done: its firm rows are committed and the first n_accept of its
 * tentative ones. */
void sl_seq_end(struct sl_seq *q, uint32_t n_accept);

/* Give back what only steps need. It has no pending rows. */
void sl_seq_rest(struct sl_seq *q);

/* A second sequence with the same past; full pages and the state are shared.
 * `from` has no pending rows. SL_EBUSY as in open and begin. */
int sl_seq_fork(struct sl_seq **out, struct sl_seq *from, struct sl_err *err);

#endif
