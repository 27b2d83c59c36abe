/* state/shelf.h - kept prefixes on a disk, and the thread that reads and writes
 *
 * Whatever the prefix cache keeps is also written to a folder (disk.h), behind
 * the back of the engine thread; what the folder holds of a new prompt is read
 * back into pages and a state, which then are a kept prefix like any other.
 * Because a file carries a digest and its name depends on the model and on
 * every token before, what is read back is what was computed, to the bit, or
 * nothing.
 *
 *   engine thread                        I/O thread
 *     sl_shelf_put     -- queue -->        page by page, then the state
 *     sl_shelf_forget  removes it, or waits for the file that is being written
 *     sl_shelf_load    -- one place -->    state and pages into a sequence
 *     sl_shelf_stop_load                   not the next file
 *     sl_shelf_loaded  <-- wake --         done
 *
 * A kept prefix stands still, so it is read without a copy and without a lock
 * while it is in the queue, and a sequence that is being loaded belongs to the
 * I/O thread. Loads go first: what is being written goes back into the queue,
 * and finds its files when it is its turn again. The engine thread waits only
 * when it has to give up the very prefix that is being written, or needs the
 * pages of a load now, and then for one file.
 *
 * The queue is short. When the disk is slower than the model, the oldest in the
 * queue is dropped: its pages are mostly also those of later ones. The end waits
 * for the queue, but not for long.
 */
#ifndef SL_STATE_SHELF_H
#define SL_STATE_SHELF_H

#include "state/disk.h"
#include "state/seq.h"

struct sl_shelf;

struct sl_shelf_opts {
    const char *dir;
    uint64_t max_bytes;
    uint8_t
        model[SL_SHA256]; /* of whatever keys, values and states depend on */
    /* From the I/O thread, without a lock: a load has ended. */
    void (*wake)(void *ctx);
    void *wake_ctx;
    uint64_t close_ns; /* for how long sl_shelf_close goes on writing */
};

struct sl_shelf_stats {
    uint64_t n_put, n_load,
        n_tok_load;   /* written; read back, with the tokens */
    uint64_t n_drop;  /* damaged, of something else, or not written */
    uint64_t n_evict; /* files that made room */
    uint32_t n_state; /* prefixes that can be read back */
    uint64_t bytes;   /* of all files, those of other models too */
};

/* `mem` is borrowed. What cannot be read or written is told in the log; this
 * fails for want of memory or threads only. */
int sl_shelf_open(struct sl_shelf **out, struct sl_memory *mem,
                  const struct sl_shelf_opts *opts, struct sl_err *err);

/* Writes what is in the queue, for up to close_ns and one file more, and ends
 * the thread. A sequence that was being loaded is closed. The engine thread has ended, or is the one that calls. */
void sl_shelf_close(struct sl_shelf **s);

/* Write what q has read, tok[0..q->n_tok), some time. Both stand still until
 * sl_shelf_forget, or until they were written. */
void sl_shelf_put(struct sl_shelf *s, const struct sl_seq *q,
                  const int32_t *tok, uint64_t salt);
void sl_shelf_forget(struct sl_shelf *s, const struct sl_seq *q);

/* The one that is being written right now, for which forget would wait; NULL:
 * none. */
const struct sl_seq *sl_shelf_writing(struct sl_shelf *s);

/* How many of tok[0..n) the longest prefix on the disk has, if it has at least
 * `least`; else 0. No file is opened. */
uint32_t sl_shelf_find(struct sl_shelf *s, const int32_t *tok, uint32_t n,
                       uint32_t least, uint64_t salt);

/* Load the n tokens that sl_shelf_find told of. `q` has read some of them or
 * none, and is the shelf's from now on, also on failure. SL_EBUSY when it has
 * no room for them; one load at a time. */
int sl_shelf_load(struct sl_shelf *s, struct sl_seq *q, const int32_t *tok,
                  uint32_t n, uint64_t salt, struct sl_err *err);
bool sl_shelf_is_loading(struct sl_shelf *s);

/* It is not wanted any more; `wait` until it is not loading, which is for one
 * file. It has failed then, or was done just before. */
void sl_shelf_stop_load(struct sl_shelf *s, bool wait);

/* Once for each load, when it is not loading any more: the sequence and its tokens become the caller's (to be
 * ended with sl_seq_close and sl_mem_free). False, and *q NULL, when it could
 * not be loaded. */
bool sl_shelf_loaded(struct sl_shelf *s, struct sl_seq **q, int32_t **tok,
                     uint64_t *salt);

void sl_shelf_get_stats(struct sl_shelf *s, struct sl_shelf_stats *out);

#endif
