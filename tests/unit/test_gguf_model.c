/* A model as GGUF is the same model: for 1, 2 and 3 value heads per key head,
 * dense and with experts, as published and quantised by us, what is written and
 * read back has the same bytes in memory and gives the same logits to the bit;
 * and so has what a writer of others made of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../help/rig.h"
#include "../help/st_out.h"
#include "model/gguf_write.h"

#define MODELS "tests/golden/models/"
static void write_gguf(const char *to, const struct rig *r, const char *from)
{
    struct sl_source *src = NULL;
    struct sl_err err = {0};

    if (sl_source_open(&src, from, &err) ||
        sl_gguf_write(to, r->w, src, NULL, NULL, &err))
        fail_msg("%s", err.msg);
    sl_source_close(&src);
}

static void same_model(const char *from, enum sl_dtype_plan plan)
{
    char *dir = scratch_make();
    const char *to = scratch_path(dir, "x.gguf");
    struct rig_opts o;
    struct rig a, b;

    rig_opts_init(&o);
    o.plan = plan;
    rig_open(&a, from, NULL, &o);
    write_gguf(to, &a, from);
    o.plan = SL_PLAN_AUTO;
    rig_open(&b, to, NULL, &o);
    assert_int_equal(a.w->bytes, b.w->bytes);
    assert_int_equal(a.w->has_mtp, b.w->has_mtp);
    /* The embedding is the first in the reservation. */
    if (memcmp(a.w->embed.w, b.w->embed.w, a.w->bytes))
        fail_msg("%s, plan %d: other bytes in memory", from, (int)plan);
    assert_true(rig_same_logits(&a, &b));
    rig_close(&a);
    rig_close(&b);
    scratch_remove(dir);
}

/* -exp(A_log) of another's exp may be the neighbour of ours, and nothing else
 * may differ: within two units in the last place, and then made the same. */
static void same_decay(const struct sl_layer_w *a, const struct sl_layer_w *b,
                       size_t n)
{
    float *to = (float *)(uintptr_t)b->lin.a_neg;

    if (a->kind == SL_LAYER_FULL)
        return;
    for (size_t i = 0; i < n; i++) {
        float d = a->lin.a_neg[i] - to[i];

        assert_true(d * d <= 0x1p-44f * to[i] * to[i]);
        to[i] = a->lin.a_neg[i];
    }
}

/* The model of a folder, and the same made GGUF by another's hand. */
static void same_as(const char *folder, const char *gguf)
{
    struct rig_opts o;
    struct rig a, b;

    rig_opts_init(&o);
    rig_open(&a, folder, NULL, &o);
    rig_open(&b, gguf, NULL, &o);
    assert_int_equal(a.w->has_mtp, b.w->has_mtp);
    for (uint32_t i = 0; i < a.w->conf.n_layer; i++)
        same_decay(&a.w->layer[i], &b.w->layer[i], a.w->conf.n_val);
    if (!rig_same_logits(&a, &b))
        fail_msg("%s: other logits", gguf);
    if (a.w->has_mtp) { /* whose weights no logit has seen */
        const struct sl_mtp_w *m = &a.w->mtp, *k = &b.w->mtp;
        size_t h = a.w->conf.hidden;

        assert_memory_equal(m->norm, k->norm, h * sizeof(float));
        assert_memory_equal(m->norm_embed, k->norm_embed, h * sizeof(float));
        assert_memory_equal(m->norm_hidden, k->norm_hidden, h * sizeof(float));
        assert_memory_equal(m->fc.w, k->fc.w, h * 2 * h * 2);
    }
    rig_close(&a);
    rig_close(&b);
}

static void made_by_others(void **state)
{
    static const char *const name[] = {"dense-r1", "dense-r2", "dense-r3",
                                       "moe-r2"};
    char folder[100], gguf[100];

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(name); i++) {
        snprintf(folder, sizeof(folder), MODELS "%s", name[i]);
        snprintf(gguf, sizeof(gguf), "tests/golden/gguf/%s.gguf", name[i]);
        same_as(folder, gguf);
    }
}

static void as_published(void **state)
{
    static const char *const models[] = {
        "dense-r1", "dense-r2",  "dense-r3",   "dense-r1-f32",
        "moe-r2",   "moe-split", "moe-r2-f32", "nested"};
    char path[100];

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(models); i++) {
        snprintf(path, sizeof(path), MODELS "%s", models[i]);
        same_model(path, SL_PLAN_AUTO);
    }
}

static void quantised(void **state)
{
    (void)state;
    same_model(MODELS "dense-r1", SL_PLAN_Q4);
    same_model(MODELS "dense-r3", SL_PLAN_Q4);
    same_model(MODELS "dense-r2", SL_PLAN_Q8);
    same_model(MODELS "moe-r2", SL_PLAN_Q8);
    same_model("models/demo", SL_PLAN_Q4);
    same_model("models/demo-moe", SL_PLAN_Q4);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_by_others),
        cmocka_unit_test(as_published),
        cmocka_unit_test(quantised),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
