/* text/pretoken.c - cutting text into the pieces that merges stay within
 *
 * The family's pattern, as a person reads it (W is letter, or letter and mark):
 *
 *   1  (?i:'s|'t|'re|'ve|'m|'ll|'d)     English endings
 *   2  [^\r\n L N]? W+                  a word, with one character before it
 *   3  N                                a digit
 *   4  ?[^\s W N]+ [\r\n]*              symbols, with a space before and line
 *                                       ends behind
 *   5  \s* [\r\n]+                      white space, to its last line end
 *   6  \s+ (?!\S)                       white space but for its last character
 *   7  \s+                              that one
 *
 * The first alternative that matches wins. hand_end says this in C: three
 * times the speed of PCRE2's compiled program, linear in the text whatever it
 * is (each character is looked at three times at most), and with the
 * reference's idea of a letter. A test compares it with PCRE2 on random text.
 *
 * Other patterns run in PCRE2, where the cost of a hostile text depends on the
 * pattern; a limit on matching steps turns the worst of it into an error.
 * PCRE2's \s has U+180E, which Unicode took out of White_Space, so \s and \S
 * are written out before the pattern is compiled.
 */
#include "text/pretoken.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "text/unidata.h"

#define QWEN_HEAD "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?"
#define QWEN_TAIL "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

const char sl_pretoken_qwen2[] =
    QWEN_HEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+" QWEN_TAIL;
const char sl_pretoken_qwen35[] =
    QWEN_HEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+" QWEN_TAIL;

/* White_Space, to stand inside a class. */
#define SPACES                                                                 \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}"           \
    "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

/* A pattern of a tokenizer has hundreds of bytes. */
#define MAX_PATTERN 65536
/* Matching steps for one piece: what a megabyte of white space takes, many
 * times over. Chosen, not measured. */
#define MATCH_LIMIT 100000000u
#define HEAP_LIMIT_KIB 65536u

/* ---- the pattern, made ready for PCRE2 ---- */

/* \s and \S at s[1], outside or inside of a class. */
static int put_space(struct sl_buf *b, char c, bool in_class,
                     struct sl_err *err)
{
    if (in_class && c == 'S')
        return sl_fail(err, SL_EUNSUP,
                       "the pre-tokenizer pattern has \\S inside of [...], "
                       "which this version cannot compile");
    if (!in_class)
        sl_buf_str(b, c == 'S' ? "[^" : "[");
    sl_buf_str(b, SPACES);
    if (!in_class)
        sl_buf_str(b, "]");
    return 0;
}

/* Copy the pattern with \s and \S written out. */
static int rewrite(struct sl_buf *b, const char *s, size_t len,
                   struct sl_err *err)
{
    bool in_class = false;
    size_t class_at = 0;
    int rc = 0;

    for (size_t i = 0; i < len && !rc; i++) {
        bool escaped = s[i] == '\\' && i + 1 < len;

        if (escaped && (s[i + 1] == 's' || s[i + 1] == 'S')) {
            rc = put_space(b, s[++i], in_class, err);
            continue;
        }
        if (escaped) {
            sl_buf_add(b, s + i, 2);
            i++;
            continue;
        }
        if (!in_class && s[i] == '[') {
            in_class = true;
            class_at = i + 1 < len && s[i + 1] == '^' ? i + 2 : i + 1;
        } else if (in_class && s[i] == ']' && i > class_at) {
            in_class = false;
        }
        sl_buf_byte(b, s[i]);
    }
    return rc ? rc : sl_buf_check(b, "the pre-tokenizer pattern", err);
}

static int compile(struct sl_pretoken *p, const char *s, size_t len,
                   struct sl_err *err)
{
    char why[200];
    int code, rc;
    PCRE2_SIZE at;
    uint32_t empty = 0;
    pcre2_code *re;
    struct sl_buf b;

