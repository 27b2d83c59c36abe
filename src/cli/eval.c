/* cli/eval.c - sluice eval wordproblems: does the model still count right?
 *
 * The problems lie in the model's folder, one JSON object per line:
 *
 *     {"messages": [...], "answer": 12}
 *
 * All are submitted at once, greedy; the engine runs as many together as it
 * has places for. An answer is right when the number behind its last "####" is
 * the one that was asked for.
 */
#include "cli/verb.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/term.h"
#include "cli/open.h"

#define MAX_FILE ((size_t)64 << 20)
#define MAX_PROBLEM 100000
#define DEFAULT_TOKENS 512 /* of an answer; the embedded model's are shorter */
#define MAX_ANSWER_BYTES ((size_t)1 << 20)

struct problem {
    struct sl_gen *gen;
    int64_t answer;
};

struct eval {
    const struct sl_opts *o;
    struct sl_engine *engine;
    struct problem *problem; /* [n] */
    uint32_t n, n_right, n_cut;
    uint64_t n_tok;
};

static int submit(struct eval *e, const json_t *j, struct sl_err *err)
{
    struct problem *p = &e->problem[e->n];
    struct sl_gen_opts go;
    char *text = json_dumps(json_object_get(j, "messages"), JSON_COMPACT);
    int rc = sl_json_i64(&p->answer, j, "answer", true, INT64_MIN, INT64_MAX,
                         err);

    if (!rc && !text)
        rc = sl_fail(err, SL_EFORMAT, "the field 'messages' is missing");
    if (!rc) {
        sl_gen_opts_init(&go, e->engine);
        go.messages = text;
        go.temperature = 0;
        go.max_tokens = e->o->value[SL_OPT_MAX_TOKENS].i
                            ? (uint32_t)e->o->value[SL_OPT_MAX_TOKENS].i
                            : DEFAULT_TOKENS;
        rc = sl_gen_submit(&p->gen, e->engine, &go, err);
    }
    free(text); /* jansson's own */
    if (!rc)
        e->n++;
    return rc;
}

static uint32_t count_lines(const char *text, size_t len)
{
    uint32_t n = 1;

    for (size_t i = 0; i < len; i++)
        n += text[i] == '\n';
    return n;
}

/* Submit every line of the file. */
static int submit_all(struct eval *e, const char *path, struct sl_err *err)
{
    char *text = NULL;
    size_t len = 0, line = 1;
    int rc = sl_file_read(&text, &len, path, MAX_FILE, err);

    if (!rc && count_lines(text, len) > MAX_PROBLEM)
        rc = sl_fail(err, SL_EFORMAT, "'%s' has more than %d lines", path,
                     MAX_PROBLEM);
    if (!rc)
        rc = sl_mem_alloc(&e->problem, count_lines(text, len),
                          sizeof(*e->problem), "the problems", err);
    for (size_t at = 0; !rc && at < len; line++) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        json_t *j = NULL;

        if (n > 0)
            rc = sl_json_parse(&j, text + at, n, "a problem", err);
        if (j)
            rc = submit(e, j, err);
        json_decref(j);
        rc = sl_wrap(err, rc, "'%s', line %zu", path, line);
        at += n + 1;
    }
    sl_file_free(text);
    return rc;
}

/* The number behind the last "####"; false when there is none. */
static bool final_number(const char *s, size_t len, int64_t *out)
{
    static const char mark[] = "####";
    const char *at = NULL, *p = s;
    size_t n = 0, left;

    while ((p = memmem(p, len - (size_t)(p - s), mark, 4)) != NULL)
        at = p += 4;
    if (!at)
        return false;
    left = len - (size_t)(at - s);
    for (; left > 0 && *at == ' '; left--)
        at++;
    while (n < left && (at[n] == '-' || (at[n] >= '0' && at[n] <= '9')))
        n++;
    return sl_num_i64(out, at, n, INT64_MIN, INT64_MAX, "answer", NULL) == 0;
}

