/* base/machine.c - what this machine has; see machine.h */
/* Before ours, against rule H3: its inline functions use what we ban. */
#include <hwloc.h>

#include "base/machine.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/probe.h"

#define MAX_PROC 65536 /* bytes of a file of /proc that we look at */

/* The start of a file whose size the system does not tell; false if it cannot
 * be read. */
static bool slurp(char *out, size_t cap, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = 1;

    if (fd < 0)
        return false;
    while (n > 0 && len < cap - 1) {
        n = read(fd, out + len, cap - 1 - len);
        len += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    out[len] = 0;
    return len > 0;
}

/* What stands behind "key   :" on a line of its own; its length, or 0. */
static size_t value_of(const char **value, const char *text, const char *key)
{
    size_t n = strlen(key);

    for (const char *p = text; p && *p; p = strchr(p, '\n')) {
        p += *p == '\n';
        if (strncmp(p, key, n))
            continue;
        p += n + strspn(p + n, " \t:");
        *value = p;
        return strcspn(p, "\n");
    }
    return 0;
}

static void get_cpu(struct sl_machine *m, char *text)
{
    /* Those that kernels exist for, or may exist for. */
    static const char *const want[] = {
        "sse4_2",      "avx2",     "fma",         "f16c",     "avx512f",
        "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_tile", "asimd",
        "asimddp",     "i8mm",     "bf16",        "sve",
    };
    const char *v = NULL;
    size_t n;

    if (!slurp(text, MAX_PROC, "/proc/cpuinfo"))
        return;
    n = value_of(&v, text, "model name");
    snprintf(m->cpu, sizeof(m->cpu), "%.*s", (int)n, n ? v : "");
    n = value_of(&v, text, "flags");
    if (!n)
        n = value_of(&v, text, "Features"); /* its name on ARM */
    for (size_t i = 0; n && i < SL_COUNTOF(want); i++) {
        size_t len = strlen(want[i]), used = strlen(m->isa);
        const char *p = v;

        while ((p = strstr(p, want[i])) && p < v + n) {
            bool whole =
                (p == v || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\n');

            p += len;
            if (!whole)
                continue;
            snprintf(m->isa + used, sizeof(m->isa) - used, "%s%s",
                     used ? " " : "", want[i]);
            break;
        }
    }
}

/* The number in front of `len` bytes of text; 0 when there is none. */
static uint64_t number(const char *p, size_t len)
{
    size_t n = 0;
    int64_t v = 0;

    while (n < len && p[n] >= '0' && p[n] <= '9')
        n++;
    if (sl_num_i64(&v, p, n, 0, INT64_MAX, "a size", NULL))
        return 0;
    return (uint64_t)v;
}

uint64_t sl_machine_free_bytes(void)
{
    char text[4096]; /* the line is the third */
    const char *v = NULL;
    size_t n = 0;

    if (slurp(text, sizeof(text), "/proc/meminfo"))
        n = value_of(&v, text, "MemAvailable");
    return n ? number(v, n) << 10 : 0;
}

uint64_t sl_machine_random(void)
{
    uint64_t v;

    /* Fails only before the system's pool is ready, early at boot. */
    if (getrandom(&v, sizeof(v), 0) != (ssize_t)sizeof(v))
        v = sl_clock_ns();
    return v;
}

static void get_memory(struct sl_machine *m, char *text)
{
    const char *v = NULL, *e;
    size_t n;

    if (slurp(text, MAX_PROC, "/proc/meminfo")) {
        n = value_of(&v, text, "MemTotal");
        m->mem_bytes = n ? number(v, n) << 10 : 0;
    }
    m->free_bytes = sl_machine_free_bytes();
    if (slurp(text, MAX_PROC, "/sys/fs/cgroup/memory.max"))
        m->limit_bytes = number(text, strlen(text)); /* "max" is none */
    if (slurp(text, MAX_PROC,
              "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"))
        m->n_huge_1g = number(text, strspn(text, "0123456789"));
    if (slurp(text, MAX_PROC, "/sys/kernel/mm/transparent_hugepage/enabled")) {
        v = strchr(text, '[');
        e = v ? strchr(v, ']') : NULL;
        if (e)
            snprintf(m->huge, sizeof(m->huge), "%.*s", (int)(e - v - 1), v + 1);
    }
}

static unsigned count(hwloc_topology_t t, hwloc_obj_type_t type)
{
    int n = hwloc_get_nbobjs_by_type(t, type);

    return n > 0 ? (unsigned)n : 0;
}

static int get_topology(struct sl_machine *m, struct sl_err *err)
{
    hwloc_topology_t t;

    if (hwloc_topology_init(&t))
        return sl_fail(err, SL_EIO, "hwloc cannot read this machine");
    if (hwloc_topology_load(t)) {
        hwloc_topology_destroy(t);
        return sl_fail(err, SL_EIO, "hwloc cannot read this machine");
    }
    m->n_core = count(t, HWLOC_OBJ_CORE);
    m->n_cpu = count(t, HWLOC_OBJ_PU);
    m->n_node = count(t, HWLOC_OBJ_NUMANODE);
    for (hwloc_obj_t o = hwloc_get_obj_by_type(t, HWLOC_OBJ_PU, 0); o;
         o = o->parent)
        if (hwloc_obj_type_is_dcache(o->type) && o->attr)
            m->cache_bytes = sl_max(m->cache_bytes, o->attr->cache.size);
    hwloc_topology_destroy(t);
    return 0;
}

int sl_machine_get(struct sl_machine *out, struct sl_err *err)
{
    struct sl_machine m = {0};
    char *text;
    int rc = sl_mem_alloc(&text, MAX_PROC, 1, "the machine's description", err);

    if (rc)
        return rc;
    get_cpu(&m, text);
    get_memory(&m, text);
    sl_mem_free(text);
    rc = get_topology(&m, err);
    if (!rc)
        *out = m;
    return rc;
}

/* ---------------------------------------------------------- right now */

/* A whole number that a file of the system holds; 0 without one. */
static int64_t number_in(const char *path)
{
    char text[64];
    int64_t v = 0;

    if (slurp(text, sizeof(text), path))
        sl_num_i64(&v, text, strcspn(text, "\n"), INT64_MIN, INT64_MAX,
                   "a number of the system", NULL);
    return v;
}

void sl_machine_now(struct sl_machine_now *out)
{
    *out = (struct sl_machine_now){
        .mhz = (double)number_in(
                   "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq") *
               1e-3,
        .celsius =
            (double)number_in("/sys/class/thermal/thermal_zone0/temp") * 1e-3};
}

#define MIN_NS 300000000u /* long enough to forget the clock's error */

int sl_machine_read_rate(double *out, unsigned n_thread, size_t bytes,
                         struct sl_err *err)
{
    struct sl_pool *pool = NULL;
    struct sl_probe *probe = NULL;
    uint32_t n = 0;
    uint64_t t0;
    int rc = sl_pool_open(&pool, n_thread, true, err);

    if (!rc)
        rc = sl_probe_open(&probe, pool, bytes, err);
    if (!rc) {
        *out = 0;
        t0 = sl_clock_ns();
        do
            *out += 1 / sl_probe_read(probe); /* seconds of a byte */
        while (++n && sl_clock_ns() - t0 < MIN_NS);
        *out = n / *out;
    }
    sl_probe_close(&probe);
    sl_pool_close(&pool);
    return rc;
}
