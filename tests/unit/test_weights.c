/* Loading weights: every element of small checkpoints written here is at its
 * place and has its value; what is missing, misshapen, unknown or damaged is
 * named. Values are functions of the tensor's name and the element's number, so
 * a wrong row, column or tensor cannot look right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>
#include <math.h>

#include "../help/st_out.h"
#include "base/mem.h"
#include "file/safetensors.h"
#include "kern/kern.h"
#include "kern/math.h"
#include "model/weights.h"

enum experts { DENSE, FUSED, STACKED, SINGLE };
enum edit { KEEP, SKIP, RESHAPE, POISON, RETYPE };

/* What varies between the checkpoints of this file. */
struct tiny {
    const char *prefix, *top; /* "model.", "" */
    const char *dtype;        /* of all tensors */
    bool fp8;                 /* matrices of 16 x 16 or more */
    enum experts experts;
    bool tied, mtp, mlx, vision;
    unsigned val_dim;
    const char *edit_name; /* this tensor is treated as `edit` says */
    enum edit edit;
    size_t poison_at;
    const char *add; /* one more tensor */
    bool shards;     /* layer 1 in a file of its own, and an index */
};

static const struct tiny plain = {
    .prefix = "model.", .top = "", .dtype = "BF16", .val_dim = 32};

enum {
    HIDDEN = 40,
    VOCAB = 19,
    N_LAYER = 2, /* layer 0 linear, layer 1 full */
    N_HEAD = 2,
    HEAD_DIM = 16,
    N_KEY = 2,
    N_VAL = 6,
    KEY_DIM = 16,
    FFN = 20,
    N_EXPERT = 3,
    EXPERT_FFN = 12, /* no multiple of 8: up begins inside a group */
    SHARED_FFN = 8,
};

static struct sl_kern kern;
static struct sl_pool *pool;

/* --- values --- */

static uint64_t hash(const char *name, size_t i)
{
    uint64_t h = 1469598103934665603u;

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 1099511628211u;
    h = (h ^ i) * 0x9e3779b97f4a7c15u;
    return (h ^ h >> 29) * 0xbf58476d1ce4e5b9u >> 20;
}

/* Exact in bf16, f16 and fp32. */
static float value(const char *name, size_t i)
{
    /* MLX's norms hold 1 + weight, so that the mean is near 1. */
    if (strstr(name, "norm") && strstr(name, "+"))
        return (float)(hash(name, i) % 15 + 9) / 16.0f;
    return (float)((int)(hash(name, i) % 255) - 127) / 64.0f;
}

static uint8_t fp8_code(const char *name, size_t i)
{
    uint8_t q = (uint8_t)hash(name, i);

    return (q & 0x7f) == 0x7f ? 0 : q;
}

static float fp8_scale(const char *name, size_t block)
{
    return 1.0f / (float)(64 + hash(name, block + 1000000) % 64);
}

static float round_bf16(float f)
{
    return sl_bf16_f32(sl_f32_bf16(f));
}

/* --- writing --- */

static size_t put(unsigned char *out, const char *dtype, float v)
{
    uint32_t u;
    uint16_t h;

    memcpy(&u, &v, sizeof(u));
    if (!strcmp(dtype, "F32")) {
        memcpy(out, &u, 4);
        return 4;
    }
    h = sl_f32_bf16(v);
    if (!strcmp(dtype, "F16")) /* multiples of 1/64 below 2 are normal */
        h = v == 0 ? 0
                   : (uint16_t)((u >> 16 & 0x8000) |
                                (((u >> 23 & 0xff) - 112) << 10) |
                                (u >> 13 & 0x3ff));
    memcpy(out, &h, 2);
    return 2;
}

static size_t blocks(size_t n)
{
    return (n + 127) / 128;
}

static void write_fp8(struct st_out *o, const char *name, unsigned n_dim,
                      const size_t *dim)
{
    size_t rows = dim[n_dim - 2], cols = dim[n_dim - 1];
    size_t slices = n_dim == 3 ? dim[0] : 1;
    size_t n = slices * rows * cols, nb = slices * blocks(rows) * blocks(cols);
    size_t sdim[3] = {slices, blocks(rows), blocks(cols)};
    unsigned char *p = malloc(n), *s = malloc(2 * nb);
    char scale[200];

    for (size_t i = 0; i < n; i++)
        p[i] = fp8_code(name, i);
    for (size_t i = 0; i < nb; i++)
        put(s + 2 * i, "BF16", fp8_scale(name, i));
    st_add(o, name, "F8_E4M3", n_dim, dim, p, n);
    snprintf(scale, sizeof(scale), "%s_scale_inv", name);
    st_add(o, scale, "BF16", n_dim, sdim + 3 - n_dim, s, 2 * nb);
    free(p);
    free(s);
}

