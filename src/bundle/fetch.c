/* bundle/fetch.c - files of a repository, from the hub to the cache
 *
 * One file is one job. Its steps, each of which may be the last one that this
 * process does:
 *
 *   1. lock; look whether somebody else has finished it;
 *   2. open the partial file, digest what it holds, some of it at a time, so
 *      that other transfers are read meanwhile; ask for room;
 *   3. fetch from there on, digesting; every 64 MiB to the disk;
 *   4. size and digest right? else once more from the start, then the end;
 *   5. to the disk, a link under its name, the partial name away;
 *   6. the snapshot's link.
 *
 * After step 5 the file is whole for everybody; before it nobody sees it. The
 * lock is the one that other programs take. It may be another one than ours
 * where caches differ, so that who is at a partial file holds a lock on that,
 * too; and locks may be worth nothing (see base/lockfile.h), so that who wrote
 * it is told by its number. One that is somebody's is left alone and a name of
 * our own is used, and step 5 never replaces what is there.
 *
 * A partial file is as long as what was received. After a crash of the machine
 * its end may be zeros that were never written, so then only what was known to
 * be on the disk counts.
 */
#include "bundle/fetch.h"

#include <unistd.h>

#include "base/lockfile.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/sink.h"

#define BATCH 64 /* files that have a job at once; bounds memory */
#define SYNC_BYTES ((uint64_t)64 << 20)
#define HASH_BYTES ((size_t)1 << 18)
/* Digested before other transfers have their turn: some 50 ms. Chosen. */
#define TURN_BYTES ((uint64_t)16 << 20)
#define MAX_STATE ((size_t)1 << 16)
#define BOOT_LEN 40
#define TRIES 8 /* chosen: each needs another process in a window of us */

struct all {
    const struct sl_fetch_opts *o;
    uint64_t done, total;
    char boot[BOOT_LEN];
};

struct fetch {
    struct sl_job job;
    struct all *all;
    const char *repo, *sha;
    const struct sl_hub_file *f;
    char address[SL_CLIENT_URL], what[SL_NAME_REPO + 200];
    char blob[SL_TREE_PATH], part[SL_TREE_PATH], state[SL_TREE_PATH];
    struct sl_lockfile lock;
    struct sl_sink sink;
    struct sl_digest digest;
    uint64_t best, synced, counted; /* bytes */
    uint64_t digested;              /* of those in the sink */
    bool bad;                       /* the blob that is there is damaged */
    bool waited, retried;
};

/* ------------------------------------------------------------ the partial */

static void read_boot(char out[BOOT_LEN])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    out[0] = 0;
    if (!f)
        return;
    if (!fgets(out, BOOT_LEN, f))
        out[0] = 0;
    out[strcspn(out, "\n")] = 0;
    fclose(f);
}

int sl_fetch_partial_dir(char out[SL_TREE_PATH], const struct sl_store *s,
                         const char *repo, struct sl_err *err)
{
    const char *root = s->root[s->i_write];
    char dir[SL_TREE_PATH];
    int rc = sl_store_repo(dir, root, repo, err);

    if (rc)
        return rc;
    if (sl_tree_device(root) == sl_tree_device(s->places->own) &&
        !sl_path_join(out, SL_TREE_PATH, s->places->own, "partial", NULL) &&
        !sl_tree_make(out, NULL) && sl_tree_can_write(out))
        return 0;
    return sl_path_join(out, SL_TREE_PATH, dir, SL_FETCH_HIDDEN, err);
}

static int part_path(char out[SL_TREE_PATH], const struct sl_store *s,
                     const char *repo, const char *digest, const char *end,
                     struct sl_err *err)
{
    char dir[SL_TREE_PATH], name[SL_DIGEST_HEX + 64];
    int rc = sl_fetch_partial_dir(dir, s, repo, err);

    snprintf(name, sizeof(name), "%s%s", digest, end);
    return rc ? rc : sl_path_join(out, SL_TREE_PATH, dir, name, err);
}

