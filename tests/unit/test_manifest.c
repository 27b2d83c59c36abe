/* bundle/manifest: what is wrong is named with its path; profiles merge; the
 * shipped bundles are what the expected files say. Each bad manifest is the
 * good one of tests/golden/bundles with one change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "bundle/manifest.h"
#include "bundle/needs.h"
#include "bundle/setting.h"
#include "engine/ladder.h"

#define SMALL "tests/golden/bundles/small.json"
#define Z40 "0000000000000000000000000000000000000000"
#define D64 "7777777777777777777777777777777777777777777777777777777777777777"
#define FILE_OF(path)                                                          \
    "{\"path\":\"" path "\",\"size\":1,\"sha256\":\"" D64                      \
    "\",\"mode\":\"0644\"}"

static char *small;
static size_t n_small;

static json_t *good(void)
{
    json_t *j = NULL;
    struct sl_err err;

    assert_int_equal(sl_json_parse(&j, small, n_small, SMALL, &err), 0);
    return j;
}

/* The last object or array of a path like a.b[2].c, and its last key. */
static json_t *walk(json_t *j, const char *path, char last[64], int *index)
{
    const char *p = path;

    for (;;) {
        size_t n = strcspn(p, ".[");
        const char *next = p + n;
        json_t *v;

        *index = -1;
        snprintf(last, 64, "%.*s", (int)n, p);
        if (*next == 0)
            return j;
        v = json_object_get(j, last);
        if (*next == '[') {
            *index = next[1] - '0';
            next += 3;
            if (*next == 0)
                return v;
            v = json_array_get(v, (size_t)*index);
        }
        if (!v)
            fail_msg("no %s in the good manifest", path);
        j = v;
        p = next + (*next == '.');
    }
}

static void change(json_t *j, const char *path, const char *value)
{
    json_error_t je;
    char last[64];
    int index;
    json_t *at = walk(j, path, last, &index);
    json_t *v = value ? json_loads(value, JSON_DECODE_ANY, &je) : NULL;

    if (value && !v)
        fail_msg("%s: %s", value, je.text);
    if (index >= 0 && value)
        assert_int_equal(json_array_set_new(at, (size_t)index, v), 0);
    else if (value)
        assert_int_equal(json_object_set_new(at, last, v), 0);
    else
        assert_int_equal(json_object_del(at, last), 0);
}

