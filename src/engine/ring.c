/* engine/ring.c - rows that a drafter has not seen yet; see ring.h */
#include "engine/ring.h"

#include "base/mem.h"

/* Rows that wait for an idle drafter, at most. Chosen. */
#define IDLE_RING (4 * SL_DRAFT_NEAR)

void sl_ring_store_init(struct sl_ring_store *s, uint32_t max_spare)
{
    *s = (struct sl_ring_store){.max_spare = max_spare};
    sl_mutex_init(&s->mu, SL_RANK_RING);
}

/* The memory that was given back last: the likeliest to be in a cache. */
static float *take_spare(struct sl_ring_store *s)
{
    float *row;

    sl_lock(&s->mu);
    row = s->spare;
    if (row) {
        memcpy(&s->spare, row, sizeof(s->spare));
        s->n_spare--;
    }
    sl_unlock(&s->mu);
    return row;
}

/* Whether it was taken. */
static bool put_spare(struct sl_ring_store *s, float *row)
{
    bool has_room;

    sl_lock(&s->mu);
    has_room = s->n_spare < s->max_spare;
    if (has_room) {
        memcpy(row, &s->spare, sizeof(s->spare));
        s->spare = row;
        s->n_spare++;
    }
    sl_unlock(&s->mu);
    return has_room;
}

void sl_ring_store_deinit(struct sl_ring_store *s)
{
    for (float *row; (row = take_spare(s)) != NULL;)
        sl_mem_free(row);
    sl_mutex_deinit(&s->mu);
}

int sl_ring_open(struct sl_ring *r, struct sl_ring_store *from, size_t width,
                 struct sl_err *err)
{
    *r = (struct sl_ring){
        .from = from, .row = take_spare(from), .width = width};
    return r->row ? 0
                  : sl_mem_alloc(&r->row, SL_DRAFT_RING,
                                 width * sizeof(*r->row),
                                 "the rows for drafting", err);
}

void sl_ring_close(struct sl_ring *r)
{
    if (r->row && !put_spare(r->from, r->row))
        sl_mem_free(r->row);
    *r = (struct sl_ring){0};
}

/* Forget all but the newest n rows. */
static void trim(struct sl_ring *r, uint32_t n)
{
    if (r->n <= n)
        return;
    memmove(r->row, r->row + (r->n - n) * r->width,
            n * r->width * sizeof(*r->row));
    r->n = n;
}

/* Room for n rows more of at most `most`, or NULL. */
static float *take(struct sl_ring *r, uint32_t n, uint32_t most)
{
    float *at = r->row + r->n * r->width;

    if (r->n + n > most)
        return NULL;
    r->n += n;
    return at;
}

float *sl_ring_room(struct sl_ring *r, struct sl_seq *q, uint32_t plane,
                    uint32_t *n, bool idle)
{
    /* Of an idle drafter the nearest rows are enough, and what is written each
     * step stays in the cache. */
    float *at = take(r, *n, idle ? IDLE_RING : SL_DRAFT_RING);

    if (at || !idle)
        return at;
    *n = (uint32_t)sl_min(*n, SL_DRAFT_NEAR);
    /* Most at once, so that few rows are moved. */
    trim(r, SL_DRAFT_NEAR);
    at = take(r, *n, IDLE_RING);
    q->from[plane] = q->n_tok - r->n;
    return at;
}

bool sl_ring_wait(struct sl_ring *r, struct sl_seq *q, uint32_t plane,
                  const float *rows, uint32_t n, bool idle)
{
    uint32_t all = n;
    float *to = sl_ring_room(r, q, plane, &n, idle);

    if (to)
        memcpy(to, rows + (all - n) * r->width, n * r->width * sizeof(*rows));
    return to != NULL;
}

uint32_t sl_ring_n_near(const struct sl_ring *r, bool idle)
{
    return idle ? (uint32_t)sl_min(r->n, SL_DRAFT_NEAR) : r->n;
}

uint32_t sl_ring_near(struct sl_ring *r, struct sl_seq *q, uint32_t plane,
                      uint32_t end, bool idle)
{
    if (idle && r->n > SL_DRAFT_NEAR) {
        trim(r, SL_DRAFT_NEAR);
        q->from[plane] = end - r->n;
    }
    return end - r->n;
}

void sl_ring_drop(struct sl_ring *r, struct sl_seq *q, uint32_t plane)
{
    if (r->n > 0)
        q->from[plane] = q->n_tok;
    r->n = 0;
}