static int mark_one(struct eval *e, struct problem *p, struct sl_err *err)
{
    struct sl_piece piece = {0};
    struct sl_buf text;
    int64_t got;
    int rc;

    sl_buf_init(&text, MAX_ANSWER_BYTES);
    while ((rc = sl_gen_next(p->gen, &piece, err)) > 0)
        sl_buf_add(&text, piece.text, piece.n_text);
    if (rc == 0) {
        e->n_tok += piece.n_output;
        e->n_cut += piece.finish == SL_FINISH_LENGTH;
        e->n_right += text.p && final_number(text.p, text.len, &got) &&
                      got == p->answer;
    }
    sl_buf_deinit(&text);
    return rc;
}

static int report(const struct eval *e, double s, struct sl_err *err)
{
    struct sl_buf b;
    double share = e->n ? (double)e->n_right / e->n : 0;

    if (e->o->value[SL_OPT_JSON].i)
        return sl_cli_print_json(
            json_pack("{s:s, s:i, s:i, s:i, s:f, s:I, s:f}", "task",
                      "wordproblems", "n", (int)e->n, "right",
                      (int)e->n_right, "cut", (int)e->n_cut, "share", share,
                      "tokens", (json_int_t)e->n_tok, "seconds", s),
            err);
    sl_buf_init(&b, MAX_ANSWER_BYTES);
    sl_buf_fmt(&b,
               "word problems  %u of %u right (%.1f %%), %u answers cut\n"
               "time           %.1f s, %.0f tokens/s\n",
               e->n_right, e->n, 100 * share, e->n_cut, s,
               s > 0 ? (double)e->n_tok / s : 0);
    return sl_cli_print(&b, "the report", err);
}

static int evaluate(struct eval *e, const char *path, struct sl_err *err)
{
    uint64_t t0 = sl_clock_ns();
    int rc = submit_all(e, path, err);

    for (uint32_t i = 0; !rc && i < e->n; i++)
        rc = mark_one(e, &e->problem[i], err);
    if (!rc)
        rc = report(e, sl_clock_s(t0, sl_clock_ns()), err);
    for (uint32_t i = 0; i < e->n; i++)
        sl_gen_close(&e->problem[i].gen);
    sl_mem_free(e->problem);
    return rc;
}

int sl_cli_eval(const struct sl_opts *o, struct sl_err *err)
{
    char dir[SL_CLI_PATH], path[SL_CLI_PATH];
    struct eval e = {.o = o};
    bool kl = o->n_arg > 0 && !strcmp(o->arg[0], "kl");
    double load_s;
    int rc;

    if (!kl && (o->n_arg == 0 || strcmp(o->arg[0], "wordproblems")))
        return sl_fail(err, SL_EARG,
                       "'%.100s' is nothing that can be evaluated; say "
                       "'wordproblems' or 'kl'",
                       o->n_arg ? o->arg[0] : "");
    if (!sl_opts_has(o, SL_OPT_MODEL))
        return sl_fail(err, SL_EARG, "name the model with --model");
    rc = sl_cli_folder(dir, o->value[SL_OPT_MODEL].s, err);
    if (!rc && kl)
        return sl_cli_eval_kl(o, dir, err);
    if (!rc && sl_opts_has(o, SL_OPT_AGAINST))
        rc = sl_fail(err, SL_EARG, "--against is for 'eval kl'; remove it");
    if (!rc)
        rc = sl_cli_max_args(o, 1, "the model is given by --model", err);
    if (!rc)
        rc = sl_path_join(path, sizeof(path), dir, "eval/wordproblems.jsonl",
                          err);
    if (!rc && sl_file_kind(path) != SL_FILE_REGULAR)
        rc = sl_fail(err, SL_ENOTFOUND,
                     "'%s' is not there; this model brings no word problems",
                     path);
    if (!rc)
        rc = sl_cli_open(&e.engine, &load_s, o, dir, err);
    if (!rc)
        rc = evaluate(&e, path, err);
    sl_engine_close(&e.engine);
    return rc;
}