static const struct bad {
    const char *path, *value; /* NULL removes */
    const char *says;
} bad[] = {
    {"schema_version", NULL, "'schema_version' is missing"},
    {"schema_version", "1.0", "'schema_version' is 1.0 and must be a string"},
    {"schema_version", "\"1\"", "'schema_version' is \"1\" and must be"},
    {"schema_version", "\"1.x\"", "'schema_version' is \"1.x\" and must be"},
    {"schema_version", "\"2.0\"", "is 2.0, written by version 0.1.0"},
    {"kind", NULL, "'kind' is missing"},
    {"kind", "\"foreign\"",
     "'kind' is \"foreign\" and must be one of native|native-bin"},
    {"name", NULL, "'name' is missing"},
    {"name", "\"Small\"", "'name' is \"Small\" and must be a short name"},
    {"name", "\"../x\"", "'name' is \"../x\" and must be a short name"},
    {"name", "\"a--b\"", "'name' is \"a--b\" and must be a short name"},
    {"name", "7", "'name' is 7 and must be a string"},
    {"repo", "\"x\"", "'repo' is \"x\" and must be a repository, OWNER/NAME"},
    {"repo", "\"a/b/c\"", "'repo' is \"a/b/c\" and must be a repository"},
    {"repo", "\"a/b.git\"", "'repo' is \"a/b.git\" and must be a repository"},
    {"title", "[]", "'title' is [] and must be a string"},
    {"license", NULL, "'license' is missing"},
    {"model", NULL, "'model' is missing"},
    {"model", "[]", "'model' is [] and must be an object"},
    {"model.id", NULL, "'model.id' is missing"},
    {"model.id", "\"small\"",
     "'model.id' is \"small\" and must be a repository"},
    {"model.architecture", NULL, "'model.architecture' is missing"},
    {"model.context_length", "0",
     "'model.context_length' is 0 and must be a whole number from 1"},
    {"model.context_length", "1e3",
     "'model.context_length' is 1000.0 and must be a whole number"},
    {"model.context_length", "\"4096\"",
     "'model.context_length' is \"4096\" and must be a whole number"},
    {"model.context_length", "-1", "'model.context_length' is -1 and must be"},
    {"model.aliases", "[1]", "'model.aliases[0]' is 1 and must be a string"},
    {"model.colour", "1", "'model.colour' is not known here"},
    {"weights", NULL, "'weights' is missing"},
    {"weights.repo", NULL, "'weights.repo' is missing"},
    {"weights.revision", "\"main\"",
     "'weights.revision' is \"main\" and must be a commit of 40"},
    {"weights.revision", "\"11111111111111111111111111111111111111AA\"",
     "must be a commit of 40 lower-case"},
    {"weights.gated", "1", "'weights.gated' is 1 and must be true or false"},
    {"weights.format", "\"pickle\"",
     "'weights.format' is \"pickle\" and must be one of safetensors|gguf"},
    {"weights.total_bytes", "1",
     "'weights.total_bytes' is 1 and the files have"},
    {"benchmarks.rows[0].log", "\"none.txt\"",
     "'benchmarks.rows[0]' has the log 'none.txt', which is not among"},
    {"sampling", "{\"source\":\"generation_config\",\"top_k\":2}",
     "'sampling' has values and takes them from the generation_config"},
    {"weights.files", "[]", "'weights.files' is missing"},
    {"weights.files", "{}", "'weights.files' is {} and must be an array"},
    {"weights.files",
     "[{\"path\":\"a\",\"size\":9007199254740991,\"sha256\":\"" D64 "\"},"
     "{\"path\":\"b\",\"size\":9007199254740991,\"sha256\":\"" D64 "\"}]",
     "'weights.total_bytes' would be above 2^53"},
    {"weights.files[0].path", "\"../x\"",
     "'weights.files[0].path' is the path '../x', which has a part '.' or '..'"},
    {"weights.files[0].path", "\"/etc/x\"", "which begins with '/'"},
    {"weights.files[0].path", "\"a//b\"", "which has an empty part"},
    {"weights.files[0].path", "\"a\\\\b\"", "which has a '\\'"},
    {"weights.files[0].path", "\"C:x\"", "which begins with a drive"},
    {"weights.files[0].path", "\"a/b.\"", "ends with a dot or a space"},
    {"weights.files[0].path", "\".git/config\"",
     "which lies in the folder .git"},
    {"weights.files[0].path", "\"\"", "which is empty"},
    {"weights.files[0].path", "\"MODEL.safetensors\"",
     "which some file systems take for one"},
    {"weights.files[0].size", "-1",
     "'weights.files[0].size' is -1 and must be"},
    {"weights.files[0].size", "9007199254740992",
     "'weights.files[0].size' is 9007199254740992 and must be"},
    {"weights.files[0].git_sha1", NULL,
     "'weights.files[0]' has neither sha256 nor git_sha1"},
    {"weights.files[1].sha256", "\"zz\"",
     "'weights.files[1].sha256' is \"zz\" and must be 64 lower-case"},
    {"weights.files[1].md5", "\"\"",
     "'weights.files[1].md5' is not known here"},
    {"drafters[0].id", NULL, "'drafters[0].id' is missing"},
    {"drafters[0].role", "\"draft\"",
     "'drafters[0].role' is \"draft\" and must be one of mtp|dflash"},
    {"drafters[0].embedded", "false", "'drafters[0]' needs a repo"},
    {"drafters[1].embedded", "true",
     "'drafters[1]' is embedded and has a repo"},
    {"drafters[1].revision", NULL, "'drafters[1]' has a repo and no revision"},
    {"drafters[1].id", "\"mtp\"",
     "'drafters[1]' has the id 'mtp' of another one"},
    {"drafters[0].required_by", "[\"slow\"]",
     "'drafters[0]' is required by 'slow', which is no profile"},
    {"drafters[0].tensors", "{\"count\":0}",
     "'drafters[0].tensors.count' is 0 and must be"},
    {"engine.name", "\"vllm\"",
     "'engine.name' is \"vllm\" and must be one of sluice"},
    {"engine.min_version", NULL, "'engine.min_version' is missing"},
    {"serve", NULL, "'serve' is missing"},
    {"serve.x_mine", "1", "'serve.x_mine' is not known here"},
    {"serve.mode", "\"duo\"",
     "'serve.mode' is \"duo\" and must be one of mono|split"},
    {"serve.http.port", "70000",
     "'serve.http.port' is wrong: 70000 is outside 0 to 65535"},
    {"serve.http.api_key", "\"x\"",
     "'serve.http.api_key' is no setting of 'http'"},
    {"serve.engine.max_model_length", "1",
     "'serve.engine.max_model_length' is no setting of 'engine'"},
    {"serve.engine.model", "\"x\"",
     "'serve.engine.model' is no setting of 'engine'"},
    {"serve.engine.chat_template", "\"/etc/passwd\"",
     "'serve.engine.chat_template' is no setting"},
    {"serve.engine.max_num_seqs", "0",
     "'serve.engine.max_num_seqs' is wrong: 0 is outside 1 to 4096"},
    {"serve.engine.max_num_seqs", "[1]",
     "'serve.engine.max_num_seqs' is wrong"},
    {"serve.engine.kv_dtype", "\"int3\"",
     "'serve.engine.kv_dtype' is \"int3\" and must be"},
    {"serve.engine.tensor_parallel_size", "0",
     "'serve.engine.tensor_parallel_size' is 0 and must be"},
    {"serve.spec", "{\"spec_ladder\":[[1]]}",
     "'serve.spec.spec_ladder' is [[1]] and must be"},
    {"serve.spec", "{\"spec_ladder\":[[4,8],[4,4]]}", "and rising"},
    {"serve.spec", "{\"spec_ladder\":[[65537,4]]}", "1 to 65536"},
    {"serve.spec", "{\"draft_depth\":8}",
     "'serve.spec.draft_depth' is wrong: '8' is not offered; choose one of "
     "auto|1|2|3|4|5|6|7"},
    {"serve.spec", "{\"draft_depth\":0}",
     "'serve.spec.draft_depth' is wrong: '0' is not offered"},
    {"profiles.fast.spec.draft_depth", "15",
     "'profiles.fast.spec.draft_depth' is wrong: '15' is not offered"},
    {"serve.env", "{\"LD_PRELOAD\":\"x\"}",
     "'serve.env.LD_PRELOAD' is not allowed"},
    {"serve.env", "{\"HF_TOKEN\":\"x\"}",
     "'serve.env.HF_TOKEN' is not allowed"},
    {"serve.env", "{\"SLUICE_API_KEY\":\"x\"}",
     "'serve.env.SLUICE_API_KEY' is not allowed"},
    {"serve.env", "{\"SLUICE_THREADS\":2}",
     "'serve.env.SLUICE_THREADS' is 2 and must be a string"},
    {"serve.requires.cores", "0", "'serve.requires.cores' is 0 and must be"},
    {"serve.requires.backend", "[\"tpu\"]",
     "'serve.requires.backend[0]' is \"tpu\" and must be one of cpu|cuda"},
    {"serve.requires.gpu", "1", "'serve.requires.gpu' is not known here"},
    {"serve.timeouts.drain_s", "-1",
     "'serve.timeouts.drain_s' is -1 and must be"},
    {"profiles", NULL, "'profiles' is missing"},
    {"profiles", "{}", "'profiles' has 0 entries and may have 1 to 32"},
    {"profiles.Fast", "{}", "'profiles.Fast' is no short name"},
    {"profiles.fast.spec.temperature", "1",
     "'profiles.fast.spec.temperature' is no setting of 'spec'"},
    {"profiles.fast.engine", "{\"max_model_len\":8192}",
     "'profiles.fast' has a max_model_len of 8192 and the model was made for 4096"},
    {"profiles.fast.spec.draft_model", "\"other\"",
     "'profiles.fast' has the draft_model 'other', which is no id"},
    {"default_profile", NULL,
     "'default_profile' is missing, and there is more than one"},
    {"default_profile", "\"slow\"",
     "'default_profile' is 'slow', which is no profile"},
    {"renamed_profiles.old", "\"slow\"",
     "'renamed_profiles' leads to 'slow', which is no profile"},
    {"renamed_profiles.plain", "\"fast\"",
     "'renamed_profiles' renames 'plain', which is a profile"},
    {"capabilities", "{\"chat_template\":\"../t\"}",
     "'capabilities.chat_template' is the path '../t'"},
    {"sampling.temperature", "9",
     "'sampling.temperature' is 9 and must be a number from 0 to 2"},
    {"sampling.top_k", "1.5",
     "'sampling.top_k' is 1.5 and must be a whole number"},
    {"benchmarks.rows[0].date", NULL, "'benchmarks.rows[0].date' is missing"},
    {"benchmarks.rows[0].hardware", NULL,
     "'benchmarks.rows[0].hardware' is missing"},
    {"benchmarks.rows[0].profile", "\"slow\"",
     "'benchmarks.rows[0]' names 'slow', which is no profile"},
    {"limitations", "\"none\"",
     "'limitations' is \"none\" and must be an array"},
    {"files", NULL, "'files' is missing"},
    {"files[0].mode", "\"4755\"",
     "'files[0].mode' is \"4755\" and must be one of 0644|0755"},
    {"files[0].sha256", NULL, "'files[0].sha256' is missing"},
    {"files", "[" FILE_OF("serve_bundle.json") "]",
     "'files' lists serve_bundle.json itself"},
    {"files", "[" FILE_OF("a") "," FILE_OF("A") "]",
     "'files' names 'a' and 'A'"},
    {"files", "[" FILE_OF("\\u00e9") "," FILE_OF("e\\u0301") "]",
     "which some file systems take for one"},
    {"built", NULL, "'built' is missing"},
    {"built.tool", NULL, "'built.tool' is missing"},
    {"built.host", "\"h\"", "'built.host' is not known here"},
    {"built.engine_commit", "\"abc\"",
     "'built.engine_commit' is \"abc\" and must be 40"},
    {"title", "\"a\\u0007b\"", "'title' has a control character in a text"},
    {"colour", "1", "'colour' is not known here; remove it"},
    {"x_a", "[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]",
     "it nests deeper than 16 levels"},
};

