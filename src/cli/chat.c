/* cli/chat.c - a conversation at the terminal; see chat.h
 *
 * Lines are edited by libedit, which draws on standard error: standard output
 * carries answers only. A line that ends with a backslash goes on.
 *
 *                  line                       last piece, Ctrl-C
 *      ASK ---------------------> ANSWER ------------------------> ASK
 *       | Ctrl-D, /exit, Ctrl-C twice at an empty line
 *       v
 *      END
 *
 * Ctrl-C is caught for the whole conversation: what comes between two prompts
 * is found by the next one.
 */
#include "cli/chat.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <unistd.h>
#include <wchar.h>

#include "base/buf.h"
#include "base/num.h"
#include "base/term.h"
#include "cli/answer.h"
#include "cli/verb.h"

#define MAX_LINES 1000              /* that the arrow keys find; chosen */
#define MAX_WORDS ((size_t)1 << 24) /* bytes of one message */

struct chat {
    struct sl_engine *engine; /* borrowed */
    struct sl_gen_opts *opts; /* borrowed */
    json_t *messages;         /* borrowed */
    size_t n_first;           /* messages before the conversation */
    EditLine *edit;
    History *history;
    bool more; /* the line before ended with a backslash */
};

static struct {
    volatile sig_atomic_t hit;
} interrupt; /* process; set in the signal handler */

static void note_interrupt(void *ctx)
{
    (void)ctx;
    interrupt.hit = 1;
}

static const char *prompt(EditLine *e)
{
    struct chat *c = NULL;

    el_get(e, EL_CLIENTDATA, &c);
    return c && c->more ? "... " : ">>> ";
}

/* Instead of libedit's own, which may sleep in read() after a Ctrl-C that came
 * just before. 1, 0 at the end, -1: interrupted, or broken. */
