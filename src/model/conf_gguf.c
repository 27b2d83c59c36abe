/* model/conf_gguf.c - metadata of GGUF -> config.json; see conf_gguf.h
 *
 * Keys are those of model.md 10.2, behind the name of the architecture. Where a
 * file is silent: the vocabulary is the number of rows of the embedding; head
 * and embedding are one matrix when there is no output.weight; every fourth
 * layer is a full one.
 *
 * Sampling: newer files have general.sampling.*; others get what the authors
 * published for the family. A file names one end token; the family's chats end
 * with <|im_end|> and its texts with <|endoftext|>, so both end an answer when
 * the vocabulary has them.
 */
#include "model/conf_gguf.h"

#include "model/conf.h"

#define MAX_DIM ((int64_t)UINT32_MAX)
#define MAX_KEY 128
#define MAX_TOKENS (1 << 20)

/* What the authors recommend for the family. */
#define TEMPERATURE 1.0
#define TOP_P 0.95
#define TOP_K 20

/* config.json has the rotating channels as a factor, of which conf.c takes the
 * whole part; this keeps the product above it. */
#define ROUND 0.25

/* The first failure sticks to `rc` (rule E6). */
struct reader {
    const struct sl_gguf *g;
    const struct sl_ckpt *c;
    json_t *out;
    char arch[32];
    bool moe;
    int rc;
    struct sl_err *err;
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

/* One number that must be there, or (need = false) may be. */
static void copy(struct reader *r, const char *to, const char *key, bool need)
{
    int64_t v = num(r, key, need, -1);

    if (!r->rc && v >= 0)
        set(r, to, json_integer(v));
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
                        "general.architecture is '%s' and only 'qwen35' and "
                        "'qwen35moe' are implemented; use another file",
                        r->arch);
    set(r, "architectures",
        json_pack("[s]",
                  r->moe ? "Qwen3_5MoeForCausalLM" : "Qwen3_5ForCausalLM"));
    set(r, "model_type",
        json_string(r->moe ? "qwen3_5_moe_text" : "qwen3_5_text"));
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
    set(r, "vocab_size",
        json_integer((json_int_t)sl_ckpt_get(r->c, i)->dim[0]));
    set(r, "tie_word_embeddings",
        json_boolean(!sl_ckpt_find(r->c, "output.weight", &i)));
}

/* Keys and values per layer: one number, or a list with 0 for linear layers. */
static void read_kv_heads(struct reader *r, json_t *kinds, int64_t n_layer)
{
    const struct sl_gguf_kv *list = NULL;
    char name[MAX_KEY];
    int64_t heads = 0;

    key_of(r, name, "attention.head_count_kv");
    if (!sl_gguf_find(r->g, name) ||
        sl_gguf_find(r->g, name)->kind != SL_GGUF_ARR) {
        copy(r, "num_key_value_heads", "attention.head_count_kv", true);
        return;
    }
    r->rc = sl_gguf_ints(&list, r->g, name, true, r->err);
    for (uint64_t i = 0; !r->rc && i < list->n && i < (uint64_t)n_layer; i++) {
        int64_t n = sl_gguf_int(list, i);

        if (n > 0 && heads > 0 && n != heads)
            r->rc = sl_fail(r->err, SL_EUNSUP,
                            "%s differs between layers (%lld and %lld); use "
                            "another file",
                            name, (long long)heads, (long long)n);
        heads = n > 0 ? n : heads;
        json_array_append_new(
            kinds, json_string(n > 0 ? "full_attention" : "linear_attention"));
    }
    set(r, "num_key_value_heads", json_integer(heads));
}

/* attention.recurrent_layers: true for linear ones. */
static void read_recurrent(struct reader *r, json_t *kinds, int64_t n_layer)
{
    const struct sl_gguf_kv *list = NULL;
    char name[MAX_KEY];

    r->rc =
        sl_gguf_ints(&list, r->g, key_of(r, name, "attention.recurrent_layers"),
                     true, r->err);
    json_array_clear(kinds);
    for (uint64_t i = 0; !r->rc && i < list->n && i < (uint64_t)n_layer; i++)
        json_array_append_new(kinds, json_string(sl_gguf_int(list, i)
                                                     ? "linear_attention"
                                                     : "full_attention"));
}

