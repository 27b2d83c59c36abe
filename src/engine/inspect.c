/* engine/inspect.c - what a model is and what it takes, without loading it
 *
 * Everything comes from config.json and, when there are some, the headers of
 * the weight files: the same plan that loading follows, so the numbers cannot
 * differ from what loading will do. The answer is JSON, because it is for
 * people and scripts, and may grow without changing the library's interface.
 *
 * Any thread; nothing is kept.
 */
#include "base/mem.h"
#include "kern/kern.h"
#include "model/qwen35.h"
#include "model/weights.h"
#include "sluice/sluice.h"

/* In the order of enum sl_weight_class. */
static const char *const class_name[] = {
    "embedding", "head",    "attention", "linear_attention",
    "ffn",       "experts", "mtp",       "small",
};

static json_t *number(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *shape(const struct sl_conf *c)
{
    json_t *eos = json_array();

    for (uint32_t i = 0; i < c->n_eos; i++)
        json_array_append_new(eos, json_integer(c->eos[i]));
    return json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:i, s:i, s:i, s:i, s:f, "
        "s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o}",
        "architecture", c->arch, "layers", (int)c->n_layer,
        "full_attention_layers", (int)sl_conf_count(c, SL_LAYER_FULL),
        "linear_attention_layers", (int)sl_conf_count(c, SL_LAYER_LINEAR),
        "hidden", (int)c->hidden, "vocabulary", (int)c->vocab, "context",
        (int)c->max_pos, "tied_embedding", c->tied, "heads", (int)c->n_head,
        "kv_heads", (int)c->n_kv_head, "head_dim", (int)c->head_dim,
        "rotary_dim", (int)c->rot_dim, "rope_theta", c->theta,
        "linear_key_heads", (int)c->n_key, "linear_value_heads", (int)c->n_val,
        "linear_key_dim", (int)c->key_dim, "linear_value_dim", (int)c->val_dim,
        "ffn", (int)c->ffn, "experts", (int)c->n_expert, "experts_used",
        (int)c->n_used, "expert_ffn", (int)c->expert_ffn, "shared_ffn",
        (int)c->shared_ffn, "end_tokens", eos);
}

/* Weights that one decoded token reads: the embedding only when it is the head
 * too, the experts that are used, no head for drafts. */
static uint64_t token_bytes(const struct sl_weights_size *w)
{
    const struct sl_conf *c = &w->conf;
    uint64_t n = w->bytes - w->class_bytes[SL_W_MTP];
    uint64_t experts = w->class_bytes[SL_W_EXPERT];

    if (!c->tied)
        n -= w->class_bytes[SL_W_EMBED];
    if (c->n_expert > 0)
        n -= experts - experts / c->n_expert * c->n_used;
    return n;
}

static json_t *sizes(const struct sl_weights_size *w)
{
    static const enum sl_dtype kv_types[] = {SL_BF16, SL_F32, SL_BFP8};
    json_t *classes = json_object(), *types = json_array(), *kv;
    struct sl_rec_shape rec;
    struct sl_kv_plane plane[SL_MODEL_PLANES];

    _Static_assert(SL_COUNTOF(class_name) == SL_COUNTOF(w->class_bytes),
                   "every class has a name");
    for (size_t i = 0; i < SL_COUNTOF(class_name); i++)
        json_object_set_new(classes, class_name[i], number(w->class_bytes[i]));
    for (uint32_t t = 0; t < SL_N_DTYPE; t++)
        if (w->types >> t & 1)
            json_array_append_new(
                types, json_string(sl_dtype_get((enum sl_dtype)t)->name));
    (void)sl_model_planes(&w->conf, false, plane);
    sl_model_rec_shape(&w->conf, 0, &rec);
    kv = json_object();
    for (size_t i = 0; i < SL_COUNTOF(kv_types); i++)
        json_object_set_new(
            kv, sl_dtype_get(kv_types[i])->name,
            number(sl_kv_page_bytes(plane, 1, kv_types[i]) / SL_KV_PAGE));
    return json_pack(
        "{s:o, s:s*, s:o, s:o, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o}",
        "parameters", number(w->n_param), "dtype_plan", w->plan,
        "fell_back_to_q8_0", number(w->n_fell), "types", types, "mtp",
        w->has_mtp, "weights_found", w->has_files, "file_bytes",
        number(w->file_bytes), "weight_bytes", number(w->bytes),
        "weight_bytes_by_class", classes, "weight_bytes_per_token",
        number(token_bytes(w)), "kv_bytes_per_token", kv,
        "state_bytes_per_sequence", number(sl_rec_slot_bytes(&rec)));
}

int sl_inspect(char **out, const char *path, struct sl_err *err)
{
    struct sl_weights_size w;
    json_t *j, *more;
    char *text = NULL;
    int rc = sl_weights_measure(&w, path, err);

    if (rc == SL_ENOTFOUND) /* already names the folder */
        return rc;
    if (rc)
        return sl_wrap(err, rc, "describing '%.300s'", path);
    j = shape(&w.conf);
    more = sizes(&w);
    if (j && more && !json_object_update(j, more))
        text = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    json_decref(more);
    if (!text)
        return sl_fail(err, SL_ENOMEM, "no memory is left to describe '%.300s'",
                       path);
    rc = sl_mem_dup(out, text, strlen(text), err);
    free(text); /* jansson's own */
    return rc;
}
