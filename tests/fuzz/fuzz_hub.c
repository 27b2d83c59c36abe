/* tests/fuzz/fuzz_hub.c - what a hub answers: a page of a listing, and fields
 *
 * The first line is a Link field, the second a redirection, the rest a page.
 * Every path that is accepted is one that may lie below a folder of ours; every
 * address stays with the hub or is https.
 */
#include "bundle/hub.h"

#define HUB "https://hub.example.org"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check_link(const char *line)
{
    static char out[SL_CLIENT_URL];
    struct sl_err err;
    int rc = sl_hub_next_page(out, line, HUB, "t/x", &err);

    SL_CHECK(rc == 0 || rc == SL_EFORMAT);
    if (!rc)
        SL_CHECK(!*out || *out == '/');
}

static void check_redirect(const char *line)
{
    static char out[SL_CLIENT_URL];
    struct sl_err err;
    int rc = sl_address_follow(out, HUB "/a", line, HUB, &err);

    SL_CHECK(rc == 0 || (rc == SL_EFORMAT && *err.msg));
    if (!rc)
        SL_CHECK(!strncmp(out, "https://", 8));
    SL_CHECK(sl_client_retry_after(line, 0) <= 600);
    SL_CHECK(sl_client_rate_limit(line) <= 600);
}

static void check_page(const char *s, size_t n)
{
    struct sl_hub_list l = {.n = 0};
    struct sl_err err = {.code = SL_OK};
    json_t *j = NULL;
    int rc = sl_json_parse(&j, s, n, "page", &err);

    if (!rc)
        rc = sl_hub_list_page(&l, j, "t/x", &err);
    SL_CHECK(rc == 0 || (rc == SL_EFORMAT && *err.msg));
    for (size_t i = 0; i < l.n; i++) {
        enum sl_digest_kind kind;

        SL_CHECK(!sl_name_path_flaw(l.file[i].path));
        SL_CHECK(sl_digest_kind(&kind, l.file[i].digest));
    }
    sl_hub_list_deinit(&l);
    json_decref(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static char line[2][1024];
    size_t at = 0;

    for (int i = 0; i < 2; i++) {
        size_t k = 0;

        while (at < n && p[at] != '\n') {
            if (p[at] && k + 1 < sizeof(line[i]))
                line[i][k++] = (char)p[at];
            at++;
        }
        line[i][k] = 0;
        at += at < n;
    }
    check_link(line[0]);
    check_redirect(line[1]);
    check_page((const char *)p + at, n - at);
    return 0;
}
