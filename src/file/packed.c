/* file/packed.c - the packed file; see packed.h */
#include "file/packed.h"

#include "base/cur.h"
#include "base/mem.h"

#define MAGIC "SLUICEPK"
#define HEADER 256
#define KEY_AT 104
#define DIGEST_AT 136
#define DIGEST_END (DIGEST_AT + SL_SHA256)
#define ENTRY 64
#define PAGE 4096
#define ALIGN 64
#define MAX_ITEM 10000000u /* 4096 experts x 3 x 800 layers */

/* What opening reads of the header. */
struct header {
    uint32_t version, layout;
    uint64_t bytes, flags, plan, meta, n_meta, table, n_item, data, n_data,
        digests, n_chunk;
};

static int damaged(const char *what, struct sl_err *err)
{
    return sl_fail(err, SL_EFORMAT,
                   "%s; the packed file is damaged or cut short: remove it, "
                   "and it is made again",
                   what);
}

static bool inside(uint64_t at, uint64_t n, uint64_t size, uint64_t end)
{
    return at <= end && n <= (end - at) / size;
}

static void read_header(struct header *h, struct sl_cur *c)
{
    h->version = sl_cur_u32(c);
    h->layout = sl_cur_u32(c);
    h->bytes = sl_cur_u64(c);
    h->flags = sl_cur_u64(c);
    h->plan = sl_cur_u64(c);
    h->meta = sl_cur_u64(c);
    h->n_meta = sl_cur_u64(c);
    h->table = sl_cur_u64(c);
    h->n_item = sl_cur_u64(c);
    h->data = sl_cur_u64(c);
    h->n_data = sl_cur_u64(c);
    h->digests = sl_cur_u64(c);
    h->n_chunk = sl_cur_u64(c);
}

static bool head_digest(uint8_t out[SL_SHA256], const unsigned char *base,
                        size_t data)
{
    struct sl_sha256 s;

    sl_sha256_init(&s);
    sl_sha256_add(&s, base, DIGEST_AT);
    sl_sha256_add(&s, base + DIGEST_END, data - DIGEST_END);
    return sl_sha256_end(&s, out);
}

static int check_header(const struct header *h, const unsigned char *base,
                        size_t len, struct sl_err *err)
{
    uint8_t digest[SL_SHA256];

    if (h->version != SL_PACKED_VERSION || h->layout != SL_PACKED_LAYOUT)
        return sl_fail(err, SL_EUNSUP,
                       "it has version %u of the format and %u of the layout, "
                       "and %d and %d are read here; convert the model again",
                       h->version, h->layout, SL_PACKED_VERSION,
                       SL_PACKED_LAYOUT);
    if (h->bytes != len)
        return sl_fail(err, SL_EFORMAT,
                       "it has %zu bytes and must have %llu; the packed file "
                       "was cut short: remove it, and it is made again",
                       len, (unsigned long long)h->bytes);
    if (h->data < HEADER || h->data % PAGE ||
        !inside(h->data, h->n_data, 1, len) || h->data + h->n_data != len)
        return damaged("its data is not where it must be", err);
    if (!inside(h->meta, h->n_meta, 1, h->data) || h->meta < HEADER ||
        h->table % 8 || !inside(h->table, h->n_item, ENTRY, h->data) ||
        h->n_item > MAX_ITEM ||
        !inside(h->digests, h->n_chunk, SL_SHA256, h->data) ||
        h->n_chunk != (h->n_data + SL_PACKED_CHUNK - 1) / SL_PACKED_CHUNK)
        return damaged("its parts are not where they must be", err);
    if (!head_digest(digest, base, (size_t)h->data) ||
        memcmp(digest, base + DIGEST_AT, SL_SHA256))
        return damaged("its head has not the digest that it should", err);
    return 0;
}

