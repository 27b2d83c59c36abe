/* tests/unit/test_shape.c - grammars, patterns and schemas: what they allow,
 * what they refuse, and masks on a small vocabulary */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <time.h>

#include "base/mem.h"
#include "sample/automaton.h"
#include "sample/calls.h"
#include "sample/dfa.h"
#include "sample/gbnf.h"
#include "sample/jschema.h"
#include "sample/regex.h"
#include "sample/shape.h"

/* All single bytes, then these. */
static const char *const words[] = {
    "ab",    "abc", "\":", "\": ",  "{\"",  "\"}", "\",\"", "true", "false",
    "null",  "12",  "123", "\xc3",  "\xa4", "\xc3\xa4", "\xe2\x82", "\xac\"",
    "[[",    "]]",  "[[[[[[[[[[[[[[[[", "  ", "\n  ", "\\u00", "\\\"", "a\"",
    "name",  "\"name\"", "}}", "0.5", "-1", "e+", "aaaaaaaaaaaaaaaa",
};
#define N_WORD SL_COUNTOF(words)
#define N_VOCAB (256 + (uint32_t)N_WORD + 1)
#define TAG (N_VOCAB - 1) /* a token that is not spelled */

static struct sl_trie *trie;

static int make_trie(void **state)
{
    static char byte[256];
    const char *text[N_VOCAB];
    uint32_t len[N_VOCAB];

    (void)state;
    for (int i = 0; i < 256; i++) {
        byte[i] = (char)i;
        text[i] = &byte[i];
        len[i] = 1;
    }
    for (size_t i = 0; i < N_WORD; i++) {
        text[256 + i] = words[i];
        len[256 + i] = (uint32_t)strlen(words[i]);
    }
    text[TAG] = NULL;
    return sl_trie_open(&trie, text, len, N_VOCAB, NULL);
}

static int end_trie(void **state)
{
    (void)state;
    sl_trie_close(&trie);
    return 0;
}

enum kind { GBNF, WHOLE, FIND, SCHEMA };

static void read_schema(struct sl_grammar *g, const char *s, size_t len)
{
    json_t *root = json_loadb(s, len, JSON_DECODE_ANY, NULL);
    uint32_t r = sl_grammar_rule(g, "root", 4);
    struct sl_jschema *j = NULL;
    struct sl_err err;

    assert_non_null(root);
    if (sl_jschema_open(&j, g, root, &err)) {
        sl_grammar_fail(g, err.code, "%s", err.msg);
    } else {
        sl_grammar_define(g, r, sl_jschema_node(j, root, "$"));
        sl_jschema_finish(j);
        sl_jschema_close(&j);
    }
    json_decref(root);
}

static int open_shape(struct sl_shape **out, enum kind kind, const char *s,
                      struct sl_err *err)
{
    struct sl_grammar g;
    int rc;

    sl_grammar_init(&g);
    if (kind == GBNF) {
        sl_gbnf_read(&g, s, strlen(s));
    } else if (kind == SCHEMA) {
        read_schema(&g, s, strlen(s));
    } else {
        uint32_t r = sl_grammar_rule(&g, "root", 4);

        sl_grammar_define(
            &g, r,
            sl_regex_node(&g, s, strlen(s),
                          kind == FIND ? SL_REGEX_FIND : SL_REGEX_WHOLE,
                          SL_REGEX_RAW));
    }
    rc = sl_shape_open(out, &g, trie, err);
    sl_grammar_deinit(&g);
    return rc;
}

/* Is the text one of the shape? *begins: or the beginning of one. */
static bool matches(struct sl_shape *s, const char *text, size_t len,
                    bool *begins)
{
    struct sl_matcher *m = NULL;
    bool ok;

    assert_int_equal(sl_matcher_open(&m, s, NULL), 0);
    *begins = sl_matcher_push_text(m, text, len);
    ok = *begins && sl_matcher_can_end(m);
    sl_matcher_stop(m);
    sl_matcher_close(&m);
    return ok;
}

/* "+" lines are matched, "-" lines are not, "/" lines begin a match without
 * being one. */
struct table {
    enum kind kind;
    const char *source;
    const char *line[24];
};

static void run_table(const struct table *t)
{
    struct sl_shape *s = NULL;
    struct sl_err err = {0};

    if (open_shape(&s, t->kind, t->source, &err))
        fail_msg("%s: %s", t->source, err.msg);
    for (size_t i = 0; t->line[i]; i++) {
        const char *x = t->line[i];
        bool begins, ok = matches(s, x + 1, strlen(x) - 1, &begins);

        if (ok != (*x == '+') || (*x == '/' && !begins))
            fail_msg("%s: '%s' %s", t->source, x, ok ? "matches" : "does not");
    }
    sl_shape_close(&s);
}

#define RUN(t)                                                                 \
    for (size_t i_ = 0; i_ < SL_COUNTOF(t); i_++)                              \
        run_table(&(t)[i_])

/* The same with quotes written as in 'a', which C need not escape. */
static void run_quoted(const struct table *t)
{
    static char text[25][600];
    struct table q = {.kind = t->kind, .source = text[24]};

    for (size_t i = 0; i < 25; i++) {
        const char *s = i == 24 ? t->source : t->line[i];
        char *c = text[i];

        if (!s)
            continue;
        assert_true(strlen(s) < sizeof(text[i]));
        for (memcpy(c, s, strlen(s) + 1); *c; c++)
            if (*c == '\'')
                *c = '"';
        if (i < 24)
            q.line[i] = text[i];
    }
    run_table(&q);
}

#define RUN_QUOTED(t)                                                          \
    for (size_t i = 0; i < SL_COUNTOF(t); i++)                                 \
    run_quoted(&(t)[i])

static void grammars(void **state)
{
    static const struct table t[] = {
        {GBNF, "root ::= \"ab\" | \"ac\"", {"+ab", "+ac", "/a", "-b", "-abc"}},
        {GBNF,
         "root ::= item (\",\" item)*\nitem ::= [a-c]+ # letters\n",
         {"+a", "+abc,b", "/a,", "-,", "-d"}},
        {GBNF,
         "root ::= \"(\" root \")\" | \"\"",
         {"+", "+()", "+((()))", "/((", "-())", "-)"}},
        /* Alternatives over lines, a name with a dash, all repetitions. */
        {GBNF,
         "root ::= x-1{2}\n  | \"q\"{1,} \"r\"{0,2} | \"s\"?\nx-1 ::= \"x\"",
         {"+xx", "+qqq", "+qrr", "+s", "+", "-xxx", "-qrrr", "-ss"}},
        {GBNF,
         "root ::= [^\"\\\\\\x00-\\x1f]+",
         {"+\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "/", "/\xc3", "-\"", "-\n",
          "-\xc0\x80", "-\xed\xa0\x80", "-\xf4\x90\x80\x80", "-\xff"}},
        {GBNF,
         "root ::= [\\u00e4-\\u20ac]",
         {"+\xc3\xa4", "+\xe2\x82\xac", "-\xc3\xa3", "-\xe2\x82\xad", "+\xe0\xa0\x80",
          "-a", "-\xe0\x80\x80"}},
        {GBNF, "root ::= . .", {"+ab", "+\xc3\xa4" "b", "-abc", "/a"}},
        /* Two ways to the same text, and nothing as a rule. */
        {GBNF,
         "root ::= a a a\na ::= \"x\" | none\nnone ::= \"\"",
         {"+", "+x", "+xx", "+xxx", "-xxxx"}},
        /* Ambiguous nesting: 2^n stacks if they were not shared. */
        {GBNF,
         "root ::= e\ne ::= \"a\" e \"b\" | \"a\" e \"c\" | \"\"",
         {"+", "+ab", "+aacb", "+aaaaaaaaaaaaaaaaaaaaaaaabcbcbcbcbcbcbcbcbcbcbcbc",
          "/aaab", "-abb"}},
        /* A list by recursion in the last place is as long as it likes. */
        {GBNF,
         "root ::= \"a\" root | \"b\"",
         {"+ab", "+aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"}},
        /* A nullable rule in front of one that is not. */
        {GBNF,
         "root ::= ws \"x\" ws\nws ::= \" \"*",
         {"+x", "+  x ", "/ ", "-xx"}},
    };

    (void)state;
    RUN(t);
}

