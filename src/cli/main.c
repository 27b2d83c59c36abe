/* cli/main.c - the program `sluice`
 *
 * main finds the verb, has its options parsed (base/option.h), calls it, and is
 * the only place that reports an error: one line on standard error. Exit
 * statuses are those of the table `exit_of`.
 */
#include "cli/complete.h"
#include "cli/verb.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/term.h"
#include "base/utf8.h"
#include "cli/open.h"
#include "sluice/sluice.h"

#define MAX_PAGE ((size_t)1 << 20) /* bytes of help or of a manual page */

extern char **environ;

struct verb {
    const char *name;
    enum sl_verb verb;
    sl_verb_fn *run;
    const char *args; /* as usage shows them */
    const char *does; /* in a line, no full stop */
    const char *text; /* the description of the manual page */
};

static const struct verb verbs[] = {
    {"run", SL_VERB_RUN, sl_cli_run, "MODEL [PROMPT]",
     "an answer, or a conversation",
     "Answers PROMPT, or holds a conversation when there is none and standard "
     "input is a terminal. With '-', or when it is none, the prompt comes from "
     "standard input. MODEL is a checkpoint folder, or 'demo' for the embedded "
     "model. Standard output carries the answer only; progress and rates go to "
     "standard error. Ctrl-C stops the answer."},
    {"serve", SL_VERB_SERVE, sl_cli_serve, "MODEL",
     "answer over HTTP, as OpenAI's API does",
     "Listens on --host and --port and answers /v1/chat/completions, "
     "/v1/completions, /v1/models, /tokenize, /metrics, /health and others. A "
     "browser gets a page to chat with at /. Answers are held to a shape by "
     "response_format, structured_outputs and tool_choice. SIGTERM "
     "lets what runs come to its end; a second one stops at once. SIGHUP reads "
     "keys and certificate again and ends nothing; when one of them cannot be "
     "used, both stay as they were."},
    {"pull", SL_VERB_PULL, sl_cli_pull, "ORG/NAME",
     "fetch a model or a bundle, and verify it",
     "Asks the hub for the newest version of ORG/NAME (or of "
     "ORG/NAME@REVISION), says what will be fetched and whether there is room, "
     "fetches what is missing, and verifies it. A download that was "
     "interrupted goes on where it stopped. Files lie in the cache of the "
     "hub's own client, which other programs use, too. Prints the folder."},
    {"list", SL_VERB_LIST, sl_cli_list, "",
     "the models and bundles that were fetched",
     "Prints installed bundles and fetched models: name, revision, bytes of "
     "weights that are here, and whether this machine can serve it."},
    {"profiles", SL_VERB_PROFILES, sl_cli_profiles, "NAME",
     "the ways in which a bundle can be served",
     "Prints the profiles of a bundle: what each is for, whether this machine "
     "and this version can serve it, and the best row that was measured."},
    {"verify", SL_VERB_VERIFY, sl_cli_verify, "[NAME ...]",
     "is what was fetched still what it was",
     "Digests the files of installed bundles again, and with --weights those "
     "of the weights. Without NAME, everything that was fetched. NAME may also "
     "be a file or folder with a model: a packed file is compared with the "
     "digests it was written with, of any other form every weight is read."},
    {"rm", SL_VERB_RM, sl_cli_rm, "NAME[@REVISION]",
     "remove a bundle, or the weights of a model",
     "Removes an installed bundle. With --weights also the weights, as far as "
     "this program fetched them and nothing else needs them: no other bundle, "
     "no other revision, no other program."},
    {"gc", SL_VERB_GC, sl_cli_gc, "",
     "remove what nothing needs any more",
     "Removes versions of bundles beyond the last two, and unfinished "
     "downloads that are old; with --weights also revisions of models that "
     "are superseded and needed by nothing. --dry-run says what would go."},
    {"ps", SL_VERB_PS, sl_cli_ps, "",
     "servers of yours that run",
     "Prints every server of this user on this machine: name, process, state "
     "as it says itself, port, profile, model."},
    {"stop", SL_VERB_STOP, sl_cli_stop, "NAME",
     "end a server, and wait for it",
     "Asks a server to take no more requests and to end when those that run "
     "are answered, and waits for that. Ends by force only with --kill."},
    {"logs", SL_VERB_LOGS, sl_cli_logs, "NAME",
     "what a detached server says",
     "Prints the end of the log of a server that was started with 'serve "
     "--detach'."},
    {"search", SL_VERB_SEARCH, sl_cli_search, "TEXT",
     "models on the hub by their names",
     "Prints repositories of the hub whose name has TEXT in it: name, "
     "downloads, day of the last change."},
    {"login", SL_VERB_LOGIN, sl_cli_login, "",
     "keep a token of the hub",
     "Reads a token from standard input, asks the hub whose it is, and keeps "
     "it in the file of the hub's own client, readable by you alone."},
    {"logout", SL_VERB_LOGOUT, sl_cli_logout, "", "forget the token",
     "Removes the file that 'login' wrote. Variables are not touched."},
    {"init", SL_VERB_INIT, sl_cli_init, "[DIR] --model ORG/NAME",
     "begin a bundle",
     "Writes DIR/bundle.json for the weights of ORG/NAME, to be edited: "
     "profiles, requirements, limitations."},
    {"build", SL_VERB_BUILD, sl_cli_build, "[DIR]",
     "a bundle that can be published",
     "Checks DIR/bundle.json, resolves its revisions to commits, lists every "
     "file with its digest, and writes the result beside DIR, with "
     "serve_bundle.json. The same inputs and the same SOURCE_DATE_EPOCH give "
     "the same bytes."},
    {"push", SL_VERB_PUSH, sl_cli_push, "DIR ORG/NAME",
     "publish a built bundle",
     "Sends what 'sluice build' wrote to a repository of the hub, as one "
     "commit: only files that changed, and what the bundle no longer has is "
     "removed. A repository that is not there is made, and is private. Prints "
     "the new revision."},
    {"info", SL_VERB_INFO, sl_cli_info, "MODEL",
     "what a model is, and what it takes",
     "Prints the architecture, the dimensions, the number of parameters, the "
     "bytes of the weights by class, and what each sequence and each of its "
     "tokens takes. MODEL is a checkpoint folder, or 'demo' for the embedded "
     "model; config.json alone is enough."},
    {"tokenize", SL_VERB_TOKENIZE, sl_cli_tokenize, "MODEL [TEXT]",
     "text to token ids",
     "Prints the tokens of TEXT, one per line: the id, a tab, and the text of "
     "the token as a JSON string. Without TEXT, or with '-', the text comes "
     "from standard input."},
    {"eval", SL_VERB_EVAL, sl_cli_eval, "wordproblems | kl FILE",
     "how many held-out problems a model solves; what quantisation costs",
     "'wordproblems' gives the model of --model the problems in its "
     "eval/wordproblems.jsonl, greedily and several at a time, and counts the "
     "answers that end in the right '#### N'. 'kl' reads the text in FILE with "
     "the stored weights and with quantised ones (all presets, or that of "
     "--dtype), and prints how far the predictions are apart: KL divergence in "
     "nats, share of positions with the same first choice, correlation of the "
     "logits."},
    {"bench", SL_VERB_BENCH, sl_cli_bench, "WHAT [MODEL]",
     "how fast this machine is, and how much of it is used",
     "WHAT is one of: 'roofline', the rates at which memory is read and numbers "
     "are multiplied, of one core and of all; 'forward', steps of a whole "
     "model (--shape with --load-format dummy, or MODEL), with their share of "
     "those rates; 'kernels', products with every type of weights; 'load', "
     "opening MODEL; 'speculate', what each drafter gains, in pairs with plain "
     "decoding; 'serve', requests to a server that runs at --host and --port, "
     "with the times and the definitions of vLLM's benchmark. Figures are "
     "medians of rounds in which the bandwidth probe takes its turn. Compare "
     "within one run: machines are noisy."},
    {"convert", SL_VERB_CONVERT, sl_cli_convert, "MODEL [FILE]",
     "a model as one file: packed, or GGUF",
     "Writes FILE from MODEL, which may be a checkpoint folder, a GGUF file or "
     "a packed file. A name that ends in .gguf makes GGUF, which other programs "
     "read, and takes twice its room beside FILE until it is written; any other "
     "a packed file, which is mapped as it is (name it NAME.sluice). Without "
     "FILE the packed file is kept where run and serve look for it, and "
     "--packed-dir says where. With --dtype the weights are quantised on the "
     "way. The file appears when it is whole."},
    {"doctor", SL_VERB_DOCTOR, sl_cli_doctor, "[BUNDLE]",
     "what this machine has, and what to do about what it lacks",
     "Prints one line per check: processor, instruction sets found and used, "
     "cores, memory, huge pages, and the rate at which memory is read, which "
     "bounds how fast tokens are generated; then the cache, its locks, the hub, "
     "whether there is a token, and the clock. With BUNDLE, whether this "
     "machine has what it requires. Takes a few seconds."},
    {"version", SL_VERB_VERSION, sl_cli_version, "",
     "version, compiler, libraries",
     "Prints the version of Sluice, the compiler and flags it was built with, "
     "and the libraries it uses."},
};

