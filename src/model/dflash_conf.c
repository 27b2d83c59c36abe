/* model/dflash_conf.c - config.json of a DFlash drafter; see dflash_conf.h */
#include "model/dflash_conf.h"

#include "base/file.h"

#define MAX_FILE ((size_t)1 << 20)
#define MAX_DIM (1 << 20)
#define BLOCK_V1 16 /* block_size of the first generation, when absent */

struct reader {
    const json_t *top, *sub; /* the file; its dflash_config, or NULL */
    struct sl_err *err;
    int rc;
};

/* The object that has the key: dflash_config first. */
static const json_t *where(const struct reader *r, const char *key)
{
    return r->sub && json_object_get(r->sub, key) ? r->sub : r->top;
}

static uint32_t get_u32(struct reader *r, const char *key, bool need,
                        uint32_t def, int64_t lo, int64_t hi)
{
    int64_t v = def;

    if (!r->rc)
        r->rc = sl_json_i64(&v, where(r, key), key, need, lo, hi, r->err);
    return (uint32_t)v;
}

static double get_f64(struct reader *r, const char *key, double def, double lo,
                      double hi)
{
    double v = def;

    if (!r->rc)
        r->rc = sl_json_f64(&v, where(r, key), key, false, lo, hi, r->err);
    return v;
}

static void read_arch(struct reader *r, struct sl_flash_conf *c)
{
    const char *name = json_string_value(
        json_array_get(json_object_get(r->top, "architectures"), 0));

    c->is_v2 = name && !strcmp(name, "DFlash2DraftModel");
    if (!c->is_v2 && (!name || strcmp(name, "DFlashDraftModel")))
        r->rc = sl_fail(r->err, SL_EUNSUP,
                        "architecture '%.100s' is no drafter that is known; "
                        "DFlashDraftModel and DFlash2DraftModel are",
                        name ? name : "(none)");
}

/* A flag that asks for what is not done here. */
static void refuse_flag(struct reader *r, const json_t *at, const char *key,
                        bool bad)
{
    bool v = !bad;

    if (r->rc || !at)
        return;
    r->rc = sl_json_bool(&v, at, key, false, r->err);
    if (!r->rc && v == bad)
        r->rc = sl_fail(r->err, SL_EUNSUP,
                        "%s is %s; drafters of this family have it the other "
                        "way, and no other is known",
                        key, bad ? "true" : "false");
}

/* A word of which one is known; `also` is another spelling of it, or NULL. */
static void want_word(struct reader *r, const json_t *at, const char *key,
                      const char *want, const char *also)
{
    const char *v = NULL;

    if (r->rc || !at)
        return;
    r->rc = sl_json_str(&v, at, key, false, r->err);
    if (!r->rc && v && strcmp(v, want) && (!also || strcmp(v, also)))
        r->rc = sl_fail(r->err, SL_EUNSUP, "%s is '%.40s'; '%s' is known", key,
                        v, want);
}

/* What changes the drafter's arithmetic and is not known: ignored, its drafts
 * would only be worse, and nobody would see why. */
static void refuse_unknown(struct reader *r)
{
    static const char *const ropes[] = {"rope_parameters", "rope_scaling"};

    refuse_flag(r, r->top, "attention_bias", true);
    refuse_flag(r, r->top, "mlp_bias", true);
    refuse_flag(r, where(r, "rope_interleaved"), "rope_interleaved", true);
    refuse_flag(r, where(r, "rope_is_neox_style"), "rope_is_neox_style",
                false);
    want_word(r, r->top, "hidden_act", "silu", "swish");
    for (size_t i = 0; i < SL_COUNTOF(ropes); i++) {
        const json_t *rope = json_object_get(r->top, ropes[i]);

        if (!r->rc && rope && !json_is_object(rope) && !json_is_null(rope))
            r->rc = sl_fail(r->err, SL_EFORMAT, "%s is not an object",
                            ropes[i]);
        want_word(r, rope, "rope_type", "default", NULL);
        want_word(r, rope, "type", "default", NULL);
        if (rope && !r->rc) /* of all channels */
            r->rc = sl_json_f64(&(double){1}, rope, "partial_rotary_factor",
                                false, 1, 1, r->err);
    }
    if (!r->rc)
        r->rc = sl_json_f64(&(double){1}, r->top, "partial_rotary_factor",
                            false, 1, 1, r->err);
}

