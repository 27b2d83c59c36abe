/* sample/sets.h - where in a grammar a text can be
 *
 * A place is a state of an automaton and a frame, which says where to go on
 * when the rule ends. What was read so far leads to a set of places. Sets and
 * frames are made when they are first met, exist once, and have numbers; so the
 * step from a set by a byte is looked up, and equal situations have equal
 * numbers.
 *
 *     set = sl_sets_first(s);
 *     set = sl_sets_step(s, set, byte);
 *     if (set <= SL_SET_LAST_DEAD) ... no text of this shape goes on so ...
 *
 * One thread at a time. An operation, from sl_sets_begin on, costs what it would
 * cost if nothing were known: a step is paid for when it is first taken, whether
 * it had to be worked out or not. So whether an operation takes too much depends
 * on the text and the grammar alone. When it does, or memory is out, `failed` is
 * set, every step is dead, and what was being worked out is void. sl_sets_trim
 * makes room, between operations.
 */
#ifndef SL_SAMPLE_SETS_H
#define SL_SAMPLE_SETS_H

#include "sample/automaton.h"

#define SL_SET_DEAD 1u /* nothing can follow */
#define SL_SET_DEEP 2u /* the same, by SL_AUTOMATON_MAX_DEPTH alone */
#define SL_SET_LAST_DEAD 2u

/* Frames that have no caller: of the text, and of a text whose beginning is not
 * known (shape.c). */
#define SL_FRAME_TEXT 0u
#define SL_FRAME_ANY 1u
#define SL_FRAME_LAST_BASE 1u

struct sl_place {
    uint32_t frame, state;
};

/* Of an operation, or of a part of it. */
struct sl_cost {
    uint32_t n_visit; /* places looked at */
    uint32_t n_live;  /* steps that led to sets with places */
};

/* A list in sl_sets.place, by rising frame and state. */
struct sl_set {
    uint32_t at, n;
    uint32_t mask;  /* for shape.c; 0 at first */
    uint32_t plain; /* for shape.c; 0 at first */
    struct sl_cost plain_cost; /* for shape.c */
    uint16_t need;  /* depth that was looked at on the way here; above
                       SL_AUTOMATON_MAX_DEPTH: something was cut off there */
    bool ends;      /* the text may end here */
};

struct sl_step {
    uint32_t to; /* a set; 0: not known yet */
    uint16_t n_visit;
    uint16_t round; /* it was last paid for in */
};

struct sl_frame {
    uint32_t at, n; /* where to go on */
    uint32_t depth; /* frames in each other */
};

/* Numbers of what exists once, by content. */
struct sl_index {
    uint32_t *slot; /* [mask + 1]; 0: empty */
    uint32_t mask;
};

struct sl_sets {
    const struct sl_automaton *a; /* borrowed until deinit */
    struct sl_place *place;
    struct sl_set *set;     /* 0 is none; 1 and 2 are dead */
    struct sl_frame *frame;
    struct sl_step *step;   /* [n_set][n_class] */
    uint32_t n_place, n_set, n_frame;
    uint32_t cap_place, cap_set, cap_frame, max_set;
    struct sl_index set_index, frame_index;

    /* Work space of closing a set. */
    struct sl_place *work; /* [n_work] */
    uint32_t *prev;        /* earlier one of the same state, + 1 */
    uint32_t n_work;
    uint32_t *last, *last_stamp; /* [n_state] */
    struct sl_place *caller;     /* [n_caller] */
    uint32_t *caller_next;       /* of the same rule, + 1 */
    uint32_t n_caller;
    uint32_t *head, *head_stamp; /* [n_rule] newest caller, + 1 */
    uint64_t *pending;           /* a bit per rank */
    struct sl_place *sorted;     /* a frame or a set, being made */
    uint32_t stamp;
    uint32_t need, n_visit; /* of the closing that runs */
    bool cut, ends;

    struct sl_cost cost; /* since sl_sets_begin */
    uint32_t max_live;   /* steps to sets with places, of one operation */
    uint16_t round;
    int failed; /* 0, SL_EARG: it takes too much, SL_ENOMEM */
};

int sl_sets_init(struct sl_sets *s, const struct sl_automaton *a,
                 struct sl_err *err);
void sl_sets_deinit(struct sl_sets *s);

/* An operation begins: a run of steps that must not take for ever. */
void sl_sets_begin(struct sl_sets *s);

/* A part of it that is paid for as if it stood alone. */
void sl_sets_round(struct sl_sets *s);

/* Pay for a part whose outcome is known. */
void sl_sets_pay(struct sl_sets *s, struct sl_cost c);

uint32_t sl_sets_first(struct sl_sets *s);

/* By the bytes of a class; computes what is not known yet, and pays. */
uint32_t sl_sets_learn(struct sl_sets *s, uint32_t set, uint32_t class);

static inline uint32_t sl_sets_step(struct sl_sets *s, uint32_t set,
                                    uint8_t byte)
{
    uint32_t class = s->a->class_of[byte];
    const struct sl_step *x = &s->step[(size_t)set * s->a->n_class + class];

    return x->round == s->round ? x->to : sl_sets_learn(s, set, class);
}

/* By token[i] of the automaton. */
uint32_t sl_sets_token(struct sl_sets *s, uint32_t set, uint32_t i);

/* Where the text is when the rule of this frame has ended. */
uint32_t sl_sets_return(struct sl_sets *s, uint32_t frame);

/* The n places of a set from its i-th on, as a set of their own; with `any`, in
 * SL_FRAME_ANY. */
uint32_t sl_sets_part(struct sl_sets *s, uint32_t set, uint32_t i, uint32_t n,
                      bool any);

/* Memory that it holds. */
size_t sl_sets_bytes(const struct sl_sets *s);

/* Is it time to trim? */
bool sl_sets_is_crowded(const struct sl_sets *s);

/* Forget all but live[n], whose numbers change in place. On SL_ENOMEM all is as
 * before. */
int sl_sets_trim(struct sl_sets *s, uint32_t *const *live, size_t n,
                 struct sl_err *err);

#endif
