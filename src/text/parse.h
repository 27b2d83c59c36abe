/* text/parse.h - the text of a model to reasoning, content and tool calls
 *
 * Text goes in as it is generated, events come out as soon as they are certain:
 *
 *     struct sl_parse_opts o;
 *     struct sl_parse_event ev;
 *
 *     sl_parse_opts_init(&o);
 *     o.start = sl_parse_start_of(prompt, prompt_len);
 *     o.reasoning = true;
 *     o.style = SL_PARSE_QWEN3_CODER;
 *     o.tools = tools;
 *     rc = sl_parse_open(&p, &o, err);
 *     while (... a piece of text ...) {
 *         rc = sl_parse_feed(p, text, len, err);
 *         while (sl_parse_next(p, &ev))
 *             ... write ev ...
 *     }
 *     rc = sl_parse_finish(p, SL_PARSE_STOP, err);
 *     while (sl_parse_next(p, &ev)) ...
 *     sl_parse_close(&p);
 *
 * Events of a reply, in this order:
 *
 *     REASONING*  CONTENT*  { BEGIN ARGS* (END | CUT)  CONTENT* }  DONE
 *
 * The fragments of ARGS of one call are together the JSON text of an object
 * when END comes, whatever the model wrote. A call begins when its name is
 * complete. String arguments are given out piece by piece, all others whole.
 * CUT comes instead of END when the output was ended by its length inside of a
 * call; its text is what closes the JSON: a stream leaves it out, a whole reply
 * adds it. (reply.h collects a whole reply.)
 *
 * Where the text is cut makes no difference to what the events say together;
 * neighbouring events of a kind from one call of feed are one event.
 *
 * Markup that is not a call is never an error and never lost: it is content.
 * Left out of the events are only the tags, space around reasoning and before
 * calls, half a tag at the end of a call, and what sl_parse_n_ignored counts.
 *
 * One thread at a time. No call blocks. The functions that can fail do so only
 * with SL_ENOMEM and for what exceeds the limits below; after that the parser
 * can only be closed.
 */
#ifndef SL_TEXT_PARSE_H
#define SL_TEXT_PARSE_H

#include <jansson.h>

#include "base/err.h"

/* Limits. All are chosen, not measured. */
#define SL_PARSE_MAX_FEED ((size_t)16 << 20) /* bytes; more is SL_EARG */
/* Bytes of an argument that is no string, or of a call written as JSON, which
 * wait for their end. A longer argument becomes a string, a longer call is
 * content. */
#define SL_PARSE_MAX_HELD ((size_t)4 << 20)
#define SL_PARSE_MAX_NAME 256   /* bytes of a tool's or a parameter's name */
#define SL_PARSE_MAX_GAP 256    /* bytes of space between two tags */
#define SL_PARSE_MAX_SPACE 1024 /* bytes of space that wait behind content */
#define SL_PARSE_MAX_CALLS 1024 /* of one reply; further ones are content */
/* Bytes of "call_" and 24 random letters and digits, with the zero. */
#define SL_PARSE_ID_BYTES 30

/* What the prompt ends with. */
enum sl_parse_start {
    SL_PARSE_THINK_NONE,   /* no think block: content, unless one is opened */
    SL_PARSE_THINK_CLOSED, /* a closed block: content, space before it dropped
                            */
    SL_PARSE_THINK_OPEN,   /* reasoning */
};

/* How calls are written. Both forms are understood under both names; under
 * the first one a call of a known tool may also lack its <tool_call>. */
enum sl_parse_style {
    SL_PARSE_NO_TOOLS, /* tags of calls are content */
    SL_PARSE_QWEN3_CODER,
    SL_PARSE_QWEN3_HERMES,
};

/* Tags that are one token each. */
enum sl_parse_tag {
    SL_PARSE_TAG_THINK,
    SL_PARSE_TAG_THINK_END,
    SL_PARSE_TAG_CALL,
    SL_PARSE_TAG_CALL_END,
};

