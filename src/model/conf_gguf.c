/* model/conf_gguf.c - metadata of GGUF -> config.json; see conf_gguf.h
 *
 * Keys are those of model.md 10.2, behind the name of the architecture. Where a
 * file is silent: the vocabulary is the number of rows of the embedding; head
 * and embedding are one matrix when there is no output.weight; every fourth
 * layer is a full one.
 *
 * Sampling: newer files have general.sampling.*; others get what the authors
 * published for the family. A file names one end token, or two; the family's
 * chats end with <|im_end|> and its texts with <|endoftext|>, so both end an
 * answer when the vocabulary has them. Files of ours may have a list instead.
 */
#include "model/conf_gguf.h"

#include "model/blocks.h"
#include "model/meta_gguf.h"

#define MAX_DIM ((int64_t)UINT32_MAX)
#define MAX_KEY 128

/* What the authors recommend for the family. */
#define TEMPERATURE 1.0
#define TOP_P 0.95
#define TOP_K 20

/* config.json has the rotating channels as a factor, of which conf.c takes the
 * whole part; this keeps the product above it. */
#define ROUND 0.25

/* Fields of config.json that are one key, behind the architecture's name. */
static const struct {
    const char *field, *key;
} fields[] = {
    {"hidden_size", "embedding_length"},
    {"max_position_embeddings", "context_length"},
    {"num_attention_heads", "attention.head_count"},
    {"num_key_value_heads", "attention.head_count_kv"},
    {"head_dim", "attention.key_length"},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {"full_attention_interval", "full_attention_interval"},
    {"layer_types", "attention.recurrent_layers"},
    {"linear_num_key_heads", "ssm.group_count"},
    {"linear_key_head_dim", "ssm.state_size"},
    {"linear_num_value_heads", "ssm.time_step_rank"},
    {"linear_conv_kernel_dim", "ssm.conv_kernel"},
    {"intermediate_size", "feed_forward_length"},
    {"num_experts", "expert_count"},
    {"num_experts_per_tok", "expert_used_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    {"mtp_num_hidden_layers", "nextn_predict_layers"},
    /* and some that are more */
    {"num_hidden_layers", "block_count less nextn_predict_layers"},
    {"linear_value_head_dim", "ssm.inner_size by ssm.time_step_rank"},
    {"vocab_size", "the number of rows of token_embd.weight"},
};

static const char *key_of_field(const char *field)
{
    for (size_t i = 0; i < SL_COUNTOF(fields); i++)
        if (!strcmp(field, fields[i].field))
            return fields[i].key;
    return NULL;
}

const struct sl_conf_names sl_conf_gguf_names = {"the metadata", "the metadata",
                                                 key_of_field};

/* The first failure sticks to `rc` (rule E6). */
struct reader {
    const struct sl_gguf *g;
    const struct sl_ckpt *c;
    json_t *out;
    char arch[32];
    bool moe;
    size_t n_row; /* of the embedding */
    int rc;
    struct sl_err *err;
};

/* The three keys that say which layers are linear ones; each may be absent. */
struct kinds {
    int64_t n_layer, step;
    const struct sl_gguf_kv *list, *heads;
};

static const char *key_of(const struct reader *r, char out[MAX_KEY],
                          const char *key)
{
    snprintf(out, MAX_KEY, "%s.%s", r->arch, key);
    return out;
}

static bool has(const struct reader *r, const char *key)
{
    char name[MAX_KEY];

    return sl_gguf_find(r->g, key_of(r, name, key)) != NULL;
}

static int64_t num(struct reader *r, const char *key, bool need, int64_t def)
{
    char name[MAX_KEY];
    int64_t v = def;

    if (!r->rc)
        r->rc = sl_gguf_i64(&v, r->g, key_of(r, name, key), need, 0, MAX_DIM,
                            r->err);
    return v;
}

static void set(struct reader *r, const char *key, json_t *v)
{
    if (json_object_set_new(r->out, key, v) && !r->rc)
        r->rc = sl_fail(r->err, SL_ENOMEM, "no memory is left for metadata");
}

/* A field that is one number, which must be there, or (need = false) may be. */
static void copy(struct reader *r, const char *field, bool need)
{
    int64_t v = num(r, key_of_field(field), need, -1);

    if (!r->rc && v >= 0)
        set(r, field, json_integer(v));
}

static void read_arch(struct reader *r)
{
    const char *s = "";
    size_t len = 0;

    r->rc = sl_gguf_str(&s, &len, r->g, "general.architecture", true, r->err);
    if (r->rc)
        return;
    snprintf(r->arch, sizeof(r->arch), "%.*s", (int)sl_min(len, 31), s);
    r->moe = !strcmp(r->arch, "qwen35moe");
    if (!r->moe && strcmp(r->arch, "qwen35"))
        r->rc = sl_fail(r->err, SL_EUNSUP,
                        "general.architecture is '%.*s' and only 'qwen35' and "
                        "'qwen35moe' are implemented; use another file",
                        (int)sl_min(len, 80), s);
}

/* Rows of the embedding. */
static void read_vocab(struct reader *r)
{
    size_t i;

    if (r->rc)
        return;
    if (!sl_ckpt_find(r->c, "token_embd.weight", &i)) {
        r->rc = sl_fail(r->err, SL_EFORMAT,
                        "there is no tensor 'token_embd.weight'; this is not "
                        "the file of a text model");
        return;
    }
    r->n_row = sl_ckpt_get(r->c, i)->dim[0];
    set(r, "vocab_size", json_integer((json_int_t)r->n_row));
    set(r, "tie_word_embeddings",
        json_boolean(!sl_ckpt_find(r->c, "output.weight", &i)));
}

/* A list with an entry for each layer, and perhaps for those that draft. */
static const struct sl_gguf_kv *per_layer(struct reader *r, const char *key,
                                          int64_t n_layer)
{
    const struct sl_gguf_kv *list = NULL;
    char name[MAX_KEY];

    if (!r->rc)
        r->rc = sl_gguf_ints(&list, r->g, key_of(r, name, key), true, r->err);
    if (!r->rc && list->n < (uint64_t)n_layer)
        r->rc = sl_fail(r->err, SL_EFORMAT,
                        "the key '%s' has %llu entries and must have one for "
                        "each of the %lld layers; the file is damaged",
                        name, (unsigned long long)list->n, (long long)n_layer);
    return r->rc ? NULL : list;
}

/* One number, or a list with 0 for linear layers. */
static void read_kv_heads(struct reader *r, struct kinds *k)
{
    const struct sl_gguf_kv *list;
    char name[MAX_KEY];
    int64_t heads = 0;
    bool zero = false;

    list = sl_gguf_find(r->g, key_of(r, name, "attention.head_count_kv"));
    if (!list || list->kind != SL_GGUF_ARR) {
        copy(r, "num_key_value_heads", true);
        return;
    }
    list = per_layer(r, "attention.head_count_kv", k->n_layer);
    for (int64_t i = 0; list && !r->rc && i < k->n_layer; i++) {
        int64_t n = sl_gguf_int(list, (uint64_t)i);

        if (n < 0)
            r->rc = sl_fail(r->err, SL_EFORMAT,
                            "the key '%s' has %lld for layer %lld and must "
                            "not be negative; the file is damaged",
                            name, (long long)n, (long long)i);
        else if (n > 0 && heads > 0 && n != heads)
            r->rc = sl_fail(r->err, SL_EUNSUP,
                            "%s differs between layers (%lld and %lld); use "
                            "another file",
                            name, (long long)heads, (long long)n);
        heads = n > 0 ? n : heads;
        zero |= n == 0;
    }
    if (zero)
        k->heads = list;
    set(r, "num_key_value_heads", json_integer(heads));
}

/* What the keys that there are say of a layer: 1 it is a linear one, 0 a full
 * one, -1 they do not say. The list of them goes first. */
static int by_list(const struct kinds *k, int64_t i)
{
    return k->list ? sl_gguf_int(k->list, (uint64_t)i) != 0 : -1;
}

static int by_step(const struct kinds *k, int64_t i)
{
    return k->step > 0 ? (i + 1) % k->step != 0 : -1;
}

static int by_heads(const struct kinds *k, int64_t i)
{
    return k->heads ? sl_gguf_int(k->heads, (uint64_t)i) == 0 : -1;
}

static void set_kind(struct reader *r, json_t *kinds, const struct kinds *k,
                     int64_t i)
{
    int says[] = {by_list(k, i), by_step(k, i), by_heads(k, i)};
    int kind = -1;

    for (size_t s = 0; s < SL_COUNTOF(says) && !r->rc; s++) {
        if (says[s] >= 0 && kind >= 0 && says[s] != kind)
            r->rc = sl_fail(r->err, SL_EFORMAT,
                            "of attention.recurrent_layers, "
                            "full_attention_interval and "
                            "attention.head_count_kv one says that layer %lld "
                            "is linear attention and one that it is not; use "
                            "another file",
                            (long long)i);
        if (kind < 0)
            kind = says[s];
    }
    json_array_append_new(
        kinds, json_string(kind ? "linear_attention" : "full_attention"));
}

static void read_kinds(struct reader *r, int64_t n_layer)
{
    struct kinds k = {.n_layer = n_layer};
    json_t *kinds;

    read_kv_heads(r, &k);
    if (has(r, "attention.recurrent_layers"))
        k.list = per_layer(r, "attention.recurrent_layers", n_layer);
    if (has(r, "full_attention_interval")) {
        copy(r, "full_attention_interval", true);
        k.step = num(r, "full_attention_interval", true, 0);
    }
    if (r->rc || (!k.list && !k.heads) || n_layer > SL_MAX_LAYER)
        return; /* by the interval, or the default of one */
    kinds = json_array();
    for (int64_t i = 0; !r->rc && i < n_layer; i++)
        set_kind(r, kinds, &k, i);
    set(r, "layer_types", kinds);
}

static void read_rope(struct reader *r)
{
    int64_t head = num(r, "attention.key_length", true, 0);
    int64_t rot = num(r, "rope.dimension_count", true, 0);
    char name[MAX_KEY];
    const char *type = "none";
    size_t len = 4;
    double theta = 0;

    if (!r->rc && num(r, "attention.value_length", false, head) != head)
        r->rc = sl_fail(r->err, SL_EUNSUP,
                        "%s.attention.value_length differs from key_length, "
                        "%lld; use another file",
                        r->arch, (long long)head);
    if (!r->rc)
        r->rc = sl_gguf_f64(&theta, r->g, key_of(r, name, "rope.freq_base"),
                            true, 1, 1e15, r->err);
    if (!r->rc)
        r->rc =
            sl_gguf_str(&type, &len, r->g, key_of(r, name, "rope.scaling.type"),
                        false, r->err);
    if (!r->rc && (len != 4 || memcmp(type, "none", 4)))
        r->rc = sl_fail(r->err, SL_EUNSUP,
                        "%s is '%.*s' and only 'none' is implemented; use "
                        "another file",
                        name, (int)sl_min(len, 40), type);
    if (!r->rc && (rot < 2 || rot % 2 || rot > head))
        r->rc = sl_fail(r->err, SL_EUNSUP,
                        "%s.rope.dimension_count is %lld and must be an even "
                        "number from 2 to attention.key_length, which is %lld; "
                        "use another file",
                        r->arch, (long long)rot, (long long)head);
    if (r->rc)
        return;
    set(r, "head_dim", json_integer(head));
    set(r, "rope_parameters",
        json_pack("{s:s, s:f, s:f}", "rope_type", "default", "rope_theta",
                  theta, "partial_rotary_factor",
                  rot < head ? ((double)rot + ROUND) / (double)head : 1.0));
}

static void read_linear(struct reader *r)
{
    int64_t n_val = num(r, "ssm.time_step_rank", true, 0);
    int64_t inner = num(r, "ssm.inner_size", true, 0);

    copy(r, "linear_num_key_heads", true);
    copy(r, "linear_key_head_dim", true);
    copy(r, "linear_conv_kernel_dim", true);
    if (!r->rc && (n_val == 0 || inner % n_val))
        r->rc = sl_fail(r->err, SL_EFORMAT,
                        "%s.ssm.inner_size is %lld and must be a multiple of "
                        "ssm.time_step_rank, which is %lld",
                        r->arch, (long long)inner, (long long)n_val);
    if (r->rc)
        return;
    set(r, "linear_num_value_heads", json_integer(n_val));
    set(r, "linear_value_head_dim", json_integer(inner / n_val));
}

static void read_mlp(struct reader *r)
{
    copy(r, "intermediate_size", !r->moe);
    if (!r->moe)
        return;
    copy(r, "num_experts", true);
    copy(r, "num_experts_per_tok", true);
    copy(r, "moe_intermediate_size", true);
    set(r, "shared_expert_intermediate_size",
        json_integer(num(r, "expert_shared_feed_forward_length", false, 0)));
}

static void read_config(struct reader *r)
{
    int64_t n_block, n_mtp;
    char name[MAX_KEY];
    double eps = 0;

    read_arch(r);
    n_block = num(r, "block_count", true, 0);
    n_mtp = num(r, "nextn_predict_layers", false, 0);
    if (!r->rc && n_mtp >= n_block)
        r->rc = sl_fail(r->err, SL_EFORMAT,
                        "%s.block_count is %lld and must be more than "
                        "nextn_predict_layers, which is %lld",
                        r->arch, (long long)n_block, (long long)n_mtp);
    if (!r->rc)
        r->rc = sl_blocks_check(r->c, n_block - n_mtp, n_block, r->err);
    if (!r->rc)
        r->rc = sl_gguf_f64(&eps, r->g,
                            key_of(r, name, "attention.layer_norm_rms_epsilon"),
                            true, 0, 0.1, r->err);
    if (r->rc)
        return;
    set(r, "architectures",
        json_pack("[s]",
                  r->moe ? "Qwen3_5MoeForCausalLM" : "Qwen3_5ForCausalLM"));
    set(r, "model_type",
        json_string(r->moe ? "qwen3_5_moe_text" : "qwen3_5_text"));
    set(r, "num_hidden_layers", json_integer(n_block - n_mtp));
    set(r, "mtp_num_hidden_layers", json_integer(n_mtp));
    set(r, "rms_norm_eps", json_real(eps));
    read_vocab(r);
    copy(r, "hidden_size", true);
    copy(r, "max_position_embeddings", true);
    copy(r, "num_attention_heads", true);
    if (!r->rc)
        read_kinds(r, n_block - n_mtp);
    read_rope(r);
    read_linear(r);
    read_mlp(r);
}

/* ------------------------------------------------- generation_config.json */

/* A default that the file does not have is marked as ours, so that nobody
 * writes it down as the authors'. */
static void ours(struct reader *r, const char *field)
{
    json_t *list = json_object_get(r->out, SL_CONF_OURS);

    if (!list)
        set(r, SL_CONF_OURS, list = json_array());
    json_array_append_new(list, json_string(field));
}

/* `def` < 0: the file is silent, and so are we. */
static void sample(struct reader *r, const char *to, const char *key,
                   double def, double hi)
{
    double v = def;

    if (!r->rc)
        r->rc = sl_gguf_f64(&v, r->g, key, false, 0, hi, r->err);
    if (v >= 0)
        set(r, to, json_real(v));
    if (v >= 0 && !sl_gguf_find(r->g, key))
        ours(r, to);
}

/* Append an id that is a row of the embedding and not there yet; files pad with
 * others. */
static void add_end(const struct reader *r, json_t *list, int64_t id)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == id)
            return;
    if (id >= 0 && (uint64_t)id < r->n_row)
        json_array_append_new(list, json_integer(id));
}