/* Does a bundle take this ladder, and does the option? */
static bool both_take(json_t *ladder)
{
    struct sl_manifest m = {.json = NULL};
    struct sl_ladder l;
    json_t *j = good(), *spec = json_pack("{s:O}", "spec_ladder", ladder), *rung;
    char option[2048] = "", *value = json_dumps(spec, 0), *text;
    size_t i;
    int rc;

    json_array_foreach(ladder, i, rung)
        snprintf(option + strlen(option), sizeof(option) - strlen(option),
                 "%s%lld:%lld", i ? "," : "",
                 json_integer_value(json_array_get(rung, 0)),
                 json_integer_value(json_array_get(rung, 1)));
    change(j, "serve.spec", value);
    text = json_dumps(j, 0);
    rc = sl_manifest_parse(&m, text, strlen(text), SL_FORM_BUILT, "f", NULL);
    sl_manifest_deinit(&m);
    free(text);
    free(value);
    json_decref(j);
    json_decref(spec);
    json_decref(ladder);
    assert_int_equal(!sl_ladder_parse(&l, option, NULL), !rc);
    return !rc;
}

static json_t *rungs(int n)
{
    json_t *a = json_array();

    for (int i = 1; i <= n; i++)
        json_array_append_new(a, json_pack("[i,i]", i, 2));
    return a;
}