static void write_tensor(struct st_out *o, const struct tiny *t,
                         const char *name, unsigned n_dim, size_t d0, size_t d1,
                         size_t d2)
{
    size_t dim[3] = {d0, d1, d2}, n = 1, len = 0;
    enum edit edit =
        t->edit_name && strstr(name, t->edit_name) ? t->edit : KEEP;
    const char *dtype = edit == RETYPE ? "I16" : t->dtype;
    char value_name[220];
    unsigned char *p;

    if (edit == SKIP)
        return;
    for (unsigned i = 0; i < n_dim; i++)
        n *= dim[i];
    if (t->fp8 && n_dim >= 2 && dim[n_dim - 1] >= 16 && dim[n_dim - 2] >= 16 &&
        !strstr(name, "embed") && !strstr(name, "head")) {
        write_fp8(o, name, n_dim, dim);
        return;
    }
    p = malloc(4 * n);
    snprintf(value_name, sizeof(value_name), "%s%s", name, t->mlx ? "+" : "");
    for (size_t i = 0; i < n; i++) {
        float v = value(value_name, i);

        if (edit == POISON && i == t->poison_at)
            v = NAN;
        len += put(p + len, dtype, v);
    }
    if (edit == RESHAPE)
        dim[0] = n, n_dim = 1;
    st_add(o, name, dtype, n_dim, dim, p, len);
    free(p);
}

static void write_mlp(struct st_out *o, const struct tiny *t, const char *part,
                      size_t ffn)
{
    char name[200];

    snprintf(name, sizeof(name), "%s.gate_proj.weight", part);
    write_tensor(o, t, name, 2, ffn, HIDDEN, 0);
    snprintf(name, sizeof(name), "%s.up_proj.weight", part);
    write_tensor(o, t, name, 2, ffn, HIDDEN, 0);
    snprintf(name, sizeof(name), "%s.down_proj.weight", part);
    write_tensor(o, t, name, 2, HIDDEN, ffn, 0);
}

static void write_moe(struct st_out *o, const struct tiny *t, const char *layer)
{
    char name[200];
    const char *gate_up[] = {"gate_proj", "up_proj"};

#define NAME(suffix)                                                           \
    (snprintf(name, sizeof(name), "%smlp.%s", layer, suffix), name)
    write_tensor(o, t, NAME("gate.weight"), 2, N_EXPERT, HIDDEN, 0);
    write_tensor(o, t, NAME("shared_expert_gate.weight"), 2, 1, HIDDEN, 0);
    write_mlp(o, t, NAME("shared_expert"), SHARED_FFN);
    if (t->experts == FUSED) {
        write_tensor(o, t, NAME("experts.gate_up_proj"), 3, N_EXPERT,
                     2 * EXPERT_FFN, HIDDEN);
        write_tensor(o, t, NAME("experts.down_proj"), 3, N_EXPERT, HIDDEN,
                     EXPERT_FFN);
    }
    for (size_t e = 0; t->experts == SINGLE && e < N_EXPERT; e++) {
        snprintf(name, sizeof(name), "%smlp.experts.%zu", layer, e);
        write_mlp(o, t, name, EXPERT_FFN);
    }
    for (size_t i = 0; t->experts == STACKED && i < 2; i++) {
        snprintf(name, sizeof(name), "%smlp.switch_mlp.%s.weight", layer,
                 gate_up[i]);
        write_tensor(o, t, name, 3, N_EXPERT, EXPERT_FFN, HIDDEN);
    }
    if (t->experts == STACKED)
        write_tensor(o, t, NAME("switch_mlp.down_proj.weight"), 3, N_EXPERT,
                     HIDDEN, EXPERT_FFN);
#undef NAME
}

static void write_layer(struct st_out *o, const struct tiny *t,
                        const char *layer, bool full)
{
    size_t v = (size_t)N_VAL * t->val_dim, conv = 2 * N_KEY * KEY_DIM + v;
    char name[200];

#define NAME(suffix) (snprintf(name, sizeof(name), "%s%s", layer, suffix), name)
    write_tensor(o, t, NAME("input_layernorm.weight"), 1, HIDDEN, 0, 0);
    write_tensor(o, t, NAME("post_attention_layernorm.weight"), 1, HIDDEN, 0,
                 0);
    if (full) {
        write_tensor(o, t, NAME("self_attn.q_proj.weight"), 2,
                     2 * N_HEAD * HEAD_DIM, HIDDEN, 0);
        write_tensor(o, t, NAME("self_attn.k_proj.weight"), 2, HEAD_DIM, HIDDEN,
                     0);
        write_tensor(o, t, NAME("self_attn.v_proj.weight"), 2, HEAD_DIM, HIDDEN,
                     0);
        write_tensor(o, t, NAME("self_attn.o_proj.weight"), 2, HIDDEN,
                     N_HEAD * HEAD_DIM, 0);
        write_tensor(o, t, NAME("self_attn.q_norm.weight"), 1, HEAD_DIM, 0, 0);
        write_tensor(o, t, NAME("self_attn.k_norm.weight"), 1, HEAD_DIM, 0, 0);
    } else {
        write_tensor(o, t, NAME("linear_attn.in_proj_qkv.weight"), 2, conv,
                     HIDDEN, 0);
        write_tensor(o, t, NAME("linear_attn.in_proj_z.weight"), 2, v, HIDDEN,
                     0);
        write_tensor(o, t, NAME("linear_attn.in_proj_b.weight"), 2, N_VAL,
                     HIDDEN, 0);
        write_tensor(o, t, NAME("linear_attn.in_proj_a.weight"), 2, N_VAL,
                     HIDDEN, 0);
        write_tensor(o, t, NAME("linear_attn.conv1d.weight"), 3, conv,
                     t->mlx ? 4 : 1, t->mlx ? 1 : 4);
        write_tensor(o, t, NAME("linear_attn.A_log"), 1, N_VAL, 0, 0);
        write_tensor(o, t, NAME("linear_attn.dt_bias"), 1, N_VAL, 0, 0);
        write_tensor(o, t, NAME("linear_attn.norm.weight"), 1, t->val_dim, 0,
                     0);
        write_tensor(o, t, NAME("linear_attn.out_proj.weight"), 2, HIDDEN, v,
                     0);
    }
    if (t->experts == DENSE)
        write_mlp(o, t, NAME("mlp"), FFN);
    else
        write_moe(o, t, layer);
#undef NAME
}

