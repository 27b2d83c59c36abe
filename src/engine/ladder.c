/* engine/ladder.c - rows to verify by the number of users; see ladder.h */
#include "engine/ladder.h"

#include "base/num.h"

#define MAX_USERS 65536

static int number(uint32_t *out, const char *s, size_t len, int64_t most,
                  struct sl_err *err)
{
    int64_t v = 0;
    int rc = sl_num_i64(&v, s, len, 1, most, "--spec-ladder", err);

    *out = (uint32_t)v;
    return rc ? SL_EARG : 0;
}

/* "8:4" of `len` bytes becomes the next rung. */
static int add_rung(struct sl_ladder *l, const char *s, size_t len,
                    struct sl_err *err)
{
    const char *colon = memchr(s, ':', len);
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
    rc = number(&users, s, (size_t)(colon - s), MAX_USERS, err);
    if (!rc)
        rc = number(&rows, colon + 1, len - (size_t)(colon - s) - 1,
                    SL_LADDER_ROWS, err);
    if (rc)
        return rc;
    if (l->n > 0 && users <= l->rung[l->n - 1].users)
        return sl_fail(err, SL_EARG,
                       "--spec-ladder: %u users come behind %u; users must "
                       "rise",
                       users, l->rung[l->n - 1].users);
    l->rung[l->n].users = users;
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
