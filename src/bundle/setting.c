/* bundle/setting.c - what a profile may set; see setting.h
 *
 * A key is looked for in the table of options first, so that an option that is
 * added there becomes a key of profiles without a word here. Then in `later`:
 * the settings of the format that this version has no option for, or more
 * values than its option offers. Anything else is refused.
 *
 * `later` also knows which value asks for what Sluice always does ("accept":
 * "exact"): such a setting changes nothing and is let pass.
 */
#include "bundle/setting.h"

#include "base/ladder.h"
#include "bundle/name.h"

#define MAX_UNITS 1024 /* sockets, nodes or core sets; chosen, not measured */
#define U53 (0x1p53 - 1)

/* Options of 'serve' that a bundle may not set: paths of this machine, secrets,
 * and what the model is. */
static const char not_yours[] =
    "model|chat-template|override-generation-config|profile|update|force|"
    "offline|cache-dir|token-file|packed-dir|"
    "prefix-cache-dir|draft-model|log-level|help|json";

static const struct later {
    const char *group, *key;
    struct sl_shape shape;
    const char *always; /* the value that changes nothing, or NULL */
} later[] = {
    {"engine", "kv_dtype", {.type = SL_SHAPE_WORD, .words = "bfp8"}, NULL},
    {"engine",
     "dtype",
     {.type = SL_SHAPE_WORD, .words = "auto|bf16|bfloat16|q8|q4|bfp4"},
     NULL},
    {"engine",
     "expert_dtype",
     {.type = SL_SHAPE_WORD,
      .words = "bf16|q8_0|q6_k|q5_k|q4_k|q4_0|bfp8|bfp4"},
     NULL},
    {"engine",
     "tensor_parallel_size",
     {.type = SL_SHAPE_INT, .lo = 1, .hi = MAX_UNITS},
     "1"},
    {"engine", "weights", {.type = SL_SHAPE_WORD, .words = "map|copy"}, "map"},
    {"spec",
     "drafter",
     {.type = SL_SHAPE_WORD, .words = "auto|dflash|mtp|ngram|none"},
     NULL},
    {"spec", "draft_model", {.type = SL_SHAPE_SLUG}, NULL},
    {"spec",
     "accept",
     {.type = SL_SHAPE_WORD, .words = "exact|lenient|relaxed"},
     "exact"},
    {"spec", "lenience", {.type = SL_SHAPE_NUM, .lo = 1e-9, .hi = 1}, "1"},
    {"spec", "relax_threshold", {.type = SL_SHAPE_NUM, .lo = 0, .hi = 1}, NULL},
    {"spec", "mtp_prime", {.type = SL_SHAPE_STR, .hi = 32}, "on"},
};

/* Variables of the format that are not in the table of options yet. */
static const char later_env[] = "SLUICE_PD_CHECK_PAYLOAD";

/* ------------------------------------------------------------- shapes */

/* [users, rows], of more users than the one before had. */
static bool is_rung(const json_t *rung, json_int_t before)
{
    const json_t *users = json_array_get(rung, 0);
    const json_t *rows = json_array_get(rung, 1);

    return json_array_size(rung) == 2 && json_is_integer(users) &&
           json_is_integer(rows) && json_integer_value(users) > before &&
           json_integer_value(users) <= SL_LADDER_USERS &&
           json_integer_value(rows) >= 0 &&
           json_integer_value(rows) <= SL_LADDER_ROWS;
}

static int ladder(struct sl_walk *w, const json_t *v)
{
    size_t n = json_is_array(v) ? json_array_size(v) : 0;
    bool good = n >= 1 && n <= SL_LADDER_RUNGS;
    json_int_t before = 0;
    char want[120];

    for (size_t i = 0; good && i < n; i++) {
        const json_t *rung = json_array_get(v, i);

        good = is_rung(rung, before);
        before = json_integer_value(json_array_get(rung, 0));
    }
    if (good)
        return 0;
    snprintf(want, sizeof(want),
             "an array of 1 to %d pairs [users, rows], users 1 to %d and "
             "rising, rows 0 to %d",
             SL_LADDER_RUNGS, SL_LADDER_USERS, SL_LADDER_ROWS);
    return sl_walk_wrong(w, v, want);
}

