/* bundle/needs.c - what a bundle needs; see needs.h */
#include "bundle/needs.h"

#include "base/file.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/tree.h"

#define MAX_LOGPROBS 20 /* the server's limit, server/request.h */
#define MAX_CONFIG ((size_t)4 << 20)
#define MAX_INDEX ((size_t)64 << 20)
#define MAX_HEADER ((size_t)100 << 20) /* of safetensors, by its format */

const char *const sl_needs_features[] = {
    "gdn.checkpoint", /* states of kept prefixes */
    "kv.bfp8",  "moe.topk", "spec.mtp", "spec.ngram", "spec.dflash",
    "weights.q8", "weights.q4", "weights.bfp4", "gguf", NULL};

/* --------------------------------------------------------------- program */

/* "1.2.3" -> a number to compare; -1 when it is none. */
static int64_t version(const char *s)
{
    int64_t v = 0, part;

    for (int i = 0; i < 3; i++) {
        size_t n = strspn(s, "0123456789");

        if (n == 0 || n > 6 || sl_num_i64(&part, s, n, 0, 999999, "", NULL))
            return i > 0 && !*s ? v << (20 * (3 - i)) : -1;
        v = (v << 20) + part;
        s += n;
        s += *s == '.';
    }
    return v;
}

static int check_version(const struct sl_manifest *m, struct sl_err *err)
{
    const char *min = sl_manifest_str(m, "engine", "min_version");
    const char *max = sl_manifest_str(m, "engine", "max_version");

    if (min && version(SL_VERSION) < version(min))
        return sl_fail(err, SL_EUNSUP,
                       "the bundle needs version %s and this is " SL_VERSION
                       "; update sluice",
                       min);
    if (max && version(SL_VERSION) >= version(max))
        return sl_fail(
            err, SL_EUNSUP,
            "the bundle is for versions before %s and this is " SL_VERSION
            "; look for a newer one",
            max);
    return 0;
}

static bool has_feature(const char *name)
{
    for (size_t i = 0; sl_needs_features[i]; i++)
        if (!strcmp(sl_needs_features[i], name))
            return true;
    return false;
}

static int check_features(const struct sl_manifest *m, struct sl_err *err)
{
    json_t *list = json_object_get(json_object_get(m->json, "engine"),
                                   "features"),
           *v;
    size_t i;

    json_array_foreach(list, i, v)
    {
        if (!has_feature(json_string_value(v)))
            return sl_fail(err, SL_EUNSUP,
                           "the bundle needs the feature '%.64s', which this "
                           "version does not have; 'sluice version' lists "
                           "those it has",
                           json_string_value(v));
    }
    return 0;
}

static int check_capabilities(const struct sl_manifest *m, struct sl_err *err)
{
    const json_t *c = json_object_get(m->json, "capabilities"), *v;
    size_t i;

    json_array_foreach(json_object_get(c, "modalities"), i, v)
    {
        if (strcmp(json_string_value(v), "text"))
            return sl_fail(err, SL_EUNSUP,
                           "the bundle is for '%.64s', and this version reads "
                           "and writes text only",
                           json_string_value(v));
    }
    if (json_is_false(json_object_get(c, "streaming")))
        return sl_fail(err, SL_EUNSUP,
                       "the bundle forbids streaming, and this server always "
                       "offers it");
    if (json_integer_value(json_object_get(c, "max_logprobs")) > MAX_LOGPROBS)
        return sl_fail(err, SL_EUNSUP,
                       "the bundle promises %lld log-probabilities of a token, "
                       "and this server gives at most %d",
                       (long long)json_integer_value(
                           json_object_get(c, "max_logprobs")),
                       MAX_LOGPROBS);
    return 0;
}

int sl_needs_program(const struct sl_manifest *m, struct sl_err *err)
{
    const char *kind = sl_manifest_str(m, "kind", NULL);
    int rc = check_version(m, err);

    if (!rc && kind && strcmp(kind, "native"))
        rc = sl_fail(err, SL_EUNSUP,
                     "the bundle is of the kind '%s': it brings a program of "
                     "its own, and this version runs none but itself",
                     kind);
    if (!rc)
        rc = check_features(m, err);
    return rc ? rc : check_capabilities(m, err);
}

/* --------------------------------------------------------------- machine */

static uint64_t need(const json_t *req, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(req, key));
}

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = strstr(list, word); p; p = strstr(p + 1, word))
        if ((p == list || p[-1] == ' ') && (p[n] == 0 || p[n] == ' '))
            return true;
    return false;
}

