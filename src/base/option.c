/* base/option.c - the one table of options; see option.h
 *
 * A value travels as text from every source and is parsed in one place, `set`,
 * so that a flag, a variable and a key of a profile cannot differ in what they
 * accept or in what they say when they refuse.
 */
#include "base/option.h"

#include "base/num.h"

#define MAX_NAME 48    /* bytes of the longest flag; a test compares */
#define MAX_DISTANCE 3 /* typing errors that still look like a name */

static const struct sl_opt table[] = {
#define X(id, type_, verbs_, name_, also_, arg_, lo_, hi_, def_, help_)        \
    [SL_OPT_##id] = {.name = name_,                                            \
                     .also = also_,                                            \
                     .arg = arg_,                                              \
                     .def = def_,                                              \
                     .help = help_,                                            \
                     .type = SL_VAL_##type_,                                   \
                     .verbs = (verbs_),                                        \
                     .lo = (double)(lo_),                                      \
                     .hi = (double)(hi_)},
    SL_OPTIONS(X)
#undef X
};

const struct sl_opt *sl_opt_get(enum sl_opt_id id)
{
    SL_CHECK((size_t)id < SL_COUNTOF(table));
    return &table[id];
}

/* ------------------------------------------------------------- names */

/* The next word of a list separated by `sep`; false at the end. */
static bool next_word(const char **list, char sep, const char **word,
                      size_t *len)
{
    const char *p = *list, *e;

    if (!*p)
        return false;
    e = strchr(p, sep);
    *word = p;
    *len = e ? (size_t)(e - p) : strlen(p);
    *list = e ? e + 1 : p + *len;
    return true;
}

/* Equal, where '_' and '-' are the same character. */
static bool same_name(const char *a, size_t n, const char *b)
{
    if (strlen(b) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i] && !(a[i] == '_' && b[i] == '-'))
            return false;
    return true;
}

/* --no-NAME */
static bool is_off(const char *arg, size_t len, const char *name)
{
    return len > 5 && !memcmp(arg, "--no", 4) &&
           (arg[4] == '-' || arg[4] == '_') &&
           same_name(arg + 5, len - 5, name);
}

/* Spellings that are written --[no-]x take no value: they say on or off. */
#define SWITCH "--[no-]"

/* Is this a spelling of d? Then *says is what it says without a value behind it,
 * or NULL when there has to be one. */
static bool is_spelling(const struct sl_opt *d, const char *arg, size_t len,
                        const char **says)
{
    const char *list = d->also, *word;
    char name[MAX_NAME];
    size_t n, skip = strlen(SWITCH);
    bool is_bool = d->type == SL_VAL_BOOL;

    *says = is_bool ? "on" : NULL;
    if (len > 2 && arg[0] == '-' && arg[1] == '-' &&
        same_name(arg + 2, len - 2, d->name))
        return true;
    if (is_bool && is_off(arg, len, d->name)) {
        *says = "off";
        return true;
    }
    while (next_word(&list, ' ', &word, &n)) {
        if (n == len && !memcmp(word, arg, n))
            return true;
        if (n <= skip || memcmp(word, SWITCH, skip))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(n - skip), word + skip);
        if (is_off(arg, len, name)) {
            *says = "off";
            return true;
        }
        if (len > 2 && !memcmp(arg, "--", 2) &&
            same_name(arg + 2, len - 2, name)) {
            *says = "on";
            return true;
        }
    }
    return false;
}

/* The option that `arg` (with its dashes) spells, and what it says; or -1. */
static int find(enum sl_verb verb, const char *arg, size_t len,
                const char **says)
{
    for (int i = 0; i < SL_N_OPT; i++)
        if ((table[i].verbs & (uint32_t)verb) &&
            is_spelling(&table[i], arg, len, says))
            return i;
    return -1;
}