static const struct later *find_later(const char *group, const char *key)
{
    for (size_t i = 0; i < SL_COUNTOF(later); i++)
        if (!strcmp(later[i].group, group) && !strcmp(later[i].key, key))
            return &later[i];
    return NULL;
}

static int check_later(struct sl_walk *w, const struct later *l,
                       const json_t *v)
{
    struct sl_shape table[2] = {{.key = NULL}};
    json_t *obj;
    size_t len = w->len;
    int rc;

    SL_ASSERT(l); /* what is no option is one of these */
    table[0] = l->shape;
    if (!strcmp(l->key, "mtp_prime") && json_is_integer(v) &&
        json_integer_value(v) > 0)
        return 0;
    /* The walk adds the key itself. */
    sl_walk_back(w, len - strlen(l->key) - 1);
    table[0].key = l->key;
    obj = json_pack("{s:O}", l->key, (json_t *)(uintptr_t)v);
    rc = obj ? sl_shape_walk(w, table, obj)
             : sl_fail(w->err, SL_ENOMEM, "no memory is left for a profile");
    json_decref(obj);
    return rc;
}

/* The option takes a ladder as text: [[1, 8], [4, 0]] is "1:8,4:1", for the
 * token before the drafts is a row, too. NULL without memory; the caller ends
 * it. */
static json_t *as_text(const json_t *ladder)
{
    struct sl_buf b;
    json_t *rung, *out;
    size_t i;

    sl_buf_init(&b, 4096);
    json_array_foreach(ladder, i, rung)
    {
        json_int_t rows = json_integer_value(json_array_get(rung, 1));

        sl_buf_fmt(&b, "%s%lld:%lld", i ? "," : "",
                   (long long)json_integer_value(json_array_get(rung, 0)),
                   (long long)(rows ? rows : 1));
    }
    out = sl_buf_check(&b, "a ladder", NULL) ? NULL : json_string(b.p);
    sl_buf_deinit(&b);
    return out;
}

/* What the option is given for the value of a profile; ended by the caller. */
static json_t *option_value(const char *key, const json_t *v)
{
    if (!strcmp(key, "spec_ladder") && json_is_array(v))
        return as_text(v);
    return json_incref((json_t *)(uintptr_t)v);
}

/* Options that a group may set. */
static int find_option(const char *group, const char *key)
{
    int id = sl_opt_find(SL_VERB_SERVE, key);

    if (id < 0 ||
        sl_shape_is_word(not_yours, sl_opt_get((enum sl_opt_id)id)->name))
        return -1;
    if (!strcmp(group, "http"))
        return id == SL_OPT_HOST || id == SL_OPT_PORT ? id : -1;
    return sl_opt_get((enum sl_opt_id)id)->verbs & SL_VERB_RUN ? id : -1;
}

static int as_option(const char *key, const json_t *v, struct sl_err *err)
{
    json_t *obj = json_pack("{s:o}", key, option_value(key, v));
    struct sl_opts o;
    int rc;

    sl_opts_init(&o, SL_VERB_SERVE);
    rc = obj ? sl_opts_profile(&o, obj, err)
             : sl_fail(err, SL_ENOMEM, "no memory is left for a profile");
    json_decref(obj);
    return rc;
}

static int check_setting(struct sl_walk *w, const char *group, const char *key,
                         const json_t *v)
{
    const struct later *l = find_later(group, key);
    struct sl_err err = {.code = SL_OK};
    const char *why;
    int rc = 0;

    if (!strcmp(group, "spec") && !strcmp(key, "spec_ladder"))
        rc = ladder(w, v);
    if (rc)
        return rc;
    if (find_option(group, key) < 0 && !l)
        return sl_walk_fail(w,
                            "is no setting of '%s'; 'sluice serve --help' "
                            "lists the options",
                            group);
    if (find_option(group, key) >= 0) {
        rc = as_option(key, v, &err);
        if (!rc || rc == SL_ENOMEM)
            return rc ? sl_fail(w->err, SL_ENOMEM, "%s", err.msg) : 0;
        if (!l) {
            why = strchr(err.msg, ':');
            return sl_walk_fail(w, "is wrong:%s", why ? why + 1 : err.msg);
        }
    }
    return check_later(w, l, v);
}

