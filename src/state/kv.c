/* state/kv.c - pages of the key/value cache; see kv.h
 *
 * Idea: Kwon et al., "Efficient Memory Management for LLM Serving with
 * PagedAttention", 2023. Pages of 64 positions: four of them are one attention
 * block, so the boundary of a reduction is always the boundary of a page.
 *
 * Invariants (sl_kv_check verifies them):
 *   1. A page is on the free stack, or has ref > 0; never both.
 *   2. Free pages + pages with ref > 0 = all pages.
 *   3. A page with ref > 1 is full, and nobody writes to it (state/seq.c).
 */
#include "state/kv.h"

#include "base/mem.h"
#include "kern/kern.h"

static size_t plane_head_bytes(const struct sl_kv_plane *p, enum sl_dtype type)
{
    return 2 * SL_KV_PAGE * sl_dtype_bytes(type, p->dim);
}

size_t sl_kv_page_bytes(const struct sl_kv_plane *planes, uint32_t n_plane,
                        enum sl_dtype type)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < n_plane; i++)
        bytes += (size_t)planes[i].n_layer * planes[i].n_head *
                 plane_head_bytes(&planes[i], type);
    /* Pages begin at a cache line. */
    return sl_round_up(bytes, SL_LINE);
}

int sl_kv_open(struct sl_kv **out, const struct sl_kv_plane *planes,
               uint32_t n_plane, enum sl_dtype type, uint32_t n_page,
               struct sl_err *err)
{
    struct sl_kv *kv = NULL;
    size_t offset = 0;
    int rc = sl_mem_alloc(&kv, 1, sizeof(*kv), "the KV cache", err);

    if (rc)
        return rc;
    SL_CHECK(n_plane <= SL_KV_MAX_PLANE);
    kv->type = type;
    kv->n_plane = n_plane;
    kv->n_page = kv->n_free = n_page;
    for (uint32_t i = 0; i < n_plane; i++) {
        struct sl_kv_plane *p = &kv->plane[i];

        *p = planes[i];
        p->head_bytes = plane_head_bytes(p, type);
        p->offset = offset;
        p->bytes = (size_t)p->n_layer * p->n_head * p->head_bytes;
        offset += p->bytes;
    }
    kv->page_bytes = sl_kv_page_bytes(planes, n_plane, type);
    if (!sl_mul_size(&kv->bytes, kv->page_bytes, n_page))
        rc = sl_fail(err, SL_ENOMEM,
                     "a KV cache of %u pages of %zu bytes is more than any "
                     "machine has; lower --kv-pool-tokens",
                     n_page, kv->page_bytes);
    if (!rc)
        rc = sl_mem_alloc(&kv->free, n_page, sizeof(*kv->free), "KV pages",
                          err);
    if (!rc)
        rc = sl_mem_alloc(&kv->ref, n_page, sizeof(*kv->ref), "KV pages", err);
    if (!rc)
        rc = sl_mem_map(&kv->base, kv->bytes, "the KV cache", err);
    for (uint32_t i = 0; !rc && i < n_page; i++)
        kv->free[i] = n_page - 1 - i;
    if (rc)
        sl_kv_close(&kv);
    else
        *out = kv;
    return rc;
}

void sl_kv_close(struct sl_kv **pkv)
{
    struct sl_kv *kv = *pkv;

    if (!kv)
        return;
    *pkv = NULL;
    sl_mem_unmap(kv->base, kv->bytes);
    sl_mem_free(kv->free);
    sl_mem_free(kv->ref);
    sl_mem_free(kv);
}

bool sl_kv_take(struct sl_kv *kv, uint32_t *page)
{
    if (kv->n_free == 0)
        return false;
    *page = kv->free[--kv->n_free];
    SL_ASSERT(kv->ref[*page] == 0);
    kv->ref[*page] = 1;
    return true;
}

void sl_kv_acquire(struct sl_kv *kv, uint32_t page)
{
    SL_ASSERT(kv->ref[page] > 0);
    kv->ref[page]++;
}

void sl_kv_release(struct sl_kv *kv, uint32_t page)
{
    SL_CHECK(page < kv->n_page && kv->ref[page] > 0);
    if (--kv->ref[page] == 0)
        kv->free[kv->n_free++] = page;
}

void sl_kv_copy(struct sl_kv *kv, uint32_t to, uint32_t from)
{
    memcpy(kv->base + to * kv->page_bytes, kv->base + from * kv->page_bytes,
           kv->page_bytes);
}

unsigned char *sl_kv_layer(const struct sl_kv *kv, uint32_t plane,
                           uint32_t layer)
{
    const struct sl_kv_plane *p = &kv->plane[plane];

    SL_ASSERT(layer < p->n_layer);
    return kv->base + p->offset + (size_t)layer * p->n_head * p->head_bytes;
}

void sl_kv_check(const struct sl_kv *kv)
{
    uint32_t owned = 0;

    for (uint32_t i = 0; i < kv->n_page; i++)
        owned += kv->ref[i] > 0;
    SL_CHECK(owned + kv->n_free == kv->n_page);
    for (uint32_t i = 0; i < kv->n_free; i++)
        SL_CHECK(kv->ref[kv->free[i]] == 0);
}