/* Insertions, deletions and changes from a to b (Levenshtein 1966), by rows. */
static size_t distance(const char *a, size_t n, const char *b)
{
    size_t m = strlen(b), row[MAX_NAME + 1];

    if (n > MAX_NAME || m > MAX_NAME)
        return MAX_NAME;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diag = row[0];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t cost = diag + (a[i - 1] != b[j - 1]);

            diag = row[j];
            row[j] = sl_min(cost, sl_min(row[j], row[j - 1]) + 1);
        }
    }
    return row[m];
}

/* The name most like `word` (no dashes in front), or NULL. */
static const char *nearest(uint32_t verbs, const char *word, size_t len)
{
    size_t best = sl_min(MAX_DISTANCE, len / 2) + 1;
    const char *name = NULL;

    for (int i = 0; i < SL_N_OPT; i++) {
        size_t d = distance(word, len, table[i].name);

        if ((table[i].verbs & verbs) && d < best) {
            best = d;
            name = table[i].name;
        }
    }
    return name;
}

static const char *verb_name(enum sl_verb v)
{
    switch (v) {
    case SL_VERB_RUN:
        return "run";
    case SL_VERB_INFO:
        return "info";
    case SL_VERB_TOKENIZE:
        return "tokenize";
    case SL_VERB_DOCTOR:
        return "doctor";
    case SL_VERB_VERSION:
        return "version";
    case SL_VERB_EVAL:
        return "eval";
    case SL_VERB_SERVE:
        return "serve";
    case SL_VERB_BENCH:
        return "bench";
    case SL_VERB_CONVERT:
        return "convert";
    case SL_VERB_PULL:
        return "pull";
    case SL_VERB_LIST:
        return "list";
    case SL_VERB_RM:
        return "rm";
    case SL_VERB_GC:
        return "gc";
    case SL_VERB_VERIFY:
        return "verify";
    case SL_VERB_PROFILES:
        return "profiles";
    case SL_VERB_INIT:
        return "init";
    case SL_VERB_BUILD:
        return "build";
    case SL_VERB_SEARCH:
        return "search";
    case SL_VERB_LOGIN:
        return "login";
    case SL_VERB_LOGOUT:
        return "logout";
    case SL_VERB_PS:
        return "ps";
    case SL_VERB_STOP:
        return "stop";
    case SL_VERB_PUSH:
        return "push";
    case SL_VERB_LOGS:
        return "logs";
    }
    return "?";
}

static int unknown(const struct sl_opts *o, const char *arg, size_t len,
                   struct sl_err *err)
{
    size_t skip = len > 1 && arg[1] == '-' ? 2 : 1;
    const char *near =
        nearest((uint32_t)o->verb, arg + skip, len - sl_min(skip, len));

    if (near)
        return sl_fail(err, SL_EARG,
                       "unknown option '%.*s'; did you mean '--%s'?", (int)len,
                       arg, near);
    return sl_fail(err, SL_EARG,
                   "unknown option '%.*s'; 'sluice %s --help' lists them",
                   (int)len, arg, verb_name(o->verb));
}

void sl_opt_env_name(char *out, enum sl_opt_id id)
{
    size_t n = (size_t)snprintf(out, SL_OPT_ENV_LEN, "SLUICE_%s",
                                sl_opt_get(id)->name);

    for (size_t i = 0; i < n; i++) {
        if (out[i] == '-')
            out[i] = '_';
        else if (out[i] >= 'a' && out[i] <= 'z')
            out[i] = (char)(out[i] - 'a' + 'A');
    }
}

/* ------------------------------------------------------------ values */

static bool is_word(const char *s, size_t len, const char *word)
{
    return strlen(word) == len && !memcmp(s, word, len);
}

static int parse_bool(int64_t *out, const char *s, const char *what,
                      struct sl_err *err)
{
    static const char *const word[] = {"off", "on",  "0",     "1",
                                       "no",  "yes", "false", "true"};

    for (size_t i = 0; i < SL_COUNTOF(word); i++)
        if (is_word(s, strlen(s), word[i])) {
            *out = (int64_t)(i % 2);
            return 0;
        }
    return sl_fail(err, SL_EARG, "%s: '%.100s' is neither on nor off", what, s);
}

