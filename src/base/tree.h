/* base/tree.h - folders and links, changed so that others see all or nothing
 *
 * errno and system calls stay behind this header (rule E7). Any thread.
 *
 * Functions that end in _below take a path from outside: every step from
 * `root` must be a real folder. A link on the way is refused, so that nothing
 * is written outside `root`.
 */
#ifndef SL_BASE_TREE_H
#define SL_BASE_TREE_H

#include "base/file.h"

#define SL_TREE_PATH 4096

struct sl_stat {
    enum sl_file_kind kind; /* SL_FILE_OTHER for a link that is not followed */
    bool link;
    uint64_t size; /* bytes */
    uint64_t held; /* bytes on the disk; more when room was reserved */
    int64_t mtime_ns;
    uint64_t inode, dev;
};

/* False when there is nothing. `follow`: what a link leads to. */
bool sl_tree_stat(struct sl_stat *out, const char *path, bool follow);

/* The folder and all above it; fine when it is there. */
int sl_tree_make(const char *dir, struct sl_err *err);
bool sl_tree_can_write(const char *dir);
bool sl_tree_can_run(const char *path);

/* The path with every link followed. */
int sl_tree_real(char out[SL_TREE_PATH], const char *path, struct sl_err *err);

/* A symbolic link at root/rel that says `target`, over whatever was there. */
int sl_tree_link_below(const char *root, const char *rel, const char *target,
                       struct sl_err *err);

/* The file `from` under the name root/rel too: a hard link, or a copy where
 * that cannot be. Fails when something is there. */
int sl_tree_share_below(const char *root, const char *rel, const char *from,
                        unsigned mode, struct sl_err *err);

/* The same, and always a copy. */
int sl_tree_copy_below(const char *root, const char *rel, const char *from,
                       unsigned mode, struct sl_err *err);

/* A link of one step: where it leads to. SL_ENOTFOUND when it is none. */
int sl_tree_read_link(char out[SL_TREE_PATH], const char *path,
                      struct sl_err *err);

/* Give `from` the name `to`; 1 when `to` exists already, which is left as it
 * is, and so is `from`. Both lie on one file system. */
int sl_tree_adopt(const char *from, const char *to, struct sl_err *err);

int sl_tree_rename(const char *from, const char *to, struct sl_err *err);
int sl_tree_unlink(const char *path, struct sl_err *err); /* fine if absent */

/* A folder and everything in it; links are removed, not followed. */
int sl_tree_remove(const char *dir, struct sl_err *err);
int sl_tree_rmdir(const char *dir); /* when it is empty; else nothing */

int sl_tree_sync(const char *dir, struct sl_err *err);

/* Bytes that this user may still write on the file system of `path`, or of the
 * nearest folder above it that exists. */
uint64_t sl_tree_free(const char *path);
uint64_t sl_tree_device(const char *path); /* likewise; 0 when unknown */

/* Names in a folder, sorted by bytes; end with sl_names_deinit. An absent
 * folder has none. */
struct sl_names {
    char **name; /* [n] */
    size_t n, cap;
};
#define SL_NAMES_MAX 1000000 /* of one folder; more is refused */
int sl_names_list(struct sl_names *out, const char *dir, struct sl_err *err);
/* A copy of one more, at the end. */
int sl_names_add(struct sl_names *l, const char *name, struct sl_err *err);
void sl_names_deinit(struct sl_names *l);

#endif
