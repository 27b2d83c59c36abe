/* model/packing.h - a model -> a packed file, and the folder that keeps them
 *
 * A packed file is named after what it was made from: its key is a digest of
 * the content of the source, the dtype plan and the versions. Reading a source
 * to find its key costs as much as packing it, so a receipt remembers it: a
 * small file whose name is a digest of device, inode, size and time of change
 * of every file of the source.
 *
 *   DIR/packed/KEY.sluice      the packed file
 *   DIR/packed/by/ID           64 hexadecimal digits, the KEY
 *   DIR/packed/cost/ID         what steps take (engine/cost_file.h)
 */
#ifndef SL_MODEL_PACKING_H
#define SL_MODEL_PACKING_H

#include "model/weights.h"

#define SL_PACKING_COST "packed/cost" /* in DIR */

struct sl_packing_opts {
    struct sl_pool *pool; /* borrowed for the call */
    enum sl_dtype_plan plan;
    const struct sl_importance *importance; /* NULL: none; part of the key */
    sl_progress_fn *progress; /* NULL allowed */
    void *progress_ctx;
};

/* Write `path` so that others see all of it or nothing. A packed source of the
 * same plan (or with SL_PLAN_AUTO) is checked and copied. */
int sl_packing_write(const char *path, struct sl_source *src,
                     const struct sl_packing_opts *opts, struct sl_err *err);

/* The packed form of *src: found in the folder `dir` by its receipt, or made
 * and kept there. *src becomes that; its files are not needed any more. A
 * packed source stays as it is. Damaged files are made again, with a warning.
 * SL_ENOSPACE and the like name the folder. */
int sl_packing_cached(struct sl_source **src, const char *dir,
                      const struct sl_packing_opts *opts, struct sl_err *err);

/* The first half of that: true when it was found, and *src is packed now. */
bool sl_packing_find(struct sl_source **src, const char *dir,
                     enum sl_dtype_plan plan);

/* What tells the weights of this source and plan from others: the key of packed
 * ones, else a digest of the stamps of its files. False when they cannot be
 * listed. And the same of any folder. */
bool sl_packing_id(uint8_t out[SL_SHA256], const struct sl_source *src,
                   enum sl_dtype_plan plan);
bool sl_packing_folder_id(uint8_t out[SL_SHA256], const char *dir);

/* Check all digests of a packed file. */
int sl_packing_verify(const struct sl_packed *p, struct sl_pool *pool,
                      sl_progress_fn *progress, void *ctx, struct sl_err *err);

#endif
