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
 * One thread at a time. Memory grows to the limits below; then `full` is set,
 * every new step is dead, and what was being worked out is void. sl_sets_trim
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

/* A list in sl_sets.place, by rising frame and state. */
struct sl_set {
    uint32_t at, n;
    uint32_t mask;  /* for shape.c; 0 at first */
    uint32_t plain; /* for shape.c; 0 at first */
    uint16_t need;  /* depth that was looked at on the way here; above
                       SL_AUTOMATON_MAX_DEPTH: something was cut off there */
    bool ends;      /* the text may end here */
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
    uint32_t *next;         /* [n_set][n_class]; 0: not known yet */
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
    uint32_t need; /* of the closing that runs */
    bool cut, ends;

    uint64_t n_visit; /* places looked at since sl_sets_begin */
    bool full;
};

int sl_sets_init(struct sl_sets *s, const struct sl_automaton *a,
                 struct sl_err *err);
void sl_sets_deinit(struct sl_sets *s);

/* Before a run of steps that must not take for ever: forget what was counted. */
void sl_sets_begin(struct sl_sets *s);

uint32_t sl_sets_first(struct sl_sets *s);

/* By the bytes of a class; computes what is not known yet. */
uint32_t sl_sets_learn(struct sl_sets *s, uint32_t set, uint32_t class);

static inline uint32_t sl_sets_step(struct sl_sets *s, uint32_t set,
                                    uint8_t byte)
{
    uint32_t class = s->a->class_of[byte];
    uint32_t to = s->next[(size_t)set * s->a->n_class + class];

    return to ? to : sl_sets_learn(s, set, class);
}

/* By token[i] of the automaton. */
uint32_t sl_sets_token(struct sl_sets *s, uint32_t set, uint32_t i);

/* Where the text is when the rule of this frame has ended. */
uint32_t sl_sets_return(struct sl_sets *s, uint32_t frame);

/* The n places of a set from its i-th on, as a set of their own; with `any`, in
 * SL_FRAME_ANY. */
uint32_t sl_sets_part(struct sl_sets *s, uint32_t set, uint32_t i, uint32_t n,
                      bool any);

/* Is it time to trim? */
bool sl_sets_is_crowded(const struct sl_sets *s);

/* Forget all but live[n], whose numbers change in place. On SL_ENOMEM all is as
 * before. */
int sl_sets_trim(struct sl_sets *s, uint32_t *const *live, size_t n,
                 struct sl_err *err);

#endif