static int get_char(EditLine *e, wchar_t *out)
{
    mbstate_t state = {0};
    char c;

    (void)e;
    for (;;) {
        ssize_t n;
        size_t k;

        if (!sl_in_wait(&interrupt.hit))
            return -1;
        n = read(STDIN_FILENO, &c, 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return (int)n;
        k = mbrtowc(out, &c, 1, &state);
        if (k == (size_t)-1)
            state = (mbstate_t){0}; /* no character; the next byte may be one */
        else if (k != (size_t)-2)
            return 1;
    }
}

static int open_edit(struct chat *c, struct sl_err *err)
{
    HistEvent ev;
    const char *set = setlocale(LC_CTYPE, "");

    /* Without a locale, libedit takes every byte for a character. */
    if (!set || !strcmp(set, "C") || !strcmp(set, "POSIX"))
        setlocale(LC_CTYPE, "C.UTF-8");
    c->edit = el_init("sluice", stdin, stderr, stderr);
    c->history = history_init();
    if (!c->edit || !c->history)
        return sl_fail(err, SL_ENOMEM, "no memory is left to edit lines");
    history(c->history, &ev, H_SETSIZE, MAX_LINES);
    history(c->history, &ev, H_SETUNIQUE, 1);
    el_set(c->edit, EL_CLIENTDATA, c);
    el_set(c->edit, EL_PROMPT, prompt);
    el_set(c->edit, EL_GETCFN, get_char);
    el_set(c->edit, EL_EDITOR, "emacs");
    el_set(c->edit, EL_HIST, history, c->history);
    el_source(c->edit, NULL); /* the user's ~/.editrc */
    return 0;
}

static void close_edit(struct chat *c)
{
    if (c->edit)
        el_end(c->edit);
    if (c->history)
        history_end(c->history);
}

enum asked { ASKED_TEXT, ASKED_END, ASKED_INTERRUPT };

/* One message of the user, perhaps of several lines, into `b`. */
static enum asked ask(struct chat *c, struct sl_buf *b)
{
    enum asked how = ASKED_TEXT;
    HistEvent ev;

    sl_buf_reset(b);
    for (c->more = false;;) {
        int n = 0;
        const char *line;

        line = el_gets(c->edit, &n);
        if (!line || n <= 0) {
            how = interrupt.hit ? ASKED_INTERRUPT : ASKED_END;
            interrupt.hit = 0;
            break;
        }
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            n--;
        c->more = n > 0 && line[n - 1] == '\\';
        sl_buf_add(b, line, (size_t)n - c->more);
        if (!c->more)
            break;
        sl_buf_byte(b, '\n');
    }
    if (how == ASKED_TEXT && b->p && b->len > 0)
        history(c->history, &ev, H_ENTER, b->p);
    return how;
}

/* The words behind a command, or NULL when the line is another one. */
static const char *behind(const char *line, const char *command)
{
    size_t n = strlen(command);

    if (strncmp(line, command, n) || (line[n] && line[n] != ' '))
        return NULL;
    return line + n + strspn(line + n, " ");
}

static void set_temperature(struct chat *c, const char *words)
{
    struct sl_err err = {0};
    double t = (double)c->opts->temperature;

    if (*words &&
        sl_num_f64(&t, words, strlen(words), 0, 2, "/temperature", &err))
        sl_note("sluice: %s\n", err.msg);
    c->opts->temperature = (float)t;
    sl_note("temperature %g\n", t);
}

/* The system prompt is the first message; an empty one takes it away. */
static void set_system(struct chat *c, const char *words)
{
    const char *role = json_string_value(
        json_object_get(json_array_get(c->messages, 0), "role"));

    if (role && !strcmp(role, "system")) {
        json_array_remove(c->messages, 0);
        c->n_first -= c->n_first > 0;
    }
    if (!*words) {
        sl_note("no system prompt\n");
        return;
    }
    if (!json_array_insert_new(
            c->messages, 0,
            json_pack("{s:s, s:s}", "role", "system", "content", words)))
        c->n_first++;
    sl_note("system prompt set\n");
}

static void save(struct chat *c, const char *path)
{
    if (!*path)
        sl_note("sluice: /save FILE\n");
    else if (json_dump_file(c->messages, path, JSON_INDENT(1)))
        sl_note("sluice: '%s' cannot be written\n", path);
    else
        sl_note("%zu messages in %s\n", json_array_size(c->messages), path);
}

static void load(struct chat *c, const char *path)
{
    struct sl_err err = {0};
    json_t *m = NULL;

    if (!*path) {
        sl_note("sluice: /load FILE\n");
        return;
    }
    if (sl_json_load(&m, path, MAX_WORDS, &err)) {
        sl_note("sluice: %s\n", err.msg);
        return;
    }
    if (json_is_array(m)) {
        json_array_clear(c->messages);
        json_array_extend(c->messages, m);
        c->n_first = 0;
        sl_note("%zu messages from %s\n", json_array_size(m), path);
    } else {
        sl_note("sluice: '%s' holds no array of messages\n", path);
    }
    json_decref(m);
}

/* Commands that take words; true when it was one. */
static bool is_setting(struct chat *c, const char *line)
{
    static const struct {
        const char *name;
        void (*run)(struct chat *c, const char *words);
    } all[] = {{"/temperature", set_temperature},
               {"/system", set_system},
               {"/save", save},
               {"/load", load}};

    for (size_t i = 0; i < SL_COUNTOF(all); i++) {
        const char *words = behind(line, all[i].name);

        if (words) {
            all[i].run(c, words);
            return true;
        }
    }
    return false;
}

static bool is_command(struct chat *c, const char *line, bool *end)
{
    *end = !strcmp(line, "/exit") || !strcmp(line, "/bye");
    if (*end)
        return true;
    if (!strcmp(line, "/clear")) {
        while (json_array_size(c->messages) > c->n_first)
            json_array_remove(c->messages, c->n_first);
        sl_note("the conversation starts anew\n");
        return true;
    }
    if (!strcmp(line, "/help") || !strcmp(line, "/?")) {
        sl_note("/clear            forget the conversation\n"
                "/system WORDS     set the system prompt; without words: none\n"
                "/temperature X    0 to 2; without a number: show it\n"
                "/save, /load FILE the conversation, as a JSON array\n"
                "/exit             end; so does Ctrl-D\n"
                "Ctrl-C            stops an answer\n"
                "A line that ends with \\ goes on.\n");
        return true;
    }
    return is_setting(c, line);
}

static int say(struct chat *c, const char *role, const char *text, size_t n,
               struct sl_err *err)
{
    json_t *m = json_pack("{s:s, s:s%}", "role", role, "content", text, n);

    if (json_array_append_new(c->messages, m))
        return sl_fail(err, SL_ENOMEM, "no memory is left for a message");
    return 0;
}

/* A failed answer takes the question with it, so that the user can go on. */
static int answer(struct chat *c, struct sl_err *err)
{
    char *text = json_dumps(c->messages, JSON_COMPACT);
    struct sl_answer a = {0};
    int rc;

    if (!text)
        return sl_fail(err, SL_ENOMEM, "no memory is left for the messages");
    c->opts->messages = text;
    rc = sl_answer_get(&a, c->engine, c->opts, true, err);
    c->opts->messages = NULL;
    free(text); /* jansson's own */
    if (!rc)
        rc = sl_out_str("\n", err);
    if (!rc) {
        sl_answer_note(&a);
        rc = say(c, "assistant", a.text.p ? a.text.p : "", a.text.len, err);
    } else {
        json_array_remove(c->messages, json_array_size(c->messages) - 1);
    }
    sl_answer_deinit(&a);
    return rc;
}

/* One turn; *end when the user is done. */
static int turn(struct chat *c, struct sl_buf *b, bool *end, struct sl_err *err)
{
    int rc = sl_buf_check(b, "the message", err);

    if (rc || !b->p || b->len == 0 || is_command(c, b->p, end))
        return rc;
    rc = sl_cli_text(b->p, b->len, "the message", err);
    if (!rc)
        rc = say(c, "user", b->p, b->len, err);
    return rc ? rc : answer(c, err);
}

/* Failures of one turn that leave the conversation alive. */
static bool is_survivable(int rc)
{
    return rc == SL_EARG || rc == SL_EFORMAT || rc == SL_EBUSY ||
           rc == SL_ECANCEL;
}

static int loop(struct chat *c, struct sl_err *err)
{
    struct sl_buf b;
    bool end = false, warned = false;
    int rc = 0;

    sl_buf_init(&b, MAX_WORDS);
    while (!end && !rc) {
        enum asked how = ask(c, &b);

        if (how == ASKED_INTERRUPT) {
            end = warned;
            sl_note("%s\n", end ? "" : "\n(Ctrl-C again or Ctrl-D ends)");
            warned = true;
            continue;
        }
        warned = false;
        if (how == ASKED_END) {
            sl_note("\n");
            break;
        }
        rc = turn(c, &b, &end, err);
        if (is_survivable(rc)) {
            sl_note("sluice: %s\n", err->msg);
            rc = 0;
        }
    }
    sl_buf_deinit(&b);
    return rc;
}

int sl_chat(struct sl_engine *e, struct sl_gen_opts *opts, json_t *messages,
            struct sl_err *err)
{
    struct chat c = {.engine = e,
                     .opts = opts,
                     .messages = messages,
                     .n_first = json_array_size(messages)};
    struct sl_on_interrupt before;
    int rc;

    interrupt.hit = 0;
    before =
        sl_term_on_interrupt((struct sl_on_interrupt){note_interrupt, NULL});
    rc = open_edit(&c, err);
    if (!rc) {
        sl_note("/help lists commands, Ctrl-D ends\n");
        rc = loop(&c, err);
    }
    close_edit(&c);
    (void)sl_term_on_interrupt(before);
    return rc;
}