static int check_group(struct sl_walk *w, const struct sl_shape *s,
                       const json_t *v)
{
    const char *key;
    json_t *item;

    if (!json_is_object(v))
        return sl_walk_wrong(w, v, "an object");
    json_object_foreach((json_t *)(uintptr_t)v, key, item)
    {
        size_t old = sl_walk_key(w, key);
        int rc = 0;

        if (!json_is_null(item) || !(w->inherit & SL_SHAPE_NULLS))
            rc = check_setting(w, s->key, key, item);
        if (rc)
            return rc;
        sl_walk_back(w, old);
    }
    return 0;
}

/* Only variables of ours: a bundle must not reach the loader, the shell, the
 * hub's client or a proxy. */
static int check_env(struct sl_walk *w, const struct sl_shape *s,
                     const json_t *v)
{
    const char *key;
    json_t *item;

    (void)s;
    if (!json_is_object(v))
        return sl_walk_wrong(w, v, "an object");
    json_object_foreach((json_t *)(uintptr_t)v, key, item)
    {
        size_t old = sl_walk_key(w, key);
        bool known = sl_shape_is_word(later_env, key);
        char name[SL_OPT_ENV_LEN];

        for (int i = 0; !known && i < SL_N_OPT; i++) {
            sl_opt_env_name(name, (enum sl_opt_id)i);
            known = !strcmp(name, key) &&
                    (sl_opt_get((enum sl_opt_id)i)->verbs & SL_VERB_SERVE) &&
                    !sl_shape_is_word(not_yours,
                                      sl_opt_get((enum sl_opt_id)i)->name) &&
                    (find_option("http", sl_opt_get((enum sl_opt_id)i)->name) >=
                         0 ||
                     find_option("engine",
                                 sl_opt_get((enum sl_opt_id)i)->name) >= 0);
        }
        if (!known)
            return sl_walk_fail(w, "is not allowed; a bundle may set variables "
                                   "of Sluice's own settings, nothing else");
        if (!json_is_string(item) && !json_is_null(item))
            return sl_walk_wrong(w, item, "a string");
        sl_walk_back(w, old);
    }
    return 0;
}

static const struct sl_shape requires_shape[] = {
    {.key = "backend", .type = SL_SHAPE_WORDS, .hi = 8, .words = "cpu|cuda"},
    {.key = "units", .type = SL_SHAPE_INT, .lo = 1, .hi = MAX_UNITS},
    {.key = "unit_memory_bytes", .type = SL_SHAPE_INT, .hi = U53},
    {.key = "host_memory_bytes", .type = SL_SHAPE_INT, .hi = U53},
    {.key = "cores", .type = SL_SHAPE_INT, .lo = 1, .hi = 1 << 20},
    {.key = "isa_any", .type = SL_SHAPE_STRS, .hi = 32},
    {.key = "disk_bytes", .type = SL_SHAPE_INT, .hi = U53},
    {.key = "hugepages_1g", .type = SL_SHAPE_INT, .hi = 1 << 20},
    {.key = NULL}};

static const struct sl_shape half_shape[] = {
    {.key = "units", .type = SL_SHAPE_INTS, .hi = MAX_UNITS},
    {.key = "max_num_seqs", .type = SL_SHAPE_INT, .lo = 1, .hi = 4096},
    {.key = "kv_pool_tokens", .type = SL_SHAPE_INT, .hi = U53},
    {.key = "max_num_batched_tokens",
     .type = SL_SHAPE_INT,
     .lo = 1,
     .hi = 1 << 20},
    {.key = "max_model_len", .type = SL_SHAPE_INT, .hi = 1 << 24},
    {.key = "threads", .type = SL_SHAPE_INT, .hi = 1024},
    {.key = NULL}};

