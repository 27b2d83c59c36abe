/* config.json: the published models are accepted and have their published
 * sizes; what would be computed wrongly is refused by name and value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../help/st_out.h"
#include "model/conf.h"

static void expect(int rc, int code, const struct sl_err *err, const char *part)
{
    if (rc != code || !strstr(err->msg, part))
        fail_msg("rc %d, '%s' does not say '%s'", rc, err->msg, part);
}

static int parse(struct sl_conf *c, const char *text, struct sl_err *err)
{
    json_t *j = NULL;
    int rc = sl_json_parse(&j, text, strlen(text), "text", err);

    if (rc)
        fail_msg("%s: %s", text, err->msg);
    rc = sl_conf_parse(c, j, err);
    json_decref(j);
    return rc;
}

/* model.md 1.4. Numbers of parameters as published, in three parts. */
static const struct published {
    const char *name;
    unsigned hidden, ffn, n_layer, n_head, n_kv, n_key, n_val, n_expert;
    bool tied;
    uint64_t body, embed, mtp;
} published[] = {
    {"0.8B", 1024, 3584, 24, 8, 2, 16, 16, 0, true, 498113344, 254279680,
     20452864},
    {"2B", 2048, 6144, 24, 8, 2, 16, 16, 0, true, 1373265728, 508559360,
     60828160},
    {"4B", 2560, 9216, 32, 16, 4, 16, 32, 0, true, 3570052096, 635699200,
     120599552},
    {"9B", 4096, 12288, 32, 16, 4, 16, 32, 0, false, 6919565824, 2034237440,
     243290624},
    {"27B", 5120, 17408, 64, 24, 4, 16, 48, 0, false, 24353201664, 2542796800,
     424699392},
    {"35B-A3B", 2048, 0, 40, 16, 2, 16, 32, 256, false, 33643491968, 1017118720,
     844640768},
};

/* The text part of a published config.json. `swish`: 3.6 and later name the
 * gate. */
static void text_part(char *out, size_t cap, const struct published *p,
                      bool swish)
{
    char mlp[300], types[3000] = "";
    size_t len = 0;

    if (p->n_expert)
        snprintf(mlp, sizeof(mlp),
                 "\"num_experts\": %u, \"num_experts_per_tok\": 8, "
                 "\"moe_intermediate_size\": 512, "
                 "\"shared_expert_intermediate_size\": 512, "
                 "\"mlp_only_layers\": [], \"router_aux_loss_coef\": 0.001, ",
                 p->n_expert);
    else
        snprintf(mlp, sizeof(mlp), "\"intermediate_size\": %u, ", p->ffn);
    for (unsigned i = 0; i < p->n_layer; i++)
        len += (size_t)snprintf(
            types + len, sizeof(types) - len, "%s\"%s\"", i ? ", " : "",
            (i + 1) % 4 ? "linear_attention" : "full_attention");
    snprintf(out, cap,
             "\"attention_bias\": false, \"attention_dropout\": 0.0, "
             "\"attn_output_gate\": true, \"dtype\": \"bfloat16\", "
             "\"eos_token_id\": 248044, \"full_attention_interval\": 4, "
             "\"head_dim\": 256, \"hidden_act\": \"silu\", "
             "\"hidden_size\": %u, \"initializer_range\": 0.02, %s"
             "\"layer_types\": [%s], \"linear_conv_kernel_dim\": 4, "
             "\"linear_key_head_dim\": 128, \"linear_num_key_heads\": %u, "
             "\"linear_num_value_heads\": %u, \"linear_value_head_dim\": 128, "
             "\"mamba_ssm_dtype\": \"float32\", "
             "\"max_position_embeddings\": 262144, \"model_type\": "
             "\"qwen3_5%s_text\", \"mtp_num_hidden_layers\": 1, "
             "\"mtp_use_dedicated_embeddings\": false, "
             "\"num_attention_heads\": %u, \"num_hidden_layers\": %u, "
             "\"num_key_value_heads\": %u, %s\"partial_rotary_factor\": 0.25, "
             "\"rms_norm_eps\": 1e-06, \"rope_parameters\": "
             "{\"mrope_interleaved\": true, \"mrope_section\": [11, 11, 10], "
             "\"partial_rotary_factor\": 0.25, \"rope_theta\": 10000000, "
             "\"rope_type\": \"default\"}, \"tie_word_embeddings\": %s, "
             "\"use_cache\": true, \"vocab_size\": 248320",
             p->hidden, mlp, types, p->n_key, p->n_val,
             p->n_expert ? "_moe" : "", p->n_head, p->n_layer, p->n_kv,
             swish ? "\"output_gate_type\": \"swish\", " : "",
             p->tied ? "true" : "false");
}