static void patterns(void **state)
{
    static const struct table t[] = {
        {WHOLE, "a|bc", {"+a", "+bc", "/b", "-ab"}},
        {WHOLE, "^[a-z_]\\w*$", {"+a", "+_x9", "-9", "-"}},
        {WHOLE, "\\d{3}-\\d{4}", {"+555-1234", "/555", "-5555"}},
        {WHOLE, "(ab)+?c??", {"+ab", "+ababc", "-c"}},
        {WHOLE, "[^\\s,]{2,3}", {"+ab", "+abc", "-a b", "-abcd"}},
        {WHOLE, "\\S\\s", {"+a ", "-\xc2\xa0 ", "-\xe3\x80\x80 ", "-a\xc2\xa0"}},
        {WHOLE, "(?:a|(?<n>b))*", {"+", "+abba", "-c"}},
        {WHOLE, "[\\d-]+[-a]", {"+1-", "+1-a", "-b"}},
        {WHOLE, "\\u00e4\\x41\\u{1f600}\\ud83d\\ude00",
         {"+\xc3\xa4"
          "A\xf0\x9f\x98\x80\xf0\x9f\x98\x80"}},
        {WHOLE, "a.c", {"+abc", "+a\xc3\xa4" "c", "-a\nc"}},
        {WHOLE, "x{", {"+x{"}},
        {WHOLE, "x{,3}", {"+", "+xxx", "-xxxx"}},
        {WHOLE, "\\.\\*\\/", {"+.*/"}},
        {WHOLE, "", {"+", "-a"}},
        {FIND, "b", {"+abc", "+b", "/ac"}},
        {FIND, "^b", {"+bc", "-ab"}},
        {FIND, "b$", {"+ab", "/ba", "+bab"}},
        {FIND, "^a$|^b", {"+a", "+bc", "-c", "-ab"}},
        {FIND, "(^a$|b)", {"+a", "+cbc", "/ac"}},
        {FIND, "^(a|b)$", {"+a", "+b", "-ab"}},
    };

    (void)state;
    RUN(t);
}

static void schemas(void **state)
{
    static const struct table t[] = {
        {SCHEMA, "true", {"+1", "+{\"a\": [1, null]}", "+\"x\"", "-x"}},
        {SCHEMA, "{\"type\":\"object\"}", {"+{}", "+{\"a\":1,\"b\":{}}", "-[]", "-{a}"}},
        {SCHEMA,
         "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},"
         "\"b\":{\"type\":\"string\"},\"c\":{}},\"required\":[\"b\"]}",
         {"+{\"b\":\"x\"}", "+{\"a\": 1, \"b\": \"\"}", "+{\"b\":\"\",\"c\":[]}",
          "-{}", "-{\"a\":1}", "-{\"b\":1}", "-{\"b\":\"\",\"a\":1}",
          "-{\"d\":1", "+{\n  \"b\": \"x\"\n}", "-{\"b\":\"\",}"}},
        {SCHEMA,
         "{\"properties\":{\"a\":{\"type\":\"null\"},\"ab\":{\"type\":\"null\"}},"
         "\"additionalProperties\":{\"type\":\"boolean\"}}",
         {"+{}", "+{\"a\":null,\"ab\":null,\"b\":true}", "+{\"abc\":true}",
          "+{\"\":false}", "+{\"x\":true,\"y\":false}", "-{\"a\":true",
          "-{\"ab\":true", "+{\"ac\":true}", "-{\"x\":1"}},
        {SCHEMA, "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,"
                 "\"maxItems\":3}",
         {"+[1]", "+[1, 2,3]", "-[]", "-[1,2,3,", "-[\"a\"]", "-[1 "
                                                              "x"}},
        {SCHEMA,
         "{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],"
         "\"items\":{\"const\":3}}",
         {"+[]", "+[1]", "+[1,2]", "+[1,2,3,3]", "-[2", "-[1,3"}},
        {SCHEMA,
         "{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],"
         "\"minItems\":2}",
         {"+[1,2]", "-[1]", "-[1,2,"}},
        {SCHEMA, "{\"enum\":[\"a\\n\\u00e4\",1.5,null,[1,{\"x\":true}],0.1]}",
         {"+\"a\\n\xc3\xa4\"", "+1.5", "+null", "+[1,{\"x\":true}]", "+0.1", "-2"}},
        {SCHEMA, "{\"type\":\"string\",\"enum\":[\"a\",1,\"bc\"],\"minLength\":2}",
         {"+\"bc\"", "-\"a\"", "-1"}},
        {SCHEMA, "{\"type\":\"string\",\"minLength\":3,\"maxLength\":16384}",
         {"+\"abc\\n\"", "-\"ab\""}},
        {SCHEMA, "{\"type\":\"string\",\"minLength\":1,\"maxLength\":2}",
         {"+\"a\"", "+\"\xc3\xa4\xe2\x82\xac\"", "+\"\\n\\u00e4\"",
          "+\"\\ud83d\\ude00x\"", "-\"\"", "-\"abc", "-\"\\ud83d\"",
          "-\"\\u0000"}},
        {SCHEMA, "{\"type\":\"string\",\"pattern\":\"^[a-z\\\"\\n]+$\"}",
         {"+\"abc\"", "+\"a\\\"\\n\"", "-\"A\"", "-\"\n"}},
        {SCHEMA, "{\"type\":\"string\",\"format\":\"date\"}",
         {"+\"2024-12-31\"", "-\"2024-02-30", "-\"2024-13", "-\"x"}},
        {SCHEMA, "{\"type\":\"string\",\"format\":\"date-time\"}",
         {"+\"2024-12-31T23:59:59.5Z\"", "+\"1999-01-01T00:00:00+01:00\"",
          "-\"2024-12-31\""}},
        {SCHEMA, "{\"type\":\"string\",\"format\":\"duration\"}",
         {"+\"PT1H\"", "+\"P1DT2M3S\"", "+\"P4W\"", "-\"PT1H2S", "-\"P1DT\"",
          "-\"P\""}},
        {SCHEMA, "{\"type\":\"string\",\"format\":\"hostname\"}",
         {"+\"a-b.example\"", "-\"xn--", "-\"-a", "-\"a.\""}},
        {SCHEMA, "{\"type\":\"string\",\"format\":\"ipv4\"}",
         {"+\"255.0.10.249\"", "-\"256.", "-\"1.2.3\""}},
        {SCHEMA, "{\"type\":\"integer\",\"minimum\":-5,\"maximum\":120}",
         {"+-5", "+0", "+99", "+120", "-121", "--6", "-1.0", "-00", "--0"}},
        {SCHEMA, "{\"type\":\"integer\",\"exclusiveMinimum\":9}",
         {"+10", "+123456789012345", "-9 ", "-0", "--1"}},
        {SCHEMA, "{\"type\":\"integer\",\"maximum\":-3}", {"+-3", "+-44", "--2 ", "-0", "-1"}},
        {SCHEMA, "{\"type\":\"number\",\"minimum\":0,\"maximum\":1}",
         {"+0", "+1", "+0.5", "+1.000", "+0.0", "-1.01", "--0.5", "-2"}},
        {SCHEMA, "{\"type\":\"number\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":1}",
         {"+0.001", "+0.99", "/0", "/0.00", "-1"}},
        {SCHEMA, "{\"type\":\"number\",\"minimum\":-2.25,\"maximum\":3.75}",
         {"+-2.25", "+-2.249", "+3.75", "+3.7", "+3.750", "+0", "+-0.1", "-3.76",
          "--2.26", "-4", "--3", "+-2.2"}},
        {SCHEMA, "{\"type\":\"number\",\"minimum\":0.2,\"maximum\":0.25}",
         {"+0.2", "+0.20", "+0.249", "+0.25", "/0.", "-0.1", "-0.26", "-0.251",
          "-1", "/0"}},
        {SCHEMA, "{\"type\":\"number\"}",
         {"+-0", "+1.5e-10", "+1E5", "/1.", "/1e", "-01", "-.5", "-+1",
          "-1e100"}},
        {SCHEMA, "{\"type\":[\"string\",\"null\"]}", {"+null", "+\"a\"", "-1"}},
        {SCHEMA, "{\"anyOf\":[{\"type\":\"integer\"},{\"const\":\"x\"}]}",
         {"+1", "+\"x\"", "-\"y"}},
        {SCHEMA, "{\"type\":\"integer\",\"oneOf\":[{\"minimum\":10},{\"maximum\":2}]}",
         {"+10", "+2", "-5 ", "-\"a"}},
        {SCHEMA,
         "{\"allOf\":[{\"$ref\":\"#/$defs/a~1b\"},{\"properties\":{\"y\":{\"type\":"
         "\"null\"}},\"required\":[\"y\"]}],\"$defs\":{\"a/b\":{\"type\":\"object\","
         "\"properties\":{\"x\":{\"type\":\"null\"}},\"required\":[\"x\"]}}}",
         {"+{\"x\":null,\"y\":null}", "-{\"x\":null}", "-{\"y\""}},
        {SCHEMA,
         "{\"$ref\":\"#/definitions/node\",\"definitions\":{\"node\":{\"type\":"
         "\"object\",\"properties\":{\"next\":{\"$ref\":\"#/definitions/"
         "node\"}},\"additionalProperties\":false}}}",
         {"+{}", "+{\"next\":{\"next\":{}}}", "-{\"x\"", "/{\"next\":{\"next\":"}},
        {SCHEMA, "{\"type\":\"object\",\"required\":[\"k\"]}",
         {"+{\"k\":1}", "-{}", "-{\"x\""}},
        {SCHEMA, "{\"properties\":{\"a\":false,\"b\":true}}",
         {"+{\"b\":1}", "+{}", "-{\"a\":"}},
        {SCHEMA, "{\"title\":\"t\",\"x-foo\":1,\"minProperties\":0}", {"+1", "+{}"}},
        {SCHEMA, "{\"items\":{\"$ref\":\"#\"}}", {"+[]", "+[[],[[]]]", "-[1"}},
    };

    (void)state;
    RUN(t);
}

