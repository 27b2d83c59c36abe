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

    const char *plan = json_string_value(json_object_get(j, "dtype_plan"));

    sl_buf_fmt(b, "weights in memory%s%s", plan ? ", packed as " : "",
               plan ? plan : "");
    json_array_foreach(json_object_get(j, "types"), i_type, v)
    {
        sl_buf_fmt(b, "%s%s", i_type ? ", " : ": ", json_string_value(v));
    }
    sl_buf_str(b, found ? "\n" : " (no weight files here)\n");
    if (get(j, "fell_back_to_q8_0"))
        sl_buf_fmt(b,
                   "  %-20s %lld matrices, whose rows are no multiple of "
                   "the blocks of %s\n",
                   "fell back to q8_0", get(j, "fell_back_to_q8_0"), plan);
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

/* ---------------------------------------------------------------- bundle */

static void add_line(struct sl_buf *b, const char *name, const char *text)
{
    if (text)
        sl_buf_fmt(b, "  %-20s %s\n", name, text);
}

static void add_weights(struct sl_buf *b, const struct sl_manifest *m)
{
    const json_t *w = json_object_get(m->json, "weights"), *f;
    uint64_t sum = 0;
    size_t i;

    json_array_foreach(json_object_get(w, "files"), i, f)
    {
        sum += (uint64_t)json_integer_value(json_object_get(f, "size"));
    }
    add_line(b, "weights", json_string_value(json_object_get(w, "repo")));
    add_line(b, "  revision",
             json_string_value(json_object_get(w, "revision")));
    add_line(b, "  licence", json_string_value(json_object_get(w, "license")));
    if (json_is_true(json_object_get(w, "gated")))
        add_line(b, "  access", "its licence must be accepted on the hub");
    if (sum)
        add_bytes(b, "  bytes", sum, "");
}

static void add_built(struct sl_buf *b, const struct sl_manifest *m)
{
    const json_t *built = json_object_get(m->json, "built");
    const char *tool = json_string_value(json_object_get(built, "tool"));

    if (!built)
        return;
    sl_buf_fmt(b, "  %-20s %s %s, commit %s%s\n", "built by", tool,
               json_string_value(json_object_get(built, "tool_version")),
               json_object_get(built, "engine_commit")
                   ? json_string_value(json_object_get(built, "engine_commit"))
                   : "not given",
               json_is_true(json_object_get(built, "engine_dirty"))
                   ? ", with changes that are in no commit"
                   : "");
}

/* Of another tool's manifest, what its schemas 3 to 6 have in common. */
static void add_foreign(struct sl_buf *b, const struct sl_manifest *m)
{
    const json_t *w = json_object_get(m->json, "weights");
    const json_t *n = json_object_get(m->json, "device_count");
    const json_t *profiles = json_object_get(m->json, "profiles");
    const char *repo = json_string_value(json_object_get(w, "repo"));
    const char *name;
    json_t *v;

    sl_buf_fmt(b, "  %-20s %s\n", "served by", m->tool);
    add_line(b, "machine", sl_manifest_str(m, "arch", NULL));
    if (json_is_integer(n))
        sl_buf_fmt(b, "  %-20s %lld\n", "devices",
                   (long long)json_integer_value(n));
    add_line(b, "weights",
             repo ? repo : json_string_value(json_object_get(w, "repo_id")));
    add_line(b, "  revision",
             json_string_value(json_object_get(w, "revision")));
    if (!json_is_object(profiles))
        return;
    sl_buf_fmt(b, "  %-20s", "profiles");
    json_object_foreach((json_t *)(uintptr_t)profiles, name, v)
    {
        sl_buf_fmt(b, " %s", name);
    }
    sl_buf_str(b, "\n");
}

