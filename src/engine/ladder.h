/* engine/ladder.h - rows to verify by the number of users, as a list
 *
 * "1:8,4:8,8:4": one user's drafts and the token before them are 8 rows, up to 4
 * users have 8 each, up to 8 users 4; with more nobody drafts. A value: copied,
 * owns nothing.
 */
#ifndef SL_ENGINE_LADDER_H
#define SL_ENGINE_LADDER_H

#include "base/err.h"

#define SL_LADDER_RUNGS 64
#define SL_LADDER_ROWS 16 /* a block of 16: SL_MAX_DRAFT and the token before */

struct sl_ladder {
    struct {
        uint32_t users, rows;
    } rung[SL_LADDER_RUNGS]; /* users rising */
    uint32_t n;              /* 0: no ladder */
};

/* SL_EARG names what is wrong; *out is untouched then. */
int sl_ladder_parse(struct sl_ladder *out, const char *text,
                    struct sl_err *err);

/* Rows for each of so many users, at least 1. */
uint32_t sl_ladder_rows(const struct sl_ladder *l, uint32_t users);

#endif
