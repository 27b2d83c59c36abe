/* file/packed.h - the packed file: a model as it is in memory, to be mapped
 *
 *   offset  size
 *   0       8     "SLUICEPK"
 *   8       4     version of this format
 *   12      4     version of the layout of weights (kern/quant.h, pack.h)
 *   16      8     bytes of the file
 *   24      8     flags: 1 the model has its MTP head
 *   32      8     dtype plan it was made with (enum sl_dtype_plan)
 *   40      8, 8  metadata: offset, bytes (a GGUF file without tensors)
 *   56      8, 8  table: offset, entries of 64 bytes
 *   72      8, 8  data: offset (a multiple of 4096), bytes
 *   88      8, 8  digests: offset, number; each the SHA-256 of 4 MiB of data
 *   104     32    key: of metadata, table, digests, the plan, the versions
 *   136     32    SHA-256 of everything before the data but these 32 bytes
 *   168           zeros to 256
 *
 * An entry is kind (1 matrix, 2 vector) and type, 4 bytes each, then 8 bytes
 * each: rows, columns (a vector: elements, 1), offset in the data, bytes,
 * offset of FP8 scales, their bytes; 8 bytes of zeros. Entries stand in the
 * order in which the walk over the model asks for them, which config.json
 * alone decides. All numbers are little endian.
 *
 * Opening checks the head by its digest and every number by the bounds; the
 * data is checked by its digests on request.
 *
 * Read-only after opening: any thread.
 */
#ifndef SL_FILE_PACKED_H
#define SL_FILE_PACKED_H

#include "base/buf.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/sha256.h"

#define SL_PACKED_VERSION 1
#define SL_PACKED_LAYOUT 2
#define SL_PACKED_CHUNK ((size_t)4 << 20) /* bytes under one digest */
#define SL_PACKED_MTP 1u

struct sl_packed_item {
    uint32_t kind; /* 1 matrix, 2 vector */
    enum sl_dtype type;
    uint64_t rows, cols, offset, bytes, scale_offset, scale_bytes;
};

struct sl_packed {
    char *path;
    struct sl_map map; /* empty when made by sl_packed_parse */
    uint64_t flags, plan;
    uint8_t key[SL_SHA256];
    const unsigned char *meta; /* in the map, as the rest */
    size_t meta_bytes;
    struct sl_packed_item *item; /* [n_item] */
    size_t n_item;
    const unsigned char *data;
    size_t data_offset, data_bytes;
    const uint8_t *digest; /* [n_chunk][SL_SHA256] */
    size_t n_chunk;
};

/* Does the file begin like one? False also when it cannot be read. */
bool sl_packed_is(const char *path);

/* The caller ends *out with sl_packed_close. SL_EUNSUP for another version,
 * SL_EFORMAT for damage. */
int sl_packed_open(struct sl_packed **out, const char *path,
                   struct sl_err *err);
void sl_packed_close(struct sl_packed **p);

/* The same for bytes that are borrowed until the end, aligned to 8. */
int sl_packed_parse(struct sl_packed **out, const void *p, size_t len,
                    const char *path, struct sl_err *err);

/* Are the bytes of chunk i < n_chunk those that were written? */
bool sl_packed_chunk_ok(const struct sl_packed *p, size_t i);

/* The error for a chunk that is not. */
int sl_packed_bad_chunk(const struct sl_packed *p, size_t i,
                        struct sl_err *err);

/* --- writing --- */

/* Where the parts of a file are. */
struct sl_packed_plan {
    uint64_t flags, plan;
    size_t meta_bytes, n_item, data_bytes;       /* given */
    size_t table, digests, n_chunk, data, bytes; /* computed */
};

/* SL_EUNSUP when a size does not fit 64 bits. */
int sl_packed_lay_out(struct sl_packed_plan *p, struct sl_err *err);

/* Write the head of a file whose data is complete: `base` is the whole file,
 * `meta_bytes` of metadata are at `meta`. Digests of chunks are computed by
 * sl_packed_put_digest before; each call a task of its own. */
void sl_packed_put_digest(const struct sl_packed_plan *p, unsigned char *base,
                          size_t chunk);
void sl_packed_put_item(const struct sl_packed_plan *p, unsigned char *base,
                        size_t i, const struct sl_packed_item *it);
int sl_packed_put_head(const struct sl_packed_plan *p, unsigned char *base,
                       const void *meta, const uint8_t key[SL_SHA256],
                       struct sl_err *err);

#endif