uint64_t sl_fetch_partial(const struct sl_store *s, const char *repo,
                          const struct sl_hub_file *f, uint64_t *reserved)
{
    char path[SL_TREE_PATH];
    struct sl_stat st;

    if (reserved)
        *reserved = 0;
    if (part_path(path, s, repo, f->digest, ".part", NULL) ||
        !sl_tree_stat(&st, path, false) || st.kind != SL_FILE_REGULAR ||
        st.size > f->size)
        return 0;
    if (reserved && st.held > st.size)
        *reserved = sl_min(st.held, f->size) - sl_min(st.size, f->size);
    return st.size;
}

void sl_fetch_forget(const struct sl_store *s, const char *repo,
                     const struct sl_hub_file *f)
{
    char path[SL_TREE_PATH];

    if (sl_fetch_partial(s, repo, f, NULL) != f->size || f->size == 0)
        return;
    if (!part_path(path, s, repo, f->digest, ".part", NULL))
        (void)sl_tree_unlink(path, NULL);
    if (!part_path(path, s, repo, f->digest, ".json", NULL))
        (void)sl_tree_unlink(path, NULL);
}

static void write_state(struct fetch *x)
{
    json_t *j =
        json_pack("{s:s, s:I, s:I, s:s, s:I}", "digest", x->f->digest, "size",
                  (json_int_t)x->f->size, "bytes_ok", (json_int_t)x->synced,
                  "boot", x->all->boot, "pid", (json_int_t)getpid());
    char *text = j ? json_dumps(j, 0) : NULL;

    /* Without it the download starts again after a crash of the machine. */
    if (text)
        (void)sl_file_write(x->state, text, strlen(text), NULL);
    free(text); /* jansson's own */
    json_decref(j);
}

/* How much of a partial file of `len` bytes counts; *alive when its process
 * seems to be another one that lives. */
static uint64_t trusted(const struct fetch *x, uint64_t len, bool *alive)
{
    const char *boot;
    json_t *j = NULL;
    json_int_t pid, ok;

    *alive = false;
    if (sl_json_load(&j, x->state, MAX_STATE, NULL))
        return 0;
    boot = json_string_value(json_object_get(j, "boot"));
    pid = json_integer_value(json_object_get(j, "pid"));
    ok = json_integer_value(json_object_get(j, "bytes_ok"));
    if (boot && !strcmp(boot, x->all->boot))
        *alive = pid != getpid() && sl_lockfile_lives(pid);
    else
        len = ok > 0 && (uint64_t)ok < len ? (uint64_t)ok : 0;
    json_decref(j);
    return len;
}

static int new_digest(struct fetch *x, struct sl_err *err)
{
    enum sl_digest_kind kind = SL_DIGEST_SHA256;

    (void)sl_digest_kind(&kind, x->f->digest);
    sl_digest_deinit(&x->digest);
    x->digested = 0;
    return sl_digest_init(&x->digest, kind, x->f->size, err);
}

/* Start again from nothing. */
static int from_zero(struct fetch *x, struct sl_err *err)
{
    int rc = sl_sink_cut(&x->sink, 0, err);

    x->synced = 0;
    return rc ? rc : new_digest(x, err);
}

/* Digest what the partial file holds, a part of it; SL_JOB_SOON: there is more.
 */
static int digest_prefix(struct fetch *x, struct sl_err *err)
{
    uint64_t end = sl_min(x->sink.len, x->digested + TURN_BYTES);
    char *p = NULL;
    int rc = 0;

    if (!x->digest.ctx)
        rc = new_digest(x, err);
    if (!rc && x->digested < end)
        rc = sl_mem_alloc(&p, HASH_BYTES, 1, "digesting", err);
    while (!rc && x->digested < end) {
        size_t n = sl_min(HASH_BYTES, (size_t)(end - x->digested));

        rc = sl_sink_read(&x->sink, x->digested, p, n, err);
        if (!rc)
            sl_digest_add(&x->digest, p, n);
        x->digested += n;
    }
    sl_mem_free(p);
    return rc ? rc : x->digested < x->sink.len ? SL_JOB_SOON : 0;
}

/* Open the partial file, and hold it. What was given its name, or collected,
 * between the two is not it any more. */
