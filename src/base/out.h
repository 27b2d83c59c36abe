/* base/out.h - a file that is written so that others see all or nothing
 *
 * Room for all of it is asked for at the start, so that a full disk is found
 * before the work and not after it. The bytes go to a file without a name, of
 * which a process that is killed leaves nothing; closing without a failure
 * syncs it and gives it its name. Where the file system has no such files they
 * go to PATH.RANDOM.tmp, and the next process that writes PATH, unless it is a
 * spare one, removes what a killed one left: a lock tells a leftover from a
 * file that somebody is writing.
 */
#ifndef SL_BASE_OUT_H
#define SL_BASE_OUT_H

#include "base/err.h"

struct sl_out {
    char *path, *tmp; /* owned */
    int fd;
    bool open;
    bool nameless; /* there is nothing at tmp yet */
    bool spare;    /* see sl_out_open_spare */
    bool secret;   /* see sl_out_open_secret */
    uint64_t bytes;
};

/* A file of `bytes` bytes, zero until they are written. SL_ENOSPACE when there
 * is no room. The caller ends it with sl_out_close, also after a failure. */
int sl_out_open(struct sl_out *o, const char *path, uint64_t bytes,
                struct sl_err *err);

/* The same for what can be made again, and is checked when it is read: nobody
 * waits until it is on the disk, and only this user may read it. Any number may
 * write the same file at once, on any machine: the last one gives it its name.
 */
int sl_out_open_spare(struct sl_out *o, const char *path, uint64_t bytes,
                      struct sl_err *err);

/* The same as sl_out_open with 0 bytes, and only this user may read it. */
int sl_out_open_secret(struct sl_out *o, const char *path, struct sl_err *err);

/* Once, for a file that was opened with 0 bytes: now it is known how many. */
int sl_out_size(struct sl_out *o, uint64_t bytes, struct sl_err *err);

/* It will have this name. */
int sl_out_rename(struct sl_out *o, const char *path, struct sl_err *err);

/* n bytes at `at`; any thread, also several at once. */
int sl_out_at(const struct sl_out *o, uint64_t at, const void *p, size_t n,
              struct sl_err *err);

/* The whole file in memory, to be written there (its room was taken, so a full
 * disk cannot end the process), until sl_out_unmap. */
int sl_out_map(const struct sl_out *o, unsigned char **p, struct sl_err *err);
void sl_out_unmap(const struct sl_out *o, unsigned char *p);

/* rc = 0: keep the file; otherwise remove it. Returns rc, or what failed now.
 * Does nothing for one that was never opened. */
int sl_out_close(struct sl_out *o, int rc, struct sl_err *err);

/* Was this temporary of such a file left by a process that ended? Then it is
 * removed if `remove`. */
bool sl_out_left(const char *path, bool remove);

/* Remove what killed ones left of this file, as opening it does. */
void sl_out_sweep(const char *path);

#endif