/* What one says of a text that another one says something of, too. */
static void schemas_joined(void **state)
{
    static const struct table t[] = {
        {SCHEMA, "{'type':'string','pattern':'^[a-z@]*$','minLength':2,'maxLength':3}",
         {"+'ab'", "+'@b@'", "-'a'", "-'abcd", "-'A"}},
        {SCHEMA, "{'type':'string','pattern':'\u00e4','maxLength':3}",
         {"+'\xc3\xa4'", "+'x\xc3\xa4\xe2\x82\xac'", "-'xyz'", "-'xy\xc3\xa4z",
          "/'xy", "+'\\n\xc3\xa4'"}},
        {SCHEMA, "{'allOf':[{'pattern':'a'},{'pattern':'b'},{'pattern':'^.{2,3}$'}]}",
         {"+'ab'", "+'ba'", "+'axb'", "-'aa'", "/'aa", "-'aaa", "-'aabb"}},
        {SCHEMA, "{'format':'date','pattern':'^2'}",
         {"+'2024-01-01'", "-'1999"}},
        {SCHEMA, "{'enum':['ab','b',3],'pattern':'^a'}", {"+'ab'", "-'b", "+3"}},
        {SCHEMA, "{'type':'string','not':{'enum':['no','never',1]}}",
         {"+'n'", "+'yes'", "+'nope'", "-'no'", "-'never'", "+'nev'", "+''"}},
        {SCHEMA, "{'enum':[1,2,3],'not':{'const':2}}", {"+1", "+3", "-2"}},
        {SCHEMA, "{'type':'integer','not':{'enum':[3,7]},'minimum':2,'maximum':8}",
         {"+2", "+4", "+6", "+8", "-3", "-7", "-9"}},
        {SCHEMA, "{'type':['string','null','boolean'],'not':{'const':true}}",
         {"+null", "+false", "+'true'", "-true"}},
        {SCHEMA, "{'not':{'type':['object','array','string']}}",
         {"+null", "+true", "+1.5", "-'", "-[", "-{"}},
        {SCHEMA, "{'type':'object','properties':{'a':{},'b':{}},"
                 "'not':{'required':['a','b']}}",
         {"+{'a':1}", "+{'b':1}", "+{}", "-{'a':1,'b'"}},
        {SCHEMA, "{'type':'number','not':{'minimum':5}}", {"+4.5", "+-1", "-5"}},
        {SCHEMA,
         "{'type':'object','properties':{'k':{'enum':['x','y']},'n':{'type':"
         "'integer'}},'required':['k'],'additionalProperties':false,"
         "'if':{'properties':{'k':{'const':'x'}}},'then':{'required':['n']},"
         "'else':{'properties':{'n':false}}}",
         {"+{'k':'x','n':1}", "+{'k':'y'}", "-{'k':'x'}", "-{'k':'y','n'"}},
        {SCHEMA,
         "{'type':'object','properties':{'k':{'enum':[1,2,3]},'a':{},'b':{}},"
         "'required':['k'],'allOf':["
         "{'if':{'properties':{'k':{'const':1}}},'then':{'required':['a']}},"
         "{'if':{'properties':{'k':{'const':2}}},'then':{'required':['b']}}]}",
         {"+{'k':1,'a':0}", "+{'k':2,'b':0}", "+{'k':3}", "-{'k':1}", "-{'k':2}",
          "+{'k':2,'a':0,'b':0}", "-{'k':1,'b'"}},
        {SCHEMA,
         "{'properties':{'a':{},'b':{},'c':{}},'dependentRequired':{'b':['a']},"
         "'dependentSchemas':{'c':{'properties':{'a':{'const':7}}}}}",
         {"+{}", "+{'a':1}", "+{'a':1,'b':2}", "-{'b':2}", "+{'c':3}",
          "+{'a':7,'c':3}", "-{'a':1,'c'"}},
    };
    (void)state;
    RUN_QUOTED(t);
}

static void members_and_items(void **state)
{
    static const struct table t[] = {
        {SCHEMA,
         "{'properties':{'x-a':{'minimum':5}},'patternProperties':{'^x-':{'type':"
         "'integer'},'b$':{'maximum':9}},'additionalProperties':false}",
         {"+{}", "+{'x-a':5}", "-{'x-a':4", "-{'x-a':1.5", "+{'x-c':12}",
          "+{'x-b':9}", "-{'x-b':10", "+{'b':1.5}", "-{'c", "+{'x-a':6,'x-q':1}",
          "-{'x-a':5,'x-a'"}},
        {SCHEMA,
         "{'patternProperties':{'^n':{'type':'null'}},'additionalProperties':{"
         "'type':'boolean'}}",
         {"+{'n':null}", "+{'m':true,'nn':null}", "-{'n':t", "-{'m':n"}},
        {SCHEMA, "{'propertyNames':{'pattern':'^[a-c]+$','maxLength':2}}",
         {"+{'a':1,'bc':2}", "-{'d", "-{'abc", "+{}"}},
        {SCHEMA, "{'type':'object','minProperties':1,'maxProperties':2}",
         {"+{'a':1}", "+{'a':1,'b':2}", "-{}", "-{'a':1,'b':2,"}},
        {SCHEMA,
         "{'properties':{'a':{},'b':{},'c':{}},'required':['b'],"
         "'minProperties':2,'maxProperties':2}",
         {"+{'a':1,'b':1}", "+{'b':1,'c':1}", "-{'b':1}", "-{'a':1,'b':1,",
          "-{'a':1,'c'"}},
        {SCHEMA,
         "{'properties':{'a':{}},'required':['a'],'additionalProperties':"
         "{'type':'null'},'minProperties':2,'maxProperties':3}",
         {"+{'a':1,'b':null}", "-{'x'", "-{'a':1}",
          "+{'a':1,'x':null,'y':null}", "-{'a':1,'x':null,'y':null,"}},
        {SCHEMA, "{'type':'array','items':{'enum':['a','b','c']},'uniqueItems':true,"
                 "'minItems':1,'maxItems':2}",
         {"+['a']", "+['c', 'a']", "-[]", "-['a','a", "-['a','b',"}},
        {SCHEMA, "{'uniqueItems':true,'items':{'type':'boolean'}}",
         {"+[]", "+[true]", "+[false,true]", "-[true,t"}},
        {SCHEMA, "{'contains':{'const':1},'items':{'type':'integer'}}",
         {"+[1]", "+[0,1,5]", "+[1,1]", "-[]", "-[0]", "-['"}},
        {SCHEMA, "{'contains':{'const':1},'minItems':2,'maxItems':3}",
         {"+[1,2]", "+['x',1]", "+[0,0,1]", "-[1]", "-[0,0,0", "-[1,1,1,"}},
        {SCHEMA, "{'type':'integer','multipleOf':7}",
         {"+0", "+7", "+-14", "+1001", "-8 ", "/8", "-07"}},
        {SCHEMA, "{'type':'integer','multipleOf':5,'minimum':0}",
         {"+0", "+15", "--", "-05", "/1"}},
        {SCHEMA, "{'type':'number','multipleOf':250,'minimum':-300,'maximum':1000}",
         {"+-250", "+0", "+1000", "-1250", "--5"}},
        {SCHEMA, "{'type':'integer','multipleOf':3,'exclusiveMinimum':3,"
                 "'exclusiveMaximum':9}",
         {"+6", "-3", "-9"}},
    };

    (void)state;
    RUN_QUOTED(t);
}

/* A value that fits two alternatives does not come. */
static void one_of(void **state)
{
    static const struct table t[] = {
        {SCHEMA,
         "{'oneOf':[{'type':'integer','minimum':0},{'type':'integer',"
         "'maximum':10}]}",
         {"+11", "+-1", "-5 ", "-10 ", "-0"}},
        {SCHEMA, "{'oneOf':[{'type':'string'},{'enum':['x',1]}]}",
         {"+1", "+'y'", "+'xx'", "-'x'"}},
        {SCHEMA, "{'oneOf':[{'type':['integer','null']},{'type':['null',"
                 "'boolean']}]}",
         {"+1", "+true", "-n"}},
        {SCHEMA,
         "{'oneOf':[{'properties':{'a':{'type':'integer'}},'required':['a']},"
         "{'properties':{'b':{'type':'integer'}},'required':['b']}]}",
         {"+{'a':1}", "+{'b':1}", "-{'a':1,"}},
        {SCHEMA,
         "{'type':'object','properties':{'a':{'type':'integer'},'b':{'type':"
         "'integer'}},'oneOf':[{'required':['a']},{'required':['b']}]}",
         {"+{'a':1}", "+{'b':1}", "-{}", "-{'a':1,'b'"}},
        {SCHEMA,
         "{'oneOf':[{'$ref':'#/$defs/cat'},{'$ref':'#/$defs/dog'}],'$defs':{"
         "'cat':{'type':'object','properties':{'kind':{'const':'cat'},'n':{}},"
         "'required':['kind']},'dog':{'type':'object','properties':{'kind':{"
         "'enum':['dog','wolf']},'m':{}},'required':['kind']}}}",
         {"+{'kind':'cat','n':1}", "+{'kind':'wolf','m':1}", "-{'kind':'cat','m",
          "-{}"}},
        {SCHEMA,
         "{'oneOf':[{'type':'object','properties':{'a':{}},'required':['a'],"
         "'additionalProperties':false},{'type':'object','properties':{'b':{}},"
         "'required':['b'],'additionalProperties':true}]}",
         {"+{'a':1}", "+{'b':1}"}},
        {SCHEMA,
         "{'oneOf':[{'anyOf':[{'const':1},{'const':2}]},{'type':'string',"
         "'maxLength':2},{'type':'string','minLength':3},{'type':'array'}]}",
         {"+1", "+'ab'", "+'abc'", "+[]", "-3"}},
        {SCHEMA, "{'oneOf':[{'type':'string'},{}]}", {"+1", "-'"}},
        /* 1.0 is an integer, and 1 is the same one. */
        {SCHEMA, "{'oneOf':[{'enum':[1.0,'x']},{'type':'integer'}]}",
         {"+'x'", "+2", "-1 "}},
        {SCHEMA, "{'oneOf':[{'enum':[1.0,2]},{'enum':[1,3.0]}]}",
         {"+2", "+3", "-1"}},
    };

    (void)state;
    RUN_QUOTED(t);
}

