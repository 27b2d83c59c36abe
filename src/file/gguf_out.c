/* file/gguf_out.c - the head of a GGUF file that is being written; see
 * gguf_out.h for the use and gguf.c for the format */
#include "file/gguf_out.h"

#define ALIGN 32
#define VERSION 3
/* Bytes of metadata: a vocabulary of 250,000 tokens takes some ten million. */
#define MAX_HEAD ((size_t)1 << 30)

static void put(struct sl_buf *b, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        sl_buf_byte(b, (char)(v >> 8 * i));
}

static void put_str(struct sl_buf *b, const char *s, size_t len)
{
    put(b, len, 8);
    sl_buf_add(b, s, len);
}

static void put_key(struct sl_gguf_out *o, const char *key,
                    enum sl_gguf_kind kind)
{
    put_str(&o->kv, key, strlen(key));
    sl_buf_add(&o->keys, key, strlen(key) + 1);
    put(&o->kv, (uint64_t)kind, 4);
    o->n_kv++;
}

void sl_gguf_out_init(struct sl_gguf_out *o)
{
    *o = (struct sl_gguf_out){0};
    sl_buf_init(&o->kv, MAX_HEAD);
    sl_buf_init(&o->ten, MAX_HEAD);
    sl_buf_init(&o->keys, MAX_HEAD);
}

void sl_gguf_out_deinit(struct sl_gguf_out *o)
{
    sl_buf_deinit(&o->kv);
    sl_buf_deinit(&o->ten);
    sl_buf_deinit(&o->keys);
}

void sl_gguf_out_u32(struct sl_gguf_out *o, const char *key, uint32_t v)
{
    put_key(o, key, SL_GGUF_U32);
    put(&o->kv, v, 4);
}

void sl_gguf_out_f32(struct sl_gguf_out *o, const char *key, float v)
{
    uint32_t u;

    memcpy(&u, &v, sizeof(u));
    put_key(o, key, SL_GGUF_F32_);
    put(&o->kv, u, 4);
}

void sl_gguf_out_bool(struct sl_gguf_out *o, const char *key, bool v)
{
    put_key(o, key, SL_GGUF_BOOL);
    put(&o->kv, v, 1);
}

void sl_gguf_out_str(struct sl_gguf_out *o, const char *key, const char *s,
                     size_t len)
{
    put_key(o, key, SL_GGUF_STR);
    put_str(&o->kv, s, len);
}

void sl_gguf_out_arr(struct sl_gguf_out *o, const char *key,
                     enum sl_gguf_kind of, uint64_t n)
{
    put_key(o, key, SL_GGUF_ARR);
    put(&o->kv, (uint64_t)of, 4);
    put(&o->kv, n, 8);
}

void sl_gguf_out_arr_i32(struct sl_gguf_out *o, int32_t v)
{
    put(&o->kv, (uint32_t)v, 4);
}

void sl_gguf_out_arr_str(struct sl_gguf_out *o, const char *s, size_t len)
{
    put_str(&o->kv, s, len);
}

void sl_gguf_out_copy(struct sl_gguf_out *o, const struct sl_gguf_kv *kv)
{
    put_key(o, kv->key, kv->kind);
    if (kv->kind == SL_GGUF_ARR) {
        put(&o->kv, (uint64_t)kv->of, 4);
        put(&o->kv, kv->n, 8);
    }
    sl_buf_add(&o->kv, (const char *)kv->p, kv->len);
}

bool sl_gguf_out_has(const struct sl_gguf_out *o, const char *key)
{
    for (size_t at = 0; at < o->keys.len; at += strlen(o->keys.p + at) + 1)
        if (!strcmp(o->keys.p + at, key))
            return true;
    return false;
}

size_t sl_gguf_bytes(enum sl_gguf_type type, size_t n)
{
    static const struct {
        enum sl_gguf_type type;
        uint32_t block, bytes;
    } sizes[] = {
#define X(name, id, block, bytes) {SL_GGUF_##name, block, bytes},
        SL_GGUF_TYPES(X)
#undef X
    };

    for (size_t i = 0; i < SL_COUNTOF(sizes); i++)
        if (sizes[i].type == type) {
            SL_CHECK(n % sizes[i].block == 0);
            return n / sizes[i].block * sizes[i].bytes;
        }
    SL_CHECK(false);
    return 0;
}

uint64_t sl_gguf_out_ten(struct sl_gguf_out *o, const char *name,
                         enum sl_gguf_type type, uint32_t n_dim,
                         const size_t *dim)
{
    uint64_t at = o->bytes;
    size_t n = 1;

    put_str(&o->ten, name, strlen(name));
    put(&o->ten, n_dim, 4);
    for (uint32_t k = n_dim; k > 0; k--) {
        put(&o->ten, dim[k - 1], 8);
        n *= dim[k - 1];
    }
    put(&o->ten, (uint64_t)type, 4);
    put(&o->ten, at, 8);
    o->n_ten++;
    o->bytes = at + sl_round_up(sl_gguf_bytes(type, n), ALIGN);
    return at;
}

int sl_gguf_out_head(const struct sl_gguf_out *o, struct sl_buf *out,
                     struct sl_err *err)
{
    int rc = sl_buf_check(&o->kv, "the metadata", err);

    if (!rc)
        rc = sl_buf_check(&o->keys, "the list of keys", err);
    if (!rc)
        rc = sl_buf_check(&o->ten, "the list of tensors", err);
    if (rc)
        return rc;
    sl_buf_str(out, "GGUF");
    put(out, VERSION, 4);
    put(out, o->n_ten, 8);
    put(out, o->n_kv, 8);
    sl_buf_add(out, o->kv.p, o->kv.len);
    sl_buf_add(out, o->ten.p, o->ten.len);
    while (out->len % ALIGN)
        sl_buf_byte(out, 0);
    return sl_buf_check(out, "the head of the file", err);
}