/* One entry; false when it cannot be. */
static bool read_item(struct sl_packed_item *it, struct sl_cur *c,
                      uint64_t n_data)
{
    uint32_t type;

    it->kind = sl_cur_u32(c);
    type = sl_cur_u32(c);
    it->type = (enum sl_dtype)type;
    it->rows = sl_cur_u64(c);
    it->cols = sl_cur_u64(c);
    it->offset = sl_cur_u64(c);
    it->bytes = sl_cur_u64(c);
    it->scale_offset = sl_cur_u64(c);
    it->scale_bytes = sl_cur_u64(c);
    (void)sl_cur_u64(c);
    return !c->bad && (it->kind == 1 || it->kind == 2) && type < SL_N_DTYPE &&
           inside(it->offset, it->bytes, 1, n_data) &&
           inside(it->scale_offset, it->scale_bytes, 1, n_data);
}

static int read_table(struct sl_packed *p, const unsigned char *base,
                      const struct header *h, struct sl_err *err)
{
    struct sl_cur c;
    int rc = sl_mem_alloc(&p->item, (size_t)h->n_item, sizeof(*p->item),
                          "the list of weights", err);

    if (rc)
        return rc;
    p->n_item = (size_t)h->n_item;
    sl_cur_init(&c, base + h->table, p->n_item * ENTRY);
    for (size_t i = 0; i < p->n_item; i++)
        if (!read_item(&p->item[i], &c, h->n_data))
            return damaged("an entry of its table is impossible", err);
    return 0;
}

static int fill(struct sl_packed *p, const unsigned char *base, size_t len,
                struct sl_err *err)
{
    struct header h;
    struct sl_cur c;
    int rc;

    if (len < HEADER || memcmp(base, MAGIC, 8))
        return sl_fail(err, SL_EFORMAT, "it is no packed file");
    sl_cur_init(&c, base + 8, HEADER - 8);
    read_header(&h, &c);
    rc = check_header(&h, base, len, err);
    if (rc)
        return rc;
    p->flags = h.flags;
    p->plan = h.plan;
    memcpy(p->key, base + KEY_AT, SL_SHA256);
    p->meta = base + h.meta;
    p->meta_bytes = (size_t)h.n_meta;
    p->data = base + h.data;
    p->data_offset = (size_t)h.data;
    p->data_bytes = (size_t)h.n_data;
    p->digest = base + h.digests;
    p->n_chunk = (size_t)h.n_chunk;
    return read_table(p, base, &h, err);
}

int sl_packed_parse(struct sl_packed **out, const void *bytes, size_t len,
                    const char *path, struct sl_err *err)
{
    struct sl_packed *p = NULL;
    int rc = sl_mem_alloc(&p, 1, sizeof(*p), "a packed file", err);

    if (!rc)
        rc = sl_mem_dup(&p->path, path, strlen(path), err);
    if (!rc)
        rc = fill(p, bytes, len, err);
    if (rc)
        sl_packed_close(&p);
    else
        *out = p;
    return sl_wrap(err, rc, "reading '%.300s'", path);
}

bool sl_packed_is(const char *path)
{
    struct sl_map map = {0};
    bool is;

    if (sl_file_kind(path) != SL_FILE_REGULAR || sl_map_open(&map, path, NULL))
        return false;
    is = map.len >= 8 && !memcmp(map.p, MAGIC, 8);
    sl_map_close(&map);
    return is;
}

int sl_packed_open(struct sl_packed **out, const char *path, struct sl_err *err)
{
    struct sl_map map = {0};
    int rc = sl_map_open(&map, path, err);

    if (rc)
        return rc;
    rc = sl_packed_parse(out, map.p, map.len, path, err);
    if (rc)
        sl_map_close(&map);
    else
        (*out)->map = map;
    return rc;
}

void sl_packed_close(struct sl_packed **out)
{
    struct sl_packed *p = *out;

    if (!p)
        return;
    *out = NULL;
    sl_map_close(&p->map);
    sl_mem_free(p->path);
    sl_mem_free(p->item);
    sl_mem_free(p);
}

