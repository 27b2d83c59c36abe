/* model/source.c - a model as it lies on a disk; see source.h */
#include "model/source.h"

#include "base/mem.h"
#include "model/conf_gguf.h"
#include "model/meta_gguf.h"
#include "text/tokenizer_json.h"

#define TOKENIZER_CONFIG "tokenizer_config.json"
#define TEMPLATE "tokenizer.chat_template"
#define OPTION "--chat-template"
#define MAX_CHAT ((size_t)64 << 20) /* bytes of a template and its tokens */

#define CONFIG_KEY "sluice.config"
#define GENERATION_KEY "sluice.generation"

/* JSON that is a string of the metadata; NULL when it is not there. */
static int meta_json(json_t **out, const struct sl_gguf *g, const char *key,
                     bool need, struct sl_err *err)
{
    const char *text = NULL;
    size_t len = 0;
    int rc = sl_gguf_str(&text, &len, g, key, need, err);

    return rc || !text ? rc : sl_json_parse(out, text, len, key, err);
}

static const char *as_it_is(const char *field)
{
    return field;
}

static int fill_packed(struct sl_source *s, struct sl_err *err)
{
    static const struct sl_conf_names packed = {CONFIG_KEY, GENERATION_KEY,
                                                as_it_is};
    int rc = sl_packed_open(&s->packed, s->path, err);

    s->form = SL_SOURCE_PACKED;
    if (!rc)
        rc = sl_gguf_parse(&s->own_meta, s->packed->meta, s->packed->meta_bytes,
                           s->path, err);
    if (rc)
        return rc;
    s->meta = s->own_meta;
    rc = meta_json(&s->config, s->meta, CONFIG_KEY, true, err);
    if (!rc)
        rc = meta_json(&s->generation, s->meta, GENERATION_KEY, false, err);
    return rc ? rc
              : sl_conf_from(&s->conf, s->config, s->generation, &packed, err);
}

static int fill(struct sl_source *s, struct sl_err *err)
{
    const struct sl_conf_names *names = NULL;
    int rc;

    if (sl_packed_is(s->path))
        return fill_packed(s, err);
    switch (sl_file_kind(s->path)) {
    case SL_FILE_DIR:
        s->form = SL_SOURCE_FOLDER;
        rc = sl_conf_files(&s->config, &s->generation, s->path, err);
        break;
    case SL_FILE_REGULAR:
        s->form = SL_SOURCE_GGUF;
        rc = sl_ckpt_open(&s->ckpt, s->path, err);
        if (rc)
            return rc;
        s->meta = sl_ckpt_gguf(s->ckpt);
        names = &sl_conf_gguf_names;
        rc = sl_conf_gguf(&s->config, &s->generation, s->ckpt, err);
        break;
    default:
        return sl_fail(err, SL_ENOTFOUND,
                       "there is no model at '%.300s'; give the folder of a "
                       "checkpoint or a GGUF file",
                       s->path);
    }
    if (rc)
        return rc;
    rc = sl_conf_from(&s->conf, s->config, s->generation, names, err);
    return names ? sl_wrap(err, rc, "'%.300s'", s->path) : rc;
}

/* None of the family is without, and pages of keys and values would have no
 * size. */
static int check_kinds(const struct sl_source *s, struct sl_err *err)
{
    for (uint32_t i = 0; i < s->conf.n_layer; i++)
        if (s->conf.kind[i] == SL_LAYER_FULL)
            return 0;
    return sl_fail(err, SL_EUNSUP,
                   "none of the %u layers of '%.300s' has full attention; "
                   "models of this family have some",
                   s->conf.n_layer, s->path);
}

int sl_source_open(struct sl_source **out, const char *path, struct sl_err *err)
{
    struct sl_source *s = NULL;
    int rc = sl_mem_alloc(&s, 1, sizeof(*s), "a model", err);

    if (!rc)
        rc = sl_mem_dup(&s->path, path, strlen(path), err);
    if (!rc)
        rc = fill(s, err);
    if (!rc)
        rc = check_kinds(s, err);
    if (rc)
        sl_source_close(&s);
    else
        *out = s;
    return rc;
}

