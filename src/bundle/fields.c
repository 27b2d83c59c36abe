/* bundle/fields.c - every field of a manifest, as a table; see fields.h
 *
 * The limits are the format's, section 1.3.
 */
#include "bundle/fields.h"

#include "bundle/manifest.h"
#include "bundle/setting.h"

#define MAX_FILES 10000
#define MAX_WEIGHTS 100000 /* files of a checkpoint */
#define MAX_PROFILES 32
#define MAX_DRAFTERS 8
#define MAX_ALIASES 16
#define MAX_ROWS 4096
#define MAX_GLOBS 256
#define U53 (0x1p53 - 1)

static const struct sl_shape model_shape[] = {
    {.key = "id", .type = SL_SHAPE_REPO, .flags = SL_SHAPE_NEED},
    {.key = "aliases", .type = SL_SHAPE_STRS, .hi = MAX_ALIASES},
    {.key = "architecture",
     .type = SL_SHAPE_STR,
     .flags = SL_SHAPE_NEED,
     .hi = 128},
    {.key = "context_length",
     .type = SL_SHAPE_INT,
     .flags = SL_SHAPE_NEED,
     .lo = 1,
     .hi = U53},
    {.key = NULL}};

static const struct sl_shape weight_file_shape[] = {
    {.key = "path", .type = SL_SHAPE_PATH, .flags = SL_SHAPE_NEED},
    {.key = "size", .type = SL_SHAPE_INT, .flags = SL_SHAPE_NEED, .hi = U53},
    {.key = "sha256", .type = SL_SHAPE_SHA256},
    {.key = "git_sha1", .type = SL_SHAPE_SHA1},
    {.key = NULL}};

#define WEIGHTS                                                                \
    {.key = "license", .type = SL_SHAPE_STR, .hi = 256},                       \
        {.key = "gated", .type = SL_SHAPE_BOOL},                               \
        {.key = "files",                                                       \
         .type = SL_SHAPE_OBJS,                                                \
         .hi = MAX_WEIGHTS,                                                    \
         .sub = weight_file_shape},                                            \
        {.key = "allow", .type = SL_SHAPE_STRS, .hi = MAX_GLOBS},              \
        {.key = "ignore", .type = SL_SHAPE_STRS, .hi = MAX_GLOBS},             \
        {.key = "total_bytes", .type = SL_SHAPE_INT, .hi = U53},               \
    {                                                                          \
        .key = "format", .type = SL_SHAPE_WORD, .words = "safetensors|gguf"    \
    }

static const struct sl_shape weights_shape[] = {
    {.key = "repo", .type = SL_SHAPE_REPO, .flags = SL_SHAPE_NEED},
    {.key = "revision", .type = SL_SHAPE_REF, .flags = SL_SHAPE_NEED},
    WEIGHTS,
    {.key = NULL}};

static const struct sl_shape tensors_shape[] = {
    {.key = "prefix", .type = SL_SHAPE_STR, .flags = SL_SHAPE_NEED, .hi = 256},
    {.key = "count", .type = SL_SHAPE_INT, .lo = 1, .hi = 1 << 20},
    {.key = NULL}};

static const struct sl_shape drafter_shape[] = {
    {.key = "id", .type = SL_SHAPE_SLUG, .flags = SL_SHAPE_NEED},
    {.key = "role",
     .type = SL_SHAPE_WORD,
     .flags = SL_SHAPE_NEED,
     .words = "mtp|dflash"},
    {.key = "embedded", .type = SL_SHAPE_BOOL},
    {.key = "tensors", .type = SL_SHAPE_OBJ, .sub = tensors_shape},
    {.key = "required_by", .type = SL_SHAPE_STRS, .hi = MAX_PROFILES},
    {.key = "repo", .type = SL_SHAPE_REPO},
    {.key = "revision", .type = SL_SHAPE_REF},
    WEIGHTS,
    {.key = NULL}};

static const struct sl_shape engine_shape[] = {
    {.key = "name",
     .type = SL_SHAPE_WORD,
     .flags = SL_SHAPE_NEED,
     .words = "sluice"},
    {.key = "min_version",
     .type = SL_SHAPE_STR,
     .flags = SL_SHAPE_NEED,
     .hi = 32},
    {.key = "max_version", .type = SL_SHAPE_STR, .hi = 32},
    {.key = "features", .type = SL_SHAPE_STRS, .hi = 64},
    {.key = NULL}};

static const struct sl_shape capabilities_shape[] = {
    {.key = "tool_call_parser", .type = SL_SHAPE_STR, .hi = 64},
    {.key = "reasoning_parser", .type = SL_SHAPE_STR, .hi = 64},
    {.key = "chat_template", .type = SL_SHAPE_PATH},
    {.key = "modalities", .type = SL_SHAPE_STRS, .hi = 8},
    {.key = "streaming", .type = SL_SHAPE_BOOL},
    {.key = "max_logprobs", .type = SL_SHAPE_INT, .hi = 1 << 20},
    {.key = NULL}};