static size_t chunk_bytes(size_t i, size_t data_bytes)
{
    return sl_min(SL_PACKED_CHUNK, data_bytes - i * SL_PACKED_CHUNK);
}

bool sl_packed_chunk_ok(const struct sl_packed *p, size_t i)
{
    uint8_t digest[SL_SHA256];

    SL_CHECK(i < p->n_chunk);
    return sl_sha256_of(digest, p->data + i * SL_PACKED_CHUNK,
                        chunk_bytes(i, p->data_bytes)) &&
           !memcmp(digest, p->digest + i * SL_SHA256, SL_SHA256);
}

int sl_packed_bad_chunk(const struct sl_packed *p, size_t i, struct sl_err *err)
{
    size_t at = p->data_offset + i * SL_PACKED_CHUNK;

    return sl_fail(err, SL_EFORMAT,
                   "'%.300s' is damaged between bytes %zu and %zu: they have "
                   "not the digest that they were written with; remove the "
                   "file, and it is made again",
                   p->path, at, at + chunk_bytes(i, p->data_bytes));
}

/* --- writing --- */

int sl_packed_lay_out(struct sl_packed_plan *p, struct sl_err *err)
{
    size_t table = 0, end = 0;

    p->n_chunk = p->data_bytes / SL_PACKED_CHUNK +
                 (p->data_bytes % SL_PACKED_CHUNK != 0);
    p->table = sl_round_up(HEADER + p->meta_bytes, ALIGN);
    if (p->n_item > MAX_ITEM ||
        !sl_add_size(&table, p->table, p->n_item * ENTRY) ||
        !sl_add_size(&end, table, p->n_chunk * SL_SHA256))
        return sl_fail(err, SL_EUNSUP,
                       "the model has %zu weights; the limit is %u", p->n_item,
                       MAX_ITEM);
    p->digests = table;
    p->data = sl_round_up(end, PAGE);
    if (!sl_add_size(&p->bytes, p->data, p->data_bytes))
        return sl_fail(err, SL_EUNSUP, "the model does not fit 64 bits");
    return 0;
}

static void put(unsigned char *p, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

void sl_packed_put_digest(const struct sl_packed_plan *p, unsigned char *base,
                          size_t i)
{
    /* A failure leaves zeros, which no digest is. */
    (void)sl_sha256_of(base + p->digests + i * SL_SHA256,
                       base + p->data + i * SL_PACKED_CHUNK,
                       chunk_bytes(i, p->data_bytes));
}

void sl_packed_put_item(const struct sl_packed_plan *p, unsigned char *base,
                        size_t i, const struct sl_packed_item *it)
{
    unsigned char *e = base + p->table + i * ENTRY;

    put(e, it->kind, 4);
    put(e + 4, (uint64_t)it->type, 4);
    put(e + 8, it->rows, 8);
    put(e + 16, it->cols, 8);
    put(e + 24, it->offset, 8);
    put(e + 32, it->bytes, 8);
    put(e + 40, it->scale_offset, 8);
    put(e + 48, it->scale_bytes, 8);
}

int sl_packed_put_head(const struct sl_packed_plan *p, unsigned char *base,
                       const void *meta, const uint8_t key[SL_SHA256],
                       struct sl_err *err)
{
    const uint64_t field[] = {p->bytes,      p->flags,   p->plan,   HEADER,
                              p->meta_bytes, p->table,   p->n_item, p->data,
                              p->data_bytes, p->digests, p->n_chunk};

    memcpy(base, MAGIC, 8);
    put(base + 8, SL_PACKED_VERSION, 4);
    put(base + 12, SL_PACKED_LAYOUT, 4);
    for (size_t i = 0; i < SL_COUNTOF(field); i++)
        put(base + 16 + 8 * i, field[i], 8);
    memcpy(base + KEY_AT, key, SL_SHA256);
    memcpy(base + HEADER, meta, p->meta_bytes);
    if (!head_digest(base + DIGEST_AT, base, p->data))
        return sl_fail(err, SL_ENOMEM, "the digest of the head failed");
    return 0;
}
