/* cli/doctor.c - sluice doctor: what this machine has
 *
 * One line per check: "ok", "warn" or "fail", what was found, and what to do.
 */
#include "cli/open.h"
#include "cli/ready.h"
#include "cli/verb.h"

#include <stdarg.h>

#include "base/machine.h"
#include "bundle/needs.h"
#include "sluice/sluice.h"

/* Far above the caches of today's machines, and little to ask for. */
#define HUB_S 3       /* how long the hub may take to answer */
#define MAX_SKEW_S 60 /* chosen: signed addresses live for minutes */
#define PROBE_BYTES ((size_t)512 << 20)

struct report {
    struct sl_buf text;
    json_t *checks;
    bool failed;
};

static void check(struct report *r, const char *name, const char *state,
                  const char *fmt, ...) SL_PRINTF(4, 5);

static void check(struct report *r, const char *name, const char *state,
                  const char *fmt, ...)
{
    char line[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    sl_buf_fmt(&r->text, "%-4s  %-10s %s\n", state, name, line);
    json_array_append_new(r->checks, json_pack("{s:s, s:s, s:s}", "check", name,
                                               "state", state, "found", line));
    if (!strcmp(state, "fail"))
        r->failed = true;
}

static void check_cpu(struct report *r, const struct sl_machine *m)
{
    check(r, "processor", "ok", "%s",
          *m->cpu ? m->cpu : "the system does not tell its name");
    check(r, "isa", "ok", "found: %s; used: %s",
          *m->isa ? m->isa : "none of interest", sl_isa(UINT32_MAX));
    check(r, "cores", "ok", "%u cores, %u hardware threads, %u memory node%s",
          m->n_core, m->n_cpu, m->n_node, m->n_node == 1 ? "" : "s");
}

static void check_memory(struct report *r, const struct sl_machine *m)
{
    char all[SL_CLI_BYTES_LEN], avail[SL_CLI_BYTES_LEN],
        limit[SL_CLI_BYTES_LEN];

    sl_cli_bytes(all, m->mem_bytes);
    sl_cli_bytes(avail, m->free_bytes);
    sl_cli_bytes(limit, m->limit_bytes);
    if (m->limit_bytes)
        check(r, "memory", "ok", "%s, %s free; this group may use %s", all,
              avail, limit);
    else
        check(r, "memory", "ok", "%s, %s free", all, avail);
    if (!strcmp(m->huge, "never"))
        check(r, "huge pages", "warn",
              "transparent huge pages are off, which makes reading slower; "
              "write 'madvise' to "
              "/sys/kernel/mm/transparent_hugepage/enabled");
    else
        check(r, "huge pages", "ok", "%s",
              *m->huge ? m->huge : "the system does not tell");
}

/* Features are compiled in or not; the verbs that need one say so. */
static void check_built(struct report *r)
{
    check(r, "built in", "ok",
          "kernels for this processor: %s; MPI and UCX: "
          "not built, no verb needs them yet",
          sl_isa(UINT32_MAX));
}

static int check_rate(struct report *r, const struct sl_machine *m,
                      struct sl_err *err)
{
    double one = 0, all = 0;
    int rc = sl_machine_read_rate(&one, 1, PROBE_BYTES, err);

    if (!rc)
        rc = sl_machine_read_rate(&all, 0, PROBE_BYTES, err);
    if (rc)
        return rc;
    check(r, "reading", "ok",
          "%.1f GB/s with one thread, %.1f GB/s with %u: a model of "
          "1 GB gives at most %.0f tokens/s",
          one * 1e-9, all * 1e-9, m->n_core, all * 1e-9);
    return 0;
}

/* The cache and our own state: where, whose, how much room. */
static void check_store(struct report *r, const struct sl_places *p)
{
    char room[SL_CLI_BYTES_LEN];
    struct sl_store s;
    struct sl_err why;

    if (sl_store_init(&s, p, &why)) {
        check(r, "cache", "fail", "%s", why.msg);
        return;
    }
    sl_cli_bytes(room, sl_tree_free(s.root[s.i_write]));
    if (s.i_write)
        check(r, "cache", "warn",
              "%.150s may not be written to; it is read, and what is new goes "
              "to %.150s, %s free",
              s.root[0], s.root[1], room);
    else
        check(r, "cache", "ok", "%.200s, %s free", s.root[0], room);
    if (sl_tree_make(p->own, NULL) || !sl_tree_can_write(p->own))
        check(r, "state", "warn",
              "%.200s may not be written to: receipts and bundles are not "
              "kept; set XDG_DATA_HOME",
              p->own);
    else
        check(r, "state", "ok", "%.200s", p->own);
}

/* On some network file systems a lock is granted to everybody. */
static void check_locks(struct report *r, const struct sl_places *p)
{
    struct sl_lockfile a = {.fd = -1}, b = {.fd = -1};
    const char *root = sl_tree_can_write(p->hub) ? p->hub : p->own;
    char path[SL_TREE_PATH];
    struct sl_err why;
    int rc = sl_path_join(path, sizeof(path), root, ".sluice-doctor", &why);

    if (!rc)
        rc = sl_lockfile_take(&a, path, SL_LOCK_ALONE, 0, "the cache", NULL,
                              &why);
    if (rc)
        check(r, "locks", "warn", "%s", why.msg);
    else if (sl_lockfile_take(&b, path, SL_LOCK_ALONE, 0, "the cache", NULL,
                              NULL) == SL_EBUSY)
        check(r, "locks", "ok", "hold on the file system of %.200s", root);
    else
        check(r, "locks", "warn",
              "the file system of %.200s grants them to everybody; two "
              "downloads of one file cost twice, and nothing else",
              root);
    sl_lockfile_give(&b);
    sl_lockfile_give(&a);
    (void)sl_tree_unlink(path, NULL);
}

static void check_hub(struct report *r, const struct sl_places *p)
{
    const struct sl_client_opts co = {.places = p,
                                      .agent = "sluice/" SL_VERSION};
    struct sl_client *h = NULL;
    struct sl_err why;
    int64_t there = -1, skew;
    int rc;

    check(r, "token", "ok", "%s",
          *p->token ? "there is one" : "none; public models need none");
    if (p->offline) {
        check(r, "hub", "ok", "not asked: offline");
        return;
    }
    rc = sl_client_open(&h, &co, &why);
    if (!rc) {
        sl_client_hurry(h, HUB_S);
        rc = sl_hub_there(h, &there, &why);
    }
    sl_client_close(&h);
    if (rc) {
        check(r, "hub", "warn", "%.200s: %.250s", p->endpoint, why.msg);
        return;
    }
    check(r, "hub", "ok", "%.200s answers", p->endpoint);
    skew = there < 0 ? 0 : (int64_t)time(NULL) - there;
    if (skew > MAX_SKEW_S || skew < -MAX_SKEW_S)
        check(r, "clock", "warn",
              "%lld s %s the hub's; signed addresses may be refused, so set "
              "it right",
              (long long)(skew < 0 ? -skew : skew),
              skew < 0 ? "behind" : "before");
    else
        check(r, "clock", "ok", "agrees with the hub's");
}

/* Can this bundle be served here? */
static int check_bundle(struct report *r, const struct sl_opts *o,
                        struct sl_err *err)
{
    char packed[SL_CLI_PATH], text[300] = "";
    const char *name;
    struct sl_manifest m;
    json_t *p = NULL;
    struct sl_err why;
    int rc = sl_cli_manifest(&m, o, o->arg[0], err);

    if (rc)
        return rc;
    sl_cli_packed_dir(packed, o);
    if (m.tool)
        rc = sl_fail(&why, SL_EUNSUP, "it is a bundle of %s", m.tool);
    else
        rc = sl_needs_program(&m, &why);
    if (!rc)
        rc = sl_manifest_profile_name(&name, &m, o->value[SL_OPT_PROFILE].s,
                                      &why);
    if (!rc)
        rc = sl_manifest_profile(&p, &m, name, &why);
    if (!rc)
        rc = sl_needs_machine(p, name, false, packed, &why);
    if (!rc)
        sl_needs_advice(text, sizeof(text), p, name);
    if (rc)
        check(r, "bundle", "fail", "%s", why.msg);
    else
        check(r, "bundle", *text ? "warn" : "ok", "%s",
              *text ? text : "this machine has what it requires");
    json_decref(p);
    sl_manifest_deinit(&m);
    return 0;
}

int sl_cli_doctor(const struct sl_opts *o, struct sl_err *err)
{
    struct report r = {.checks = json_array()};
    struct sl_places places;
    struct sl_machine m;
    int rc = sl_cli_max_args(o, 1, "'sluice doctor' takes one bundle", err);

    if (!rc)
        rc = sl_cli_places(&places, o, err);
    if (!rc && o->value[SL_OPT_PROFILE].s && o->n_arg == 0)
        rc = sl_fail(err, SL_EARG,
                     "--profile is of a bundle, and none is named");

    sl_buf_init(&r.text, 65536);
    if (!rc)
        rc = sl_machine_get(&m, err);
    if (rc)
        goto out;
    check_cpu(&r, &m);
    check_memory(&r, &m);
    check_built(&r);
    check_store(&r, &places);
    check_locks(&r, &places);
    check_hub(&r, &places);
    if (o->n_arg)
        rc = check_bundle(&r, o, err);
    if (rc)
        goto out;
    rc = check_rate(&r, &m, err);
    if (rc)
        goto out;
    if (o->value[SL_OPT_JSON].i) {
        rc = sl_cli_print_json(json_pack("{s:O}", "checks", r.checks), err);
    } else {
        rc = sl_buf_check(&r.text, "the report", err);
        if (!rc)
            rc = sl_cli_print(&r.text, "the report", err);
    }
    if (!rc && r.failed)
        rc = sl_fail(err, SL_EUNSUP,
                     "this machine cannot run %s; see the lines that say "
                     "'fail'",
                     o->n_arg ? o->arg[0] : "models");
out:
    sl_buf_deinit(&r.text);
    json_decref(r.checks);
    return rc;
}