/* As published: the text model one level down, beside the vision model. */
static void nested_config(char *out, size_t cap, const struct published *p,
                          bool swish)
{
    char text[6000];
    const char *moe = p->n_expert ? "Moe" : "";

    text_part(text, sizeof(text), p, swish);
    snprintf(out, cap,
             "{\"architectures\": [\"Qwen3_5%sForConditionalGeneration\"], "
             "\"image_token_id\": 248056, \"model_type\": \"qwen3_5%s\", "
             "\"text_config\": {%s}, \"tie_word_embeddings\": %s, "
             "\"video_token_id\": 248057, \"vision_config\": {\"depth\": 27, "
             "\"hidden_size\": 1152, \"model_type\": \"qwen3_5%s\", "
             "\"hidden_act\": \"gelu_pytorch_tanh\", \"num_heads\": 16}, "
             "\"vision_end_token_id\": 248054}",
             moe, p->n_expert ? "_moe" : "", text, p->tied ? "true" : "false",
             p->n_expert ? "_moe" : "");
}

static void flat_config(char *out, size_t cap, const struct published *p)
{
    char text[6000];

    text_part(text, sizeof(text), p, true);
    snprintf(out, cap, "{\"architectures\": [\"Qwen3_5%sForCausalLM\"], %s}",
             p->n_expert ? "Moe" : "", text);
}

/* The formulas of model.md 1.4, from our own dimensions. */
static uint64_t full_params(const struct sl_conf *c)
{
    uint64_t h = c->hidden, q = (uint64_t)c->n_head * c->head_dim;
    uint64_t kv = (uint64_t)c->n_kv_head * c->head_dim;

    return q * 2 * h + 2 * kv * h + q * h + 2 * c->head_dim;
}

static uint64_t linear_params(const struct sl_conf *c)
{
    uint64_t h = c->hidden, v = (uint64_t)c->n_val * c->val_dim;

    return c->conv_dim * h + v * h + 2 * c->n_val * h +
           4 * (uint64_t)c->conv_dim + 2 * c->n_val + c->val_dim + v * h;
}

static uint64_t mlp_params(const struct sl_conf *c, bool dense)
{
    uint64_t h = c->hidden;

    if (dense)
        return 3 * h * c->ffn;
    return c->n_expert * h + 3 * c->n_expert * h * c->expert_ffn +
           3 * h * c->shared_ffn + h;
}

static uint64_t body_params(const struct sl_conf *c)
{
    uint64_t n = c->hidden;

    for (uint32_t i = 0; i < c->n_layer; i++)
        n += (c->kind[i] == SL_LAYER_FULL ? full_params(c) : linear_params(c)) +
             mlp_params(c, c->dense[i]) + 2 * c->hidden;
    return n;
}

static uint64_t mtp_params(const struct sl_conf *c)
{
    uint64_t h = c->hidden;

    return 2 * h * h + 3 * h + full_params(c) +
           mlp_params(c, c->n_expert == 0) + 2 * h;
}

static void check_published(const struct sl_conf *c, const struct published *p)
{
    uint64_t embed = (uint64_t)c->vocab * c->hidden * (c->tied ? 1 : 2);

    assert_int_equal(c->hidden, p->hidden);
    assert_int_equal(c->n_layer, p->n_layer);
    assert_int_equal(c->ffn, p->ffn);
    assert_int_equal(c->n_expert, p->n_expert);
    assert_int_equal(c->tied, p->tied);
    assert_int_equal(c->head_dim, 256);
    assert_int_equal(c->rot_dim, 64);
    assert_true(c->theta == 1e7);
    assert_true(c->eps == 1e-6f);
    assert_int_equal(c->max_pos, 262144);
    assert_int_equal(c->out_gate, SL_GATE_SILU);
    assert_int_equal(c->n_mtp, 1);
    assert_int_equal(c->n_eos, 1);
    assert_int_equal(c->eos[0], 248044);
    assert_int_equal(sl_conf_count(c, SL_LAYER_FULL), p->n_layer / 4);
    assert_int_equal(sl_conf_count(c, SL_LAYER_LINEAR), p->n_layer / 4 * 3);
    assert_int_equal(body_params(c), p->body);
    assert_int_equal(embed, p->embed);
    assert_int_equal(mtp_params(c), p->mtp);
}

