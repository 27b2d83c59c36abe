/* model/meta_gguf.c - tokenizer and chat template in GGUF; see meta_gguf.h
 *
 *   tokenizer.ggml.model       "gpt2": byte-level BPE
 *   tokenizer.ggml.pre         name of the pre-tokenizer, known by heart
 *   tokenizer.ggml.tokens      [n] texts in the byte-level alphabet
 *   tokenizer.ggml.token_type  [n] 1 normal, 3 control, 4 user defined, 5
 *                              unused; 2 unknown and 6 byte do not occur
 *   tokenizer.ggml.merges      "a b"
 *   tokenizer.ggml.*_token_id  eos, eot (a second end), padding, bos
 *   tokenizer.chat_template    and tokenizer.chat_template.tool_use
 *
 * Converters mark as control what looks like it, so some tokens that are not
 * special in tokenizer.json (they are printed) come as control ones. They are
 * known by name here and made plain again.
 *
 * Our own keys, for what the format has no place for:
 *
 *   sluice.tokenizer.pattern     another pattern, with pre = "sluice"
 *   sluice.tokenizer.nfc         false when text is not normalised
 *   sluice.tokenizer.normalized  ids that are found in normalised text
 *   sluice.tokenizer.end_ids     all ids that end an answer, when there are
 * more or others than eos, eot and what a reader adds
 */
#include "model/meta_gguf.h"

#include "base/json.h"
#include "base/mem.h"
#include "text/pretoken.h"

#define KEY "tokenizer.ggml."
#define OURS "sluice.tokenizer."

/* token_type */
enum { NORMAL = 1, CONTROL = 3, USER = 4, UNUSED = 5 };

static const struct pre {
    const char *name, *pattern;
} pres[] = {{"qwen35", sl_pretoken_qwen35}, {"qwen2", sl_pretoken_qwen2}};

/* Added tokens that look like control tokens and are not special. */
static const char *const printed[] = {
    "<|fim_prefix|>",  "<|fim_middle|>",   "<|fim_suffix|>", "<|fim_pad|>",
    "<|repo_name|>",   "<|file_sep|>",     "<tool_call>",    "</tool_call>",
    "<tool_response>", "</tool_response>", "<think>",        "</think>",
};

struct part {
    const struct sl_gguf *g;
    struct sl_span *text; /* [n] */
    uint8_t *kind;        /* [n] */
    struct sl_merge_text *merge;
    struct sl_tokenizer_spec spec;
    struct sl_err *err;
};

static bool is(struct sl_span s, const char *text)
{
    return s.len == strlen(text) && !memcmp(s.p, text, s.len);
}

static int get_str(struct sl_span *out, const struct part *p, const char *key,
                   bool need)
{
    return sl_gguf_str(&out->p, &out->len, p->g, key, need, p->err);
}

/* --- reading --- */

static int read_pre(struct part *p)
{
    struct sl_span model = {0}, pre = {0}, own = {0};
    int rc = get_str(&model, p, KEY "model", true);

    if (!rc && !is(model, "gpt2"))
        return sl_fail(p->err, SL_EUNSUP,
                       KEY "model is '%.*s' and only 'gpt2' is implemented; "
                           "use another file",
                       (int)sl_min(model.len, 40), model.p);
    if (!rc)
        rc = get_str(&pre, p, KEY "pre", true);
    if (!rc)
        rc = get_str(&own, p, OURS "pattern", false);
    p->spec.nfc = true;
    if (!rc)
        rc = sl_gguf_bool(&p->spec.nfc, p->g, OURS "nfc", false, p->err);
    if (rc)
        return rc;
    if (own.p) {
        p->spec.pattern = own;
        return 0;
    }
    for (size_t i = 0; i < SL_COUNTOF(pres); i++)
        if (is(pre, pres[i].name)) {
            p->spec.pattern =
                (struct sl_span){pres[i].pattern, strlen(pres[i].pattern)};
            return 0;
        }
    return sl_fail(p->err, SL_EUNSUP,
                   KEY "pre is '%.*s' and only 'qwen35' and 'qwen2' are "
                       "implemented; use another file",
                   (int)sl_min(pre.len, 40), pre.p);
}

