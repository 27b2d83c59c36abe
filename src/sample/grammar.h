/* sample/grammar.h - the shape of an answer, as rules
 *
 * A grammar is built from nodes; the parsers of GBNF, of patterns and of JSON
 * Schema end here. Then automaton.h compiles it.
 *
 *     struct sl_grammar g;
 *     uint32_t list;
 *
 *     sl_grammar_init(&g);
 *     list = sl_grammar_seq(&g);
 *     sl_grammar_add(&g, list, sl_grammar_bytes(&g, "[", 1));
 *     sl_grammar_add(&g, list, sl_grammar_call(&g, rule));
 *     sl_grammar_define(&g, root, list);
 *     rc = sl_grammar_check(&g, err);
 *
 * The first failure sticks (rule E6): later calls do nothing and return node
 * 0, and sl_grammar_check says what it was. A node is used once; what is needed
 * in several places is a rule. One thread at a time.
 */
#ifndef SL_SAMPLE_GRAMMAR_H
#define SL_SAMPLE_GRAMMAR_H

#include "base/buf.h"

/* Limits, chosen: a grammar by hand has hundreds of nodes, a large schema some
 * thousands. */
#define SL_GRAMMAR_MAX_NODES (1u << 17)
#define SL_GRAMMAR_MAX_RULES (1u << 14)
#define SL_GRAMMAR_MAX_ARCS (1u << 18)
#define SL_GRAMMAR_MAX_BYTES ((size_t)1 << 20) /* of literals and names */
#define SL_GRAMMAR_MAX_HEIGHT 200              /* nested nodes of one rule */
#define SL_GRAMMAR_MAX_REPEAT 16384
#define SL_GRAMMAR_MANY UINT32_MAX /* of a repetition: no upper limit */
#define SL_GRAMMAR_MAX_CODE 0x10ffff
/* Keywords and values that may be looked at and copied while schemas are read:
 * they may refer to each other, so that their length says little; chosen. The
 * copies take some 20 MB then, the work some tens of milliseconds. */
#define SL_GRAMMAR_MAX_WORK ((size_t)1 << 17)

/* Code points lo to hi, both included. */
struct sl_range {
    uint32_t lo, hi;
};

enum sl_node_kind {
    SL_NODE_BYTES,   /* a: offset into bytes, b: length; length 0 is nothing */
    SL_NODE_SET,     /* a: first of range, b: how many */
    SL_NODE_SEQ,     /* a: first child, b: last; 0: none */
    SL_NODE_ALT,     /* the same; without children it matches nothing */
    SL_NODE_REPEAT,  /* a: child, lo, hi */
    SL_NODE_CALL,    /* a: rule */
    SL_NODE_TOKEN,   /* a: id of a token, which is not spelled in bytes */
    SL_NODE_MACHINE, /* a: first arc, b: how many, lo: states */
};

/* Of a machine: from a state to a state by a byte from lo to hi, or by a text
 * node, or by nothing, if lo > hi. A state numbered as the machine has states
 * stands for its end. It begins in state 0. */
struct sl_arc {
    uint32_t from, to;
    uint32_t node; /* 0: by a byte or nothing */
    uint8_t lo, hi;
};

struct sl_node {
    enum sl_node_kind kind;
    uint32_t height;
    uint32_t a, b, lo, hi;
    uint32_t next; /* of the same list; 0: none */
};

struct sl_rule {
    uint32_t name, n_name; /* into bytes */
    uint32_t node;         /* 0: not defined yet */
};

struct sl_grammar {
    struct sl_node *node; /* [n_node]; 0 is never used */
    uint32_t n_node, cap_node;
    struct sl_rule *rule; /* [n_rule] */
    uint32_t n_rule, cap_rule;
    uint32_t root; /* the rule that is the answer; 0 at first */
    struct sl_range *range;
    uint32_t n_range, cap_range;
    struct sl_arc *arc; /* [n_arc] */
    uint32_t n_arc, cap_arc;
    struct sl_buf bytes;
    size_t work; /* that was spent */
    int failed;  /* 0, or a code; err says why */
    struct sl_err err;
};

void sl_grammar_init(struct sl_grammar *g);
void sl_grammar_deinit(struct sl_grammar *g);

uint32_t sl_grammar_bytes(struct sl_grammar *g, const char *p, size_t len);

/* One character of the set, written in UTF-8. Ranges rise and do not touch;
 * surrogates in them are left out. */
uint32_t sl_grammar_set(struct sl_grammar *g, const struct sl_range *r,
                        size_t n);
uint32_t sl_grammar_seq(struct sl_grammar *g);
uint32_t sl_grammar_alt(struct sl_grammar *g);
void sl_grammar_add(struct sl_grammar *g, uint32_t list, uint32_t child);
uint32_t sl_grammar_repeat(struct sl_grammar *g, uint32_t child, uint32_t lo,
                           uint32_t hi);
uint32_t sl_grammar_call(struct sl_grammar *g, uint32_t rule);
uint32_t sl_grammar_token(struct sl_grammar *g, int32_t id);

/* A finite automaton of n states; arcs are added to the newest one. */
uint32_t sl_grammar_machine(struct sl_grammar *g, uint32_t n);
void sl_grammar_arc(struct sl_grammar *g, uint32_t machine, struct sl_arc a);

/* A rule that is defined later. The name is for messages. */
uint32_t sl_grammar_rule(struct sl_grammar *g, const char *name, size_t len);
void sl_grammar_define(struct sl_grammar *g, uint32_t rule, uint32_t node);

/* About to do n steps of work: false, and it fails, when that is too much. */
bool sl_grammar_spend(struct sl_grammar *g, size_t n);

/* Make it fail; the first one counts. Returns node 0. */
uint32_t sl_grammar_fail(struct sl_grammar *g, enum sl_code code,
                         const char *fmt, ...) SL_PRINTF(3, 4);
int sl_grammar_check(const struct sl_grammar *g, struct sl_err *err);

/* Sort ranges and join those that touch; returns how many are left. */
size_t sl_ranges_join(struct sl_range *r, size_t n);

/* out = all code points that are not in r, which is joined; room for n + 1. */
size_t sl_ranges_invert(struct sl_range *out, const struct sl_range *r,
                        size_t n);

#endif
