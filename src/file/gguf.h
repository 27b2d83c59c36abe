/* file/gguf.h - one GGUF file: bytes from outside -> metadata and named tensors
 *
 * The file is mapped read-only and checked completely before anything is
 * returned: every value of the metadata and every tensor handed out lies inside
 * the map, tensors do not overlap, and each has exactly the bytes of its shape.
 * Versions 2 and 3, little endian.
 *
 *     sl_gguf_open(&g, "model.gguf", err);
 *     rc = sl_gguf_i64(&n, g, "qwen35.block_count", true, 1, 1024, err);
 *     for (size_t i = 0; i < g->n_ten; i++)
 *         use(&g->ten[i], sl_gguf_data(g, &g->ten[i]));
 *     sl_gguf_close(&g);
 *
 * Read-only after opening: any thread.
 */
#ifndef SL_FILE_GGUF_H
#define SL_FILE_GGUF_H

#include "base/cur.h"
#include "base/dtype.h"
#include "base/file.h"

#define SL_GGUF_MAX_TENSOR 1000000u /* as for safetensors */
#define SL_GGUF_MAX_KV 65536u       /* real files have some fifty */
#define SL_GGUF_MAX_DIM 4
#define SL_GGUF_MAX_NAME 1000 /* bytes of a tensor's name or a key */
#define SL_GGUF_MAX_ALIGN 65536u

/*    name     id  block  bytes; those of ggml */
#define SL_GGUF_TYPES(X)                                                       \
    X(F32, 0, 1, 4)                                                            \
    X(F16, 1, 1, 2)                                                            \
    X(Q4_0, 2, 32, 18)                                                         \
    X(Q4_1, 3, 32, 20)                                                         \
    X(Q5_0, 6, 32, 22)                                                         \
    X(Q5_1, 7, 32, 24)                                                         \
    X(Q8_0, 8, 32, 34)                                                         \
    X(Q8_1, 9, 32, 40)                                                         \
    X(Q2_K, 10, 256, 84)                                                       \
    X(Q3_K, 11, 256, 110)                                                      \
    X(Q4_K, 12, 256, 144)                                                      \
    X(Q5_K, 13, 256, 176)                                                      \
    X(Q6_K, 14, 256, 210)                                                      \
    X(Q8_K, 15, 256, 292)                                                      \
    X(IQ2_XXS, 16, 256, 66)                                                    \
    X(IQ2_XS, 17, 256, 74)                                                     \
    X(IQ3_XXS, 18, 256, 98)                                                    \
    X(IQ1_S, 19, 256, 50)                                                      \
    X(IQ4_NL, 20, 32, 18)                                                      \
    X(IQ3_S, 21, 256, 110)                                                     \
    X(IQ2_S, 22, 256, 82)                                                      \
    X(IQ4_XS, 23, 256, 136)                                                    \
    X(I8, 24, 1, 1)                                                            \
    X(I16, 25, 1, 2)                                                           \
    X(I32, 26, 1, 4)                                                           \
    X(I64, 27, 1, 8)                                                           \
    X(F64, 28, 1, 8)                                                           \
    X(IQ1_M, 29, 256, 56)                                                      \
    X(BF16, 30, 1, 2)                                                          \
    X(TQ1_0, 34, 256, 54)                                                      \
    X(TQ2_0, 35, 256, 66)                                                      \
    X(MXFP4, 39, 32, 17)                                                       \
    X(NVFP4, 40, 64, 36)

enum sl_gguf_type {
#define X(name, id, block, bytes) SL_GGUF_##name = id,
    SL_GGUF_TYPES(X)
#undef X
};

/* Those that sl_gguf_dtype knows, for people. */
#define SL_GGUF_USABLE                                                         \
    "F32, F16, BF16, Q8_0, Q6_K, Q5_K, Q5_1, Q5_0, Q4_K, Q4_1, Q4_0, Q3_K, "   \
    "Q2_K, IQ4_XS, IQ4_NL or MXFP4"

/* Types of metadata; the numbers are the file's. */
enum sl_gguf_kind {
    SL_GGUF_U8,
    SL_GGUF_I8_,
    SL_GGUF_U16,
    SL_GGUF_I16_,
    SL_GGUF_U32,
    SL_GGUF_I32_,
    SL_GGUF_F32_,
    SL_GGUF_BOOL,
    SL_GGUF_STR,
    SL_GGUF_ARR,
    SL_GGUF_U64,
    SL_GGUF_I64_,
    SL_GGUF_F64_,
    SL_GGUF_N_KIND
};

