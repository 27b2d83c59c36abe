/* model/conf.c - config.json -> struct sl_conf; see conf.h
 *
 * Published checkpoints are vision-language models with the text model one
 * level down, in text_config; text-only exports are flat. Every field is looked
 * for in text_config first and at the top level then; what is absent in both
 * has the value that the reference's config class gives it, but for rope_theta,
 * which is too easily lost and must be there. The one exception to the order is
 * tie_word_embeddings, where the top level decides.
 *
 * A field that would change the arithmetic in a way this engine does not
 * implement is refused by name and value. Fields that only training uses are
 * ignored.
 *
 * Limits. The largest known member has 60 layers, hidden size 5120, 512
 * experts, 64 value heads and a vocabulary of 248,320; ours are some ten times
 * that, and so small that any product of three dimensions fits 64 bits and any
 * product of heads and head widths fits 32:
 */
#include "model/conf.h"

#include "base/file.h"
#include "base/log.h"

#define MAX_CONFIG (4u << 20) /* bytes of config.json */
#define MAX_VOCAB (1 << 24)
#define MAX_HIDDEN (1 << 16)
#define MAX_FFN (1 << 20)
#define MAX_HEADS 1024
#define MAX_HEAD_DIM 256 /* of the attention and delta-rule kernels */
#define HEAD_DIM_STEP 16 /* width of a tile */
#define MAX_USED 256     /* experts of one token */
#define MAX_EPS 0.1
#define MAX_THETA 1e15
/* The rotation is by pos * 1 radians at most and our sine is exact enough up to
 * 2^19 (kern/math.h). */
#define MAX_POS (1 << 19)

static const char *const archs[] = {
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration",
    "Qwen3_5ForCausalLM",
    "Qwen3_5MoeForCausalLM",
};

static const char *const model_types[] = {
    "qwen3_5",
    "qwen3_5_moe",
    "qwen3_5_text",
    "qwen3_5_moe_text",
};

/* The first failure sticks to `rc` (rule E6). */
struct reader {
    const json_t *text, *top; /* text == top in flat files */
    const struct sl_conf_names *names;
    struct sl_err *err;
    int rc;
};

/* What a field is called where it comes from. */
static const char *called(const struct reader *r, const char *key)
{
    const char *s = r->names ? r->names->field(key) : NULL;

    return s ? s : key;
}

/* Where the field is: in the text part unless only the top level has it. */
static const json_t *home(const struct reader *r, const char *key)
{
    const json_t *v = json_object_get(r->text, key);

    return v && !json_is_null(v) ? r->text : r->top;
}

static const json_t *field(const struct reader *r, const char *key)
{
    const json_t *v = json_object_get(home(r, key), key);

    return json_is_null(v) ? NULL : v;
}

static uint32_t get_u32(struct reader *r, const char *key, uint32_t def,
                        uint32_t lo, uint32_t hi)
{
    const json_t *f = field(r, key);
    int64_t v = json_is_integer(f) ? json_integer_value(f) : def;

    if (!r->rc && r->names && f && (v < lo || v > hi))
        r->rc =
            sl_fail(r->err, SL_EFORMAT, "%s is %lld and must be from %u to %u",
                    called(r, key), (long long)v, lo, hi);
    if (!r->rc)
        r->rc = sl_json_i64(&v, home(r, key), key, false, lo, hi, r->err);
    /* Only the default can still be out of a range that depends on others. */
    if (!r->rc && (v < lo || v > hi))
        r->rc = sl_fail(r->err, SL_EFORMAT,
                        "the field '%s' is missing, and %u, which that means, "
                        "is not from %u to %u",
                        key, def, lo, hi);
    return (uint32_t)v;
}

static bool get_bool(struct reader *r, const char *key, bool def)
{
    bool v = def;

    if (!r->rc)
        r->rc = sl_json_bool(&v, home(r, key), key, false, r->err);
    return v;
}

static const char *get_str(struct reader *r, const char *key, const char *def)
{
    const char *v = def;

    if (!r->rc)
        r->rc = sl_json_str(&v, home(r, key), key, false, r->err);
    return v;
}

static void fail(struct reader *r, const char *text)
{
    if (!r->rc)
        r->rc = sl_fail(r->err, SL_EUNSUP, "%s", text);
}

/* Refuse `key` unless its value is `want`. */
static void need_bool(struct reader *r, const char *key, bool want)
{
    bool v = get_bool(r, key, want);

    if (!r->rc && v != want)
        r->rc = sl_fail(r->err, SL_EUNSUP,
                        "%s is %s and only %s is implemented; use another "
                        "checkpoint",
                        key, v ? "true" : "false", want ? "true" : "false");
}