static void write_config(const char *dir, const struct tiny *t)
{
    char text[1500];

    snprintf(text, sizeof(text),
             "{\"model_type\":\"qwen3_5\",\"vocab_size\":%d,\"hidden_size\":%d,"
             "\"intermediate_size\":%d,\"num_hidden_layers\":%d,"
             "\"num_attention_heads\":%d,\"num_key_value_heads\":1,"
             "\"head_dim\":%d,\"linear_num_key_heads\":%d,"
             "\"linear_num_value_heads\":%d,\"linear_key_head_dim\":%d,"
             "\"linear_value_head_dim\":%u,\"full_attention_interval\":2,"
             "\"rope_theta\":10000,\"tie_word_embeddings\":%s,"
             "\"mtp_num_hidden_layers\":%d,\"num_experts\":%d,"
             "\"num_experts_per_tok\":%d,\"moe_intermediate_size\":%d,"
             "\"shared_expert_intermediate_size\":%d}",
             VOCAB, HIDDEN, FFN, N_LAYER, N_HEAD, HEAD_DIM, N_KEY, N_VAL,
             KEY_DIM, t->val_dim, t->tied ? "true" : "false", t->mtp,
             t->experts == DENSE ? 0 : N_EXPERT, 2, EXPERT_FFN, SHARED_FFN);
    scratch_write(dir, "config.json", text, strlen(text));
}

static void write_mtp(struct st_out *o, const struct tiny *t)
{
    char name[200];

#define NAME(suffix)                                                           \
    (snprintf(name, sizeof(name), "%smtp.%s", t->top, suffix), name)
    write_tensor(o, t, NAME("fc.weight"), 2, HIDDEN, 2 * HIDDEN, 0);
    write_tensor(o, t, NAME("pre_fc_norm_embedding.weight"), 1, HIDDEN, 0, 0);
    write_tensor(o, t, NAME("pre_fc_norm_hidden.weight"), 1, HIDDEN, 0, 0);
    write_tensor(o, t, NAME("norm.weight"), 1, HIDDEN, 0, 0);
    write_layer(o, t, NAME("layers.0."), true);
#undef NAME
}

/* Which file has which tensor. */
static void write_index(const char *dir)
{
    FILE *f = fopen(scratch_path(dir, "model.safetensors.index.json"), "w");
    const char *file[] = {"one.safetensors", "two.safetensors"};
    const char *comma = "";

    fputs("{\"metadata\":{},\"weight_map\":{", f);
    for (int k = 0; k < 2; k++) {
        struct sl_st *st = NULL;

        assert_int_equal(sl_st_open(&st, scratch_path(dir, file[k]), NULL), 0);
        for (size_t i = 0; i < st->n_ten; i++, comma = ",")
            fprintf(f, "%s\"%s\":\"%s\"", comma, st->ten[i].name, file[k]);
        sl_st_close(&st);
    }
    fputs("}}", f);
    fclose(f);
}

static char *write_tiny(const struct tiny *t)
{
    char *dir = scratch_make(), name[200];
    struct st_out o, second;

    write_config(dir, t);
    st_begin(&o);
    if (t->shards)
        st_begin(&second);
    snprintf(name, sizeof(name), "%sembed_tokens.weight", t->prefix);
    write_tensor(&o, t, name, 2, VOCAB, HIDDEN, 0);
    for (int i = 0; i < N_LAYER; i++) {
        snprintf(name, sizeof(name), "%slayers.%d.", t->prefix, i);
        write_layer(i && t->shards ? &second : &o, t, name, i == 1);
    }
    snprintf(name, sizeof(name), "%snorm.weight", t->prefix);
    write_tensor(&o, t, name, 1, HIDDEN, 0, 0);
    snprintf(name, sizeof(name), "%slm_head.weight", t->top);
    if (!t->tied)
        write_tensor(&o, t, name, 2, VOCAB, HIDDEN, 0);
    if (t->mtp)
        write_mtp(&o, t);
    if (t->vision)
        write_tensor(&o, t, "model.visual.blocks.0.norm1.bias", 1, 3, 0, 0);
    if (t->add)
        write_tensor(&o, t, t->add, 1, 3, 0, 0);
    st_end(&o, dir, t->shards ? "one.safetensors" : "model.safetensors");
    if (t->shards) {
        st_end(&second, dir, "two.safetensors");
        write_index(dir);
    }
    return dir;
}

/* --- loading and comparing --- */