static void read_kinds(struct reader *r, int64_t n_layer)
{
    json_t *kinds = json_array();

    read_kv_heads(r, kinds, n_layer);
    if (!r->rc && has(r, "attention.recurrent_layers"))
        read_recurrent(r, kinds, n_layer);
    if (!r->rc && has(r, "full_attention_interval")) {
        copy(r, "full_attention_interval", "full_attention_interval", true);
        json_array_clear(kinds);
    }
    if (json_array_size(kinds) > 0)
        set(r, "layer_types", kinds);
    else
        json_decref(kinds);
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
    if (r->rc)
        return;
    set(r, "head_dim", json_integer(head));
    set(r, "rope_parameters",
        json_pack("{s:s, s:f, s:f}", "rope_type", "default", "rope_theta",
                  theta, "partial_rotary_factor",
                  head > 0 ? ((double)rot + ROUND) / (double)head : 0.0));
}

static void read_linear(struct reader *r)
{
    int64_t n_val = num(r, "ssm.time_step_rank", true, 0);
    int64_t inner = num(r, "ssm.inner_size", true, 0);

    copy(r, "linear_num_key_heads", "ssm.group_count", true);
    copy(r, "linear_key_head_dim", "ssm.state_size", true);
    copy(r, "linear_conv_kernel_dim", "ssm.conv_kernel", true);
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
    copy(r, "intermediate_size", "feed_forward_length", !r->moe);
    if (!r->moe)
        return;
    copy(r, "num_experts", "expert_count", true);
    copy(r, "num_experts_per_tok", "expert_used_count", true);
    copy(r, "moe_intermediate_size", "expert_feed_forward_length", true);
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
        r->rc = sl_gguf_f64(&eps, r->g,
                            key_of(r, name, "attention.layer_norm_rms_epsilon"),
                            true, 0, 0.1, r->err);
    if (r->rc)
        return;
    set(r, "num_hidden_layers", json_integer(n_block - n_mtp));
    set(r, "mtp_num_hidden_layers", json_integer(n_mtp));
    set(r, "rms_norm_eps", json_real(eps));
    read_vocab(r);
    copy(r, "hidden_size", "embedding_length", true);
    copy(r, "max_position_embeddings", "context_length", true);
    copy(r, "num_attention_heads", "attention.head_count", true);
    if (!r->rc)
        read_kinds(r, n_block - n_mtp);
    read_rope(r);
    read_linear(r);
    read_mlp(r);
}

/* ------------------------------------------------- generation_config.json */

static void sample(struct reader *r, const char *to, const char *key,
                   double def, double hi)
{
    double v = def;

    if (!r->rc)
        r->rc = sl_gguf_f64(&v, r->g, key, false, 0, hi, r->err);
    set(r, to, json_real(v));
}

/* Ids of the tokens that end an answer. */
static void read_ends(struct reader *r)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.eot_token_id"};
    static const char *const texts[] = {"<|im_end|>", "<|endoftext|>"};
    const struct sl_gguf_kv *tok = NULL;
    int64_t id[SL_COUNTOF(keys) + SL_COUNTOF(texts)];
    size_t n = SL_COUNTOF(keys);
    json_t *list = json_array();
    struct sl_cur c;

    for (size_t i = 0; i < SL_COUNTOF(id); i++)
        id[i] = -1;
    for (size_t i = 0; !r->rc && i < n; i++)
        r->rc =
            sl_gguf_i64(&id[i], r->g, keys[i], false, 0, MAX_TOKENS, r->err);
    if (!r->rc)
        r->rc =
            sl_gguf_strs(&tok, r->g, "tokenizer.ggml.tokens", false, r->err);
    if (!r->rc && tok)
        sl_gguf_walk(&c, tok);
    for (uint64_t k = 0; !r->rc && tok && k < tok->n; k++) {
        size_t len;
        const char *s = sl_gguf_next(&c, &len);

        for (size_t i = 0; i < SL_COUNTOF(texts); i++)
            if (s && len == strlen(texts[i]) && !memcmp(s, texts[i], len))
                id[n + i] = (int64_t)k;
    }
    for (size_t i = 0; i < SL_COUNTOF(id); i++) {
        bool seen = id[i] < 0;

        for (size_t k = 0; k < i; k++)
            seen |= id[k] == id[i];
        if (!seen)
            json_array_append_new(list, json_integer(id[i]));
    }
    if (json_array_size(list) > 0)
        set(r, "eos_token_id", list);
    else
        json_decref(list);
}

static void read_generation(struct reader *r)
{
    int64_t k = TOP_K;

    read_ends(r);
    sample(r, "temperature", "general.sampling.temp", TEMPERATURE, 2);
    sample(r, "top_p", "general.sampling.top_p", TOP_P, 1);
    sample(r, "min_p", "general.sampling.min_p", 0, 1);
    sample(r, "repetition_penalty", "general.sampling.penalty_repeat", 1, 100);
    if (!r->rc)
        r->rc = sl_gguf_i64(&k, r->g, "general.sampling.top_k", false, -1,
                            INT32_MAX, r->err);
    set(r, "top_k", json_integer(k));
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
