/* engine/cost_file.c - what steps and passes take, kept for the next start; see
 * cost_file.h
 */
#include "engine/cost_file.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "model/packing.h"

#define PATH_CAP 4096
#define MAX_BYTES 65536 /* of the file; it has some 3,000 */
#define MIN_S 1e-7      /* a step takes more, */
#define MAX_S 3600.0    /* and less */
/* Sizes that do not run are not corrected by steps, and the machine may have
 * been busy when they were measured. Chosen. */
#define DAYS 7

/* What is kept of an engine, by the names in the file. */
struct kept {
    struct {
        const char *key;
        struct sl_cost *cost;
        bool used;
    } table[3];
    double *shown; /* that the draft head takes to be shown a row */
    bool uses_shown;
};

static struct kept kept_of(struct sl_engine *e)
{
    return (struct kept){
        .table = {{"verify", &e->verify, true},
                  {"mtp", &e->spec.pass[SL_BY_MTP], e->uses_mtp},
                  {"flash", &e->spec.pass[SL_BY_FLASH], e->flash != NULL}},
        .shown = &e->spec.row_s[SL_BY_MTP],
        .uses_shown = e->uses_mtp};
}

/* --- where --- */

static bool identify(char out[2 * SL_SHA256 + 1], const struct sl_engine *e,
                     const char *drafter)
{
    const struct sl_engine_opts *o = &e->opts;
    struct sl_file_stamp self = {0};
    uint8_t digest[SL_SHA256] = {0};
    struct sl_machine m;
    struct sl_sha256 s;

    if ((drafter && !sl_packing_folder_id(digest, drafter)) ||
        sl_machine_get(&m, NULL) || !sl_file_stamp(&self, "/proc/self/exe"))
        return false;

    const uint64_t number[] = {self.size,
                               (uint64_t)self.mtime_ns,
                               m.n_cpu,
                               m.n_node,
                               m.mem_bytes,
                               sl_pool_n_thread(e->pool),
                               o->pin,
                               o->copy_weights,
                               o->max_num_seqs,
                               o->max_num_batched_tokens,
                               (uint64_t)o->kv_type,
                               (uint64_t)o->draft_weights,
                               e->max_depth,
                               e->uses_mtp,
                               e->flash != NULL};

    sl_sha256_init(&s);
    sl_sha256_add(&s, SL_VERSION, sizeof(SL_VERSION));
    sl_sha256_add(&s, e->weights_id, sizeof(e->weights_id));
    sl_sha256_add(&s, digest, sizeof(digest));
    sl_sha256_add(&s, m.cpu, strlen(m.cpu) + 1);
    sl_sha256_add(&s, e->kern.isa, strlen(e->kern.isa) + 1);
    for (size_t i = 0; i < SL_COUNTOF(number); i++)
        sl_sha256_u64(&s, number[i]);
    if (!sl_sha256_end(&s, digest))
        return false;
    for (size_t i = 0; i < SL_SHA256; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
    return true;
}

bool sl_cost_file_path(char *path, size_t cap, const struct sl_engine *e,
                       const char *drafter)
{
    char id[2 * SL_SHA256 + 1], dir[PATH_CAP];

    return e->opts.cache_dir && e->has_weights_id && identify(id, e, drafter) &&
           !sl_path_join(dir, sizeof(dir), e->opts.cache_dir, SL_PACKING_COST,
                         NULL) &&
           !sl_path_join(path, cap, dir, id, NULL) && !sl_dir_make(dir, NULL);
}

/* --- reading --- */

static bool seconds_of(double *out, const json_t *j)
{
    *out = json_number_value(j);
    return *out > MIN_S && *out < MAX_S;
}

/* A list of [rows, seconds]. */
static bool read_table(struct sl_cost *c, const json_t *list)
{
    bool ok = json_array_size(list) > 0;

    *c = (struct sl_cost){0};
    for (size_t i = 0; ok && i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);
        json_int_t n = json_integer_value(json_array_get(pair, 0));
        double s;

        ok = json_array_size(pair) == 2 && n > 0 && n <= SL_COST_MOST_ROWS &&
             seconds_of(&s, json_array_get(pair, 1));
        if (ok)
            sl_cost_learn(c, (uint32_t)n, 0, s);
    }
    return ok;
}

static bool is_recent(const json_t *at)
{
    double age = (double)sl_file_now() * 1e-9 - json_number_value(at);

    return json_is_number(at) && age > -60 && age < DAYS * 86400.0;
}

/* All of it or nothing. */
static bool read_all(struct sl_engine *e, const json_t *j)
{
    struct kept k = kept_of(e);
    struct sl_cost cost[SL_COUNTOF(k.table)];
    double shown = 0;

    if (!is_recent(json_object_get(j, "at")))
        return false;
    for (size_t i = 0; i < SL_COUNTOF(k.table); i++)
        if (k.table[i].used &&
            !read_table(&cost[i], json_object_get(j, k.table[i].key)))
            return false;
    if (k.uses_shown && !seconds_of(&shown, json_object_get(j, "shown")))
        return false;
    for (size_t i = 0; i < SL_COUNTOF(k.table); i++)
        if (k.table[i].used)
            *k.table[i].cost = cost[i];
    if (k.uses_shown)
        *k.shown = shown;
    e->cost = e->verify;
    return true;
}

bool sl_cost_file_read(struct sl_engine *e, const char *path)
{
    json_t *j = NULL;
    bool found = sl_file_kind(path) == SL_FILE_REGULAR &&
                 !sl_json_load(&j, path, MAX_BYTES, NULL) && read_all(e, j);

    json_decref(j);
    if (found)
        (void)sl_file_touch(path, sl_file_now()); /* packing_sweep.h */
    return found;
}

/* --- writing --- */

static void put_table(struct sl_buf *b, const char *key,
                      const struct sl_cost *c)
{
    const char *sep = "";

    sl_buf_fmt(b, "\"%s\":[", key);
    for (uint32_t i = 0; i < SL_COST_BUCKETS; i++) {
        uint32_t n = sl_cost_known(c, i);

        if (n == 0)
            continue;
        sl_buf_fmt(b, "%s[%u,%.9g]", sep, n, sl_cost_predict(c, n, 0));
        sep = ",";
    }
    sl_buf_str(b, "],");
}

void sl_cost_file_write(struct sl_engine *e, const char *path)
{
    struct kept k = kept_of(e);
    struct sl_buf b;

    sl_buf_init(&b, MAX_BYTES);
    sl_buf_fmt(&b, "{\"at\":%lld,", (long long)(sl_file_now() / 1000000000));
    for (size_t i = 0; i < SL_COUNTOF(k.table); i++)
        if (k.table[i].used)
            put_table(&b, k.table[i].key, k.table[i].cost);
    sl_buf_fmt(&b, "\"shown\":%.9g}\n", *k.shown);
    if (!sl_buf_check(&b, "times", NULL))
        (void)sl_file_write(path, b.p, b.len, NULL);
    sl_buf_deinit(&b);
}