static uint8_t kind_of(struct sl_span text, int64_t type)
{
    if (type == UNUSED)
        return 0;
    if (type == NORMAL)
        return SL_TOK_EXISTS;
    for (size_t i = 0; i < SL_COUNTOF(printed); i++)
        if (is(text, printed[i]))
            return SL_TOK_EXISTS | SL_TOK_ADDED;
    return (uint8_t)(SL_TOK_EXISTS | SL_TOK_ADDED |
                     (type == CONTROL ? SL_TOK_SPECIAL : 0));
}

static int read_tokens(struct part *p)
{
    const struct sl_gguf_kv *tok = NULL, *type = NULL;
    struct sl_cur c;
    int rc = sl_gguf_strs(&tok, p->g, KEY "tokens", true, p->err);

    if (!rc)
        rc = sl_gguf_ints(&type, p->g, KEY "token_type", true, p->err);
    if (rc)
        return rc;
    if (tok->n == 0 || tok->n > SL_VOCAB_MAX_IDS || type->n != tok->n)
        return sl_fail(p->err, SL_EFORMAT,
                       KEY "tokens has %llu entries and token_type %llu; both "
                           "must be the same, from 1 to %d",
                       (unsigned long long)tok->n, (unsigned long long)type->n,
                       SL_VOCAB_MAX_IDS);
    rc = sl_mem_alloc(&p->text, tok->n, sizeof(*p->text), "tokens", p->err);
    if (!rc)
        rc = sl_mem_alloc(&p->kind, tok->n, 1, "tokens", p->err);
    if (rc)
        return rc;
    sl_gguf_walk(&c, tok);
    for (uint64_t i = 0; i < tok->n; i++) {
        int64_t t = sl_gguf_int(type, i);

        p->text[i].p = sl_gguf_next(&c, &p->text[i].len);
        if (t != NORMAL && t != CONTROL && t != USER && t != UNUSED)
            return sl_fail(p->err, SL_EUNSUP,
                           KEY "token_type of token %llu is %lld and must be "
                               "1, 3, 4 or 5; use another file",
                           (unsigned long long)i, (long long)t);
        p->kind[i] = kind_of(p->text[i], t);
        if (p->kind[i])
            p->spec.vocab.n_ids = i + 1;
    }
    p->spec.vocab.text = p->text;
    p->spec.vocab.kind = p->kind;
    return 0;
}

static int read_normalized(struct part *p)
{
    const struct sl_gguf_kv *ids = NULL;
    int rc = sl_gguf_ints(&ids, p->g, OURS "normalized", false, p->err);

    for (uint64_t i = 0; !rc && ids && i < ids->n; i++) {
        int64_t id = sl_gguf_int(ids, i);

        if (id < 0 || (uint64_t)id >= p->spec.vocab.n_ids || !p->kind[id])
            return sl_fail(p->err, SL_EFORMAT,
                           OURS "normalized holds %lld, which is no token",
                           (long long)id);
        p->kind[id] |= SL_TOK_NORMALIZED;
    }
    return rc;
}

static int read_merges(struct part *p)
{
    const struct sl_gguf_kv *kv = NULL;
    struct sl_cur c;
    int rc = sl_gguf_strs(&kv, p->g, KEY "merges", true, p->err);

    if (!rc && kv->n > SL_VOCAB_MAX_MERGES)
        rc = sl_fail(p->err, SL_EFORMAT,
                     KEY "merges has %llu entries; the limit is %d",
                     (unsigned long long)kv->n, SL_VOCAB_MAX_MERGES);
    if (!rc)
        rc =
            sl_mem_alloc(&p->merge, kv->n, sizeof(*p->merge), "merges", p->err);
    if (rc)
        return rc;
    sl_gguf_walk(&c, kv);
    for (uint64_t i = 0; i < kv->n; i++) {
        size_t len;
        const char *s = sl_gguf_next(&c, &len);
        const char *sp = len > 2 ? memchr(s + 1, ' ', len - 1) : NULL;

        if (!sp || sp + 1 == s + len)
            return sl_fail(p->err, SL_EFORMAT,
                           KEY "merges: entry %llu is not two tokens with a "
                               "space between; the file is damaged",
                           (unsigned long long)i);
        p->merge[i].a = (struct sl_span){s, (size_t)(sp - s)};
        p->merge[i].b = (struct sl_span){sp + 1, len - (size_t)(sp + 1 - s)};
    }
    p->spec.vocab.n_merges = kv->n;
    p->spec.vocab.merge_text = p->merge;
    /* Readers of the format look up merges as they need them, so files have
     * some that can never happen. */
    p->spec.vocab.lax = true;
    return 0;
}

