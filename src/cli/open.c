/* cli/open.c - options -> an open engine; see open.h */
#include "cli/open.h"

#include "base/json.h"
#include "cli/progress.h"
#include "cli/verb.h"

int sl_cli_dtype_check(const struct sl_opts *o, const char *path,
                       struct sl_err *err)
{
    static const enum { AUTO, BFLOAT16 } want = BFLOAT16;
    char *text = NULL;
    json_t *j = NULL, *types;
    int rc;

    if (o->value[SL_OPT_DTYPE].i != want)
        return 0;
    rc = sl_inspect(&text, path, err);
    if (!rc)
        rc = sl_json_parse(&j, text, strlen(text), "the description", err);
    types = json_object_get(j, "types");
    if (!rc && (json_array_size(types) != 1 ||
                strcmp(json_string_value(json_array_get(types, 0)), "bf16")))
        rc = sl_fail(err, SL_EUNSUP,
                     "'%.300s' holds weights that are not bfloat16, and "
                     "weights are not converted; use --dtype auto",
                     path);
    sl_free(text);
    json_decref(j);
    return rc;
}

/* In the order of the option's words, which are the names of the levels. */
static const uint32_t cpu_mask[] = {UINT32_MAX, 0, 1, 3, 7, 8, 24, 56};

int sl_cli_cpu_check(const struct sl_opts *o, struct sl_err *err)
{
    const struct sl_opt *d = sl_opt_get(SL_OPT_CPU_MASK);
    size_t i = (size_t)o->value[SL_OPT_CPU_MASK].i;
    const char *name = d->arg, *have;
    int len;

    for (size_t n = 0; n < i; n++)
        name = strchr(name, '|') + 1;
    len = (int)strcspn(name, "|");
    have = sl_isa(cpu_mask[i]);
    if (i == 0 ||
        (strlen(have) == (size_t)len && !strncmp(have, name, (size_t)len)))
        return 0;
    return sl_fail(err, SL_EUNSUP,
                   "--cpu-mask %.*s: this processor does not have it; the "
                   "highest it has is %s",
                   len, name, sl_isa(UINT32_MAX));
}

