/* DFlash drafters: parity with the definition in train/model.py on random small
 * checkpoints of both generations (tests/golden/make_flash.py), and what is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "model/dflash.h"
#include "../help/rig.h"
#include "../help/st_out.h"

#define TARGET "tests/golden/models/dense-r2"
#define BROKEN "build/test-flash"
#define REL 2e-4f /* of the largest logit; fp32 rounding is below 1e-5 */

struct vectors {
    char *bytes;
    int32_t n_ctx, anchor, block, vocab;
    const float *taps, *logits;
    const int32_t *draft;
};

static void read_vectors(struct vectors *v, const char *path, uint32_t width)
{
    size_t len = 0;
    struct sl_err err = {0};
    int32_t head[4];
    float *f;

    if (sl_file_read(&v->bytes, &len, path, 1 << 20, &err))
        fail_msg("%s", err.msg);
    memcpy(head, v->bytes, sizeof(head));
    v->n_ctx = head[0];
    v->anchor = head[1];
    v->block = head[2];
    v->vocab = head[3];
    f = (float *)(void *)(v->bytes + sizeof(head));
    v->taps = f;
    v->logits = f + (size_t)v->n_ctx * width;
    v->draft = (const int32_t *)(const void *)(v->logits +
                                               (v->block - 1) * v->vocab);
    assert_int_equal((const char *)(v->draft + v->block - 1) - v->bytes, len);
}

/* A rig whose pages have a plane for the drafter. */
static void open_memory(struct rig *r, const struct sl_flash *f,
                        struct sl_memory **out, struct sl_flash *set)
{
    struct sl_kv_plane plane[SL_MODEL_PLANES + 1];
    struct sl_memory_opts o = {.planes = plane,
                               .kv_type = SL_F32,
                               .n_page = 16,
                               .max_tok = 256,
                               .n_seq = 2,
                               .n_draft = 2,
                               .n_slot = 3};

    o.n_plane = sl_model_planes(&r->w->conf, true, plane);
    sl_flash_plane(f, &plane[o.n_plane]);
    sl_flash_set_plane(set, o.n_plane++);
    sl_model_rec_shape(&r->w->conf, 0, &o.rec);
    assert_int_equal(sl_memory_open(out, &o, NULL), 0);
}

/* Fewer drafts than a block has: so many of each of two equal sequences, in the
 * places of a whole block, and nothing behind them. */
static void fewer(struct sl_flash *f, struct sl_model *m,
                  struct sl_flash_blocks b, const int32_t *whole)
{
    uint32_t each = sl_flash_get_conf(f)->block - 1;
    int32_t draft[2 * SL_FLASH_MAX_BLOCK];

    b.draft = draft;
    b.logits = NULL;
    for (b.n_draft = 1; b.n_draft <= each; b.n_draft++) {
        memset(draft, 0xff, sizeof(draft));
        sl_flash_draft(f, m, &b);
        for (uint32_t i = 0; i < each; i++) {
            assert_int_equal(draft[i], draft[each + i]);
            assert_int_equal(draft[i] >= 0, i < b.n_draft);
        }
    }
    assert_memory_equal(draft, whole, 2 * each * sizeof(*draft));
}

/* Context in chunks of `chunk` rows, then a block, for two sequences at once. */
static void parity(const char *name, uint32_t chunk, unsigned n_thread)
{
    char dir[100], bin[100];
    struct rig_opts ro;
    struct rig r;
    struct sl_flash *f = NULL;
    struct sl_err err = {0};
    struct sl_memory *mem = NULL;
    struct sl_seq *q[2];
    struct vectors v;
    struct sl_model_opts mo = {.max_row = 64, .max_seq = 2, .max_logit = 16};
    const struct sl_flash_conf *c;
    int32_t draft[2 * SL_FLASH_MAX_BLOCK], anchor[2];
    struct sl_flash_blocks b;
    float *logits, most = 0;
    size_t n;

    snprintf(dir, sizeof(dir), "tests/golden/models/%s", name);
    snprintf(bin, sizeof(bin), "tests/golden/vectors/%s.bin", name);
    rig_opts_init(&ro);
    ro.n_thread = n_thread;
    rig_open(&r, TARGET, NULL, &ro);
    if (sl_flash_open(&f, dir, r.w, SL_N_DTYPE, r.pool, &mo, &err))
        fail_msg("%s", err.msg);
    c = sl_flash_get_conf(f);
    read_vectors(&v, bin, c->n_tap * c->hidden);
    assert_int_equal(c->block, v.block);
    open_memory(&r, f, &mem, f);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sl_seq_open(&q[i], mem, NULL), 0);
        assert_int_equal(
            sl_seq_reserve(q[i], (uint32_t)(v.n_ctx + v.block), NULL), 0);
        anchor[i] = v.anchor;
    }
    for (uint32_t pos = 0; pos < (uint32_t)v.n_ctx; pos += chunk)
        for (int i = 0; i < 2; i++) {
            uint32_t k = (uint32_t)sl_min(chunk, (uint32_t)v.n_ctx - pos);
            struct sl_flash_rows rows = {
                .seq = &q[i],
                .n_seq = 1,
                .n = &k,
                .pos = &pos,
                .n_row = k,
                .taps = v.taps + (size_t)pos * c->n_tap * c->hidden};

            sl_flash_see(f, r.m, &rows);
        }
    q[0]->n_tok = q[1]->n_tok = (uint32_t)v.n_ctx;
    n = (size_t)(v.block - 1) * (size_t)v.vocab;
    logits = calloc(2 * n, sizeof(*logits));
    b = (struct sl_flash_blocks){.seq = q,
                                 .n_seq = 2,
                                 .anchor = anchor,
                                 .n_vocab = (uint32_t)v.vocab,
                                 .draft = draft,
                                 .logits = logits};
    sl_flash_draft(f, r.m, &b);
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(v.logits[i]));
    for (size_t i = 0; i < 2 * n; i++)
        if (!(fabsf(logits[i] - v.logits[i % n]) <= REL * most))
            fail_msg("%s: logit %zu is %g, not %g", name, i, (double)logits[i],
                     (double)v.logits[i % n]);
    for (int i = 0; i < 2 * (v.block - 1); i++)
        assert_int_equal(draft[i], v.draft[i % (v.block - 1)]);
    fewer(f, r.m, b, draft);
    q[0]->n_tok = q[1]->n_tok = 0;
    sl_seq_close(&q[0]);
    sl_seq_close(&q[1]);
    free(logits);
    sl_file_free(v.bytes);
    sl_memory_close(&mem);
    sl_flash_close(&f);
    rig_close(&r);
}

