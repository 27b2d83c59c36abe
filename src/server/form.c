/* server/form.c - what the answer must look like, as requests say it
 *
 * All fields end in one of four kinds, and only one of them may be given, so
 * that none is ignored. Then the tools come in:
 *
 *     tool_choice          answer
 *     none, or no tools    as the field says, or free
 *     required, a name     calls; response_format has nothing to say then
 *     auto                 free; with response_format: that, or calls; with a
 *                          strict tool: free, and calls by their schemas
 *
 * The engine compiles it and refuses what it does not understand.
 */
#include "server/form.h"

#include "base/mem.h"

void sl_form_deinit(struct sl_form *f)
{
    json_decref(f->value);
    *f = (struct sl_form){0};
}

static int bad(struct sl_refusal *r, const char *path, const char *want)
{
    return sl_refuse(r, 400, "invalid_type", path, "%s must be %s", path, want);
}

static int only_one(struct sl_form *f, const char *field, struct sl_refusal *r)
{
    if (f->field)
        return sl_refuse(r, 400, "invalid_value", field,
                         "%s and %s both say what the answer must look like; "
                         "leave one of them out",
                         f->field, field);
    f->field = field;
    return 0;
}

/* A schema, or its text. */
static int take_schema(struct sl_form *f, const json_t *v, const char *field,
                       struct sl_refusal *r)
{
    if (only_one(f, field, r))
        return -1;
    if (json_is_string(v))
        f->value = json_loadb(json_string_value(v), json_string_length(v),
                              JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    else
        f->value = json_incref((json_t *)(uintptr_t)v);
    if (!json_is_object(f->value) && !json_is_boolean(f->value))
        return bad(r, field, "a JSON schema, which is an object");
    f->kind = SL_SHAPE_SCHEMA;
    return 0;
}

static int take_text(struct sl_form *f, const json_t *v, const char *field,
                     enum sl_shape_kind kind, struct sl_refusal *r)
{
    if (only_one(f, field, r))
        return -1;
    if (!json_is_string(v))
        return bad(r, field, "a string");
    f->kind = kind;
    f->text = json_string_value(v);
    f->len = json_string_length(v);
    return 0;
}

static int take_choice(struct sl_form *f, const json_t *v, const char *field,
                       struct sl_refusal *r)
{
    if (only_one(f, field, r))
        return -1;
    if (!json_is_array(v) || json_array_size(v) == 0)
        return bad(r, field, "an array of at least one string");
    for (size_t i = 0; i < json_array_size(v); i++) {
        char path[64];

        snprintf(path, sizeof(path), "%s[%zu]", field, i);
        if (!json_is_string(json_array_get(v, i)))
            return bad(r, path, "a string");
    }
    f->kind = SL_SHAPE_CHOICE;
    f->value = json_incref((json_t *)(uintptr_t)v);
    return 0;
}

static int take_object(struct sl_form *f, const char *field,
                       struct sl_refusal *r)
{
    json_t *s = json_pack("{s:s}", "type", "object");
    int rc = take_schema(f, s, field, r);

    json_decref(s);
    return rc;
}

/* ------------------------------------------------------------------- fields */

int sl_form_response_format(struct sl_form *f, const json_t *v,
                            struct sl_refusal *r)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    const json_t *in = json_object_get(v, "json_schema"), *schema;

    if (!json_is_object(v))
        return bad(r, "response_format", "an object with a type");
    if (!type)
        return bad(r, "response_format.type",
                   "text, json_object or json_schema");
    if (!strcmp(type, "text"))
        return 0;
    schema = json_object_get(v, "schema"); /* llama.cpp's place for it */
    if (!strcmp(type, "json_object"))
        return schema && !json_is_null(schema)
                   ? take_schema(f, schema, "response_format.schema", r)
                   : take_object(f, "response_format", r);
    if (strcmp(type, "json_schema"))
        return sl_refuse(r, 400, "invalid_value", "response_format.type",
                         "response_format.type is '%.60s'; it must be text, "
                         "json_object or json_schema",
                         type);
    if (json_object_get(in, "schema"))
        schema = json_object_get(in, "schema");
    if (!schema || json_is_null(schema))
        return sl_refuse(r, 400, "invalid_value",
                         "response_format.json_schema.schema",
                         "response_format.json_schema.schema is missing; put "
                         "the schema there");
    return take_schema(f, schema, "response_format.json_schema.schema", r);
}