/* "bf16|fp32|auto=bf16": *out is the index of the word among the real ones. */
static int parse_choice(int64_t *out, const struct sl_opt *d, const char *s,
                        const char *what, struct sl_err *err)
{
    const char *list = d->arg, *word;
    size_t n, len = strlen(s);
    int64_t i = 0;

    while (next_word(&list, '|', &word, &n)) {
        const char *eq = memchr(word, '=', n);

        if (!eq && n == len && !memcmp(s, word, n)) {
            *out = i;
            return 0;
        }
        if (eq && (size_t)(eq - word) == len && !memcmp(s, word, len)) {
            char real[MAX_NAME];

            snprintf(real, sizeof(real), "%.*s", (int)(word + n - eq - 1),
                     eq + 1);
            return parse_choice(out, d, real, what, err);
        }
        i += !eq;
    }
    return sl_fail(err, SL_EARG, "%s: '%.100s' is not offered; choose %s%s",
                   what, s, strchr(d->arg, '|') ? "one of " : "", d->arg);
}

/* k, m, g are thousands; K, M, G powers of 1024, as in vLLM. */
static int64_t unit(char c)
{
    switch (c) {
    case 'k':
        return 1000;
    case 'm':
        return 1000000;
    case 'g':
        return 1000000000;
    case 'K':
        return 1 << 10;
    case 'M':
        return 1 << 20;
    case 'G':
        return 1 << 30;
    default:
        return 1;
    }
}

static int parse_int(int64_t *out, const struct sl_opt *d, const char *s,
                     const char *what, struct sl_err *err)
{
    size_t n = strlen(s);
    int64_t u = d->type == SL_VAL_COUNT && n > 0 ? unit(s[n - 1]) : 1;
    /* The largest double below 2^63 is not the largest integer. */
    int64_t lo = (int64_t)d->lo,
            hi = d->hi >= (double)INT64_MAX ? INT64_MAX : (int64_t)d->hi;
    int64_t v = 0;
    int rc =
        sl_num_i64(&v, s, u > 1 ? n - 1 : n, u > 1 ? 0 : lo, hi / u, what, err);

    if (rc)
        return rc;
    v *= u;
    if (v < lo)
        return sl_fail(err, SL_EARG, "%s: %s is outside %lld to %lld", what, s,
                       (long long)lo, (long long)hi);
    *out = v;
    return 0;
}

/* `what` names the source in messages: "--seed", "SLUICE_SEED". */
static int set(struct sl_opts *o, enum sl_opt_id id, enum sl_opt_from from,
               const char *s, const char *what, struct sl_err *err)
{
    const struct sl_opt *d = &table[id];
    struct sl_opt_value v = {.from = from};
    int rc = 0;

    switch (d->type) {
    case SL_VAL_BOOL:
        rc = parse_bool(&v.i, s, what, err);
        break;
    case SL_VAL_INT:
    case SL_VAL_COUNT:
        rc = parse_int(&v.i, d, s, what, err);
        break;
    case SL_VAL_FLOAT:
        rc = sl_num_f64(&v.f, s, strlen(s), d->lo, d->hi, what, err);
        break;
    case SL_VAL_CHOICE:
        rc = parse_choice(&v.i, d, s, what, err);
        break;
    case SL_VAL_TEXT:
        v.s = s;
        break;
    case SL_VAL_TEXTS:
        /* A source of higher rank replaces the list, its own values add. */
        if (from > o->value[id].from)
            o->n_list = 0;
        if (from >= o->value[id].from && o->n_list == SL_OPT_MAX_LIST)
            rc = sl_fail(err, SL_EARG, "%s is given more than %d times", what,
                         SL_OPT_MAX_LIST);
        else if (from >= o->value[id].from)
            o->list[o->n_list++] = s;
        v.s = s;
        break;
    }
    if (!rc && from >= o->value[id].from)
        o->value[id] = v;
    return rc;
}