static void refuse(struct reader *r, const char *key, const char *value,
                   const char *known)
{
    if (!r->rc)
        r->rc = sl_fail(r->err, SL_EUNSUP,
                        "%s is '%.80s' and only %s is implemented; use "
                        "another checkpoint",
                        key, value, known);
}

static bool is_among(const char *s, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(s, list[i]))
            return true;
    return false;
}

static void check_model_type(struct reader *r, const json_t *obj,
                             const char **out)
{
    const char *s = NULL;

    if (!r->rc)
        r->rc = sl_json_str(&s, obj, "model_type", false, r->err);
    if (r->rc || !s)
        return;
    if (!is_among(s, model_types, SL_COUNTOF(model_types)))
        refuse(r, "model_type", s,
               "qwen3_5, qwen3_5_moe or one of these with _text");
    *out = s;
}

/* Names must be exactly known: a model that only looks alike computes
 * something else. */
static void read_arch(struct reader *r, struct sl_conf *c, bool *moe)
{
    const json_t *list = json_object_get(r->top, "architectures");
    const char *arch = json_string_value(json_array_get(list, 0));
    const char *type = NULL;

    check_model_type(r, r->top, &type);
    if (r->text != r->top)
        check_model_type(r, r->text, &type);
    if (arch && !is_among(arch, archs, SL_COUNTOF(archs)))
        refuse(r, "the architecture", arch,
               "Qwen3_5[Moe]ForConditionalGeneration or "
               "Qwen3_5[Moe]ForCausalLM");
    if (!arch && !type)
        fail(r, "neither architectures nor model_type says what model this "
                "is; only the Qwen3.5 family is implemented");
    if (r->rc)
        return;
    snprintf(c->arch, sizeof(c->arch), "%s", arch ? arch : type);
    *moe = strstr(c->arch, "Moe") || strstr(c->arch, "moe");
}

static void read_quantization(struct reader *r)
{
    const json_t *q = json_object_get(r->top, "quantization_config");
    struct reader sub = {.text = q, .top = q, .err = r->err, .rc = r->rc};
    const char *method, *fmt;
    int64_t block[2] = {128, 128};
    const json_t *b;

    if (json_object_get(r->top, "quantization"))
        fail(r, "it has a 'quantization' part, so the weights are in MLX's "
                "own block format, which is not implemented; use the original "
                "checkpoint");
    if (r->rc || !q || json_is_null(q))
        return;
    method = get_str(&sub, "quant_method", "absent");
    fmt = get_str(&sub, "fmt", "e4m3");
    if (!sub.rc && strcmp(method, "fp8"))
        refuse(&sub, "quantization_config.quant_method", method, "'fp8'");
    if (!sub.rc && strcmp(fmt, "e4m3"))
        refuse(&sub, "quantization_config.fmt", fmt, "'e4m3'");
    b = json_object_get(q, "weight_block_size");
    for (size_t i = 0; i < 2 && json_is_array(b); i++)
        block[i] = json_integer_value(json_array_get(b, i));
    if (!sub.rc && (block[0] != 128 || block[1] != 128))
        sub.rc = sl_fail(r->err, SL_EUNSUP,
                         "quantization_config.weight_block_size is [%lld, "
                         "%lld] and only [128, 128] is implemented; use "
                         "another checkpoint",
                         (long long)block[0], (long long)block[1]);
    r->rc = sub.rc;
}

static void need_step(struct reader *r, const char *key, uint32_t v)
{
    if (!r->rc && v % HEAD_DIM_STEP != 0)
        r->rc = sl_fail(r->err, SL_EUNSUP,
                        "%s is %u and must be a multiple of %d; use another "
                        "checkpoint",
                        called(r, key), v, HEAD_DIM_STEP);
}

static void need_multiple(struct reader *r, const char *key, uint32_t v,
                          const char *of_key, uint32_t of)
{
    if (!r->rc && v % of != 0)
        r->rc = sl_fail(r->err, SL_EFORMAT,
                        "%s is %u and must be a multiple of %s, which is %u",
                        called(r, key), v, called(r, of_key), of);
}

static double get_f64(struct reader *r, const json_t *first, const char *key,
                      double def, double lo, double hi)
{
    const json_t *v = json_object_get(first, key);
    double x = def;

    if (!r->rc)
        r->rc = sl_json_f64(&x, v && !json_is_null(v) ? first : home(r, key),
                            key, false, lo, hi, r->err);
    return x;
}

