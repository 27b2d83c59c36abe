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
#include "base/pool.h"

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

/* ---------------------------------------------------------- bandwidth */

#define CHUNK ((size_t)1 << 18) /* words of one task: 2 MiB, a huge page */
#define MIN_NS 300000000u       /* long enough to forget the clock's error */

struct probe {
    const uint64_t *p;
    _Atomic uint64_t sum; /* so that nobody removes the reading */
};

static void read_chunk(void *ctx, size_t i, unsigned w)
{
    struct probe *pr = ctx;
    const uint64_t *p = pr->p + i * CHUNK;
    /* Four, so that additions do not wait. Adding is cheaper than reading. */
    uint64_t a = 0, b = 0, c = 0, d = 0;

    (void)w;
    for (size_t k = 0; k < CHUNK; k += 8) {
        a += p[k] + p[k + 4];
        b += p[k + 1] + p[k + 5];
        c += p[k + 2] + p[k + 6];
        d += p[k + 3] + p[k + 7];
    }
    pr->sum += a + b + c + d;
}

static void fill_chunk(void *ctx, size_t i, unsigned w)
{
    /* Written, so that it is memory and not the shared page of zeros. */
    memset((char *)ctx + i * CHUNK * 8, (int)w + 1, CHUNK * 8);
}

int sl_machine_read_rate(double *out, unsigned n_thread, size_t bytes,
                         struct sl_err *err)
{
    size_t n = sl_max(bytes / (CHUNK * 8), 1), rounds = 0;
    struct sl_pool *pool = NULL;
    struct probe pr = {0};
    void *p = NULL;
    uint64_t t0, t1;
    int rc = sl_mem_map(&p, n * CHUNK * 8, "the bandwidth probe", err);

    if (rc)
        return rc;
    rc = sl_pool_open(&pool, n_thread, true, err);
    if (rc)
        goto out;
    pr.p = p;
    sl_pool_run(pool, fill_chunk, p, n);
    t0 = sl_clock_ns();
    do {
        sl_pool_run(pool, read_chunk, &pr, n);
        rounds++;
        t1 = sl_clock_ns();
    } while (t1 - t0 < MIN_NS);
    *out = (double)(rounds * n * CHUNK * 8) / sl_clock_s(t0, t1);
out:
    sl_pool_close(&pool);
    sl_mem_unmap(p, n * CHUNK * 8);
    return rc;
}
