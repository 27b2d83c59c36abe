/* model/permute.h - the two orders of value heads (D5; model.md 10.4)
 *
 * Published checkpoints store value head o = key * r + i, where r value heads
 * share a key head; inside, value head n = i * n_key + key, so that n uses key
 * head n mod n_key. Rows, channels and columns that belong to value heads move
 * in units of `unit`; what lies before `start` (the q and k rows of
 * in_proj_qkv) stays.
 */
#ifndef SL_MODEL_PERMUTE_H
#define SL_MODEL_PERMUTE_H

#include "base/base.h"

struct sl_perm {
    size_t start; /* first index that moves */
    size_t unit;  /* indices of one value head; 0: nothing moves */
    size_t n_key, r;
};

static inline bool sl_perm_is_identity(const struct sl_perm *p)
{
    return p->unit == 0 || p->r == 1 || p->n_key == 1;
}

/* Where index i of the internal order is in the file. */
static inline size_t sl_perm_src(const struct sl_perm *p, size_t i)
{
    size_t n, in_unit;

    if (sl_perm_is_identity(p) || i < p->start)
        return i;
    n = (i - p->start) / p->unit;
    in_unit = (i - p->start) % p->unit;
    return p->start + (n % p->n_key * p->r + n / p->n_key) * p->unit + in_unit;
}

#endif
