/* model/conf.h - the dimensions of a Qwen3.5-family text model
 *
 * Names on the right are those of config.json (text_config when it is there,
 * else the top level).
 */
#ifndef SL_MODEL_CONF_H
#define SL_MODEL_CONF_H

#include "base/json.h"

#define SL_MAX_LAYER 1024
#define SL_MAX_EXPERT 4096
#define SL_CONV 4 /* taps of the short convolution; others are refused */

enum sl_layer_kind { SL_LAYER_LINEAR, SL_LAYER_FULL };
enum sl_gate_kind { SL_GATE_SILU, SL_GATE_SIGMOID };

struct sl_conf {
    char arch[64];  /* architectures[0], for people */
    uint32_t vocab; /* vocab_size: rows of the embedding */
    uint32_t hidden, n_layer;
    uint32_t max_pos; /* max_position_embeddings: tokens */
    float eps;        /* rms_norm_eps */
    bool tied;        /* tie_word_embeddings: the head is the embedding */

    /* Full attention. */
    uint32_t n_head, n_kv_head, head_dim;
    uint32_t rot_dim; /* channels that rotate: head_dim * partial factor */
    double theta;     /* rope_theta */

    /* Gated DeltaNet. conv_dim = 2 * n_key * key_dim + n_val * val_dim. */
    uint32_t n_key, n_val, key_dim, val_dim, conv_dim;
    enum sl_gate_kind out_gate; /* output_gate_type */

    /* Gated MLP; ffn is 0 when no layer is dense. */
    uint32_t ffn;

    /* Mixture of experts; n_expert is 0 in dense models. */
    uint32_t n_expert, n_used, expert_ffn, shared_ffn;

    uint32_t n_mtp; /* mtp_num_hidden_layers: 0 or 1 */

    uint8_t kind[SL_MAX_LAYER];  /* enum sl_layer_kind */
    uint8_t dense[SL_MAX_LAYER]; /* 1: this layer has the dense MLP */

    int32_t eos[8]; /* eos_token_id, of generation_config.json if it has it */
    uint32_t n_eos;
};

/* Read and check config.json. Every field is range-checked, products that the
 * engine will form are known to fit, and what this engine does not do
 * (attention_bias, attn_output_gate false, other architectures, ...) is
 * refused by name and value. */
int sl_conf_parse(struct sl_conf *out, const json_t *config,
                  struct sl_err *err);

/* Where a configuration that did not come from JSON files came from: what its
 * two texts are called in messages, and what stands behind one of its fields
 * (or NULL). */
struct sl_conf_names {
    const char *config, *generation;
    const char *(*field)(const char *field);
};

/* The same with the end tokens of generation_config.json, which win; it may be
 * NULL. names NULL: both are files. */
int sl_conf_from(struct sl_conf *out, const json_t *config,
                 const json_t *generation, const struct sl_conf_names *names,
                 struct sl_err *err);

/* config.json and generation_config.json of a folder; *generation is NULL when
 * there is none. The caller ends both with json_decref. */
int sl_conf_files(json_t **config, json_t **generation, const char *dir,
                  struct sl_err *err);

/* The config.json of a checkpoint folder, with the eos ids of
 * generation_config.json when that is there and has them. */
int sl_conf_load(struct sl_conf *out, const char *dir, struct sl_err *err);

/* Layers of a kind, target only. */
uint32_t sl_conf_count(const struct sl_conf *c, enum sl_layer_kind kind);

#endif