static void test_parity(void **state)
{
    (void)state;
    parity("flash-v1", 64, 1);
    parity("flash-v1", 5, 2);
    parity("flash-v2", 64, 2);
    parity("flash-v2", 1, 1);
}

static bool all_full; /* no layer of the config.json below slides */

/* The second generation's config.json with `key` changed to `value`. */
static void refused(const char *key, const char *sub, json_t *value, int code,
                    const char *word)
{
    struct sl_err err = {0};
    struct sl_flash_conf c;
    struct sl_conf *target = calloc(1, sizeof(*target));
    json_t *j = NULL, *at;

    assert_int_equal(sl_json_load(&j, "tests/golden/models/flash-v2/config.json",
                                  1 << 20, NULL),
                     0);
    at = sub ? json_object_get(j, sub) : j;
    if (all_full)
        json_object_set_new(j, "layer_types",
                            json_pack("[s,s]", "full_attention",
                                      "full_attention"));
    if (value)
        json_object_set_new(at, key, value);
    else
        json_object_del(at, key);
    mkdir("build", 0777);
    mkdir(BROKEN, 0777);
    assert_int_equal(json_dump_file(j, BROKEN "/config.json", 0), 0);
    json_decref(j);
    assert_int_equal(sl_conf_load(target, TARGET, NULL), 0);
    assert_int_equal(sl_flash_conf_load(&c, BROKEN, target, &err), code);
    if (!strstr(err.msg, word))
        fail_msg("'%s' does not say '%s'", err.msg, word);
    free(target);
}

static void test_refusals(void **state)
{
    static const char *const flash = "dflash_config";

    (void)state;
    refused("hidden_size", NULL, json_integer(128), SL_EFORMAT,
            "another model");
    refused("vocab_size", NULL, json_integer(97), SL_EFORMAT, "another model");
    refused("num_target_layers", NULL, json_integer(5), SL_EFORMAT,
            "another model");
    refused("target_layer_ids", flash, json_pack("[i,i]", 0, 4), SL_EFORMAT,
            "below 4");
    refused("target_layer_ids", flash, json_pack("[i,i]", 2, 1), SL_EFORMAT,
            "rising");
    refused("target_layer_ids", flash, json_array(), SL_EFORMAT, "0 layers");
    refused("architectures", NULL, json_pack("[s]", "DSparkDraftModel"),
            SL_EUNSUP, "DSparkDraftModel");
    refused("mask_token_id", flash, NULL, SL_EFORMAT, "mask_token_id");
    refused("block_size", NULL, json_integer(1), SL_EFORMAT, "block_size");
    refused("block_size", NULL, json_integer(1000), SL_EFORMAT, "block_size");
    refused("sliding_window", NULL, json_integer(0), SL_EFORMAT,
            "sliding_window");
    refused("conv_kernel_size", flash, json_integer(3), SL_EFORMAT,
            "conv_kernel_size");
    refused("num_key_value_heads", NULL, json_integer(4), SL_EFORMAT,
            "divide");
    refused("layer_types", NULL, json_pack("[s,s]", "x", "y"), SL_EFORMAT,
            "layer_types");
    refused("layer_types", NULL,
            json_pack("[s,s,s]", "full_attention", "full_attention",
                      "full_attention"),
            SL_EFORMAT, "3 entries");
    refused("layer_types", NULL, json_pack("[s]", "full_attention"), SL_EFORMAT,
            "1 entries");
    refused("layer_types", NULL, json_string("full_attention"), SL_EFORMAT,
            "0 entries");
    refused("sliding_window", NULL, NULL, SL_EFORMAT, "is missing");
}

