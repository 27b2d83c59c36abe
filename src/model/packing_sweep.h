/* model/packing_sweep.h - packed files that nothing has opened for long
 *
 * A start that finds its packed file touches the receipt (packing.h). What no
 * receipt of the last days names goes, with what killed processes left, and the
 * times of engines (engine/cost_file.h) that none has read as long. Nobody
 * who has a file open loses it: mapped bytes stay until they are unmapped.
 */
#ifndef SL_MODEL_PACKING_SWEEP_H
#define SL_MODEL_PACKING_SWEEP_H

#include "base/err.h"

struct sl_packing_sweep {
    int days;
    bool dry_run;
    /* Called for each file that is, or would be, removed. */
    void (*removed)(void *ctx, const char *path, uint64_t bytes);
    void *ctx;
};

/* Of the folder `dir` of packing.h; fine when it is not there. */
int sl_packing_sweep(const char *dir, const struct sl_packing_sweep *s,
                     struct sl_err *err);

#endif