static int try_open(struct sl_weights **w, const char *dir, struct sl_err *err)
{
    struct sl_load_opts o = {.pool = pool};

    return sl_weights_open(w, dir, &o, err);
}

/* model.md 10.4, written out again: internal head n is file head
 * (n mod n_key) * r + n / n_key. */
static size_t head_src(size_t i, size_t start, size_t unit)
{
    size_t n;

    if (!unit || i < start)
        return i;
    n = (i - start) / unit;
    return start + (n % N_KEY * (N_VAL / N_KEY) + n / N_KEY) * unit +
           (i - start) % unit;
}

struct where {
    const char *name;
    size_t row0; /* of a fused tensor seen as [slices * rows][cols] */
    size_t slice, slice_rows;
    size_t row_start, row_unit, col_unit;
};

static float want_at(const struct tiny *t, const struct where *p, size_t r,
                     size_t c, size_t cols, bool fp8)
{
    size_t row = p->row0 + head_src(r, p->row_start, p->row_unit);
    size_t col = head_src(c, 0, p->col_unit), nb = blocks(cols);
    size_t i = (p->slice * p->slice_rows + row) * cols + col;
    size_t block =
        p->slice * blocks(p->slice_rows) * nb + row / 128 * nb + col / 128;
    char name[220];

    snprintf(name, sizeof(name), "%s%s", p->name, t->mlx ? "+" : "");
    if (!fp8)
        return value(name, i);
    return sl_e4m3_f32(fp8_code(p->name, i)) *
           round_bf16(fp8_scale(p->name, block));
}

static void check_mat(const struct tiny *t, const struct sl_mat *m, size_t rows,
                      size_t cols, const struct where *p)
{
    bool fp8 = t->fp8 && cols >= 16 && (rows >= 16 || p->slice_rows >= 16) &&
               !strstr(p->name, "embed") && !strstr(p->name, "head");
    float row[1024];

    assert_int_equal(m->rows, rows);
    assert_int_equal(m->cols, cols);
    for (size_t r = 0; r < rows; r++) {
        kern.row[m->type](row, m->w, m->scale, r, cols);
        for (size_t c = 0; c < cols; c++) {
            float want = want_at(t, p, r, c, cols, fp8);

            if (memcmp(&want, &row[c], sizeof(want)) &&
                !(want == 0 && row[c] == 0))
                fail_msg("%s [%zu, %zu] is %g and should be %g", p->name, r, c,
                         (double)row[c], (double)want);
        }
    }
    /* The padding is zero, so kernels may run over it. */
    for (size_t r = rows; r < sl_round_up(rows, 8); r++) {
        kern.row[m->type](row, m->w, m->scale, r, cols);
        for (size_t c = 0; c < cols; c++)
            assert_true(row[c] == 0.0f);
    }
}

static void check_vec(const struct tiny *t, const float *v, size_t n,
                      const char *name, float plus, size_t unit)
{
    struct where p = {.name = name, .row_unit = unit};

    if (t->mlx)
        plus = 0;
    for (size_t i = 0; i < n; i++)
        assert_true(v[i] == plus + want_at(t, &p, i, 0, 1, false));
}

static void check_linear(const struct tiny *t, const struct sl_lin_w *l,
                         const char *layer)
{
    size_t v = (size_t)N_VAL * t->val_dim, qk = 2 * N_KEY * KEY_DIM;
    char name[200];

#define AT(suffix, ...)                                                        \
    (snprintf(name, sizeof(name), "%slinear_attn.%s", layer, suffix),          \
     &(struct where){.name = name, __VA_ARGS__})
#define NAME(suffix) (AT(suffix, .row0 = 0)->name)
    check_mat(
        t, &l->qkv, qk + v, HIDDEN,
        AT("in_proj_qkv.weight", .row_start = qk, .row_unit = t->val_dim));
    check_mat(t, &l->z, v, HIDDEN,
              AT("in_proj_z.weight", .row_unit = t->val_dim));
    check_mat(t, &l->b, N_VAL, HIDDEN, AT("in_proj_b.weight", .row_unit = 1));
    check_mat(t, &l->a, N_VAL, HIDDEN, AT("in_proj_a.weight", .row_unit = 1));
    check_mat(t, &l->out, HIDDEN, v,
              AT("out_proj.weight", .col_unit = t->val_dim));
    check_vec(t, l->dt, N_VAL, NAME("dt_bias"), 0, 1);
    check_vec(t, l->norm, t->val_dim, NAME("norm.weight"), 0, 0);
    for (size_t i = 0; i < N_VAL; i++) {
        float a = want_at(t, AT("A_log", .row_unit = 1), i, 0, 1, false);

        assert_true(l->a_neg[i] == -sl_exp(a));
    }
    /* Head by head [4][width]. */
    for (size_t i = 0; i < qk + v; i++)
        for (size_t tap = 0; tap < 4; tap++) {
            size_t width = i < qk ? KEY_DIM : t->val_dim;
            size_t first =
                i < qk ? i / width * width : qk + (i - qk) / width * width;
            float want = want_at(
                t, AT("conv1d.weight", .row_start = qk, .row_unit = t->val_dim),
                i, tap, 4, false);

            assert_true(l->conv[first * 4 + tap * width + i - first] == want);
        }
#undef NAME
#undef AT
}

