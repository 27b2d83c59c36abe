/* cli/run.c - sluice run MODEL [PROMPT]: an answer, or a conversation
 *
 * A prompt goes through the model's chat template unless --raw is given. It
 * comes from the command line, from standard input ("-", or when that is no
 * terminal), or line by line from the terminal (chat.c). Everything that can be
 * refused without the model is refused before it is loaded.
 */
#include "cli/ready.h"
#include "cli/verb.h"

#include "base/file.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/term.h"
#include "cli/answer.h"
#include "cli/chat.h"
#include "cli/open.h"

#define MAX_PROMPT ((size_t)256 << 20) /* bytes; what the tokenizer takes */
#define MAX_TOOLS ((size_t)16 << 20)   /* bytes of a file of tools */
/* A seed that we choose is given back as it was: 53 bits survive JSON. */
#define SEED_BITS 53

struct run {
    const struct sl_opts *o;
    const char *path; /* borrowed from sl_cli_ready */
    const char *prompt; /* NULL: a conversation */
    size_t n_prompt;
    char *in;         /* owned: the prompt, when it was read */
    char *tools;      /* owned: the text of the file of tools, or NULL */
    json_t *messages; /* owned */
    struct sl_engine *engine;
};

/* ------------------------------------------------- before the model */

/* Options that only the chat template can honour. */
static int check_raw(const struct run *r, struct sl_err *err)
{
    static const enum sl_opt_id chat[] = {SL_OPT_SYSTEM, SL_OPT_TOOLS,
                                          SL_OPT_THINK, SL_OPT_CHAT_TEMPLATE};

    if (!r->o->value[SL_OPT_RAW].i)
        return 0;
    for (size_t i = 0; i < SL_COUNTOF(chat); i++)
        if (sl_opts_has(r->o, chat[i]))
            return sl_fail(err, SL_EARG,
                           "--raw passes by the chat template, so --%s would "
                           "do nothing; remove one of them",
                           sl_opt_get(chat[i])->name);
    if (!r->prompt)
        return sl_fail(err, SL_EARG,
                       "--raw needs a prompt; give one, or '-' "
                       "to read it from standard input");
    return 0;
}

static int get_prompt(struct run *r, uint32_t n_used, struct sl_err *err)
{
    const struct sl_opts *o = r->o;
    bool given = o->n_arg > n_used;
    int rc = 0;

    if (given && strcmp(o->arg[n_used], "-")) {
        r->prompt = o->arg[n_used];
        r->n_prompt = strlen(r->prompt);
    } else if (given || !sl_term_is_tty(SL_STDIN)) {
        rc = sl_in_read(&r->in, &r->n_prompt, MAX_PROMPT, err);
        r->prompt = r->in;
    } else if (o->value[SL_OPT_JSON].i) {
        rc = sl_fail(err, SL_EARG,
                     "--json needs a prompt; give one, or '-' to "
                     "read it from standard input");
    }
    if (!rc && r->prompt && r->n_prompt == 0)
        rc = sl_fail(err, SL_EARG, "the prompt is empty; write some words");
    if (!rc && r->prompt)
        rc = sl_cli_text(r->prompt, r->n_prompt, "the prompt", err);
    if (!rc && o->value[SL_OPT_SYSTEM].s)
        rc = sl_cli_text(o->value[SL_OPT_SYSTEM].s,
                         strlen(o->value[SL_OPT_SYSTEM].s), "--system", err);
    for (uint32_t i = 0; !rc && i < o->n_list; i++)
        rc = *o->list[i]
                 ? sl_cli_text(o->list[i], strlen(o->list[i]), "--stop", err)
                 : sl_fail(err, SL_EARG, "--stop is empty");
    return rc;
}

