/* safetensors files and checkpoint folders: what is accepted is what the
 * reference library accepts; everything else names the fault. The verdicts in
 * `cases` were measured with version 0.8 of that library; where ours differs
 * the comment says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../help/st_out.h"
#include "base/mem.h"
#include "file/checkpoint.h"

#define T(shape, off)                                                          \
    "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" off "}"
#define OK NULL

static const struct {
    const char *name, *head;
    size_t n_data;
    const char *want; /* part of the message; OK: accepted */
} cases[] = {
    {"plain", "{\"a\":" T("[2]", "[0,8]") "}", 8, OK},
    {"hole", "{\"a\":" T("[2]", "[0,8]") ",\"b\":" T("[2]", "[16,24]") "}", 24,
     "8 bytes before the tensor 'b' belong to none"},
    {"hole at the start", "{\"a\":" T("[2]", "[8,16]") "}", 16,
     "8 bytes before"},
    {"overlap", "{\"a\":" T("[2]", "[0,8]") ",\"b\":" T("[2]", "[4,12]") "}",
     12, "'a' and 'b' overlap"},
    {"the same bytes",
     "{\"a\":" T("[2]", "[0,8]") ",\"b\":" T("[2]", "[0,8]") "}", 8, "overlap"},
    {"bytes behind", "{\"a\":" T("[2]", "[0,8]") "}", 9,
     "1 bytes behind the last tensor"},
    {"cut short", "{\"a\":" T("[2]", "[0,8]") "}", 7,
     "it ends at byte 8 of the data, which has 7"},
    {"any order", "{\"b\":" T("[2]", "[8,16]") ",\"a\":" T("[2]", "[0,8]") "}",
     16, OK},
    {"an empty one",
     "{\"b\":" T("[0]", "[0,0]") ",\"a\":" T("[2]", "[0,8]") "}", 8, OK},
    {"an empty one inside another",
     "{\"b\":" T("[0,5]", "[4,4]") ",\"a\":" T("[2]", "[0,8]") "}", 8,
     "overlap"},
    {"a scalar", "{\"a\":" T("[]", "[0,4]") "}", 4, OK},
    {"no tensors", "{}", 0, OK},
    {"no tensors but data", "{}", 1, "behind the last tensor"},
    {"size", "{\"a\":" T("[3]", "[0,8]") "}", 8, "needs 12 bytes"},
    {"dtype",
     "{\"a\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     "'F33'"},
    {"dtype in lower case",
     "{\"a\":{\"dtype\":\"f32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     "'f32'"},
    {"no dtype", "{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "dtype"},
    {"spaces around", " {\"a\":" T("[2]", "[0,8]") "} \n\t", 8, OK},
    {"text behind", "{\"a\":" T("[2]", "[0,8]") "}x", 8, "JSON"},
    /* The reference takes the last one. */
    {"a name twice",
     "{\"a\":" T("[2]", "[0,8]") ",\"a\":" T("[2]", "[0,8]") "}", 8,
     "duplicate"},
    {"another field",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}",
     8, OK},
    {"metadata", "{\"__metadata__\":{\"k\":\"v\"},\"a\":" T("[2]", "[0,8]") "}",
     8, OK},
    {"metadata null", "{\"__metadata__\":null,\"a\":" T("[2]", "[0,8]") "}", 8,
     OK},
    {"metadata of numbers",
     "{\"__metadata__\":{\"k\":1},\"a\":" T("[2]", "[0,8]") "}", 8,
     "not a string"},
    {"negative", "{\"a\":" T("[-2]", "[0,8]") "}", 8, "whole number >= 0"},
    {"overflow", "{\"a\":" T("[1099511627776,1099511627776]", "[0,8]") "}", 8,
     "does not fit 64 bits"},
    {"overflow to nothing",
     "{\"a\":" T("[1099511627776,1099511627776,0]", "[0,0]") "}", 0,
     "does not fit 64 bits"},
    {"beyond 64 bits", "{\"a\":" T("[99999999999999999999]", "[0,8]") "}", 8,
     "JSON"},
    {"float offset", "{\"a\":" T("[2]", "[0,8.0]") "}", 8, "whole number"},
    {"three offsets", "{\"a\":" T("[2]", "[0,8,9]") "}", 8, "data_offsets"},
    {"one offset", "{\"a\":" T("[2]", "[0]") "}", 8, "data_offsets"},
    {"falling offsets", "{\"a\":" T("[2]", "[8,0]") "}", 8, "data_offsets"},
    {"nine dimensions", "{\"a\":" T("[1,1,1,1,1,1,1,1,2]", "[0,8]") "}", 8,
     "at most 8"}, /* the reference has no limit */
    {"half a byte",
     "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2,
     "whole byte"},
    {"four bits",
     "{\"a\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]}}", 2, OK},
    {"a list", "[]", 0, "not a JSON object"},
    {"nothing", "", 0, "JSON"},
    {"a tensor that is a number", "{\"a\":1}", 0, "not an object"},
};

static size_t make(unsigned char *out, uint64_t n, const char *head,
                   size_t n_data)
{
    size_t len = strlen(head);

    for (int i = 0; i < 8; i++)
        out[i] = (unsigned char)(n >> 8 * i);
    memcpy(out + 8, head, len);
    memset(out + 8 + len, 0, n_data);
    return 8 + len + n_data;
}

static void test_headers(void **state)
{
    unsigned char file[1024];

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(cases); i++) {
        struct sl_st *st = NULL;
        struct sl_err err = {0};
        size_t len =
            make(file, strlen(cases[i].head), cases[i].head, cases[i].n_data);
        int rc = sl_st_parse(&st, file, len, "x", &err);

        if (cases[i].want == OK && rc)
            fail_msg("%s: %s", cases[i].name, err.msg);
        if (cases[i].want && rc != SL_EFORMAT)
            fail_msg("%s: rc %d", cases[i].name, rc);
        if (cases[i].want && !strstr(err.msg, cases[i].want))
            fail_msg("%s: %s", cases[i].name, err.msg);
        sl_st_close(&st);
    }
}

static void expect(int rc, int code, const struct sl_err *err, const char *part)
{
    if (rc != code || !strstr(err->msg, part))
        fail_msg("rc %d, '%s' does not say '%s'", rc, err->msg, part);
}

static void test_lengths(void **state)
{
    unsigned char file[64] = {0};
    struct sl_st *st = NULL;
    struct sl_err err = {0};
    size_t len;

    (void)state;
    len = make(file, (uint64_t)1 << 63, "{}", 0);
    expect(sl_st_parse(&st, file, len, "x", &err), SL_EFORMAT, &err,
           "9223372036854775808");
    len = make(file, SL_ST_MAX_HEADER + 1, "{}", 0);
    expect(sl_st_parse(&st, file, len, "x", &err), SL_EFORMAT, &err,
           "the limit is 100000000");
    len = make(file, 3, "{}", 0);
    expect(sl_st_parse(&st, file, len, "x", &err), SL_EFORMAT, &err,
           "cut short");
    for (size_t n = 0; n < 8; n++)
        expect(sl_st_parse(&st, file, n, "x", &err), SL_EFORMAT, &err,
               "too few");
    expect(sl_st_parse(&st, NULL, 0, "x", &err), SL_EFORMAT, &err, "too few");
}

/* Every prefix of a good file is refused: nothing is read beyond the end. */
static void test_prefixes(void **state)
{
    unsigned char file[256];
    size_t len = make(file, strlen(cases[0].head), cases[0].head, 8);

    (void)state;
    for (size_t n = 0; n < len; n++) {
        unsigned char *exact = malloc(n ? n : 1);
        struct sl_st *st = NULL;

        memcpy(exact, file, n);
        assert_int_equal(sl_st_parse(&st, exact, n, "x", NULL), SL_EFORMAT);
        free(exact);
    }
}

static void add_f32(struct st_out *o, const char *name, float value)
{
    size_t dim = 1;

    st_add(o, name, "F32", 1, &dim, &value, sizeof(value));
}

static void write_one(const char *dir, const char *file, const char *name,
                      float value)
{
    struct st_out o;

    st_begin(&o);
    add_f32(&o, name, value);
    st_end(&o, dir, file);
}

static void write_text(const char *dir, const char *file, const char *text)
{
    scratch_write(dir, file, text, strlen(text));
}

static float value_of(const struct sl_ckpt *c, const char *name)
{
    float v = 0;
    size_t i = 0;

    assert_true(sl_ckpt_find(c, name, &i));
    assert_string_equal(sl_ckpt_get(c, i)->name, name);
    memcpy(&v, sl_ckpt_data(c, i), sizeof(v));
    return v;
}

#define INDEX "model.safetensors.index.json"

static void test_folder(void **state)
{
    char *dir = scratch_make();
    struct sl_ckpt *c = NULL;
    struct sl_err err = {0};
    size_t i;

    (void)state;
    expect(sl_ckpt_open(&c, "build/no-such-folder", &err), SL_ENOTFOUND, &err,
           "not a folder");
    expect(sl_ckpt_open(&c, dir, &err), SL_ENOTFOUND, &err,
           "holds no safetensors weights");
    write_one(dir, "some.safetensors", "only", 1);
    assert_int_equal(sl_ckpt_open(&c, dir, &err), 0);
    assert_true(value_of(c, "only") == 1.0f);
    sl_ckpt_close(&c);
    write_one(dir, "b.safetensors", "b", 2);
    expect(sl_ckpt_open(&c, dir, &err), SL_ENOTFOUND, &err, INDEX);
    write_one(dir, "model.safetensors", "whole", 3);
    assert_int_equal(sl_ckpt_open(&c, dir, &err), 0);
    assert_true(value_of(c, "whole") == 3.0f);
    sl_ckpt_close(&c);
    write_text(dir, INDEX,
               "{\"weight_map\":{\"b\":\"b.safetensors\","
               "\"only\":\"some.safetensors\"}}");
    assert_int_equal(sl_ckpt_open(&c, dir, &err), 0);
    assert_int_equal(sl_ckpt_n_tensor(c), 2);
    assert_int_equal(sl_ckpt_bytes(c), 8);
    assert_true(value_of(c, "b") == 2.0f);
    assert_true(value_of(c, "only") == 1.0f);
    assert_false(sl_ckpt_find(c, "whole", &i));
    sl_ckpt_drop_all(c);
    assert_true(value_of(c, "b") == 2.0f); /* dropped is not gone */
    sl_ckpt_close(&c);
    scratch_remove(dir);
}

static void test_bad_index(void **state)
{
    static const struct {
        const char *text;
        int code;
        const char *want;
    } bad[] = {
        {"{\"weight_map\":{\"a\":\"../a.safetensors\"}}", SL_EFORMAT,
         "not the name of a file in this folder"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", SL_EFORMAT,
         "not the name of a file in this folder"},
        {"{\"weight_map\":{\"a\":\"..\"}}", SL_EFORMAT, "not the name"},
        {"{\"weight_map\":{\"a\":\"\"}}", SL_EFORMAT, "not the name"},
        {"{\"weight_map\":{\"a\":1}}", SL_EFORMAT, "not a string"},
        {"{\"weight_map\":[]}", SL_EFORMAT, "'weight_map' is missing"},
        {"{}", SL_EFORMAT, "'weight_map' is missing"},
        {"[]", SL_EFORMAT, "'weight_map' is missing"},
        {"{", SL_EFORMAT, "JSON"},
        {"{\"weight_map\":{\"a\":\"gone.safetensors\"}}", SL_ENOTFOUND,
         "gone.safetensors"},
        {"{\"weight_map\":{\"z\":\"a.safetensors\"}}", SL_EFORMAT,
         "the tensor 'z' is in"},
        {"{\"weight_map\":{\"a\":\"cut.safetensors\"}}", SL_EFORMAT,
         "cut short"},
    };
    char *dir = scratch_make();
    unsigned char file[256];
    size_t len = make(file, strlen(cases[0].head), cases[0].head, 8);

    (void)state;
    write_one(dir, "a.safetensors", "a", 1);
    scratch_write(dir, "cut.safetensors", file, len - 1);
    for (size_t i = 0; i < SL_COUNTOF(bad); i++) {
        struct sl_ckpt *c = NULL;
        struct sl_err err = {0};

        write_text(dir, INDEX, bad[i].text);
        expect(sl_ckpt_open(&c, dir, &err), bad[i].code, &err, bad[i].want);
        assert_null(c);
    }
    scratch_remove(dir);
}

/* Each allocation fails once: an error, no leak, no crash. */
static void test_no_memory(void **state)
{
    char *dir = scratch_make();
    struct sl_ckpt *c = NULL;
    struct sl_err err = {0};
    int rc = SL_ENOMEM;
    uint64_t n;

    (void)state;
    write_one(dir, "a.safetensors", "a", 1);
    write_one(dir, "b.safetensors", "b", 2);
    write_text(dir, INDEX,
               "{\"weight_map\":{\"a\":\"a.safetensors\","
               "\"b\":\"b.safetensors\"}}");
    for (n = 1; rc && n < 1000; n++) {
        sl_mem_fail_nth(n);
        rc = sl_ckpt_open(&c, dir, &err);
        sl_mem_fail_nth(0);
        assert_true(rc == 0 || rc == SL_ENOMEM);
    }
    assert_int_equal(rc, 0);
    assert_true(n > 8);
    sl_ckpt_close(&c);
    scratch_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),   cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_prefixes),  cmocka_unit_test(test_folder),
        cmocka_unit_test(test_bad_index), cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
