/* cli/version.c - sluice version: what was built, with what */
#include <hwloc.h> /* first: its inline functions use what we ban */

#include "cli/verb.h"

#include <histedit.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include "base/log.h"
#include "bundle/needs.h"

#define STRING(x) #x
#define TEXT(x) STRING(x)

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

#if defined(__x86_64__)
#define MACHINE "x86_64"
#elif defined(__aarch64__)
#define MACHINE "aarch64"
#else
#define MACHINE "another"
#endif

static void hwloc_version(char *out, size_t cap)
{
    unsigned v = hwloc_get_api_version();

    snprintf(out, cap, "%u.%u.%u", v >> 16, v >> 8 & 0xff, v & 0xff);
}

static void pcre2_version(char *out, size_t cap)
{
    char text[64];

    text[0] = 0;
    pcre2_config(PCRE2_CONFIG_VERSION, text);
    snprintf(out, cap, "%.*s", (int)strcspn(text, " "), text);
}

/* libedit tells no version at run time; this is its header's. */
#define EDIT_VERSION TEXT(LIBEDIT_MAJOR) "." TEXT(LIBEDIT_MINOR)

static json_t *describe(void)
{
    char hwloc[32], pcre2[64];
    json_t *features = json_object();

    hwloc_version(hwloc, sizeof(hwloc));
    pcre2_version(pcre2, sizeof(pcre2));
    for (size_t i = 0; sl_needs_features[i]; i++)
        json_object_set_new(features, sl_needs_features[i], json_true());
    json_object_set_new(features, "mpi", json_false());
    json_object_set_new(features, "ucx", json_false());
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:{s:s, s:s, s:s, s:s, s:s}, s:s, s:o}",
        "version", SL_VERSION, "compiler", COMPILER, "machine", MACHINE,
        "flags", SL_FLAGS, "libraries", "jansson", jansson_version_str(),
        "pcre2", pcre2, "utf8proc", utf8proc_version(), "hwloc", hwloc,
        "libedit", EDIT_VERSION, "bundle_schema", SL_MANIFEST_VERSION,
        "features", features);
}

int sl_cli_version(const struct sl_opts *o, struct sl_err *err)
{
    json_t *j, *v, *libs;
    const char *key;
    struct sl_buf b;
    int rc = sl_cli_max_args(o, 0, "'sluice version' takes none", err);

    if (rc)
        return rc;
    j = describe();
    if (!j || o->value[SL_OPT_JSON].i)
        return sl_cli_print_json(j, err);
    sl_buf_init(&b, 4096);
    sl_buf_fmt(&b, "sluice %s\n", SL_VERSION);
    sl_buf_fmt(&b, "compiler   %s, %s\n", COMPILER, MACHINE);
    sl_buf_fmt(&b, "flags      %s\n", SL_FLAGS);
    libs = json_object_get(j, "libraries");
    sl_buf_str(&b, "libraries ");
    json_object_foreach(libs, key, v)
    {
        sl_buf_fmt(&b, " %s %s", key, json_string_value(v));
    }
    sl_buf_str(&b, "\nbundles    schema " SL_MANIFEST_VERSION
                   "; features:");
    for (size_t i = 0; sl_needs_features[i]; i++)
        sl_buf_fmt(&b, " %s", sl_needs_features[i]);
    sl_buf_str(&b, "\nnot built  MPI (ranks), UCX (hand-over): no verb needs "
                   "them yet\n");
    json_decref(j);
    return sl_cli_print(&b, "the version", err);
}