/* The end tokens that the vocabulary has by name. */
static void add_named(struct reader *r, json_t *list)
{
    const struct sl_gguf_kv *tok = NULL;
    int64_t id[SL_META_N_END];
    struct sl_cur c;

    for (size_t i = 0; i < SL_META_N_END; i++)
        id[i] = -1;
    if (!r->rc)
        r->rc =
            sl_gguf_strs(&tok, r->g, "tokenizer.ggml.tokens", false, r->err);
    if (r->rc || !tok)
        return;
    sl_gguf_walk(&c, tok);
    for (uint64_t k = 0; k < tok->n; k++) {
        size_t len;
        const char *s = sl_gguf_next(&c, &len);

        for (size_t i = 0; i < SL_META_N_END; i++)
            if (s && len == strlen(sl_meta_end[i]) &&
                !memcmp(s, sl_meta_end[i], len))
                id[i] = (int64_t)k;
    }
    for (size_t i = 0; i < SL_META_N_END; i++)
        add_end(r, list, id[i]);
}

/* Ids of the tokens that end an answer. */
static void read_ends(struct reader *r)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.eot_token_id"};
    const struct sl_gguf_kv *own = NULL;
    json_t *list = json_array();

    if (!r->rc)
        r->rc = sl_gguf_ints(&own, r->g, SL_META_ENDS, false, r->err);
    for (uint64_t i = 0; own && i < own->n; i++)
        add_end(r, list, sl_gguf_int(own, i));
    for (size_t i = 0; !r->rc && i < SL_COUNTOF(keys); i++) {
        int64_t id = -1;

        r->rc = sl_gguf_i64(&id, r->g, keys[i], false, -1, UINT32_MAX, r->err);
        if (!own)
            add_end(r, list, id);
    }
    if (!own)
        add_named(r, list);
    set(r, "eos_token_id", list);
}