/* No text breaks what its schema says beside it. */
static void numbers_and_contradictions(void **state)
{
    static const struct table t[] = {
        /* What constrains nothing may say any number. */
        {SCHEMA,
         "{'default':{'const':1e60},'example':{'enum':1e60},'examples':"
         "[{'enum':[1e60],'properties':{'const':1e60}}],'const':1}",
         {"+1", "-2"}},
        {SCHEMA,
         "{'properties':{'default':{'const':2.0,'default':1e60}},'required':"
         "['default']}",
         {"+{'default':2}", "-{'default':1"}},
        /* Limits of more digits than are written: rounded inwards. */
        {SCHEMA,
         "{'type':'number','minimum':0.12345678901234567,'maximum':1}",
         {"+0.123456789012346", "/0.12345678901234", "-0.123456789012345",
          "+0.2", "+1"}},
        {SCHEMA,
         "{'type':'number','maximum':0.12345678901234567,'minimum':0}",
         {"+0.123456789012345", "-0.123456789012346", "+0", "+0.1"}},
        {SCHEMA,
         "{'type':'number','minimum':-0.12345678901234567,'maximum':0}",
         {"+-0.123456789012345", "--0.123456789012346", "+0"}},
        {SCHEMA,
         "{'type':'number','maximum':-0.12345678901234567}",
         {"+-0.123456789012346", "--0.123456789012345 ", "+-1", "-0"}},
        {SCHEMA,
         "{'type':'number','exclusiveMinimum':0.1,'maximum':0.3}",
         {"+0.100000000000001", "+0.3", "/0.10", "-0.300000000000001"}},
        {SCHEMA,
         "{'type':'number','minimum':1e-20,'maximum':1}",
         {"+0.000000000000001", "/0", "/0.000", "+1"}},
        {SCHEMA,
         "{'type':'number','minimum':123456789012345.67}",
         {"+123456789012345.67", "-123456789012345.66", "+123456789012346"}},
        /* Numbers of one value are one number. */
        {SCHEMA, "{'enum':[1.0,2],'not':{'const':1}}", {"+2", "-1"}},
        {SCHEMA, "{'enum':[1,2],'not':{'const':1.0}}", {"+2", "-1"}},
        {SCHEMA, "{'enum':[[1.0],2],'not':{'enum':[[1]]}}", {"+2", "-["}},
        {SCHEMA, "{'enum':[1.0,'x'],'type':'integer'}", {"+1", "-'"}},
        {SCHEMA,
         "{'allOf':[{'enum':[1.0,2]},{'enum':[1,3]}]}",
         {"+1", "-2", "-3"}},
        {SCHEMA,
         "{'allOf':[{'const':{'a':[2.0]}},{'const':{'a':[2]}}]}",
         {"+{'a':[2]}"}},
        {SCHEMA,
         "{'type':'array','items':{'enum':[[1],[1.0]]},'uniqueItems':true}",
         {"+[[1]]", "-[[1],"}},
        {SCHEMA,
         "{'enum':[9223372036854775807,-9223372036854775808,9007199254740993]}",
         {"+9223372036854775807", "+-9223372036854775808",
          "+9007199254740993", "-9007199254740992"}},
        /* One double, and two numbers. */
        {SCHEMA, "{'enum':[9007199254740993,1],'maximum':9007199254740992}",
         {"+1", "-9"}},
        {SCHEMA,
         "{'enum':[9223372036854775807,9],'minimum':9,"
         "'maximum':9223372036854775806}",
         {"+9", "-92"}},
        {SCHEMA,
         "{'allOf':[{'minimum':9007199254740992},{'minimum':9007199254740993}],"
         "'enum':[9007199254740992,9007199254740994]}",
         {"+9007199254740994", "-9007199254740992"}},
        {SCHEMA,
         "{'enum':[9223372036854775807,9],'maximum':9223372036854775808.0}",
         {"+9", "+9223372036854775807"}},
        {SCHEMA,
         "{'oneOf':[{'enum':[9007199254740992,1],'exclusiveMaximum':"
         "9007199254740993},{'enum':[9007199254740992,2],'minimum':0}]}",
         {"+1", "+2", "-9"}},
        /* These are names of members, not values. */
        {SCHEMA,
         "{'type':'object','properties':{'const':{'default':1e300},'enum':{"
         "'type':'number','default':[1e300]}}}",
         {"+{'const':1,'enum':2}"}},
        /* The empty list breaks nothing, so all but nothing breaks it. */
        {SCHEMA,
         "{'anyOf':[{'not':{'required':[]}},{'const':1}]}",
         {"+1", "-{"}},
    };
    static const char *const none[] = {
        "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":1e300,\"maximum\":5}",
        "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":1e19,\"maximum\":5}",
        "{\"type\":\"number\",\"multipleOf\":7,\"minimum\":5,\"maximum\":-1e300}",
        "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":8,\"maximum\":8}",
        "{\"required\":[\"a\"],\"minProperties\":2,\"maxProperties\":1,"
        "\"additionalProperties\":true}",
        "{\"properties\":{\"a\":{},\"b\":{}},\"minProperties\":2,"
        "\"maxProperties\":1}",
    };

    (void)state;
    RUN_QUOTED(t);
    for (size_t i = 0; i < SL_COUNTOF(none); i++) {
        struct sl_shape *s = NULL;
        struct sl_err err = {0};

        assert_int_equal(open_shape(&s, SCHEMA, none[i], &err), SL_EARG);
        if (!strstr(err.msg, "finite"))
            fail_msg("%s: %s", none[i], err.msg);
    }
}

