/* file/safetensors.h - one safetensors file: bytes from outside -> named
 * tensors
 *
 * The file is mapped read-only and its header is checked completely before
 * anything is returned, so every tensor handed out lies inside the map and has
 * exactly the bytes of its shape. What is accepted is what the reference
 * library (version 0.8) accepts, but for duplicate keys, which it lets pass.
 *
 *     sl_st_open(&st, "model.safetensors", err);
 *     for (size_t i = 0; i < st->n_ten; i++)
 *         use(&st->ten[i], sl_st_data(st, &st->ten[i]));
 *     sl_st_close(&st);
 *
 * Read-only after opening: any thread.
 */
#ifndef SL_FILE_SAFETENSORS_H
#define SL_FILE_SAFETENSORS_H

#include "base/dtype.h"
#include "base/file.h"

#define SL_ST_MAX_HEADER 100000000u /* bytes; the reference's limit */
#define SL_ST_MAX_TENSOR 1000000u   /* 512 experts x 3 x 100 layers, six times \
                                     */
#define SL_ST_MAX_DIM 8
#define SL_ST_MAX_NAME 1000 /* bytes; longer ones are attacks, not names */

/*    name           bits of an element */
#define SL_ST_TYPES(X)                                                         \
    X(BOOL, 8)                                                                 \
    X(F4, 4)                                                                   \
    X(F6_E2M3, 6)                                                              \
    X(F6_E3M2, 6)                                                              \
    X(U8, 8)                                                                   \
    X(I8, 8)                                                                   \
    X(F8_E5M2, 8)                                                              \
    X(F8_E4M3, 8)                                                              \
    X(F8_E8M0, 8)                                                              \
    X(F8_E4M3FNUZ, 8)                                                          \
    X(F8_E5M2FNUZ, 8)                                                          \
    X(I16, 16)                                                                 \
    X(U16, 16)                                                                 \
    X(F16, 16)                                                                 \
    X(BF16, 16)                                                                \
    X(I32, 32)                                                                 \
    X(U32, 32)                                                                 \
    X(F32, 32)                                                                 \
    X(C64, 64)                                                                 \
    X(F64, 64)                                                                 \
    X(I64, 64)                                                                 \
    X(U64, 64)

enum sl_st_type {
#define X(name, bits) SL_ST_##name,
    SL_ST_TYPES(X)
#undef X
        SL_ST_N_TYPE
};

struct sl_st_ten {
    char *name; /* UTF-8; lives as long as the file */
    enum sl_st_type type;
    uint32_t n_dim;
    size_t dim[SL_ST_MAX_DIM];
    size_t offset, bytes; /* in the file */
};

struct sl_st {
    char *path;
    struct sl_map map; /* empty when made by sl_st_parse */
    struct sl_st_ten *ten;
    size_t n_ten;
};

/* The caller ends *out with sl_st_close. */
int sl_st_open(struct sl_st **out, const char *path, struct sl_err *err);
void sl_st_close(struct sl_st **st);

/* The header alone, from the bytes of a file; they are not kept. `path` names
 * them in messages. */
int sl_st_parse(struct sl_st **out, const void *p, size_t len, const char *path,
                struct sl_err *err);

/* Borrowed; `bytes` bytes with the alignment of a byte. */
const unsigned char *sl_st_data(const struct sl_st *st,
                                const struct sl_st_ten *t);

const char *sl_st_type_name(enum sl_st_type t);

/* The element type of the engine; false when it has no such weights. */
bool sl_st_dtype(enum sl_dtype *out, enum sl_st_type t);

#endif
