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
 */
#include "cli/chat.h"

#include <histedit.h>
#include <locale.h>
#include <signal.h>

#include "base/buf.h"
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

        interrupt.hit = 0;
        sl_term_on_interrupt(note_interrupt, NULL);
        line = el_gets(c->edit, &n);
        sl_term_on_interrupt(NULL, NULL);
        if (!line || n <= 0) {
            how = interrupt.hit ? ASKED_INTERRUPT : ASKED_END;
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
        sl_note("/clear   forget the conversation\n"
                "/exit    end; so does Ctrl-D\n"
                "Ctrl-C   stops an answer\n"
                "A line that ends with \\ goes on.\n");
        return true;
    }
    return false;
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
    int rc = open_edit(&c, err);

    if (!rc) {
        sl_note("/help lists commands, Ctrl-D ends\n");
        rc = loop(&c, err);
    }
    close_edit(&c);
    return rc;
}