bool sl_opts_has(const struct sl_opts *o, enum sl_opt_id id)
{
    return o->value[id].from != SL_FROM_DEFAULT;
}

bool sl_opt_is_always(enum sl_opt_id id)
{
    return table[id].type == SL_VAL_CHOICE && !strchr(table[id].arg, '|');
}

/* ----------------------------------------------------------- sources */

void sl_opts_init(struct sl_opts *o, enum sl_verb verb)
{
    *o = (struct sl_opts){.verb = verb};
    /* Defaults that are words do not parse and stay 0. */
    for (int i = 0; i < SL_N_OPT; i++)
        if (table[i].type != SL_VAL_TEXT && table[i].type != SL_VAL_TEXTS)
            (void)set(o, (enum sl_opt_id)i, SL_FROM_DEFAULT, table[i].def, "",
                      NULL);
}

/* One option at argv[*i]; moves *i past its value. */
static int one_flag(struct sl_opts *o, int *i, int argc, char *const *argv,
                    struct sl_err *err)
{
    const char *arg = argv[*i], *eq = strchr(arg, '='), *value;
    size_t len = eq ? (size_t)(eq - arg) : strlen(arg);
    char what[MAX_NAME + 8];
    const char *says;
    int id = find(o->verb, arg, len, &says);

    if (id < 0)
        return unknown(o, arg, len, err);
    snprintf(what, sizeof(what), "%.*s", (int)len, arg);
    if (says) {
        if (eq && (table[id].type != SL_VAL_BOOL || !strcmp(says, "off")))
            return sl_fail(err, SL_EARG, "%s takes no value; remove '%s'", what,
                           eq);
        value = eq ? eq + 1 : says;
    } else if (eq) {
        value = eq + 1;
    } else if (*i + 1 < argc) {
        value = argv[++*i];
    } else {
        return sl_fail(err, SL_EARG, "%s needs a value: %s", what,
                       table[id].arg);
    }
    return set(o, (enum sl_opt_id)id, SL_FROM_LINE, value, what, err);
}

int sl_opts_line(struct sl_opts *o, int argc, char *const *argv,
                 struct sl_err *err)
{
    bool flags = true;
    int rc = 0;

    for (int i = 0; !rc && i < argc; i++) {
        const char *a = argv[i];

        if (flags && !strcmp(a, "--"))
            flags = false;
        else if (flags && a[0] == '-' && a[1])
            rc = one_flag(o, &i, argc, argv, err);
        else if (o->n_arg == SL_OPT_MAX_ARG)
            rc = sl_fail(err, SL_EARG,
                         "more than %d arguments; quote a prompt that has "
                         "spaces",
                         SL_OPT_MAX_ARG);
        else
            o->arg[o->n_arg++] = a;
    }
    return rc;
}

