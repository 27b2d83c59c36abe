/* base/file.h - files and maps
 *
 * errno and system calls stay behind this header (rule E7). Any thread.
 */
#ifndef SL_BASE_FILE_H
#define SL_BASE_FILE_H

#include "base/err.h"

/* A whole file, mapped read-only. */
struct sl_map {
    const unsigned char *p; /* NULL for an empty file */
    size_t len;
};

int sl_map_open(struct sl_map *m, const char *path, struct sl_err *err);
void sl_map_close(struct sl_map *m);

/* Advice: these bytes are not needed again (their memory may be given back),
 * or will be soon. Out-of-range bytes are ignored. */
void sl_map_drop(const struct sl_map *m, size_t offset, size_t len);
void sl_map_want(const struct sl_map *m, size_t offset, size_t len);

/* A whole file of at most max bytes, with a zero behind it; the caller ends
 * it with sl_file_free. A larger file is SL_EFORMAT. */
int sl_file_read(char **out, size_t *len, const char *path, size_t max,
                 struct sl_err *err);
void sl_file_free(char *text);

/* Write a whole file so that others see all of it or nothing: a temporary
 * beside it, PATH.RANDOM.tmp, fsync, rename. Any number may write the same file
 * at once: the last one gives it its name. */
int sl_file_write(const char *path, const void *p, size_t len,
                  struct sl_err *err);

enum sl_file_kind { SL_FILE_NONE, SL_FILE_REGULAR, SL_FILE_DIR, SL_FILE_OTHER };
enum sl_file_kind sl_file_kind(const char *path);

/* Call fn for every name in a folder but "." and "..", in the order of the file
 * system. */
typedef void sl_dir_fn(void *ctx, const char *name);
int sl_dir_each(const char *dir, sl_dir_fn *fn, void *ctx, struct sl_err *err);

/* "dir/name" into out; SL_EARG when it does not fit. */
int sl_path_join(char *out, size_t cap, const char *dir, const char *name,
                 struct sl_err *err);

/* What tells a file from others and from itself when it was changed. False when
 * there is none. */
struct sl_file_stamp {
    uint64_t dev, inode, size;
    int64_t mtime_ns;
};
bool sl_file_stamp(struct sl_file_stamp *out, const char *path);

/* Say that the file was changed at this time, in nanoseconds of sl_file_now;
 * false when it cannot be told to be there. That it may not be changed is no
 * failure. */
bool sl_file_touch(const char *path, int64_t mtime_ns);
int64_t sl_file_now(void); /* the clock of mtime_ns */

/* The folder and all above it; fine when it is there. */
int sl_dir_make(const char *dir, struct sl_err *err);

/* True when it is not there any more, or was not. */
bool sl_file_remove(const char *path);

/* Wait until no other process has this lock: dir/.NAME.lock. Where there are no
 * locks, or the folder is not ours, there is none; returns what
 * sl_file_unlock, which removes the file, takes. */
int sl_file_lock(const char *dir, const char *name);
void sl_file_unlock(int lock, const char *dir, const char *name);

/* The folder of the program that runs, without a slash at its end. */
int sl_path_self(char *out, size_t cap, struct sl_err *err);

#endif