/* Each of these is refused, with a message that holds the words. */
static void refusals(void **state)
{
    static const struct {
        enum kind kind;
        const char *source, *words;
    } t[] = {
        {GBNF, "root ::= root \"a\" | \"b\"", "'root' calls itself before"},
        {GBNF, "root ::= a\na ::= b? c\nb ::= \"x\"\nc ::= a",
         "left recursion"},
        {GBNF, "root ::= x", "does not define"},
        {GBNF, "a ::= \"b\"", "no rule 'root'"},
        {GBNF, "root ::= \"a\" root", "finite"},
        {GBNF, "root ::= (\"a\"", "')' is missing"},
        {GBNF, "root ::= \"a", "a literal ends"},
        {GBNF, "root ::= \"a\"\nroot ::= \"b\"", "twice"},
        {GBNF, "root ::= \"a\"\n\n%", "line 3"},
        {GBNF, "root ::= [z-a]", "rises"},
        {GBNF, "root ::= \"a\"{5,2}", "m <= n"},
        {GBNF, "root ::= \"a\"{99999}", "99999 times"},
        {GBNF, "root ::= ((((\"a\"{9999}){9999}){9999}){9999})", "states"},
        {GBNF, "root ::= (((\"\"{9999}){9999}){9999})", "states"},
        {WHOLE, "(a", "')' is missing"},
        {WHOLE, "a)", "')' without"},
        {WHOLE, "*a", "nothing to repeat"},
        {WHOLE, "a**", "repetition of a repetition"},
        {WHOLE, "(?=a)b", "looking around"},
        {WHOLE, "(?i)b", "flags"},
        {WHOLE, "(a)\\1", "escape is not supported"},
        {WHOLE, "a\\b", "escape is not supported"},
        {WHOLE, "\\p{L}", "escape is not supported"},
        {WHOLE, "a^b", "at the ends"},
        {WHOLE, "[a", "a set ends"},
        {WHOLE, "[b-a]", "rises"},
        {WHOLE, "(((((x{1000}){1000}){1000}){1000}){1000})", "states"},
        {SCHEMA, "{\"not\":{}}", "finite"},
        {SCHEMA, "{\"not\":{\"pattern\":\"a\"}}",
         "$: 'not' is supported where"},
        {SCHEMA, "{\"unevaluatedItems\":false}",
         "$: 'unevaluatedItems' is not supported"},
        {SCHEMA, "{\"minProperties\":2}", "'minProperties' asks for several"},
        {SCHEMA, "{\"contains\":{},\"minContains\":2}", "'minContains'"},
        {SCHEMA, "{\"contains\":{},\"prefixItems\":[{}]}", "'contains'"},
        {SCHEMA, "{\"type\":\"number\",\"multipleOf\":0.1}", "'multipleOf'"},
        {SCHEMA, "{\"propertyNames\":{\"anyOf\":[]}}", "'propertyNames'"},
        {SCHEMA,
         "{\"patternProperties\":{\"a\":{},\"b\":{},\"c\":{},\"d\":{}}}",
         "'patternProperties'"},
        {SCHEMA, "{\"pattern\":\"^(a|b)*a(a|b){20}$\",\"maxLength\":40}",
         "make"},
        {SCHEMA, "{\"properties\":{\"a\":{\"items\":{\"uniqueItems\":true}}}}",
         "$.a.items: 'uniqueItems'"},
        {SCHEMA, "{\"if\":{\"pattern\":\"a\"},\"then\":{\"minLength\":3}}",
         "'if'"},
        {SCHEMA, "{\"type\":\"thing\"}", "'type' must be"},
        {SCHEMA, "{\"$ref\":\"http://x/y\"}", "'$ref' must"},
        {SCHEMA, "{\"$ref\":\"#/nowhere\"}", "does not exist"},
        {SCHEMA, "{\"$ref\":\"#\"}", "calls itself"},
        {SCHEMA, "{\"allOf\":[{\"$ref\":\"#\"}]}", "refers to itself"},
        {SCHEMA, "false", "finite"},
        {SCHEMA,
         "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},"
         "\"required\":[\"a\"]}",
         "finite"},
        {SCHEMA, "{\"type\":\"integer\",\"minimum\":2,\"maximum\":1}",
         "finite"},
        {SCHEMA, "{\"type\":\"string\",\"maxLength\":99999}", "'maxLength'"},
        {SCHEMA, "{\"type\":\"string\",\"format\":\"idn-email\"}", "'format'"},
        {SCHEMA, "{\"type\":\"number\",\"minimum\":1e30}", "digits"},
        {SCHEMA, "{\"type\":\"string\",\"maxLength\":1e300}", "above 16384"},
        {SCHEMA, "{\"type\":\"string\",\"minLength\":1.5}", "whole number"},
        {SCHEMA, "[1]", "no object and no boolean"},
        {SCHEMA, "{\"not\":{\"anyOf\":{}}}", "'not' is supported where"},
        {SCHEMA, "{\"not\":{\"oneOf\":[]}}", "'not' is supported where"},
        {SCHEMA, "{\"not\":{\"allOf\":1}}", "'not' is supported where"},
        {SCHEMA,
         "{\"oneOf\":[{\"pattern\":\"^a\"},{\"pattern\":\"b$\"}]}",
         "alternative 1 of the 'oneOf'"},
        {SCHEMA, "{\"not\":{\"required\":[1]}}", "'not' is supported where"},
        {SCHEMA,
         "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":1e300,"
         "\"maximum\":2e300}",
         "'multipleOf'"},
        {SCHEMA,
         "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":-2e300,"
         "\"maximum\":-1e300}",
         "'multipleOf'"},
        {SCHEMA, "{\"const\":184467440737095516e2}", "1.8446744073709552e+19"},
        {SCHEMA, "{\"enum\":[1,{\"a\":[9007199254740992.0]}]}", "2^53"},
        {SCHEMA, "{\"properties\":{\"enum\":{\"not\":{\"const\":-1e300}}}}",
         "'const' or 'enum'"},
        {SCHEMA, "{\"properties\":{\"default\":{\"const\":1e60}}}", "2^53"},
        /* A reference makes a schema of what is none elsewhere. */
        {SCHEMA,
         "{\"default\":{\"const\":1e60},\"properties\":{\"a\":{\"$ref\":"
         "\"#/default\"}}}",
         "2^53"},
        {SCHEMA,
         "{\"examples\":[1,{\"x\":{\"enum\":[1e60]}}],\"allOf\":[{\"$ref\":"
         "\"#/examples/1/x\"}]}",
         "2^53"},
        {SCHEMA,
         "{\"$defs\":{\"const\":1e60},\"$ref\":\"#/$defs\"}", "2^53"},
        {SCHEMA, "{\"enum\":[\"a\"],\"pattern\":\"b\"}", "finite"},
        {SCHEMA, "{\"type\":\"string\",\"pattern\":\"^a$\",\"minLength\":2}",
         "finite"},
        {SCHEMA,
         "{\"allOf\":[{\"prefixItems\":[{}]}],\"items\":{\"minimum\":5}}",
         "'items'"},
    };

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(t); i++) {
        struct sl_shape *s = NULL;
        struct sl_err err = {0};
        clock_t t0 = clock();
        int rc = open_shape(&s, t[i].kind, t[i].source, &err);

        if (!rc || s || !strstr(err.msg, t[i].words))
            fail_msg("%s: %d '%s' lacks '%s'", t[i].source, rc, err.msg,
                     t[i].words);
        assert_true(rc == SL_EARG || rc == SL_EUNSUP);
        /* Hostile ones cost little: 0.1 s of one core, and here, under
         * sanitizers, not the hundredfold. */
        assert_true(clock() - t0 < 5 * CLOCKS_PER_SEC);
    }
}

/* ---- schemas that are short to write and long to read */

/* 30 references to each level, 12 levels, and nothing at the end. */
static void write_levels(struct sl_buf *b)
{
    sl_buf_fmt(b, "{\"$ref\":\"#/0\"");
    for (int i = 0; i < 12; i++) {
        sl_buf_fmt(b, ",\"%d\":{\"anyOf\":[", i);
        for (int k = 0; k < 30; k++)
            sl_buf_fmt(b, "%s{\"$ref\":\"#/%d\"}", k ? "," : "", i + 1);
        sl_buf_fmt(b, "]}");
    }
    sl_buf_fmt(b, ",\"12\":false}");
}

/* n joins with an object of 500 members. */
static void write_joins(struct sl_buf *b, int n)
{
    sl_buf_fmt(b, "{\"allOf\":[");
    for (int i = 0; i < n; i++)
        sl_buf_fmt(b, "{\"$ref\":\"#/x\"},{\"properties\":{\"p%d\":true}},", i);
    sl_buf_fmt(b, "true],\"x\":{\"properties\":{\"q\":true");
    for (int i = 0; i < 500; i++)
        sl_buf_fmt(b, ",\"m%d\":{\"type\":\"null\"}", i);
    sl_buf_fmt(b, "}}}");
}

static void write_list(struct sl_buf *b, const char *key, int n)
{
    sl_buf_fmt(b, "{\"%s\":[", key);
    for (int i = 0; i < n; i++)
        sl_buf_fmt(b, "%s\"v%d\"", i ? "," : "", i);
    sl_buf_fmt(b, "]}");
}

static void count_one(void *ctx, json_t *s, const char *path)
{
    (void)s;
    (void)path;
    ++*(int *)ctx;
}

/* All alternatives, as for a parameter of a tool. */
static void each_is_refused(struct sl_buf *b, const char *want)
{
    struct sl_grammar g;
    struct sl_jschema *j = NULL;
    json_t *root;
    int n = 0;

    assert_int_equal(sl_buf_check(b, "a test", NULL), 0);
    root = json_loadb(b->p, b->len, 0, NULL);
    assert_non_null(root);
    sl_grammar_init(&g);
    assert_int_equal(sl_jschema_open(&j, &g, root, NULL), 0);
    sl_jschema_each(j, root, "$", count_one, &n);
    assert_int_equal(g.failed, SL_EARG);
    if (!strstr(g.err.msg, want))
        fail_msg("'%s' lacks '%s'", g.err.msg, want);
    assert_int_equal(n, 0);
    sl_jschema_close(&j);
    sl_grammar_deinit(&g);
    json_decref(root);
    sl_buf_deinit(b);
}

static void long_reading(void **state)
{
    struct sl_buf b;

    (void)state;
    sl_buf_init(&b, SL_JSCHEMA_MAX_TEXT);
    write_levels(&b);
    each_is_refused(&b, "steps"); /* 30^12 of them */
    sl_buf_init(&b, SL_JSCHEMA_MAX_TEXT);
    write_joins(&b, 2000);
    each_is_refused(&b, "steps"); /* 4 million members in copies */
}

/* Long lists take time in proportion; a square took 26 s of one core. */
/* Small texts that ask for much. What they cost is counted, not timed: steps of
 * reading and allocations, which all say how much of what they want. */
static void hostile(void **state)
{
    static const char open[] = "{\"allOf\":[", part[][80] = {
        "{\"anyOf\":[{\"minimum\":#},{\"maximum\":#},true]},",
        "{\"if\":{\"minimum\":#},\"then\":{\"maximum\":#}},",
        "{\"not\":{\"enum\":[#,#]}},",
        "{\"pattern\":\"^(a|b)*a(a|b){9,#}c{#}$\"},",
        "{\"patternProperties\":{\"^(a|b)*a(a|b){2#}\":{\"const\":#}}},",
        "{\"dependentRequired\":{\"a#\":[\"b#\"]}},",
    };

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(part); i++) {
        struct sl_buf b;
        struct sl_shape *s = NULL;
        struct sl_err err = {0};
        uint64_t before = sl_mem_count();
        int rc;

        sl_buf_init(&b, SL_JSCHEMA_MAX_TEXT);
        sl_buf_str(&b, open);
        for (int k = 10; k < 60; k++)
            for (const char *c = part[i]; *c; c++)
                if (*c == '#')
                    sl_buf_fmt(&b, "%d", k);
                else
                    sl_buf_byte(&b, *c);
        sl_buf_str(&b, "true]}");
        sl_buf_byte(&b, 0);
        rc = open_shape(&s, SCHEMA, b.p, &err);
        assert_true(rc == 0 || rc == SL_EARG || rc == SL_EUNSUP);
        assert_true(rc == 0 || err.msg[0]);
        if (sl_mem_count() - before > 20000)
            fail_msg("%s: %llu allocations", part[i],
                     (unsigned long long)(sl_mem_count() - before));
        sl_shape_close(&s);
        sl_buf_deinit(&b);
    }
}

