/* cli/doctor.c - sluice doctor: what this machine has
 *
 * One line per check: "ok", "warn" or "fail", what was found, and what to do.
 */
#include "cli/verb.h"

#include <stdarg.h>

#include "base/machine.h"
#include "sluice/sluice.h"

/* Far above the caches of today's machines, and little to ask for. */
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

int sl_cli_doctor(const struct sl_opts *o, struct sl_err *err)
{
    struct report r = {.checks = json_array()};
    struct sl_machine m;
    int rc = sl_cli_max_args(o, 0, "'sluice doctor' takes none", err);

    sl_buf_init(&r.text, 65536);
    if (!rc)
        rc = sl_machine_get(&m, err);
    if (rc)
        goto out;
    check_cpu(&r, &m);
    check_memory(&r, &m);
    check_built(&r);
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
                     "this machine cannot run models; see the "
                     "lines that say 'fail'");
out:
    sl_buf_deinit(&r.text);
    json_decref(r.checks);
    return rc;
}