static void ladders_end_where_the_option_does(void **s)
{
    (void)s;
    for (int more = 0; more < 2; more++) {
        assert_int_equal(
            both_take(json_pack("[[i,i]]", SL_LADDER_USERS + more, 2)), !more);
        assert_int_equal(
            both_take(json_pack("[[i,i]]", 1, SL_LADDER_ROWS + more)), !more);
        assert_int_equal(both_take(rungs(SL_LADDER_RUNGS + more)), !more);
    }
}

static void bad_ones(void **s)
{
    (void)s;
    assert_true(SL_COUNTOF(bad) >= 60);
    for (size_t i = 0; i < SL_COUNTOF(bad); i++) {
        struct sl_manifest m = {.json = NULL};
        struct sl_err err = {.code = SL_OK};
        json_t *j = good();
        char *text;
        int rc;

        change(j, bad[i].path, bad[i].value);
        text = json_dumps(j, 0);
        rc =
            sl_manifest_parse(&m, text, strlen(text), SL_FORM_BUILT, "f", &err);
        if (rc != SL_EFORMAT || strncmp(err.msg, "f: ", 3) ||
            !strstr(err.msg, bad[i].says))
            fail_msg("%s = %s: %d '%s' does not say '%s'", bad[i].path,
                     bad[i].value ? bad[i].value : "(removed)", rc, err.msg,
                     bad[i].says);
        free(text);
        json_decref(j);
    }
}

