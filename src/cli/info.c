/* cli/info.c - sluice info MODEL: what a model is, and what it takes */
#include "cli/ready.h"
#include "cli/verb.h"

#include "sluice/sluice.h"

/* Contexts whose cost is shown: a talk, a document, a book. */
static const uint32_t contexts[] = {4096, 32768, 262144};

static long long get(const json_t *j, const char *key)
{
    return (long long)json_integer_value(json_object_get(j, key));
}

static void add_bytes(struct sl_buf *b, const char *name, uint64_t bytes,
                      const char *note)
{
    char text[SL_CLI_BYTES_LEN];

    sl_cli_bytes(text, bytes);
    sl_buf_fmt(b, "  %-20s %s%s\n", name, text, note);
}

static void add_shape(struct sl_buf *b, const json_t *j)
{
    sl_buf_fmt(b, "%s\n",
               json_string_value(json_object_get(j, "architecture")));
    sl_buf_fmt(b, "  %-20s %lld (%lld linear attention, %lld full attention)\n",
               "layers", get(j, "layers"), get(j, "linear_attention_layers"),
               get(j, "full_attention_layers"));
    sl_buf_fmt(b, "  %-20s %lld\n", "hidden", get(j, "hidden"));
    sl_buf_fmt(b, "  %-20s %lld rows%s\n", "vocabulary", get(j, "vocabulary"),
               json_is_true(json_object_get(j, "tied_embedding"))
                   ? ", embedding and head are one matrix"
                   : "");
    sl_buf_fmt(b, "  %-20s %lld tokens\n", "context", get(j, "context"));
    sl_buf_fmt(b,
               "  %-20s %lld heads of %lld, %lld for keys and values, %lld "
               "channels rotate\n",
               "full attention", get(j, "heads"), get(j, "head_dim"),
               get(j, "kv_heads"), get(j, "rotary_dim"));
    sl_buf_fmt(b, "  %-20s %lld key heads of %lld, %lld value heads of %lld\n",
               "linear attention", get(j, "linear_key_heads"),
               get(j, "linear_key_dim"), get(j, "linear_value_heads"),
               get(j, "linear_value_dim"));
    if (get(j, "experts"))
        sl_buf_fmt(b,
                   "  %-20s %lld of width %lld, %lld used per token, shared "
                   "one of width %lld\n",
                   "experts", get(j, "experts"), get(j, "expert_ffn"),
                   get(j, "experts_used"), get(j, "shared_ffn"));
    if (get(j, "ffn"))
        sl_buf_fmt(b, "  %-20s %lld\n", "MLP", get(j, "ffn"));
    sl_buf_fmt(b, "  %-20s %s\n", "MTP head",
               json_is_true(json_object_get(j, "mtp")) ? "yes" : "no");
    sl_buf_fmt(b, "  %-20s %lld (text and MTP head)\n\n", "parameters",
               get(j, "parameters"));
}

static void add_sizes(struct sl_buf *b, const json_t *j)
{
    json_t *classes = json_object_get(j, "weight_bytes_by_class"), *v;
    json_t *kv = json_object_get(j, "kv_bytes_per_token");
    bool found = json_is_true(json_object_get(j, "weights_found"));
    const char *key;
    size_t i_type;

    sl_buf_str(b, "weights in memory");
    json_array_foreach(json_object_get(j, "types"), i_type, v)
    {
        sl_buf_fmt(b, "%s%s", i_type ? ", " : ": ", json_string_value(v));
    }
    sl_buf_str(b, found ? "\n" : " (no weight files here)\n");
    json_object_foreach(classes, key, v)
    {
        if (json_integer_value(v))
            add_bytes(b, key, (uint64_t)json_integer_value(v), "");
    }
    add_bytes(b, "together", (uint64_t)get(j, "weight_bytes"), "");
    add_bytes(b, "read per token", (uint64_t)get(j, "weight_bytes_per_token"),
              "");
    sl_buf_str(b, "\neach sequence\n");
    add_bytes(b, "recurrent state",
              (uint64_t)get(j, "state_bytes_per_sequence"), "");
    add_bytes(b, "keys and values", (uint64_t)get(kv, "bf16"),
              " per token (bf16; fp32 is twice that, bfp8 half)");
    for (size_t i = 0; i < SL_COUNTOF(contexts); i++) {
        char name[32];

        if (contexts[i] > get(j, "context"))
            break;
        snprintf(name, sizeof(name), "  of %u tokens", contexts[i]);
        add_bytes(b, name, (uint64_t)get(kv, "bf16") * contexts[i], "");
    }
}

int sl_cli_info(const struct sl_opts *o, struct sl_err *err)
{
    struct sl_opts opts = *o;
    struct sl_cli_ready r;
    char *text = NULL;
    json_t *j = NULL;
    uint32_t n_used;
    struct sl_buf b;
    int rc = sl_cli_ready_init(&r, &opts, SL_WANT_SMALL, &n_used, err);

    if (!rc)
        rc = sl_cli_max_args(o, n_used, "'sluice info' takes one model", err);
    if (!rc)
        rc = sl_inspect(&text, r.path, err);
    if (!rc)
        rc = sl_json_parse(&j, text, strlen(text), "the description", err);
    sl_free(text);
    sl_cli_ready_deinit(&r);
    if (rc)
        return rc;
    if (o->value[SL_OPT_JSON].i)
        return sl_cli_print_json(j, err);
    sl_buf_init(&b, 65536);
    add_shape(&b, j);
    add_sizes(&b, j);
    json_decref(j);
    return sl_cli_print(&b, "the description", err);
}
