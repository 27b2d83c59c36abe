/* tests/help/st_out.h - write safetensors files and scratch folders, for tests
 *
 * Any failure of the system ends the program: it is no result of a test.
 */
#ifndef ST_OUT_H
#define ST_OUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct st_out {
    FILE *head, *data; /* in memory */
    char *head_p, *data_p;
    size_t head_n, data_n;
    size_t n;
};

void st_begin(struct st_out *o);
void st_add(struct st_out *o, const char *name, const char *dtype,
            unsigned n_dim, const size_t *dim, const void *data, size_t bytes);
void st_end(struct st_out *o, const char *dir, const char *file);

/* A new empty folder below build/; and its end, with the files in it. */
char *scratch_make(void);
void scratch_remove(char *dir);

/* "dir/file", valid until the fourth call from now. */
const char *scratch_path(const char *dir, const char *file);
void scratch_write(const char *dir, const char *file, const void *p, size_t n);

/* "dir/name" becomes a link to tests/golden/`from`, or is gone: from NULL.
 * The folder is made when it is not there. */
void scratch_link(const char *dir, const char *name, const char *from);

#endif
