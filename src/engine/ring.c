/* engine/ring.c - rows that a drafter has not seen yet; see ring.h */
#include "engine/ring.h"

#include "base/mem.h"

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

static float *row_at(const struct sl_ring *r, uint32_t i)
{
    return r->row + i * r->width;
}

/* Bring rows that went around into their order again; there is room behind
 * them. */
static void straighten(struct sl_ring *r)
{
    size_t row = r->width * sizeof(*r->row);

    if (r->first == 0)
        return;
    memcpy(row_at(r, r->n), r->row, r->first * row);
    memmove(r->row, row_at(r, r->first), r->n * row);
    r->first = 0;
}

/* Forget all but the newest n rows. */
static void trim(struct sl_ring *r, uint32_t n)
{
    straighten(r);
    if (r->n <= n)
        return;
    memmove(r->row, row_at(r, r->n - n), n * r->width * sizeof(*r->row));
    r->n = n;
}

/* Room for n rows behind all others, or NULL. */
static float *append(struct sl_ring *r, uint32_t n, uint32_t most)
{
    if (r->n + n > most)
        return NULL;
    r->n += n;
    return row_at(r, r->n - n);
}

/* Room for n rows, at most SL_DRAFT_NEAR, where need be in the place of the
 * oldest. */
static float *replace(struct sl_ring *r, uint32_t n)
{
    float *at = row_at(r, r->first);

    if (r->n != SL_DRAFT_NEAR || r->first + n > SL_DRAFT_NEAR) {
        trim(r, SL_DRAFT_NEAR - n);
        return append(r, n, SL_DRAFT_NEAR);
    }
    r->first = (r->first + n) % SL_DRAFT_NEAR;
    return at;
}

float *sl_ring_room(struct sl_ring *r, struct sl_seq *q, uint32_t plane,
                    uint32_t *n, bool idle)
{
    bool drops = r->n + *n > SL_DRAFT_NEAR;
    float *at;

    if (!idle) {
        straighten(r);
        return append(r, *n, SL_DRAFT_RING);
    }
    /* The nearest rows are enough, and what is written each step stays in the
     * cache. */
    *n = (uint32_t)sl_min(*n, SL_DRAFT_NEAR);
    at = replace(r, *n);
    if (drops)
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
    uint32_t near = sl_ring_n_near(r, idle);

    if (r->n > near)
        q->from[plane] = end - near;
    trim(r, near);
    return end - near;
}

void sl_ring_drop(struct sl_ring *r, struct sl_seq *q, uint32_t plane)
{
    if (r->n > 0)
        q->from[plane] = q->n_tok;
    sl_ring_clear(r);
}

void sl_ring_clear(struct sl_ring *r)
{
    r->n = r->first = 0;
}