void sl_source_close(struct sl_source **ps)
{
    struct sl_source *s = *ps;

    if (!s)
        return;
    *ps = NULL;
    sl_gguf_close(&s->own_meta);
    sl_packed_close(&s->packed);
    sl_ckpt_close(&s->ckpt);
    json_decref(s->config);
    json_decref(s->generation);
    sl_mem_free(s->path);
    sl_mem_free(s);
}

int sl_source_tensors(struct sl_source *s, struct sl_err *err)
{
    return s->ckpt || s->packed ? 0 : sl_ckpt_open(&s->ckpt, s->path, err);
}

int sl_source_tokenizer(struct sl_tokenizer **out, const struct sl_source *s,
                        struct sl_err *err)
{
    if (s->meta)
        return sl_meta_tokenizer(out, s->meta, err);
    return sl_tokenizer_load(out, s->path, err);
}

/* A text file of a folder; NULL when it is not there. */
static int read_text(char **text, size_t *len, const char *dir,
                     const char *name, struct sl_err *err)
{
    char path[4096];
    int rc = sl_path_join(path, sizeof(path), dir, name, err);

    if (rc || sl_file_kind(path) == SL_FILE_NONE)
        return rc;
    return sl_file_read(text, len, path, MAX_CHAT, err);
}

static int chat_of_folder(struct sl_chat **out, const struct sl_source *s,
                          const char *jinja, size_t n_jinja, struct sl_err *err)
{
    char *conf = NULL;
    size_t len = 0;
    int rc;

    if (!jinja)
        return sl_chat_load(out, s->path, err);
    rc = read_text(&conf, &len, s->path, TOKENIZER_CONFIG, err);
    if (!rc)
        rc = sl_chat_parse(out, jinja, n_jinja, conf, len, OPTION, err);
    sl_file_free(conf);
    return rc;
}

int sl_source_chat(struct sl_chat **out, const struct sl_source *s,
                   const char *jinja, size_t n_jinja, struct sl_err *err)
{
    const char *own = NULL;
    char *conf = NULL;
    size_t n_own = 0;
    int rc;

    if (!s->meta)
        return chat_of_folder(out, s, jinja, n_jinja, err);
    rc = sl_meta_chat(&own, &n_own, &conf, s->meta, err);
    if (!rc && jinja)
        rc =
            sl_chat_parse(out, jinja, n_jinja, conf, strlen(conf), OPTION, err);
    else if (!rc)
        rc = sl_chat_parse(out, own, n_own, conf, strlen(conf), TEMPLATE, err);
    sl_mem_free(conf);
    return sl_wrap(err, rc, "chat template of '%.300s'", s->path);
}

/* --- the template, for other files --- */

static void put_string(struct sl_gguf_out *o, const char *key, const json_t *v)
{
    if (json_is_string(v))
        sl_gguf_out_str(o, key, json_string_value(v), json_string_length(v));
}

/* A template, or a list of them with names; but not the first when a file of
 * its own wins over it. */
static void put_of_conf(struct sl_gguf_out *o, const json_t *t, bool first)
{
    size_t i;
    const json_t *e;

    if (first)
        put_string(o, TEMPLATE, t);
    json_array_foreach(t, i, e)
    {
        const char *name = json_string_value(json_object_get(e, "name"));
        const json_t *text = json_object_get(e, "template");

        if (name && first && !strcmp(name, "default"))
            put_string(o, TEMPLATE, text);
        else if (name && first && !strcmp(name, "tool_use"))
            put_string(o, TEMPLATE ".tool_use", text);
    }
}

static int put_of_folder(struct sl_gguf_out *o, const char *dir,
                         struct sl_err *err)
{
    char *jinja = NULL, *conf = NULL;
    size_t n_jinja = 0, n_conf = 0;
    json_t *j = NULL;
    int rc = read_text(&jinja, &n_jinja, dir, "chat_template.jinja", err);