static void long_lists(void **state)
{
    static const char *const key[] = {"enum", "required"};
    clock_t t0 = clock();

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(key); i++) {
        struct sl_shape *s = NULL;
        struct sl_err err = {0};
        struct sl_buf b;

        sl_buf_init(&b, SL_JSCHEMA_MAX_TEXT);
        sl_buf_fmt(&b, "{\"allOf\":[");
        write_list(&b, key[i], 20000);
        sl_buf_fmt(&b, ",");
        write_list(&b, key[i], 19999);
        sl_buf_fmt(&b, "]}");
        assert_int_equal(sl_buf_check(&b, "a test", NULL), 0);
        (void)open_shape(&s, SCHEMA, b.p, &err);
        sl_shape_close(&s);
        sl_buf_deinit(&b);
    }
    assert_true(clock() - t0 < 5 * CLOCKS_PER_SEC);
}

/* Another rule may come before the root, which can still call itself. */
static void another_root(void **state)
{
    static const char source[] = "root ::= \"a\" | \"(\" root \")\"";
    static const char *const text[] = {"((a))", "!((a))", "(!(a))"};
    struct sl_grammar g;
    struct sl_shape *s = NULL;
    uint32_t seq;

    (void)state;
    sl_grammar_init(&g);
    sl_gbnf_read(&g, source, strlen(source));
    seq = sl_grammar_seq(&g);
    sl_grammar_add(&g, seq, sl_grammar_bytes(&g, "!", 1));
    sl_grammar_add(&g, seq, sl_grammar_call(&g, g.root));
    g.root = sl_grammar_rule(&g, "start", 5);
    sl_grammar_define(&g, g.root, seq);
    assert_int_equal(sl_shape_open(&s, &g, trie, NULL), 0);
    for (size_t i = 0; i < SL_COUNTOF(text); i++) {
        bool begins;

        assert_int_equal(matches(s, text[i], strlen(text[i]), &begins), i == 1);
    }
    sl_shape_close(&s);
    sl_grammar_deinit(&g);
}

/* Too much work for a step is not the same as a token that is not allowed. */
static void too_ambiguous(void **state)
{
    struct sl_shape *s = NULL;
    struct sl_matcher *m = NULL;
    char text[2000];

    (void)state;
    memset(text, 'a', sizeof(text));
    text[0] = 'x';
    assert_int_equal(open_shape(&s, WHOLE, "x(a?b?c?){4000}", NULL), 0);
    assert_int_equal(sl_matcher_open(&m, s, NULL), 0);
    assert_false(sl_matcher_allows(m, 'y'));
    assert_int_equal(sl_matcher_check(m, NULL), 0);
    assert_false(sl_matcher_push_text(m, text, sizeof(text)));
    assert_int_equal(sl_matcher_check(m, NULL), SL_EARG);
    sl_matcher_close(&m);
    sl_shape_close(&s);
}

/* Nor does it matter what others have found out before. */
static void too_ambiguous_when_known(void **state)
{
    struct sl_shape *s = NULL;
    struct sl_matcher *m = NULL;
    char text[1000];

    (void)state;
    memset(text, 'a', sizeof(text));
    text[0] = 'x';
    assert_int_equal(open_shape(&s, WHOLE, "x(a?b?c?){1000}", NULL), 0);
    assert_int_equal(sl_matcher_open(&m, s, NULL), 0);
    for (size_t i = 0; i < sizeof(text); i++)
        assert_true(sl_matcher_push_text(m, text + i, 1));
    sl_matcher_close(&m);
    assert_int_equal(sl_matcher_open(&m, s, NULL), 0);
    assert_false(sl_matcher_push_text(m, text, sizeof(text)));
    assert_int_equal(sl_matcher_check(m, NULL), SL_EARG);
    sl_matcher_close(&m);
    sl_shape_close(&s);
}

/* What each byte of a text and the mask before it cost; back from `last`, when
 * masks are asked for in the other order. */
static void costs_along(struct sl_shape *s, const char *text, size_t n,
                        uint64_t (*cost)[2], bool back)
{
    struct sl_matcher *m = NULL;
    const uint64_t *bit = NULL;

    for (size_t k = 0; k < n; k++) {
        size_t i = back ? n - 1 - k : k;

        assert_int_equal(sl_matcher_open(&m, s, NULL), 0);
        for (size_t c = 0; c < i; c++)
            assert_true(sl_matcher_push_text(m, text + c, 1));
        assert_int_equal(sl_matcher_mask(m, &bit, NULL), 0);
        cost[i][0] = sl_shape_work(s);
        assert_true(sl_matcher_push_text(m, text + i, 1));
        cost[i][1] = sl_shape_work(s);
        sl_matcher_close(&m);
    }
}

/* An operation costs the same, and so is refused alike, whatever is known. */
static void what_is_known_costs_the_same(void **state)
{
    static const struct {
        enum kind kind;
        const char *source, *text;
    } t[] = {
        {SCHEMA, "true",
         "{\"name\": [1, {\"ab\":\"\\\"\xc3\xa4\xe2\x82\xac\"}, []], \"abc\":{}}"},
        {SCHEMA,
         "{\"properties\":{\"name\":{\"maxLength\":5,\"type\":\"string\"},"
         "\"n\":{\"enum\":[12,123,\"ab\"]}},\"required\":[\"name\"]}",
         "{\"name\":\"abc\xc3\xa4\",\"n\":123}"},
        {SCHEMA, "{\"items\":{\"$ref\":\"#\"}}", /* near the limit on depth */
         "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
         "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["},
        {GBNF, "root ::= \"[\" root* \"]\" | \"a\" root \"b\" | [a-c]+",
         "[[a[abc]b][][c]]"},
        {WHOLE, "(a?b?c?){300}", "abcabcaabbccabc"},
    };
    static uint64_t cost[3][200][2];

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(t); i++) {
        size_t n = sl_min(strlen(t[i].text), 116);
        struct sl_shape *s = NULL, *x = NULL;

        assert_int_equal(open_shape(&s, t[i].kind, t[i].source, NULL), 0);
        assert_int_equal(open_shape(&x, t[i].kind, t[i].source, NULL), 0);
        costs_along(s, t[i].text, n, cost[0], false);
        costs_along(s, t[i].text, n, cost[1], false);
        costs_along(x, t[i].text, n, cost[2], true);
        assert_true(cost[0][0][0] > 0);
        assert_memory_equal(cost[0], cost[1], n * sizeof(cost[0][0]));
        assert_memory_equal(cost[0], cost[2], n * sizeof(cost[0][0]));
        sl_shape_close(&s);
        sl_shape_close(&x);
    }
}

/* The mask says of every token what pushing it says. */
static void check_mask(struct sl_matcher *m)
{
    const uint64_t *bit = NULL;
    uint64_t copy[(N_VOCAB + 63) / 64];

    assert_int_equal(sl_matcher_mask(m, &bit, NULL), 0);
    memcpy(copy, bit, sizeof(copy));
    for (uint32_t id = 0; id < N_VOCAB; id++) {
        bool in = copy[id / 64] >> id % 64 & 1;

        if (in != sl_matcher_allows(m, (int32_t)id))
            fail_msg("token %u: mask %d", id, in);
    }
}

/* Follow a text; at each byte compare the mask with the truth. */
static void masks_along(enum kind kind, const char *source, const char *text)
{
    struct sl_shape *s = NULL;
    struct sl_matcher *m = NULL;

    assert_int_equal(open_shape(&s, kind, source, NULL), 0);
    assert_int_equal(sl_matcher_open(&m, s, NULL), 0);
    check_mask(m);
    for (size_t i = 0; text[i]; i++) {
        assert_true(sl_matcher_push(m, (unsigned char)text[i]));
        check_mask(m);
    }
    assert_true(sl_matcher_can_end(m));
    sl_matcher_close(&m);
    sl_shape_close(&s);
}

static void masks(void **state)
{
    char deep[2 * 100 + 1];

    (void)state;
    masks_along(SCHEMA, "true",
                "{\"name\": [1, {\"ab\":\"\\\"\xc3\xa4\xe2\x82\xac\"}, [], "
                "-0.5e+1], \"abc\":{\"a\":{\"a\":null}}}");
    masks_along(SCHEMA,
                "{\"properties\":{\"name\":{\"maxLength\":5,\"type\":\"string\"},"
                "\"n\":{\"enum\":[12,123,\"ab\"]}},\"required\":[\"name\"]}",
                "{\"name\":\"abc\xc3\xa4\",\"n\":123}");
    masks_along(GBNF, "root ::= \"[\" root* \"]\" | \"a\" root \"b\" | [a-c]+",
                "[[a[abc]b][][c]]");
    masks_along(WHOLE, "(a|ab|abc|aaa+)*\"?", "abcabaaaaaaaab\"");
    /* To the limit on depth, where what encloses matters. */
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    deep[200] = 0;
    masks_along(SCHEMA, "{\"items\":{\"$ref\":\"#\"}}", deep);
}