/* The ranges are those of the options. */
static const struct sl_shape sampling_shape[] = {
    {.key = "temperature", .type = SL_SHAPE_NUM, .hi = 2},
    {.key = "top_k", .type = SL_SHAPE_INT, .lo = -1, .hi = INT32_MAX},
    {.key = "top_p", .type = SL_SHAPE_NUM, .lo = 1e-9, .hi = 1},
    {.key = "min_p", .type = SL_SHAPE_NUM, .hi = 1},
    {.key = "presence_penalty", .type = SL_SHAPE_NUM, .lo = -2, .hi = 2},
    {.key = "frequency_penalty", .type = SL_SHAPE_NUM, .lo = -2, .hi = 2},
    {.key = "repetition_penalty", .type = SL_SHAPE_NUM, .lo = 1e-3, .hi = 1e3},
    {.key = "source",
     .type = SL_SHAPE_WORD,
     .words = "bundle|generation_config"},
    {.key = NULL}};

static const struct sl_shape accuracy_shape[] = {
    {.key = "task", .type = SL_SHAPE_STR, .flags = SL_SHAPE_NEED, .hi = 256},
    {.key = "score",
     .type = SL_SHAPE_NUM,
     .flags = SL_SHAPE_NEED,
     .lo = -1e9,
     .hi = 1e9},
    {.key = "stderr", .type = SL_SHAPE_NUM, .hi = 1e9},
    {.key = "n", .type = SL_SHAPE_INT, .hi = U53},
    {.key = "settings", .type = SL_SHAPE_STR},
    {.key = "profile", .type = SL_SHAPE_SLUG},
    {.key = "date", .type = SL_SHAPE_STR, .flags = SL_SHAPE_NEED, .hi = 32},
    {.key = NULL}};

static const struct sl_shape row_shape[] = {
    {.key = "profile", .type = SL_SHAPE_SLUG, .flags = SL_SHAPE_NEED},
    {.key = "input_tokens", .type = SL_SHAPE_INT, .hi = U53},
    {.key = "output_tokens", .type = SL_SHAPE_INT, .hi = U53},
    {.key = "concurrency", .type = SL_SHAPE_INT, .lo = 1, .hi = 1 << 20},
    {.key = "n", .type = SL_SHAPE_INT, .lo = 1, .hi = U53},
    {.key = "text", .type = SL_SHAPE_WORD, .words = "random|natural"},
    {.key = "temperature", .type = SL_SHAPE_NUM, .hi = 2},
    {.key = "tpot_ms", .type = SL_SHAPE_NUM, .hi = 1e9},
    {.key = "ttft_ms", .type = SL_SHAPE_NUM, .hi = 1e9},
    {.key = "tps_user", .type = SL_SHAPE_NUM, .hi = 1e9},
    {.key = "tps_total", .type = SL_SHAPE_NUM, .hi = 1e9},
    {.key = "accept_len", .type = SL_SHAPE_NUM, .hi = 1e6},
    {.key = "hardware", .type = SL_SHAPE_STR, .flags = SL_SHAPE_NEED},
    {.key = "engine_version", .type = SL_SHAPE_STR, .hi = 256},
    {.key = "date", .type = SL_SHAPE_STR, .flags = SL_SHAPE_NEED, .hi = 32},
    {.key = "log", .type = SL_SHAPE_PATH},
    {.key = NULL}};

static const struct sl_shape benchmarks_shape[] = {
    {.key = "method", .type = SL_SHAPE_STR, .flags = SL_SHAPE_NEED},
    {.key = "rows",
     .type = SL_SHAPE_OBJS,
     .flags = SL_SHAPE_NEED,
     .hi = MAX_ROWS,
     .sub = row_shape},
    {.key = NULL}};

static const struct sl_shape file_shape[] = {
    {.key = "path", .type = SL_SHAPE_PATH, .flags = SL_SHAPE_NEED},
    {.key = "size", .type = SL_SHAPE_INT, .flags = SL_SHAPE_NEED, .hi = U53},
    {.key = "sha256", .type = SL_SHAPE_SHA256, .flags = SL_SHAPE_NEED},
    {.key = "mode",
     .type = SL_SHAPE_WORD,
     .flags = SL_SHAPE_NEED,
     .words = "0644|0755"},
    {.key = NULL}};

static const struct sl_shape input_shape[] = {
    {.key = "name", .type = SL_SHAPE_STR, .flags = SL_SHAPE_NEED, .hi = 256},
    {.key = "repo", .type = SL_SHAPE_REPO},
    {.key = "revision", .type = SL_SHAPE_SHA1},
    {.key = "sha256", .type = SL_SHAPE_SHA256},
    {.key = NULL}};