static void check_full(const struct tiny *t, const struct sl_attn_w *a,
                       const char *layer)
{
    char name[200];

#define AT(suffix)                                                             \
    (snprintf(name, sizeof(name), "%sself_attn.%s.weight", layer, suffix),     \
     &(struct where){.name = name})
    check_mat(t, &a->q, 2 * N_HEAD * HEAD_DIM, HIDDEN, AT("q_proj"));
    check_mat(t, &a->k, HEAD_DIM, HIDDEN, AT("k_proj"));
    check_mat(t, &a->v, HEAD_DIM, HIDDEN, AT("v_proj"));
    check_mat(t, &a->o, HIDDEN, N_HEAD * HEAD_DIM, AT("o_proj"));
    check_vec(t, a->q_norm, HEAD_DIM, AT("q_norm")->name, 1, 0);
    check_vec(t, a->k_norm, HEAD_DIM, AT("k_norm")->name, 1, 0);
#undef AT
}

static void check_mlp(const struct tiny *t, const struct sl_mlp_w *m,
                      const char *part, size_t ffn)
{
    char name[200];

#define AT(suffix)                                                             \
    (snprintf(name, sizeof(name), "%s.%s_proj.weight", part, suffix),          \
     &(struct where){.name = name})
    check_mat(t, &m->gate, ffn, HIDDEN, AT("gate"));
    check_mat(t, &m->up, ffn, HIDDEN, AT("up"));
    check_mat(t, &m->down, HIDDEN, ffn, AT("down"));
#undef AT
}

static void check_expert(const struct tiny *t, const struct sl_mlp_w *m,
                         const char *layer, size_t e)
{
    bool fused = t->experts == FUSED;
    size_t f = EXPERT_FFN, rows = fused ? 2 * f : f;
    char name[200];

    if (t->experts == SINGLE) {
        snprintf(name, sizeof(name), "%smlp.experts.%zu", layer, e);
        check_mlp(t, m, name, f);
        return;
    }
#define AT(one, stacked, ...)                                                  \
    (snprintf(name, sizeof(name), "%smlp.%s", layer, fused ? one : stacked),   \
     &(struct where){.name = name, .slice = e, __VA_ARGS__})
    check_mat(t, &m->gate, f, HIDDEN,
              AT("experts.gate_up_proj", "switch_mlp.gate_proj.weight",
                 .slice_rows = rows));
    check_mat(t, &m->up, f, HIDDEN,
              AT("experts.gate_up_proj", "switch_mlp.up_proj.weight",
                 .slice_rows = rows, .row0 = fused ? f : 0));
    check_mat(t, &m->down, HIDDEN, f,
              AT("experts.down_proj", "switch_mlp.down_proj.weight",
                 .slice_rows = HIDDEN));
#undef AT
}

static void check_layer(const struct tiny *t, const struct sl_layer_w *l,
                        const char *layer)
{
    char name[200];

#define AT(suffix)                                                             \
    (snprintf(name, sizeof(name), "%s%s", layer, suffix),                      \
     &(struct where){.name = name})
    check_vec(t, l->in_norm, HIDDEN, AT("input_layernorm.weight")->name, 1, 0);
    check_vec(t, l->post_norm, HIDDEN,
              AT("post_attention_layernorm.weight")->name, 1, 0);
    if (l->kind == SL_LAYER_FULL)
        check_full(t, &l->attn, layer);
    else
        check_linear(t, &l->lin, layer);
    assert_int_equal(l->dense, t->experts == DENSE);
    if (l->dense) {
        check_mlp(t, &l->mlp, AT("mlp")->name, FFN);
        return;
    }
    check_mat(t, &l->moe.router, N_EXPERT, HIDDEN, AT("mlp.gate.weight"));
    check_mat(t, &l->moe.shared_gate, 1, HIDDEN,
              AT("mlp.shared_expert_gate.weight"));
    check_mlp(t, &l->moe.shared, AT("mlp.shared_expert")->name, SHARED_FFN);
    for (size_t e = 0; e < N_EXPERT; e++)
        check_expert(t, &l->moe.expert[e], layer, e);
#undef AT
}

static void check_mtp(const struct tiny *t, const struct sl_mtp_w *m)
{
    char name[200];

#define AT(suffix)                                                             \
    (snprintf(name, sizeof(name), "%smtp.%s", t->top, suffix),                 \
     &(struct where){.name = name})
    check_mat(t, &m->fc, HIDDEN, 2 * HIDDEN, AT("fc.weight"));
    check_vec(t, m->norm_embed, HIDDEN,
              AT("pre_fc_norm_embedding.weight")->name, 1, 0);
    check_vec(t, m->norm_hidden, HIDDEN, AT("pre_fc_norm_hidden.weight")->name,
              1, 0);
    check_vec(t, m->norm, HIDDEN, AT("norm.weight")->name, 1, 0);
    assert_int_equal(m->layer.kind, SL_LAYER_FULL);
    check_layer(t, &m->layer, AT("layers.0.")->name);
#undef AT
}

