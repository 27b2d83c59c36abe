/* tests/fuzz/replay.c - run a fuzz target over its saved corpus, without a
 * fuzzing engine. Usage: replay/fuzz_NAME [FILE...]; without files those of
 * tests/fuzz/corpus/NAME. The target asserts; this only counts. */
#include <dirent.h>

#include "base/file.h"

#define MAX_FILE ((size_t)64 << 20) /* bytes; no corpus file is near it */

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static int one(const char *path)
{
    struct sl_err err;
    char *text;
    size_t n;

    if (sl_file_read(&text, &n, path, MAX_FILE, &err)) {
        printf("%s\n", err.msg);
        return 0;
    }
    LLVMFuzzerTestOneInput((const uint8_t *)text, n);
    sl_file_free(text);
    return 1;
}

static int folder(const char *dir, int *failed)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int passed = 0;

    while (d && (e = readdir(d))) {
        char path[4096];

        if (sl_path_join(path, sizeof(path), dir, e->d_name, NULL) ||
            sl_file_kind(path) != SL_FILE_REGULAR)
            continue;
        if (one(path))
            passed++;
        else
            ++*failed;
    }
    if (d)
        closedir(d);
    return passed;
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/');
    char dir[4096];
    int passed = 0, failed = 0;

    name = name ? name + 1 : argv[0];
    if (!strncmp(name, "fuzz_", 5))
        name += 5;
    snprintf(dir, sizeof(dir), "tests/fuzz/corpus/%s", name);
    for (int i = 1; i < argc; i++) {
        if (one(argv[i]))
            passed++;
        else
            failed++;
    }
    if (argc < 2)
        passed = folder(dir, &failed);
    if (passed + failed == 0) {
        printf("no corpus in %s\n", dir);
        failed = 1;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
