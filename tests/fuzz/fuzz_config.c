/* tests/fuzz/fuzz_config.c - config.json
 *
 * What is refused must say why. What is accepted must keep every promise that
 * the engine builds on, and come out the same when it is written as a plain
 * config and read again.
 */
#include "model/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check_promises(const struct sl_conf *c)
{
    uint64_t conv =
        2 * (uint64_t)c->n_key * c->key_dim + (uint64_t)c->n_val * c->val_dim;

    SL_CHECK(c->vocab > 0 && c->hidden > 0 && c->n_layer > 0);
    SL_CHECK(c->n_layer <= SL_MAX_LAYER);
    SL_CHECK(c->max_pos > 0 && c->max_pos <= 1u << 19);
    SL_CHECK(c->eps >= 0 && c->eps < 1);
    SL_CHECK(c->n_kv_head > 0 && c->n_head % c->n_kv_head == 0);
    SL_CHECK(c->n_head > 0 && c->n_key > 0 && c->n_val > 0);
    SL_CHECK(c->n_val % c->n_key == 0);
    SL_CHECK(c->head_dim > 0 && c->head_dim <= 256 && c->head_dim % 16 == 0);
    SL_CHECK(c->key_dim > 0 && c->key_dim <= 256 && c->key_dim % 16 == 0);
    SL_CHECK(c->val_dim > 0 && c->val_dim <= 256 && c->val_dim % 16 == 0);
    SL_CHECK(c->rot_dim > 0 && c->rot_dim % 2 == 0);
    SL_CHECK(c->rot_dim <= c->head_dim);
    SL_CHECK(c->theta >= 1);
    SL_CHECK(c->conv_dim == conv);
    SL_CHECK((uint64_t)c->n_head * 2 * c->head_dim <= UINT32_MAX);
    SL_CHECK(c->n_expert <= SL_MAX_EXPERT && c->n_used <= c->n_expert);
    SL_CHECK((c->n_expert > 0) == (c->n_used > 0));
    SL_CHECK((uint64_t)c->n_used * c->expert_ffn <= UINT32_MAX);
    SL_CHECK(c->n_mtp <= 1);
    SL_CHECK(c->n_eos <= SL_COUNTOF(c->eos));
    for (uint32_t i = 0; i < c->n_eos; i++)
        SL_CHECK(c->eos[i] >= 0 && (uint32_t)c->eos[i] < c->vocab);
    for (uint32_t i = 0; i < c->n_layer; i++) {
        SL_CHECK(c->kind[i] <= SL_LAYER_FULL);
        SL_CHECK(c->dense[i] ? c->ffn > 0 : c->n_expert > 0);
    }
}

static void put(json_t *j, const char *key, int64_t v)
{
    json_object_set_new(j, key, json_integer(v));
}

static json_t *lists(json_t *j, const struct sl_conf *c)
{
    json_t *kind = json_array(), *dense = json_array(), *eos = json_array();

    for (uint32_t i = 0; i < c->n_layer; i++) {
        json_array_append_new(kind, json_string(c->kind[i] == SL_LAYER_FULL
                                                    ? "full_attention"
                                                    : "linear_attention"));
        if (c->dense[i])
            json_array_append_new(dense, json_integer(i));
    }
    for (uint32_t i = 0; i < c->n_eos; i++)
        json_array_append_new(eos, json_integer(c->eos[i]));
    json_object_set_new(j, "layer_types", kind);
    json_object_set_new(j, "mlp_only_layers", dense);
    json_object_set_new(j, "eos_token_id", eos);
    return j;
}

/* The same model as a flat config. */
static json_t *as_json(const struct sl_conf *c)
{
    json_t *j = json_object();

    json_object_set_new(j, "architectures", json_array());
    if (!strncmp(c->arch, "Qwen", 4))
        json_array_append_new(json_object_get(j, "architectures"),
                              json_string(c->arch));
    else
        json_object_set_new(j, "model_type", json_string(c->arch));
    put(j, "vocab_size", c->vocab);
    put(j, "hidden_size", c->hidden);
    put(j, "num_hidden_layers", c->n_layer);
    put(j, "max_position_embeddings", c->max_pos);
    put(j, "num_attention_heads", c->n_head);
    put(j, "num_key_value_heads", c->n_kv_head);
    put(j, "head_dim", c->head_dim);
    put(j, "linear_num_key_heads", c->n_key);
    put(j, "linear_num_value_heads", c->n_val);
    put(j, "linear_key_head_dim", c->key_dim);
    put(j, "linear_value_head_dim", c->val_dim);
    put(j, "num_experts", c->n_expert);
    put(j, "mtp_num_hidden_layers", c->n_mtp);
    if (c->ffn)
        put(j, "intermediate_size", c->ffn);
    if (c->n_expert) {
        put(j, "num_experts_per_tok", c->n_used);
        put(j, "moe_intermediate_size", c->expert_ffn);
        put(j, "shared_expert_intermediate_size", c->shared_ffn);
    }
    json_object_set_new(j, "rms_norm_eps", json_real((double)c->eps));
    json_object_set_new(j, "rope_theta", json_real(c->theta));
    json_object_set_new(j, "partial_rotary_factor",
                        json_real((double)c->rot_dim / c->head_dim));
    json_object_set_new(j, "tie_word_embeddings", json_boolean(c->tied));
    json_object_set_new(
        j, "output_gate_type",
        json_string(c->out_gate == SL_GATE_SIGMOID ? "sigmoid" : "silu"));
    return lists(j, c);
}

static void check_again(const struct sl_conf *c)
{
    json_t *j = as_json(c);
    struct sl_conf again;
    struct sl_err err = {0};

    memset(&again, 0, sizeof(again));
    SL_CHECK(!sl_conf_parse(&again, j, &err));
    SL_CHECK(!memcmp(again.kind, c->kind, sizeof(c->kind)));
    SL_CHECK(!memcmp(again.dense, c->dense, sizeof(c->dense)));
    SL_CHECK(!memcmp(again.eos, c->eos, sizeof(c->eos)));
    SL_CHECK(!strcmp(again.arch, c->arch));
    SL_CHECK(again.vocab == c->vocab && again.hidden == c->hidden);
    SL_CHECK(again.rot_dim == c->rot_dim && again.conv_dim == c->conv_dim);
    SL_CHECK(again.ffn == c->ffn && again.n_expert == c->n_expert);
    SL_CHECK(again.tied == c->tied && again.out_gate == c->out_gate);
    SL_CHECK(again.n_mtp == c->n_mtp && again.max_pos == c->max_pos);
    json_decref(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sl_conf c;
    struct sl_err err = {0};
    json_t *j = NULL;
    int rc = sl_json_parse(&j, (const char *)p, n, "input", &err);

    if (!rc)
        rc = sl_conf_parse(&c, j, &err);
    SL_CHECK(rc == 0 || rc == SL_EFORMAT || rc == SL_EUNSUP);
    if (rc) {
        SL_CHECK(*err.msg);
    } else {
        check_promises(&c);
        check_again(&c);
    }
    json_decref(j);
    return 0;
}