struct sl_gguf_kv {
    const char *key; /* as a tensor's name */
    enum sl_gguf_kind kind;
    enum sl_gguf_kind of;   /* of the elements of an array */
    uint64_t n;             /* elements; 1 outside of arrays */
    const unsigned char *p; /* the first element, in the map */
    size_t len;             /* bytes of all elements */
};

struct sl_gguf_ten {
    const char *name; /* UTF-8 without control characters, ends with zero */
    enum sl_gguf_type type;
    uint32_t n_dim;
    size_t dim[SL_GGUF_MAX_DIM]; /* rows first: the reverse of the file's */
    size_t offset, bytes;        /* in the file */
};

struct sl_gguf {
    char *path;
    struct sl_map map; /* empty when made by sl_gguf_parse */
    const unsigned char *base;
    uint32_t version, alignment;
    struct sl_gguf_kv *kv; /* [n_kv], by key */
    size_t n_kv;
    struct sl_gguf_ten *ten; /* [n_ten], in the order of the file */
    size_t n_ten;
    char *names; /* of all keys and tensors */
};

/* The caller ends *out with sl_gguf_close. SL_EFORMAT for a damaged file,
 * SL_EUNSUP for one of another version, byte order or tensor type. */
int sl_gguf_open(struct sl_gguf **out, const char *path, struct sl_err *err);
void sl_gguf_close(struct sl_gguf **g);

/* The same for the bytes of a file, which are borrowed until the end. `path`
 * names them in messages. */
int sl_gguf_parse(struct sl_gguf **out, const void *p, size_t len,
                  const char *path, struct sl_err *err);

/* Borrowed; `bytes` bytes with the alignment of a byte. */
const unsigned char *sl_gguf_data(const struct sl_gguf *g,
                                  const struct sl_gguf_ten *t);

/* "Q4_K" */
const char *sl_gguf_type_name(enum sl_gguf_type t);

/* The element type of the engine; false when it has no such weights. */
bool sl_gguf_dtype(enum sl_dtype *out, enum sl_gguf_type t);

/* The other way round; false when GGUF has no such type. */
bool sl_gguf_type_of(enum sl_gguf_type *out, enum sl_dtype t);

/* ---- metadata ----
 *
 * Getters leave *out untouched and return 0 when the key is absent and `need`
 * is false; another kind or range is SL_EFORMAT with key, value and range. The
 * ends of a range are rounded to f32 for a value of that kind. */

const struct sl_gguf_kv *sl_gguf_find(const struct sl_gguf *g, const char *key);

/* Any of the kinds of whole numbers. */
int sl_gguf_i64(int64_t *out, const struct sl_gguf *g, const char *key,
                bool need, int64_t lo, int64_t hi, struct sl_err *err);
int sl_gguf_f64(double *out, const struct sl_gguf *g, const char *key,
                bool need, double lo, double hi, struct sl_err *err);
int sl_gguf_bool(bool *out, const struct sl_gguf *g, const char *key, bool need,
                 struct sl_err *err);

/* Borrowed from the map; need not be UTF-8 and may hold zeros. */
int sl_gguf_str(const char **out, size_t *len, const struct sl_gguf *g,
                const char *key, bool need, struct sl_err *err);

/* An array of whole numbers (or booleans) or of strings, or NULL. */
int sl_gguf_ints(const struct sl_gguf_kv **out, const struct sl_gguf *g,
                 const char *key, bool need, struct sl_err *err);
int sl_gguf_strs(const struct sl_gguf_kv **out, const struct sl_gguf *g,
                 const char *key, bool need, struct sl_err *err);

/* Element i < n of an array of whole numbers; beyond 2^63 - 1: that. */
int64_t sl_gguf_int(const struct sl_gguf_kv *kv, uint64_t i);

/* A walk over the strings of an array: init, then `n` times next. */
void sl_gguf_walk(struct sl_cur *c, const struct sl_gguf_kv *kv);
const char *sl_gguf_next(struct sl_cur *c, size_t *len);

#endif