static void check_all(const struct tiny *t, const struct sl_weights *w)
{
    char name[200];
    size_t sum = 0;

    snprintf(name, sizeof(name), "%sembed_tokens.weight", t->prefix);
    check_mat(t, &w->embed, VOCAB, HIDDEN, &(struct where){.name = name});
    if (t->tied) {
        assert_ptr_equal(w->head.w, w->embed.w);
        assert_int_equal(w->class_bytes[SL_W_HEAD], 0);
    } else {
        snprintf(name, sizeof(name), "%slm_head.weight", t->top);
        check_mat(t, &w->head, VOCAB, HIDDEN, &(struct where){.name = name});
    }
    for (int i = 0; i < N_LAYER; i++) {
        snprintf(name, sizeof(name), "%slayers.%d.", t->prefix, i);
        check_layer(t, &w->layer[i], name);
    }
    snprintf(name, sizeof(name), "%snorm.weight", t->prefix);
    check_vec(t, w->norm, HIDDEN, name, 1, 0);
    assert_int_equal(w->has_mtp, t->mtp);
    if (t->mtp)
        check_mtp(t, &w->mtp);
    for (size_t i = 0; i < SL_COUNTOF(w->class_bytes); i++)
        sum += w->class_bytes[i];
    assert_true(sum <= w->bytes);
    assert_true(w->bytes - sum < 128 * 200);
}

static void loads(const struct tiny *t)
{
    char *dir = write_tiny(t);
    struct sl_weights *w = NULL;
    struct sl_err err = {0};

    if (try_open(&w, dir, &err))
        fail_msg("%s", err.msg);
    check_all(t, w);
    sl_weights_close(&w);
    scratch_remove(dir);
}

static void test_types(void **state)
{
    static const char *dtype[] = {"BF16", "F32", "F16"};
    struct tiny t = plain;

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(dtype); i++) {
        t.dtype = dtype[i];
        loads(&t);
    }
}

static void test_experts(void **state)
{
    struct tiny t = plain;

    (void)state;
    for (int e = FUSED; e <= SINGLE; e++) {
        t.experts = (enum experts)e;
        loads(&t);
        t.mtp = true;
    }
}

static void test_names(void **state)
{
    struct tiny t = plain;

    (void)state;
    t.mtp = t.vision = true;
    t.prefix = "model.language_model.";
    loads(&t);
    t.prefix = "language_model.model.";
    loads(&t);
    t.top = "language_model.";
    loads(&t);
    t.tied = true;
    loads(&t);
    t.prefix = t.top = "";
    loads(&t);
    t.shards = true;
    t.add = "visual.patch_embed.proj.bias";
    loads(&t);
}

static void test_fp8(void **state)
{
    struct tiny t = plain;
    struct sl_weights *w = NULL;
    char *dir;

    (void)state;
    t.fp8 = true;
    loads(&t);
    t.experts = FUSED;
    loads(&t);
    t.experts = SINGLE;
    t.dtype = "F32";
    loads(&t);
    t.val_dim = 128;
    loads(&t);
    /* Heads of 128 columns keep blocks whole, heads of 32 do not. */
    dir = write_tiny(&t);
    assert_int_equal(try_open(&w, dir, NULL), 0);
    assert_int_equal(w->layer[0].lin.out.type, SL_FP8);
    assert_int_equal(w->layer[0].lin.qkv.type, SL_FP8);
    assert_int_equal(w->layer[1].attn.q.type, SL_FP8);
    assert_int_equal(w->embed.type, SL_F32);
    sl_weights_close(&w);
    scratch_remove(dir);
    t.val_dim = 32;
    dir = write_tiny(&t);
    assert_int_equal(try_open(&w, dir, NULL), 0);
    assert_int_equal(w->layer[0].lin.out.type, SL_F32);
    assert_int_equal(w->layer[0].lin.qkv.type, SL_FP8);
    sl_weights_close(&w);
    scratch_remove(dir);
}

static void test_mlx(void **state)
{
    struct tiny t = plain;
    struct sl_err err = {0};
    struct sl_weights *w = NULL;
    char *dir;

    (void)state;
    t.mlx = true;
    t.experts = STACKED;
    loads(&t);
    /* With MTP the norms should be near 0, but these are near 1. */
    t.mtp = true;
    dir = write_tiny(&t);
    assert_int_equal(try_open(&w, dir, &err), SL_EUNSUP);
    assert_non_null(strstr(err.msg, "average 1"));
    scratch_remove(dir);
}

/* --- what is refused --- */

static void refused_as(const struct tiny *t, int code, const char *want)
{
    char *dir = write_tiny(t);
    struct sl_weights *w = NULL;
    struct sl_err err = {0};
    int rc = try_open(&w, dir, &err);

    if (rc != code || !strstr(err.msg, want) || w)
        fail_msg("rc %d, '%s' does not say '%s'", rc, err.msg, want);
    scratch_remove(dir);
}

static void refused(const struct tiny *t, const char *want)
{
    refused_as(t, SL_EFORMAT, want);
}