static const char exit_text[] =
    "0  done\n"
    "1  any other failure\n"
    "2  a bad command line\n"
    "3  this machine or this engine cannot do it (memory, feature)\n"
    "4  not found, or no permission\n"
    "5  a file breaks the rules of its format\n"
    "6  the disk is full\n"
    "7  the network failed, or is off and something is missing\n"
    "8  busy\n"
    "130  interrupted\n";

static int exit_of(int code)
{
    switch ((enum sl_code)code) {
    case SL_OK:
        return 0;
    case SL_EARG:
        return 2;
    case SL_ENOMEM:
    case SL_EUNSUP:
        return 3;
    case SL_ENOTFOUND:
        return 4;
    case SL_EFORMAT:
        return 5;
    case SL_ENOSPACE:
        return 6;
    case SL_ENET:
        return 7;
    case SL_EBUSY:
        return 8;
    case SL_ECANCEL:
        return 130;
    case SL_EIO:
    case SL_EBUG:
        break;
    }
    return 1;
}

/* ---------------------------------------------------- shared by verbs */

int sl_cli_max_args(const struct sl_opts *o, uint32_t max, const char *want,
                    struct sl_err *err)
{
    if (o->n_arg <= max)
        return 0;
    return sl_fail(err, SL_EARG, "'%.100s' is one argument too many; %s",
                   o->arg[max], want);
}