static void read_dims(struct reader *r, struct sl_flash_conf *c)
{
    const json_t *rope = json_object_get(r->top, "rope_parameters");

    c->hidden = get_u32(r, "hidden_size", true, 0, 8, MAX_DIM);
    c->ffn = get_u32(r, "intermediate_size", true, 0, 8, MAX_DIM);
    c->n_layer = get_u32(r, "num_hidden_layers", true, 0, 1,
                         SL_FLASH_MAX_LAYER);
    c->n_head = get_u32(r, "num_attention_heads", true, 0, 1, 1024);
    c->n_kv_head = get_u32(r, "num_key_value_heads", true, 0, 1, 1024);
    c->head_dim = get_u32(r, "head_dim", true, 0, 8, 256);
    c->vocab = get_u32(r, "vocab_size", true, 0, 1, 1 << 24);
    c->eps = (float)get_f64(r, "rms_norm_eps", 1e-6, 0, 1);
    c->theta = get_f64(r, "rope_theta", 1e7, 1, 1e12);
    if (!r->rc && rope)
        r->rc = sl_json_f64(&c->theta, rope, "rope_theta", false, 1, 1e12,
                            r->err);
    c->block = get_u32(r, "block_size", c->is_v2, BLOCK_V1, 2,
                       SL_FLASH_MAX_BLOCK);
    c->mask_id = (int32_t)get_u32(r, "mask_token_id", true, 0, 0,
                                  (int64_t)c->vocab - 1);
    c->embed_scale = (float)get_f64(r, "input_embedding_scale", 1, -1e6, 1e6);
    c->multiplier = (float)get_f64(r, "output_multiplier", 1, -1e6, 1e6);
    c->softcap = (float)get_f64(r, "final_logit_softcapping", 0, 0, 1e6);
    if (c->is_v2) {
        (void)get_u32(r, "conv_kernel_size", true, 2, 2, 2);
        c->group = get_u32(r, "conv_group_size", true, 16, 1, MAX_DIM);
        c->rank = get_u32(r, "selector_rank", true, 0, 1, 1 << 16);
        c->top_k = get_u32(r, "selector_top_k", true, 0, 1, SL_FLASH_MAX_TOP);
    }
}

/* Ids that are missing are spread evenly (model.md 8.1). */
static void read_taps(struct reader *r, struct sl_flash_conf *c,
                      const struct sl_conf *target)
{
    const json_t *ids = json_object_get(where(r, "target_layer_ids"),
                                        "target_layer_ids");
    double last = (double)target->n_layer - 4;

    c->n_tap = ids ? (uint32_t)json_array_size(ids) : c->n_layer;
    if (!r->rc && (c->n_tap == 0 || c->n_tap > SL_FLASH_MAX_TAP))
        r->rc = sl_fail(r->err, SL_EFORMAT,
                        "target_layer_ids names %u layers; 1 to %d are taken",
                        c->n_tap, SL_FLASH_MAX_TAP);
    for (uint32_t i = 0; !r->rc && i < c->n_tap; i++) {
        const json_t *id = json_array_get(ids, i);
        json_int_t v = json_integer_value(id);

        if (!ids)
            v = c->n_tap == 1 ? target->n_layer / 2
                              : (json_int_t)(1 + i * last / (c->n_tap - 1) +
                                             0.5);
        if ((ids && !json_is_integer(id)) || v < 0 ||
            v >= (json_int_t)target->n_layer ||
            (i > 0 && v <= (json_int_t)c->tap[i - 1]))
            r->rc = sl_fail(r->err, SL_EFORMAT,
                            "target_layer_ids[%u] is %lld; rising numbers "
                            "below %u, the layers of the model, are expected",
                            i, (long long)v, target->n_layer);
        else
            c->tap[i] = (uint32_t)v;
    }
}

/* -1: not said. */
static int causal_of(struct reader *r, const json_t *at, const char *key)
{
    const json_t *v = json_object_get(at, key);
    bool yes = false;

    if (r->rc || !v || json_is_null(v))
        return -1;
    r->rc = sl_json_bool(&yes, at, key, false, r->err);
    return yes;
}

