/* base/sink.h - a file that grows: bytes that arrive and may have to wait
 *
 * For downloads: opened where an earlier process stopped, read from the start
 * to be digested again, then added to. The length is always the number of
 * bytes that were received. One thread at a time.
 */
#ifndef SL_BASE_SINK_H
#define SL_BASE_SINK_H

#include "base/err.h"

struct sl_sink {
    int fd; /* -1 when closed */
    uint64_t len;
    uint64_t room; /* that was asked for; 0: none */
    char path[1024 + 512];
};

/* Made when absent; only this user may read it until it is finished. A link, or
 * anything that is no regular file, is refused. */
int sl_sink_open(struct sl_sink *s, const char *path, struct sl_err *err);
/* Room beyond the end is given back. A process that is killed leaves it taken,
 * which sl_tree_stat shows. */
void sl_sink_close(struct sl_sink *s);

/* Ask the file system for room up to `total` bytes, where it can say so: a full
 * disk is then found at the start. SL_ENOSPACE when there is none. */
int sl_sink_reserve(struct sl_sink *s, uint64_t total, struct sl_err *err);

int sl_sink_add(struct sl_sink *s, const void *p, size_t len,
                struct sl_err *err);
/* n bytes at `at`, all of them. */
int sl_sink_read(const struct sl_sink *s, uint64_t at, void *p, size_t n,
                 struct sl_err *err);
/* To its first `len` bytes, or fewer. A file that another process has given its
 * final name meanwhile is left as it is, and a new one is begun. */
int sl_sink_cut(struct sl_sink *s, uint64_t len, struct sl_err *err);
/* Does its path still lead to it? */
bool sl_sink_is_there(const struct sl_sink *s);
int sl_sink_sync(struct sl_sink *s, struct sl_err *err);

/* On the disk, and readable as others' files are. */
int sl_sink_finish(struct sl_sink *s, struct sl_err *err);

#endif
