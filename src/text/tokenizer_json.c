/* text/tokenizer_json.c - a tokenizer from tokenizer.json
 *
 * The file has up to six parts: model (vocabulary and merges), normalizer,
 * pre_tokenizer, post_processor, decoder, added_tokens. This file checks that
 * each says what we do, collects tokens and merges as arrays that borrow from
 * the JSON, and gives them to sl_tokenizer_open. Merges are "a b" or ["a",
 * "b"].
 *
 * tokenizer_config.json may list more added tokens (added_tokens_decoder), and
 * names the tokens that end and pad a text. An id has one text: two files that
 * differ about it are refused.
 *
 * truncation and padding are not read: they are about batches of examples.
 */
#include "text/tokenizer_json.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "text/vocab_json.h"

/* The largest real file has 20 MB. */
#define MAX_FILE ((size_t)256 << 20)
#define MAX_PATH 4096

#define SHOW_BYTES 80 /* of a token, in a message */
/* A span for "%.*s". */
#define SHOW(s) shown(s), (s).p

/* What is being collected; everything borrowed from `json`, `conf` and the
 * readers. */
struct part {
    json_t *json, *conf;          /* conf: NULL if there is none */
    struct sl_span vocab, merges; /* in the text; not in `json` */
    struct sl_vocab_json vocab_reader, merge_reader;
    size_t n_ids;
    struct sl_span *text;        /* [n_ids] */
    uint8_t *kind;               /* [n_ids] */
    struct sl_merge_text *merge; /* [n_merges] */
    size_t n_merges;
    struct sl_tokenizer_spec spec;
};

static struct sl_span span_of(const json_t *v)
{
    return (struct sl_span){json_string_value(v), json_string_length(v)};
}

/* Bytes to print: whole characters, not too many. */
static int shown(struct sl_span s)
{
    size_t n = sl_min(s.len, SHOW_BYTES);

    return (int)(n - sl_utf8_partial(s.p, n));
}

static bool same(struct sl_span a, struct sl_span b)
{
    return a.len == b.len && memcmp(a.p, b.p, a.len) == 0;
}

/* ---- refusing ---- */

/* "WHERE is VALUE; it must be WANT". The value is cut to a line. */
static int refuse(int code, struct sl_err *err, const char *where,
                  const json_t *v, const char *want)
{
    char *text = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    int rc = sl_fail(err, code, "%s is %.300s%s; it must be %s", where,
                     text ? text : "missing",
                     code == SL_EUNSUP ? ", which is not supported" : "", want);

    free(text); /* jansson's own */
    return rc;
}

/* Some other kind of tokenizer. */
static int unsupported(struct sl_err *err, const char *where, const json_t *v,
                       const char *want)
{
    return refuse(SL_EUNSUP, err, where, v, want);
}

/* No tokenizer at all, or a damaged one. */
static int malformed(struct sl_err *err, const char *where, const json_t *v,
                     const char *want)
{
    return refuse(SL_EFORMAT, err, where, v, want);
}

static bool is_string(const json_t *v, const char *want)
{
    return json_is_string(v) && strcmp(json_string_value(v), want) == 0;
}

/* Absent, null, false, "", 0: what switches an option off. */
static bool is_off(const json_t *v)
{
    if (!v || json_is_null(v) || json_is_false(v))
        return true;
    if (json_is_string(v))
        return json_string_length(v) == 0;
    return json_is_number(v) && !(json_number_value(v) > 0) &&
           !(json_number_value(v) < 0);
}

/* The options of `obj` that must be off. */
static int all_off(const json_t *obj, const char *where, const char *const *key,
                   size_t n, struct sl_err *err)
{
    char name[240];

    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_object_get(obj, key[i]);

        if (is_off(v))
            continue;
        snprintf(name, sizeof(name), "%s%s", where, key[i]);
        return unsupported(err, name, v, "absent or off");
    }
    return 0;
}

/* ---- tokens ---- */

/* Grow the arrays so that `id` has a place. */
static int reach(struct part *p, int64_t id, struct sl_span what,
                 struct sl_err *err)
{
    size_t cap = p->n_ids;
    int rc;