int sl_cli_uses(const struct sl_opts *o, const struct sl_cli_use *list,
                size_t n, unsigned me, const char *what, struct sl_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (o->value[list[i].id].from == SL_FROM_LINE && !(list[i].users & me))
            return sl_fail(err, SL_EARG, "--%s means nothing to '%s %s'",
                           sl_opt_get(list[i].id)->name,
                           o->verb == SL_VERB_BENCH ? "bench" : "eval", what);
    return 0;
}

int sl_cli_text(const char *s, size_t len, const char *what, struct sl_err *err)
{
    return sl_utf8_check(s, len, what, err) ? SL_EARG : 0;
}

int sl_cli_print(struct sl_buf *b, const char *what, struct sl_err *err)
{
    int rc = sl_buf_check(b, what, err);

    if (!rc)
        rc = sl_out_write(b->p, b->len, err);
    sl_buf_deinit(b);
    return rc;
}

int sl_cli_print_json(json_t *j, struct sl_err *err)
{
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    int rc;

    json_decref(j);
    if (!text)
        return sl_fail(err, SL_ENOMEM, "no memory is left for the answer");
    rc = sl_out_str(text, err);
    free(text); /* jansson's own */
    return rc ? rc : sl_out_str("\n", err);
}

void sl_cli_bytes(char out[SL_CLI_BYTES_LEN], uint64_t bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double x = (double)bytes;
    size_t u = 0;

    while (x >= 1024 && u + 1 < SL_COUNTOF(unit)) {
        x /= 1024;
        u++;
    }
    snprintf(out, SL_CLI_BYTES_LEN, u && x < 100 ? "%.2f %s" : "%.0f %s", x,
             unit[u]);
}