static void test_published(void **state)
{
    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(published); i++)
        for (int form = 0; form < 3; form++) {
            char text[8000];
            struct sl_conf c;
            struct sl_err err = {0};

            if (form == 2)
                flat_config(text, sizeof(text), &published[i]);
            else
                nested_config(text, sizeof(text), &published[i], form == 1);
            if (parse(&c, text, &err))
                fail_msg("%s: %s", published[i].name, err.msg);
            check_published(&c, &published[i]);
        }
}

/* The class defaults, and the smallest file that says enough. */
static void test_defaults(void **state)
{
    struct sl_conf c;
    struct sl_err err = {0};

    (void)state;
    expect(
        parse(&c, "{\"model_type\":\"qwen3_5_text\",\"rope_theta\":1e6}", &err),
        0, &err, "");
    assert_int_equal(c.hidden, 4096);
    assert_int_equal(c.ffn, 12288);
    assert_int_equal(c.n_layer, 32);
    assert_int_equal(c.n_kv_head, 4);
    assert_int_equal(c.vocab, 248320);
    assert_int_equal(c.max_pos, 32768);
    assert_int_equal(c.n_mtp, 0);
    assert_int_equal(c.n_eos, 0);
    assert_int_equal(c.kind[3], SL_LAYER_FULL);
    assert_int_equal(c.kind[4], SL_LAYER_LINEAR);
    assert_false(c.tied);
    expect(parse(&c,
                 "{\"model_type\":\"qwen3_5_moe\",\"text_config\":"
                 "{\"rope_parameters\":{\"rope_theta\":1e6},"
                 "\"mlp_only_layers\":[1],\"intermediate_size\":96,"
                 "\"full_attention_interval\":2}}",
                 &err),
           0, &err, "");
    assert_int_equal(c.hidden, 2048);
    assert_int_equal(c.n_layer, 40);
    assert_int_equal(c.n_expert, 256);
    assert_int_equal(c.n_used, 8);
    assert_int_equal(c.dense[0], 0);
    assert_int_equal(c.dense[1], 1);
    assert_int_equal(c.ffn, 96);
    assert_int_equal(c.kind[1], SL_LAYER_FULL);
    assert_int_equal(c.kind[2], SL_LAYER_LINEAR);
}

/* A small config with some fields replaced. */
static int parse_with(struct sl_conf *c, const char *fields, struct sl_err *err)
{
    static const char base[] =
        "{\"architectures\":[\"Qwen3_5ForCausalLM\"],\"vocab_size\":100,"
        "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,"
        "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":32,"
        "\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,"
        "\"linear_key_head_dim\":16,\"linear_value_head_dim\":32,"
        "\"rope_parameters\":{\"rope_theta\":10000}}";
    json_t *j = json_loads(base, 0, NULL), *o = json_loads(fields, 0, NULL);
    int rc;

    if (!j || !o)
        fail_msg("the test itself: %s", fields);
    json_object_update(j, o);
    rc = sl_conf_parse(c, j, err);
    json_decref(j);
    json_decref(o);
    return rc;
}

