/* layers.c - one layer of each kind, for counting instructions
 *
 * Networks of a single layer (a DeltaNet or an attention layer with a dense MLP,
 * and a DeltaNet layer with experts) with random weights of the default types
 * run steps of 1, 4 and 64 rows behind 64 tokens of context. Under valgrind's
 * callgrind each step's instructions are dumped by name; scripts/counts reads
 * the dumps and compares them with tests/bench/counts.txt.
 */
#include <valgrind/callgrind.h>

#include "../help/rig.h"
#include "base/mem.h"
#include "model/qwen35.h"

enum { DEPTH = 64, MAX_ROW = 64 };

struct kind {
    const char *name, *config;
};

#define COMMON                                                                 \
    "\"vocab_size\": 256, \"hidden_size\": 256, \"num_hidden_layers\": 1,"      \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 1,"                  \
    "\"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4,"              \
    "\"rope_parameters\": {\"rope_theta\": 1e7},"

static const struct kind kinds[] = {
    {"deltanet", "{\"architectures\": [\"Qwen3_5ForCausalLM\"]," COMMON
                 "\"layer_types\": [\"linear_attention\"],"
                 "\"intermediate_size\": 768}"},
    {"attention", "{\"architectures\": [\"Qwen3_5ForCausalLM\"]," COMMON
                  "\"layer_types\": [\"full_attention\"],"
                  "\"intermediate_size\": 768}"},
    {"experts", "{\"architectures\": [\"Qwen3_5MoeForCausalLM\"]," COMMON
                "\"layer_types\": [\"linear_attention\"],"
                "\"num_experts\": 8, \"num_experts_per_tok\": 2,"
                "\"moe_intermediate_size\": 256,"
                "\"shared_expert_intermediate_size\": 256}"},
};

struct net {
    struct sl_kern kern;
    struct sl_pool *pool;
    struct sl_weights *w;
    struct sl_memory *mem;
    struct sl_model *model;
};

static void must(int rc, const struct sl_err *err)
{
    if (rc) {
        fprintf(stderr, "%s\n", err->msg);
        exit(1);
    }
}

static void open_net(struct net *n, const struct kind *k)
{
    static struct sl_conf conf;
    struct sl_kv_plane plane[SL_MODEL_PLANES];
    struct sl_model_opts mo = {
        .max_row = MAX_ROW, .max_seq = 1, .max_logit = 1};
    struct sl_memory_opts m = {.planes = plane,
                               .kv_type = SL_BF16,
                               .n_page = 64,
                               .max_tok = 1024,
                               .n_seq = 1,
                               .n_draft = 1,
                               .n_slot = 2};
    struct sl_load_opts lo = {
        .plan = SL_PLAN_Q4, .dummy = true, .shape = &conf};
    struct sl_err err;
    json_t *j = NULL;

    must(sl_json_parse(&j, k->config, strlen(k->config), k->name, &err), &err);
    must(sl_conf_parse(&conf, j, &err), &err);
    json_decref(j);
    sl_kern_init(&n->kern, SL_CPU_ALL);
    must(sl_pool_open(&n->pool, 1, false, &err), &err);
    lo.pool = n->pool;
    must(sl_weights_open(&n->w, k->name, &lo, &err), &err);
    m.n_plane = sl_model_planes(&n->w->conf, false, plane);
    sl_model_rec_shape(&n->w->conf, 3, &m.rec);
    must(sl_memory_open(&n->mem, &m, &err), &err);
    must(sl_model_open(&n->model, n->w, n->pool, &n->kern, &mo, &err), &err);
}

static void close_net(struct net *n)
{
    sl_model_close(&n->model);
    sl_memory_close(&n->mem);
    sl_weights_close(&n->w);
    sl_pool_close(&n->pool);
}

/* One step of `rows` rows; up to 4 are a draft to verify. */
static void step(struct net *n, struct sl_seq *q, uint32_t rows)
{
    int32_t tok[MAX_ROW];
    uint32_t last = rows - 1, tent = rows <= 4 ? rows - 1 : 0;
    struct sl_step s = {.seq = &q,
                        .n_seq = 1,
                        .tok = tok,
                        .n_row = rows,
                        .logit_row = &last,
                        .n_logit = 1};
    struct sl_err err;

    for (uint32_t i = 0; i < rows; i++)
        tok[i] = (int32_t)(i * 37 % 256);
    must(sl_seq_begin(q, rows - tent, tent, &err), &err);
    sl_forward(n->model, &s);
    sl_seq_end(q, 0);
}

static void count(struct net *n, const char *name, uint32_t rows)
{
    struct sl_seq *q = NULL;
    struct sl_err err;
    char label[64];

    must(sl_seq_open(&q, n->mem, &err), &err);
    for (uint32_t i = 0; i < DEPTH; i += MAX_ROW)
        step(n, q, MAX_ROW);
    snprintf(label, sizeof(label), "%s %u", name, rows);
    CALLGRIND_ZERO_STATS;
    step(n, q, rows);
    CALLGRIND_DUMP_STATS_AT(label);
    sl_seq_close(&q);
}

int main(void)
{
    static const uint32_t rows[] = {1, 4, 64};

    for (size_t k = 0; k < SL_COUNTOF(kinds); k++) {
        struct net n;

        open_net(&n, &kinds[k]);
        for (size_t i = 0; i < SL_COUNTOF(rows); i++)
            count(&n, kinds[k].name, rows[i]);
        close_net(&n);
    }
    return 0;
}
