/* engine/oracle.h - a drafter that knows the answer, for measurements
 *
 * It stands in the place of the MTP head or of a block drafter, lets that do all
 * its work, and then proposes what a recorded run without drafts gave, each
 * token wrong with a chance: so dummy weights show what a drafter of this
 * acceptance would give. Engine thread.
 */
#ifndef SL_ENGINE_ORACLE_H
#define SL_ENGINE_ORACLE_H

#include "engine/drafter.h"

struct sl_oracle {
    const int32_t *ids; /* [n] the answer; borrowed while it is drafted */
    uint32_t n;
    double accept; /* chance of each draft to be right */
    uint64_t random;
};

extern const struct sl_drafter sl_oracle_mtp, sl_oracle_flash;

#endif