/* There is always a way on, and always a way to the end. */
static void depth_has_no_dead_end(void **state)
{
    /* Each level needs three more to end. */
    static const char source[] =
        "root ::= a\na ::= \"[\" a \"]\" | \"(\" b \")\"\nb ::= \"<\" c "
        "\">\"\nc ::= \"x\" d\nd ::= \"y\" \"z\"?";
    struct sl_shape *s = NULL;
    struct sl_matcher *m = NULL;
    uint32_t n = 0;

    (void)state;
    assert_int_equal(open_shape(&s, GBNF, source, NULL), 0);
    assert_int_equal(sl_matcher_open(&m, s, NULL), 0);
    while (sl_matcher_push(m, '['))
        n++;
    assert_in_range(n, SL_AUTOMATON_MAX_DEPTH - 8, SL_AUTOMATON_MAX_DEPTH);
    assert_true(sl_matcher_push_text(m, "(<xyz>)", 7));
    for (; n > 0; n--)
        assert_true(sl_matcher_push(m, ']'));
    assert_true(sl_matcher_is_done(m));
    sl_matcher_close(&m);
    sl_shape_close(&s);
}

/* Calls of tools: which texts are, and how they are read. */
static struct sl_shape *calls_shape(const char *only, bool must, bool many,
                                    bool hermes, const char *content)
{
    static const char tools[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{"
        "\"type\":\"object\",\"required\":[\"s\",\"n\"],\"properties\":{"
        "\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},"
        "\"e\":{\"enum\":[\"x\",\"y z\"]},\"l\":{\"type\":[\"array\",\"null\"],"
        "\"items\":{\"type\":\"boolean\"}}}}}},"
        "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]";
    json_t *t = json_loads(tools, 0, NULL);
    json_t *c = content ? json_loads(content, 0, NULL) : NULL;
    struct sl_calls o = {.tools = t,
                         .only = only,
                         .must = must,
                         .many = many,
                         .hermes = hermes,
                         .content = c,
                         .open = -1,
                         .close = -1};
    struct sl_shape *s = NULL;
    struct sl_grammar g;

    sl_grammar_init(&g);
    sl_calls_read(&g, sl_grammar_rule(&g, "root", 4), &o);
    assert_int_equal(sl_shape_open(&s, &g, trie, NULL), 0);
    sl_grammar_deinit(&g);
    json_decref(t);
    json_decref(c);
    return s;
}

#define IN(x) "<tool_call>\n<function=" x "</function>\n</tool_call>"
#define ARG(k, v) "<parameter=" k ">\n" v "\n</parameter>\n"

static void check_calls(struct sl_shape *s, const char *const *line)
{
    for (; *line; line++) {
        bool begins;

        if (matches(s, *line + 1, strlen(*line) - 1, &begins) !=
            (**line == '+'))
            fail_msg("'%s'", *line);
    }
    sl_shape_close(&s);
}

static void calls(void **state)
{
    (void)state;
    check_calls(
        calls_shape(NULL, true, true, false, NULL),
        (const char *[]){
            "+" IN("g>\n"), "+" IN("f>\n" ARG("s", "a") ARG("n", "1")),
            /* In any order, each once, all that are required. */
            "+" IN("f>\n" ARG("n", "-7") ARG("e", "y z") ARG("s", "")),
            "-" IN("f>\n" ARG("s", "a")), "-" IN("f>\n" ARG("n", "1")),
            "-" IN("f>\n" ARG("s", "a") ARG("n", "1") ARG("s", "b")),
            "-" IN("f>\n" ARG("s", "a") ARG("n", "x")),
            "-" IN("f>\n" ARG("s", "a") ARG("n", "1") ARG("e", "z")),
            "+" IN("f>\n" ARG("l", "[true, false]") ARG("s", "") ARG("n", "1")),
            "+" IN("f>\n" ARG("l", "null") ARG("s", "") ARG("n", "1")),
            "-" IN("h>\n"), "-text", "-",
            /* Text is free, but for markup. */
            "+" IN("f>\n" ARG("n", "1")
                       ARG("s", "#include <functional>\n</p> <a=\"1\">\n\n< b")),
            "+" IN("f>\n" ARG("n", "1") ARG("s", "<param eter= <function<int>")),
            "-" IN("f>\n" ARG("n", "1") ARG("s", "a</parameter>b")),
            "-" IN("f>\n" ARG("n", "1") ARG("s", "a< / parameter >b")),
            "-" IN("f>\n" ARG("n", "1") ARG("s", "<parameter=n>")),
            "-" IN("f>\n" ARG("n", "1") ARG("s", "<function =g>")),
            "-" IN("f>\n" ARG("n", "1") ARG("s", "<tool_call>")),
            "-" IN("f>\n" ARG("n", "1") ARG("s", "<</tool_call>")),
            "+" IN("g>\n") "\n" IN("g>\n"), "-" IN("g>\n") IN("g>\n"), NULL});
    check_calls(calls_shape("g", true, false, false, NULL),
                (const char *[]){"+" IN("g>\n"), "-" IN("g>\n") "\n" IN("g>\n"),
                                 "-" IN("f>\n" ARG("s", "a") ARG("n", "1")),
                                 NULL});
    check_calls(
        calls_shape(NULL, true, false, true, NULL),
        (const char *[]){
            "+<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\":\"a\","
            "\"n\":1}}\n</tool_call>",
            "-<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
            NULL});
    check_calls(calls_shape(NULL, false, true, false, "{\"type\":\"null\"}"),
                (const char *[]){"+null", "+" IN("g>\n"), "-nullx", "-text",
                                 "+" IN("f>\nanything"), NULL});
}

/* Rules for calls of the one tool f, whose parameters are `schema`, written
 * with ' for ". */
static int open_call(struct sl_shape **out, const char *schema,
                     struct sl_err *err)
{
    struct sl_calls o = {.must = true, .open = -1, .close = -1};
    struct sl_grammar g;
    char text[1000];
    json_t *s;
    int rc;

    snprintf(text, sizeof(text), "%s", schema);
    for (char *c = text; *c; c++)
        if (*c == '\'')
            *c = '"';
    s = json_loads(text, 0, NULL);
    assert_non_null(s);
    o.tools = json_pack("[{s:s,s:o}]", "name", "f", "parameters", s);
    sl_grammar_init(&g);
    sl_calls_read(&g, sl_grammar_rule(&g, "root", 4), &o);
    rc = sl_shape_open(out, &g, trie, err);
    sl_grammar_deinit(&g);
    json_decref(o.tools);
    return rc;
}

/* One parameter p that is required. */
static struct sl_shape *call_with(const char *param)
{
    struct sl_shape *s = NULL;
    struct sl_err err = {0};
    char text[900];

    snprintf(text, sizeof(text),
             "{'type':'object','required':['p'],'properties':{'p':%s}}", param);
    if (open_call(&s, text, &err))
        fail_msg("%s: %s", param, err.msg);
    return s;
}

#define P(v) IN("f>\n" ARG("p", v))

/* What stands beside a list of values counts, as it does outside of calls. */
static void calls_by_schema(void **state)
{
    static const struct {
        const char *schema, *line[8];
    } t[] = {
        {"{'enum':['no','xx'],'not':{'const':'no'}}",
         {"+" P("xx"), "-" P("no")}},
        {"{'enum':['no','xxxx'],'minLength':3}", {"+" P("xxxx"), "-" P("no")}},
        {"{'type':'integer','enum':['no',3]}", {"+" P("3"), "-" P("no")}},
        {"{'allOf':[{'enum':[1,2,3]},{'minimum':3}]}",
         {"+" P("3"), "-" P("1"), "-" P("2")}},
        {"{'enum':['ab','b'],'pattern':'^a'}", {"+" P("ab"), "-" P("b")}},
        {"{'enum':['a','b'],'const':'b'}", {"+" P("b"), "-" P("a")}},
        {"{'type':'string','not':{'const':'no'}}",
         {"+" P("n"), "+" P("nope\n"), "+" P("a<b"), "-" P("no"),
          "-" P("</parameter>x")}},
        {"{'type':'string','pattern':'^<'}",
         {"+" P("<b>x</b>"), "-" P("b"), "-" P("</parameter>x"),
          "-" P("<b> < / tool_call >")}},
        {"{'const':['<a']}", {"+" P("[\"\\u003ca\"]"), "-" P("[\"<a\"]")}},
        {"{'enum':['<b>',0.1]}", {"+" P("<b>"), "+" P("0.1")}},
    };
    static const char *const whole[][6] = {
        {"{'$ref':'#/$defs/a','$defs':{'a':{'type':'object','properties':{'p':"
         "{'type':'null'}},'required':['p']}}}",
         "+" P("null"), "-" IN("f>\n")},
        {"{'anyOf':[{'properties':{'p':{'const':1}},'required':['p']},"
         "{'properties':{'q':{'const':2}},'required':['q']}]}",
         "+" P("1"), "+" IN("f>\n" ARG("q", "2")), "-" IN("f>\n"),
         "-" IN("f>\n" ARG("p", "1") ARG("q", "2"))},
        {"{'properties':{'p':{},'q':{}},'dependentRequired':{'q':['p']}}",
         "+" P("x"), "+" IN("f>\n"), "-" IN("f>\n" ARG("q", "2"))},
        {"{'properties':{'p':{}},'required':['p'],'minProperties':1,"
         "'maxProperties':3}",
         "+" P("x"), "-" IN("f>\n")},
    };

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(t); i++)
        check_calls(call_with(t[i].schema), t[i].line);
    for (size_t i = 0; i < SL_COUNTOF(whole); i++) {
        struct sl_shape *s = NULL;
        struct sl_err err = {0};

        if (open_call(&s, whole[i][0], &err))
            fail_msg("%s: %s", whole[i][0], err.msg);
        check_calls(s, whole[i] + 1);
    }
}

/* What the markup cannot hold. */
static void calls_refused(void **state)
{
    static const struct {
        const char *schema, *words;
    } t[] = {
        {"{'properties':{'p':{'enum':['a</parameter>b']}}}",
         "'a</parameter>b'"},
        {"{'properties':{'p':{'const':'< function =x'}}}", "holds a tag"},
        {"{'properties':{'a>b':{}}}", "'a>b', whose name"},
        {"{'properties':{'a<b':{}}}", "whose name"},
        {"{'properties':{'a\\nb':{}}}", "whose name"},
        {"{'properties':{' a':{}}}", "whose name"},
        {"{'properties':{'':{}}}", "whose name"},
        {"{'properties':{'a':{},'b':{}},'maxProperties':1}", "'maxProperties'"},
        {"{'properties':{'a':{},'b':{}},'minProperties':1}", "'minProperties'"},
        {"{'properties':{'a':{}},'propertyNames':{'pattern':'b'}}",
         "'propertyNames'"},
        {"{'properties':{'a':{'enum':1}}}", "'enum' must"},
    };

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(t); i++) {
        struct sl_shape *s = NULL;
        struct sl_err err = {0};
        int rc = open_call(&s, t[i].schema, &err);

        if ((rc != SL_EARG && rc != SL_EUNSUP) || !strstr(err.msg, t[i].words))
            fail_msg("%s: %d '%s'", t[i].schema, rc, err.msg);
    }
}

