/* The parts of measuring that are no measurement: the median, and the shapes
 * against what is published of the models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/median.h"
#include "kern/kern.h"
#include "model/shape.h"

static void median(void **state)
{
    double one[] = {7}, odd[] = {5, 1, 9, 3, 3}, even[] = {4, 1, 2, 8};

    (void)state;
    assert_true(sl_median(one, 1) == 7);
    assert_true(sl_median(odd, 5) == 3);
    assert_true(odd[0] == 1 && odd[4] == 9);
    assert_true(sl_median(even, 4) == 3);
}

/* Parameters of the layers, as the names of the models promise them. */
static double billions(const struct sl_conf *c, uint32_t n_expert)
{
    double h = c->hidden, q = (double)c->n_head * c->head_dim;
    double val = (double)c->n_val * c->val_dim;
    double full = h * (2 * q + 2.0 * c->n_kv_head * c->head_dim) + q * h;
    double lin = h * (c->conv_dim + val + 2 * c->n_val) + val * h;
    double mlp = n_expert ? (n_expert + 1.0) * 3 * h * c->expert_ffn
                          : 3 * h * c->ffn;

    return 1e-9 * (full * sl_conf_count(c, SL_LAYER_FULL) +
                   lin * sl_conf_count(c, SL_LAYER_LINEAR) +
                   mlp * c->n_layer + (c->tied ? 1 : 2) * h * c->vocab);
}

static void shapes(void **state)
{
    static const struct {
        const char *name;
        double least, most; /* billions of parameters */
    } want[] = {{"qwen3.5-0.8b", 0.7, 0.8},  {"qwen3.5-2b", 1.8, 2.0},
                {"qwen3.5-4b", 4.0, 4.3},    {"qwen3.5-9b", 8.8, 9.2},
                {"qwen3.8-27b", 26.5, 27.5}, {"qwen3.6-35b-a3b", 34, 36}};
    static struct sl_conf c;
    struct sl_err err;

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(want); i++) {
        double b;

        assert_int_equal(sl_shape_get(&c, want[i].name, &err), 0);
        b = billions(&c, c.n_expert);
        if (b < want[i].least || b > want[i].most)
            fail_msg("%s has %.3f billion parameters", want[i].name, b);
    }
    /* Of the last, about 3 billion take part in a token. */
    assert_true(billions(&c, c.n_used) < 3.6);
    assert_int_equal(sl_shape_get(&c, "qwen", &err), SL_EARG);
    assert_non_null(strstr(err.msg, "qwen3.8-27b"));
}

/* A peak does what it was asked for, and a round more at most. */
static void peaks(void **state)
{
    struct sl_kern k;

    (void)state;
    for (unsigned mask = 0; mask < 2; mask++) {
        sl_kern_init(&k, mask ? SL_CPU_ALL : 0);
        for (uint64_t n = 0; n < 5000; n += 777) {
            assert_in_range(k.peak_int8(n), n, n + 1024);
            assert_in_range(k.peak_fp32(n), n, n + 1024);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median),
        cmocka_unit_test(shapes),
        cmocka_unit_test(peaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
