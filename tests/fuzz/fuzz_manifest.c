/* tests/fuzz/fuzz_manifest.c - serve_bundle.json
 *
 * What is refused says where. What is accepted can be written and read again
 * to the same tree, and each of its profiles merges and is judged without a
 * surprise. The first byte chooses the form.
 */
#include "bundle/manifest.h"
#include "bundle/setting.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check_profiles(const struct sl_manifest *m)
{
    json_t *all = json_object_get(m->json, "profiles"), *v;
    const char *name;

    json_object_foreach(all, name, v)
    {
        struct sl_err err = {.code = SL_OK};
        json_t *p = NULL, *flat = NULL;
        struct sl_opts o;
        int rc;

        SL_CHECK(!sl_manifest_profile(&p, m, name, &err));
        sl_opts_init(&o, SL_VERB_SERVE);
        rc = sl_setting_apply(&flat, &o, p, name, &err);
        SL_CHECK(rc == 0 || (rc == SL_EUNSUP && *err.msg));
        json_decref(flat);
        json_decref(p);
    }
}

static void check_again(const struct sl_manifest *m, enum sl_form form)
{
    char *text = json_dumps(m->json, JSON_COMPACT);
    struct sl_manifest again;
    struct sl_err err;

    SL_CHECK(text);
    SL_CHECK(
        !sl_manifest_parse(&again, text, strlen(text), form, "again", &err));
    SL_CHECK(json_equal(again.json, m->json));
    sl_manifest_deinit(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    enum sl_form form = n && p[0] == 'a' ? SL_FORM_AUTHORED : SL_FORM_BUILT;
    struct sl_manifest m;
    struct sl_err err = {.code = SL_OK};
    int rc;

    if (n == 0)
        return 0;
    rc = sl_manifest_parse(&m, (const char *)p + 1, n - 1, form, "f", &err);
    if (rc) {
        SL_CHECK(rc == (form == SL_FORM_BUILT ? SL_EFORMAT : SL_EARG));
        SL_CHECK(!strncmp(err.msg, "f", 1));
        return 0;
    }
    if (!m.tool) {
        check_profiles(&m);
        check_again(&m, form);
    }
    sl_manifest_deinit(&m);
    return 0;
}
