/* server/task.h - one completion request while it is answered, and the server
 * it belongs to
 *
 *     PREPARE (text worker)  JSON, fields, template, ids, fit, submit
 *        |-> refused: the error is sent, DISPOSE
 *     LIVE (loop)            pieces become events, or gather for one reply
 *        |-> all choices ended, or the client left
 *     DISPOSE (reaper)       generations are closed, which may wait for a step
 *
 * A worker that prepares owns the task but for `cancel`; otherwise the loop
 * does. A task may have a deadline, from when its request was whole: then it is
 * ended with an error, which a worker that prepares does not delay for long.
 */
#ifndef SL_SERVER_TASK_H
#define SL_SERVER_TASK_H

#include <stdatomic.h>

#include "server/http.h"
#include "server/metrics.h"
#include "server/pulse.h"
#include "server/request.h"
#include "server/server.h"
#include "server/work.h"
#include "text/align.h"

enum sl_server_status { SL_LOADING, SL_READY, SL_DRAINING, SL_FAILED };

struct sl_task;

struct sl_server {
    struct sl_server_opts opts;
    struct event_base *base;
    struct sl_http *http;
    struct sl_work *work, *reaper;
    struct sl_engine *engine; /* NULL while loading */
    struct sl_engine_info info;
    enum sl_server_status status;
    int64_t created; /* seconds since 1970 */
    uint64_t start_ns;
    struct sl_task *live;     /* tasks with generations */
    atomic_uint n_place;      /* sequences asked for and not yet ended */
    atomic_uint n_reading;    /* requests whose text is read: how many sequences
                                 one asks for is not known yet */
    atomic_ullong n_queued; /* tokens of prompts whose answers have not begun,
                               where there is a limit */
    uint32_t max_token;       /* bytes of the longest token */
    int32_t tag[SL_ALIGN_TAGS]; /* ids; -1: none */
    uint32_t n_task;          /* in any state, until disposed */
    uint32_t max_seqs;        /* that run at once */
    struct sl_trust trust;
    struct sl_metrics metrics;
    struct sl_pulse pulse;
    uint64_t n_out; /* tokens that came */
    struct sl_buf scratch; /* events on their way */
};

/* Of a choice's log-probabilities: tokens, values, alternatives, offsets; or,
 * of a chat, the entries. */
#define SL_N_LP 4

/* What log-probabilities say of tokens, and their ids, until the event that has
 * their text; records of answer.c. */
struct sl_notes {
    struct sl_buf buf;
    size_t size;          /* of a record; 0: nobody asks for any */
    size_t i, n_ready, n; /* the oldest; those whose text came; all */
    /* Of a completion: its text behind that of the tokens that were told, and
     * the bytes of all of it and of theirs. */
    struct sl_buf text;
    uint64_t n_said, n_told;
};

struct sl_choice {
    struct sl_task *t;
    struct sl_gen *gen;
    uint32_t index, prompt;
    bool ended; /* the engine runs it no more */
    bool began, spoke; /* something came; the role, or a first text, was sent */
    bool cut; /* the only call that was asked for is complete */
    const char *finish; /* the reason, when all of it came */
    struct sl_buf stop_reason; /* JSON, "null" */
    struct sl_buf text, reasoning, calls; /* of a whole reply; of a stream the
                                             text that is not yet sent */
    struct sl_buf lp[SL_N_LP], ids;
    uint32_t n_calls, n_text_off;
    uint32_t n_out, n_cached, n_reason;
    uint64_t last_ns; /* the newest piece with tokens */
    struct sl_parse *parse; /* of a chat, */
    struct sl_align align;  /* and the text on its way there */
    struct sl_notes notes;  /* tokens whose text is not yet said */
};

struct sl_ids_of { /* one prompt as ids */
    int32_t *p;
    size_t n;
};

struct sl_task {
    struct sl_task *prev, *next; /* in s->live */
    struct sl_job job;
    struct sl_server *s;
    struct sl_exchange *x; /* NULL when the client has left */
    enum sl_request_kind kind;
    atomic_bool cancel; /* loop sets, the worker that prepares reads */
    bool is_live, failed;
    bool is_reading; /* counted in that of the server */
    uint32_t n_reserved; /* sequences */
    uint64_t n_queued; /* its part of that of the server */
    int64_t created;
    uint64_t client; /* who asks, for a fair share */
    char id[SL_HTTP_ID_LEN + 16];
    struct sl_buf body;
    struct sl_request q;
    bool parsed; /* q is to be ended */
    struct sl_refusal refusal;
    struct sl_ids_of *prompt; /* [n_prompt] */
    uint32_t n_prompt;
    char **echo; /* [n_prompt] text of the prompts, when asked for */
    size_t *echo_len;
    enum sl_parse_start start; /* of a chat */
    struct sl_form_shape shape; /* of the answers */
    struct sl_choice *choice;  /* [n_choice] */
    uint32_t n_choice, n_ended;
    uint64_t first_ns; /* the first piece */
    struct event *late; /* the client's deadline, or NULL */
    struct event *wait; /* how long it may wait for its turn, or NULL */
};

