/* cli/model.c - from what a user calls a model to what is opened
 *
 *   demo        the embedded model: beside the source tree while developing,
 *               under share/ when installed; both are looked for from where the
 *               program lies, so that a tree can be moved
 *   DIR         a checkpoint folder
 *   x/config.json   its folder
 *   x.gguf      a GGUF file, or any part of a set
 *   x.sluice    a packed file
 *
 * Names of a hub and of bundles: cli/ready.c.
 */
#include "cli/verb.h"

#include "base/file.h"

/* From the folder of the program: build/, build/asan/, PREFIX/bin/. */
static const char *const demo_places[] = {
    "../models/demo",
    "../../models/demo",
    "../share/sluice/models/demo",
};

static int find_demo(char path[SL_CLI_PATH], struct sl_err *err)
{
    char self[SL_CLI_PATH], conf[SL_CLI_PATH];
    int rc = sl_path_self(self, sizeof(self), err);

    for (size_t i = 0; !rc && i < SL_COUNTOF(demo_places); i++) {
        rc = sl_path_join(path, SL_CLI_PATH, self, demo_places[i], err);
        if (!rc)
            rc = sl_path_join(conf, sizeof(conf), path, "config.json", err);
        if (!rc && sl_file_kind(conf) == SL_FILE_REGULAR)
            return 0;
    }
    if (rc)
        return rc;
    return sl_fail(err, SL_ENOTFOUND,
                   "the embedded model is neither in models/demo beside the "
                   "source nor in share/sluice/models/demo beside the "
                   "program's folder; name a checkpoint folder");
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && !strcmp(s + n - m, end);
}

/* "x/config.json" -> "x"; "config.json" -> ".". False for all others. */
static bool folder_of_config(char path[SL_CLI_PATH], const char *name)
{
    size_t n = strlen(name), m = strlen("config.json");

    if (!ends_with(name, "config.json") || n >= SL_CLI_PATH ||
        (n > m && name[n - m - 1] != '/'))
        return false;
    if (n == m)
        snprintf(path, SL_CLI_PATH, ".");
    else
        snprintf(path, SL_CLI_PATH, "%.*s", (int)(n - m), name);
    return true;
}

static int copy_path(char path[SL_CLI_PATH], const char *name,
                     struct sl_err *err)
{
    if (strlen(name) >= SL_CLI_PATH)
        return sl_fail(err, SL_EARG, "the path '%.100s...' is too long", name);
    snprintf(path, SL_CLI_PATH, "%s", name);
    return 0;
}

int sl_cli_folder(char path[SL_CLI_PATH], const char *name, struct sl_err *err)
{
    if (!strcmp(name, "demo") && sl_file_kind(name) == SL_FILE_NONE)
        return find_demo(path, err);
    switch (sl_file_kind(name)) {
    case SL_FILE_DIR:
        return copy_path(path, name, err);
    case SL_FILE_REGULAR:
        if (folder_of_config(path, name))
            return 0;
        if (ends_with(name, ".gguf") || ends_with(name, ".sluice"))
            return copy_path(path, name, err);
        return sl_fail(err, SL_EARG,
                       "'%.300s' is a file; name the folder of a checkpoint, "
                       "with its config.json, or a .gguf file",
                       name);
    case SL_FILE_OTHER:
        return sl_fail(err, SL_EARG, "'%.300s' is neither a folder nor a file",
                       name);
    case SL_FILE_NONE:
        break;
    }
    return sl_fail(err, SL_ENOTFOUND,
                   "there is no folder '%.300s'; name a checkpoint folder, a "
                   ".gguf file, a model on a hub as ORG/NAME, or 'demo' for "
                   "the embedded one",
                   name);
}
