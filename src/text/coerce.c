/* text/coerce.c - the text of an argument to JSON; see coerce.h */
#include "text/coerce.h"

#include "text/literal.h"
#include "text/scalar.h"

bool sl_coerce_is_string(struct sl_schema schema)
{
    unsigned types = sl_schema_types(schema);

    return types == 0 || types == SL_SCHEMA_STRING;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* An object or an array, whole. What was written of another is taken back. */
static bool brackets(struct sl_buf *out, const char *s, size_t len,
                     struct sl_schema schema)
{
    struct sl_literal r = {.s = s, .len = len};
    size_t mark = out->len;
    bool ok = sl_literal_value(&r, schema, out);

    sl_literal_space(&r);
    if (ok && r.at == len)
        return true;
    out->len = mark;
    return false;
}

/* s without space around it. */
static bool coerce(struct sl_buf *out, const char *s, size_t len,
                   struct sl_schema schema, unsigned types)
{
    if ((types & SL_SCHEMA_NULL) && sl_scalar_null(out, s, len))
        return true;
    if ((types & SL_SCHEMA_INTEGER) && sl_scalar_integer(out, s, len))
        return true;
    if ((types & SL_SCHEMA_NUMBER) && sl_scalar_number(out, s, len))
        return true;
    if ((types & SL_SCHEMA_BOOLEAN) && sl_scalar_boolean(out, s, len))
        return true;
    if ((types & SL_SCHEMA_OBJECT) && s[0] == '{')
        return brackets(out, s, len, schema);
    if ((types & SL_SCHEMA_ARRAY) && (s[0] == '[' || s[0] == '('))
        return brackets(out, s, len, schema);
    return false;
}

void sl_coerce_text(struct sl_buf *out, const char *s, size_t len,
                    struct sl_schema schema)
{
    unsigned types = sl_schema_types(schema);
    const char *word = s;
    size_t n = len;

    while (n && is_space(word[0])) {
        word++;
        n--;
    }
    while (n && is_space(word[n - 1]))
        n--;
    if (n == 0 && (types & SL_SCHEMA_NULL) && !(types & SL_SCHEMA_STRING)) {
        sl_buf_str(out, "null");
        return;
    }
    if (n == 0 || types == 0 || types == SL_SCHEMA_STRING ||
        !coerce(out, word, n, schema, types))
        sl_scalar_string(out, s, len);
}
