/* cli/tokenize.c - sluice tokenize MODEL TEXT: ids and pieces */
#include "cli/ready.h"
#include "cli/verb.h"

#include "base/mem.h"
#include "base/term.h"
#include "engine/convert.h"
#include "text/detokenize.h"
#include "text/tokenize.h"

/* The ids that are printed may be as many as the text has bytes. */
#define MAX_PRINT ((size_t)1 << 30) /* bytes */

/* A token as text: half characters show as U+FFFD. */
static void piece(struct sl_buf *b, const struct sl_tokenizer *t, int32_t id)
{
    /* Fails for ids that do not exist only; these come from the encoder. */
    sl_buf_reset(b);
    (void)sl_detokenize_all(t, &id, 1, false, b, NULL);
}

static int print_json(const struct sl_tokenizer *t, const struct sl_ids *ids,
                      struct sl_buf *tmp, struct sl_err *err)
{
    json_t *list = json_array(), *pieces = json_array();

    for (size_t i = 0; i < ids->len; i++) {
        json_array_append_new(list, json_integer(ids->p[i]));
        piece(tmp, t, ids->p[i]);
        json_array_append_new(pieces,
                              json_stringn(tmp->p ? tmp->p : "", tmp->len));
    }
    return sl_cli_print_json(json_pack("{s:I, s:o, s:o}", "count",
                                       (json_int_t)ids->len, "ids", list,
                                       "pieces", pieces),
                             err);
}

/* One token per line: its id, a tab, its text as a JSON string. */
static int print_lines(const struct sl_tokenizer *t, const struct sl_ids *ids,
                       struct sl_buf *tmp, struct sl_err *err)
{
    struct sl_buf b;

    sl_buf_init(&b, MAX_PRINT);
    for (size_t i = 0; i < ids->len; i++) {
        json_t *s;
        char *quoted;

        piece(tmp, t, ids->p[i]);
        s = json_stringn(tmp->p ? tmp->p : "", tmp->len);
        quoted = s ? json_dumps(s, JSON_ENCODE_ANY) : NULL;
        sl_buf_fmt(&b, "%d\t%s\n", ids->p[i], quoted ? quoted : "\"?\"");
        free(quoted); /* jansson's own */
        json_decref(s);
    }
    sl_note("%zu tokens\n", ids->len);
    return sl_cli_print(&b, "the list of tokens", err);
}

static int print(const struct sl_opts *o, const struct sl_tokenizer *t,
                 const struct sl_ids *ids, struct sl_err *err)
{
    struct sl_buf tmp;
    int rc;

    if (o->value[SL_OPT_COUNT].i && !o->value[SL_OPT_JSON].i) {
        char n[32];

        snprintf(n, sizeof(n), "%zu\n", ids->len);
        return sl_out_str(n, err);
    }
    if (o->value[SL_OPT_COUNT].i)
        return sl_cli_print_json(
            json_pack("{s:I}", "count", (json_int_t)ids->len), err);
    sl_buf_init(&tmp, 4 * SL_VOCAB_MAX_TOKEN);
    if (o->value[SL_OPT_JSON].i)
        rc = print_json(t, ids, &tmp, err);
    else
        rc = print_lines(t, ids, &tmp, err);
    sl_buf_deinit(&tmp);
    return rc;
}

static int encode(const struct sl_opts *o, const char *path, const char *text,
                  size_t len, struct sl_err *err)
{
    struct sl_tokenizer *t = NULL;
    struct sl_encoder *e = NULL;
    struct sl_ids ids;
    int rc = sl_convert_tokenizer(&t, path, err);

    sl_ids_init(&ids, SL_TOKENIZE_MAX_TEXT);
    if (!rc)
        rc = sl_encoder_open(&e, t, err);
    if (!rc)
        rc = sl_tokenize_encode(e, text, len, o->value[SL_OPT_SPECIAL].i, &ids,
                                err);
    if (!rc)
        rc = print(o, t, &ids, err);
    sl_ids_deinit(&ids);
    sl_encoder_close(&e);
    sl_tokenizer_close(&t);
    return rc;
}

int sl_cli_tokenize(const struct sl_opts *o, struct sl_err *err)
{
    struct sl_opts opts = *o;
    struct sl_cli_ready r;
    char *in = NULL;
    const char *text = NULL;
    uint32_t n_used;
    size_t len = 0;
    int rc = sl_cli_ready_init(&r, &opts, SL_WANT_SMALL, &n_used, err);

    if (!rc)
        rc =
            sl_cli_max_args(o, n_used + 1, "quote a text that has spaces", err);
    if (rc) {
        sl_cli_ready_deinit(&r);
        return rc;
    }
    if (o->n_arg > n_used && strcmp(o->arg[n_used], "-")) {
        text = o->arg[n_used];
        len = strlen(text);
    } else {
        rc = sl_in_read(&in, &len, SL_TOKENIZE_MAX_TEXT, err);
        text = in;
    }
    if (!rc)
        rc = sl_cli_text(text, len, "the text", err);
    if (!rc)
        rc = encode(o, r.path, text, len, err);
    sl_mem_free(in);
    sl_cli_ready_deinit(&r);
    return rc;
}
