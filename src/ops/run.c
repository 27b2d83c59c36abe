/* ops/run.c - what every operation needs; see run.h */
#include "ops/run.h"

static const float *identity(void *ctx, const float *x, size_t n_tok,
                             size_t cols)
{
    (void)ctx;
    (void)n_tok;
    (void)cols;
    return x;
}

void sl_run_init(struct sl_run *r, struct sl_pool *pool,
                 const struct sl_kern *kern)
{
    *r = (struct sl_run){.pool = pool, .kern = kern, .gather = identity};
}
