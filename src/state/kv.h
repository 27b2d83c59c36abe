/* state/kv.h - pages of the key/value cache
 *
 * A sequence is a list of page numbers, so sequences grow without moving and
 * share what they have in common. A page holds SL_KV_PAGE positions of every
 * full-attention layer, as a list of planes: plane 0 is the target's K/V;
 * drafters bring planes of their own. In a plane, layer by layer and KV head by
 * KV head: keys, then values, in the layout of kern/kern.h.
 *
 * Engine thread only. All memory is taken by sl_kv_open.
 */
#ifndef SL_STATE_KV_H
#define SL_STATE_KV_H

#include "base/dtype.h"
#include "base/err.h"

#define SL_KV_MAX_PLANE 8

struct sl_kv_plane {
    uint32_t n_layer, n_head, dim;
    size_t offset, bytes; /* in a page; filled by sl_kv_open */
    size_t head_bytes;    /* keys and values of one head; filled too */
};

struct sl_kv {
    enum sl_dtype type; /* F32 or BF16 */
    struct sl_kv_plane plane[SL_KV_MAX_PLANE];
    uint32_t n_plane;

    unsigned char *base; /* [n_page][page_bytes] */
    size_t page_bytes, bytes;
    uint32_t n_page, n_free;
    uint32_t *free; /* stack of n_free page numbers: what was used comes before
                       what was never touched */
    uint32_t *ref;  /* [n_page] owners */
};

/* planes: n_layer, n_head and dim of each are read. */
int sl_kv_open(struct sl_kv **out, const struct sl_kv_plane *planes,
               uint32_t n_plane, enum sl_dtype type, uint32_t n_page,
               struct sl_err *err);
void sl_kv_close(struct sl_kv **kv);

/* Bytes of one page. */
size_t sl_kv_page_bytes(const struct sl_kv_plane *planes, uint32_t n_plane,
                        enum sl_dtype type);

/* A page with one owner; false when none is free. Its bytes are old. */
bool sl_kv_take(struct sl_kv *kv, uint32_t *page);
void sl_kv_acquire(struct sl_kv *kv, uint32_t page);
void sl_kv_release(struct sl_kv *kv, uint32_t page);

/* Copy the bytes of a page; for the last, partly filled page of a fork. */
void sl_kv_copy(struct sl_kv *kv, uint32_t to, uint32_t from);

/* Where the pages of a layer of a plane begin: base of page 0. */
unsigned char *sl_kv_layer(const struct sl_kv *kv, uint32_t plane,
                           uint32_t layer);

/* Every invariant, slowly; for tests. */
void sl_kv_check(const struct sl_kv *kv);

#endif
