/* engine/prompt.c - the prompt of a request as token ids
 *
 * Ids are checked; text is encoded; messages are rendered by the model's chat
 * template and then encoded. Runs in the thread that submits.
 */
#include "base/mem.h"
#include "engine/gen.h"

#define MAX_PROMPT ((size_t)64 << 20) /* bytes of a rendered conversation */

static int need_tokenizer(const struct sl_engine *e, struct sl_err *err)
{
    if (e->tok)
        return 0;
    return sl_fail(err, SL_EARG,
                   "this model was opened without a tokenizer; give the "
                   "prompt as token ids");
}

static int copy_ids(struct sl_ids *out, const struct sl_engine *e,
                    const int32_t *ids, size_t n, struct sl_err *err)
{
    int rc = 0;

    for (size_t i = 0; !rc && i < n; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= e->n_vocab)
            return sl_fail(err, SL_EARG,
                           "token %zu of the prompt is %d; ids go from 0 to "
                           "%u",
                           i, ids[i], e->n_vocab - 1);
        rc = sl_ids_push(out, ids[i], err);
    }
    return rc;
}

int sl_text_encode(struct sl_ids *out, struct sl_engine *e, const char *text,
                   size_t len, struct sl_err *err)
{
    struct sl_encoder *enc = NULL;
    size_t before = out->len;
    int rc = need_tokenizer(e, err);

    if (!rc)
        rc = sl_engine_take_encoder(&enc, e, err);
    if (rc)
        return rc;
    rc = sl_tokenize_encode(enc, text, len, true, out, err);
    sl_engine_give_encoder(e, enc);
    /* A tokenizer with more ids than the embedding has rows. */
    for (size_t i = before; !rc && i < out->len; i++)
        if ((uint32_t)out->p[i] >= e->n_vocab)
            rc = sl_fail(err, SL_EFORMAT,
                         "token %d has no row in the embedding of %u; the "
                         "tokenizer belongs to another model",
                         out->p[i], e->n_vocab);
    return rc;
}

int sl_render(char **out, size_t *len, const struct sl_engine *e,
              const char *messages, const char *tools,
              const char *template_kwargs, struct sl_err *err)
{
    struct sl_chat_opts o;
    struct sl_buf text;
    int rc;

    if (!e->chat)
        return sl_fail(err, SL_EUNSUP,
                       "the model has no chat template; give one with "
                       "--chat-template, or send plain text");
    sl_chat_opts_init(&o);
    sl_buf_init(&text, MAX_PROMPT);
    rc = sl_chat_render_text(e->chat, messages, tools, template_kwargs, &o,
                             &text, err);
    if (!rc)
        rc = sl_mem_dup(out, text.p ? text.p : "", text.len, err);
    if (!rc)
        *len = text.len;
    sl_buf_deinit(&text);
    return rc;
}

const char *sl_chat_template(size_t *len, const struct sl_engine *e)
{
    *len = 0;
    return e->chat ? sl_chat_source(len, e->chat) : NULL;
}

int sl_prompt_encode(struct sl_ids *out, struct sl_engine *e,
                     const struct sl_gen_opts *o, struct sl_err *err)
{
    char *text = NULL;
    size_t len = 0;
    int rc, n_set = (o->ids != NULL) + (o->text != NULL) + (o->messages != NULL);

    if (n_set != 1)
        return sl_fail(err, SL_EARG,
                       "%d of ids, text and messages are set; set exactly one",
                       n_set);
    if (o->ids)
        return copy_ids(out, e, o->ids, o->n_ids, err);
    if (o->text)
        return sl_wrap(err, sl_text_encode(out, e, o->text, o->n_text, err),
                       "the prompt");
    rc = sl_render(&text, &len, e, o->messages, o->tools, o->template_kwargs,
                   err);
    if (!rc)
        rc = sl_wrap(err, sl_text_encode(out, e, text, len, err), "the prompt");
    sl_free(text);
    return rc;
}

int sl_encode(int32_t **out, size_t *n, struct sl_engine *e, const char *text,
              size_t len, struct sl_err *err)
{
    struct sl_ids ids;
    int rc;

    sl_ids_init(&ids, INT32_MAX / 2);
    rc = sl_wrap(err, sl_text_encode(&ids, e, text, len, err), "the prompt");
    if (rc) {
        sl_ids_deinit(&ids);
        return rc;
    }
    *out = ids.p; /* NULL when there are none */
    *n = ids.len;
    return 0;
}

int sl_decode(char **out, size_t *len, const struct sl_engine *e,
              const int32_t *ids, size_t n, bool skip_special,
              struct sl_err *err)
{
    struct sl_buf text;
    int rc = need_tokenizer(e, err);

    if (rc)
        return rc;
    sl_buf_init(&text, MAX_PROMPT);
    rc = sl_detokenize_all(e->tok, ids, n, skip_special, &text, err);
    if (!rc)
        rc = sl_buf_check(&text, "the text", err);
    if (!rc)
        rc = sl_mem_dup(out, text.p ? text.p : "", text.len, err);
    if (!rc)
        *len = text.len;
    sl_buf_deinit(&text);
    return rc;
}

const char *sl_token(size_t *len, const struct sl_engine *e, int32_t id)
{
    struct sl_span s = {NULL, 0};

    if (e->tok && id >= 0)
        s = sl_tokenizer_bytes(e->tok, id);
    *len = s.len;
    return s.p;
}

/* A tag that is a token of its own. */
static bool find_tag(const struct sl_engine *e, const char *text, int32_t *id)
{
    return sl_tokenizer_find(e->tok, text, strlen(text), id) &&
           sl_tokenizer_is_added(e->tok, *id);
}

int32_t sl_token_named(const struct sl_engine *e, enum sl_named_token which)
{
    int32_t id = -1;
    bool has = false;

    if (!e->tok)
        return -1;
    switch (which) {
    case SL_TOKEN_EOS:
        has = sl_tokenizer_eos(e->tok, &id);
        break;
    case SL_TOKEN_PAD:
        has = sl_tokenizer_pad(e->tok, &id);
        break;
    case SL_TOKEN_BOS:
        has = sl_tokenizer_bos(e->tok, &id);
        break;
    case SL_TOKEN_THINK:
        has = find_tag(e, "<think>", &id);
        break;
    case SL_TOKEN_THINK_END:
        has = find_tag(e, "</think>", &id);
        break;
    case SL_TOKEN_CALL:
        has = find_tag(e, "<tool_call>", &id);
        break;
    case SL_TOKEN_CALL_END:
        has = find_tag(e, "</tool_call>", &id);
        break;
    }
    return has ? id : -1;
}
