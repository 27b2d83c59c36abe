/* tests/help/st_out.c - safetensors files and scratch folders; see st_out.h */
#include "st_out.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

static void must(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "tests: %s failed\n", what);
    exit(99);
}

void st_begin(struct st_out *o)
{
    *o = (struct st_out){0};
    o->head = open_memstream(&o->head_p, &o->head_n);
    o->data = open_memstream(&o->data_p, &o->data_n);
    must(o->head && o->data, "open_memstream");
}

void st_add(struct st_out *o, const char *name, const char *dtype,
            unsigned n_dim, const size_t *dim, const void *data, size_t bytes)
{
    size_t at;

    fflush(o->data);
    at = o->data_n;
    fprintf(o->head, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
            o->n++ ? "," : "{", name, dtype);
    for (unsigned i = 0; i < n_dim; i++)
        fprintf(o->head, "%s%zu", i ? "," : "", dim[i]);
    fprintf(o->head, "],\"data_offsets\":[%zu,%zu]}", at, at + bytes);
    must(fwrite(data, 1, bytes, o->data) == bytes, "fwrite");
}

void st_end(struct st_out *o, const char *dir, const char *file)
{
    FILE *f = fopen(scratch_path(dir, file), "wb");
    unsigned char len[8];

    fputs(o->n ? "}" : "{}", o->head);
    fclose(o->head);
    fclose(o->data);
    for (int i = 0; i < 8; i++)
        len[i] = (unsigned char)(o->head_n >> 8 * i);
    must(f && fwrite(len, 1, 8, f) == 8 &&
             fwrite(o->head_p, 1, o->head_n, f) == o->head_n &&
             fwrite(o->data_p, 1, o->data_n, f) == o->data_n && !fclose(f),
         "writing a file");
    free(o->head_p);
    free(o->data_p);
    *o = (struct st_out){0};
}

char *scratch_make(void)
{
    char *dir = strdup("build/scratch-XXXXXX");

    (void)mkdir("build", 0777);
    must(dir && mkdtemp(dir), "mkdtemp");
    return dir;
}

void scratch_remove(char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *e;

    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.')
            (void)unlink(scratch_path(dir, e->d_name));
    if (d)
        closedir(d);
    (void)rmdir(dir);
    free(dir);
}

const char *scratch_path(const char *dir, const char *file)
{
    static char path[4][600];
    static unsigned next;
    char *p = path[next++ % 4];

    snprintf(p, sizeof(path[0]), "%s/%s", dir, file);
    return p;
}

void scratch_link(const char *dir, const char *name, const char *from)
{
    char cwd[300], target[600];
    const char *path = scratch_path(dir, name);

    (void)mkdir("build", 0777);
    (void)mkdir(dir, 0777);
    (void)unlink(path);
    if (!from)
        return;
    must(getcwd(cwd, sizeof(cwd)) != NULL, "getcwd");
    snprintf(target, sizeof(target), "%s/tests/golden/%s", cwd, from);
    must(!symlink(target, path), "symlink");
}

void scratch_write(const char *dir, const char *file, const void *p, size_t n)
{
    FILE *f = fopen(scratch_path(dir, file), "wb");

    must(f && fwrite(p, 1, n, f) == n && !fclose(f), "writing a file");
}