static void test_refused(void **state)
{
    static const struct {
        const char *fields;
        int code;
        const char *want; /* the name and the value */
    } bad[] = {
        {"{\"architectures\":[\"LlamaForCausalLM\"]}", SL_EUNSUP,
         "'LlamaForCausalLM'"},
        {"{\"architectures\":[\"Qwen3_5ForCausalLM2\"]}", SL_EUNSUP,
         "'Qwen3_5ForCausalLM2'"},
        {"{\"architectures\":[\"Qwen3NextForCausalLM\"]}", SL_EUNSUP,
         "'Qwen3NextForCausalLM'"},
        {"{\"architectures\":null}", SL_EUNSUP, "what model this is"},
        {"{\"model_type\":\"qwen3_5_flash_next\"}", SL_EUNSUP,
         "'qwen3_5_flash_next'"},
        {"{\"model_type\":\"qwen3_next\"}", SL_EUNSUP, "'qwen3_next'"},
        {"{\"text_config\":{\"model_type\":\"qwen3_8\"}}", SL_EUNSUP,
         "'qwen3_8'"},
        {"{\"attention_bias\":true}", SL_EUNSUP, "attention_bias is true"},
        {"{\"attn_output_gate\":false}", SL_EUNSUP,
         "attn_output_gate is false"},
        {"{\"hidden_act\":\"gelu\"}", SL_EUNSUP, "hidden_act is 'gelu'"},
        {"{\"mtp_use_dedicated_embeddings\":true}", SL_EUNSUP,
         "mtp_use_dedicated_embeddings is true"},
        {"{\"linear_conv_kernel_dim\":3}", SL_EUNSUP,
         "linear_conv_kernel_dim is 3"},
        {"{\"output_gate_type\":\"tanh\"}", SL_EUNSUP,
         "output_gate_type is 'tanh'"},
        {"{\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":1e4}}",
         SL_EUNSUP, "rope_type is 'yarn'"},
        {"{\"rope_parameters\":null,\"rope_theta\":1e4,"
         "\"rope_scaling\":{\"type\":\"linear\"}}",
         SL_EUNSUP, "rope_type is 'linear'"},
        {"{\"rope_parameters\":{}}", SL_EFORMAT, "'rope_theta' is missing"},
        {"{\"rope_parameters\":[]}", SL_EUNSUP, "not an object"},
        {"{\"rope_parameters\":{\"rope_theta\":0}}", SL_EFORMAT, "rope_theta"},
        {"{\"partial_rotary_factor\":0}", SL_EUNSUP, "partial_rotary_factor 0"},
        {"{\"partial_rotary_factor\":0.1}", SL_EUNSUP, "3 rotating channels"},
        {"{\"partial_rotary_factor\":1.5}", SL_EFORMAT, "1.5"},
        {"{\"head_dim\":24}", SL_EUNSUP, "head_dim is 24"},
        {"{\"head_dim\":272}", SL_EFORMAT, "272"},
        {"{\"linear_key_head_dim\":40}", SL_EUNSUP,
         "linear_key_head_dim is 40"},
        {"{\"linear_value_head_dim\":8}", SL_EFORMAT, "linear_value_head_dim"},
        {"{\"num_attention_heads\":0}", SL_EFORMAT, "num_attention_heads"},
        {"{\"num_key_value_heads\":0}", SL_EFORMAT, "num_key_value_heads"},
        {"{\"linear_num_key_heads\":0}", SL_EFORMAT, "linear_num_key_heads"},
        {"{\"linear_num_value_heads\":0}", SL_EFORMAT,
         "linear_num_value_heads"},
        {"{\"num_attention_heads\":5}", SL_EFORMAT,
         "5 and must be a multiple of num_key_value_heads, which is 2"},
        {"{\"linear_num_value_heads\":3}", SL_EFORMAT,
         "3 and must be a multiple of linear_num_key_heads, which is 2"},
        {"{\"hidden_size\":0}", SL_EFORMAT, "hidden_size"},
        {"{\"hidden_size\":-1}", SL_EFORMAT, "-1"},
        {"{\"hidden_size\":\"64\"}", SL_EFORMAT, "hidden_size"},
        {"{\"hidden_size\":4294967296}", SL_EFORMAT, "4294967296"},
        {"{\"vocab_size\":0}", SL_EFORMAT, "vocab_size"},
        {"{\"vocab_size\":2147483647}", SL_EFORMAT, "2147483647"},
        {"{\"intermediate_size\":0}", SL_EFORMAT, "intermediate_size"},
        {"{\"num_hidden_layers\":0}", SL_EFORMAT, "num_hidden_layers"},
        {"{\"num_hidden_layers\":1025}", SL_EFORMAT, "1025"},
        {"{\"max_position_embeddings\":0}", SL_EFORMAT,
         "max_position_embeddings"},
        {"{\"rms_norm_eps\":2}", SL_EFORMAT, "rms_norm_eps"},
        {"{\"layer_types\":[\"full_attention\"]}", SL_EFORMAT,
         "layer_types has 1 entries and num_hidden_layers is 4"},
        {"{\"num_hidden_layers\":1,\"layer_types\":[\"sliding_attention\"]}",
         SL_EUNSUP, "'sliding_attention'"},
        {"{\"num_hidden_layers\":1,\"layer_types\":[3]}", SL_EUNSUP,
         "layer_types"},
        {"{\"full_attention_interval\":0}", SL_EFORMAT,
         "full_attention_interval"},
        {"{\"num_experts\":4,\"num_experts_per_tok\":5}", SL_EFORMAT,
         "num_experts_per_tok"},
        {"{\"num_experts\":4,\"num_experts_per_tok\":0}", SL_EFORMAT,
         "num_experts_per_tok"},
        {"{\"num_experts\":5000}", SL_EFORMAT, "5000"},
        {"{\"num_experts\":6}", SL_EFORMAT,
         "'num_experts_per_tok' is missing, and 8"},
        {"{\"num_experts\":4,\"num_experts_per_tok\":2,"
         "\"mlp_only_layers\":[4]}",
         SL_EUNSUP, "mlp_only_layers"},
        {"{\"num_experts\":4,\"num_experts_per_tok\":2,"
         "\"decoder_sparse_step\":2}",
         SL_EUNSUP, "decoder_sparse_step"},
        {"{\"eos_token_id\":100}", SL_EFORMAT, "from 0 to 99"},
        {"{\"eos_token_id\":[1,2,3,4,5,6,7,8,9]}", SL_EUNSUP, "9 tokens"},
        {"{\"eos_token_id\":\"x\"}", SL_EFORMAT, "eos_token_id"},
        {"{\"tie_word_embeddings\":1}", SL_EFORMAT, "tie_word_embeddings"},
        {"{\"quantization\":{\"bits\":4}}", SL_EUNSUP, "MLX"},
        {"{\"quantization_config\":{\"quant_method\":\"awq\"}}", SL_EUNSUP,
         "'awq'"},
        {"{\"quantization_config\":{}}", SL_EUNSUP, "quant_method"},
        {"{\"quantization_config\":{\"quant_method\":\"fp8\","
         "\"fmt\":\"e5m2\"}}",
         SL_EUNSUP, "'e5m2'"},
        {"{\"quantization_config\":{\"quant_method\":\"fp8\","
         "\"weight_block_size\":[64,128]}}",
         SL_EUNSUP, "[64, 128]"},
    };

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(bad); i++) {
        struct sl_conf c;
        struct sl_err err = {0};
        int rc = parse_with(&c, bad[i].fields, &err);

        if (rc != bad[i].code || !strstr(err.msg, bad[i].want))
            fail_msg("%s: rc %d, %s", bad[i].fields, rc, err.msg);
    }
}

