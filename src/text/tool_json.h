/* text/tool_json.h - a tool call written as one JSON object
 *
 *     {"name": "read", "arguments": {"path": "a.txt"}}
 *
 * "parameters" is understood for "arguments", which may also be the text of an
 * object, null or absent. Read as literal.h reads.
 */
#ifndef SL_TEXT_TOOL_JSON_H
#define SL_TEXT_TOOL_JSON_H

#include <jansson.h>

#include "base/buf.h"

struct sl_tool_json {
    struct sl_buf name;
    struct sl_buf args; /* the JSON of an object */
    uint32_t n_ignored; /* members that mean nothing here */
};

void sl_tool_json_init(struct sl_tool_json *t, size_t max_bytes);
void sl_tool_json_deinit(struct sl_tool_json *t);

/* Read s, valid UTF-8. With `repair` brackets may be missing at the end. False:
 * this is no call; *t then holds nothing of use. */
bool sl_tool_json_read(struct sl_tool_json *t, const char *s, size_t len,
                       bool repair, json_t *tools);

#endif
