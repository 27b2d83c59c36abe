/* model/packing_sweep.c - packed files that nothing opens; see
 * packing_sweep.h
 *
 * Files are listed first and judged one by one, each against all receipts: a
 * machine has dozens of either.
 */
#include "model/packing_sweep.h"

#include <string.h>

#include "base/file.h"
#include "base/out.h"
#include "model/packing.h"

#define PATH_CAP 4096
#define HEX 64
#define MAX_RECEIPT 4096
#define DAY_NS (86400 * INT64_C(1000000000))
/* A file that was just made may not have its receipt yet. */
#define GRACE_NS (DAY_NS / 24)
#define END ".sluice"
#define TMP ".tmp"

struct sweep {
    const struct sl_packing_sweep *s;
    char packed[PATH_CAP], by[PATH_CAP], cost[PATH_CAP];
    const char *in; /* of them: the folder that is gone through */
    int64_t now;
    const char *key; /* of the file that is looked at */
    bool wanted;     /* by a receipt */
};

static bool older(const char *path, int64_t ns, const struct sweep *w,
                  uint64_t *bytes)
{
    struct sl_file_stamp st;

    if (sl_file_kind(path) != SL_FILE_REGULAR || !sl_file_stamp(&st, path))
        return false;
    *bytes = st.size;
    return w->now - st.mtime_ns > ns;
}

static void drop(const struct sweep *w, const char *path, uint64_t bytes)
{
    if (w->s->dry_run || sl_file_remove(path))
        w->s->removed(w->s->ctx, path, bytes);
}

static bool path_of(char out[PATH_CAP], const char *dir, const char *name)
{
    return !sl_path_join(out, PATH_CAP, dir, name, NULL);
}

/* A receipt that names the key, and is young enough to count. */
static void look(void *ctx, const char *name)
{
    struct sweep *w = ctx;
    char path[PATH_CAP], *text = NULL;
    uint64_t bytes;
    size_t len = 0;

    if (w->wanted || !path_of(path, w->by, name) ||
        older(path, w->s->days * DAY_NS, w, &bytes) ||
        sl_file_read(&text, &len, path, MAX_RECEIPT, NULL))
        return;
    w->wanted = len >= HEX && !memcmp(text, w->key, HEX);
    sl_file_free(text);
}

/* HEX.ANYTHING.tmp: before it has its name; see base/file.h and base/out.h. */
static bool is_temporary(const char *name)
{
    size_t n = strlen(name), end = strlen(TMP);

    return strspn(name, "0123456789abcdef") == HEX && name[HEX] == '.' &&
           n > HEX + end && !strcmp(name + n - end, TMP);
}

/* Packing may take long, so that age alone says nothing. */
static void packed_temporary(struct sweep *w, const char *path)
{
    uint64_t bytes;

    if (older(path, GRACE_NS, w, &bytes) && sl_out_left(path, !w->s->dry_run))
        w->s->removed(w->s->ctx, path, bytes);
}

static void packed_file(void *ctx, const char *name)
{
    struct sweep *w = ctx;
    char path[PATH_CAP];
    uint64_t bytes;

    if (!path_of(path, w->packed, name))
        return;
    if (is_temporary(name)) {
        packed_temporary(w, path);
        return;
    }
    if (strlen(name) != HEX + strlen(END) || strcmp(name + HEX, END) ||
        !older(path, GRACE_NS, w, &bytes))
        return;
    w->key = name;
    w->wanted = false;
    if (!sl_dir_each(w->by, look, w, NULL) && !w->wanted)
        drop(w, path, bytes);
}

/* A receipt, or times of steps: both are touched by those who use them. Nobody
 * writes either for as long as the grace. */
static void small_file(void *ctx, const char *name)
{
    struct sweep *w = ctx;
    bool tmp = is_temporary(name);
    char path[PATH_CAP];
    uint64_t bytes;

    if ((tmp || strlen(name) == HEX) && path_of(path, w->in, name) &&
        older(path, tmp ? GRACE_NS : w->s->days * DAY_NS, w, &bytes))
        drop(w, path, bytes);
}

static int small_files(struct sweep *w, const char *dir, struct sl_err *err)
{
    w->in = dir;
    return sl_file_kind(dir) == SL_FILE_DIR
               ? sl_dir_each(dir, small_file, w, err)
               : 0;
}

int sl_packing_sweep(const char *dir, const struct sl_packing_sweep *s,
                     struct sl_err *err)
{
    struct sweep w = {.s = s, .now = sl_file_now()};
    int rc = sl_path_join(w.packed, sizeof(w.packed), dir, "packed", err);

    if (!rc)
        rc = sl_path_join(w.by, sizeof(w.by), w.packed, "by", err);
    if (!rc)
        rc = sl_path_join(w.cost, sizeof(w.cost), dir, SL_PACKING_COST, err);
    if (!rc && sl_file_kind(w.by) == SL_FILE_DIR)
        rc = sl_dir_each(w.packed, packed_file, &w, err);
    if (!rc)
        rc = small_files(&w, w.by, err);
    return rc ? rc : small_files(&w, w.cost, err);
}