/* A request for a completion or a chat; the exchange is answered later. */
void sl_task_start(struct sl_server *s, struct sl_exchange *x,
                   enum sl_request_kind kind);

void sl_task_prepare(struct sl_job *j); /* text worker (prepare.c) */

/* How many sequences t asks for is known: take n places for them. False when
 * fewer are free; none is taken then. What others may ask for that are still
 * read counts for nothing: else two would refuse each other for places that
 * neither has. Text worker. */
bool sl_task_reserve(struct sl_task *t, uint32_t n);
/* The same for the tokens of t's prompts; they are given back by the first token
 * of the answer, or the end. Text worker. */
bool sl_task_queue_tokens(struct sl_task *t);
extern const char sl_queue_is_full[]; /* what a client is told */
/* A refusal for want of a place says when there may be one: by counters, which
 * no worker knows. Loop. */
void sl_task_tell_when(const struct sl_server *s, struct sl_refusal *r);

/* Text may be read, which ends with sl_task_read: `size` zero bytes for its
 * state, *out, which end with sl_mem_free; counted in n_task. False when x has
 * had its refusal. Loop. */
bool sl_task_admit(void *out, size_t size, struct sl_server *s,
                   struct sl_exchange *x);
void sl_task_read(struct sl_server *s); /* any thread */

/* Of sequences and of what is read: all that there is to do. Any thread. */
uint32_t sl_task_n_place(const struct sl_server *s);

/* A text that cannot fit whatever its tokens are is refused before it is made
 * into tokens, which takes long. */
int sl_check_text(const struct sl_server *s, size_t len, int64_t n_out,
                  const char *param, struct sl_refusal *r);

/* The text of a conversation, to be ended with sl_free; on failure `param` is
 * the field that is to blame. Any thread. */
int sl_render_chat(char **text, size_t *len, const struct sl_server *s,
                   const struct sl_request *q, char param[128],
                   struct sl_err *err);

/* Are the prompt's own log-probabilities wanted? */
bool sl_task_scores(const struct sl_task *t);

/* The choice whose generation has them: the first of the same prompt. */
struct sl_choice *sl_task_scorer(const struct sl_choice *c);

/* Is there something that the engine should be doing? */
bool sl_task_has_work(const struct sl_server *s);

/* Look at every choice: has its generation something new? */
void sl_task_poll_all(struct sl_server *s);

/* The server stops: what has not begun is refused, what runs goes on. */
void sl_task_refuse_waiting(struct sl_server *s);

/* Drain time is over: what still runs is ended with an error. */
void sl_task_abort_all(struct sl_server *s);

/* ---- what is said (answer.c); loop ---- */

/* A piece of c has come: write its events, or gather it. */
void sl_answer_piece(struct sl_choice *c, const struct sl_piece *p);
void sl_answer_error(struct sl_task *t, int status, const char *code,
                     const char *msg); /* of a reply or a stream */
void sl_answer_end(struct sl_task *t); /* all choices have ended */

/* ---- small endpoints (simple.c) ---- */

void sl_simple_models(struct sl_server *s, struct sl_exchange *x);
void sl_simple_tokenizer_info(struct sl_server *s, struct sl_exchange *x);

/* GET / (info.c); the paths that there are. */
void sl_info_reply(struct sl_server *s, struct sl_exchange *x,
                   const char *const *endpoint, size_t n_endpoint);

/* POST bodies: made by a text worker, sent by the loop. */
enum sl_simple { SL_SIMPLE_TOKENIZE, SL_SIMPLE_DETOKENIZE };
void sl_simple_start(struct sl_server *s, struct sl_exchange *x,
                     enum sl_simple what);

/* Is `name` served? The body's model, or NULL. */
int sl_check_model(const struct sl_server *s, const char *name,
                   struct sl_refusal *r);

#endif