static int open_held(struct fetch *x, enum sl_lock_got *got, struct sl_err *err)
{
    for (int i = 0; i < TRIES; i++) {
        int rc = sl_sink_open(&x->sink, x->part, err);

        if (rc)
            return rc;
        *got = sl_lockfile_try_fd(x->sink.fd);
        if (*got != SL_LOCK_TAKEN || sl_sink_is_there(&x->sink))
            return 0;
        sl_sink_close(&x->sink);
    }
    return sl_fail(err, SL_EBUSY,
                   "other processes remove '%.300s' while it is opened; try "
                   "again",
                   x->part);
}

/* Names that nobody else has, for the partial file and its state. */
static int name_own(struct fetch *x, struct sl_err *err)
{
    const struct sl_store *s = x->all->o->store;
    unsigned long long n = sl_machine_random();
    char end[40];
    int rc;

    snprintf(end, sizeof(end), ".%016llx.part", n);
    rc = part_path(x->part, s, x->repo, x->f->digest, end, err);
    snprintf(end, sizeof(end), ".%016llx.json", n);
    return rc ? rc : part_path(x->state, s, x->repo, x->f->digest, end, err);
}

static int open_part(struct fetch *x, struct sl_err *err)
{
    const struct sl_store *s = x->all->o->store;
    enum sl_lock_got got = SL_LOCK_TAKEN;
    char dir[SL_TREE_PATH];
    uint64_t keep = 0;
    bool alive;
    int rc = sl_fetch_partial_dir(dir, s, x->repo, err);

    if (!rc)
        rc = sl_tree_make(dir, err);
    if (!rc)
        rc = part_path(x->part, s, x->repo, x->f->digest, ".part", err);
    if (!rc)
        rc = part_path(x->state, s, x->repo, x->f->digest, ".json", err);
    if (!rc)
        rc = open_held(x, &got, err);
    if (rc)
        return rc;
    keep = trusted(x, UINT64_MAX, &alive);
    if (got == SL_LOCK_HELD || (got == SL_LOCK_VAIN && alive)) {
        sl_sink_close(&x->sink);
        rc = name_own(x, err);
        if (!rc)
            rc = open_held(x, &got, err);
    }
    if (!rc && (x->sink.len > keep || x->sink.len > x->f->size))
        rc = sl_sink_cut(&x->sink, x->sink.len > x->f->size ? 0 : keep, err);
    x->synced = x->sink.fd >= 0 ? x->sink.len : 0;
    if (!rc)
        write_state(x);
    return rc;
}

/* ------------------------------------------------------------ the file */

static void step(struct fetch *x, bool finished)
{
    const struct sl_fetch_opts *o = x->all->o;
    struct sl_fetch_step s = {.path = x->f->path,
                              .done = finished ? x->f->size : x->sink.len,
                              .total = x->f->size,
                              .all_total = x->all->total,
                              .finished = finished};

    /* What was cut off again counts less than before: done may fall. */
    x->all->done += s.done - x->counted;
    x->counted = s.done;
    s.all_done = x->all->done;
    if (o->step)
        o->step(o->ctx, &s);
}

static void close_all(struct fetch *x)
{
    sl_digest_deinit(&x->digest);
    sl_sink_close(&x->sink);
    sl_lockfile_give(&x->lock);
}

static int link_it(struct fetch *x, struct sl_err *err)
{
    const struct sl_store *s = x->all->o->store;

    return sl_store_link(s->root[s->i_write], x->repo, x->sha, x->f->path,
                         x->blob, err);
}

/* Step 4: 0 right, SL_JOB_AGAIN try from zero, negative: give up. */
static int judge(struct fetch *x, struct sl_err *err)
{
    char hex[SL_DIGEST_HEX + 1];
    int rc;

    if (x->sink.len < x->f->size)
        return SL_JOB_AGAIN;
    sl_digest_take(&x->digest, hex);
    if (!strcmp(hex, x->f->digest))
        return 0;
    if (!x->retried) {
        x->retried = true;
        rc = from_zero(x, err);
        return rc ? rc : SL_JOB_AGAIN;
    }
    (void)sl_tree_unlink(x->part, NULL);
    (void)sl_tree_unlink(x->state, NULL);
    return sl_fail(err, SL_EFORMAT,
                   "%s: the bytes that came have the digest %.12s and should "
                   "have %.12s, twice; the hub or the line to it is damaged",
                   x->what, hex, x->f->digest);
}

