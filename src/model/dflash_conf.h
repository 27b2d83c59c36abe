/* model/dflash_conf.h - the dimensions of a DFlash drafter
 *
 * Names on the right are those of its config.json; those of dflash_config may
 * also stand at the top (first generation).
 */
#ifndef SL_MODEL_DFLASH_CONF_H
#define SL_MODEL_DFLASH_CONF_H

#include "model/conf.h"

#define SL_FLASH_MAX_LAYER 64
#define SL_FLASH_MAX_TAP 16
#define SL_FLASH_MAX_BLOCK 16 /* block_size, the anchor among them */
#define SL_FLASH_MAX_TOP 64   /* selector_top_k */

struct sl_flash_conf {
    uint32_t hidden, ffn, n_layer, n_head, n_kv_head, head_dim, vocab;
    float eps;
    double theta;
    uint32_t block;   /* block_size: drafts and the anchor */
    int32_t mask_id;  /* mask_token_id */
    uint32_t n_tap, tap[SL_FLASH_MAX_TAP]; /* target_layer_ids, rising */
    uint32_t window[SL_FLASH_MAX_LAYER];   /* sliding_window; 0: all */
    bool causal[SL_FLASH_MAX_LAYER];
    float embed_scale, multiplier; /* input_embedding_scale, output_multiplier */
    float softcap;                 /* final_logit_softcapping; 0: none */

    bool is_v2; /* DFlash2DraftModel: convolutions and the selector */
    uint32_t group, rank, top_k; /* conv_group_size, selector_rank, _top_k */
};

/* The published drafter of the second generation (model.md 8.1) as it would be
 * for this target, which has four layers at least. */
void sl_flash_conf_dummy(struct sl_flash_conf *out,
                         const struct sl_conf *target);

/* Read and check `dir`/config.json against the target that it is to draft for.
 * SL_EUNSUP for other architectures, SL_EFORMAT for a drafter of another model
 * or values out of range. */
int sl_flash_conf_load(struct sl_flash_conf *out, const char *dir,
                       const struct sl_conf *target, struct sl_err *err);

#endif