/* Windows and directions (model.md 8.6). */
static void read_layers(struct reader *r, struct sl_flash_conf *c)
{
    const json_t *types = json_object_get(r->top, "layer_types");
    int all = causal_of(r, r->top, "is_causal");
    uint32_t window;

    if (all < 0)
        all = causal_of(r, r->sub, "causal");
    window = get_u32(r, "sliding_window", false, 0, 1, 1 << 24);
    if (json_is_null(types))
        types = NULL;
    if (!r->rc && types && json_array_size(types) != c->n_layer)
        r->rc = sl_fail(r->err, SL_EFORMAT,
                        "layer_types has %zu entries and num_hidden_layers is "
                        "%u",
                        json_array_size(types), c->n_layer);
    for (uint32_t i = 0; !r->rc && i < c->n_layer; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        bool sliding = type && !strcmp(type, "sliding_attention");

        if (types && !sliding && (!type || strcmp(type, "full_attention")))
            r->rc = sl_fail(r->err, SL_EFORMAT,
                            "layer_types[%u] is '%.40s'; sliding_attention or "
                            "full_attention is expected",
                            i, type ? type : "(none)");
        else if (sliding && window == 0)
            r->rc = sl_fail(r->err, SL_EFORMAT,
                            "layer_types[%u] is sliding_attention, and "
                            "sliding_window is missing",
                            i);
        c->window[i] = sliding ? window : 0;
        c->causal[i] = all < 0 ? sliding : all;
    }
}

static void check(struct reader *r, const struct sl_flash_conf *c,
                  const struct sl_conf *target)
{
    if (r->rc)
        return;
    if (c->hidden != target->hidden || c->vocab != target->vocab)
        r->rc = sl_fail(r->err, SL_EFORMAT,
                        "the drafter has hidden_size %u and vocab_size %u, the "
                        "model %u and %u; it belongs to another model",
                        c->hidden, c->vocab, target->hidden, target->vocab);
    else if (c->n_head % c->n_kv_head || c->head_dim % 8 ||
             c->n_head / c->n_kv_head > 64 ||
             (c->is_v2 && c->hidden % c->group))
        r->rc = sl_fail(r->err, SL_EFORMAT,
                        "%u heads of %u over %u key heads, or %u channels in "
                        "groups of %u, do not divide",
                        c->n_head, c->head_dim, c->n_kv_head, c->hidden,
                        c->group);
}

int sl_flash_conf_load(struct sl_flash_conf *out, const char *dir,
                       const struct sl_conf *target, struct sl_err *err)
{
    struct sl_flash_conf c = {0};
    char path[4096];
    json_t *j = NULL;
    struct reader r = {.err = err};
    int64_t layers = target->n_layer;

    r.rc = sl_path_join(path, sizeof(path), dir, "config.json", err);
    if (!r.rc)
        r.rc = sl_json_load(&j, path, MAX_FILE, err);
    r.top = j;
    r.sub = json_object_get(j, "dflash_config");
    if (!r.rc)
        read_arch(&r, &c);
    if (!r.rc)
        r.rc = sl_json_i64(&layers, j, "num_target_layers", false, 1,
                           SL_MAX_LAYER, err);
    if (!r.rc && layers != (int64_t)target->n_layer)
        r.rc = sl_fail(err, SL_EFORMAT,
                       "num_target_layers is %lld and the model has %u layers; "
                       "the drafter belongs to another model",
                       (long long)layers, target->n_layer);
    refuse_unknown(&r);
    read_dims(&r, &c);
    read_taps(&r, &c, target);
    read_layers(&r, &c);
    check(&r, &c, target);
    if (!r.rc)
        *out = c;
    json_decref(j);
    return sl_wrap(err, r.rc, "reading '%s'", path);
}

void sl_flash_conf_dummy(struct sl_flash_conf *out,
                         const struct sl_conf *target)
{
    *out = (struct sl_flash_conf){.hidden = target->hidden,
                                  .ffn = target->ffn ? target->ffn
                                                     : 4 * target->hidden,
                                  .n_layer = 5,
                                  .n_head = 32,
                                  .n_kv_head = 8,
                                  .head_dim = 128,
                                  .vocab = target->vocab,
                                  .eps = 1e-6f,
                                  .theta = 1e7,
                                  .block = 8,
                                  .mask_id = (int32_t)target->vocab - 1,
                                  .n_tap = 5,
                                  .embed_scale = 1,
                                  .multiplier = 1,
                                  .is_v2 = true,
                                  .group = 16,
                                  .rank = 256,
                                  .top_k = 16};
    /* Evenly from the second layer to the last but two. */
    for (uint32_t i = 0; i < out->n_tap; i++)
        out->tap[i] = 1 + i * (target->n_layer - 4) / (out->n_tap - 1);
    for (uint32_t i = 0; i < out->n_layer; i++)
        out->window[i] = 2048;
}