/* --------------------------------------------------------------- help */

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < SL_COUNTOF(verbs); i++)
        if (!strcmp(verbs[i].name, name))
            return &verbs[i];
    return NULL;
}

static void usage(struct sl_buf *b)
{
    sl_buf_str(b, "usage: sluice VERB [ARGUMENTS] [OPTIONS]\n\n");
    for (size_t i = 0; i < SL_COUNTOF(verbs); i++)
        sl_buf_fmt(b, "  %-9s %-16s %s\n", verbs[i].name, verbs[i].args,
                   verbs[i].does);
    sl_buf_str(b, "\n'sluice VERB --help' lists the options of a verb. Each is "
                  "also a variable:\n--max-tokens is SLUICE_MAX_TOKENS. The "
                  "command line wins.\n");
}

static void verb_help(struct sl_buf *b, const struct verb *v)
{
    sl_buf_fmt(b, "usage: sluice %s%s%s [OPTIONS]\n\n%s\n\n", v->name,
               *v->args ? " " : "", v->args, v->text);
    sl_opts_help(b, v->verb);
}

/* The manual page of a verb, or of the program when v is NULL. */
static void man_page(struct sl_buf *b, const struct verb *v)
{
    sl_buf_str(b, ".\\\" Made by scripts/manuals from the table of options.\n");
    sl_buf_fmt(b,
               ".TH SLUICE%s%s 1 \"\" \"sluice\"\n.SH NAME\nsluice%s%s \\- "
               "%s\n",
               v ? "\\-" : "", v ? v->name : "", v ? "\\-" : "",
               v ? v->name : "", v ? v->does : "run language models on CPUs");
    if (!v) {
        sl_buf_str(b, ".SH SYNOPSIS\n.B sluice\nVERB [ARGUMENTS] "
                      "[OPTIONS]\n.SH VERBS\n");
        for (size_t i = 0; i < SL_COUNTOF(verbs); i++)
            sl_buf_fmt(b, ".TP\n.BR sluice\\-%s (1)\n%s.\n", verbs[i].name,
                       verbs[i].does);
        sl_buf_fmt(b, ".SH EXIT STATUS\n.nf\n%s.fi\n", exit_text);
        return;
    }
    sl_buf_fmt(b, ".SH SYNOPSIS\n.B sluice %s\n%s [OPTIONS]\n", v->name,
               v->args);
    sl_buf_fmt(b,
               ".SH DESCRIPTION\n%s\n.SH OPTIONS\nThe command line wins "
               "over the variable.\n",
               v->text);
    sl_opts_man(b, v->verb);
    sl_buf_fmt(b, ".SH EXIT STATUS\n.nf\n%s.fi\n.SH SEE ALSO\n.BR sluice (1)\n",
               exit_text);
}

static void completion(struct sl_buf *b, bool zsh)
{
    struct sl_cli_complete list[SL_COUNTOF(verbs)];

    for (size_t i = 0; i < SL_COUNTOF(verbs); i++)
        list[i] = (struct sl_cli_complete){
            .name = verbs[i].name, .verb = verbs[i].verb, .does = verbs[i].does};
    sl_cli_complete(b, zsh, list, SL_COUNTOF(verbs));
}

