/* engine/spec_log.h - a line in the log every so many rounds of drafting
 *
 * What --spec-log-rounds asks for. Engine thread only.
 */
#ifndef SL_ENGINE_SPEC_LOG_H
#define SL_ENGINE_SPEC_LOG_H

#include "engine/speculate.h"

struct sl_spec_log {
    uint32_t every; /* rounds; 0: never */
    uint32_t n_round;
    uint64_t n_tok, n_draft, n_accept;
    double spent_s;
};

/* A round of the batch: n_tok tokens came, n_draft drafts were verified, and it
 * took spent_s. */
void sl_spec_log_round(struct sl_spec_log *l, const struct sl_speculate *s,
                       uint32_t n_tok, uint32_t n_draft, double spent_s);

#endif