/* Step 5 and 6. */
static int finish(struct fetch *x, struct sl_err *err)
{
    char dir[SL_TREE_PATH];
    bool same = false;
    int rc = sl_sink_finish(&x->sink, err);

    if (!rc && x->bad)
        rc = sl_tree_rename(x->part, x->blob, err);
    else if (!rc)
        rc = sl_tree_adopt(x->part, x->blob, err);
    /* Where no lock holds, another process may have used the same partial file
     * and given it its name. */
    if (rc < 0 && sl_file_kind(x->part) == SL_FILE_NONE &&
        sl_file_kind(x->blob) == SL_FILE_REGULAR)
        rc = 1;
    if (rc == 1) { /* somebody else was faster */
        rc = sl_store_verify(x->blob, x->f, &same, err);
        if (!rc && !same)
            rc = sl_tree_rename(x->part, x->blob, err);
        else if (!rc)
            rc = sl_tree_unlink(x->part, err);
    }
    if (rc)
        return rc;
    (void)sl_tree_unlink(x->state, NULL);
    snprintf(dir, sizeof(dir), "%s", x->blob);
    *strrchr(dir, '/') = 0;
    rc = sl_tree_sync(dir, err);
    if (!rc)
        rc = link_it(x, err);
    if (rc)
        return rc;
    step(x, true);
    close_all(x);
    return 0;
}

/* ---------------------------------------------------------- call-backs */

static int take_lock(struct fetch *x, struct sl_err *err)
{
    const struct sl_store *s = x->all->o->store;
    char folder[SL_NAME_FOLDER], dir[SL_TREE_PATH], rel[SL_NAME_FOLDER + 16],
        path[SL_TREE_PATH], name[SL_DIGEST_HEX + 8];
    int rc;

    if (x->lock.fd >= 0)
        return 0;
    sl_name_folder(folder, x->repo);
    snprintf(rel, sizeof(rel), ".locks/%s", folder);
    snprintf(name, sizeof(name), "%s.lock", x->f->digest);
    rc = sl_path_join(dir, sizeof(dir), s->root[s->i_write], rel, err);
    if (!rc)
        rc = sl_tree_make(dir, err);
    if (!rc)
        rc = sl_path_join(path, sizeof(path), dir, name, err);
    if (!rc)
        rc = sl_lockfile_take(&x->lock, path, SL_LOCK_ALONE, 0, x->what, NULL,
                              err);
    if (rc != SL_EBUSY)
        return rc;
    if (!x->waited && x->all->o->note)
        x->all->o->note(x->all->o->ctx, err->msg);
    x->waited = true;
    return SL_JOB_AGAIN;
}

/* Is the whole file there by now? */
static int look_again(struct fetch *x, struct sl_err *err)
{
    bool same = false;
    struct sl_stat st;
    int rc;

    if (x->bad || !sl_tree_stat(&st, x->blob, false))
        return 0;
    rc = sl_store_verify(x->blob, x->f, &same, err);
    if (rc || !same) {
        x->bad = true;
        return 0;
    }
    rc = link_it(x, err);
    if (rc)
        return rc;
    step(x, true);
    close_all(x);
    return SL_JOB_HAVE;
}

static int on_start(struct sl_job *j, struct sl_err *err)
{
    struct fetch *x = j->ctx;
    int rc = take_lock(x, err);

    if (rc)
        return rc;
    if (x->sink.fd < 0) {
        rc = look_again(x, err);
        if (rc)
            return rc;
        rc = open_part(x, err);
    }
    if (!rc)
        rc = digest_prefix(x, err);
    if (rc)
        return rc;
    if (x->sink.len == x->f->size) {
        rc = judge(x, err);
        if (!rc) {
            rc = finish(x, err);
            return rc ? rc : SL_JOB_HAVE;
        }
        rc = rc == SL_JOB_AGAIN ? 0 : rc;
    }
    if (!rc)
        rc = sl_sink_reserve(&x->sink, x->f->size, err);
    if (rc)
        return rc;
    if (x->sink.len > x->best) {
        x->best = x->sink.len;
        j->tries = 0;
    }
    j->from = x->sink.len;
    return 0;
}