static void read_rope(struct reader *r, struct sl_conf *c)
{
    const json_t *p = field(r, "rope_parameters");
    const char *type = NULL;
    double part, rot;

    if (!p)
        p = field(r, "rope_scaling");
    if (p && !json_is_object(p))
        fail(r, "rope_parameters is not an object");
    if (p && !r->rc)
        r->rc = sl_json_str(&type, p, "rope_type", false, r->err);
    if (p && !r->rc && !type) /* older spelling */
        r->rc = sl_json_str(&type, p, "type", false, r->err);
    if (!r->rc && type && strcmp(type, "default"))
        refuse(r, "rope_type", type, "'default'");
    c->theta = get_f64(r, p, "rope_theta", 0, 1, MAX_THETA);
    if (!r->rc && c->theta == 0)
        r->rc = sl_fail(r->err, SL_EFORMAT,
                        "the field 'rope_theta' is missing "
                        "(in rope_parameters or above)");
    part = get_f64(r, p, "partial_rotary_factor", 0.25, 0, 1);
    rot = c->head_dim * part;
    c->rot_dim = (uint32_t)rot;
    if (!r->rc && (c->rot_dim == 0 || c->rot_dim % 2 != 0))
        r->rc = sl_fail(r->err, SL_EUNSUP,
                        "partial_rotary_factor %g of head_dim %u gives %u "
                        "rotating channels; it must be an even number > 0",
                        part, c->head_dim, c->rot_dim);
}

static void read_attention(struct reader *r, struct sl_conf *c, bool moe)
{
    c->n_head = get_u32(r, "num_attention_heads", 16, 1, MAX_HEADS);
    c->n_kv_head = get_u32(r, "num_key_value_heads", moe ? 2 : 4, 1, MAX_HEADS);
    c->head_dim = get_u32(r, "head_dim", 256, HEAD_DIM_STEP, MAX_HEAD_DIM);
    need_step(r, "head_dim", c->head_dim);
    need_multiple(r, "num_attention_heads", c->n_head, "num_key_value_heads",
                  c->n_kv_head);
    need_bool(r, "attention_bias", false);
    need_bool(r, "attn_output_gate", true);
    if (!r->rc)
        read_rope(r, c);
}

static void read_linear(struct reader *r, struct sl_conf *c)
{
    const char *gate;
    uint32_t conv;

    c->n_key = get_u32(r, "linear_num_key_heads", 16, 1, MAX_HEADS);
    c->n_val = get_u32(r, "linear_num_value_heads", 32, 1, MAX_HEADS);
    c->key_dim =
        get_u32(r, "linear_key_head_dim", 128, HEAD_DIM_STEP, MAX_HEAD_DIM);
    c->val_dim =
        get_u32(r, "linear_value_head_dim", 128, HEAD_DIM_STEP, MAX_HEAD_DIM);
    need_step(r, "linear_key_head_dim", c->key_dim);
    need_step(r, "linear_value_head_dim", c->val_dim);
    need_multiple(r, "linear_num_value_heads", c->n_val, "linear_num_key_heads",
                  c->n_key);
    c->conv_dim = 2 * c->n_key * c->key_dim + c->n_val * c->val_dim;
    conv = get_u32(r, "linear_conv_kernel_dim", SL_CONV, 1, UINT32_MAX);
    if (!r->rc && conv != SL_CONV)
        r->rc = sl_fail(r->err, SL_EUNSUP,
                        "%s is %u and only %d is implemented; use another "
                        "checkpoint",
                        called(r, "linear_conv_kernel_dim"), conv, SL_CONV);
    gate = get_str(r, "output_gate_type", "silu");
    if (!r->rc && !strcmp(gate, "sigmoid"))
        c->out_gate = SL_GATE_SIGMOID;
    else if (!r->rc && strcmp(gate, "silu") && strcmp(gate, "swish"))
        refuse(r, "output_gate_type", gate, "'silu', 'swish' or 'sigmoid'");
}