/* What no tree can hold. */
static void bad_bytes(void **s)
{
    static const struct {
        const char *text, *says;
    } raw[] = {
        {"", "not valid JSON"},
        {"[]", "it is no JSON object"},
        {"{\"schema_version\":\"1.0\",\"schema_version\":\"1.0\"}",
         "duplicate"},
        {"{\"schema_version\":\"1.0\"} x", "not valid JSON"},
        {"{\"schema_version\":\"1.0\",\"x_a\":\"\\u0000\"}", "not valid JSON"},
        {"{\"schema_version\":\"1.0\",\"x_a\":\"\xff\"}", "not valid JSON"},
        {"{\"schema_version\":\"1.0\",\"x_a\":\"\\ud800\"}", "not valid JSON"},
    };
    struct sl_manifest m;
    struct sl_err err;
    char *big;

    (void)s;
    for (size_t i = 0; i < SL_COUNTOF(raw); i++) {
        int rc = sl_manifest_parse(&m, raw[i].text, strlen(raw[i].text),
                                   SL_FORM_BUILT, "f", &err);

        if (rc != SL_EFORMAT || !strstr(err.msg, raw[i].says))
            fail_msg("%s: %d %s", raw[i].text, rc, err.msg);
    }
    big = malloc(SL_MANIFEST_BYTES + 1);
    memset(big, ' ', SL_MANIFEST_BYTES + 1);
    assert_int_equal(sl_manifest_parse(&m, big, SL_MANIFEST_BYTES + 1,
                                       SL_FORM_BUILT, "f", &err),
                     SL_EFORMAT);
    assert_non_null(strstr(err.msg, "may have 4194304"));
    memset(big, ',', 70000);
    assert_int_equal(
        sl_manifest_parse(&m, big, 70000, SL_FORM_BUILT, "f", &err),
        SL_EFORMAT);
    assert_non_null(strstr(err.msg, "more than 65536 values"));
    free(big);
}

static void parse_good(struct sl_manifest *m, json_t *j, enum sl_form form)
{
    char *text = json_dumps(j, 0);
    struct sl_err err = {.code = SL_OK};

    if (sl_manifest_parse(m, text, strlen(text), form, "f", &err))
        fail_msg("%s", err.msg);
    free(text);
    json_decref(j);
}

/* A newer minor version may bring keys, but no settings. */
static void newer(void **s)
{
    struct sl_manifest m = {.json = NULL};
    struct sl_err err;
    json_t *j = good();
    char *text;

    (void)s;
    change(j, "schema_version", "\"1.7\"");
    change(j, "colour", "\"red\"");
    change(j, "model.size", "3");
    parse_good(&m, json_incref(j), SL_FORM_BUILT);
    assert_non_null(strstr(m.warning, "model.size"));
    assert_non_null(strstr(m.warning, "colour"));
    assert_string_equal(m.schema, "1.7");
    sl_manifest_deinit(&m);
    change(j, "serve.speed", "3");
    text = json_dumps(j, 0);
    assert_int_equal(
        sl_manifest_parse(&m, text, strlen(text), SL_FORM_BUILT, "f", &err),
        SL_EFORMAT);
    assert_non_null(strstr(err.msg, "'serve.speed' is not known here"));
    free(text);
    json_decref(j);
}

/* The authored form: loose references, no digests; `files` is not its own. */
static void authored(void **s)
{
    struct sl_manifest m = {.json = NULL};
    struct sl_err err;
    json_t *j = good();
    char *text = json_dumps(j, 0);

    (void)s;
    assert_int_equal(
        sl_manifest_parse(&m, text, strlen(text), SL_FORM_AUTHORED, "f", &err),
        SL_EARG);
    assert_non_null(strstr(err.msg, "is written by 'sluice build' alone"));
    free(text);
    change(j, "files", NULL);
    change(j, "built", NULL);
    change(j, "weights.revision", "\"main\"");
    change(j, "weights.files", NULL);
    change(j, "x_note", "\"kept\"");
    parse_good(&m, j, SL_FORM_AUTHORED);
    assert_string_equal(sl_manifest_str(&m, "x_note", NULL), "kept");
    sl_manifest_deinit(&m);
}

static void foreign(void **s)
{
    static const struct {
        const char *text, *tool, *schema;
    } all[] = {
        {"{\"schema_version\": 3, \"name\": \"a\"}", "tt-kernel", "3"},
        {"{\"schema_version\": \"4\", \"files\": []}", "tt-kernel", "4"},
        {"{\"schema_version\": 5, \"profiles\": {}}", "tt-model", "5"},
        {"{\"schema_version\": 5.1, \"profiles\": {}}", "tt-model", "5.1"},
        {"{\"schema_version\": \"6\"}", "tt-model", "6"},
    };
    struct sl_err err;

    (void)s;
    for (size_t i = 0; i < SL_COUNTOF(all); i++) {
        struct sl_manifest m;

        assert_int_equal(sl_manifest_parse(&m, all[i].text, strlen(all[i].text),
                                           SL_FORM_BUILT, "f", &err),
                         0);
        assert_string_equal(m.tool, all[i].tool);
        assert_string_equal(m.schema, all[i].schema);
        sl_manifest_deinit(&m);
    }
}

