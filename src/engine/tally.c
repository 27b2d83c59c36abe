/* engine/tally.c - how many of each client; see tally.h */
#include "engine/tally.h"

#include "base/mem.h"

int sl_tally_open(struct sl_tally *t, uint32_t n, struct sl_err *err)
{
    *t = (struct sl_tally){.n_slot = 4, .time = 1};
    while (t->n_slot < 2 * n)
        t->n_slot *= 2;
    return sl_mem_alloc(&t->slot, t->n_slot, sizeof(*t->slot),
                        "the clients that run", err);
}

void sl_tally_close(struct sl_tally *t)
{
    sl_mem_free(t->slot);
    t->slot = NULL;
}

void sl_tally_start(struct sl_tally *t)
{
    t->n = 0;
    if (++t->time != 0)
        return;
    memset(t->slot, 0, t->n_slot * sizeof(*t->slot)); /* once in 2^32 */
    t->time = 1;
}

/* The finaliser of splitmix64 (Steele et al. 2014): clients are digests or
 * small numbers. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* Where they are, or would be. */
static struct sl_tally_slot *find(const struct sl_tally *t, uint64_t client,
                                  int32_t priority)
{
    uint64_t i = mix(client + mix((uint32_t)priority));

    for (;; i++) {
        struct sl_tally_slot *s = &t->slot[i & (t->n_slot - 1)];

        if (s->time != t->time ||
            (s->client == client && s->priority == priority))
            return s;
    }
}

struct sl_tally_slot *sl_tally_at(struct sl_tally *t, uint64_t client,
                                  int32_t priority)
{
    struct sl_tally_slot *s = find(t, client, priority);

    if (s->time != t->time)
        *s = (struct sl_tally_slot){.client = client,
                                    .priority = priority,
                                    .time = t->time,
                                    .index = t->n++};
    return s;
}

uint32_t sl_tally_n(const struct sl_tally *t, uint64_t client, int32_t priority)
{
    const struct sl_tally_slot *s = find(t, client, priority);

    return s->time == t->time ? s->n : 0;
}