int sl_form_guided_json(struct sl_form *f, const json_t *v,
                        struct sl_refusal *r)
{
    return take_schema(f, v, "guided_json", r);
}

int sl_form_json_schema(struct sl_form *f, const json_t *v,
                        struct sl_refusal *r)
{
    return take_schema(f, v, "json_schema", r);
}

int sl_form_guided_regex(struct sl_form *f, const json_t *v,
                         struct sl_refusal *r)
{
    return take_text(f, v, "guided_regex", SL_SHAPE_REGEX, r);
}

int sl_form_guided_choice(struct sl_form *f, const json_t *v,
                          struct sl_refusal *r)
{
    return take_choice(f, v, "guided_choice", r);
}

int sl_form_guided_grammar(struct sl_form *f, const json_t *v,
                           struct sl_refusal *r)
{
    return take_text(f, v, "guided_grammar", SL_SHAPE_GRAMMAR, r);
}

/* llama-server's clients send an empty one for none. */
int sl_form_grammar(struct sl_form *f, const json_t *v, struct sl_refusal *r)
{
    if (json_is_string(v) && json_string_length(v) == 0)
        return 0;
    return take_text(f, v, "grammar", SL_SHAPE_GRAMMAR, r);
}

/* What is not read is refused; the settings of vLLM among it may be off. */
static int check_structured(const json_t *v, struct sl_refusal *r)
{
    static const char *const known[] = {
        "json", "regex", "choice", "grammar", "json_object", "structural_tag",
        "disable_any_whitespace", "disable_additional_properties",
        "disable_fallback", "whitespace_pattern",
    };
    enum { N_READ = 6 }; /* the first of them */
    const char *key;
    char path[100];
    json_t *x;

    json_object_foreach((json_t *)(uintptr_t)v, key, x)
    {
        size_t i = 0;

        while (i < SL_COUNTOF(known) && strcmp(key, known[i]))
            i++;
        if (i < N_READ ||
            (i < SL_COUNTOF(known) && (json_is_null(x) || json_is_false(x))))
            continue;
        snprintf(path, sizeof(path), "structured_outputs.%.60s", key);
        return sl_refuse(r, 400, "invalid_value", path,
                         "structured_outputs.%.60s is not supported; leave it "
                         "out, and use json, regex, choice, grammar or "
                         "json_object",
                         key);
    }
    return 0;
}

int sl_form_structured(struct sl_form *f, const json_t *v,
                       struct sl_refusal *r)
{
    const json_t *x;

    if (!json_is_object(v))
        return bad(r, "structured_outputs", "an object");
    if (check_structured(v, r))
        return -1;
    x = json_object_get(v, "structural_tag");
    if (x && !json_is_null(x))
        return sl_refuse(r, 400, "invalid_value",
                         "structured_outputs.structural_tag",
                         "structured_outputs.structural_tag is not supported; use json, regex, "
                         "choice, grammar or json_object");
    x = json_object_get(v, "json");
    if (x && !json_is_null(x) &&
        take_schema(f, x, "structured_outputs.json", r))
        return -1;
    x = json_object_get(v, "regex");
    if (x && !json_is_null(x) &&
        take_text(f, x, "structured_outputs.regex", SL_SHAPE_REGEX, r))
        return -1;
    x = json_object_get(v, "choice");
    if (x && !json_is_null(x) &&
        take_choice(f, x, "structured_outputs.choice", r))
        return -1;
    x = json_object_get(v, "grammar");
    if (x && !json_is_null(x) &&
        take_text(f, x, "structured_outputs.grammar", SL_SHAPE_GRAMMAR, r))
        return -1;
    x = json_object_get(v, "json_object");
    if (x && !json_is_null(x) && !json_is_boolean(x))
        return bad(r, "structured_outputs.json_object", "a boolean");
    if (json_is_true(x) &&
        take_object(f, "structured_outputs.json_object", r))
        return -1;
    if (!f->field)
        return sl_refuse(r, 400, "invalid_value", "structured_outputs",
                         "structured_outputs holds none of json, regex, "
                         "choice, grammar and json_object");
    return 0;
}

int sl_form_tool_choice(struct sl_form *f, const json_t *v,
                        struct sl_refusal *r)
{
    static const char *const word[] = {"none", "auto", "required"};
    const char *s = json_string_value(v);
    const json_t *fn = json_object_get(v, "function");
    const json_t *type = json_object_get(v, "type");