static void merging(void **s)
{
    struct sl_manifest m;
    struct sl_err err;
    json_t *p = NULL;
    const char *name;

    (void)s;
    parse_good(&m, good(), SL_FORM_BUILT);
    assert_int_equal(sl_manifest_profile_name(&name, &m, NULL, &err), 0);
    assert_string_equal(name, "fast");
    assert_int_equal(sl_manifest_profile_name(&name, &m, "quick", &err), 0);
    assert_string_equal(name, "fast");
    assert_int_equal(sl_manifest_profile_name(&name, &m, "slow", &err),
                     SL_EARG);
    assert_non_null(strstr(err.msg, "'slow'; choose one of fast, plain"));

    assert_int_equal(sl_manifest_profile(&p, &m, "plain", &err), 0);
    /* null erased one key, the others stay. */
    assert_null(json_object_get(json_object_get(p, "engine"), "max_num_seqs"));
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(p, "engine"), "max_model_len")),
                     2048);
    json_decref(p);
    assert_int_equal(sl_manifest_profile(&p, &m, "fast", &err), 0);
    /* An empty object erases nothing. */
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(p, "requires"), "cores")),
                     1);
    json_decref(p);
    sl_manifest_deinit(&m);
}

/* A profile ranks below the environment and the command line. */
static void options(void **s)
{
    char flag[] = "--max-num-seqs=9", variable[] = "SLUICE_PORT=99";
    char *line[] = {flag}, *env[] = {variable, NULL};
    struct sl_manifest m;
    struct sl_err err = {.code = SL_OK};
    json_t *p = NULL, *flat = NULL;
    struct sl_opts o;

    (void)s;
    parse_good(&m, good(), SL_FORM_BUILT);
    sl_opts_init(&o, SL_VERB_SERVE);
    assert_int_equal(sl_opts_line(&o, 1, line, &err), 0);
    assert_int_equal(sl_opts_env(&o, env, &err), 0);
    assert_int_equal(sl_manifest_profile(&p, &m, NULL, &err), 0);
    if (sl_setting_apply(&flat, &o, p, "fast", &err))
        fail_msg("%s", err.msg);
    assert_int_equal(o.value[SL_OPT_MAX_NUM_SEQS].i, 9);
    assert_int_equal(o.value[SL_OPT_PORT].i, 99);
    assert_int_equal(o.value[SL_OPT_MAX_MODEL_LEN].i, 1024);
    assert_int_equal(o.value[SL_OPT_THREADS].i, 2);
    assert_int_equal(o.value[SL_OPT_DRAIN_TIMEOUT].i, 7);
    json_decref(flat);
    json_object_set_new(json_object_get(p, "timeouts"), "request_s",
                        json_integer(5));
    json_object_set_new(json_object_get(p, "timeouts"), "ready_s",
                        json_integer(6));
    assert_int_equal(sl_setting_apply(&flat, &o, p, "fast", &err), 0);
    assert_int_equal(o.value[SL_OPT_REQUEST_TIMEOUT].i, 5);
    assert_int_equal(o.value[SL_OPT_READY_TIMEOUT].i, 6);
    json_decref(flat);
    json_object_set_new(p, "mode", json_string("split"));
    assert_int_equal(sl_setting_apply(&flat, &o, p, "fast", &err), SL_EUNSUP);
    assert_non_null(strstr(err.msg, "splits prefill and decode"));
    json_decref(p);
    sl_manifest_deinit(&m);
}

/* The options of one argument, or of none, over a profile `p`. What they point
 * into is the caller's. */
static json_t *opts_below(struct sl_opts *o, char *flag, const json_t *p)
{
    struct sl_err err = {.code = SL_OK};
    char *line[] = {flag};
    json_t *flat = NULL;

    sl_opts_init(o, SL_VERB_SERVE);
    assert_int_equal(sl_opts_line(o, flag != NULL, line, &err), 0);
    if (sl_setting_apply(&flat, o, p, "kept", &err))
        fail_msg("%s", err.msg);
    return flat;
}

