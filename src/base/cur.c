/* base/cur.c - a reader over bytes we do not trust; see cur.h */
#include "base/cur.h"

void sl_cur_init(struct sl_cur *c, const void *p, size_t len)
{
    c->p = p;
    c->end = len ? c->p + len : c->p; /* p may be NULL then */
    c->bad = false;
}

size_t sl_cur_left(const struct sl_cur *c)
{
    return c->bad ? 0 : (size_t)(c->end - c->p);
}

const void *sl_cur_take(struct sl_cur *c, size_t n)
{
    const unsigned char *p = c->p;

    if (n > sl_cur_left(c)) {
        c->bad = true;
        return NULL;
    }
    c->p += n;
    return p;
}

static uint64_t little(struct sl_cur *c, size_t n)
{
    const unsigned char *p = sl_cur_take(c, n);
    uint64_t v = 0;

    for (size_t i = n; p && i > 0; i--)
        v = v << 8 | p[i - 1];
    return v;
}

uint8_t sl_cur_u8(struct sl_cur *c)
{
    return (uint8_t)little(c, 1);
}

uint16_t sl_cur_u16(struct sl_cur *c)
{
    return (uint16_t)little(c, 2);
}

uint32_t sl_cur_u32(struct sl_cur *c)
{
    return (uint32_t)little(c, 4);
}

uint64_t sl_cur_u64(struct sl_cur *c)
{
    return little(c, 8);
}