/* An id that names a token; one that does not exist counts as none, as some
 * files pad with such. */
static int read_id(const struct part *p, int32_t *out, const char *key)
{
    int64_t id = -1;
    int rc = sl_gguf_i64(&id, p->g, key, false, -1, UINT32_MAX, p->err);

    *out = id >= 0 && (uint64_t)id < p->spec.vocab.n_ids && p->kind[id]
               ? (int32_t)id
               : -1;
    return rc;
}

static int read_ids(struct part *p)
{
    bool bos = false, eos = false;
    int rc = read_id(p, &p->spec.eos, KEY "eos_token_id");

    if (!rc)
        rc = read_id(p, &p->spec.pad, KEY "padding_token_id");
    if (!rc)
        rc = read_id(p, &p->spec.bos, KEY "bos_token_id");
    if (!rc)
        rc = sl_gguf_bool(&bos, p->g, KEY "add_bos_token", false, p->err);
    if (!rc)
        rc = sl_gguf_bool(&eos, p->g, KEY "add_eos_token", false, p->err);
    if (!rc && (bos || eos))
        rc = sl_fail(p->err, SL_EUNSUP,
                     KEY "add_%s_token is true and only false is implemented; "
                         "use another file",
                     bos ? "bos" : "eos");
    return rc;
}

static int read_all(struct part *p)
{
    int rc = read_pre(p);

    if (!rc)
        rc = read_tokens(p);
    if (!rc)
        rc = read_normalized(p);
    if (!rc)
        rc = read_merges(p);
    return rc ? rc : read_ids(p);
}

int sl_meta_tokenizer(struct sl_tokenizer **out, const struct sl_gguf *g,
                      struct sl_err *err)
{
    struct part p = {.g = g, .err = err};
    int rc;

    if (!sl_gguf_find(g, KEY "tokens"))
        return sl_fail(err, SL_ENOTFOUND,
                       "'%.300s' has no tokenizer (" KEY "tokens); use a "
                       "complete file",
                       g->path);
    rc = read_all(&p);
    if (!rc)
        rc = sl_tokenizer_open(out, &p.spec, err);
    sl_mem_free(p.text);
    sl_mem_free(p.kind);
    sl_mem_free(p.merge);
    return sl_wrap(err, rc, "the tokenizer of '%.300s'", g->path);
}

/* --- the template --- */

/* Put the text of a token whose id the file names. */
static int put_token(json_t *conf, const struct sl_gguf *g, const char *name,
                     const char *key, struct sl_err *err)
{
    const struct sl_gguf_kv *tok = NULL;
    struct sl_cur c;
    int64_t id = -1;
    const char *s = NULL;
    size_t len = 0;
    int rc = sl_gguf_i64(&id, g, key, false, -1, UINT32_MAX, err);

    if (!rc)
        rc = sl_gguf_strs(&tok, g, KEY "tokens", false, err);
    if (rc || !tok || id < 0 || (uint64_t)id >= tok->n)
        return rc;
    sl_gguf_walk(&c, tok);
    for (int64_t i = 0; i <= id; i++)
        s = sl_gguf_next(&c, &len);
    /* Not text: then no template can mean it. */
    if (!memchr(s, 0, len))
        (void)json_object_set_new(conf, name, json_stringn(s, len));
    return 0;
}