static void test_lists(void **state)
{
    struct tiny t = plain;

    (void)state;
    t.edit = SKIP;
    t.edit_name = "self_attn.k_proj";
    refused(&t, "1 missing: model.layers.1.self_attn.k_proj.weight; fetch");
    t.edit_name = "lm_head";
    refused(&t, "1 missing: lm_head.weight;");
    t.edit_name = "A_log";
    refused(&t, "1 missing: model.layers.0.linear_attn.A_log;");
    t.edit_name = "layers.";
    refused(&t, "25 missing: model.layers.0.input_layernorm.weight, ");
    refused(&t, " more; ");
    t.edit_name = "embed_tokens";
    refused(&t, "embed_tokens.weight");
    t.edit = RESHAPE;
    t.edit_name = "layers.1.mlp.down_proj.weight";
    refused(&t, "1 wrong: model.layers.1.mlp.down_proj.weight is [800] and "
                "must be [40, 20];");
    t.edit = RETYPE;
    refused_as(&t, SL_EUNSUP,
               "(1): I16 (model.layers.1.mlp.down_proj.weight); use a "
               "checkpoint with F32, BF16, F16 or F8_E4M3");
    t.edit_name = "dt_bias";
    refused_as(&t, SL_EUNSUP, "a checkpoint with F32, BF16 or F16");
    t.edit = KEEP;
    t.add = "model.layers.2.input_layernorm.weight";
    refused(&t, "1 unknown: model.layers.2.input_layernorm.weight;");
    t.add = "x.embed_tokens.weight";
    refused(&t, "could be the embedding");
    t = plain;
    t.experts = FUSED;
    t.edit = SKIP;
    t.edit_name = "mlp.experts.";
    refused(&t, "4 missing: model.layers.0.mlp.experts.gate_up_proj, "
                "model.layers.0.mlp.experts.down_proj, ");
    t.edit = RESHAPE;
    t.edit_name = "layers.1.mlp.experts.gate_up_proj";
    refused(&t, "1 wrong: model.layers.1.mlp.experts.gate_up_proj is [2880] "
                "and must be [3, 24, 40];");
}

static void test_damage(void **state)
{
    static const struct {
        const char *name;
        size_t at;
        const char *want;
    } bad[] = {
        {"embed_tokens", 18 * HIDDEN + 3, "embed_tokens.weight"},
        {"embed_tokens", 18 * HIDDEN + 3, "at [18, 3]"},
        {"embed_tokens", 5 * HIDDEN + 39, "at [5, 39]"},
        {"in_proj_qkv", 100 * HIDDEN + 7, "at [100, 7]"},
        {"out_proj", 5 * 192 + 191, "at [5, 191]"},
        {"conv1d", 100 * 4 + 2, "at [100, 0, 2]"},
        {"A_log", 4, "A_log"},
        {"A_log", 4, "at [4]"},
        {"input_layernorm", 0, "at [0]"},
    };
    static const char *dtype[] = {"BF16", "F32"};

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(bad); i++)
        for (size_t k = 0; k < SL_COUNTOF(dtype); k++) {
            struct tiny t = plain;

            t.dtype = dtype[k];
            t.edit = POISON;
            t.edit_name = bad[i].name;
            t.poison_at = bad[i].at;
            refused(&t, bad[i].want);
            refused(&t, "the file is damaged");
        }
}

/* An incomplete MTP head is left out; the model loads. */
static void test_mtp(void **state)
{
    struct tiny t = plain, without = plain;
    enum edit edit[] = {SKIP, RESHAPE};

    (void)state;
    t.mtp = true;
    t.edit_name = "mtp.layers.0.mlp.down_proj";
    for (size_t i = 0; i < SL_COUNTOF(edit); i++) {
        char *dir;
        struct sl_weights *w = NULL;
        struct sl_err err = {0};

        t.edit = edit[i];
        dir = write_tiny(&t);
        if (try_open(&w, dir, &err))
            fail_msg("%s", err.msg);
        check_all(&without, w);
        sl_weights_close(&w);
        scratch_remove(dir);
    }
}

/* --- the rest --- */

static void count_progress(void *ctx, uint64_t done, uint64_t total)
{
    uint64_t *last = ctx;

    assert_true(done >= *last);
    assert_true(done <= total);
    assert_true(total > 0);
    *last = done;
    if (done == total)
        last[1]++;
}

static void test_progress(void **state)
{
    char *dir = write_tiny(&plain);
    uint64_t last[2] = {0};
    struct sl_load_opts o = {
        .pool = pool, .progress = count_progress, .progress_ctx = last};
    struct sl_weights *w = NULL;

    (void)state;
    assert_int_equal(sl_weights_open(&w, dir, &o, NULL), 0);
    assert_true(last[1] >= 1);
    sl_weights_close(&w);
    scratch_remove(dir);
}

/* Dummy weights depend on the seed and on nothing else, and need no file but
 * config.json. */