/* A token that has no bytes, between others. */
static void tokens(void **state)
{
    struct sl_grammar g;
    struct sl_shape *s = NULL;
    struct sl_matcher *m = NULL;
    uint32_t r, list;

    (void)state;
    sl_grammar_init(&g);
    r = sl_grammar_rule(&g, "root", 4);
    list = sl_grammar_seq(&g);
    sl_grammar_add(&g, list, sl_grammar_bytes(&g, "a", 1));
    sl_grammar_add(&g, list, sl_grammar_token(&g, TAG));
    sl_grammar_add(&g, list, sl_grammar_bytes(&g, "b", 1));
    sl_grammar_define(&g, r, list);
    assert_int_equal(sl_shape_open(&s, &g, trie, NULL), 0);
    sl_grammar_deinit(&g);
    assert_int_equal(sl_matcher_open(&m, s, NULL), 0);
    check_mask(m);
    assert_false(sl_matcher_allows(m, TAG));
    assert_true(sl_matcher_push(m, 'a'));
    check_mask(m);
    assert_false(sl_matcher_allows(m, 'b'));
    assert_false(sl_matcher_push(m, 'b'));
    assert_true(sl_matcher_push(m, TAG));
    assert_false(sl_matcher_can_end(m));
    check_mask(m);
    assert_true(sl_matcher_push(m, 'b'));
    assert_true(sl_matcher_can_end(m));
    assert_true(sl_matcher_is_done(m));
    check_mask(m);
    assert_false(sl_matcher_allows(m, -1));
    assert_false(sl_matcher_allows(m, INT32_MAX));
    sl_matcher_close(&m);
    sl_shape_close(&s);
}

/* Several answers of one shape do not disturb each other, also while what they
 * share is forgotten and made again. */
static void many_matchers(void **state)
{
    enum { N = 40, LEN = 300 };
    struct sl_matcher *m[N];
    struct sl_shape *s = NULL;
    char text[LEN];

    (void)state;
    assert_int_equal(
        open_shape(&s, WHOLE, "((a|b){1,200}[ab]c{0,300}(a|ab|b){7}[ab]*)*",
                   NULL),
        0);
    for (int i = 0; i < N; i++)
        assert_int_equal(sl_matcher_open(&m[i], s, NULL), 0);
    for (int k = 0; k < LEN; k++) {
        text[k] = (char)('a' + k * k % 7 % 2);
        for (int i = 0; i < N; i++) {
            bool ok = sl_matcher_push_text(m[i], text + k, 1);

            assert_true(ok);
            if (k % 50 == i % 50)
                check_mask(m[i]);
        }
    }
    for (int i = 1; i < N; i++)
        assert_int_equal(sl_matcher_can_end(m[0]), sl_matcher_can_end(m[i]));
    for (int i = 0; i < N; i++) {
        sl_matcher_stop(m[i]);
        sl_matcher_close(&m[i]);
    }
    sl_shape_close(&s);
}

static void looking_ahead(void **state)
{
    static const int32_t ids[] = {'{', '"', 'a', '"', ':', '1', 'x', '}'};
    struct sl_shape *s = NULL;
    struct sl_matcher *m = NULL;

    (void)state;
    assert_int_equal(open_shape(&s, SCHEMA, "{\"type\":\"object\"}", NULL), 0);
    assert_int_equal(sl_matcher_open(&m, s, NULL), 0);
    assert_int_equal(sl_matcher_n_fit(m, ids, 8), 6);
    assert_int_equal(sl_matcher_n_fit(m, ids, 4), 4);
    assert_int_equal(sl_matcher_n_fit(m, ids + 1, 4), 0);
    assert_int_equal(sl_matcher_n_fit(m, ids, 0), 0);
    check_mask(m);
    assert_true(sl_matcher_push_text(m, "{\"ab\":0}", 8));
    assert_true(sl_matcher_is_done(m));
    assert_int_equal(sl_matcher_n_fit(m, ids, 1), 0);
    sl_matcher_close(&m);
    sl_shape_close(&s);
}

/* Every allocation that fails ends in SL_ENOMEM and nothing leaks. */
static void no_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        struct sl_shape *s = NULL;
        int rc;

        sl_mem_fail_nth(n);
        rc = open_shape(&s, GBNF, "root ::= (\"a\" | x)*\nx ::= [a-z]{2}",
                        NULL);
        sl_mem_fail_nth(0);
        if (!rc) {
            sl_shape_close(&s);
            break;
        }
        assert_int_equal(rc, SL_ENOMEM);
    }
}

/* None of them fails unseen: a pattern without one of its states is another
 * one. */
static void no_memory_for_patterns(void **state)
{
    static const char *const one[] = {"^(ab|c){2,5}$", "^[^x]*$"};
    uint64_t n = 0, all = UINT64_MAX;

    (void)state;
    for (; n <= all; n++) {
        struct sl_dfa a = {0}, b = {0}, both = {0};
        struct sl_grammar g;
        uint64_t before = sl_mem_count();

        sl_grammar_init(&g);
        sl_mem_fail_nth(n);
        if (sl_dfa_regex(&a, &g, one[0], strlen(one[0]), SL_REGEX_FIND) &&
            sl_dfa_regex(&b, &g, one[1], strlen(one[1]), SL_REGEX_FIND))
            (void)sl_dfa_join(&both, &g, &a, &b, SL_DFA_AND);
        sl_mem_fail_nth(0);
        if (n == 0)
            all = sl_mem_count() - before; /* none failed */
        assert_int_equal(g.failed, n ? SL_ENOMEM : 0);
        sl_dfa_close(&a);
        sl_dfa_close(&b);
        sl_dfa_close(&both);
        sl_grammar_deinit(&g);
    }
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grammars),
        cmocka_unit_test(patterns),
        cmocka_unit_test(schemas),
        cmocka_unit_test(schemas_joined),
        cmocka_unit_test(members_and_items),
        cmocka_unit_test(one_of),
        cmocka_unit_test(numbers_and_contradictions),
        cmocka_unit_test(refusals),
        cmocka_unit_test(long_reading),
        cmocka_unit_test(hostile),
        cmocka_unit_test(long_lists),
        cmocka_unit_test(another_root),
        cmocka_unit_test(too_ambiguous),
        cmocka_unit_test(too_ambiguous_when_known),
        cmocka_unit_test(what_is_known_costs_the_same),
        cmocka_unit_test(masks),
        cmocka_unit_test(depth_has_no_dead_end),
        cmocka_unit_test(calls),
        cmocka_unit_test(calls_by_schema),
        cmocka_unit_test(calls_refused),
        cmocka_unit_test(tokens),
        cmocka_unit_test(many_matchers),
        cmocka_unit_test(looking_ahead),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(no_memory_for_patterns),
    };

    return cmocka_run_group_tests(tests, make_trie, end_trie);
}