/* The text of a tag. */
const char *sl_parse_tag_text(enum sl_parse_tag tag);

struct sl_parse_opts {
    enum sl_parse_start start;
    bool reasoning; /* false: think tags are content, `start` means nothing */
    enum sl_parse_style style;
    /* The request's array; a reference is taken, and it must not change until
     * close. NULL or empty: as SL_PARSE_NO_TOOLS. */
    json_t *tools;
    /* The tags above come through sl_parse_tag only; in the text they are
     * words like any other. False: they are found in the text. */
    bool tags_by_id;
    /* Bits for the ids of calls; NULL: the system's. Called from feed. */
    uint64_t (*random)(void *ctx);
    void *random_ctx;
};

void sl_parse_opts_init(struct sl_parse_opts *o);

/* "qwen3_coder", "qwen3_xml", "qwen3_hermes", "hermes", "none". False for
 * another name. */
bool sl_parse_style_find(const char *name, enum sl_parse_style *out);

/* How a rendered prompt ends: the last think tag behind the last header of an
 * assistant turn. The prompt decides, not the flags of the request. */
enum sl_parse_start sl_parse_start_of(const char *prompt, size_t len);

struct sl_parse;

/* The caller closes *out. */
int sl_parse_open(struct sl_parse **out, const struct sl_parse_opts *o,
                  struct sl_err *err);
void sl_parse_close(struct sl_parse **p);

/* The next text, whole characters; bytes that are none become U+FFFD. Borrowed
 * for the call. Events that were not taken yet stay. */
int sl_parse_feed(struct sl_parse *p, const char *s, size_t len,
                  struct sl_err *err);

/* The next token is this tag. */
int sl_parse_tag(struct sl_parse *p, enum sl_parse_tag tag, struct sl_err *err);

enum sl_parse_end {
    SL_PARSE_STOP,   /* the model ended, or a stop text was met: an open call is
                      * closed and counts */
    SL_PARSE_LENGTH, /* no room was left: an open call is cut */
};

/* The output has ended. Gives the rest, and DONE. */
int sl_parse_finish(struct sl_parse *p, enum sl_parse_end end,
                    struct sl_err *err);

enum sl_parse_kind {
    SL_PARSE_REASONING, /* text */
    SL_PARSE_CONTENT,   /* text */
    SL_PARSE_BEGIN,     /* text: the name of the tool; id */
    SL_PARSE_ARGS,      /* text: a fragment of JSON, whole characters and
                         * whole escapes */
    SL_PARSE_END,       /* the call is complete; no text */
    SL_PARSE_CUT,       /* the call is not; text: what closes its JSON */
    SL_PARSE_DONE,      /* no text */
};

struct sl_parse_event {
    enum sl_parse_kind kind;
    uint32_t call;    /* BEGIN to CUT: 0, 1, ... in the order of the calls */
    const char *text; /* valid UTF-8; not terminated, never NULL */
    size_t len;       /* not 0 in REASONING, CONTENT, BEGIN, ARGS and CUT */
    char id[SL_PARSE_ID_BYTES]; /* BEGIN; else "" */
};

/* The next event; false when there is none yet. `text` is borrowed until the
 * next call of feed, tag, finish or close. */
bool sl_parse_next(struct sl_parse *p, struct sl_parse_event *ev);

/* Is what comes next reasoning? For counting its tokens: those fed while this
 * was true before, up to and including the end tag. */
bool sl_parse_is_reasoning(const struct sl_parse *p);

/* Calls that have ended with END. */
uint32_t sl_parse_n_calls(const struct sl_parse *p);

/* What was left out for a reason worth a line in the log: a parameter that
 * came twice, members of a JSON call that mean nothing, half a parameter. */
uint32_t sl_parse_n_ignored(const struct sl_parse *p);

/* Bytes that wait for what comes next. */
size_t sl_parse_held(const struct sl_parse *p);

#endif