    if (id < 0 || id >= SL_VOCAB_MAX_IDS)
        return sl_fail(err, SL_EFORMAT,
                       "the token '%.*s' has the id %lld, outside of 0 to %d",
                       SHOW(what), (long long)id, SL_VOCAB_MAX_IDS - 1);
    if ((size_t)id < cap)
        return 0;
    while (cap <= (size_t)id)
        cap = cap ? cap * 2 : 64;
    rc = sl_mem_resize(&p->text, cap, sizeof(*p->text), "tokens", err);
    if (!rc)
        rc = sl_mem_resize(&p->kind, cap, sizeof(*p->kind), "tokens", err);
    if (rc)
        return rc;
    memset(p->text + p->n_ids, 0, (cap - p->n_ids) * sizeof(*p->text));
    memset(p->kind + p->n_ids, 0, cap - p->n_ids);
    p->n_ids = cap;
    return 0;
}

static int put_vocab(struct part *p, struct sl_err *err)
{
    struct sl_vocab_json *r = &p->vocab_reader;
    struct sl_span text;
    int64_t id;
    int n;

    if (!p->vocab.p)
        return malformed(err, "model.vocab", NULL,
                         "an object of tokens and ids");
    n = sl_vocab_json_init(r, p->vocab, "model.vocab", err);
    if (n)
        return n;
    for (n = sl_vocab_json_token(r, &text, &id, err); n > 0;
         n = sl_vocab_json_token(r, &text, &id, err)) {
        n = reach(p, id, text, err);
        if (n)
            return n;
        if (p->kind[id])
            return sl_fail(err, SL_EFORMAT,
                           "the tokens '%.*s' and '%.*s' have the same id "
                           "%lld; this tokenizer is damaged",
                           SHOW(p->text[id]), SHOW(text), (long long)id);
        p->text[id] = text;
        p->kind[id] = SL_TOK_EXISTS;
    }
    return n;
}

/* One of the booleans of an added token. */
static int flag(bool *out, const json_t *tok, const char *key, bool dflt,
                struct sl_err *err)
{
    *out = dflt;
    return sl_json_bool(out, tok, key, false, err);
}

/* Put an added token at its id. */
static int put_added(struct part *p, json_int_t id, const json_t *tok,
                     struct sl_err *err)
{
    static const char *const off[] = {"single_word", "lstrip", "rstrip"};
    const struct sl_span text = span_of(json_object_get(tok, "content"));
    bool special, normalized;
    char where[140];
    int rc;

    if (!text.p)
        return sl_fail(err, SL_EFORMAT,
                       "the added token %lld has no text as its content",
                       (long long)id);
    rc = flag(&special, tok, "special", false, err);
    if (!rc)
        rc = flag(&normalized, tok, "normalized", !special, err);
    if (rc)
        return sl_wrap(err, rc, "the added token %lld", (long long)id);
    if (text.len == 0) /* the reference leaves it out too */
        return 0;
    snprintf(where, sizeof(where), "the added token '%.*s': ", SHOW(text));
    rc = all_off(tok, where, off, SL_COUNTOF(off), err);
    if (!rc)
        rc = reach(p, id, text, err);
    if (rc)
        return rc;
    if (p->kind[id] && !same(p->text[id], text))
        return sl_fail(err, SL_EFORMAT,
                       "the id %lld is both '%.*s' and '%.*s'; the files of "
                       "this tokenizer do not belong together",
                       (long long)id, SHOW(p->text[id]), SHOW(text));
    p->text[id] = text;
    p->kind[id] &= (uint8_t)~SL_TOK_NORMALIZED;
    p->kind[id] |= (uint8_t)(SL_TOK_EXISTS | SL_TOK_ADDED |
                             (special ? SL_TOK_SPECIAL : 0) |
                             (normalized ? SL_TOK_NORMALIZED : 0));
    return 0;
}

static int put_added_list(struct part *p, const json_t *list,
                          struct sl_err *err)
{
    const json_t *tok;
    size_t i;

    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list))
        return malformed(err, "added_tokens", list, "a list");
    json_array_foreach(list, i, tok)
    {
        int64_t id;
        int rc =
            sl_json_i64(&id, tok, "id", true, 0, SL_VOCAB_MAX_IDS - 1, err);

        if (!rc)
            rc = put_added(p, id, tok, err);
        if (rc)
            return sl_wrap(err, rc, "added_tokens");
    }
    return 0;
}

