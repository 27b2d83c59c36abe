/* tests/fuzz/fuzz_request.c - bodies of completions and chats
 *
 * The first byte says which. What is refused has a status, a message of valid
 * UTF-8 and an error object that is JSON; what is taken keeps its ranges.
 */
#include "base/mem.h"
#include "base/utf8.h"
#include "server/json_in.h"
#include "server/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check_refusal(const struct sl_refusal *r)
{
    struct sl_buf b;
    json_t *j;

    SL_CHECK(r->status >= 400 && r->message[0]);
    SL_CHECK(!sl_utf8_check(r->message, strlen(r->message), "it", NULL));
    sl_buf_init(&b, 1 << 16);
    sl_error_json(&b, r);
    SL_CHECK(!b.failed && !memchr(b.p, '\n', b.len));
    j = json_loadb(b.p, b.len, 0, NULL);
    SL_CHECK(json_is_object(json_object_get(j, "error")));
    json_decref(j);
    sl_buf_deinit(&b);
}

static void check_taken(const struct sl_request *q)
{
    SL_CHECK(!q->n.has || (q->n.v >= 1 && q->n.v <= SL_MAX_CHOICES));
    SL_CHECK(!q->temperature.has ||
             (q->temperature.v >= 0 && q->temperature.v <= 2));
    SL_CHECK(!q->top_p.has || (q->top_p.v > 0 && q->top_p.v <= 1));
    SL_CHECK(q->n_stop <= SL_MAX_STOP);
    for (uint32_t i = 0; i < q->n_stop; i++)
        SL_CHECK(q->stop[i][0] && strlen(q->stop[i]) <= SL_MAX_STOP_BYTES);
    for (uint32_t i = 0; i < q->n_bias; i++)
        SL_CHECK(q->bias[i] >= -100 && q->bias[i] <= 100);
    if (q->kind == SL_REQUEST_CHAT)
        SL_CHECK(json_array_size(q->messages) > 0 && q->kwargs);
    else
        SL_CHECK(q->n_prompt > 0 && q->n_prompt <= SL_MAX_PROMPTS);
    for (uint32_t i = 0; i < q->n_bad_words; i++)
        SL_CHECK(strspn(q->bad_words[i], " ") < strlen(q->bad_words[i]));
    SL_CHECK(!q->request_id || strlen(q->request_id) <= SL_MAX_REQUEST_ID);
    SL_CHECK(!q->allowed_ids || q->n_allowed > 0);
    SL_CHECK(!q->continuous_usage.v || q->include_usage.v);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sl_refusal r = {0};
    struct sl_request q;
    json_t *root = NULL;
    char *text;

    if (n < 1 || sl_mem_dup(&text, (const char *)p + 1, n - 1, NULL))
        return 0;
    if (sl_json_in(&root, text, n - 1, &r)) {
        check_refusal(&r);
    } else {
        if (sl_request_init(&q, p[0] & 1 ? SL_REQUEST_CHAT
                                         : SL_REQUEST_COMPLETION,
                            root, &r))
            check_refusal(&r);
        else
            check_taken(&q);
        sl_request_deinit(&q);
    }
    sl_mem_free(text);
    return 0;
}