static int differs(struct fetch *x, const char *what, const char *got,
                   struct sl_err *err)
{
    char text[100];

    sl_hub_plain(text, sizeof(text), got);
    return sl_fail(err, SL_EFORMAT,
                   "%s: the hub gives another %s than in its listing of the "
                   "same commit (%s); it is refused",
                   x->what, what, text);
}

static bool is_etag(const char *s)
{
    size_t n = strlen(s);

    return n <= 128 &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                     "0123456789._-") == n;
}

/* What the hub itself says; a storage host behind it has tags of its own. */
static int check_hub(struct fetch *x, struct sl_err *err)
{
    const struct sl_client_head *in = &x->job.in;
    enum sl_digest_kind kind;

    if (*in->etag && !is_etag(in->etag))
        return differs(x, "tag", in->etag, err);
    if (*in->commit && strcmp(in->commit, x->sha))
        return differs(x, "commit", in->commit, err);
    if (in->linked_size >= 0 && (uint64_t)in->linked_size != x->f->size)
        return differs(x, "size", "X-Linked-Size", err);
    if (sl_digest_kind(&kind, in->etag) &&
        strlen(in->etag) == strlen(x->f->digest) &&
        strcmp(in->etag, x->f->digest) && (in->linked || x->job.hops == 0))
        return differs(x, "digest", in->etag, err);
    return 0;
}

static int on_hop(struct sl_job *j, struct sl_err *err)
{
    /* Counted before it is followed: 1 is the hub's own answer. */
    return j->hops == 1 && *j->in.commit ? check_hub(j->ctx, err) : 0;
}

/* "bytes 5-9/10" -> 5, 10; false for anything else. */
static bool parse_range(const char *s, uint64_t *from, uint64_t *total)
{
    const char *dash = strchr(s, '-'), *slash = strchr(s, '/');
    int64_t a, b;

    if (strncmp(s, "bytes ", 6) || !dash || !slash || slash < dash ||
        sl_num_i64(&a, s + 6, (size_t)(dash - s) - 6, 0, INT64_MAX, "", NULL) ||
        sl_num_i64(&b, slash + 1, strlen(slash + 1), 0, INT64_MAX, "", NULL))
        return false;
    *from = (uint64_t)a;
    *total = (uint64_t)b;
    return true;
}

static int on_head(struct sl_job *j, struct sl_err *err)
{
    struct fetch *x = j->ctx;
    uint64_t from, total;
    int rc = j->hops == 0 ? check_hub(x, err) : 0;

    if (rc)
        return rc;
    if (*j->in.encoding && strcmp(j->in.encoding, "identity"))
        return differs(x, "encoding", j->in.encoding, err);
    if (j->status == 206) {
        if (!parse_range(j->in.range, &from, &total) || from != x->sink.len ||
            total != x->f->size)
            return differs(x, "range", j->in.range, err);
    } else if (x->sink.len > 0) {
        rc = from_zero(x, err); /* the whole of it, again */
    }
    if (!rc && j->in.length >= 0 &&
        (uint64_t)j->in.length > x->f->size - x->sink.len)
        rc = differs(x, "length", "longer", err);
    return rc;
}

static int on_body(struct sl_job *j, const char *p, size_t n,
                   struct sl_err *err)
{
    struct fetch *x = j->ctx;
    int rc;

    if (n > x->f->size - x->sink.len)
        return differs(x, "length", "longer", err);
    rc = sl_sink_add(&x->sink, p, n, err);
    if (rc)
        return rc;
    sl_digest_add(&x->digest, p, n);
    x->digested = x->sink.len;
    if (x->sink.len - x->synced >= SYNC_BYTES) {
        rc = sl_sink_sync(&x->sink, err);
        x->synced = x->sink.len;
        if (!rc)
            write_state(x);
    }
    step(x, false);
    return rc;
}

