/* sample/automaton.h - a compiled grammar
 *
 * Every rule is a small machine over bytes and calls of rules; a call pushes
 * where to go on, state 0 returns there. sets.h runs it.
 *
 * Read-only once open; any number of threads.
 */
#ifndef SL_SAMPLE_AUTOMATON_H
#define SL_SAMPLE_AUTOMATON_H

#include "sample/grammar.h"

/* Limits, chosen: 16 MB at most. A string of up to 16,384 characters has eight
 * states for each. */
#define SL_AUTOMATON_MAX_STATES (1u << 18)
#define SL_AUTOMATON_MAX_EDGES (1u << 19)
#define SL_AUTOMATON_MAX_TOKENS 64 /* that are named, not spelled */
/* Calls in each other. A level of JSON takes one at least, and readers of JSON
 * take 128 levels. */
#define SL_AUTOMATON_MAX_DEPTH 120

#define SL_STATE_RETURN 0u /* the end of every rule */

enum sl_edge_kind {
    SL_EDGE_EMPTY,
    SL_EDGE_BYTE,  /* lo to hi */
    SL_EDGE_CALL,  /* arg: rule */
    SL_EDGE_TOKEN, /* arg: index into token */
};

struct sl_edge {
    uint32_t to;
    uint32_t arg;
    uint8_t kind, lo, hi;
    bool nullable; /* CALL: the rule also matches nothing */
};

struct sl_automaton {
    uint32_t n_state, n_edge, n_rule, n_token;
    uint32_t *first;      /* [n_state + 1] into edge */
    struct sl_edge *edge; /* [n_edge] by state */
    uint16_t *depth;      /* [n_state] fewest calls in each other from here to
                             the end of the rule; above MAX_DEPTH: there is no
                             way to the end */
    bool *moves;          /* [n_state] has an edge of bytes or tokens */
    uint32_t *start;      /* [n_rule] state */
    uint32_t root;        /* the rule that is the text */
    uint32_t *rank;       /* [n_rule] a rule ranks before those that it can call
                             before its first byte */
    uint32_t *at_rank;    /* [n_rule] the inverse */
    int32_t token[SL_AUTOMATON_MAX_TOKENS];
    uint32_t n_class;
    uint8_t class_of[256]; /* bytes that no edge tells apart */
    uint8_t byte_of[256];  /* [n_class] one of each */
};

/* Compile the root of `g` and those it needs. SL_EARG when it is too large, calls
 * itself before its first byte (left recursion), or has no end. The caller
 * closes *out. */
int sl_automaton_open(struct sl_automaton **out, const struct sl_grammar *g,
                      struct sl_err *err);
void sl_automaton_close(struct sl_automaton **a);
size_t sl_automaton_bytes(const struct sl_automaton *a); /* that it holds */

#endif
