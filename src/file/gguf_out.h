/* file/gguf_out.h - the head of a GGUF file that is being written
 *
 *     sl_gguf_out_init(&o);
 *     sl_gguf_out_str(&o, "general.architecture", "qwen35", 6);
 *     at = sl_gguf_out_ten(&o, "output_norm.weight", SL_GGUF_F32, 1, dim);
 *     rc = sl_gguf_out_head(&o, &head, err);
 *     write head, then the bytes of each tensor at head.len + its `at`
 *     sl_gguf_out_deinit(&o);
 *
 * Version 3, aligned to 32 bytes. The first failure sticks until
 * sl_gguf_out_head (rule E6). One thread at a time.
 */
#ifndef SL_FILE_GGUF_OUT_H
#define SL_FILE_GGUF_OUT_H

#include "base/buf.h"
#include "file/gguf.h"

struct sl_gguf_out {
    struct sl_buf kv, ten;
    struct sl_buf keys; /* of kv, each with a zero behind it */
    uint64_t n_kv, n_ten;
    uint64_t bytes; /* of the data so far */
};

void sl_gguf_out_init(struct sl_gguf_out *o);
void sl_gguf_out_deinit(struct sl_gguf_out *o);

void sl_gguf_out_u32(struct sl_gguf_out *o, const char *key, uint32_t v);
void sl_gguf_out_f32(struct sl_gguf_out *o, const char *key, float v);
void sl_gguf_out_bool(struct sl_gguf_out *o, const char *key, bool v);
void sl_gguf_out_str(struct sl_gguf_out *o, const char *key, const char *s,
                     size_t len);

/* An array: its head, then each of its n elements by the calls below. */
void sl_gguf_out_arr(struct sl_gguf_out *o, const char *key,
                     enum sl_gguf_kind of, uint64_t n);
void sl_gguf_out_arr_i32(struct sl_gguf_out *o, int32_t v);
void sl_gguf_out_arr_str(struct sl_gguf_out *o, const char *s, size_t len);

/* A pair as another file has it. */
void sl_gguf_out_copy(struct sl_gguf_out *o, const struct sl_gguf_kv *kv);

/* Was this key written? */
bool sl_gguf_out_has(const struct sl_gguf_out *o, const char *key);

/* A tensor with dimensions rows first. Returns where its bytes begin in the
 * data. */
uint64_t sl_gguf_out_ten(struct sl_gguf_out *o, const char *name,
                         enum sl_gguf_type type, uint32_t n_dim,
                         const size_t *dim);

/* Bytes of a tensor of `n` elements. */
size_t sl_gguf_bytes(enum sl_gguf_type type, size_t n);

/* Append everything before the data, padded. */
int sl_gguf_out_head(const struct sl_gguf_out *o, struct sl_buf *out,
                     struct sl_err *err);

#endif