void sl_cli_engine_opts(struct sl_engine_opts *eo, const struct sl_opts *o)
{
    static const enum sl_weight_plan weights[] = {
        SL_WEIGHTS_AUTO, SL_WEIGHTS_AUTO, SL_WEIGHTS_Q8, SL_WEIGHTS_Q4,
        SL_WEIGHTS_BFP4};
    static const enum sl_draft_weights types[] = {
        SL_DRAFT_WEIGHTS_AUTO, SL_DRAFT_WEIGHTS_STORED, SL_DRAFT_WEIGHTS_Q8,
        SL_DRAFT_WEIGHTS_Q4};
    static const enum sl_draft_who who[] = {SL_DRAFT_ALL, SL_DRAFT_OFF,
                                            SL_DRAFT_GREEDY};
    /* bf16, fp32, bfp8 */
    static const enum sl_kv_type kv[] = {SL_KV_BF16, SL_KV_F32, SL_KV_BFP8};
    static const enum sl_draft_by by[] = {SL_DRAFTER_AUTO, SL_DRAFTER_MTP,
                                          SL_DRAFTER_NGRAM, SL_DRAFTER_DFLASH,
                                          SL_DRAFTER_NONE};
    static const enum sl_accept_how accept[] = {SL_KEEP_EXACT, SL_KEEP_LENIENT,
                                                SL_KEEP_RELAXED};
    const struct sl_opt_value *v = o->value;

    sl_engine_opts_init(eo);
    eo->n_thread = (uint32_t)v[SL_OPT_THREADS].i;
    eo->pin = v[SL_OPT_PIN].i;
    eo->cpu_mask = cpu_mask[v[SL_OPT_CPU_MASK].i];
    eo->max_model_len = (uint32_t)v[SL_OPT_MAX_MODEL_LEN].i;
    eo->max_num_seqs = (uint32_t)v[SL_OPT_MAX_NUM_SEQS].i;
    eo->max_num_batched_tokens = (uint32_t)v[SL_OPT_MAX_NUM_BATCHED_TOKENS].i;
    eo->kv_pool_tokens = (uint64_t)v[SL_OPT_KV_POOL_TOKENS].i;
    eo->kv_type = kv[v[SL_OPT_KV_DTYPE].i];
    eo->prefix_cache = v[SL_OPT_PREFIX_CACHE].i == 0; /* on, off */
    eo->prefix_cache_bytes = (uint64_t)(v[SL_OPT_PREFIX_CACHE_GIB].f * 0x1p30);
    eo->prefix_cache_dir = v[SL_OPT_PREFIX_CACHE_DIR].s;
    if (sl_opts_has(o, SL_OPT_PREFIX_CACHE_DIR_GIB))
        eo->prefix_cache_dir_bytes =
            (uint64_t)(v[SL_OPT_PREFIX_CACHE_DIR_GIB].f * 0x1p30);
    eo->draft = who[v[SL_OPT_SPECULATE].i];
    eo->draft_weights = types[v[SL_OPT_DRAFT_DTYPE].i];
    eo->draft_model = v[SL_OPT_DRAFT_MODEL].s;
    eo->drafter = by[v[SL_OPT_DRAFTER].i];
    eo->accept = accept[v[SL_OPT_ACCEPT].i];
    eo->lenience = (float)v[SL_OPT_LENIENCE].f;
    eo->relax_threshold = (float)v[SL_OPT_RELAX_THRESHOLD].f;
    eo->spec_ladder = v[SL_OPT_SPEC_LADDER].s;
    eo->spec_ladder_cut = v[SL_OPT_SPEC_LADDER].from == SL_FROM_PROFILE;
    if (sl_opts_has(o, SL_OPT_SPEC_DISABLE_RATIO))
        eo->spec_disable_ratio = (float)v[SL_OPT_SPEC_DISABLE_RATIO].f;
    eo->spec_log_rounds = (uint32_t)v[SL_OPT_SPEC_LOG_ROUNDS].i;
    eo->dflash_max_context = (uint32_t)v[SL_OPT_DFLASH_MAX_CONTEXT].i;
    eo->dflash_hysteresis = (uint32_t)v[SL_OPT_DFLASH_HYSTERESIS].i;
    if (sl_opts_has(o, SL_OPT_MTP_PRIME))
        eo->mtp_prime = (uint32_t)v[SL_OPT_MTP_PRIME].i;
    eo->draft_depth = (uint32_t)v[SL_OPT_DRAFT_DEPTH].i; /* auto is 0 */
    eo->weights = weights[v[SL_OPT_DTYPE].i];
    eo->copy_weights = v[SL_OPT_WEIGHTS_FORM].i;
    eo->dummy = v[SL_OPT_LOAD_FORMAT].i;
    eo->chat_template = v[SL_OPT_CHAT_TEMPLATE].s;
    eo->sampling = v[SL_OPT_OVERRIDE_GENERATION_CONFIG].s;
}

void sl_cli_packed_dir(char out[SL_CLI_PATH], const struct sl_opts *o)
{
    const char *dir = o->value[SL_OPT_PACKED_DIR].s;
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = 0;

    if (dir)
        n = snprintf(out, SL_CLI_PATH, "%s", dir);
    else if (xdg && *xdg)
        n = snprintf(out, SL_CLI_PATH, "%s/sluice", xdg);
    else if (home && *home)
        n = snprintf(out, SL_CLI_PATH, "%s/.cache/sluice", home);
    if (n <= 0 || n >= SL_CLI_PATH)
        out[0] = 0;
}

int sl_cli_open(struct sl_engine **out, double *load_s, const struct sl_opts *o,
                const char *path, struct sl_err *err)
{
    struct sl_engine_info info;
    struct sl_engine_opts eo;
    struct sl_progress p;
    char what[64], dir[SL_CLI_PATH];
    int rc = sl_cli_cpu_check(o, err);

    if (!rc)
        rc = sl_cli_dtype_check(o, path, err);
    if (rc)
        return rc;
    /* The end of a path says most. */
    snprintf(what, sizeof(what), "loading %.50s",
             path + (strlen(path) > 50 ? strlen(path) - 50 : 0));
    sl_cli_engine_opts(&eo, o);
    sl_cli_packed_dir(dir, o);
    eo.cache_dir = *dir ? dir : NULL;
    sl_progress_init(&p, what);
    eo.progress = sl_progress_step;
    eo.progress_ctx = &p;
    rc = sl_engine_open(out, path, &eo, err);
    sl_progress_end(&p);
    if (rc)
        return rc;
    sl_engine_info(*out, &info);
    *load_s = info.load_s;
    return 0;
}
