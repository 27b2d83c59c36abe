/* base/reader.h - a file that is read in parts, into memory of the caller's
 *
 * Unlike a map (file.h), a file that is cut while it is read is an error here
 * and not the end of the process. One thread at a time.
 */
#ifndef SL_BASE_READER_H
#define SL_BASE_READER_H

#include "base/err.h"

struct sl_reader {
    int fd; /* -1 when closed */
    uint64_t bytes;
    const char *path; /* borrowed until close */
};

/* SL_ENOTFOUND when there is none; SL_EARG for what is no regular file. */
int sl_reader_open(struct sl_reader *r, const char *path, struct sl_err *err);

/* n bytes at `at`, all of them. */
int sl_reader_read(const struct sl_reader *r, uint64_t at, void *p, size_t n,
                   struct sl_err *err);
void sl_reader_close(struct sl_reader *r);

#endif