static int check_kind(const json_t *req, const struct sl_machine *m,
                      const char *name, struct sl_err *err)
{
    const json_t *list = json_object_get(req, "backend"), *v;
    bool ok = !list;
    size_t i;

    json_array_foreach(list, i, v)
    {
        ok |= !strcmp(json_string_value(v), "cpu");
    }
    if (!ok)
        return sl_fail(err, SL_EUNSUP,
                       "profile '%s' needs another kind of machine than a "
                       "processor; choose another --profile",
                       name);
    list = json_object_get(req, "isa_any");
    ok = json_array_size(list) == 0;
    json_array_foreach(list, i, v)
    {
        const char *want = json_string_value(v);

        /* Linux calls "neon_i8mm" of a manifest "i8mm". */
        ok |= has_word(m->isa, strncmp(want, "neon_", 5) ? want : want + 5);
    }
    if (!ok)
        return sl_fail(err, SL_EUNSUP,
                       "profile '%s' needs one of the instruction sets that "
                       "its manifest lists, and this machine has: %s",
                       name, m->isa);
    return 0;
}

static int check_counts(const json_t *req, const struct sl_machine *m,
                        const char *name, struct sl_err *err)
{
    uint64_t units = need(req, "units"), bytes;

    if (units > sl_max(m->n_node, 1))
        return sl_fail(err, SL_EUNSUP,
                       "profile '%s' needs %llu memory nodes and this machine "
                       "has %u; choose another --profile or say --force",
                       name, (unsigned long long)units, m->n_node);
    if (need(req, "cores") > m->n_core)
        return sl_fail(err, SL_EUNSUP,
                       "profile '%s' needs %llu cores and this machine has %u; "
                       "choose another --profile or say --force",
                       name, (unsigned long long)need(req, "cores"),
                       m->n_core);
    bytes = sl_max(need(req, "host_memory_bytes"),
                   need(req, "unit_memory_bytes") * sl_max(units, 1));
    if (bytes > m->mem_bytes)
        return sl_fail(err, SL_EUNSUP,
                       "profile '%s' needs %.1f GiB of memory and this machine "
                       "has %.1f; choose another --profile or say --force",
                       name, (double)bytes / 0x1p30,
                       (double)m->mem_bytes / 0x1p30);
    return 0;
}

/* Bytes of the packed files that are kept already. */
static uint64_t kept_bytes(const char *packed)
{
    struct sl_names names = {.n = 0};
    char dir[SL_TREE_PATH], path[SL_TREE_PATH];
    struct sl_stat st;
    uint64_t sum = 0;

    if (sl_path_join(dir, sizeof(dir), packed, "packed", NULL) ||
        sl_names_list(&names, dir, NULL))
        return 0;
    for (size_t i = 0; i < names.n; i++)
        if (!sl_path_join(path, sizeof(path), dir, names.name[i], NULL) &&
            sl_tree_stat(&st, path, false) && st.kind == SL_FILE_REGULAR)
            sum += st.size;
    sl_names_deinit(&names);
    return sum;
}

static int check_disk(const json_t *req, const char *packed, const char *name,
                      struct sl_err *err)
{
    uint64_t want = need(req, "disk_bytes"), has;

    if (!want || !packed || !*packed)
        return 0;
    has = sl_tree_free(packed) + kept_bytes(packed);
    if (has >= want)
        return 0;
    return sl_fail(err, SL_ENOSPACE,
                   "profile '%s' needs %.1f GiB of disk for packed weights, "
                   "and '%s' has %.1f; make room, name another folder with "
                   "--packed-dir, or say --force",
                   name, (double)want / 0x1p30, packed, (double)has / 0x1p30);
}

int sl_needs_machine(const json_t *profile, const char *name, bool force,
                     const char *packed, struct sl_err *err)
{
    const json_t *req = json_object_get(profile, "requires");
    struct sl_machine m;
    int rc = sl_machine_get(&m, err);

    if (!rc)
        rc = check_kind(req, &m, name, err);
    if (rc || force)
        return rc;
    rc = check_counts(req, &m, name, err);
    return rc ? rc : check_disk(req, packed, name, err);
}

void sl_needs_advice(char *out, size_t cap, const json_t *profile,
                     const char *name)
{
    uint64_t want = need(json_object_get(profile, "requires"), "hugepages_1g");
    struct sl_machine m;

    out[0] = 0;
    if (want && !sl_machine_get(&m, NULL) && m.n_huge_1g < want)
        snprintf(out, cap,
                 "profile '%s' advises %llu huge pages of 1 GiB and this "
                 "machine has %llu; it runs without them",
                 name, (unsigned long long)want,
                 (unsigned long long)m.n_huge_1g);
}

/* ------------------------------------------------------------ checkpoint */