static const struct sl_shape split_shape[] = {
    {.key = "prefill", .type = SL_SHAPE_OBJ, .sub = half_shape},
    {.key = "decode", .type = SL_SHAPE_OBJ, .sub = half_shape},
    {.key = "transport", .type = SL_SHAPE_STR, .hi = 256},
    {.key = "min_remote_tokens", .type = SL_SHAPE_INT, .hi = 1 << 24},
    {.key = "staging_bytes", .type = SL_SHAPE_INT, .hi = U53},
    {.key = "lease_s", .type = SL_SHAPE_INT, .lo = 1, .hi = 86400},
    {.key = "transfer_timeout_s", .type = SL_SHAPE_INT, .lo = 1, .hi = 86400},
    {.key = "fallback", .type = SL_SHAPE_WORD, .words = "local|error"},
    {.key = NULL}};

static const struct sl_shape timeouts_shape[] = {
    {.key = "ready_s", .type = SL_SHAPE_INT, .lo = 1, .hi = 1 << 20},
    {.key = "drain_s", .type = SL_SHAPE_INT, .hi = 3600},
    {.key = "request_s", .type = SL_SHAPE_INT, .lo = 1, .hi = 1 << 20},
    {.key = NULL}};

const struct sl_shape sl_setting_shape[] = {
    {.key = "description", .type = SL_SHAPE_STR},
    {.key = "best_for", .type = SL_SHAPE_STR},
    {.key = "mode", .type = SL_SHAPE_WORD, .words = "mono|split"},
    {.key = "requires", .type = SL_SHAPE_OBJ, .sub = requires_shape},
    {.key = "http", .type = SL_SHAPE_CALL, .call = check_group},
    {.key = "engine", .type = SL_SHAPE_CALL, .call = check_group},
    {.key = "spec", .type = SL_SHAPE_CALL, .call = check_group},
    {.key = "split", .type = SL_SHAPE_OBJ, .sub = split_shape},
    {.key = "env", .type = SL_SHAPE_CALL, .call = check_env},
    {.key = "timeouts", .type = SL_SHAPE_OBJ, .sub = timeouts_shape},
    {.key = NULL}};

/* -------------------------------------------------------------- apply */

/* Does the value ask for what Sluice always does? */
static bool is_always(const struct later *l, const json_t *v)
{
    char text[40] = "";

    if (json_is_string(v))
        snprintf(text, sizeof(text), "%s", json_string_value(v));
    else if (json_is_number(v))
        snprintf(text, sizeof(text), "%.9g", json_number_value(v));
    return l && l->always && !strcmp(text, l->always);
}

static int add_setting(json_t *flat, const char *group, const char *key,
                       json_t *v, const char *name, struct sl_err *err)
{
    const struct later *l = find_later(group, key);
    struct sl_err why = {.code = SL_OK};

    /* The folder it was fetched to is filled in by who opens the model. */
    if (!strcmp(group, "spec") && !strcmp(key, "draft_model"))
        return 0;
    if (find_option(group, key) >= 0) {
        if (!as_option(key, v, &why))
            return json_object_set_new(flat, key, option_value(key, v))
                       ? sl_fail(err, SL_ENOMEM, "no memory is left")
                       : 0;
    } else if (is_always(l, v)) {
        return 0;
    }
    return sl_fail(err, SL_EUNSUP,
                   "profile '%s' sets %s.%s, which this version cannot do%s%s; "
                   "choose another --profile",
                   name, group, key, why.msg[0] ? ": " : "", why.msg);
}

/* Does a setting name this option already? */
static bool is_set(json_t *flat, int id)
{
    const char *key;
    json_t *v;

    json_object_foreach(flat, key, v)
    {
        if (sl_opt_find(SL_VERB_SERVE, key) == id)
            return true;
    }
    return false;
}

