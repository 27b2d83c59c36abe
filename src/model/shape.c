/* model/shape.c - the published models' dimensions; see shape.h
 *
 * What all of them share is the default of conf.c: heads of 256 in attention
 * and 128 in DeltaNet, 16 key heads, every fourth layer a full one.
 */
#include "model/shape.h"

#include "base/buf.h"

#define VOCAB 248320
#define MAX_POS 262144
#define MAX_NAMES 512 /* bytes of the list in the message */

struct shape {
    const char *name;
    int hidden, n_layer, ffn, n_head, n_kv_head, n_val;
    bool tied;
    int n_expert, expert_ffn; /* the shared one is as wide */
};

static const struct shape shapes[] = {
    {"qwen3.5-0.8b", 1024, 24, 3584, 8, 2, 16, true, 0, 0},
    {"qwen3.5-2b", 2048, 24, 6144, 8, 2, 16, true, 0, 0},
    {"qwen3.5-4b", 2560, 32, 9216, 16, 4, 32, true, 0, 0},
    {"qwen3.5-9b", 4096, 32, 12288, 16, 4, 32, false, 0, 0},
    {"qwen3.8-27b", 5120, 64, 17408, 24, 4, 48, false, 0, 0},
    {"qwen3.6-35b-a3b", 2048, 40, 0, 16, 2, 32, false, 256, 512},
};

static json_t *config_of(const struct shape *s)
{
    const char *arch =
        s->n_expert ? "Qwen3_5MoeForCausalLM" : "Qwen3_5ForCausalLM";
    json_t *j = json_pack(
        "{s:[s], s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:{s:f}}",
        "architectures", arch, "vocab_size", VOCAB, "max_position_embeddings",
        MAX_POS, "hidden_size", s->hidden, "num_hidden_layers", s->n_layer,
        "num_attention_heads", s->n_head, "num_key_value_heads", s->n_kv_head,
        "linear_num_value_heads", s->n_val, "tie_word_embeddings", s->tied,
        "rope_parameters", "rope_theta", 1e7);
    json_t *mlp =
        s->n_expert
            ? json_pack("{s:i, s:i, s:i}", "num_experts", s->n_expert,
                        "moe_intermediate_size", s->expert_ffn,
                        "shared_expert_intermediate_size", s->expert_ffn)
            : json_pack("{s:i}", "intermediate_size", s->ffn);

    if (!j || !mlp || json_object_update(j, mlp)) {
        json_decref(j);
        j = NULL;
    }
    json_decref(mlp);
    return j;
}

static int unknown(const char *name, struct sl_err *err)
{
    struct sl_buf b;
    int rc;

    sl_buf_init(&b, MAX_NAMES);
    for (size_t i = 0; i < SL_COUNTOF(shapes); i++)
        sl_buf_fmt(&b, "%s%s", i ? ", " : "", shapes[i].name);
    rc = sl_fail(err, SL_EARG, "'%.100s' is no shape; there are %s", name,
                 b.p ? b.p : "");
    sl_buf_deinit(&b);
    return rc;
}

int sl_shape_get(struct sl_conf *out, const char *name, struct sl_err *err)
{
    for (size_t i = 0; i < SL_COUNTOF(shapes); i++) {
        json_t *j;
        int rc;

        if (strcmp(name, shapes[i].name))
            continue;
        j = config_of(&shapes[i]);
        rc = j ? sl_conf_parse(out, j, err)
               : sl_fail(err, SL_ENOMEM, "no memory is left for a shape");
        json_decref(j);
        return rc;
    }
    return unknown(name, err);
}