/* What is left of a profile's rule for drafts below one argument. */
static void rule_below(char *flag, double lenience, int64_t accept)
{
    json_t *p = json_pack("{s:{s:s,s:f,s:f}}", "spec", "accept", "lenient",
                          "lenience", 0.5, "relax_threshold", 0.25);
    struct sl_opts o;
    json_t *flat = opts_below(&o, flag, p);

    assert_int_equal(o.value[SL_OPT_ACCEPT].i, accept);
    assert_true(o.value[SL_OPT_LENIENCE].f == lenience);
    json_decref(flat);
    json_decref(p);
}

/* An argument that leaves the rule without a use is not refused for what the
 * profile says of it: it could not be taken back. */
static void rules_fall_away(void **s)
{
    char greedy[] = "--speculate=greedy", exact[] = "--accept=exact";
    char relaxed[] = "--accept=relaxed", lenient[] = "--accept=lenient";

    (void)s;
    rule_below(NULL, 0.5, 1);
    rule_below(lenient, 0.5, 1);
    rule_below(greedy, 1, 0);
    rule_below(exact, 1, 0);
    rule_below(relaxed, 1, 2);
}

/* Nor for whose answers the profile has drafted, where nobody drafts. */
static void nobody_drafts(void **s)
{
    json_t *p = json_pack("{s:{s:s}}", "spec", "speculate", "greedy");
    char none[] = "--drafter=none";

    (void)s;
    for (int n = 0; n < 2; n++) {
        struct sl_opts o;
        json_t *flat = opts_below(&o, n ? none : NULL, p);

        assert_int_equal(o.value[SL_OPT_SPECULATE].i, n == 0 ? 2 : 0);
        json_decref(flat);
    }
    json_decref(p);
}

/* What is left of a profile's numbers of drafts below one argument. */
static void numbers_below(char *flag, const char *by, const char *ladder,
                          int64_t depth)
{
    json_t *p = json_pack("{s:{s:s,s:i,s:[[i,i]]},s:{s:s}}", "spec", "drafter",
                          by, "draft_depth", 5, "spec_ladder", 1, 16, "env",
                          "SLUICE_MTP_PRIME", "64");
    struct sl_opts o;
    json_t *flat = opts_below(&o, flag, p);

    if (ladder)
        assert_string_equal(o.value[SL_OPT_SPEC_LADDER].s, ladder);
    else
        assert_null(o.value[SL_OPT_SPEC_LADDER].s);
    assert_int_equal(o.value[SL_OPT_DRAFT_DEPTH].i, depth);
    /* A variable falls away like a setting. */
    assert_int_equal(sl_opts_has(&o, SL_OPT_MTP_PRIME),
                     !flag || !strstr(flag, "ngram"));
    json_decref(flat);
    json_decref(p);
}

/* A block of 16 is not asked of who drafts 7 at most, nor of another block
 * drafter; what the user says himself stays. */
static void numbers_fall_away(void **s)
{
    char mtp[] = "--drafter=mtp", ngram[] = "--drafter=ngram";
    char any[] = "--drafter=auto", model[] = "--draft-model=d";
    char own[] = "--spec-ladder=1:9";

    (void)s;
    numbers_below(NULL, "auto", "1:16", 5);
    numbers_below(any, "mtp", "1:16", 5);
    numbers_below(mtp, "mtp", "1:16", 5); /* the profile's own fault */
    numbers_below(mtp, "auto", NULL, 5);
    numbers_below(ngram, "auto", NULL, 5);
    numbers_below(model, "auto", NULL, 0);
    numbers_below(own, "auto", "1:9", 5);
}

static void requirements(void **s)
{
    struct sl_err err = {.code = SL_OK};
    json_t *p = json_pack("{s:{s:i,s:[s]}}", "requires", "cores", 1 << 20,
                          "backend", "cpu");

    (void)s;
    assert_int_equal(sl_needs_machine(p, "big", false, NULL, &err), SL_EUNSUP);
    assert_non_null(strstr(err.msg, "profile 'big' needs 1048576 cores"));
    assert_int_equal(sl_needs_machine(p, "big", true, NULL, &err), 0);
    json_object_set_new(json_object_get(p, "requires"), "backend",
                        json_pack("[s]", "cuda"));
    assert_int_equal(sl_needs_machine(p, "big", true, NULL, &err), SL_EUNSUP);
    json_decref(p);
}