/* What would change the arithmetic is not passed over. */
static void test_unknown_keys(void **state)
{
    static const char *const flash = "dflash_config";

    (void)state;
    refused("attention_bias", NULL, json_true(), SL_EUNSUP, "attention_bias");
    refused("mlp_bias", NULL, json_true(), SL_EUNSUP, "mlp_bias");
    refused("hidden_act", NULL, json_string("gelu"), SL_EUNSUP, "gelu");
    refused("rope_scaling", NULL, json_pack("{s:s}", "rope_type", "yarn"),
            SL_EUNSUP, "yarn");
    refused("rope_scaling", NULL, json_pack("{s:s}", "type", "linear"),
            SL_EUNSUP, "linear");
    refused("rope_parameters", NULL, json_pack("{s:s}", "rope_type", "dynamic"),
            SL_EUNSUP, "dynamic");
    refused("rope_parameters", NULL,
            json_pack("{s:f}", "partial_rotary_factor", 0.25), SL_EFORMAT,
            "partial_rotary_factor");
    refused("rope_interleaved", NULL, json_true(), SL_EUNSUP,
            "rope_interleaved");
    refused("rope_is_neox_style", flash, json_false(), SL_EUNSUP,
            "rope_is_neox_style");
    refused("is_causal", NULL, json_string("false"), SL_EFORMAT, "is_causal");
    refused("is_causal", NULL, json_integer(0), SL_EFORMAT, "is_causal");
    refused("rope_scaling", NULL, json_string("yarn"), SL_EFORMAT,
            "not an object");
    /* A window that no layer has is still no window. */
    all_full = true;
    refused("sliding_window", NULL, json_integer(0), SL_EFORMAT,
            "sliding_window");
    all_full = false;
}

/* The first generation's tensors under the second's config: a list. */
static void test_missing_tensors(void **state)
{
    struct rig_opts ro;
    struct rig r;
    struct sl_flash *f = NULL;
    struct sl_err err = {0};
    struct sl_model_opts mo = {.max_row = 64, .max_seq = 2, .max_logit = 16};

    (void)state;
    scratch_link(BROKEN, "config.json", "models/flash-v2/config.json");
    scratch_link(BROKEN, "model.safetensors", "models/flash-v1/model.safetensors");
    rig_opts_init(&ro);
    rig_open(&r, TARGET, NULL, &ro);
    assert_int_equal(sl_flash_open(&f, BROKEN, r.w, SL_N_DTYPE, r.pool, &mo, &err),
                     SL_EFORMAT);
    assert_null(f);
    if (!strstr(err.msg, "base_kernel"))
        fail_msg("'%s' does not name a tensor", err.msg);
    rig_close(&r);
    unlink(BROKEN "/config.json");
    unlink(BROKEN "/model.safetensors");
}

/* The drafter of a shape: the dimensions of the published one, and with random
 * weights in four bits it proposes. */
static void test_random(void **state)
{
    static const uint32_t taps[] = {1, 16, 31, 46, 61};
    struct sl_model_opts mo = {.max_row = 64, .max_seq = 2, .max_logit = 16};
    struct sl_conf target = {.hidden = 5120, .ffn = 17408, .n_layer = 64,
                             .vocab = 248320};
    struct sl_flash_conf c;
    struct sl_flash *f = NULL;
    struct sl_memory *mem = NULL;
    struct sl_seq *q;
    struct sl_err err = {0};
    struct rig_opts ro;
    struct rig r;
    int32_t anchor = 1, draft[7];
    float sure[7];

    (void)state;
    sl_flash_conf_dummy(&c, &target);
    assert_true(c.n_tap == 5 && c.block == 8 && c.ffn == 17408);
    assert_memory_equal(c.tap, taps, sizeof(taps));
    rig_opts_init(&ro);
    rig_open(&r, TARGET, NULL, &ro);
    if (sl_flash_open(&f, NULL, r.w, SL_Q4_0, r.pool, &mo, &err))
        fail_msg("%s", err.msg);
    open_memory(&r, f, &mem, f);
    assert_int_equal(sl_seq_open(&q, mem, NULL), 0);
    assert_int_equal(sl_seq_reserve(q, 8, NULL), 0);
    sl_flash_draft(f, r.m,
                   &(struct sl_flash_blocks){.seq = &q,
                                             .n_seq = 1,
                                             .anchor = &anchor,
                                             .n_vocab = r.w->conf.vocab,
                                             .draft = draft,
                                             .sure = sure});
    for (int i = 0; i < 7; i++)
        assert_true(draft[i] >= 0 && (uint32_t)draft[i] < r.w->conf.vocab &&
                    sure[i] > 0 && sure[i] <= 1);
    sl_seq_close(&q);
    sl_memory_close(&mem);
    sl_flash_close(&f);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parity),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_unknown_keys),
        cmocka_unit_test(test_missing_tensors),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