static int on_refused(struct sl_job *j, struct sl_err *err)
{
    struct fetch *x = j->ctx;
    int rc;

    if (j->status == 416 && x->sink.len > 0 && !x->retried) {
        x->retried = true;
        rc = from_zero(x, err);
        return rc ? rc : SL_JOB_AGAIN;
    }
    if (j->status == 404 || j->status == 410)
        return sl_fail(err, SL_EFORMAT,
                       "%s: the hub lists this file and does not have it (%ld)",
                       x->what, j->status);
    return sl_hub_refused(j, x->repo, err);
}

static int on_done(struct sl_job *j, struct sl_err *err)
{
    struct fetch *x = j->ctx;
    int rc = judge(x, err);

    return rc ? rc : finish(x, err);
}

/* ----------------------------------------------------------------- run */

static int init(struct fetch *x, struct all *all, const char *repo,
                const char *sha, const struct sl_hub_file *f, bool bad,
                struct sl_err *err)
{
    const struct sl_store *s = all->o->store;
    char dir[SL_TREE_PATH], rel[SL_DIGEST_HEX + 16];
    struct sl_buf b;
    int rc;

    x->all = all;
    x->repo = repo;
    x->sha = sha;
    x->f = f;
    x->bad = bad;
    x->lock.fd = x->sink.fd = -1;
    snprintf(x->what, sizeof(x->what), "%s: %.180s", repo, f->path);
    sl_buf_init(&b, sizeof(x->address) - 1);
    sl_buf_fmt(&b, "/%s/resolve/%s/", repo, sha);
    sl_address_encode(&b, f->path, true);
    rc = sl_buf_check(&b, f->path, err);
    if (!rc)
        snprintf(x->address, sizeof(x->address), "%s", b.p);
    sl_buf_deinit(&b);
    if (!rc)
        rc = sl_store_repo(dir, s->root[s->i_write], repo, err);
    snprintf(rel, sizeof(rel), "blobs/%s", f->digest);
    if (!rc)
        rc = sl_path_join(x->blob, sizeof(x->blob), dir, "blobs", err);
    if (!rc)
        rc = sl_tree_make(x->blob, err);
    if (!rc)
        rc = sl_path_join(x->blob, sizeof(x->blob), dir, rel, err);
    x->job = (struct sl_job){.path = x->address,
                             .what = x->what,
                             .ctx = x,
                             .start = on_start,
                             .hop = on_hop,
                             .head = on_head,
                             .body = on_body,
                             .refused = on_refused,
                             .done = on_done};
    return rc;
}

/* At most BATCH files. */
static int run_batch(struct all *all, const char *repo, const char *sha,
                     const struct sl_hub_file *const *file, const bool *bad,
                     size_t n, struct sl_err *err)
{
    struct sl_job *job[BATCH];
    struct fetch *x = NULL;
    size_t n_init = 0;
    int rc = sl_mem_alloc(&x, n, sizeof(*x), "downloads", err);

    while (!rc && n_init < n) {
        rc = init(&x[n_init], all, repo, sha, file[n_init], bad[n_init], err);
        job[n_init] = &x[n_init].job;
        n_init++;
    }
    if (!rc)
        rc = sl_client_run(all->o->http, job, n, all->o->n_parallel, err);
    for (size_t i = 0; i < n_init; i++)
        close_all(&x[i]);
    sl_mem_free(x);
    return rc;
}

int sl_fetch_run(const struct sl_fetch_opts *o, const char *repo,
                 const char *sha, const struct sl_hub_file *const *file,
                 const bool *bad, size_t n, struct sl_err *err)
{
    struct all all = {.o = o};
    int rc = 0;

    read_boot(all.boot);
    for (size_t i = 0; i < n; i++)
        all.total += file[i]->size;
    for (size_t i = 0; !rc && i < n; i += BATCH)
        rc = run_batch(&all, repo, sha, file + i, bad + i, sl_min(BATCH, n - i),
                       err);
    return rc;
}
