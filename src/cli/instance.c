/* cli/instance.c - sluice ps, stop, logs: servers that run */
#include "cli/ready.h"
#include "cli/verb.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/term.h"
#include "bundle/instance.h"

#define MAX_TEXT ((size_t)1 << 20)
#define ASK_S 2     /* for an answer of a server on this machine */
#define LOOK_MS 100 /* between two looks at a process or a log */
#define GRACE_S 10  /* beyond the drain time of the server itself */
#define READ_BYTES ((size_t)1 << 16)
#define MAX_TAIL ((uint64_t)16 << 20) /* bytes of a log that are looked at */

/* What the server says of itself; a file alone is not believed. */
static const char *state_of(const struct sl_instance *i,
                            const struct sl_places *places)
{
    struct sl_client_opts co = {.agent = "sluice/" SL_VERSION};
    struct sl_places *p = NULL;
    struct sl_job *j = NULL;
    struct sl_client *c = NULL;
    struct sl_buf b;
    const char *state = "silent";

    if (i->tls)
        return "running"; /* its certificate is its own affair */
    if (sl_mem_alloc(&p, 1, sizeof(*p), "a question", NULL) ||
        sl_mem_alloc(&j, 1, sizeof(*j), "a question", NULL)) {
        sl_mem_free(p);
        return state;
    }
    *p = *places;
    p->offline = false; /* this is no hub */
    p->token[0] = 0;
    p->stall_s = ASK_S;
    sl_instance_address(p->endpoint, sizeof(p->endpoint), i);
    co.places = p;
    sl_buf_init(&b, MAX_TEXT);
    j->path = "/ready";
    j->what = i->name;
    if (!sl_client_open(&c, &co, NULL)) {
        sl_client_hurry(c, ASK_S);
        if (!sl_client_get(c, j, &b, NULL))
            state = "ready";
        else if (j->status == 503)
            state = "not ready";
    }
    sl_client_close(&c);
    sl_buf_deinit(&b);
    sl_mem_free(j);
    sl_mem_free(p);
    return state;
}

/* "3 h", "12 min", "5 s" */
static void age(char out[24], int64_t since_s)
{
    int64_t s = (int64_t)time(NULL) - since_s;

    if (s < 120)
        snprintf(out, 24, "%lld s", (long long)(s < 0 ? 0 : s));
    else if (s < 7200)
        snprintf(out, 24, "%lld min", (long long)(s / 60));
    else
        snprintf(out, 24, "%lld h", (long long)(s / 3600));
}

int sl_cli_ps(const struct sl_opts *o, struct sl_err *err)
{
    struct sl_instance *all = NULL;
    struct sl_places p;
    struct sl_buf b;
    json_t *list = json_array();
    size_t n = 0;
    int rc = sl_cli_max_args(o, 0, "'sluice ps' takes no argument", err);

    if (!rc)
        rc = sl_cli_places(&p, o, err);
    if (!rc)
        rc = sl_instance_list(&all, &n, &p, err);
    sl_buf_init(&b, MAX_TEXT);
    if (!rc && n)
        sl_buf_fmt(&b, "%-24s %8s %-9s %6s %-14s %-8s %s\n", "NAME", "PID",
                   "STATE", "PORT", "PROFILE", "SINCE", "MODEL");
    for (size_t i = 0; !rc && i < n; i++) {
        const char *state = state_of(&all[i], &p);
        char since[24];

        age(since, all[i].when_s);
        sl_buf_fmt(&b, "%-24s %8lld %-9s %6u %-14s %-8s %s\n", all[i].name,
                   (long long)all[i].pid, state, all[i].port,
                   *all[i].profile ? all[i].profile : "-", since, all[i].model);
        json_array_append_new(
            list, json_pack("{s:s, s:I, s:s, s:s, s:i, s:s, s:s, s:s, s:I}",
                            "name", all[i].name, "pid", (json_int_t)all[i].pid,
                            "state", state, "host", all[i].host, "port",
                            (int)all[i].port, "profile", all[i].profile,
                            "model", all[i].model, "revision", all[i].sha,
                            "started", (json_int_t)all[i].when_s));
    }
    sl_mem_free(all);
    if (!rc && o->value[SL_OPT_JSON].i) {
        sl_buf_deinit(&b);
        return sl_cli_print_json(json_pack("{s:o}", "servers", list), err);
    }
    json_decref(list);
    if (!rc && n == 0)
        sl_buf_str(&b, "no server of yours runs here\n");
    if (rc) {
        sl_buf_deinit(&b);
        return rc;
    }
    return sl_cli_print(&b, "the list", err);
}

/* ----------------------------------------------------------------- stop */

