/* model/dtypes.c - dtype plans; see dtypes.h */
#include "model/dtypes.h"

#include "kern/quantise.h"

#define KEEP SL_N_DTYPE /* the type of the file */

struct plan {
    const char *name;
    enum sl_dtype type[SL_N_WEIGHT_CLASS];
    enum sl_dtype tied; /* an embedding that is the head, too */
};

/* q4: experts and MLPs are most of the bytes and bear it; attention and
 * DeltaNet projections less so; the head decides the token. bfp4 is the plan of
 * the boards' first bundle. */
static const struct plan plans[] = {
    [SL_PLAN_AUTO] = {"auto",
                      {KEEP, KEEP, KEEP, KEEP, KEEP, KEEP, KEEP, KEEP},
                      KEEP},
    [SL_PLAN_Q8] = {"q8",
                    {[SL_W_EMBED] = SL_Q8_0,
                     [SL_W_HEAD] = SL_Q8_0,
                     [SL_W_ATTN] = SL_Q8_0,
                     [SL_W_LINEAR] = SL_Q8_0,
                     [SL_W_FFN] = SL_Q8_0,
                     [SL_W_EXPERT] = SL_Q8_0,
                     [SL_W_MTP] = SL_Q8_0,
                     [SL_W_SMALL] = KEEP},
                    SL_Q8_0},
    [SL_PLAN_Q4] = {"q4",
                    {[SL_W_EMBED] = SL_Q8_0,
                     [SL_W_HEAD] = SL_Q6_K,
                     [SL_W_ATTN] = SL_Q5_K,
                     [SL_W_LINEAR] = SL_Q5_K,
                     [SL_W_FFN] = SL_Q4_K,
                     [SL_W_EXPERT] = SL_Q4_K,
                     [SL_W_MTP] = SL_Q5_K,
                     [SL_W_SMALL] = KEEP},
                    SL_Q6_K},
    [SL_PLAN_BFP4] = {"bfp4",
                      {[SL_W_EMBED] = SL_BFP8,
                       [SL_W_HEAD] = SL_BFP8,
                       [SL_W_ATTN] = SL_BFP8,
                       [SL_W_LINEAR] = SL_BFP8,
                       [SL_W_FFN] = SL_BFP8,
                       [SL_W_EXPERT] = SL_BFP4,
                       [SL_W_MTP] = SL_BFP8,
                       [SL_W_SMALL] = KEEP},
                      SL_BFP8},
    [SL_PLAN_DRAFT] = {"drafter",
                       {SL_Q4_0, SL_Q4_0, SL_Q4_0, SL_Q4_0, SL_Q4_0, SL_Q4_0,
                        SL_Q4_0, KEEP},
                       SL_Q4_0},
};

const char *sl_dtypes_name(uint64_t plan)
{
    return plan < SL_COUNTOF(plans) ? plans[plan].name : "something else";
}

static enum sl_dtype meant(uint64_t plan, enum sl_weight_class class, bool tied)
{
    return class == SL_W_EMBED && tied ? plans[plan].tied
                                       : plans[plan].type[class];
}

enum sl_dtype sl_dtypes_get(enum sl_dtype_plan plan, enum sl_weight_class class,
                            bool tied, size_t cols, enum sl_dtype from)
{
    enum sl_dtype t = meant((uint64_t)plan, class, tied);

    if (t == KEEP || cols % 32 != 0)
        return from;
    return cols % sl_dtype_get(t)->block == 0 ? t : SL_Q8_0;
}

bool sl_dtypes_falls_back(uint64_t plan, enum sl_weight_class class, bool tied,
                          size_t cols)
{
    enum sl_dtype t =
        plan < SL_COUNTOF(plans) ? meant(plan, class, tied) : KEEP;

    return t != KEEP && cols % 32 == 0 && cols % sl_dtype_get(t)->block != 0;
}
