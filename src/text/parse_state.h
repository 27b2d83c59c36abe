/* text/parse_state.h - the parser's own state; for parse*.c alone
 *
 *                      <tool_call><function=NAME>
 *   REASONING --------------------------------+        <parameter=KEY>
 *    |      ^                                 v       +------------------+
 *    |      | <think>, nothing said yet      ARGS ----+      VALUE <-----+
 *    |      |            same                ^ |  ^              |
 *    |  CONTENT -----------------------------+ |  +--------------+
 *    |   ^  ^ |                                |     end of value
 *    +---+  | +--> JSON: <tool_call>{          |
 * </think>  |       |  (from REASONING too)    |
 *           +-------+--------------------------+
 *              }, or no call: back     </function>, </tool_call>, the next call
 *
 * What serving.md calls PREAMBLE and NAME is not a state: an opening is looked
 * at whole, and until it is complete nothing of it is consumed. So markup that
 * turns out to be none is text without further ado. BETWEEN and CLOSED are
 * CONTENT with `between`, `outer_open` and `skip_space`.
 */
#ifndef SL_TEXT_PARSE_STATE_H
#define SL_TEXT_PARSE_STATE_H

#include "base/buf.h"
#include "text/parse.h"
#include "text/schema.h"

/* A tag that came by id is one byte in `in`, which no UTF-8 text contains. */
#define SL_PARSE_MARK 0xf8

enum sl_parse_state {
    SL_PARSE_IN_REASONING,
    SL_PARSE_IN_CONTENT,
    SL_PARSE_IN_ARGS,
    SL_PARSE_IN_VALUE,
    SL_PARSE_IN_JSON,
};

struct sl_parse_record {
    enum sl_parse_kind kind;
    uint32_t call;
    size_t off, len; /* in `text` */
    char id[SL_PARSE_ID_BYTES];
};

struct sl_parse_json {
    enum sl_parse_state from;
    size_t start; /* of the object, counted from `at` */
    int depth;
    char quote;  /* inside of a string; 0: not */
    bool escape; /* the next byte is escaped */
    bool broken; /* the string has a line end in it, so it is not JSON */
};

struct sl_parse {
    /* Of the request. */
    json_t *tools; /* our reference; NULL: none are active */
    enum sl_parse_style style;
    bool reasoning, tags_by_id;
    uint64_t (*random)(void *ctx);
    void *random_ctx;

    /* Text that came. in[at..len) is not consumed yet, in[at..scan) has been
     * looked at already by the states that wait for an end. */
    struct sl_buf in;
    size_t at, scan;
    enum sl_parse_state state;
    bool final; /* nothing will follow */
    enum sl_parse_end end;

    /* Events. */
    struct sl_parse_record *ev; /* [cap_ev] */
    size_t n_ev, cap_ev, i_ev;
    struct sl_buf text; /* of the events */
    enum sl_code failed;

    /* Reasoning and content. */
    struct sl_buf space; /* waits until something visible follows */
    bool skip_space;     /* nothing visible has come yet here */
    bool line_start;     /* of what comes next */
    bool said;           /* content was given out */
    bool may_repeat;     /* one <think> at the start of reasoning is no news */
    bool outer_open;     /* the </tool_call> of a call is still to come */
    bool between;        /* behind </function>: a bare <function= is a call */

    /* The call. */
    uint32_t n_begun, n_done, n_ignored;
    struct sl_schema params, schema; /* of the tool, of the value */
    json_t *keys;                    /* an object: those that came */
    uint32_t n_param;                /* given out */
    struct sl_buf key;               /* of the value */
    bool strays;                     /* text came, and no tag behind it yet */
    struct sl_buf late;    /* text between parameters: content, afterwards */
    struct sl_buf work;    /* a value with its tags spelled out */
    bool fresh;            /* the value's first byte is still to come */
    bool streams, dropped; /* the value is given out as it comes; not at all */
    struct sl_parse_json json;
};

#endif