/* help [--man] [VERB], help --bash, help --zsh */
static int help(int argc, char **argv, struct sl_err *err)
{
    bool zsh = argc == 1 && !strcmp(argv[0], "--zsh");
    bool shell = zsh || (argc == 1 && !strcmp(argv[0], "--bash"));
    bool man = argc > 0 && !strcmp(argv[0], "--man");
    const char *name = argc > man ? argv[(int)man] : NULL;
    const struct verb *v = name ? find_verb(name) : NULL;
    struct sl_buf b;

    if (name && !v && !shell && !(man && !strcmp(name, "sluice")))
        return sl_fail(err, SL_EARG,
                       "'%.100s' is no verb; 'sluice help' lists them", name);
    sl_buf_init(&b, MAX_PAGE);
    if (shell)
        completion(&b, zsh);
    else if (man)
        man_page(&b, v);
    else if (v)
        verb_help(&b, v);
    else
        usage(&b);
    return sl_cli_print(&b, "help", err);
}

/* --------------------------------------------------------------- main */

static void log_line(void *ctx, enum sl_log_level level, const char *line)
{
    static const char *const name[] = {"debug", "info", "warning", "error"};

    (void)ctx;
    sl_note("sluice: %s: %s\n", name[level], line);
}

static void start_log(const struct sl_opts *o)
{
    /* In the order of the option's words. */
    static const enum sl_log_level level[] = {SL_LOG_WARN, SL_LOG_DEBUG,
                                              SL_LOG_INFO, SL_LOG_ERROR};

    /* Operators want to see requests. */
    if (o->verb == SL_VERB_SERVE && !sl_opts_has(o, SL_OPT_LOG_LEVEL))
        sl_log_set(log_line, NULL, SL_LOG_INFO);
    else
        sl_log_set(log_line, NULL, level[o->value[SL_OPT_LOG_LEVEL].i]);
    for (int i = 0; i < SL_N_OPT; i++)
        if (sl_opt_is_always((enum sl_opt_id)i) &&
            sl_opts_has(o, (enum sl_opt_id)i))
            sl_log(SL_LOG_INFO, "option=%s value=%s note=always",
                   sl_opt_get((enum sl_opt_id)i)->name,
                   sl_opt_get((enum sl_opt_id)i)->arg);
}

static int run_verb(const struct verb *v, int argc, char **argv,
                    struct sl_err *err)
{
    struct sl_opts o;
    int rc;

    sl_opts_init(&o, v->verb);
    rc = sl_opts_line(&o, argc - 2, argv + 2, err);
    if (!rc && o.value[SL_OPT_HELP].i) {
        char *name[] = {argv[1]};

        return help(1, name, err);
    }
    if (!rc)
        rc = sl_opts_env(&o, environ, err);
    if (!rc)
        rc = sl_cli_cpu_check(&o, err);
    if (rc)
        return rc;
    start_log(&o);
    return v->run(&o, err);
}

static int dispatch(int argc, char **argv, struct sl_err *err)
{
    const char *name = argc > 1 ? argv[1] : "";
    const struct verb *v;
    struct sl_buf b;

    if (!strcmp(name, "--version") || !strcmp(name, "-V"))
        name = "version";
    v = find_verb(name);
    if (v)
        return run_verb(v, argc, argv, err);
    if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h"))
        return help(argc - 2, argv + 2, err);
    if (argc > 1)
        return sl_fail(err, SL_EARG,
                       "'%.100s' is no verb; 'sluice help' lists them", name);
    sl_buf_init(&b, MAX_PAGE);
    usage(&b);
    sl_note("%s", b.p ? b.p : "");
    sl_buf_deinit(&b);
    return SL_EARG;
}

int main(int argc, char **argv)
{
    struct sl_err err = {0};
    int rc;

    sl_term_init();
    rc = dispatch(argc, argv, &err);
    if (rc && err.msg[0])
        sl_note("sluice: %s\n", err.msg);
    return exit_of(rc);
}