static int get_tools(struct run *r, struct sl_err *err)
{
    const char *path = r->o->value[SL_OPT_TOOLS].s;
    json_t *j = NULL;
    size_t n;
    int rc;

    if (!path)
        return 0;
    rc = sl_file_read(&r->tools, &n, path, MAX_TOOLS, err);
    if (!rc)
        rc = sl_json_parse(&j, r->tools, n, path, err);
    if (!rc && !json_is_array(j))
        rc = sl_fail(err, SL_EFORMAT,
                     "'%.300s' must hold a JSON array of tools", path);
    json_decref(j);
    return sl_wrap(err, rc, "--tools");
}

static int get_messages(struct run *r, struct sl_err *err)
{
    const char *system = r->o->value[SL_OPT_SYSTEM].s;
    bool bad = false;

    r->messages = json_array();
    if (system)
        bad |= json_array_append_new(
            r->messages,
            json_pack("{s:s, s:s}", "role", "system", "content", system));
    if (r->prompt)
        bad |= json_array_append_new(
            r->messages, json_pack("{s:s, s:s%}", "role", "user", "content",
                                   r->prompt, r->n_prompt));
    return bad ? sl_fail(err, SL_ENOMEM, "no memory is left for the prompt")
               : 0;
}

static void set_f(float *out, const struct sl_opts *o, enum sl_opt_id id)
{
    if (sl_opts_has(o, id))
        *out = (float)o->value[id].f;
}

static void gen_opts(const struct run *r, struct sl_gen_opts *go)
{
    const struct sl_opts *o = r->o;

    sl_gen_opts_init(go, r->engine);
    set_f(&go->temperature, o, SL_OPT_TEMPERATURE);
    set_f(&go->top_p, o, SL_OPT_TOP_P);
    set_f(&go->min_p, o, SL_OPT_MIN_P);
    set_f(&go->presence_penalty, o, SL_OPT_PRESENCE_PENALTY);
    set_f(&go->frequency_penalty, o, SL_OPT_FREQUENCY_PENALTY);
    set_f(&go->repetition_penalty, o, SL_OPT_REPETITION_PENALTY);
    if (sl_opts_has(o, SL_OPT_TOP_K))
        go->top_k = (int32_t)o->value[SL_OPT_TOP_K].i;
    go->max_tokens = (uint32_t)o->value[SL_OPT_MAX_TOKENS].i;
    go->ignore_eos = o->value[SL_OPT_IGNORE_EOS].i;
    go->has_seed = true;
    go->seed = sl_opts_has(o, SL_OPT_SEED)
                   ? (uint64_t)o->value[SL_OPT_SEED].i
                   : sl_machine_random() >> (64 - SEED_BITS);
    go->stop = o->list;
    go->n_stop = o->n_list;
    go->tools = r->tools;
    if (sl_opts_has(o, SL_OPT_THINK))
        go->template_kwargs = o->value[SL_OPT_THINK].i
                                  ? "{\"enable_thinking\":true}"
                                  : "{\"enable_thinking\":false}";
}

/* --------------------------------------------------------- the answer */

static int print_json(const struct run *r, const struct sl_answer *a,
                      double load_s, struct sl_err *err)
{
    const struct sl_gen_stats *s = &a->stats;
    json_t *j = json_pack(
        "{s:s, s:s%, s:O, s:s, s:I, s:{s:i, s:i, s:i}, "
        "s:{s:i, s:i, s:i, s:f, s:f}, "
        "s:{s:f, s:f, s:f, s:f}}",
        "model", r->path, "text", a->text.p ? a->text.p : "", a->text.len,
        "ids", a->ids, "finish", sl_finish_name(a->finish), "seed",
        (json_int_t)a->seed, "usage", "prompt_tokens", (int)s->n_prompt,
        "cached_tokens", (int)s->n_cached, "completion_tokens",
        (int)s->n_output, "drafts", "rounds", (int)s->n_round, "proposed",
        (int)s->n_draft, "accepted", (int)s->n_accept, "break_even",
        s->plain_s > 0 ? s->round_s / s->plain_s : 0, "plain_tokens_per_s",
        s->plain_s > 0 ? 1 / s->plain_s : 0, "timings", "load_s",
        load_s, "queue_s", s->queue_s, "prefill_s", s->prefill_s, "decode_s",
        s->decode_s);

    return sl_cli_print_json(j, err);
}