static int put_templates(json_t *conf, const char *jinja, size_t n_jinja,
                         const struct sl_gguf *g, struct sl_err *err)
{
    const char *tools = NULL;
    size_t len = 0;
    int rc = sl_gguf_str(&tools, &len, g, "tokenizer.chat_template.tool_use",
                         false, err);
    json_t *list;

    if (rc || !tools || !jinja)
        return rc;
    if (memchr(jinja, 0, n_jinja) || memchr(tools, 0, len))
        return sl_fail(err, SL_EFORMAT,
                       "the chat templates of '%.300s' have zero bytes in "
                       "them; use another file",
                       g->path);
    list =
        json_pack("[{s:s, s:s%}, {s:s, s:s%}]", "name", "default", "template",
                  jinja, n_jinja, "name", "tool_use", "template", tools, len);
    if (!list)
        return sl_fail(err, SL_EFORMAT,
                       "the chat templates of '%.300s' are not UTF-8", g->path);
    (void)json_object_set_new(conf, "chat_template", list);
    return 0;
}

int sl_meta_chat(const char **jinja, size_t *n_jinja, char **conf,
                 const struct sl_gguf *g, struct sl_err *err)
{
    json_t *j = json_object();
    char *text = NULL;
    int rc;

    *jinja = NULL;
    *n_jinja = 0;
    rc = sl_gguf_str(jinja, n_jinja, g, "tokenizer.chat_template", false, err);
    if (!rc)
        rc = put_token(j, g, "eos_token", KEY "eos_token_id", err);
    if (!rc)
        rc = put_token(j, g, "pad_token", KEY "padding_token_id", err);
    if (!rc)
        rc = put_token(j, g, "bos_token", KEY "bos_token_id", err);
    if (!rc)
        rc = put_templates(j, *jinja, *n_jinja, g, err);
    if (!rc && json_object_get(j, "chat_template"))
        *jinja = NULL; /* both are there */
    if (!rc)
        text = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    if (rc)
        return rc;
    if (!text)
        return sl_fail(err, SL_ENOMEM, "no memory is left for a template");
    rc = sl_mem_dup(conf, text, strlen(text), err);
    free(text); /* jansson's own */
    return rc;
}

/* --- writing --- */

static const char *pre_name(const struct sl_tokenizer *t)
{
    struct sl_span s = sl_tokenizer_pattern(t);

    for (size_t i = 0; i < SL_COUNTOF(pres); i++)
        if (is(s, pres[i].pattern))
            return pres[i].name;
    return "sluice";
}

static void put_tokens(struct sl_gguf_out *o, const struct sl_tokenizer *t,
                       size_t n_ids, struct sl_buf *b)
{
    sl_gguf_out_arr(o, KEY "tokens", SL_GGUF_STR, n_ids);
    for (size_t i = 0; i < n_ids; i++) {
        sl_buf_reset(b);
        if (sl_tokenizer_has(t, (int32_t)i))
            sl_tokenizer_text(t, (int32_t)i, b);
        else
            sl_buf_fmt(b, "[PAD%zu]", i);
        sl_gguf_out_arr_str(o, b->p ? b->p : "", b->len);
    }
    sl_gguf_out_arr(o, KEY "token_type", SL_GGUF_I32_, n_ids);
    for (size_t i = 0; i < n_ids; i++) {
        unsigned k = sl_tokenizer_kind(t, (int32_t)i);

        sl_gguf_out_arr_i32(o, !k                    ? UNUSED
                               : !(k & SL_TOK_ADDED) ? NORMAL
                               : k & SL_TOK_SPECIAL  ? CONTROL
                                                     : USER);
    }
}

static void put_normalized(struct sl_gguf_out *o, const struct sl_tokenizer *t)
{
    size_t n = 0, n_ids = sl_tokenizer_n_ids(t);

    for (size_t i = 0; i < n_ids; i++)
        n += (sl_tokenizer_kind(t, (int32_t)i) & SL_TOK_NORMALIZED) != 0;
    if (n == 0)
        return;
    sl_gguf_out_arr(o, OURS "normalized", SL_GGUF_I32_, n);
    for (size_t i = 0; i < n_ids; i++)
        if (sl_tokenizer_kind(t, (int32_t)i) & SL_TOK_NORMALIZED)
            sl_gguf_out_arr_i32(o, (int32_t)i);
}

static int put_merges(struct sl_gguf_out *o, const struct sl_tokenizer *t,
                      struct sl_buf *b, struct sl_err *err)
{
    struct sl_merge_slot *m = NULL;
    size_t n = 0;
    int rc = sl_tokenizer_merges(&m, &n, t, err);