    for (size_t i = 0; s && i < SL_COUNTOF(word); i++)
        if (!strcmp(s, word[i])) {
            f->tool_choice = word[i];
            return 0;
        }
    if (json_is_object(v) && type && !json_is_null(type) &&
        (!json_is_string(type) || strcmp(json_string_value(type), "function")))
        return bad(r, "tool_choice.type", "\"function\"");
    if (json_is_object(v))
        f->tool = json_string_value(
            json_object_get(json_is_object(fn) ? fn : v, "name"));
    if (!f->tool)
        return sl_refuse(r, 400, "invalid_value", "tool_choice",
                         "tool_choice must be none, auto, required, or "
                         "{\"type\": \"function\", \"function\": {\"name\": "
                         "...}}");
    return 0;
}

/* ------------------------------------------------------------------ together */

bool sl_form_must_call(const struct sl_form *f)
{
    return f->tool || (f->tool_choice && !strcmp(f->tool_choice, "required"));
}

static const json_t *function_of(const json_t *tool)
{
    const json_t *f = json_object_get(tool, "function");

    return json_is_object(f) ? f : tool;
}

static bool has_tool(const json_t *tools, const char *name)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const char *s = json_string_value(
            json_object_get(function_of(json_array_get(tools, i)), "name"));

        if (s && !strcmp(s, name))
            return true;
    }
    return false;
}

static bool is_response_format(const struct sl_form *f)
{
    return f->field && !strncmp(f->field, "response_format", 15);
}

int sl_form_check(struct sl_form *f, const json_t *tools, struct sl_refusal *r)
{
    if (!tools && (f->tool || (f->tool_choice &&
                               strcmp(f->tool_choice, "none"))))
        return sl_refuse(r, 400, "invalid_value", "tool_choice",
                         "tool_choice is given without tools");
    if (f->tool && !has_tool(tools, f->tool))
        return sl_refuse(r, 400, "unknown_tool", "tool_choice.function.name",
                         "tool_choice names the tool '%.100s', which is not "
                         "in tools",
                         f->tool);
    if (sl_form_must_call(f) && f->field && !is_response_format(f))
        return sl_refuse(r, 400, "invalid_value", "tool_choice",
                         "tool_choice forces a call, and %s says what the "
                         "answer must look like; leave one of them out",
                         f->field);
    return 0;
}

static bool has_strict(const json_t *tools)
{
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (json_is_true(json_object_get(
                function_of(json_array_get(tools, i)), "strict")))
            return true;
    return false;
}

/* The object that SL_SHAPE_CALLS takes. */
static char *calls_text(const struct sl_form *f, json_t *tools, bool many,
                        bool hermes)
{
    json_t *o = json_pack("{s:O,s:b,s:b,s:b}", "tools", tools, "must",
                          sl_form_must_call(f), "many", many && !f->tool,
                          "hermes", hermes);
    char *out;

    if (o && f->tool)
        json_object_set_new(o, "name", json_string(f->tool));
    if (o && !sl_form_must_call(f) && is_response_format(f))
        json_object_set(o, "content", f->value);
    out = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return out;
}

int sl_form_shape(struct sl_form_shape *out, const struct sl_form *f,
                  json_t *tools, bool many, bool hermes, struct sl_refusal *r)
{
    bool called = tools && !(f->tool_choice && !strcmp(f->tool_choice, "none"));
    char *s = NULL; /* jansson's own */
    int rc = 0;

    *out = (struct sl_form_shape){.kind = f->kind};
    if (called && (sl_form_must_call(f) || is_response_format(f) ||
                   (!f->field && has_strict(tools)))) {
        out->kind = SL_SHAPE_CALLS;
        s = calls_text(f, tools, many, hermes);
    } else if (f->value) {
        s = json_dumps(f->value, JSON_COMPACT | JSON_ENCODE_ANY);
    }
    if (s || f->text) {
        out->len = s ? strlen(s) : f->len;
        rc = sl_mem_dup(&out->text, s ? s : f->text, out->len, NULL);
    }
    free(s);
    if (rc || (out->kind != SL_SHAPE_FREE && !out->text))
        return sl_refuse(r, 503, NULL, NULL, "no memory is left");
    return 0;
}