static void test_dummy(void **state)
{
    struct tiny t = plain;
    char *dir = scratch_make();
    struct sl_load_opts o = {.pool = pool, .dummy = true, .dummy_seed = 5};
    struct sl_weights *w[3] = {0};
    struct sl_pool *one = NULL;
    struct sl_err err = {0};
    double sum = 0, sq = 0;
    float row[HIDDEN];

    (void)state;
    t.experts = FUSED;
    t.mtp = true;
    write_config(dir, &t);
    assert_int_equal(sl_pool_open(&one, 1, false, &err), 0);
    assert_int_equal(sl_weights_open(&w[0], dir, &o, &err), 0);
    o.pool = one;
    assert_int_equal(sl_weights_open(&w[1], dir, &o, &err), 0);
    o.dummy_seed = 6;
    assert_int_equal(sl_weights_open(&w[2], dir, &o, &err), 0);
    assert_true(w[0]->has_mtp);
    assert_int_equal(w[0]->bytes, w[1]->bytes);
    assert_memory_equal(w[0]->embed.w, w[1]->embed.w, w[0]->bytes);
    assert_memory_not_equal(w[0]->embed.w, w[2]->embed.w, w[0]->bytes);
    assert_memory_not_equal(w[0]->layer[0].moe.expert[0].gate.w,
                            w[0]->layer[0].moe.expert[0].up.w, 16 * HIDDEN);
    assert_memory_not_equal(w[0]->layer[0].moe.expert[0].gate.w,
                            w[0]->layer[0].moe.expert[1].gate.w, 16 * HIDDEN);
    for (size_t r = 0; r < 256; r++) {
        kern.row[SL_BF16](row, w[0]->layer[0].lin.qkv.w, NULL, r, HIDDEN);
        for (size_t c = 0; c < HIDDEN; c++) {
            sum += (double)row[c];
            sq += (double)row[c] * (double)row[c];
        }
    }
    /* Standard deviation 0.02: 10,240 values know it to some 0.7 %, and the
     * mean to 0.0002; five times that. */
    assert_true(sum / 10240 < 0.001 && sum / 10240 > -0.001);
    assert_true(sq / 10240 > 0.0193 * 0.0193 && sq / 10240 < 0.0207 * 0.0207);
    for (int i = 0; i < 3; i++)
        sl_weights_close(&w[i]);
    sl_pool_close(&one);
    scratch_remove(dir);
}

/* Who only wants to know whether a model is good keeps none of it. */
static void test_check(void **state)
{
    struct sl_load_opts o = {.pool = pool};
    struct sl_weights *w[2] = {0};
    struct sl_err err = {0};
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 0;
    uintptr_t at;

    (void)state;
    for (int i = 0; i < 2; i++, o.check = true)
        if (sl_weights_open(&w[i], "tests/golden/models/dense-r1", &o, &err))
            fail_msg("%s", err.msg);
    at = (uintptr_t)w[1]->embed.w - (uintptr_t)w[1]->base;
    for (at = sl_round_up(at, page);
         at + page <= sl_dtype_bytes(SL_BF16, (size_t)w[1]->embed.rows *
                                                  w[1]->embed.cols);
         at += page, n++) {
        assert_memory_not_equal(w[0]->base + at, w[1]->base + at, page);
        assert_int_equal(w[1]->base[at], 0);
        assert_memory_equal(w[1]->base + at, w[1]->base + at + 1, page - 1);
    }
    assert_true(n > 0);
    sl_weights_close(&w[0]);
    sl_weights_close(&w[1]);
}

static void test_no_memory(void **state)
{
    struct tiny t = plain;
    char *dir;
    struct sl_weights *w = NULL;
    struct sl_err err = {0};
    int rc = SL_ENOMEM;
    uint64_t n;

    (void)state;
    t.mtp = true;
    t.experts = SINGLE;
    dir = write_tiny(&t);
    for (n = 1; rc && n < 10000; n++) {
        sl_mem_fail_nth(n);
        rc = try_open(&w, dir, &err);
        sl_mem_fail_nth(0);
        assert_true(rc == 0 || rc == SL_ENOMEM);
        assert_true(rc == 0 || !w);
    }
    assert_int_equal(rc, 0);
    assert_true(n > 20);
    check_all(&t, w);
    sl_weights_close(&w);
    scratch_remove(dir);
}

/* A shard that ends early or is not there. */
static void test_shards(void **state)
{
    struct tiny t = plain;
    struct sl_weights *w = NULL;
    struct sl_err err = {0};
    char *dir, *bytes = NULL;
    size_t len = 0;

    (void)state;
    t.shards = true;
    dir = write_tiny(&t);
    assert_int_equal(sl_file_read(&bytes, &len,
                                  scratch_path(dir, "two.safetensors"), 1 << 24,
                                  &err),
                     0);
    scratch_write(dir, "two.safetensors", bytes, len - 1);
    assert_int_equal(try_open(&w, dir, &err), SL_EFORMAT);
    assert_non_null(strstr(err.msg, "two.safetensors"));
    assert_non_null(strstr(err.msg, "cut short"));
    remove(scratch_path(dir, "two.safetensors"));
    assert_int_equal(try_open(&w, dir, &err), SL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "two.safetensors"));
    sl_file_free(bytes);
    scratch_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),     cmocka_unit_test(test_experts),
        cmocka_unit_test(test_names),     cmocka_unit_test(test_fp8),
        cmocka_unit_test(test_mlx),       cmocka_unit_test(test_lists),
        cmocka_unit_test(test_damage),    cmocka_unit_test(test_mtp),
        cmocka_unit_test(test_progress),  cmocka_unit_test(test_dummy),
        cmocka_unit_test(test_check),     cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_shards),
    };
    int rc;

    sl_kern_init(&kern, 0);
    if (sl_pool_open(&pool, 2, false, NULL))
        return 1;
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    sl_pool_close(&pool);
    return rc;
}