static const struct sl_shape built_shape[] = {
    {.key = "tool", .type = SL_SHAPE_STR, .flags = SL_SHAPE_NEED, .hi = 64},
    {.key = "tool_version",
     .type = SL_SHAPE_STR,
     .flags = SL_SHAPE_NEED,
     .hi = 64},
    {.key = "engine_commit", .type = SL_SHAPE_SHA1},
    {.key = "engine_dirty", .type = SL_SHAPE_BOOL},
    {.key = "source_digest", .type = SL_SHAPE_SHA256},
    {.key = "compiler", .type = SL_SHAPE_STR, .hi = 256},
    {.key = "flags_digest", .type = SL_SHAPE_SHA256},
    {.key = "libc", .type = SL_SHAPE_STR, .hi = 256},
    {.key = "os", .type = SL_SHAPE_STR, .hi = 256},
    {.key = "built_at", .type = SL_SHAPE_STR, .hi = 32},
    {.key = "reproducible", .type = SL_SHAPE_BOOL},
    {.key = "inputs", .type = SL_SHAPE_OBJS, .hi = 1024, .sub = input_shape},
    {.key = NULL}};

static int check_renamed(struct sl_walk *w, const struct sl_shape *s,
                         const json_t *v)
{
    const char *key;
    json_t *to;

    (void)s;
    if (!json_is_object(v) || json_object_size(v) > 4 * MAX_PROFILES)
        return sl_walk_wrong(w, v, "an object of at most 128 names");
    json_object_foreach((json_t *)(uintptr_t)v, key, to)
    {
        size_t old = sl_walk_key(w, key);

        if (!sl_name_is_slug(key))
            return sl_walk_fail(w, "is no name of a profile");
        if (!json_is_string(to))
            return sl_walk_wrong(w, to, "the name of a profile");
        sl_walk_back(w, old);
    }
    return 0;
}

const struct sl_shape sl_fields[] = {
    {.key = "schema_version", .type = SL_SHAPE_STR, .flags = SL_SHAPE_NEED},
    {.key = "kind",
     .type = SL_SHAPE_WORD,
     .flags = SL_SHAPE_NEED,
     .words = "native|native-bin"},
    {.key = "name", .type = SL_SHAPE_SLUG, .flags = SL_SHAPE_NEED},
    {.key = "repo", .type = SL_SHAPE_REPO},
    {.key = "title", .type = SL_SHAPE_STR, .hi = 200},
    {.key = "summary", .type = SL_SHAPE_STR, .hi = 400},
    {.key = "license", .type = SL_SHAPE_STR, .flags = SL_SHAPE_NEED, .hi = 128},
    {.key = "model",
     .type = SL_SHAPE_OBJ,
     .flags = SL_SHAPE_NEED,
     .sub = model_shape},
    {.key = "weights",
     .type = SL_SHAPE_OBJ,
     .flags = SL_SHAPE_NEED,
     .sub = weights_shape},
    {.key = "drafters",
     .type = SL_SHAPE_OBJS,
     .hi = MAX_DRAFTERS,
     .sub = drafter_shape},
    {.key = "engine",
     .type = SL_SHAPE_OBJ,
     .flags = SL_SHAPE_NEED,
     .sub = engine_shape},
    {.key = "serve",
     .type = SL_SHAPE_OBJ,
     .flags = SL_SHAPE_NEED | SL_SHAPE_STRICT,
     .sub = sl_setting_shape},
    {.key = "profiles",
     .type = SL_SHAPE_MAP,
     .flags = SL_SHAPE_NEED | SL_SHAPE_STRICT | SL_SHAPE_NULLS,
     .hi = MAX_PROFILES,
     .sub = sl_setting_shape},
    {.key = "default_profile", .type = SL_SHAPE_SLUG},
    {.key = "renamed_profiles", .type = SL_SHAPE_CALL, .call = check_renamed},
    {.key = "capabilities", .type = SL_SHAPE_OBJ, .sub = capabilities_shape},
    {.key = "sampling", .type = SL_SHAPE_OBJ, .sub = sampling_shape},
    {.key = "accuracy",
     .type = SL_SHAPE_OBJS,
     .hi = MAX_ROWS,
     .sub = accuracy_shape},
    {.key = "benchmarks", .type = SL_SHAPE_OBJ, .sub = benchmarks_shape},
    {.key = "limitations", .type = SL_SHAPE_STRS, .hi = 256},
    {.key = "files",
     .type = SL_SHAPE_OBJS,
     .flags = SL_SHAPE_NEED_BUILT | SL_SHAPE_ONLY_BUILT,
     .hi = MAX_FILES,
     .sub = file_shape},
    {.key = "built",
     .type = SL_SHAPE_OBJ,
     .flags = SL_SHAPE_NEED_BUILT | SL_SHAPE_ONLY_BUILT,
     .sub = built_shape},
    {.key = NULL}};
