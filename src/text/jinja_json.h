/* text/jinja_json.h - JSON <-> values of a template */
#ifndef SL_TEXT_JINJA_JSON_H
#define SL_TEXT_JINJA_JSON_H

#include <jansson.h>

#include "text/jinja_value.h"

/* Strings are borrowed from j, which must stay until the run ends. */
struct sl_jval sl_jinja_from_json(struct sl_jrun *r, const json_t *j);

/* How json.dumps prints; start with SL_JINJA_JSON_STYLE. */
struct sl_jjson_style {
    bool ascii, sort;
    const struct sl_jstr *indent; /* NULL: on one line */
    const struct sl_jstr *item;   /* separators; NULL: the default */
    const struct sl_jstr *key;
};

void sl_jinja_emit_json(struct sl_jrun *r, struct sl_jval v,
                        const struct sl_jjson_style *style);

#endif
