/* cli/profiles.c - sluice profiles NAME: the ways to serve a bundle */
#include "cli/ready.h"
#include "cli/verb.h"

#include "bundle/needs.h"
#include "bundle/setting.h"

#define MAX_TEXT ((size_t)1 << 20)

/* Why this profile cannot be served here, or "". */
static void judge(char *out, size_t cap, const struct sl_manifest *m,
                  const json_t *profile, const char *name)
{
    struct sl_err why = {.code = SL_OK};
    const json_t *drafter;
    struct sl_opts o;
    json_t *flat = NULL;
    int rc = sl_needs_program(m, &why);

    sl_opts_init(&o, SL_VERB_SERVE);
    if (!rc)
        rc = sl_setting_apply(&flat, &o, profile, name, &why);
    if (!rc)
        rc = sl_setting_drafter(&drafter, m->json, profile, name, &why);
    if (!rc)
        rc = sl_needs_machine(profile, name, false, NULL, &why);
    json_decref(flat);
    snprintf(out, cap, "%s", rc ? why.msg : "");
}

/* The row with the most tokens per second for a user. */
static const json_t *best_row(const struct sl_manifest *m, const char *name)
{
    const json_t *rows = json_object_get(json_object_get(m->json, "benchmarks"),
                                         "rows"),
                 *best = NULL;
    json_t *row;
    size_t i;
    double most = 0;

    json_array_foreach(rows, i, row)
    {
        const char *p = json_string_value(json_object_get(row, "profile"));
        double x = json_number_value(json_object_get(row, "tps_user"));

        if (p && !strcmp(p, name) && x > most) {
            most = x;
            best = row;
        }
    }
    return best;
}

static void add_text(struct sl_buf *b, const char *name, bool is_default,
                     const json_t *p, const json_t *row, const char *why)
{
    const char *does = json_string_value(json_object_get(p, "description"));
    const char *best = json_string_value(json_object_get(p, "best_for"));

    sl_buf_fmt(b, "%s%s\n", name, is_default ? " (default)" : "");
    if (does)
        sl_buf_fmt(b, "    %s\n", does);
    if (best)
        sl_buf_fmt(b, "    best for: %s\n", best);
    if (row)
        sl_buf_fmt(
            b, "    measured: %g tokens/s for one of %lld users, on %s\n",
            json_number_value(json_object_get(row, "tps_user")),
            (long long)json_integer_value(json_object_get(row, "concurrency")),
            json_string_value(json_object_get(row, "hardware")));
    sl_buf_fmt(b, "    here: %s\n", *why ? why : "can be served");
}

/* Of another tool: names and what they say of themselves. */
static int print_foreign(const struct sl_manifest *m, bool as_json,
                         struct sl_err *err)
{
    json_t *all = json_object_get(m->json, "profiles"), *v;
    const char *name;
    struct sl_buf b;

    if (as_json)
        return sl_cli_print_json(
            json_pack("{s:s, s:s, s:O}", "tool", m->tool, "schema", m->schema,
                      "profiles", all ? all : json_null()),
            err);
    sl_buf_init(&b, MAX_TEXT);
    json_object_foreach(all, name, v)
    {
        const char *does = json_string_value(json_object_get(v, "description"));

        sl_buf_fmt(&b, "%s\n", name);
        if (does)
            sl_buf_fmt(&b, "    %s\n", does);
        sl_buf_fmt(&b, "    here: %s (schema %s) serves it\n", m->tool,
                   m->schema);
    }
    if (!json_object_size(all))
        sl_buf_fmt(&b, "no profiles; %s (schema %s) serves it\n", m->tool,
                   m->schema);
    return sl_cli_print(&b, "the profiles", err);
}

static int print(const struct sl_manifest *m, bool as_json, struct sl_err *err)
{
    const char *def = NULL, *name;
    json_t *out = json_object(), *v;
    struct sl_buf b;
    int rc = sl_manifest_profile_name(&def, m, NULL, err);

    sl_buf_init(&b, MAX_TEXT);
    json_object_foreach(json_object_get(m->json, "profiles"), name, v)
    {
        char why[1000];
        json_t *p = NULL;

        if (!rc)
            rc = sl_manifest_profile(&p, m, name, err);
        if (rc)
            break;
        judge(why, sizeof(why), m, p, name);
        add_text(&b, name, !strcmp(name, def), p, best_row(m, name), why);
        json_object_set_new(out, name,
                            json_pack("{s:b, s:b, s:s, s:O}", "default",
                                      !strcmp(name, def), "can_serve", !*why,
                                      "why", why, "settings", p));
        json_decref(p);
    }
    if (!rc && as_json) {
        sl_buf_deinit(&b);
        return sl_cli_print_json(out, err);
    }
    json_decref(out);
    if (rc) {
        sl_buf_deinit(&b);
        return rc;
    }
    return sl_cli_print(&b, "the profiles", err);
}

int sl_cli_profiles(const struct sl_opts *o, struct sl_err *err)
{
    struct sl_manifest m = {.json = NULL};
    int rc = sl_cli_max_args(o, 1, "'sluice profiles' takes one name", err);

    if (!rc && o->n_arg == 0)
        rc = sl_fail(err, SL_EARG, "no bundle is named");
    if (!rc)
        rc = sl_cli_manifest(&m, o, o->arg[0], err);
    if (rc)
        return rc;
    if (m.tool)
        rc = print_foreign(&m, o->value[SL_OPT_JSON].i, err);
    else
        rc = print(&m, o->value[SL_OPT_JSON].i, err);
    sl_manifest_deinit(&m);
    return rc;
}
