/* tests/help/rig.h - a model ready to step, for tests below the engine */
#ifndef RIG_H
#define RIG_H

#include "model/qwen35.h"

struct rig {
    struct sl_pool *pool;
    struct sl_kern kern;
    struct sl_weights *w;
    struct sl_model *m;
    struct sl_memory *mem;
    bool borrowed; /* the weights belong to another rig */
};

struct rig_opts {
    unsigned n_thread;
    unsigned cpu_mask;
    enum sl_dtype kv_type;
    enum sl_dtype_plan plan; /* of weights that are not lent */
    uint32_t max_row, max_seq, max_tent, max_tok, n_slot;
};

/* One thread, all instruction sets, fp32 KV, room for small tests. */
void rig_opts_init(struct rig_opts *o);

/* End the program with a message when the model cannot be opened. `share`
 * lends its weights; NULL loads them from dir. */
void rig_open(struct rig *r, const char *dir, const struct rig *share,
              const struct rig_opts *o);
void rig_close(struct rig *r);

/* Feed n tokens to one sequence as firm rows, `chunk` at a time (0: all at
 * once), and copy the logits of every row to logits [n][vocab] unless NULL. */
void rig_feed(struct rig *r, struct sl_seq *q, const int32_t *tok, uint32_t n,
              uint32_t chunk, float *logits);

/* Whether two models of one vocabulary give the same logits, by their bits, for
 * the rows of some tokens. */
bool rig_same_logits(struct rig *a, struct rig *b);

/* A sequence, or the end of the program. */
struct sl_seq *rig_seq(struct rig *r);

/* A small generator for tests: the same numbers everywhere (splitmix64). */
uint64_t rig_random(uint64_t *state);

#endif