static int one_variable(struct sl_opts *o, const char *var, struct sl_err *err)
{
    const char *eq = strchr(var, '=');
    size_t len = eq ? (size_t)(eq - var) : strlen(var);
    char name[SL_OPT_ENV_LEN], word[MAX_NAME + 1];
    const char *near;
    size_t n = 0;

    for (int i = 0; i < SL_N_OPT; i++) {
        sl_opt_env_name(name, (enum sl_opt_id)i);
        if (!is_word(var, len, name))
            continue;
        if (!(table[i].verbs & (uint32_t)o->verb) || !eq || !eq[1])
            return 0;
        return set(o, (enum sl_opt_id)i, SL_FROM_ENV, eq + 1, name, err);
    }
    for (size_t i = sizeof("SLUICE_") - 1; i < len && n < MAX_NAME; i++) {
        char c = var[i];

        word[n++] = c == '_' ? '-' : (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    near = nearest(~0u, word, n);
    if (!near)
        return sl_fail(err, SL_EARG,
                       "the variable '%.*s' names no option; unset it",
                       (int)len, var);
    for (int i = 0; i < SL_N_OPT; i++)
        if (table[i].name == near)
            sl_opt_env_name(name, (enum sl_opt_id)i);
    return sl_fail(err, SL_EARG,
                   "the variable '%.*s' names no option; did you mean '%s'?",
                   (int)len, var, name);
}

int sl_opts_env(struct sl_opts *o, char *const *env, struct sl_err *err)
{
    int rc = 0;

    for (; !rc && *env; env++)
        if (!strncmp(*env, "SLUICE_", sizeof("SLUICE_") - 1))
            rc = one_variable(o, *env, err);
    return rc;
}

/* Text of a JSON scalar: borrowed from v, or written to `num`. */
static const char *scalar(const json_t *v, char *num, size_t cap)
{
    if (json_is_string(v))
        return json_string_value(v);
    if (json_is_boolean(v))
        return json_is_true(v) ? "on" : "off";
    if (json_is_integer(v))
        snprintf(num, cap, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(num, cap, "%.17g", json_real_value(v));
    else
        return NULL;
    return num;
}

static int one_key(struct sl_opts *o, enum sl_opt_id id, const char *what,
                   const json_t *v, struct sl_err *err)
{
    bool text = table[id].type == SL_VAL_TEXT || table[id].type == SL_VAL_TEXTS;
    char num[40];
    const char *s = scalar(v, num, sizeof(num));

    /* A number is gone when this returns, so a text must be a string. */
    if (!s || (text && !json_is_string(v)))
        return sl_fail(err, SL_EARG, "%s: the value must be a %s", what,
                       text ? "string" : "string, a number or true or false");
    return set(o, id, SL_FROM_PROFILE, s, what, err);
}

int sl_opt_find(enum sl_verb verb, const char *key)
{
    for (int i = 0; i < SL_N_OPT; i++)
        if ((table[i].verbs & (uint32_t)verb) &&
            same_name(key, strlen(key), table[i].name))
            return i;
    return -1;
}

int sl_opts_profile(struct sl_opts *o, const json_t *profile,
                    struct sl_err *err)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)profile, key, v)
    {
        char what[MAX_NAME + 40];
        size_t n = strlen(key), i_list;
        json_t *item;
        int id = sl_opt_find(o->verb, key), rc = 0;

        snprintf(what, sizeof(what), "profile key '%.48s'", key);
        if (id < 0) {
            const char *near = nearest((uint32_t)o->verb, key, n);

            return sl_fail(err, SL_EARG, "%s names no option%s%s", what,
                           near ? "; the nearest is --" : "; remove it",
                           near ? near : "");
        }
        if (table[id].type == SL_VAL_TEXTS && json_is_array(v)) {
            json_array_foreach(v, i_list, item)
            {
                if (!rc)
                    rc = one_key(o, (enum sl_opt_id)id, what, item, err);
            }
        } else if (!json_is_null(v)) {
            rc = one_key(o, (enum sl_opt_id)id, what, v, err);
        }
        if (rc)
            return rc;
    }
    return 0;
}

/* ------------------------------------------------------------- print */

/* "bf16|fp32|auto=bf16" without the other spellings. */
static void add_choices(struct sl_buf *b, const char *list)
{
    const char *word;
    bool first = true;
    size_t n;

    while (next_word(&list, '|', &word, &n)) {
        if (memchr(word, '=', n))
            continue;
        sl_buf_str(b, first ? "" : "|");
        sl_buf_add(b, word, n);
        first = false;
    }
}

static void add_number(struct sl_buf *b, double x)
{
    if (x == (double)(int64_t)x && x < 0x1p62 && x > -0x1p62)
        sl_buf_fmt(b, "%lld", (long long)x);
    else
        sl_buf_fmt(b, "%g", x);
}

