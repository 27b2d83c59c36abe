/* engine/ladder.h - rows to verify by the number of users, and who drafts them
 *
 * "1:8,4:8,8:4": one user's drafts and the token before them are 8 rows, up to
 * 4 users have 8 each, up to 8 users 4; with more nobody drafts.
 * "4:8:dflash,8:4:mtp" says who besides; where that drafter cannot, as its
 * context ended, another does. A value: copied, owns nothing.
 */
#ifndef SL_ENGINE_LADDER_H
#define SL_ENGINE_LADDER_H

#include "base/err.h"
#include "base/ladder.h"

/* Who drafts. */
enum sl_by { SL_BY_NONE, SL_BY_NGRAM, SL_BY_MTP, SL_BY_FLASH, SL_N_BY };

struct sl_ladder {
    struct {
        uint32_t users, rows;
        enum sl_by by;       /* NONE: whoever is fastest */
    } rung[SL_LADDER_RUNGS]; /* users rising */
    uint32_t n;              /* 0: no ladder */
};

/* SL_EARG names what is wrong; *out is untouched then. */
int sl_ladder_parse(struct sl_ladder *out, const char *text,
                    struct sl_err *err);

/* Rows for each of so many users, at least 1. */
uint32_t sl_ladder_rows(const struct sl_ladder *l, uint32_t users);

/* Who drafts for so many users; NONE: not said, or nobody. */
enum sl_by sl_ladder_who(const struct sl_ladder *l, uint32_t users);

/* As on the command line; "" of NONE. */
const char *sl_by_name(enum sl_by by);

/* Who is the fastest before anything is known: with up to 4 users in short
 * contexts a block drafter, up to 8 a head, with more nobody (the ladder and
 * the limit of Qwen3.8-27B's published profile). `uses_block`: it drafts for
 * this sequence already, which it may go on with for some more tokens. */
enum sl_by sl_ladder_prior(uint32_t users, uint64_t context, bool uses_block);

#endif