static int add_env(json_t *flat, const json_t *env, unsigned verb,
                   const char *name, struct sl_err *err)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)env, key, v)
    {
        char opt[SL_OPT_ENV_LEN];
        int id = -1;

        for (int i = 0; id < 0 && i < SL_N_OPT; i++) {
            sl_opt_env_name(opt, (enum sl_opt_id)i);
            if (!strcmp(opt, key))
                id = i;
        }
        if (id < 0)
            return sl_fail(err, SL_EUNSUP,
                           "profile '%s' sets the variable %s, which this "
                           "version does not know; choose another --profile",
                           name, key);
        if (!(sl_opt_get((enum sl_opt_id)id)->verbs & verb))
            continue; /* 'run' listens nowhere */
        /* In the profile the setting itself wins over its variable. */
        if (!is_set(flat, id) &&
            json_object_set(flat, sl_opt_get((enum sl_opt_id)id)->name, v))
            return sl_fail(err, SL_ENOMEM, "no memory is left");
    }
    return 0;
}

static int add_timeouts(json_t *flat, const json_t *profile)
{
    static const char *const key[][2] = {{"drain_s", "drain_timeout"},
                                         {"ready_s", "ready_timeout"},
                                         {"request_s", "request_timeout"}};
    const json_t *all = json_object_get(profile, "timeouts");
    int bad = 0;

    for (size_t i = 0; i < SL_COUNTOF(key); i++) {
        json_t *s = json_object_get(all, key[i][0]);

        bad |= s && json_object_set(flat, key[i][1], s);
    }
    return bad;
}

enum { BY_MTP = 1, BY_NGRAM = 2, BY_FLASH = 4, BY_ANY = 7 };
enum { DRAFTER_AUTO = 0 }; /* first of the words */

/* Who may draft, by what ranks above a profile. */
static unsigned may_draft(const struct sl_opts *o)
{
    static const unsigned by[] = {BY_ANY, BY_MTP, BY_NGRAM, BY_FLASH, 0};
    enum { SPECULATE_OFF = 1 };

    return o->value[SL_OPT_SPECULATE].i == SPECULATE_OFF
               ? 0
               : by[o->value[SL_OPT_DRAFTER].i];
}

/* Does a higher rank give the work to others than the profile? `all` is what
 * the profile says. */
static bool others_draft(const json_t *all, const struct sl_opts *o)
{
    const struct sl_opt_value *by = &o->value[SL_OPT_DRAFTER];
    struct sl_opts own;

    if (o->value[SL_OPT_DRAFT_MODEL].from > SL_FROM_PROFILE)
        return true;
    sl_opts_init(&own, o->verb);
    (void)sl_opts_profile(&own, all, NULL); /* refused again when it is used */
    return by->from > SL_FROM_PROFILE && by->i != DRAFTER_AUTO &&
           by->i != own.value[SL_OPT_DRAFTER].i;
}

/* Takes an option out of a profile, whether it is there as a setting or as a
 * variable. */
static void drop(json_t *all, const char *name)
{
    int id = sl_opt_find(SL_VERB_SERVE, name);
    const char *key;
    void *next;
    json_t *v;

    json_object_foreach_safe(all, next, key, v)
    {
        if (sl_opt_find(SL_VERB_SERVE, key) == id)
            (void)json_object_del(all, key);
    }
}

/* What a profile says of drafters falls away with them: an option that nobody
 * uses is refused, and who ranks higher cannot take back what a profile says.
 * So does a number of drafts that the profile's own drafters give, and others
 * may not. */
static void drop_unused(json_t *all, const struct sl_opts *o)
{
    static const struct {
        const char *key;
        unsigned by; /* who uses it */
    } setting[] = {
        {"speculate", BY_ANY},
        {"drafter", BY_ANY},
        {"draft_dtype", BY_MTP | BY_FLASH},
        {"draft_depth", BY_ANY},
        {"accept", BY_ANY},
        {"lenience", BY_ANY},
        {"relax_threshold", BY_ANY},
        {"spec_ladder", BY_ANY},
        {"spec_disable_ratio", BY_ANY},
        {"spec_log_rounds", BY_ANY},
        {"dflash_max_context", BY_FLASH},
        {"dflash_hysteresis", BY_FLASH},
        {"mtp_prime", BY_MTP},
    };
    unsigned by = may_draft(o);
    bool others = others_draft(all, o);

    for (size_t i = 0; i < SL_COUNTOF(setting); i++)
        if (!(setting[i].by & by))
            drop(all, setting[i].key);
    if (others)
        drop(all, "spec_ladder");
    /* All chains are as long; blocks are not. */
    if (others && (by & BY_FLASH))
        drop(all, "draft_depth");
}

