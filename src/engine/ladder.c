/* engine/ladder.c - rows by users, and who drafts them; see ladder.h */
#include "engine/ladder.h"

#include "base/num.h"

#define BLOCK_USERS 4
#define HEAD_USERS 8
#define BLOCK_CONTEXT 12288 /* tokens; published, as the two above and */
#define BLOCK_HYSTERESIS 1024

static const char *const name[SL_N_BY] = {"", "ngram", "mtp", "dflash"};

static int number(uint32_t *out, const char *s, size_t len, int64_t most,
                  struct sl_err *err)
{
    int64_t v = 0;
    int rc = sl_num_i64(&v, s, len, 1, most, "--spec-ladder", err);

    *out = (uint32_t)v;
    return rc ? SL_EARG : 0;
}

/* A drafter's name, or nothing. */
static int drafter(enum sl_by *out, const char *s, size_t len,
                   struct sl_err *err)
{
    for (*out = SL_BY_NONE + 1; *out < SL_N_BY; ++*out)
        if (strlen(name[*out]) == len && !memcmp(name[*out], s, len))
            return 0;
    return sl_fail(err, SL_EARG,
                   "--spec-ladder: '%.*s' is no drafter; it is ngram, mtp or "
                   "dflash",
                   (int)(len < 40 ? len : 40), s);
}

/* "8:4" or "8:4:mtp" of `len` bytes becomes the next rung. */
static int add_rung(struct sl_ladder *l, const char *s, size_t len,
                    struct sl_err *err)
{
    const char *colon = memchr(s, ':', len), *more, *end = s + len;
    enum sl_by by = SL_BY_NONE;
    uint32_t users, rows;
    int rc;

    if (!colon)
        return sl_fail(err, SL_EARG,
                       "--spec-ladder: '%.*s' is not users:rows, as in "
                       "1:8,4:8,8:4",
                       (int)(len < 40 ? len : 40), s);
    if (l->n == SL_LADDER_RUNGS)
        return sl_fail(err, SL_EARG, "--spec-ladder has more than %d rungs",
                       SL_LADDER_RUNGS);
    rc = number(&users, s, (size_t)(colon++ - s), SL_LADDER_USERS, err);
    more = memchr(colon, ':', (size_t)(end - colon));
    if (!rc)
        rc = number(&rows, colon, (size_t)((more ? more : end) - colon),
                    SL_LADDER_ROWS, err);
    if (!rc && more)
        rc = drafter(&by, more + 1, (size_t)(end - more) - 1, err);
    if (rc)
        return rc;
    if (l->n > 0 && users <= l->rung[l->n - 1].users)
        return sl_fail(err, SL_EARG,
                       "--spec-ladder: %u users come behind %u; users must "
                       "rise",
                       users, l->rung[l->n - 1].users);
    l->rung[l->n].users = users;
    l->rung[l->n].by = by;
    l->rung[l->n++].rows = rows;
    return 0;
}

int sl_ladder_parse(struct sl_ladder *out, const char *text,
                    struct sl_err *err)
{
    struct sl_ladder l = {.n = 0};

    for (;;) {
        size_t len = strcspn(text, ",");
        int rc = add_rung(&l, text, len, err);

        if (rc)
            return rc;
        if (!text[len])
            break;
        text += len + 1;
    }
    *out = l;
    return 0;
}

uint32_t sl_ladder_rows(const struct sl_ladder *l, uint32_t users)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (users <= l->rung[i].users)
            return l->rung[i].rows;
    return 1;
}

enum sl_by sl_ladder_who(const struct sl_ladder *l, uint32_t users)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (users <= l->rung[i].users)
            return l->rung[i].by;
    return SL_BY_NONE;
}

const char *sl_by_name(enum sl_by by)
{
    return name[by];
}

enum sl_by sl_ladder_prior(uint32_t users, uint64_t context, bool uses_block)
{
    uint64_t most = BLOCK_CONTEXT - (uses_block ? 0 : BLOCK_HYSTERESIS);

    if (users <= BLOCK_USERS && context <= most)
        return SL_BY_FLASH;
    return users <= HEAD_USERS ? SL_BY_MTP : SL_BY_NONE;
}
