/* tests/fuzz/fuzz_safetensors.c - the header of a safetensors file
 *
 * The input is a whole file. What is refused must say why. What is accepted
 * must be exactly covered by its tensors, each of the bytes of its shape; and
 * one byte less or more must be refused.
 */
#include "base/mem.h"
#include "file/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check_shape(const struct sl_st_ten *t)
{
    size_t n = 1, bits_per_byte = 8;
    enum sl_dtype d;

    SL_CHECK(t->n_dim <= SL_ST_MAX_DIM);
    SL_CHECK(strlen(t->name) <= SL_ST_MAX_NAME);
    SL_CHECK(*sl_st_type_name(t->type));
    for (uint32_t i = 0; i < t->n_dim; i++)
        SL_CHECK(sl_mul_size(&n, n, t->dim[i]));
    if (sl_st_dtype(&d, t->type))
        SL_CHECK(t->bytes == n * sl_dtype_get(d)->bytes);
    SL_CHECK(t->bytes <= n * bits_per_byte);
}

static void check_good(const struct sl_st *st, const uint8_t *p, size_t n)
{
    size_t end = 8;

    for (int i = 7; i >= 0; i--) /* small enough, or it had been refused */
        end += (size_t)p[i] << 8 * i;
    for (size_t i = 0; i < st->n_ten; i++) {
        SL_CHECK(st->ten[i].offset == end);
        end += st->ten[i].bytes;
        SL_CHECK(end <= n);
        check_shape(&st->ten[i]);
    }
    SL_CHECK(end == n);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sl_st *st = NULL, *other = NULL;
    struct sl_err err = {0};
    uint8_t *copy;
    int rc = sl_st_parse(&st, p, n, "input", &err);

    SL_CHECK(rc == 0 || rc == SL_EFORMAT);
    if (rc) {
        SL_CHECK(!st);
        SL_CHECK(*err.msg);
        return 0;
    }
    check_good(st, p, n);
    SL_CHECK(sl_st_parse(&other, p, n - 1, "input", &err) == SL_EFORMAT);
    SL_CHECK(!sl_mem_alloc(&copy, n + 1, 1, "a copy", &err));
    memcpy(copy, p, n);
    SL_CHECK(sl_st_parse(&other, copy, n + 1, "input", &err) == SL_EFORMAT);
    sl_mem_free(copy);
    sl_st_close(&st);
    return 0;
}
