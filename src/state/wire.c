/* state/wire.c - keys, values and states as bytes; see wire.h */
#include "state/wire.h"

#include "base/cur.h"
#include "kern/kern.h"

#define MAGIC "SLUICEKV"
enum {
    AT_MODEL = 16,
    AT_KEY = 48,
    AT_TOK = 80,
    AT_FROM = 88,
    AT_BYTES = 120,
    AT_REST = 128,
    AT_DIGEST = SL_WIRE_HEAD - SL_SHA256
};

_Static_assert(AT_FROM + 4 * SL_KV_MAX_PLANE == AT_BYTES,
               "every plane has its place");

static void put(unsigned char *p, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

static bool digest(uint8_t out[SL_SHA256], const unsigned char *head,
                   const struct sl_wire_part *part, uint32_t n_part)
{
    struct sl_sha256 s;

    sl_sha256_init(&s);
    sl_sha256_add(&s, head, AT_DIGEST);
    for (uint32_t i = 0; i < n_part; i++)
        sl_sha256_add(&s, part[i].p, part[i].n);
    return sl_sha256_end(&s, out);
}

bool sl_wire_put(unsigned char head[SL_WIRE_HEAD], const struct sl_wire *w,
                 const struct sl_wire_part *part, uint32_t n_part)
{
    memset(head, 0, SL_WIRE_HEAD);
    memcpy(head, MAGIC, 8);
    put(head + 8, SL_WIRE_VERSION, 4);
    put(head + 12, w->kind, 4);
    memcpy(head + AT_MODEL, w->model, SL_SHA256);
    memcpy(head + AT_KEY, w->key, SL_SHA256);
    put(head + AT_TOK, w->n_tok, 4);
    for (size_t i = 0; i < SL_KV_MAX_PLANE; i++)
        put(head + AT_FROM + 4 * i, w->from[i], 4);
    put(head + AT_BYTES, w->bytes, 8);
    return digest(head + AT_DIGEST, head, part, n_part);
}

static bool is_zero(const unsigned char *p, size_t n)
{
    unsigned char any = 0;

    for (size_t i = 0; i < n; i++)
        any |= p[i];
    return any == 0;
}

int sl_wire_get(struct sl_wire *want, const void *head, size_t len,
                struct sl_err *err)
{
    const unsigned char *p = head;
    uint32_t version, kind, n_tok;
    uint64_t bytes;
    struct sl_cur c;

    sl_cur_init(&c, head, len);
    if (!sl_cur_take(&c, SL_WIRE_HEAD) || memcmp(p, MAGIC, 8))
        return sl_fail(err, SL_EFORMAT, "it does not begin like a kept prefix");
    sl_cur_init(&c, p + 8, SL_WIRE_HEAD - 8);
    version = sl_cur_u32(&c);
    kind = sl_cur_u32(&c);
    if (version != SL_WIRE_VERSION)
        return sl_fail(err, SL_EFORMAT,
                       "it has version %u of the format, and this is %d",
                       version, SL_WIRE_VERSION);
    if (memcmp(p + AT_MODEL, want->model, SL_SHA256))
        return sl_fail(err, SL_EFORMAT,
                       "it is of another model, or of other settings");
    sl_cur_init(&c, p + AT_TOK, SL_WIRE_HEAD - AT_TOK);
    n_tok = sl_cur_u32(&c);
    (void)sl_cur_u32(&c);
    for (size_t i = 0; i < SL_KV_MAX_PLANE; i++)
        want->from[i] = sl_cur_u32(&c);
    bytes = sl_cur_u64(&c);
    if (kind != want->kind || memcmp(p + AT_KEY, want->key, SL_SHA256) ||
        n_tok != want->n_tok || bytes != want->bytes ||
        !is_zero(p + AT_TOK + 4, 4) ||
        !is_zero(p + AT_REST, AT_DIGEST - AT_REST))
        return sl_fail(err, SL_EFORMAT, "it holds what its name does not say");
    return 0;
}

bool sl_wire_ok(const unsigned char head[SL_WIRE_HEAD],
                const struct sl_wire_part *part, uint32_t n_part)
{
    uint8_t is[SL_SHA256];

    return digest(is, head, part, n_part) &&
           memcmp(is, head + AT_DIGEST, SL_SHA256) == 0;
}

/* What a digest is of, so that a page and a state never have the same key. */
static bool link_key(uint8_t out[SL_SHA256], const uint8_t before[SL_SHA256],
                     char what, const int32_t *tok, uint32_t n)
{
    unsigned char b[4];
    struct sl_sha256 s;

    sl_sha256_init(&s);
    sl_sha256_add(&s, before, SL_SHA256);
    sl_sha256_add(&s, &what, 1);
    for (uint32_t i = 0; i < n; i++) {
        put(b, (uint32_t)tok[i], sizeof(b));
        sl_sha256_add(&s, b, sizeof(b));
    }
    return sl_sha256_end(&s, out);
}

bool sl_wire_begin(uint8_t chain[SL_SHA256], const uint8_t model[SL_SHA256],
                   uint64_t salt)
{
    const int32_t half[2] = {(int32_t)(uint32_t)salt,
                             (int32_t)(uint32_t)(salt >> 32)};

    return link_key(chain, model, 'B', half, 2);
}

bool sl_wire_page(uint8_t chain[SL_SHA256], const int32_t *tok)
{
    return link_key(chain, chain, 'P', tok, SL_KV_PAGE);
}

bool sl_wire_state(uint8_t key[SL_SHA256], const uint8_t chain[SL_SHA256],
                   const int32_t *tok, uint32_t n)
{
    return link_key(key, chain, 'S', tok, n);
}