/* "qwen3_5_moe" is the architecture of "qwen3_5_moe_text", too. */
static bool is_type(const json_t *conf, const char *want)
{
    const char *type = json_string_value(json_object_get(conf, "model_type"));
    size_t n = strlen(want);

    return type && !strncmp(type, want, n) &&
           (!type[n] || !strcmp(type + n, "_text"));
}

static int check_architecture(const struct sl_manifest *m, const char *dir,
                              bool *is_gguf, struct sl_err *err)
{
    const char *want = sl_manifest_str(m, "model", "architecture");
    char path[SL_TREE_PATH];
    const char *class;
    json_t *conf = NULL;
    int rc = sl_path_join(path, sizeof(path), dir, "config.json", err);

    *is_gguf = !rc && sl_file_kind(path) == SL_FILE_NONE;
    if (rc || *is_gguf)
        return rc;
    rc = sl_json_load(&conf, path, MAX_CONFIG, err);
    class = json_string_value(
        json_array_get(json_object_get(conf, "architectures"), 0));
    if (!rc && !is_type(conf, want) && (!class || strcmp(class, want)))
        rc = sl_fail(err, SL_EFORMAT,
                     "the bundle is for the architecture '%.100s' and its "
                     "weights are '%.100s'; tell its author",
                     want,
                     json_object_get(conf, "model_type")
                         ? json_string_value(json_object_get(conf,
                                                             "model_type"))
                         : "of none");
    json_decref(conf);
    return rc;
}

/* Keys of a JSON object with this beginning. */
static uint64_t count(const json_t *names, const char *prefix)
{
    const char *key;
    json_t *v;
    uint64_t n = 0;

    json_object_foreach((json_t *)(uintptr_t)names, key, v)
    {
        n += !strncmp(key, prefix, strlen(prefix));
    }
    return n;
}

/* The names of all tensors: the index of a set, or the header of one file. */
static int tensor_names(json_t **out, const char *dir, struct sl_err *err)
{
    char path[SL_TREE_PATH];
    json_t *j = NULL;
    struct sl_map m;
    uint64_t n = 0;
    int rc = sl_path_join(path, sizeof(path), dir,
                          "model.safetensors.index.json", err);

    if (!rc && sl_file_kind(path) == SL_FILE_REGULAR) {
        rc = sl_json_load(&j, path, MAX_INDEX, err);
        *out = json_incref(json_object_get(j, "weight_map"));
        json_decref(j);
        return rc;
    }
    if (!rc)
        rc = sl_path_join(path, sizeof(path), dir, "model.safetensors", err);
    if (!rc)
        rc = sl_map_open(&m, path, err);
    if (rc)
        return rc;
    for (size_t i = 0; m.len >= 8 && i < 8; i++)
        n |= (uint64_t)(unsigned char)m.p[i] << (8 * i);
    if (m.len < 8 || n > MAX_HEADER || n > m.len - 8)
        rc = sl_fail(err, SL_EFORMAT, "'%s' is no safetensors file", path);
    else
        rc = sl_json_parse(out, (const char *)m.p + 8, (size_t)n, path, err);
    sl_map_close(&m);
    return rc;
}

static bool names_profile(const json_t *drafter, const char *profile)
{
    json_t *v;
    size_t i;

    json_array_foreach(json_object_get(drafter, "required_by"), i, v)
    {
        if (!strcmp(json_string_value(v), profile))
            return true;
    }
    return false;
}

static int check_head(const json_t *drafter, const json_t *names,
                      const char *profile, struct sl_err *err)
{
    const json_t *t = json_object_get(drafter, "tensors");
    const char *prefix = json_string_value(json_object_get(t, "prefix"));
    uint64_t want = need(t, "count"), has = prefix ? count(names, prefix) : 1;

    if (has > 0 && (!want || has == want))
        return 0;
    return sl_fail(err, SL_EFORMAT,
                   "profile '%s' drafts with '%s', %llu tensors that begin "
                   "with '%.100s', and the weights have %llu; choose another "
                   "--profile, and tell the bundle's author",
                   profile, json_string_value(json_object_get(drafter, "id")),
                   (unsigned long long)sl_max(want, 1), prefix,
                   (unsigned long long)has);
}

int sl_needs_checkpoint(const struct sl_manifest *m, const char *profile,
                        const char *dir, struct sl_err *err)
{
    json_t *names = NULL, *d;
    bool is_gguf = false;
    size_t i;
    int rc = check_architecture(m, dir, &is_gguf, err);

    json_array_foreach(json_object_get(m->json, "drafters"), i, d)
    {
        if (rc || is_gguf || !json_object_get(d, "tensors") ||
            !names_profile(d, profile))
            continue;
        if (!names)
            rc = tensor_names(&names, dir, err);
        if (!rc)
            rc = check_head(d, names, profile, err);
    }
    json_decref(names);
    return rc;
}