static void test_top_level(void **state)
{
    struct sl_conf c;
    struct sl_err err = {0};

    (void)state;
    expect(parse_with(&c, "{}", &err), 0, &err, "");
    assert_false(c.tied);
    expect(parse_with(&c,
                      "{\"tie_word_embeddings\":true,\"text_config\":"
                      "{\"tie_word_embeddings\":false}}",
                      &err),
           0, &err, "");
    assert_true(c.tied);
    expect(parse_with(&c, "{\"text_config\":{\"tie_word_embeddings\":true}}",
                      &err),
           0, &err, "");
    assert_true(c.tied);
    /* What text_config lacks comes from the top level, also as null. */
    expect(parse_with(&c,
                      "{\"text_config\":{\"hidden_size\":32,"
                      "\"vocab_size\":null}}",
                      &err),
           0, &err, "");
    assert_int_equal(c.hidden, 32);
    assert_int_equal(c.vocab, 100);
    expect(parse_with(&c, "{\"output_gate_type\":\"sigmoid\"}", &err), 0, &err,
           "");
    assert_int_equal(c.out_gate, SL_GATE_SIGMOID);
    expect(parse_with(&c, "{\"max_position_embeddings\":1010000}", &err), 0,
           &err, "");
    assert_int_equal(c.max_pos, 524288);
    expect(parse_with(&c, "{\"mtp_num_hidden_layers\":2}", &err), 0, &err, "");
    assert_int_equal(c.n_mtp, 0);
}

static void write_text(const char *dir, const char *file, const char *text)
{
    scratch_write(dir, file, text, strlen(text));
}

static void test_load(void **state)
{
    char *dir = scratch_make();
    struct sl_conf c;
    struct sl_err err = {0};

    (void)state;
    expect(sl_conf_load(&c, dir, &err), SL_ENOTFOUND, &err,
           "not the folder of a checkpoint");
    write_text(dir, "config.json",
               "{\"model_type\":\"qwen3_5\",\"rope_theta\":1e6,"
               "\"eos_token_id\":7}");
    expect(sl_conf_load(&c, dir, &err), 0, &err, "");
    assert_int_equal(c.n_eos, 1);
    assert_int_equal(c.eos[0], 7);
    write_text(dir, "generation_config.json", "{\"temperature\":1.0}");
    expect(sl_conf_load(&c, dir, &err), 0, &err, "");
    assert_int_equal(c.eos[0], 7);
    write_text(dir, "generation_config.json",
               "{\"eos_token_id\":[248046,248044]}");
    expect(sl_conf_load(&c, dir, &err), 0, &err, "");
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos[0], 248046);
    assert_int_equal(c.eos[1], 248044);
    write_text(dir, "generation_config.json", "{");
    expect(sl_conf_load(&c, dir, &err), SL_EFORMAT, &err,
           "generation_config.json");
    write_text(dir, "config.json", "[1]");
    expect(sl_conf_load(&c, dir, &err), SL_EFORMAT, &err, "not a JSON object");
    scratch_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published), cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_top_level),
        cmocka_unit_test(test_load),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