    sl_buf_init(&b, MAX_PATTERN);
    rc = rewrite(&b, s, len, err);
    if (rc)
        goto out;
    re = pcre2_compile((PCRE2_SPTR)b.p, b.len,
                       PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code,
                       &at, NULL);
    if (!re) {
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof(why));
        rc = sl_fail(err, SL_EUNSUP,
                     "the pre-tokenizer pattern '%.300s' cannot be compiled: "
                     "%s",
                     b.p, why);
        goto out;
    }
    p->program = re;
    pcre2_pattern_info(re, PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty) {
        rc = sl_fail(err, SL_EUNSUP,
                     "the pre-tokenizer pattern '%.300s' can match nothing "
                     "at all, which would cut text into empty pieces",
                     b.p);
        goto out;
    }
    /* Without JIT (a hardened system) the interpreter gives the same. */
    (void)pcre2_jit_compile(re, PCRE2_JIT_COMPLETE);
out:
    sl_buf_deinit(&b);
    return rc;
}

static bool is_pattern(const char *known, const char *s, size_t len)
{
    return strlen(known) == len && memcmp(known, s, len) == 0;
}

int sl_pretoken_init(struct sl_pretoken *p, const char *pattern, size_t len,
                     const uint8_t *bits, bool use_pcre2, struct sl_err *err)
{
    int rc = 0;

    *p = (struct sl_pretoken){.bits = bits};
    if (len == 0 || len > MAX_PATTERN / 4)
        return sl_fail(err, SL_EUNSUP,
                       "the pre-tokenizer pattern has %zu bytes and must have "
                       "1 to %d",
                       len, MAX_PATTERN / 4);
    rc = sl_utf8_check(pattern, len, "the pre-tokenizer pattern", err);
    if (rc)
        return rc;
    if (!use_pcre2 && is_pattern(sl_pretoken_qwen2, pattern, len))
        p->word = SL_UNI_LETTER;
    else if (!use_pcre2 && is_pattern(sl_pretoken_qwen35, pattern, len))
        p->word = SL_UNI_LETTER | SL_UNI_MARK;
    else
        rc = compile(p, pattern, len, err);
    if (rc)
        sl_pretoken_deinit(p);
    return rc;
}

void sl_pretoken_deinit(struct sl_pretoken *p)
{
    pcre2_code_free(p->program); /* NULL allowed */
    *p = (struct sl_pretoken){0};
}

/* ---- a walk ---- */

int sl_pretoken_walk_init(struct sl_pretoken_walk *w,
                          const struct sl_pretoken *p, struct sl_err *err)
{
    *w = (struct sl_pretoken_walk){.p = p};
    if (!p->program)
        return 0;
    w->match = pcre2_match_data_create(1, NULL);
    w->context = pcre2_match_context_create(NULL);
    if (!w->match || !w->context) {
        sl_pretoken_walk_deinit(w);
        return sl_fail(err, SL_ENOMEM, "no memory is left to match text");
    }
    pcre2_set_match_limit(w->context, MATCH_LIMIT);
    pcre2_set_heap_limit(w->context, HEAP_LIMIT_KIB);
    return 0;
}

void sl_pretoken_walk_deinit(struct sl_pretoken_walk *w)
{
    pcre2_match_data_free(w->match);
    pcre2_match_context_free(w->context);
    *w = (struct sl_pretoken_walk){0};
}

void sl_pretoken_walk_reset(struct sl_pretoken_walk *w)
{
    w->pending = false;
}