/* " 0 to 1; default 1" */
static void add_range(struct sl_buf *b, const struct sl_opt *d)
{
    bool number = d->type == SL_VAL_INT || d->type == SL_VAL_COUNT ||
                  d->type == SL_VAL_FLOAT;
    const char *sep = "";

    if (!number && !*d->def)
        return;
    sl_buf_str(b, " (");
    if (number && d->hi < 0x1p31 - 1) {
        add_number(b, d->lo);
        sl_buf_str(b, " to ");
        add_number(b, d->hi);
        sep = "; ";
    }
    if (*d->def)
        sl_buf_fmt(b, "%sdefault %s", sep, d->def);
    sl_buf_str(b, ")");
}

#define HELP_COL 2 /* of the flag */
#define TEXT_COL 8 /* of what it does */
#define WIDTH 78

/* Words of `text` in lines from TEXT_COL to WIDTH. */
static void add_wrapped(struct sl_buf *b, const char *text)
{
    size_t col = WIDTH + 1, n;
    const char *word;

    while (next_word(&text, ' ', &word, &n)) {
        if (col + 1 + n > WIDTH) {
            sl_buf_fmt(b, "\n%*s", TEXT_COL, "");
            col = TEXT_COL;
        } else {
            sl_buf_byte(b, ' ');
            col++;
        }
        sl_buf_add(b, word, n);
        col += n;
    }
}

/* "--kv-dtype bf16|fp32, --kv-cache-dtype" */
static void add_flag(struct sl_buf *b, const struct sl_opt *d)
{
    const char *list = d->also, *word;
    size_t n;

    sl_buf_fmt(b, "--%s%s", d->type == SL_VAL_BOOL ? "[no-]" : "", d->name);
    if (*d->arg)
        sl_buf_byte(b, ' ');
    if (d->type == SL_VAL_CHOICE)
        add_choices(b, d->arg);
    else
        sl_buf_str(b, d->arg);
    while (next_word(&list, ' ', &word, &n))
        sl_buf_fmt(b, ", %.*s", (int)n, word);
}

void sl_opts_help(struct sl_buf *b, enum sl_verb verb)
{
    struct sl_buf text;

    sl_buf_init(&text, 4096);
    for (int i = 0; i < SL_N_OPT; i++) {
        const struct sl_opt *d = &table[i];

        if (!(d->verbs & (uint32_t)verb))
            continue;
        sl_buf_fmt(b, "%*s", HELP_COL, "");
        add_flag(b, d);
        sl_buf_reset(&text);
        sl_buf_str(&text, d->help);
        add_range(&text, d);
        if (text.p)
            add_wrapped(b, text.p);
        sl_buf_byte(b, '\n');
        if (text.failed)
            b->failed = text.failed;
    }
    sl_buf_deinit(&text);
}

/* A dash that stays one when it is copied from the page (roff's \-). */
static void add_roff(struct sl_buf *b, const char *s)
{
    for (; *s; s++) {
        if (*s == '-' || *s == '\\')
            sl_buf_byte(b, '\\');
        sl_buf_byte(b, *s);
    }
}

void sl_opts_man(struct sl_buf *b, enum sl_verb verb)
{
    struct sl_buf text;

    sl_buf_init(&text, 4096);
    for (int i = 0; i < SL_N_OPT; i++) {
        const struct sl_opt *d = &table[i];
        char env[SL_OPT_ENV_LEN];

        if (!(d->verbs & (uint32_t)verb))
            continue;
        sl_buf_reset(&text);
        add_flag(&text, d);
        sl_buf_str(b, ".TP\n.B ");
        add_roff(b, text.p ? text.p : "");
        sl_buf_reset(&text);
        sl_buf_fmt(&text, "%s", d->help);
        add_range(&text, d);
        sl_buf_byte(b, '\n');
        add_roff(b, text.p ? text.p : "");
        sl_opt_env_name(env, (enum sl_opt_id)i);
        sl_buf_fmt(b, "\n%s%s\n", i == SL_OPT_HELP ? "" : "Variable: ",
                   i == SL_OPT_HELP ? "" : env);
        if (text.failed)
            b->failed = text.failed;
    }
    sl_buf_deinit(&text);
}