/* added_tokens_decoder: {"248044": {"content": ...}, ...} */
static int put_added_map(struct part *p, json_t *map, struct sl_err *err)
{
    const char *key;
    json_t *tok;

    if (!map || json_is_null(map))
        return 0;
    if (!json_is_object(map))
        return malformed(err, "added_tokens_decoder", map, "an object");
    json_object_foreach(map, key, tok)
    {
        int64_t id;
        int rc = sl_num_i64(&id, key, strlen(key), 0, SL_VOCAB_MAX_IDS - 1,
                            "a token id", err);

        if (!rc)
            rc = put_added(p, id, tok, err);
        if (rc)
            return sl_wrap(err, rc, "added_tokens_decoder");
    }
    return 0;
}

/* ---- merges ---- */

/* "a b" in m->a becomes two. */
static int split_merge(struct sl_merge_text *m, size_t i, struct sl_err *err)
{
    struct sl_span s = m->a;
    const char *sp = memchr(s.p, ' ', s.len);

    if (!sp || memchr(sp + 1, ' ', s.len - (size_t)(sp - s.p) - 1))
        return sl_fail(err, SL_EFORMAT,
                       "merge %zu is '%.*s' and must be two tokens with a "
                       "space between them; this tokenizer is damaged",
                       i, SHOW(s));
    m->a = (struct sl_span){s.p, (size_t)(sp - s.p)};
    m->b = (struct sl_span){sp + 1, s.len - m->a.len - 1};
    return 0;
}

/* A line of merges.txt that the reference skips wherever it is. */
static bool is_version(const struct sl_merge_text *m)
{
    static const char version[] = "#version";

    return m->b.len == 0 && m->a.len >= sizeof(version) - 1 &&
           memcmp(m->a.p, version, sizeof(version) - 1) == 0;
}

static int put_merges(struct part *p, struct sl_err *err)
{
    struct sl_vocab_json *r = &p->merge_reader;
    struct sl_merge_text m;
    size_t cap = 0;
    int n;

    if (!p->merges.p)
        return malformed(err, "model.merges", NULL, "a list");
    n = sl_vocab_json_init(r, p->merges, "model.merges", err);
    if (n)
        return n;
    for (n = sl_vocab_json_merge(r, &m, err); n > 0;
         n = sl_vocab_json_merge(r, &m, err)) {
        if (is_version(&m))
            continue;
        n = m.b.len ? 0 : split_merge(&m, p->n_merges, err);
        if (!n && p->n_merges == cap) {
            cap = cap ? cap * 2 : 64;
            n = sl_mem_resize(&p->merge, cap, sizeof(*p->merge), "merges", err);
        }
        if (n)
            return n;
        p->merge[p->n_merges++] = m;
    }
    return n;
}

/* ---- the parts of the file ---- */

static int read_model(struct part *p, struct sl_err *err)
{
    static const char *const off[] = {
        "dropout",
        "unk_token",
        "continuing_subword_prefix",
        "end_of_word_suffix",
        "byte_fallback",
        "ignore_merges",
    };
    json_t *model = json_object_get(p->json, "model");
    const json_t *type = json_object_get(model, "type");
    int rc;

    if (!json_is_object(model))
        return malformed(err, "model", model, "an object");
    /* Old files have no type; what has merges is BPE. */
    if (type && !is_string(type, "BPE"))
        return unsupported(err, "model.type", type, "\"BPE\"");
    rc = all_off(model, "model.", off, SL_COUNTOF(off), err);
    if (!rc)
        rc = put_vocab(p, err);
    if (!rc)
        rc = put_merges(p, err);
    return rc;
}

static int read_normalizer(struct part *p, struct sl_err *err)
{
    const json_t *n = json_object_get(p->json, "normalizer");

    if (!n || json_is_null(n))
        return 0;
    if (!is_string(json_object_get(n, "type"), "NFC"))
        return unsupported(err, "normalizer", n, "{\"type\": \"NFC\"} or null");
    p->spec.nfc = true;
    return 0;
}

