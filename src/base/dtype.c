/* base/dtype.c - element types; see dtype.h */
#include "base/dtype.h"

static const struct sl_dtype_info table[] = {
#define X(id, name, block, bytes) [SL_##id] = {name, block, bytes},
    SL_DTYPES(X)
#undef X
};

const struct sl_dtype_info *sl_dtype_get(enum sl_dtype t)
{
    SL_CHECK((size_t)t < SL_COUNTOF(table));
    return &table[t];
}

size_t sl_dtype_bytes(enum sl_dtype t, size_t n)
{
    const struct sl_dtype_info *d = sl_dtype_get(t);

    SL_ASSERT(n % d->block == 0);
    return n / d->block * d->bytes;
}
