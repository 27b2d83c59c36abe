/* sample/dfa.h - sets of texts that a finite automaton knows
 *
 * To say two things of one text at once: patterns, lengths, names that it must
 * not be. Deterministic, over bytes of well-formed UTF-8.
 *
 * Failures stick to the grammar that is given, which limits the work, too; then
 * *out is empty and may be closed. Any thread.
 */
#ifndef SL_SAMPLE_DFA_H
#define SL_SAMPLE_DFA_H

#include "sample/grammar.h"
#include "sample/regex.h"

#define SL_DFA_MAX_STATES 8192u /* 4 MB; chosen */

struct sl_dfa {
    uint32_t n; /* states; 0 is dead, 1 the beginning */
    uint16_t (*to)[256];
    bool *ends;
};

enum sl_dfa_op { SL_DFA_AND, SL_DFA_AND_NOT, SL_DFA_OR };

void sl_dfa_close(struct sl_dfa *d);

bool sl_dfa_regex(struct sl_dfa *out, struct sl_grammar *g, const char *s,
                  size_t len, enum sl_regex_what what);

/* All texts. */
bool sl_dfa_any(struct sl_dfa *out, struct sl_grammar *g);

/* These n texts. */
bool sl_dfa_names(struct sl_dfa *out, struct sl_grammar *g,
                  const char *const *name, size_t n);

bool sl_dfa_join(struct sl_dfa *out, struct sl_grammar *g,
                 const struct sl_dfa *a, const struct sl_dfa *b,
                 enum sl_dfa_op op);

/* Those of lo to hi characters; SL_GRAMMAR_MANY: of any number from lo on. */
bool sl_dfa_count(struct sl_dfa *out, struct sl_grammar *g,
                  const struct sl_dfa *a, uint32_t lo, uint32_t hi);

bool sl_dfa_is_empty(struct sl_grammar *g, const struct sl_dfa *d);
bool sl_dfa_has(const struct sl_dfa *d, const char *s, size_t len);

/* A node for the texts, written so. */
uint32_t sl_dfa_node(struct sl_grammar *g, const struct sl_dfa *d,
                     enum sl_regex_write how);

#endif
