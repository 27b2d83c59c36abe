/* state/disk.h - the folder that kept prefixes lie in
 *
 * One file per record (wire.h), named after its content, so that what two
 * prefixes share is there once, and so that any number of servers can use the
 * folder at once: a file is never changed, it appears whole or not at all, and
 * whoever misses one reads the tokens again.
 *
 *   MODEL-KEY.page         MODEL: 16 hexadecimal digits of the model's digest,
 *   MODEL-KEY-N.state      KEY: 64 of the record's key; N: tokens
 *
 * The time of change of a file is when it was used last. All files that look
 * like these count against the limit, also those of other models, and the one
 * that was used least lately is removed first. Of a prefix the beginning counts
 * as used last, for without it the rest is of no use.
 *
 * Another server's files are seen when the folder is listed: at the start and
 * before something is removed, which is at the latest when a sixteenth of the
 * limit was written. So several servers pass the limit by less than that each.
 *
 * A file that is being written is called NAME.RANDOM.tmp and counts against the
 * limit, too. Whether its process lives nobody can tell from another machine or
 * container, so what was not written to for ten minutes is left over and
 * removed. If its process was only stopped, it fails to give it its name.
 *
 * One thread at a time.
 */
#ifndef SL_STATE_DISK_H
#define SL_STATE_DISK_H

#include "state/wire.h"

#define SL_DISK_ID 16 /* digits of the model in a name */

struct sl_disk {
    char *dir; /* owned */
    uint8_t model[SL_SHA256];
    char id[SL_DISK_ID + 1];
    uint64_t max_bytes, bytes, fresh_bytes; /* all; written since the listing */
    uint32_t n_file;
    uint64_t n_evict;
};

/* A state of this model was found, or one is gone. */
typedef void sl_disk_fn(void *ctx, const uint8_t key[SL_SHA256],
                        uint32_t n_tok);

/* The folder is made when it is absent. What is left over is removed, with a
 * line in the log. A folder that cannot be made or written is no error: it is
 * read from, and the log says so. */
int sl_disk_open(struct sl_disk *d, const char *dir, uint64_t max_bytes,
                 const uint8_t model[SL_SHA256], sl_disk_fn *found, void *ctx,
                 struct sl_err *err);
void sl_disk_close(struct sl_disk *d);

/* What the records of a prefix may come to with their heads, so that the last
 * one does not remove the first. */
uint64_t sl_disk_most(const struct sl_disk *d);

/* Is the record there? Then it counts as used at `used_ns`. */
bool sl_disk_use(const struct sl_disk *d, const struct sl_wire *w,
                 int64_t used_ns);

/* Write a record; model is filled in. Others are removed when it would pass the
 * limit, and `gone` is told of states among them; SL_ENOSPACE when not enough
 * can be removed. */
int sl_disk_write(struct sl_disk *d, struct sl_wire *w,
                  const struct sl_wire_part *part, uint32_t n_part,
                  int64_t used_ns, sl_disk_fn *gone, void *ctx,
                  struct sl_err *err);

/* Read a record into `part`; w says which, from is filled in. SL_ENOTFOUND when
 * it is not there (SL_EIO when it cannot be read now), SL_EFORMAT when it is damaged or of something else: then the
 * file is removed. */
int sl_disk_read(struct sl_disk *d, struct sl_wire *w,
                 const struct sl_wire_part *part, uint32_t n_part,
                 struct sl_err *err);

/* A state that is of no use, because a page of it is gone. */
void sl_disk_remove(struct sl_disk *d, const struct sl_wire *w);

#endif