/* So do the rules of which drafts are kept, and the numbers of those that are
 * not the chosen one: with greedy requests alone drafting no rule but the exact
 * one is of use. */
static void drop_rules(json_t *all, const struct sl_opts *o)
{
    static const char *const number[] = {NULL, "lenience", "relax_threshold"};
    enum { SPECULATE_GREEDY = 2 };
    const struct sl_opt_value *rule = &o->value[SL_OPT_ACCEPT];
    bool greedy = o->value[SL_OPT_SPECULATE].i == SPECULATE_GREEDY;

    if (greedy)
        drop(all, "accept");
    for (int i = 1; i < (int)SL_COUNTOF(number); i++)
        if (greedy || (rule->from > SL_FROM_PROFILE && rule->i != i))
            drop(all, number[i]);
}

int sl_setting_apply(json_t **flat, struct sl_opts *o, const json_t *profile,
                     const char *name, struct sl_err *err)
{
    static const char *const group[] = {"http", "engine", "spec"};
    const char *mode = json_string_value(json_object_get(profile, "mode"));
    json_t *all = json_object();
    int rc = 0;

    if (mode && !strcmp(mode, "split"))
        rc = sl_fail(err, SL_EUNSUP,
                     "profile '%s' splits prefill and decode between two "
                     "engines, which this version cannot do; choose another "
                     "--profile",
                     name);
    for (size_t i = 0; !rc && i < SL_COUNTOF(group); i++) {
        json_t *g = json_object_get(profile, group[i]), *v;
        const char *key;

        /* 'run' listens nowhere. */
        if (i == 0 && o->verb != SL_VERB_SERVE)
            continue;
        json_object_foreach(g, key, v)
        {
            if (!rc)
                rc = add_setting(all, group[i], key, v, name, err);
        }
    }
    if (!rc)
        rc = add_env(all, json_object_get(profile, "env"), o->verb, name, err);
    if (!rc && o->verb == SL_VERB_SERVE && add_timeouts(all, profile))
        rc = sl_fail(err, SL_ENOMEM, "no memory is left");
    if (!rc) {
        drop_unused(all, o);
        drop_rules(all, o);
        rc = sl_opts_profile(o, all, err);
    }
    if (rc) {
        json_decref(all);
        return rc;
    }
    *flat = all;
    return 0;
}

/* --------------------------------------------------------------- drafter */

int sl_setting_drafter(const json_t **out, const json_t *manifest,
                       const json_t *profile, const char *name,
                       struct sl_err *err)
{
    const json_t *spec = json_object_get(profile, "spec");
    const char *id = json_string_value(json_object_get(spec, "draft_model"));
    const char *who = json_string_value(json_object_get(spec, "speculate"));
    const char *by = json_string_value(json_object_get(spec, "drafter"));
    json_t *d;
    size_t i;

    *out = NULL;
    if (!id || (who && !strcmp(who, "off")) ||
        (by && sl_shape_is_word("mtp|ngram|none", by)))
        return 0;
    json_array_foreach(json_object_get(manifest, "drafters"), i, d)
    {
        const char *role = json_string_value(json_object_get(d, "role"));

        if (!strcmp(json_string_value(json_object_get(d, "id")), id) &&
            json_object_get(d, "repo")) {
            if (strcmp(role, "dflash"))
                return sl_fail(err, SL_EUNSUP,
                               "profile '%s' drafts with '%s', a head in a "
                               "repository of its own, and this version takes "
                               "only block drafters from there; choose another "
                               "--profile",
                               name, id);
            *out = d;
        }
    }
    return 0;
}
