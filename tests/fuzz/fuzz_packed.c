/* tests/fuzz/fuzz_packed.c - a packed file
 *
 * The input is a whole file. The digest of its head is put right first, or
 * nothing would ever come behind it. What is refused must say why; what is
 * accepted has every entry inside of its data, and its chunks can be read.
 */
#include "base/mem.h"
#include "file/packed.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { DATA_AT = 72, DIGEST_AT = 136, HEADER = 256 };

static void put_digest(uint8_t *p, size_t n)
{
    struct sl_sha256 s;
    uint64_t data = 0;

    for (size_t i = 8; i-- > 0;)
        data = data << 8 | p[DATA_AT + i];
    if (data < HEADER || data > n)
        return;
    sl_sha256_init(&s);
    sl_sha256_add(&s, p, DIGEST_AT);
    sl_sha256_add(&s, p + DIGEST_AT + SL_SHA256,
                  (size_t)data - DIGEST_AT - SL_SHA256);
    SL_CHECK(sl_sha256_end(&s, p + DIGEST_AT));
}

static void check_good(const struct sl_packed *k, const uint8_t *p, size_t n)
{
    SL_CHECK(k->data + k->data_bytes == p + n);
    SL_CHECK(k->meta >= p && k->meta_bytes <= n &&
             k->meta + k->meta_bytes <= k->data);
    for (size_t i = 0; i < k->n_item; i++) {
        const struct sl_packed_item *it = &k->item[i];

        SL_CHECK(it->offset <= k->data_bytes &&
                 it->bytes <= k->data_bytes - it->offset);
        SL_CHECK(it->scale_offset <= k->data_bytes &&
                 it->scale_bytes <= k->data_bytes - it->scale_offset);
        SL_CHECK((size_t)it->type < SL_N_DTYPE);
    }
    for (size_t i = 0; i < k->n_chunk; i++)
        (void)sl_packed_chunk_ok(k, i);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sl_packed *k = NULL;
    struct sl_err err = {0};
    uint8_t *copy;
    int rc;

    SL_CHECK(!sl_mem_alloc(&copy, n + 1, 1, "a copy", &err));
    if (n > 0)
        memcpy(copy, p, n);
    if (n >= HEADER)
        put_digest(copy, n);
    rc = sl_packed_parse(&k, copy, n, "input", &err);
    SL_CHECK(rc == 0 || rc == SL_EFORMAT || rc == SL_EUNSUP);
    if (rc)
        SL_CHECK(!k && *err.msg);
    else
        check_good(k, copy, n);
    sl_packed_close(&k);
    sl_mem_free(copy);
    return 0;
}
