/* The metadata of a GGUF file that somebody else made: every key that is
 * missing, of another kind or says what is not implemented is refused, by the
 * name it has in the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../help/st_out.h"
#include "base/file.h"
#include "model/source.h"

#define BASE "tests/fuzz/corpus/gguf_model/whole"
#define Q "qwen35."
#define T "tokenizer.ggml."

/* What becomes of the key. */
enum how { DROP, U32, F32, STR, YES, INTS, STRS };

static const struct change {
    const char *key;
    enum how how;
    double v;      /* a number, or how many elements of an array are 1 */
    const char *s; /* a string, or every element of an array of them */
    int code;
    const char *want; /* NULL: accepted */
} changes[] = {
    {"x.y", U32, 1, NULL, 0, NULL},
    {"general.architecture", DROP, 0, NULL, SL_EFORMAT, "is missing"},
    {"general.architecture", U32, 1, NULL, SL_EFORMAT, "must be a string"},
    {"general.architecture", STR, 0, "llama", SL_EUNSUP, "is 'llama' and only"},
    {"general.architecture", STR, 0, "clip", SL_EUNSUP, "is 'clip' and only"},
    {Q "block_count", DROP, 0, NULL, SL_EFORMAT, Q "block_count' is missing"},
    {Q "block_count", STR, 0, "2", SL_EFORMAT, "must be a whole number"},
    {Q "block_count", U32, 1, NULL, SL_EFORMAT, "must be more than"},
    {Q "embedding_length", DROP, 0, NULL, SL_EFORMAT, "is missing"},
    {Q "context_length", DROP, 0, NULL, SL_EFORMAT, "is missing"},
    {Q "feed_forward_length", DROP, 0, NULL, SL_EFORMAT, "is missing"},
    {Q "attention.head_count", DROP, 0, NULL, SL_EFORMAT, "is missing"},
    {Q "attention.head_count_kv", DROP, 0, NULL, SL_EFORMAT, "is missing"},
    {Q "attention.head_count_kv", STR, 0, "1", SL_EFORMAT, "whole number"},
    {Q "attention.head_count_kv", STRS, 2, "1", SL_EFORMAT, "array of"},
    {Q "attention.key_length", DROP, 0, NULL, SL_EFORMAT, "is missing"},
    {Q "attention.value_length", U32, 32, NULL, SL_EUNSUP, "value_length"},
    {Q "attention.layer_norm_rms_epsilon", DROP, 0, NULL, SL_EFORMAT,
     "is missing"},
    {Q "attention.layer_norm_rms_epsilon", U32, 0, NULL, SL_EFORMAT,
     "a number with a fraction"},
    {Q "rope.dimension_count", DROP, 0, NULL, SL_EFORMAT, "is missing"},
    {Q "rope.freq_base", DROP, 0, NULL, SL_EFORMAT, "is missing"},
    {Q "rope.freq_base", F32, 0, NULL, SL_EFORMAT, "from 1 to 1e+15"},
    {Q "rope.scaling.type", STR, 0, "none", 0, NULL},
    {Q "rope.scaling.type", STR, 0, "yarn", SL_EUNSUP, "is 'yarn' and only"},
    {Q "rope.scaling.type", STR, 0, "linear", SL_EUNSUP, "is 'linear'"},
    {Q "ssm.conv_kernel", DROP, 0, NULL, SL_EFORMAT, "is missing"},
    {Q "ssm.state_size", DROP, 0, NULL, SL_EFORMAT, "is missing"},
    {Q "ssm.group_count", DROP, 0, NULL, SL_EFORMAT, "is missing"},
    {Q "ssm.time_step_rank", U32, 0, NULL, SL_EFORMAT, "time_step_rank"},
    {Q "ssm.inner_size", U32, 33, NULL, SL_EFORMAT, "must be a multiple"},
    {"general.sampling.temp", F32, 2.5, NULL, SL_EFORMAT, "from 0 to 2"},
    {"general.sampling.top_p", U32, 1, NULL, SL_EFORMAT, "a fraction"},
    {"general.sampling.top_k", STR, 0, "20", SL_EFORMAT, "whole number"},
    {T "eos_token_id", STR, 0, "1", SL_EFORMAT, "whole number"},
    {T "eos_token_id", U32, 4294967295.0, NULL, 0, NULL}, /* none */
    {T "eot_token_id", STR, 0, "1", SL_EFORMAT, "whole number"},
    {"sluice.tokenizer.end_ids", STRS, 1, "1", SL_EFORMAT, "whole numbers"},
    /* of the tokenizer */
    {T "tokens", DROP, 0, NULL, SL_ENOTFOUND, "has no tokenizer"},
    {T "model", DROP, 0, NULL, SL_EFORMAT, "is missing"},
    {T "model", STR, 0, "llama", SL_EUNSUP, "is 'llama' and only 'gpt2'"},
    {T "pre", DROP, 0, NULL, SL_EFORMAT, "is missing"},
    {T "pre", STR, 0, "llama-bpe", SL_EUNSUP, "is 'llama-bpe' and only"},
    {T "token_type", DROP, 0, NULL, SL_EFORMAT, "is missing"},
    {T "token_type", STRS, 1, "x", SL_EFORMAT, "whole numbers"},
    {T "token_type", INTS, 2, NULL, SL_EFORMAT, "token_type 2; both"},
    {T "merges", DROP, 0, NULL, SL_EFORMAT, "is missing"},
    {T "merges", INTS, 1, NULL, SL_EFORMAT, "array of strings"},
    {T "merges", STRS, 1, "ab", SL_EFORMAT, "is not two tokens"},
    {T "merges", STRS, 1, "a ", SL_EFORMAT, "is not two tokens"},
    {T "add_bos_token", YES, 0, NULL, SL_EUNSUP, "add_bos_token is true"},
    {T "add_eos_token", YES, 0, NULL, SL_EUNSUP, "add_eos_token is true"},
    {T "padding_token_id", STR, 0, "1", SL_EFORMAT, "whole number"},
    {"sluice.tokenizer.normalized", INTS, 1, NULL, 0, NULL},
};