    if (!rc)
        rc = read_text(&conf, &n_conf, dir, TOKENIZER_CONFIG, err);
    if (!rc && conf)
        rc = sl_json_parse(&j, conf, n_conf, TOKENIZER_CONFIG, err);
    if (!rc && jinja)
        sl_gguf_out_str(o, TEMPLATE, jinja, n_jinja);
    if (!rc)
        put_of_conf(o, json_object_get(j, "chat_template"), !jinja);
    json_decref(j);
    sl_file_free(jinja);
    sl_file_free(conf);
    return rc;
}

int sl_source_put_chat(struct sl_gguf_out *o, const struct sl_source *s,
                       struct sl_err *err)
{
    static const char *const keys[] = {TEMPLATE, TEMPLATE ".tool_use"};
    int rc = 0;

    if (!s->meta)
        return put_of_folder(o, s->path, err);
    for (size_t i = 0; !rc && i < SL_COUNTOF(keys); i++) {
        const char *text = NULL;
        size_t len = 0;

        rc = sl_gguf_str(&text, &len, s->meta, keys[i], false, err);
        if (!rc && text)
            sl_gguf_out_str(o, keys[i], text, len);
    }
    return rc;
}

/* --- the rest --- */

/* Of one file: its parts, its alignment, how it was quantised, the heads that
 * it drafts with. Lists about tokens have other lengths elsewhere. */
static bool of_one_file(const struct sl_gguf_kv *kv)
{
    static const char *const begins[] = {
        "split.",   "quantize.",   "general.alignment", "general.file_type",
        CONFIG_KEY, GENERATION_KEY};
    static const char tail[] = ".nextn_predict_layers";
    size_t n = strlen(kv->key);

    for (size_t i = 0; i < SL_COUNTOF(begins); i++)
        if (!strncmp(kv->key, begins[i], strlen(begins[i])))
            return true;
    return (n > strlen(tail) && !strcmp(kv->key + n - strlen(tail), tail)) ||
           (kv->kind == SL_GGUF_ARR &&
            !strncmp(kv->key, "tokenizer.ggml.", strlen("tokenizer.ggml.")));
}

void sl_source_put_rest(struct sl_gguf_out *o, const struct sl_source *s)
{
    for (size_t i = 0; s->meta && i < s->meta->n_kv; i++) {
        const struct sl_gguf_kv *kv = &s->meta->kv[i];

        if (!of_one_file(kv) && !sl_gguf_out_has(o, kv->key))
            sl_gguf_out_copy(o, kv);
    }
}

/* --- all of it, for packed files --- */

static int put_json(struct sl_gguf_out *o, const char *key, const json_t *j,
                    struct sl_err *err)
{
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

    if (j && !text)
        return sl_fail(err, SL_ENOMEM, "no memory is left for metadata");
    if (text)
        sl_gguf_out_str(o, key, text, strlen(text));
    free(text); /* jansson's own */
    return 0;
}

static int put_tokenizer(struct sl_gguf_out *o, const struct sl_source *s,
                         struct sl_err *err)
{
    struct sl_tokenizer *t = NULL;
    struct sl_err why = {0};
    int rc = sl_source_tokenizer(&t, s, &why);

    if (rc == SL_ENOTFOUND)
        return 0;
    if (rc)
        return sl_fail(err, (enum sl_code)rc, "%s", why.msg);
    rc = sl_meta_put_tokenizer(o, t, sl_tokenizer_n_ids(t), false, err);
    sl_tokenizer_close(&t);
    return rc;
}

int sl_source_meta(struct sl_buf *out, const struct sl_source *s,
                   struct sl_err *err)
{
    struct sl_gguf_out o;
    int rc;

    sl_gguf_out_init(&o);
    rc = put_json(&o, CONFIG_KEY, s->config, err);
    if (!rc)
        rc = put_json(&o, GENERATION_KEY, s->generation, err);
    if (!rc)
        rc = put_tokenizer(&o, s, err);
    if (!rc)
        rc = sl_source_put_chat(&o, s, err);
    sl_source_put_rest(&o, s);
    sl_buf_init(out, (size_t)1 << 30);
    if (!rc)
        rc = sl_gguf_out_head(&o, out, err);
    sl_gguf_out_deinit(&o);
    return rc;
}
