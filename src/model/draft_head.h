/* model/draft_head.h - a part of the output head in few bits, for drafters
 *
 * A drafter's pass reads the whole head to propose one token, and of a large
 * vocabulary most rows are never the answer. This holds some of them: the lowest
 * ids, which are the most frequent ones as merges are numbered in that order;
 * the highest, which are the special ones; and those that came up lately, in
 * prompts and answers. It can only change what is proposed. (FR-Spec, Zhao et
 * al. 2025, 2502.14856, has the idea; counting while serving is ours.)
 *
 * Rows are copied in groups of eight: as they lie in memory where they are
 * quantised, otherwise in the type that is wanted (draft_copy.h).
 * Engine thread.
 */
#ifndef SL_MODEL_DRAFT_HEAD_H
#define SL_MODEL_DRAFT_HEAD_H

#include "model/draft_copy.h"

/* Rows at most; a vocabulary that is no larger is there as a whole. Chosen. */
#define SL_DRAFT_HEAD_ROWS (SL_SMALL ? 64u : 65536u)

struct sl_draft_head;

/* *out is NULL when the head has no more than so many rows and is of the type
 * wanted, or quantised: then it serves as it is. n_vocab: ids below it may be
 * proposed. SL_N_DTYPE wants the type of the head. Head and kern are borrowed
 * until close. */
int sl_draft_head_open(struct sl_draft_head **out, const struct sl_mat *head,
                       uint32_t n_vocab, enum sl_dtype want,
                       struct sl_pool *pool, const struct sl_kern *kern,
                       struct sl_err *err);
void sl_draft_head_close(struct sl_draft_head **h);

/* These ids came up: their rows are there from now on, in the place of those
 * that did so longest ago. */
void sl_draft_head_add(struct sl_draft_head *h, const int32_t *ids, uint32_t n);

/* The rows as a matrix, until the next add; and the id of one. */
const struct sl_mat *sl_draft_head_get(const struct sl_draft_head *h);
int32_t sl_draft_head_id(const struct sl_draft_head *h, uint32_t row);

#endif