static int read_split(struct part *p, const json_t *split, struct sl_err *err)
{
    const json_t *pattern = json_object_get(split, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex");
    const json_t *invert = json_object_get(split, "invert");

    if (!is_string(json_object_get(split, "type"), "Split"))
        return unsupported(err, "the first pre_tokenizer", split, "a Split");
    if (!json_is_string(regex))
        return unsupported(err, "pre_tokenizer.pattern", pattern,
                           "{\"Regex\": \"...\"}");
    if (!is_string(json_object_get(split, "behavior"), "Isolated"))
        return unsupported(err, "pre_tokenizer.behavior",
                           json_object_get(split, "behavior"), "\"Isolated\"");
    if (!is_off(invert))
        return unsupported(err, "pre_tokenizer.invert", invert, "false");
    p->spec.pattern = span_of(regex);
    return 0;
}

/* {"type": "ByteLevel"} as pre-tokenizer: without its own pattern. Both of its
 * options are on when absent. */
static int read_byte_level(const json_t *b, struct sl_err *err)
{
    if (!is_string(json_object_get(b, "type"), "ByteLevel") ||
        !json_is_false(json_object_get(b, "add_prefix_space")) ||
        !json_is_false(json_object_get(b, "use_regex")))
        return unsupported(err, "the second pre_tokenizer", b,
                           "a ByteLevel with add_prefix_space and use_regex "
                           "false");
    return 0;
}

static int read_pre_tokenizer(struct part *p, struct sl_err *err)
{
    const json_t *pre = json_object_get(p->json, "pre_tokenizer");
    const json_t *list = json_object_get(pre, "pretokenizers");
    int rc;

    if (!is_string(json_object_get(pre, "type"), "Sequence") ||
        json_array_size(list) != 2)
        return unsupported(err, "pre_tokenizer", pre,
                           "a Sequence of a Split and a ByteLevel");
    rc = read_split(p, json_array_get(list, 0), err);
    if (!rc)
        rc = read_byte_level(json_array_get(list, 1), err);
    return rc;
}

/* The post-processor may only move offsets, which we do not report. */
static int read_rest(const struct part *p, struct sl_err *err)
{
    const json_t *post = json_object_get(p->json, "post_processor");
    const json_t *dec = json_object_get(p->json, "decoder");

    if (post && !json_is_null(post) &&
        !is_string(json_object_get(post, "type"), "ByteLevel"))
        return unsupported(err, "post_processor", post,
                           "{\"type\": \"ByteLevel\"} or null");
    if (!is_string(json_object_get(dec, "type"), "ByteLevel"))
        return unsupported(err, "decoder", dec, "{\"type\": \"ByteLevel\"}");
    return 0;
}

/* ---- tokenizer_config.json ---- */

/* The id of a token that the configuration names, by text or as an object with
 * its content; -1 when it names none. */
static int named_token(int32_t *id, const struct part *p, const char *key,
                       struct sl_err *err)
{
    const json_t *v = json_object_get(p->conf, key);

    *id = -1;
    if (json_is_object(v))
        v = json_object_get(v, "content");
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_string(v))
        return malformed(err, key, v, "a token or null");
    /* From the end: there the added ones are. */
    for (size_t i = p->n_ids; i-- > 0;) {
        if (!p->kind[i] || !same(p->text[i], span_of(v)))
            continue;
        *id = (int32_t)i;
        return 0;
    }
    return sl_fail(err, SL_EFORMAT,
                   "%s in tokenizer_config.json is '%.*s', which is no token "
                   "of this vocabulary",
                   key, SHOW(span_of(v)));
}

static int read_conf(struct part *p, struct sl_err *err)
{
    static const char *const off[] = {"add_bos_token", "add_eos_token"};
    int rc;

    p->spec.eos = p->spec.pad = p->spec.bos = -1;
    if (!p->conf)
        return 0;
    rc = all_off(p->conf, "", off, SL_COUNTOF(off), err);
    if (!rc)
        rc = put_added_map(p, json_object_get(p->conf, "added_tokens_decoder"),
                           err);
    if (!rc)
        rc = named_token(&p->spec.eos, p, "eos_token", err);
    if (!rc)
        rc = named_token(&p->spec.pad, p, "pad_token", err);
    if (!rc)
        rc = named_token(&p->spec.bos, p, "bos_token", err);
    return sl_wrap(err, rc, "tokenizer_config.json");
}