static void add_bundle(struct sl_buf *b, const struct sl_manifest *m)
{
    json_t *v;
    const char *name;
    size_t i;

    sl_buf_fmt(b, "bundle %s\n",
               sl_manifest_str(m, "name", NULL)
                   ? sl_manifest_str(m, "name", NULL)
                   : "");
    add_line(b, "title", sl_manifest_str(m, "title", NULL));
    add_line(b, "summary", sl_manifest_str(m, "summary", NULL));
    sl_buf_fmt(b, "  %-20s %s%s%s\n", "schema", m->schema,
               m->tool ? ", of " : "", m->tool ? m->tool : "");
    sl_buf_fmt(b, "  %-20s %.12s\n", "digest", m->digest);
    add_line(b, "trust",
             m->tool                    ? "unverified"
             : m->form == SL_FORM_BUILT ? "intact"
                                        : "unverified (authored)");
    add_line(b, "licence", sl_manifest_str(m, "license", NULL));
    if (m->tool) {
        add_foreign(b, m);
        return;
    }
    add_line(b, "model", sl_manifest_str(m, "model", "id"));
    add_weights(b, m);
    json_array_foreach(json_object_get(m->json, "drafters"), i, v)
    {
        sl_buf_fmt(b, "  %-20s %s, %s\n", "drafter",
                   json_string_value(json_object_get(v, "id")),
                   json_object_get(v, "repo")
                       ? json_string_value(json_object_get(v, "repo"))
                       : "inside the weights");
    }
    sl_buf_fmt(b, "  %-20s", "profiles");
    json_object_foreach(json_object_get(m->json, "profiles"), name, v)
    {
        sl_buf_fmt(b, " %s", name);
    }
    sl_buf_str(b, "\n");
    add_built(b, m);
    json_array_foreach(json_object_get(m->json, "accuracy"), i, v)
    {
        sl_buf_fmt(b, "  %-20s %s: %g (%s)\n", "accuracy",
                   json_string_value(json_object_get(v, "task")),
                   json_number_value(json_object_get(v, "score")),
                   json_string_value(json_object_get(v, "date")));
    }
    json_array_foreach(json_object_get(m->json, "limitations"), i, v)
    {
        add_line(b, "limitation", json_string_value(v));
    }
}

/* Is MODEL a bundle? 0 with its manifest, 1 when it is not. */
static int find_bundle(struct sl_manifest *m, const struct sl_opts *o,
                       struct sl_err *err)
{
    const char *name = o->n_arg ? o->arg[0] : o->value[SL_OPT_MODEL].s;
    int rc;

    if (!name || !strcmp(name, "demo") || sl_file_kind(name) == SL_FILE_REGULAR)
        return 1;
    rc = sl_cli_manifest(m, o, name, err);
    return rc == SL_ENOTFOUND || rc == SL_ENET ? 1 : rc;
}

static int print_bundle(struct sl_manifest *m, const struct sl_opts *o,
                        struct sl_err *err)
{
    struct sl_buf b;

    if (o->value[SL_OPT_JSON].i) {
        int rc = sl_cli_print_json(
            json_pack("{s:s, s:s, s:s*, s:O}", "digest", m->digest, "schema",
                      m->schema, "tool", m->tool, "manifest", m->json),
            err);

        sl_manifest_deinit(m);
        return rc;
    }
    sl_buf_init(&b, 65536);
    add_bundle(&b, m);
    sl_manifest_deinit(m);
    return sl_cli_print(&b, "the description", err);
}

int sl_cli_info(const struct sl_opts *o, struct sl_err *err)
{
    struct sl_opts opts = *o;
    struct sl_cli_ready r;
    char *text = NULL;
    json_t *j = NULL;
    uint32_t n_used;
    struct sl_buf b;
    struct sl_manifest m;
    int rc = find_bundle(&m, o, err);

    if (rc <= 0)
        return rc ? rc : print_bundle(&m, o, err);
    rc = sl_cli_ready_init(&r, &opts, SL_WANT_SMALL, &n_used, err);
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