static void put(struct sl_gguf_out *o, const struct change *c)
{
    switch (c->how) {
    case U32:
        sl_gguf_out_u32(o, c->key, (uint32_t)c->v);
        break;
    case F32:
        sl_gguf_out_f32(o, c->key, (float)c->v);
        break;
    case STR:
        sl_gguf_out_str(o, c->key, c->s, strlen(c->s));
        break;
    case YES:
        sl_gguf_out_bool(o, c->key, true);
        break;
    case INTS:
        sl_gguf_out_arr(o, c->key, SL_GGUF_I32_, (uint64_t)c->v);
        for (int i = 0; i < (int)c->v; i++)
            sl_gguf_out_arr_i32(o, 1);
        break;
    case STRS:
        sl_gguf_out_arr(o, c->key, SL_GGUF_STR, (uint64_t)c->v);
        for (int i = 0; i < (int)c->v; i++)
            sl_gguf_out_arr_str(o, c->s, strlen(c->s));
        break;
    case DROP:
        break;
    }
}

/* The metadata of `g` with one change, and of the tensors the embedding. */
static void write_changed(const char *dir, const struct sl_gguf *g,
                          const struct change *c)
{
    size_t dim[2] = {1280, 32};
    struct sl_gguf_out o;
    struct sl_buf b;

    sl_gguf_out_init(&o);
    for (size_t i = 0; i < g->n_kv; i++)
        if (strcmp(g->kv[i].key, c->key))
            sl_gguf_out_copy(&o, &g->kv[i]);
    put(&o, c);
    (void)sl_gguf_out_ten(&o, "token_embd.weight", SL_GGUF_Q8_0, 2, dim);
    sl_buf_init(&b, 1 << 20);
    assert_int_equal(sl_gguf_out_head(&o, &b, NULL), 0);
    for (uint64_t i = 0; i < o.bytes; i++)
        sl_buf_byte(&b, 0);
    scratch_write(dir, "x.gguf", b.p, b.len);
    sl_buf_deinit(&b);
    sl_gguf_out_deinit(&o);
}

/* Open what can be opened without the weights. */
static int try_open(const char *path, struct sl_err *err)
{
    struct sl_source *s = NULL;
    struct sl_tokenizer *t = NULL;
    int rc = sl_source_open(&s, path, err);

    if (!rc)
        rc = sl_source_tokenizer(&t, s, err);
    sl_tokenizer_close(&t);
    sl_source_close(&s);
    return rc;
}

static void refusals(void **state)
{
    char *dir = scratch_make();
    struct sl_gguf *g = NULL;

    (void)state;
    assert_int_equal(sl_gguf_open(&g, BASE, NULL), 0);
    for (size_t i = 0; i < SL_COUNTOF(changes); i++) {
        const struct change *c = &changes[i];
        struct sl_err err = {0};
        int rc;

        write_changed(dir, g, c);
        rc = try_open(scratch_path(dir, "x.gguf"), &err);
        if (rc != c->code || (c->want && !strstr(err.msg, c->want)))
            fail_msg("%s, change %zu: %d %s", c->key, i, rc, err.msg);
        if (c->want &&
            (!strstr(err.msg, c->key) && c->how == DROP && rc != SL_ENOTFOUND))
            fail_msg("%s is not named: %s", c->key, err.msg);
        if (strstr(err.msg, ".json") || strstr(err.msg, "jinja"))
            fail_msg("%s: %s", c->key, err.msg);
    }
    sl_gguf_close(&g);
    scratch_remove(dir);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(refusals)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
