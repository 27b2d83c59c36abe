/* Server-sent events as they come: cut anywhere, with anything in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "server/events.h"

struct seen {
    int n, n_bad;
    char id[9];   /* of the events, in their order */
    size_t bytes; /* of the texts */
};

static void note(void *ctx, const json_t *j, const char *s, size_t n)
{
    struct seen *x = ctx;

    assert_true(n > 6 && !memcmp(s, "data: ", 6));
    x->n_bad += !j;
    x->id[x->n++] = j ? *json_string_value(json_object_get(j, "id")) : '?';
    x->bytes += json_string_length(json_object_get(j, "text"));
}

static void cut_anywhere(void **state)
{
    /* A model may write U+0000, and \n\n does not stand in JSON. */
    static const char all[] =
        ": hello\n\n\n\ndata: {\"id\":\"a\",\"text\":\"b\\u0000c\"}"
        "\n\ndata: {\n\ndata: {\"id\":\"d\"}\n\n"
        "data: [DONE]\n\ndata: {\"id\":\"e\"}";

    (void)state;
    for (size_t step = 1; step < sizeof(all); step++) {
        struct seen x = {0};
        struct sl_buf b;

        sl_buf_init(&b, 1 << 16);
        for (size_t i = 0; i < sizeof(all) - 1; i += step) {
            sl_buf_add(&b, all + i, sl_min(step, sizeof(all) - 1 - i));
            sl_events_take(&b, note, &x);
        }
        assert_string_equal(x.id, "a?d"); /* the last has not ended */
        assert_int_equal(x.n_bad, 1);
        assert_int_equal(x.bytes, 3);
        sl_buf_deinit(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cut_anywhere)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
