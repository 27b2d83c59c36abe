/* tests/fuzz/fuzz_wire.c - the record of a kept prefix
 *
 * The input is the head that a file begins with. What is accepted is what would
 * have been written for it, byte for byte, up to the digest; what is refused
 * says why. One bit of a good record that is turned is always found.
 */
#include <stdlib.h>

#include "state/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { DIGEST_AT = SL_WIRE_HEAD - SL_SHA256 };

static void check_good(const struct sl_wire *w, const uint8_t *p)
{
    unsigned char head[SL_WIRE_HEAD], byte = 7;
    struct sl_wire_part part = {&byte, 1};
    struct sl_wire again = *w;

    SL_CHECK(sl_wire_put(head, w, &part, 1));
    SL_CHECK(memcmp(head, p, DIGEST_AT) == 0);
    SL_CHECK(sl_wire_ok(head, &part, 1));
    SL_CHECK(sl_wire_get(&again, head, sizeof(head), NULL) == 0);
    SL_CHECK(memcmp(&again, w, sizeof(again)) == 0);
    head[p[DIGEST_AT] % SL_WIRE_HEAD] ^= (unsigned char)(1 << p[255] % 8);
    SL_CHECK(!sl_wire_ok(head, &part, 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sl_wire w = {.kind = SL_WIRE_PAGE, .n_tok = 64, .bytes = 1};
    struct sl_err err = {0};
    int rc;

    memset(w.key, 'k', sizeof(w.key));
    memset(w.model, 'm', sizeof(w.model));
    rc = sl_wire_get(&w, p, n, &err);
    SL_CHECK(rc == 0 || rc == SL_EFORMAT);
    if (rc)
        SL_CHECK(*err.msg);
    else
        check_good(&w, p);
    return 0;
}