/* layer_types, or every full_attention_interval-th layer is a full one. */
static void read_kinds(struct reader *r, struct sl_conf *c)
{
    const json_t *list = field(r, "layer_types");
    uint32_t step = get_u32(r, "full_attention_interval", 4, 1, SL_MAX_LAYER);

    if (list && !r->rc &&
        (!json_is_array(list) || json_array_size(list) != c->n_layer))
        r->rc = sl_fail(r->err, SL_EFORMAT,
                        "layer_types has %zu entries and num_hidden_layers is "
                        "%u",
                        json_array_size(list), c->n_layer);
    for (uint32_t i = 0; !r->rc && i < c->n_layer; i++) {
        const char *s = json_string_value(json_array_get(list, i));

        if (!list)
            c->kind[i] = (i + 1) % step ? SL_LAYER_LINEAR : SL_LAYER_FULL;
        else if (s && !strcmp(s, "full_attention"))
            c->kind[i] = SL_LAYER_FULL;
        else if (s && !strcmp(s, "linear_attention"))
            c->kind[i] = SL_LAYER_LINEAR;
        else
            refuse(r, "an entry of layer_types", s ? s : "not a string",
                   "'full_attention' or 'linear_attention'");
    }
}

/* mlp_only_layers: the layers of a MoE model with a dense MLP. */
static void read_mlp_only(struct reader *r, struct sl_conf *c)
{
    const json_t *list = field(r, "mlp_only_layers");

    if (list && !json_is_array(list))
        fail(r, "mlp_only_layers is not a list");
    for (size_t i = 0; !r->rc && i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t n = json_integer_value(v);

        if (!json_is_integer(v) || n < 0 || n >= c->n_layer)
            fail(r, "mlp_only_layers holds what is not the number of a layer");
        else
            c->dense[n] = 1;
    }
}

static void read_mlp(struct reader *r, struct sl_conf *c, bool moe)
{
    const char *act = get_str(r, "hidden_act", "silu");
    bool any_dense = false;

    if (!r->rc && strcmp(act, "silu") && strcmp(act, "swish"))
        refuse(r, "hidden_act", act, "'silu'");
    c->n_expert = get_u32(r, "num_experts", moe ? 256 : 0, moe, SL_MAX_EXPERT);
    if (r->rc)
        return;
    if (c->n_expert > 0) {
        c->n_used = get_u32(r, "num_experts_per_tok", 8, 1,
                            (uint32_t)sl_min(c->n_expert, MAX_USED));
        c->expert_ffn = get_u32(r, "moe_intermediate_size", 512, 1, MAX_FFN);
        c->shared_ffn =
            get_u32(r, "shared_expert_intermediate_size", 512, 0, MAX_FFN);
        if (get_u32(r, "decoder_sparse_step", 1, 0, UINT32_MAX) != 1)
            fail(r, "decoder_sparse_step is not 1 and only 1 is implemented; "
                    "use another checkpoint");
        read_mlp_only(r, c);
    }
    for (uint32_t i = 0; i < c->n_layer; i++) {
        if (c->n_expert == 0)
            c->dense[i] = 1;
        any_dense |= c->dense[i];
    }
    if (any_dense)
        c->ffn = get_u32(r, "intermediate_size", 12288, 1, MAX_FFN);
}

static void read_mtp(struct reader *r, struct sl_conf *c)
{
    need_bool(r, "mtp_use_dedicated_embeddings", false);
    c->n_mtp = get_u32(r, "mtp_num_hidden_layers", 0, 0, SL_MAX_LAYER);
    if (!r->rc && c->n_mtp > 1) {
        sl_log(SL_LOG_WARN,
               "event=mtp_off %s=%u why=\"only one layer is implemented\" "
               "cost=\"no drafts from the model itself\"",
               called(r, "mtp_num_hidden_layers"), c->n_mtp);
        c->n_mtp = 0;
    }
}

/* An id, or a list of ids. */
static int read_eos(struct sl_conf *c, const json_t *v, struct sl_err *err)
{
    size_t n = json_is_array(v) ? json_array_size(v) : 1;

    if (!v || json_is_null(v))
        return 0;
    if (n > SL_COUNTOF(c->eos))
        return sl_fail(err, SL_EUNSUP,
                       "eos_token_id lists %zu tokens; at most %zu are "
                       "supported",
                       n, SL_COUNTOF(c->eos));
    for (size_t i = 0; i < n; i++) {
        const json_t *e = json_is_array(v) ? json_array_get(v, i) : v;

        if (!json_is_integer(e) || json_integer_value(e) < 0 ||
            json_integer_value(e) >= c->vocab)
            return sl_fail(err, SL_EFORMAT,
                           "eos_token_id must be whole numbers from 0 to %u",
                           c->vocab - 1);
        c->eos[i] = (int32_t)json_integer_value(e);
    }
    c->n_eos = (uint32_t)n;
    return 0;
}

