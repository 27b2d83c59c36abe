/* text/pretoken.h - cutting text into the pieces that merges stay within
 *
 * The pattern comes from the model's file. Two patterns, those of the family,
 * have a matcher written by hand; all others go to PCRE2.
 */
#ifndef SL_TEXT_PRETOKEN_H
#define SL_TEXT_PRETOKEN_H

#include "base/err.h"

/* The patterns known by heart: Qwen2 to Qwen3, and Qwen3.5 on. */
extern const char sl_pretoken_qwen2[];
extern const char sl_pretoken_qwen35[];

/* Read-only after init; any number of threads. */
struct sl_pretoken {
    uint8_t word;        /* classes that make words; 0: use the program */
    const uint8_t *bits; /* borrowed: the table of unidata.h */
    void *program;       /* compiled by PCRE2, or NULL */
};

/* Compile a pattern. One that PCRE2 refuses, or that can match nothing at all,
 * is SL_EUNSUP. use_pcre2: also for the known ones, which tests need. */
int sl_pretoken_init(struct sl_pretoken *p, const char *pattern, size_t len,
                     const uint8_t *bits, bool use_pcre2, struct sl_err *err);
void sl_pretoken_deinit(struct sl_pretoken *p);

/* One walk over one text; one thread. */
struct sl_pretoken_walk {
    const struct sl_pretoken *p;
    void *match; /* PCRE2's work space, or NULL */
    void *context;
    size_t from, to; /* a match that was found but not yet returned */
    bool pending;
};

int sl_pretoken_walk_init(struct sl_pretoken_walk *w,
                          const struct sl_pretoken *p, struct sl_err *err);
void sl_pretoken_walk_deinit(struct sl_pretoken_walk *w);
void sl_pretoken_walk_reset(struct sl_pretoken_walk *w); /* a new text */

/* *end of the piece that starts at `at` < len. s is valid UTF-8, and the whole
 * text: what lies behind the piece decides where it ends. Call with at = 0 and
 * then with each *end. */
int sl_pretoken_next(struct sl_pretoken_walk *w, const char *s, size_t len,
                     size_t at, size_t *end, struct sl_err *err);

#endif