static int build(struct sl_tokenizer **out, struct part *p, struct sl_err *err)
{
    int rc = read_model(p, err);

    if (!rc)
        rc = read_normalizer(p, err);
    if (!rc)
        rc = read_pre_tokenizer(p, err);
    if (!rc)
        rc = read_rest(p, err);
    if (!rc)
        rc = put_added_list(p, json_object_get(p->json, "added_tokens"), err);
    if (!rc)
        rc = read_conf(p, err);
    if (rc)
        return rc;
    while (p->n_ids > 0 && !p->kind[p->n_ids - 1])
        p->n_ids--;
    p->spec.vocab = (struct sl_vocab_spec){
        .n_ids = p->n_ids,
        .text = p->text,
        .kind = p->kind,
        .n_merges = p->n_merges,
        .merge_text = p->merge,
    };
    return sl_tokenizer_open(out, &p->spec, err);
}

/* The JSON without its two large lists, in the order they stand in. */
static int parse_rest(struct part *p, const char *s, size_t len,
                      struct sl_err *err)
{
    struct sl_span cut[2] = {p->vocab, p->merges};
    const char *at = s;
    struct sl_buf b;
    int rc;

    if (cut[0].p && cut[1].p && cut[1].p < cut[0].p) {
        cut[0] = p->merges;
        cut[1] = p->vocab;
    }
    sl_buf_init(&b, len + sizeof("nullnull"));
    for (size_t i = 0; i < SL_COUNTOF(cut); i++) {
        if (!cut[i].p)
            continue;
        sl_buf_add(&b, at, (size_t)(cut[i].p - at));
        sl_buf_str(&b, "null");
        at = cut[i].p + cut[i].len;
    }
    sl_buf_add(&b, at, (size_t)(s + len - at));
    rc = sl_buf_check(&b, "tokenizer.json", err);
    if (!rc)
        rc = sl_json_parse(&p->json, b.p, b.len, "tokenizer.json", err);
    sl_buf_deinit(&b);
    return rc;
}

int sl_tokenizer_parse(struct sl_tokenizer **out, const char *json, size_t len,
                       const char *conf, size_t conf_len, struct sl_err *err)
{
    struct part p = {0};
    int rc = sl_utf8_check(json, len, "tokenizer.json", err);

    if (rc)
        return rc;
    sl_vocab_json_find(json, len, &p.vocab, &p.merges);
    rc = parse_rest(&p, json, len, err);
    if (!rc && conf)
        rc = sl_json_parse(&p.conf, conf, conf_len, "tokenizer_config.json",
                           err);
    if (!rc)
        rc = build(out, &p, err);
    json_decref(p.json);
    json_decref(p.conf);
    sl_vocab_json_deinit(&p.vocab_reader);
    sl_vocab_json_deinit(&p.merge_reader);
    sl_mem_free(p.text);
    sl_mem_free(p.kind);
    sl_mem_free(p.merge);
    return rc;
}

int sl_tokenizer_load(struct sl_tokenizer **out, const char *dir,
                      struct sl_err *err)
{
    char path[MAX_PATH], conf_path[MAX_PATH];
    char *json = NULL, *conf = NULL;
    size_t len = 0, conf_len = 0;
    int rc = sl_path_join(path, sizeof(path), dir, "tokenizer.json", err);

    if (!rc)
        rc = sl_path_join(conf_path, sizeof(conf_path), dir,
                          "tokenizer_config.json", err);
    if (rc)
        return rc;
    if (sl_file_kind(path) == SL_FILE_NONE)
        return sl_fail(err, SL_ENOTFOUND,
                       "the folder '%s' has no tokenizer.json; fetch the "
                       "model again, with all of its files",
                       dir);
    rc = sl_file_read(&json, &len, path, MAX_FILE, err);
    if (!rc && sl_file_kind(conf_path) != SL_FILE_NONE)
        rc = sl_file_read(&conf, &conf_len, conf_path, MAX_FILE, err);
    if (!rc)
        rc = sl_tokenizer_parse(out, json, len, conf, conf_len, err);
    sl_file_free(json);
    sl_file_free(conf);
    return sl_wrap(err, rc, "loading the tokenizer of '%s'", dir);
}