/* What the pattern does not match is a piece too (behavior "Isolated"). */
static int next_pcre2(struct sl_pretoken_walk *w, const char *s, size_t len,
                      size_t at, size_t *end, struct sl_err *err)
{
    int n;

    if (!w->pending) {
        n = pcre2_match(w->p->program, (PCRE2_SPTR)s, len, at,
                        PCRE2_NO_UTF_CHECK, w->match, w->context);
        if (n == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter has a heap */
            n = pcre2_match(w->p->program, (PCRE2_SPTR)s, len, at,
                            PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, w->match,
                            w->context);
        if (n < 0 && n != PCRE2_ERROR_NOMATCH)
            return sl_fail(err, SL_EUNSUP,
                           "the pre-tokenizer pattern gives up at offset %zu "
                           "of a text of %zu bytes (PCRE2 code %d); send "
                           "shorter text",
                           at, len, n);
        w->from = w->to = len;
        if (n >= 0) {
            w->from = pcre2_get_ovector_pointer(w->match)[0];
            w->to = pcre2_get_ovector_pointer(w->match)[1];
        }
        /* Only \K or a look-behind could do this; go on by brute force. */
        if (w->from < at || w->to <= w->from)
            w->from = w->to = len;
        w->pending = true;
    }
    if (at < w->from) {
        *end = w->from;
        return 0;
    }
    *end = w->to;
    w->pending = false;
    return 0;
}

/* ---- the family's pattern by hand ---- */

/* The classes of the character at s[at], and its bytes. s is valid. */
static unsigned class_at(const uint8_t *bits, const char *s, size_t at,
                         size_t *bytes)
{
    const unsigned char *u = (const unsigned char *)s + at;
    uint32_t c = u[0];

    if (c < 0x80) {
        *bytes = 1;
    } else if (c < 0xe0) {
        *bytes = 2;
        c = (c & 0x1f) << 6 | (u[1] & 0x3f);
    } else if (c < 0xf0) {
        *bytes = 3;
        c = (c & 0x0f) << 12 | (uint32_t)(u[1] & 0x3f) << 6 | (u[2] & 0x3f);
    } else {
        *bytes = 4;
        c = (c & 0x07) << 18 | (uint32_t)(u[1] & 0x3f) << 12 |
            (uint32_t)(u[2] & 0x3f) << 6 | (u[3] & 0x3f);
    }
    return bits[c];
}

static bool is_eol(char c)
{
    return c == '\r' || c == '\n';
}

/* The end of the run from `at` of characters for which
 * (class & mask) != 0 is `want`. */
static size_t run_end(const uint8_t *bits, const char *s, size_t len, size_t at,
                      unsigned mask, bool want)
{
    size_t n;

    while (at < len && ((class_at(bits, s, at, &n) & mask) != 0) == want)
        at += n;
    return at;
}

/* Alternative 1: bytes of the ending behind the apostrophe, 0 if none. The
 * long s, U+017F, is an s to a match without case. */
static size_t ending(const char *s, size_t left)
{
    static const char two[][2] = {{'r', 'e'}, {'v', 'e'}, {'l', 'l'}};
    char a = left > 0 ? (char)(s[0] | 0x20) : 0;
    char b = left > 1 ? (char)(s[1] | 0x20) : 0;

    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 1;
    if (left > 1 && memcmp(s, "\xc5\xbf", 2) == 0)
        return 2;
    for (size_t i = 0; i < SL_COUNTOF(two); i++)
        if (a == two[i][0] && b == two[i][1])
            return 2;
    return 0;
}

/* Alternatives 5 to 7, at a white-space character. */
static size_t space_end(const uint8_t *bits, const char *s, size_t len,
                        size_t at)
{
    size_t end = at, last = at, eol = 0, n;

    while (end < len && class_at(bits, s, end, &n) & SL_UNI_SPACE) {
        if (is_eol(s[end]))
            eol = end + 1;
        last = end;
        end += n;
    }
    if (eol)
        return eol;
    return end == len || last == at ? end : last;
}

static size_t hand_end(const struct sl_pretoken *p, const char *s, size_t len,
                       size_t at)
{
    const unsigned word = p->word;
    const unsigned not_symbol = word | SL_UNI_NUMBER | SL_UNI_SPACE;
    size_t n, next, i;
    unsigned c = class_at(p->bits, s, at, &n);

    next = at + n;
    if (s[at] == '\'') {
        i = ending(s + next, len - next);
        if (i)
            return next + i;
    }
    if (c & word)
        return run_end(p->bits, s, len, next, word, true);
    if (c & SL_UNI_NUMBER)
        return next;
    if (!is_eol(s[at]) && next < len && class_at(p->bits, s, next, &i) & word)
        return run_end(p->bits, s, len, next + i, word, true);
    i = s[at] == ' ' ? next : at;
    next = run_end(p->bits, s, len, i, not_symbol, false);
    if (next > i) {
        while (next < len && is_eol(s[next]))
            next++;
        return next;
    }
    return space_end(p->bits, s, len, at);
}

int sl_pretoken_next(struct sl_pretoken_walk *w, const char *s, size_t len,
                     size_t at, size_t *end, struct sl_err *err)
{
    SL_ASSERT(at < len);
    if (w->p->program)
        return next_pcre2(w, s, len, at, end, err);
    *end = hand_end(w->p, s, len, at);
    return 0;
}