static void read_model(struct reader *r, struct sl_conf *c, bool moe)
{
    const json_t *tie = json_object_get(r->top, "tie_word_embeddings");
    double eps = 1e-6;

    c->vocab = get_u32(r, "vocab_size", 248320, 1, MAX_VOCAB);
    c->hidden = get_u32(r, "hidden_size", moe ? 2048 : 4096, 1, MAX_HIDDEN);
    c->n_layer =
        get_u32(r, "num_hidden_layers", moe ? 40 : 32, 1, SL_MAX_LAYER);
    c->max_pos = get_u32(r, "max_position_embeddings", 32768, 1, UINT32_MAX);
    if (!r->rc && c->max_pos > MAX_POS) {
        sl_log(SL_LOG_WARN,
               "event=context_cut %s=%u used=%d why=\"rotations are exact up "
               "to there\"",
               called(r, "max_position_embeddings"), c->max_pos, MAX_POS);
        c->max_pos = MAX_POS;
    }
    if (!r->rc)
        r->rc = sl_json_f64(&eps, home(r, "rms_norm_eps"), "rms_norm_eps",
                            false, 0, MAX_EPS, r->err);
    c->eps = (float)eps;
    if (!r->rc)
        r->rc =
            sl_json_bool(&c->tied, tie && !json_is_null(tie) ? r->top : r->text,
                         "tie_word_embeddings", false, r->err);
}

static int parse(struct sl_conf *out, const json_t *config,
                 const struct sl_conf_names *names, struct sl_err *err)
{
    const json_t *text = json_object_get(config, "text_config");
    struct reader r = {.top = config, .names = names, .err = err};
    struct sl_conf c = {0};
    bool moe = false;

    if (!json_is_object(config))
        return sl_fail(err, SL_EFORMAT, "config.json is not a JSON object");
    r.text = json_is_object(text) ? text : config;
    read_arch(&r, &c, &moe);
    read_quantization(&r);
    read_model(&r, &c, moe);
    if (!r.rc)
        read_attention(&r, &c, moe);
    if (!r.rc)
        read_linear(&r, &c);
    if (!r.rc)
        read_kinds(&r, &c);
    if (!r.rc)
        read_mlp(&r, &c, moe);
    if (!r.rc)
        read_mtp(&r, &c);
    if (!r.rc)
        r.rc = read_eos(&c, field(&r, "eos_token_id"), err);
    if (r.rc)
        return sl_wrap(err, r.rc, "%s", names ? names->config : "config.json");
    *out = c;
    return 0;
}

int sl_conf_parse(struct sl_conf *out, const json_t *config, struct sl_err *err)
{
    return parse(out, config, NULL, err);
}

/* One JSON file of the folder. */
static int load_json(json_t **out, const char *dir, const char *name,
                     struct sl_err *err)
{
    char path[4096];
    int rc = sl_path_join(path, sizeof(path), dir, name, err);

    return rc ? rc : sl_json_load(out, path, MAX_CONFIG, err);
}

int sl_conf_from(struct sl_conf *out, const json_t *config,
                 const json_t *generation, const struct sl_conf_names *names,
                 struct sl_err *err)
{
    struct sl_conf c;
    int rc = parse(&c, config, names, err);

    if (!rc && generation)
        rc = sl_wrap(
            err, read_eos(&c, json_object_get(generation, "eos_token_id"), err),
            "%s", names ? names->generation : "generation_config.json");
    if (!rc)
        *out = c;
    return rc;
}

int sl_conf_files(json_t **config, json_t **generation, const char *dir,
                  struct sl_err *err)
{
    int rc = load_json(config, dir, "config.json", err);

    if (rc)
        return sl_wrap(err, rc, "'%.300s' is not the folder of a checkpoint",
                       dir);
    if (!json_is_object(*config))
        rc = sl_fail(err, SL_EFORMAT, "config.json is not a JSON object");
    if (!rc)
        rc = load_json(generation, dir, "generation_config.json", err);
    if (rc == SL_ENOTFOUND) {
        *generation = NULL; /* text-only exports may have none */
        rc = 0;
    }
    if (rc) {
        json_decref(*config);
        *config = NULL;
    }
    return rc;
}

int sl_conf_load(struct sl_conf *out, const char *dir, struct sl_err *err)
{
    json_t *config = NULL, *generation = NULL;
    int rc = sl_conf_files(&config, &generation, dir, err);

    if (!rc)
        rc = sl_conf_from(out, config, generation, NULL, err);
    json_decref(config);
    json_decref(generation);
    return rc;
}

uint32_t sl_conf_count(const struct sl_conf *c, enum sl_layer_kind kind)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n_layer; i++)
        n += c->kind[i] == kind;
    return n;
}