    if (!rc)
        sl_gguf_out_arr(o, KEY "merges", SL_GGUF_STR, n);
    for (size_t i = 0; !rc && i < n; i++) {
        sl_buf_reset(b);
        sl_tokenizer_text(t, (int32_t)(m[i].pair >> 32), b);
        sl_buf_byte(b, ' ');
        sl_tokenizer_text(t, (int32_t)(uint32_t)m[i].pair, b);
        sl_gguf_out_arr_str(o, b->p, b->len);
    }
    sl_mem_free(m);
    return rc;
}

const char *const sl_meta_end[SL_META_N_END] = {"<|im_end|>", "<|endoftext|>"};

static bool is_among(int32_t id, const int32_t *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == id)
            return true;
    return false;
}

void sl_meta_put_ends(struct sl_gguf_out *o, const struct sl_tokenizer *t,
                      const int32_t *id, size_t n)
{
    int32_t known[1 + SL_META_N_END], second = -1;
    size_t n_known = 1, n_more = 0;

    if (n == 0)
        return;
    if (!t || !sl_tokenizer_eos(t, &known[0]))
        sl_gguf_out_u32(o, KEY "eos_token_id", (uint32_t)(known[0] = id[0]));
    for (size_t i = 0; t && i < SL_META_N_END; i++)
        n_known += sl_tokenizer_find(t, sl_meta_end[i], strlen(sl_meta_end[i]),
                                     &known[n_known]);
    for (size_t i = 0; i < n; i++) {
        if (is_among(id[i], known, n_known))
            continue;
        n_more += second >= 0 && id[i] != second;
        second = second < 0 ? id[i] : second;
    }
    /* What readers would add by themselves and is no end. */
    for (size_t i = 0; i < n_known; i++)
        n_more += !is_among(known[i], id, n);
    if (second >= 0)
        sl_gguf_out_u32(o, KEY "eot_token_id", (uint32_t)second);
    if (n_more == 0)
        return;
    sl_gguf_out_arr(o, SL_META_ENDS, SL_GGUF_I32_, n);
    for (size_t i = 0; i < n; i++)
        sl_gguf_out_arr_i32(o, id[i]);
}

static void put_ids(struct sl_gguf_out *o, const struct sl_tokenizer *t)
{
    int32_t id;

    if (sl_tokenizer_eos(t, &id))
        sl_gguf_out_u32(o, KEY "eos_token_id", (uint32_t)id);
    if (sl_tokenizer_pad(t, &id))
        sl_gguf_out_u32(o, KEY "padding_token_id", (uint32_t)id);
    if (sl_tokenizer_bos(t, &id))
        sl_gguf_out_u32(o, KEY "bos_token_id", (uint32_t)id);
}

int sl_meta_put_tokenizer(struct sl_gguf_out *o, const struct sl_tokenizer *t,
                          size_t n_ids, bool strict, struct sl_err *err)
{
    struct sl_span s = sl_tokenizer_pattern(t);
    const char *pre = pre_name(t);
    struct sl_buf b;
    int rc;

    if (strict && !strcmp(pre, "sluice"))
        return sl_fail(err, SL_EUNSUP,
                       "the pattern of its pre-tokenizer has no name that "
                       "other programs know, so they would read text "
                       "differently; only models with the pattern of Qwen2 or "
                       "Qwen3.5 become GGUF");
    sl_gguf_out_str(o, KEY "model", "gpt2", 4);
    sl_gguf_out_str(o, KEY "pre", pre, strlen(pre));
    if (!strcmp(pre, "sluice"))
        sl_gguf_out_str(o, OURS "pattern", s.p, s.len);
    if (!sl_tokenizer_nfc(t))
        sl_gguf_out_bool(o, OURS "nfc", false);
    sl_buf_init(&b, 4 * SL_VOCAB_MAX_TOKEN + 2);
    put_tokens(o, t, n_ids, &b);
    put_normalized(o, t);
    rc = put_merges(o, t, &b, err);
    put_ids(o, t);
    if (!rc)
        rc = sl_buf_check(&b, "a token", err);
    sl_buf_deinit(&b);
    return rc;
}