static int print_end(const struct run *r, const struct sl_answer *a,
                     double load_s, struct sl_err *err)
{
    int rc = 0;

    if (r->o->value[SL_OPT_JSON].i)
        return print_json(r, a, load_s, err);
    /* A file gets the answer and nothing else. */
    if (sl_term_is_tty(SL_STDOUT))
        rc = sl_out_str("\n", err);
    else
        sl_note("\n"); /* both may end on the same screen */
    if (!rc)
        sl_answer_note(a);
    return rc;
}

/* Dummy weights need no files but config.json; without a tokenizer every byte
 * of the prompt is a token. */
static int bytes_as_ids(int32_t **out, const struct run *r, struct sl_err *err)
{
    char path[SL_CLI_PATH];
    int rc = sl_path_join(path, sizeof(path), r->path, "tokenizer.json", err);

    if (rc || !r->o->value[SL_OPT_LOAD_FORMAT].i ||
        sl_file_kind(path) != SL_FILE_NONE)
        return rc;
    rc = sl_mem_alloc(out, r->n_prompt, sizeof(**out), "the prompt", err);
    for (size_t i = 0; !rc && i < r->n_prompt; i++)
        (*out)[i] = (unsigned char)r->prompt[i];
    return rc;
}

static int one_shot(struct run *r, struct sl_gen_opts *go, double load_s,
                    struct sl_err *err)
{
    struct sl_answer a = {0};
    int32_t *ids = NULL;
    char *text = NULL;
    int rc = bytes_as_ids(&ids, r, err);

    if (rc)
        return rc;
    if (ids) {
        go->ids = ids;
        go->n_ids = r->n_prompt;
    } else if (r->o->value[SL_OPT_RAW].i) {
        go->text = r->prompt;
        go->n_text = r->n_prompt;
    } else {
        text = json_dumps(r->messages, JSON_COMPACT);
        if (!text)
            return sl_fail(err, SL_ENOMEM, "no memory is left for the prompt");
        go->messages = text;
    }
    rc = sl_answer_get(&a, r->engine, go, !r->o->value[SL_OPT_JSON].i, err);
    if (!rc)
        rc = print_end(r, &a, load_s, err);
    if (!rc && a.finish == SL_FINISH_CANCEL)
        rc = sl_fail(err, SL_ECANCEL, "interrupted; the answer is not whole");
    sl_answer_deinit(&a);
    sl_mem_free(ids);
    free(text); /* jansson's own */
    return rc;
}

int sl_cli_run(const struct sl_opts *line, struct sl_err *err)
{
    struct sl_opts opts = *line; /* a bundle adds to them */
    const struct sl_opts *o = &opts;
    struct sl_cli_ready ready;
    struct run r = {.o = o};
    struct sl_gen_opts go;
    double load_s = 0;
    uint32_t n_used;
    int rc = sl_cli_ready_init(&ready, &opts, SL_WANT_ALL, &n_used, err);

    r.path = ready.path;

    if (!rc)
        rc = sl_cli_max_args(o, n_used + 1, "quote a prompt that has spaces",
                             err);
    if (!rc)
        rc = get_prompt(&r, n_used, err);
    if (!rc)
        rc = check_raw(&r, err);
    if (!rc)
        rc = get_tools(&r, err);
    if (!rc)
        rc = get_messages(&r, err);
    if (!rc)
        rc = sl_cli_open(&r.engine, &load_s, o, r.path, err);
    if (!rc) {
        gen_opts(&r, &go);
        rc = r.prompt ? one_shot(&r, &go, load_s, err)
                      : sl_chat(r.engine, &go, r.messages, err);
    }
    sl_engine_close(&r.engine);
    json_decref(r.messages);
    sl_file_free(r.tools);
    sl_mem_free(r.in);
    sl_cli_ready_deinit(&ready);
    return rc;
}
