/* cli/complete.c - completion of the shell, out of the table of options
 *
 * Both shells get one function. It completes the verb, then flags of the verb,
 * then the words of a choice; a flag that takes a path gets files, and so does
 * what is no flag. Nothing is asked of the program while completing, so it is
 * as fast as the shell.
 */
#include "cli/complete.h"

static bool takes_path(const struct sl_opt *d)
{
    return !strcmp(d->arg, "FILE") || !strcmp(d->arg, "DIR") ||
           !strcmp(d->arg, "MODEL");
}

/* The words of "a|b|other=a" that are not other spellings. */
static void add_words(struct sl_buf *b, const char *list)
{
    const char *sep = "";

    while (*list) {
        size_t n = strcspn(list, "|");

        if (!memchr(list, '=', n)) {
            sl_buf_fmt(b, "%s%.*s", sep, (int)n, list);
            sep = " ";
        }
        list += n + (list[n] == '|');
    }
}

/* For single quotes. */
static void add_quoted(struct sl_buf *b, const char *s)
{
    for (; *s; s++)
        if (*s == '\'')
            sl_buf_str(b, "'\\''");
        else
            sl_buf_byte(b, *s);
}

static bool is_of(const struct sl_opt *d, enum sl_verb verb)
{
    return (d->verbs & (uint32_t)verb) != 0;
}

/* A case per flag that takes a value: its words, files, or nothing. */
static void add_values(struct sl_buf *b, const char *name, enum sl_verb verb,
                       bool zsh)
{
    for (int i = 0; i < SL_N_OPT; i++) {
        const struct sl_opt *d = sl_opt_get((enum sl_opt_id)i);

        if (!is_of(d, verb) || d->type == SL_VAL_BOOL)
            continue;
        sl_buf_fmt(b, "    %s/--%s) ", name, d->name);
        if (d->type == SL_VAL_CHOICE) {
            sl_buf_str(b, zsh ? "compadd -- " : "words='");
            add_words(b, d->arg);
            sl_buf_str(b, zsh ? "; return ;;\n" : "' ;;\n");
        } else if (takes_path(d)) {
            sl_buf_str(b, zsh ? "_files; return ;;\n" : "files=1 ;;\n");
        } else {
            sl_buf_str(b, zsh ? "return ;;\n" : "return ;;\n");
        }
    }
}

void sl_cli_complete(struct sl_buf *b, bool zsh,
                     const struct sl_cli_complete *verb, size_t n)
{
    sl_buf_str(b, zsh ? "#compdef sluice\n" : "");
    sl_buf_str(b, "# Made by scripts/manuals from the table of options.\n"
                  "_sluice() {\n");
    if (zsh)
        sl_buf_str(b, "    local verb=${words[2]} prev=${words[CURRENT-1]}\n"
                      "    local -a list\n"
                      "    if (( CURRENT == 2 )); then\n        list=(\n");
    else
        sl_buf_str(
            b, "    local cur=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]}\n"
               "    local prev=${COMP_WORDS[COMP_CWORD - 1]} words= files=\n"
               "    COMPREPLY=()\n"
               "    [ \"$cur\" = '=' ] && cur=\n"
               "    [ \"$prev\" = '=' ] && "
               "prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
               "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
               "        COMPREPLY=($(compgen -W 'help");
    for (size_t i = 0; i < n; i++) {
        sl_buf_fmt(b, zsh ? "            '%s:" : " %s", verb[i].name);
        if (zsh) {
            add_quoted(b, verb[i].does);
            sl_buf_str(b, "'\n");
        }
    }
    sl_buf_str(b, zsh ? "        )\n        _describe verb list\n"
                      : "' -- \"$cur\"))\n");
    sl_buf_str(b, "        return\n    fi\n    case $verb/$prev in\n");
    for (size_t i = 0; i < n; i++)
        add_values(b, verb[i].name, verb[i].verb, zsh);
    sl_buf_str(b, "    esac\n");
    sl_buf_str(b, zsh ? "    if [[ $PREFIX != -* ]]; then\n"
                        "        compadd demo\n        _files\n"
                        "        return\n    fi\n"
                      : "    case $words$files$cur in -*)\n");
    sl_buf_str(b, "    case $verb in\n");
    for (size_t i = 0; i < n; i++) {
        sl_buf_fmt(b, zsh ? "    %s) list=(\n" : "    %s) words='",
                   verb[i].name);
        for (int k = 0; k < SL_N_OPT; k++) {
            const struct sl_opt *d = sl_opt_get((enum sl_opt_id)k);

            if (!is_of(d, verb[i].verb))
                continue;
            if (zsh) {
                sl_buf_fmt(b, "        '--%s:", d->name);
                add_quoted(b, d->help);
                sl_buf_str(b, "'\n");
            } else {
                sl_buf_fmt(b, "--%s ", d->name);
            }
        }
        sl_buf_str(b, zsh ? "        ) ;;\n" : "' ;;\n");
    }
    sl_buf_str(b, "    esac\n");
    sl_buf_str(b, zsh ? "    _describe option list\n}\n_sluice \"$@\"\n"
                      : "    esac\n"
                        "    if [ -n \"$words\" ]; then\n"
                        "        COMPREPLY=($(compgen -W \"$words\" -- "
                        "\"$cur\"))\n"
                        "    else\n"
                        "        COMPREPLY=($(compgen -f -- \"$cur\") "
                        "$(compgen -W demo -- \"$cur\"))\n"
                        "    fi\n}\n"
                        "complete -o filenames -F _sluice sluice\n");
}
