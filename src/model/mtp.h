/* model/mtp.h - the draft head that comes with the model
 *
 * Multi-token prediction as in DeepSeek-V3 (2024), 2.2: one more layer of full
 * attention that turns (the target's final hidden row at position i, the token
 * behind it) into logits of the token after that. Chained, its own output row
 * takes the place of the hidden row. It can only propose; what it says never
 * reaches the text.
 *
 * Its keys and values are a plane of the sequence's pages, one row per position
 * like the target's.
 */
#ifndef SL_MODEL_MTP_H
#define SL_MODEL_MTP_H

#include "model/draft_head.h"
#include "model/qwen35.h"

struct sl_mtp_step {
    struct sl_seq **seq; /* [n_seq]; pages for all positions are there */
    uint32_t n_seq;
    const uint32_t *n;   /* [n_seq] rows of each */
    const uint32_t *pos; /* [n_seq] position of its first row */
    uint32_t n_row;      /* sum of n */
    const int32_t *tok;  /* [n_row] the token behind each row's position */
    const float *hidden; /* [n_row][hidden] after the final norm, or y */

    const uint32_t *logit_row; /* [n_logit] rising row numbers: of each sequence
                                  the last ones, or none. The other rows leave
                                  their keys and values. */
    uint32_t n_logit;
    float *y; /* [n_logit][hidden] out: what the next row of a chain takes as
                 hidden; NULL: not wanted. May be `hidden`. */

    const struct sl_draft_head *head; /* NULL: the whole of the target's */

    /* Given: [n_logit][rows of the head], borrowed until the next forward of any kind. */
    float *logits;
};

/* Only with weights that have an MTP head; engine thread. Cannot fail. */
void sl_mtp_forward(struct sl_model *m, struct sl_mtp_step *s);

#endif