/* The bundles that are shipped, merged, against checked files. */
static void shipped(void **s)
{
    static const char *const name[] = {"qwen3.6-35b-a3b", "qwen3.8-27b"};
    static const char *const profile[] = {"spec-decode", "plain", "p4d4"};
    struct sl_err err;

    (void)s;
    for (size_t i = 0; i < SL_COUNTOF(name); i++) {
        struct sl_manifest m;
        json_t *want = NULL;
        char path[200];

        snprintf(path, sizeof(path), "bundles/%s/bundle.json", name[i]);
        if (sl_manifest_load(&m, path, SL_FORM_AUTHORED, &err))
            fail_msg("%s", err.msg);
        assert_string_equal(sl_manifest_str(&m, "name", NULL), name[i]);
        snprintf(path, sizeof(path), "tests/golden/bundles/%s.merged.json",
                 name[i]);
        assert_int_equal(sl_json_load(&want, path, 1 << 20, &err), 0);
        for (size_t k = 0; k < SL_COUNTOF(profile); k++) {
            json_t *got = NULL;

            assert_int_equal(sl_manifest_profile(&got, &m, profile[k], &err),
                             0);
            if (!json_equal(got, json_object_get(want, profile[k])))
                fail_msg("%s %s: %s", name[i], profile[k],
                         json_dumps(got, JSON_COMPACT));
            json_decref(got);
        }
        json_decref(want);
        sl_manifest_deinit(&m);
    }
}

static void zeros(void **s)
{
    struct sl_manifest m;
    char where[100];
    json_t *j = good();

    (void)s;
    parse_good(&m, json_incref(j), SL_FORM_BUILT);
    assert_false(sl_manifest_has_zeros(&m, where, sizeof(where)));
    sl_manifest_deinit(&m);
    change(j, "weights.revision", "\"" Z40 "\"");
    parse_good(&m, j, SL_FORM_BUILT);
    assert_true(sl_manifest_has_zeros(&m, where, sizeof(where)));
    assert_string_equal(where, "weights.revision");
    sl_manifest_deinit(&m);
}

static void names(void **s)
{
    static const char *const bad_target[] = {
        "a",        "a/",     "/a",   "a/b/c",     "a/b@",
        "a/b@x..y", "a/b@-x", "a/b:", "a/b#md5:1", "a/b#sha256:zz",
        "a--b/c",   "a/..",   "a b/c"};
    struct sl_target t;
    struct sl_err err;

    (void)s;
    for (size_t i = 0; i < SL_COUNTOF(bad_target); i++)
        if (sl_target_parse(&t, bad_target[i], &err) != SL_EARG)
            fail_msg("%s", bad_target[i]);
    assert_int_equal(
        sl_target_parse(&t, "Org/N.a-me:Q4_K_M@v1#sha256:" D64, &err), 0);
    assert_string_equal(t.repo, "Org/N.a-me");
    assert_string_equal(t.pick, "Q4_K_M");
    assert_string_equal(t.rev, "v1");
    assert_string_equal(t.sha256, D64);
    assert_true(sl_target_is("a/b") && sl_target_is("a/b:x@y"));
    assert_false(sl_target_is("a") || sl_target_is("./a") ||
                 sl_target_is("/a/b") || sl_target_is("a/b/c"));
    assert_true(sl_name_glob("*.safetensors", "a/b.safetensors"));
    assert_true(sl_name_glob("m?del-[0-9]*", "model-1.x"));
    assert_true(sl_name_glob("[!a-c]x", "dx"));
    assert_false(sl_name_glob("[!a-c]x", "bx"));
    assert_false(sl_name_glob("*.json", "a.jso"));
    assert_false(sl_name_glob("a*b*c", "aXbX"));
}

static int setup(void **s)
{
    struct sl_err err;

    (void)s;
    return sl_file_read(&small, &n_small, SMALL, 1 << 20, &err);
}

static int teardown(void **s)
{
    (void)s;
    sl_file_free(small);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ladders_end_where_the_option_does),
        cmocka_unit_test(bad_ones),      cmocka_unit_test(bad_bytes),
        cmocka_unit_test(newer),         cmocka_unit_test(authored),
        cmocka_unit_test(foreign),       cmocka_unit_test(merging),
        cmocka_unit_test(options),       cmocka_unit_test(rules_fall_away),
        cmocka_unit_test(nobody_drafts), cmocka_unit_test(numbers_fall_away),
        cmocka_unit_test(requirements),  cmocka_unit_test(shipped),
        cmocka_unit_test(zeros),         cmocka_unit_test(names),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