static int stop_one(const struct sl_opts *o, const struct sl_instance *i,
                    struct sl_err *err)
{
    int64_t limit_s = sl_opts_has(o, SL_OPT_TIMEOUT)
                          ? o->value[SL_OPT_TIMEOUT].i
                          : (int64_t)i->drain_s + GRACE_S;
    uint64_t end = sl_clock_ns() + (uint64_t)limit_s * 1000000000;
    bool kill_it = o->value[SL_OPT_KILL].i;
    int rc = sl_process_end(i->pid, false, err);

    while (!rc && sl_instance_lives(i) && sl_clock_ns() < end)
        sl_process_sleep_ms(LOOK_MS);
    if (rc || !sl_instance_lives(i))
        return rc;
    if (!kill_it)
        return sl_fail(err, SL_EBUSY,
                       "'%s' (process %lld) still answers requests after %lld "
                       "s; wait, or say --kill",
                       i->name, (long long)i->pid, (long long)limit_s);
    rc = sl_process_end(i->pid, true, err);
    while (!rc && sl_instance_lives(i))
        sl_process_sleep_ms(LOOK_MS);
    return rc;
}

int sl_cli_stop(const struct sl_opts *o, struct sl_err *err)
{
    bool all = o->value[SL_OPT_EVERY].i;
    struct sl_instance *list = NULL;
    char want[SL_INSTANCE_NAME] = "";
    struct sl_places p;
    size_t n = 0, n_hit = 0;
    int rc = sl_cli_max_args(o, 1, "'sluice stop' takes one name", err);

    if (!rc && all == (o->n_arg > 0))
        rc = sl_fail(err, SL_EARG,
                     "say which server, or --all; 'sluice ps' lists them");
    if (!rc)
        rc = sl_cli_places(&p, o, err);
    if (!rc)
        rc = sl_instance_list(&list, &n, &p, err);
    if (!rc && !all)
        sl_instance_name(want, o->arg[0]);
    for (size_t i = 0; !rc && i < n; i++)
        if (all || !strcmp(list[i].name, want)) {
            n_hit++;
            rc = stop_one(o, &list[i], err);
            if (!rc)
                sl_note("sluice: '%s' ended\n", list[i].name);
        }
    sl_mem_free(list);
    if (!rc && !all && n_hit == 0)
        rc = sl_fail(err, SL_ENOTFOUND,
                     "no server '%s' of yours runs here; 'sluice ps' lists "
                     "them",
                     want);
    return rc;
}

/* ----------------------------------------------------------------- logs */

/* Where the last n lines of the file begin. */
static uint64_t last_lines(const struct sl_map *m, int64_t n)
{
    size_t i = m->len;

    while (i > 0 && m->len - i < MAX_TAIL) {
        if (m->p[i - 1] == '\n' && i < m->len && --n <= 0)
            break;
        i--;
    }
    return i;
}

static int copy_new(const char *path, uint64_t *at, struct sl_err *err)
{
    struct sl_map m;
    int rc = sl_map_open(&m, path, err);

    if (rc)
        return rc;
    if (*at > m.len)
        *at = 0; /* it began anew */
    while (!rc && *at < m.len) {
        size_t n = sl_min(READ_BYTES, m.len - (size_t)*at);

        rc = sl_out_write((const char *)m.p + *at, n, err);
        *at += n;
    }
    sl_map_close(&m);
    return rc;
}

static bool runs(const char *name, const struct sl_places *p)
{
    struct sl_instance *all = NULL;
    size_t n = 0;
    bool found = false;

    if (sl_instance_list(&all, &n, p, NULL))
        return false;
    for (size_t i = 0; i < n; i++)
        found |= !strcmp(all[i].name, name);
    sl_mem_free(all);
    return found;
}

int sl_cli_logs(const struct sl_opts *o, struct sl_err *err)
{
    char path[SL_TREE_PATH], name[SL_INSTANCE_NAME];
    struct sl_places p;
    struct sl_map m;
    uint64_t at = 0;
    int rc;

    if (o->n_arg != 1)
        return sl_fail(err, SL_EARG,
                       "say which server; 'sluice ps' lists them");
    sl_instance_name(name, o->arg[0]);
    rc = sl_cli_places(&p, o, err);
    if (!rc)
        rc = sl_instance_log(path, &p, name, err);
    if (!rc && sl_file_kind(path) != SL_FILE_REGULAR)
        rc = sl_fail(err, SL_ENOTFOUND,
                     "'%s' has no log; one is written by 'sluice serve "
                     "--detach'",
                     name);
    if (!rc)
        rc = sl_map_open(&m, path, err);
    if (rc)
        return rc;
    at = last_lines(&m, o->value[SL_OPT_LINES].i);
    sl_map_close(&m);
    for (;;) {
        /* Looked at first: what a server wrote before it ended is copied. */
        bool goes_on = o->value[SL_OPT_FOLLOW].i && runs(name, &p);

        rc = copy_new(path, &at, err);
        if (rc || !goes_on)
            return rc;
        sl_process_sleep_ms(LOOK_MS);
    }
}
