/* tests/fuzz/fuzz_gguf.c - a GGUF file
 *
 * The input is a whole file. What is refused must say why. What is accepted
 * must have every value and tensor inside of the file, and no two tensors on
 * one byte; every value is read.
 */
#include "base/mem.h"
#include "file/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check_value(const struct sl_gguf *g, const struct sl_gguf_kv *kv,
                        const uint8_t *p, size_t n)
{
    const struct sl_gguf_kv *a = NULL;
    struct sl_err err = {0};
    const char *s = NULL;
    size_t len = 0;
    struct sl_cur c;
    int64_t i = 0;
    double f = 0;
    bool b;

    SL_CHECK(kv->p >= p && kv->len <= n && kv->p + kv->len <= p + n);
    SL_CHECK(sl_gguf_find(g, kv->key) == kv);
    SL_CHECK(sl_gguf_i64(&i, g, kv->key, true, -5, 5, &err) ||
             (i >= -5 && i <= 5));
    SL_CHECK(sl_gguf_f64(&f, g, kv->key, true, 0, 1, &err) ||
             (f >= 0 && f <= 1));
    SL_CHECK(sl_gguf_bool(&b, g, kv->key, true, &err) <= 0);
    if (!sl_gguf_str(&s, &len, g, kv->key, true, &err))
        SL_CHECK(s >= (const char *)p && s + len <= (const char *)p + n);
    if (!sl_gguf_ints(&a, g, kv->key, true, &err))
        for (uint64_t k = 0; k < a->n; k++)
            (void)sl_gguf_int(a, k);
    if (sl_gguf_strs(&a, g, kv->key, true, &err))
        return;
    sl_gguf_walk(&c, a);
    for (uint64_t k = 0; k < a->n; k++)
        SL_CHECK(sl_gguf_next(&c, &len));
    SL_CHECK(!c.bad && sl_cur_left(&c) == 0);
}

static void check_tensor(const struct sl_gguf *g, size_t i, size_t n)
{
    const struct sl_gguf_ten *t = &g->ten[i];

    SL_CHECK(*t->name && *sl_gguf_type_name(t->type));
    SL_CHECK(t->bytes > 0 && t->offset <= n && t->bytes <= n - t->offset);
    for (size_t k = 0; k < i && k < 16; k++) {
        const struct sl_gguf_ten *u = &g->ten[k];

        SL_CHECK(u->offset + u->bytes <= t->offset ||
                 t->offset + t->bytes <= u->offset);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sl_gguf *g = NULL;
    struct sl_err err = {0};
    int rc = sl_gguf_parse(&g, p, n, "input", &err);

    SL_CHECK(rc == 0 || rc == SL_EFORMAT || rc == SL_EUNSUP);
    if (rc) {
        SL_CHECK(!g);
        SL_CHECK(*err.msg);
        return 0;
    }
    for (size_t i = 0; i < g->n_kv; i++)
        check_value(g, &g->kv[i], p, n);
    for (size_t i = 0; i < g->n_ten; i++)
        check_tensor(g, i, n);
    sl_gguf_close(&g);
    return 0;
}
