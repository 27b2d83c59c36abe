/* tests/fuzz/fuzz_template.c - any text as a chat template
 *
 * Whatever it is: it opens and renders or is refused with a message, twice the
 * same, within its ceilings, and a failure leaves the output as it was.
 */
#include "base/json.h"
#include "text/template.h"

#define MAX_OUT ((size_t)1 << 18)   /* bytes */
#define MAX_BYTES ((size_t)4 << 20) /* of one rendering */
#define MAX_STEPS 100000
#define MAX_INPUT ((size_t)1 << 14) /* longer ones find the same, slowly */

static const char context[] =
    "{\"messages\": ["
    "{\"role\": \"system\", \"content\": \"Be \\u00e9xact. <b>\"},"
    "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"x\"}]},"
    "{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{"
    "\"function\": {\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5, true,"
    " null], \"b\": {\"c\": \"\\ud83d\\ude00\"}}}}]},"
    "{\"role\": \"tool\", \"content\": \"  12\\n\"}],"
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}],"
    "\"add_generation_prompt\": true, \"n\": -7, \"f\": 0.1, \"e\": \"\"}";

static int render(const struct sl_template *t, const json_t *vars,
                  struct sl_buf *out, struct sl_err *err)
{
    struct sl_template_opts o;
    int rc;

    sl_template_opts_init(&o);
    o.max_steps = MAX_STEPS;
    o.max_bytes = MAX_BYTES;
    o.now_s = 1700000000;
    *err = (struct sl_err){.msg = ""};
    sl_buf_init(out, MAX_OUT);
    sl_buf_str(out, "before");
    rc = sl_template_render(t, vars, &o, out, err);
    SL_CHECK(out->len >= 6 && out->len <= MAX_OUT);
    SL_CHECK(memcmp(out->p, "before", 6) == 0);
    SL_CHECK(out->cap <= 4 * MAX_OUT);
    if (rc)
        SL_CHECK(out->len == 6);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static json_t *vars; /* for the life of the process */
    struct sl_template *t = NULL;
    struct sl_err err = {.msg = ""}, err2;
    struct sl_buf a, b;
    int rc, rc2;

    if (!vars)
        SL_CHECK(sl_json_parse(&vars, context, sizeof(context) - 1, "context",
                               &err) == 0);
    if (n > MAX_INPUT)
        return 0;
    rc = sl_template_open(&t, (const char *)p, n, "fuzz", &err);
    if (rc) {
        SL_CHECK(rc < 0 && rc != SL_EBUG);
        SL_CHECK(err.msg[0] != 0);
        return 0;
    }
    rc = render(t, vars, &a, &err);
    rc2 = render(t, vars, &b, &err2);
    SL_CHECK(rc == rc2);
    SL_CHECK(rc != SL_EBUG);
    SL_CHECK(a.len == b.len);
    SL_CHECK(memcmp(a.p, b.p, a.len) == 0);
    SL_CHECK(strcmp(err.msg, err2.msg) == 0);
    sl_buf_deinit(&a);
    sl_buf_deinit(&b);
    sl_template_close(&t);
    return 0;
}