static void read_generation(struct reader *r)
{
    int64_t k = TOP_K;

    read_ends(r);
    sample(r, "temperature", "general.sampling.temp", TEMPERATURE, 2);
    sample(r, "top_p", "general.sampling.top_p", TOP_P, 1);
    sample(r, "min_p", "general.sampling.min_p", -1, 1);
    sample(r, "repetition_penalty", "general.sampling.penalty_repeat", -1, 100);
    if (!r->rc)
        r->rc = sl_gguf_i64(&k, r->g, "general.sampling.top_k", false, -1,
                            INT32_MAX, r->err);
    set(r, "top_k", json_integer(k));
    if (!sl_gguf_find(r->g, "general.sampling.top_k"))
        ours(r, "top_k");
}

int sl_conf_gguf(json_t **config, json_t **generation, const struct sl_ckpt *c,
                 struct sl_err *err)
{
    struct reader r = {.g = sl_ckpt_gguf(c), .c = c, .err = err};
    json_t *conf = json_object(), *gen = json_object();

    if (!conf || !gen)
        r.rc = sl_fail(err, SL_ENOMEM, "no memory is left for metadata");
    r.out = conf;
    if (!r.rc)
        read_config(&r);
    r.out = gen;
    if (!r.rc)
        read_generation(&r);
    if (r.rc) {
        json_decref(conf);
        json_decref(gen);
        return sl_wrap(err, r.rc, "the metadata of '%.300s'", r.g->path);
    }
    *config = conf;
    *generation = gen;
    return 0;
}
