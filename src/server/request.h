/* server/request.h - the fields of a completion request
 *
 * serving.md 2 as a table: request.c has one line per field that is plain, and
 * one function per field that is not. null is absent, an integral float is an
 * integer, a decimal string is a number; unknown fields are ignored. A field
 * that this version cannot honour is refused with a sentence, unless its value
 * asks for what happens anyway.
 *
 * Text workers; no engine in here, so that it can be tested and fuzzed alone.
 */
#ifndef SL_SERVER_REQUEST_H
#define SL_SERVER_REQUEST_H

#include <jansson.h>

#include "server/error.h"
#include "server/form.h"

#define SL_MAX_CHOICES 128 /* the JavaScript client throws above that */
#define SL_MAX_TOP 20
#define SL_MAX_STOP 64
#define SL_MAX_STOP_BYTES 4096
#define SL_MAX_PROMPTS 4096
#define SL_MAX_BAD_WORDS 1024
#define SL_MAX_REQUEST_ID 128 /* bytes */

enum sl_request_kind { SL_REQUEST_COMPLETION = 1, SL_REQUEST_CHAT = 2 };

struct sl_opt_int {
    bool has;
    int64_t v;
};

struct sl_opt_num {
    bool has;
    double v;
};

struct sl_opt_bool {
    bool has, v;
};

/* One prompt of a completion: text, or ids. Borrowed from root. */
struct sl_prompt {
    const char *text; /* NULL: ids */
    size_t len;
    const json_t *ids;
};

struct sl_request {
    enum sl_request_kind kind;
    json_t *root; /* everything below borrows from it */

    const char *model; /* NULL: the primary one */
    const char *request_id;
    struct sl_opt_int max_tokens, max_completion_tokens, min_tokens, n,
        best_of, seed, top_k, top_logprobs, priority, truncate_prompt_tokens,
        prompt_logprobs, thinking_token_budget;
    struct sl_opt_num temperature, top_p, min_p, presence_penalty,
        frequency_penalty, repetition_penalty, length_penalty,
        timeout, deadline_ms; /* seconds, milliseconds */
    struct sl_opt_bool stream, include_usage, continuous_usage, ignore_eos,
        echo, chat_logprobs, return_token_ids, token_id_strings,
        skip_special_tokens, spaces_between_special, add_special_tokens,
        use_beam_search, include_reasoning, enable_thinking,
        add_generation_prompt, continue_final_message, parallel_tool_calls,
        cache_prompt, include_stop, truncate_right;
    struct sl_opt_int logprobs; /* of a completion */

    const char *stop[SL_MAX_STOP];
    uint32_t n_stop;
    int32_t *stop_ids; /* owned */
    uint32_t n_stop_ids;
    int32_t *allowed_ids; /* owned; NULL: all */
    uint32_t n_allowed;
    const char **bad_words; /* owned */
    uint32_t n_bad_words;
    const char *cache_salt;
    int32_t *bias_ids; /* owned, with bias */
    float *bias;
    uint32_t n_bias;

    struct sl_prompt *prompt; /* owned; of a completion */
    uint32_t n_prompt;
    bool many_prompts; /* they came in an array */

    json_t *messages, *tools; /* of a chat */
    struct sl_form form;      /* of the answer */
    const char *effort;       /* reasoning_effort, or NULL */
    json_t *kwargs;           /* owned: all that the template is given */
};

/* Takes `root`, also on failure; sl_request_deinit ends it. -1 fills `r`. */
int sl_request_init(struct sl_request *q, enum sl_request_kind kind,
                    json_t *root, struct sl_refusal *r);
void sl_request_deinit(struct sl_request *q);

/* The lenient readers, for other bodies; path names the field. */
int sl_read_int(int64_t *out, const json_t *v, int64_t lo, int64_t hi,
                const char *path, struct sl_refusal *r);
int sl_read_ids(int32_t **out, uint32_t *n, const json_t *v, const char *path,
                struct sl_refusal *r);

#endif
