/* base/option.h - the one table of options
 *
 * Every option a user may set is one line of SL_OPTIONS. From it come the long
 * flags, the SLUICE_... variables, the keys of a profile (the flag with
 * underscores), the ranges, `--help` and the manual pages.
 *
 *     struct sl_opts o;
 *     sl_opts_init(&o, SL_VERB_RUN);
 *     rc = sl_opts_line(&o, argc, argv, &err);
 *     if (!rc)
 *         rc = sl_opts_env(&o, environ, &err);
 *     if (sl_opts_has(&o, SL_OPT_SEED))
 *         seed = o.value[SL_OPT_SEED].i;
 *
 * Each source has a rank (command line > environment > profile > default), so
 * the order of the calls does not matter. Strings are borrowed from the source
 * they came from.
 *
 * An option that the verb does not know is refused, with the nearest name; so
 * is a value out of range. Nothing is accepted and then ignored: a choice that
 * asks for what Sluice always does is in the table as the only choice.
 */
#ifndef SL_BASE_OPTION_H
#define SL_BASE_OPTION_H

#include "base/buf.h"
#include "base/json.h"

enum sl_verb {
    SL_VERB_RUN = 1 << 0,
    SL_VERB_INFO = 1 << 1,
    SL_VERB_TOKENIZE = 1 << 2,
    SL_VERB_DOCTOR = 1 << 3,
    SL_VERB_VERSION = 1 << 4,
    SL_VERB_EVAL = 1 << 5,
    SL_VERB_SERVE = 1 << 6,
    SL_VERB_BENCH = 1 << 7,
    SL_VERB_CONVERT = 1 << 8,
    SL_VERB_PULL = 1 << 16,
    SL_VERB_LIST = 1 << 17,
    SL_VERB_RM = 1 << 18,
    SL_VERB_GC = 1 << 19,
    SL_VERB_VERIFY = 1 << 20,
    SL_VERB_PROFILES = 1 << 21,
    SL_VERB_INIT = 1 << 22,
    SL_VERB_BUILD = 1 << 23,
    SL_VERB_SEARCH = 1 << 24,
    SL_VERB_LOGIN = 1 << 25,
    SL_VERB_LOGOUT = 1 << 26,
    SL_VERB_PS = 1 << 27,
    SL_VERB_STOP = 1 << 28,
    SL_VERB_LOGS = 1 << 29,
    SL_VERB_PUSH = 1 << 30,
};

enum sl_opt_type {
    SL_VAL_BOOL,   /* --x, --no-x */
    SL_VAL_INT,    /* a whole number */
    SL_VAL_COUNT,  /* the same; 32k is 32,000 and 32K is 32,768 */
    SL_VAL_FLOAT,  /* a decimal number */
    SL_VAL_CHOICE, /* one word of `arg`; i is its index */
    SL_VAL_TEXT,
    SL_VAL_TEXTS, /* may be repeated; see sl_opts.list */
};

/* Verbs, in groups. */
#define SL_OPT_V_ENGINE (SL_VERB_RUN | SL_VERB_EVAL | SL_VERB_SERVE)
#define SL_OPT_V_MODEL (SL_OPT_V_ENGINE | SL_VERB_BENCH)
#define SL_OPT_V_FILES (SL_VERB_CONVERT | SL_VERB_VERIFY) /* read them whole */
#define SL_OPT_V_JSON                                                          \
    (SL_VERB_RUN | SL_VERB_INFO | SL_VERB_TOKENIZE | SL_VERB_DOCTOR |          \
     SL_VERB_VERSION | SL_VERB_EVAL | SL_VERB_BENCH | SL_VERB_PULL |           \
     SL_VERB_LIST | SL_VERB_PROFILES | SL_VERB_CONVERT | SL_VERB_SEARCH |      \
     SL_VERB_BUILD | SL_VERB_PS | SL_VERB_PUSH)
#define SL_OPT_V_STORE                                                         \
    (SL_VERB_PULL | SL_VERB_LIST | SL_VERB_RM | SL_VERB_GC | SL_VERB_VERIFY |  \
     SL_VERB_PROFILES | SL_VERB_INIT | SL_VERB_BUILD | SL_VERB_SEARCH |        \
     SL_VERB_LOGIN | SL_VERB_LOGOUT | SL_VERB_PS | SL_VERB_STOP |              \
     SL_VERB_LOGS | SL_VERB_PUSH)
#define SL_OPT_V_HUB                                                           \
    (SL_VERB_RUN | SL_VERB_INFO | SL_VERB_TOKENIZE | SL_VERB_SERVE |           \
     SL_VERB_BENCH | SL_VERB_DOCTOR | SL_OPT_V_STORE)
#define SL_OPT_V_ALL (SL_OPT_V_JSON | SL_OPT_V_HUB)
#define SL_OPT_V_NAMED                                                         \
    (SL_VERB_RUN | SL_VERB_INFO | SL_VERB_TOKENIZE | SL_VERB_EVAL |           \
     SL_VERB_SERVE | SL_VERB_BENCH | SL_VERB_INIT)
#define SL_OPT_V_LOG                                                           \
    (SL_VERB_RUN | SL_VERB_INFO | SL_VERB_TOKENIZE | SL_VERB_EVAL |           \
     SL_VERB_SERVE | SL_VERB_BENCH | SL_VERB_CONVERT)

/* id, type, verbs, flag, other spellings, argument or choices, least, most,
 * default as help shows it, what it does.
 *
 * A choice is "a|b|other=a": `other` is another spelling of a, and the first
 * word is the default. Other spellings of flags are vLLM's and llama-server's;
 * one that is written --[no-]x takes no value: it says on or off.
 * `least` and `most` bound numbers; those of samplers are vLLM's. */
#define SL_OPTIONS(X)                                                          \
    X(MODEL, TEXT, SL_OPT_V_NAMED, "model",                                    \
      "-m", "MODEL", 0, 0, "",                                                 \
      "The model, when it is not the first argument.")                         \
    X(THREADS, INT, SL_OPT_V_MODEL | SL_OPT_V_FILES, "threads", "-t", "N", 0,  \
      1024, "0",                                                               \
      "Threads that compute; 0 is one per physical core.")                     \
    X(PIN, BOOL, SL_OPT_V_MODEL | SL_OPT_V_FILES, "pin", "", "", 0, 0, "on",   \
      "Bind each computing thread to a core of its own.")                      \
    X(CPU_MASK, CHOICE, SL_OPT_V_MODEL, "cpu-mask", "",                        \
      "all|ref|avx2|avx-vnni|avx512-vnni|neon|neon-dotprod|neon-i8mm", 0, 0,   \
      "all",                                                                   \
      "The highest instruction set that may be used; ref is the portable C "   \
      "code. The answer is the same, to the bit.")                             \
    X(MAX_MODEL_LEN, COUNT, SL_OPT_V_ENGINE | SL_VERB_BENCH, "max-model-len", "-c --ctx-size", \
      "N", 0, 1 << 24, "0",                                                    \
      "Tokens of one sequence, prompt and answer together; 0 is what the "     \
      "model was made for.")                                                   \
    X(MAX_NUM_SEQS, INT, SL_OPT_V_ENGINE, "max-num-seqs", "-np --parallel",    \
      "N", 1, 4096, "1", "Sequences that run at the same "       \
      "time; serve takes 32 unless told, and shares them alike between "      \
      "clients: keys where there are several, or else addresses.")             \
    X(MAX_NUM_BATCHED_TOKENS, COUNT, SL_OPT_V_ENGINE,                          \
      "max-num-batched-tokens", "", "N", 1, 1 << 20, "512",                    \
      "Rows of one step: how much of a prompt is read at once.")               \
    X(KV_POOL_TOKENS, COUNT, SL_OPT_V_ENGINE, "kv-pool-tokens", "", "N", 0,    \
      (double)(1ll << 40), "0",                                                \
      "Tokens of all sequences that the key/value pool can hold; 0 is what "   \
      "the other limits need.")                                                \
    X(BLOCK_SIZE, CHOICE, SL_OPT_V_ENGINE, "block-size", "", "64", 0, 0, "64", \
      "Tokens of one key/value page. It is always 64.")                        \
    X(KV_DTYPE, CHOICE, SL_OPT_V_MODEL, "kv-dtype", "--kv-cache-dtype",       \
      "bf16|fp32|bfp8|auto=bf16|bfloat16=bf16|float32=fp32", 0, 0, "bf16",     \
      "Type of the stored keys and values; bfp8 takes half the memory of "     \
      "bf16 and loses a little.")                                              \
    X(DTYPE, CHOICE, SL_OPT_V_MODEL | SL_VERB_CONVERT, "dtype", "",                             \
      "auto|bfloat16|q8|q4|bfp4", 0, 0, "auto",                                \
      "Type of the weights: auto takes each tensor as it is stored; bfloat16 " \
      "refuses a model that is not stored so; the others quantise while "      \
      "loading.")                                                              \
    X(WEIGHTS_FORM, CHOICE, SL_OPT_V_ENGINE, "weights", "", "map|copy", 0, 0,       \
      "map",                                                                   \
      "map packs the weights once into a file that is kept, and maps it from " \
      "then on; copy has them in memory of their own.")                        \
    X(PACKED_DIR, TEXT, SL_OPT_V_ENGINE | SL_VERB_CONVERT | SL_VERB_GC,        \
      "packed-dir", "", "DIR", 0, 0, "the user's cache",                       \
      "Folder that keeps packed weights; otherwise sluice below "              \
      "XDG_CACHE_HOME or ~/.cache.")                                           \
    X(LOAD_FORMAT, CHOICE, SL_OPT_V_MODEL, "load-format", "", "auto|dummy",   \
      0, 0, "auto",                                                            \
      "dummy makes random weights from config.json alone, for measurements.")  \
    X(PREFIX_CACHE, CHOICE, SL_OPT_V_ENGINE, "prefix-cache",                  \
      "--[no-]enable-prefix-caching", "on|off", 0, 0, "on",                                                                 \
      "Keep what was read, so that a prompt that begins like an earlier one "  \
      "is not read again. The answer is the same, to the bit.")                \
    X(PREFIX_CACHE_GIB, FLOAT, SL_OPT_V_ENGINE, "prefix-cache-gib", "", "X",   \
      0, 1 << 20, "0",                                                         \
      "Memory for the states of kept prefixes; 0 is a tenth of what is free.") \
    X(PREFIX_CACHE_DIR, TEXT, SL_OPT_V_ENGINE, "prefix-cache-dir", "", "DIR",  \
      0, 0, "",                                                                \
      "Write what is kept to this folder, too, so that it outlives a restart. "\
      "Several servers may share it. It holds what was said: keep it private.")\
    X(PREFIX_CACHE_DIR_GIB, FLOAT, SL_OPT_V_ENGINE, "prefix-cache-dir-gib",    \
      "", "X", 1e-6, 1 << 20, "10",                                            \
      "What that folder holds at most; what was used least lately goes first.")\
    X(SPECULATE, CHOICE, SL_OPT_V_ENGINE, "speculate", "", "all|off|greedy",   \
      0, 0, "all",                                                             \
      "Who drafts: all requests, none, or greedy ones. A draft is kept if it " \
      "is the token that would have been drawn: the answer is the same.")      \
    X(DRAFTER, CHOICE, SL_OPT_V_ENGINE | SL_VERB_BENCH, "drafter", "", "auto|mtp|ngram|dflash|none", \
      0, 0, "auto",                                                            \
      "Which drafter: the fastest as measured, the model's own head, what "    \
      "followed in the text before, a block drafter, or none.")                \
    X(DRAFT_MODEL, TEXT, SL_OPT_V_ENGINE | SL_VERB_BENCH, "draft-model", "", "DIR", 0, 0, "",  \
      "A block drafter (DFlash) made for this model; without it drafter/ in "  \
      "the model's folder is used when it is there. Of bench speculate with "  \
      "--shape and --drafter dflash it is one of random weights.")             \
    X(DRAFT_DTYPE, CHOICE, SL_OPT_V_ENGINE | SL_VERB_BENCH, "draft-dtype", "", \
      "auto|stored|q8|q4", 0, 0, "auto",                                       \
      "Type of the drafters' weights and of their copy of the output head; "   \
      "auto is q4 where they are stored in 16 or 32 bits. It changes how "     \
      "often drafts are right, never the answer.")                             \
    X(DRAFT_DEPTH, CHOICE, SL_OPT_V_ENGINE, "draft-depth", "",                 \
      "auto|1|2|3|4|5|6|7", 0, 0, "auto",                                      \
      "Tokens that are drafted at once, with --spec-ladder at most; auto goes "  \
      "by measured times and hits.")                                           \
    X(ACCEPT, CHOICE, SL_OPT_V_ENGINE, "accept", "", "exact|lenient|relaxed",  \
      0, 0, "exact",                                                           \
      "Which drafts are kept: those that would have been drawn, or more, "     \
      "which changes the distribution of sampled answers; run says by how "    \
      "much.")                                                                \
    X(LENIENCE, FLOAT, SL_OPT_V_ENGINE, "lenience", "", "X", 1e-6, 1, "1",     \
      "With --accept lenient: a draft of probability p is kept with "          \
      "probability p to the power of X; 1 is exact.")                          \
    X(RELAX_THRESHOLD, FLOAT, SL_OPT_V_ENGINE, "relax-threshold", "", "X",     \
      1e-6, 1, "0.3",                                                          \
      "With --accept relaxed: a draft is kept that is at least X times as "    \
      "likely as the likeliest token.")                                        \
    X(SPEC_LADDER, TEXT, SL_OPT_V_ENGINE, "spec-ladder", "", "LIST", 0, 0, "", \
      "Rows to verify by users in place of measured times, as users:rows by "  \
      "commas: with 1:8,4:8,8:4 up to 4 users draft 7 tokens each, up to 8 "   \
      "draft 3, more none. Who drafts may follow, as in 4:8:dflash,8:4:mtp; "  \
      "beyond --dflash-max-context another does.")                             \
    X(SPEC_DISABLE_RATIO, FLOAT, SL_OPT_V_ENGINE, "spec-disable-ratio", "",    \
      "X", 0, 100, "0.98",                                                     \
      "Drafting stops for 2048 tokens when it gave less than this part of the " \
      "plain rate; 0 is never, which is the default with a depth or a ladder.") \
    X(SPEC_LOG_ROUNDS, INT, SL_OPT_V_ENGINE, "spec-log-rounds", "", "N", 0,    \
      1 << 20, "0",                                                            \
      "Log how drafting goes every N rounds; 0 is never.")                     \
    X(DFLASH_MAX_CONTEXT, COUNT, SL_OPT_V_ENGINE, "dflash-max-context", "",    \
      "N", 0, 1 << 24, "0",                                                    \
      "Tokens of context up to which a block drafter is used; 0 is any.")      \
    X(DFLASH_HYSTERESIS, COUNT, SL_OPT_V_ENGINE, "dflash-hysteresis", "", "N", \
      0, 1 << 24, "1024",                                                      \
      "A sequence that begins closer to --dflash-max-context than this is not " \
      "drafted by a block drafter at all.")                                    \
    X(MTP_PRIME, COUNT, SL_OPT_V_ENGINE, "mtp-prime", "", "N", 0, 1 << 24,     \
      "all",                                                                   \
      "Tokens at the end of a prompt that the model's draft head sees; 0 is "  \
      "none. It changes how often drafts are right, never the answer.")        \
    X(CHAT_TEMPLATE, TEXT, SL_OPT_V_ENGINE, "chat-template", "", "FILE", 0, 0, \
      "", "A Jinja template that replaces the model's own.")                   \
    X(OVERRIDE_GENERATION_CONFIG, TEXT, SL_OPT_V_ENGINE,                       \
      "override-generation-config", "", "JSON", 0, 0, "",                      \
      "Values of sampling that replace the model's own where a request is "    \
      "silent, as in {\"temperature\": 0.6, \"top_k\": 20}.")                  \
    X(TEMPERATURE, FLOAT, SL_VERB_RUN | SL_VERB_BENCH, "temperature", "--temp", "X", 0, 2,     \
      "the model's",                                                           \
      "How far to flatten the distribution; 0 takes the most likely token.")   \
    X(TOP_P, FLOAT, SL_VERB_RUN, "top-p", "", "X", 1e-9, 1, "the model's",     \
      "Keep the most likely tokens that together have this probability.")      \
    X(TOP_K, INT, SL_VERB_RUN, "top-k", "", "N", -1, INT32_MAX, "the model's", \
      "Keep the N most likely tokens; 0 and -1 keep all.")                     \
    X(MIN_P, FLOAT, SL_VERB_RUN, "min-p", "", "X", 0, 1, "the model's",        \
      "Drop tokens less likely than X times the most likely one.")             \
    X(PRESENCE_PENALTY, FLOAT, SL_VERB_RUN, "presence-penalty", "", "X", -2,   \
      2, "0", "Taken from the logit of a token that was generated before.")    \
    X(FREQUENCY_PENALTY, FLOAT, SL_VERB_RUN, "frequency-penalty", "", "X", -2, \
      2, "0", "The same, once for each time.")                                 \
    X(REPETITION_PENALTY, FLOAT, SL_VERB_RUN, "repetition-penalty",            \
      "--repeat-penalty", "X", 1e-3, 1e3, "the model's",                       \
      "Divides the positive logits of tokens seen before, and multiplies the " \
      "negative ones.")                                                        \
    X(SEED, INT, SL_VERB_RUN | SL_VERB_BENCH, "seed", "-s", "N", 0, (double)INT64_MAX,         \
      "random", "The same seed gives the same text, on any machine.")          \
    X(MAX_TOKENS, COUNT, SL_VERB_RUN | SL_VERB_EVAL | SL_VERB_BENCH, "max-tokens", "-n --n-predict", "N", 0,  \
      1 << 24, "0",                                                            \
      "Tokens of the answer; 0 is as many as the context holds.")              \
    X(AGAINST, TEXT, SL_VERB_EVAL, "against", "", "MODEL", 0, 0, "",           \
      "The model that 'eval kl' compares with, instead of the same one with "  \
      "the weights that are stored.")                                          \
    X(CALIBRATE, TEXT, SL_VERB_CONVERT, "calibrate", "", "FILE", 0, 0, "",      \
      "A text that the model reads first: where scales are searched for (q4), " \
      "columns count as much as its inputs say.")                              \
    X(REPORT, TEXT, SL_VERB_CONVERT, "report", "", "FILE", 0, 0, "",           \
      "Tell afterwards what was lost: the error of each class of weights, and " \
      "on this text the divergence from the source's answers.")                \
    X(STOP, TEXTS, SL_VERB_RUN, "stop", "", "TEXT", 0, 0, "",                  \
      "End the answer before this text; may be given up to 16 times.")         \
    X(IGNORE_EOS, BOOL, SL_VERB_RUN | SL_VERB_BENCH, "ignore-eos", "", "", 0,  \
      0, "off",                                                                \
      "Go on past the model's end tokens, for measurements; bench speculate "  \
      "does, unless told --no-ignore-eos: then answers are as long as they "   \
      "are.")                                                                  \
    X(SYSTEM, TEXT, SL_VERB_RUN, "system", "", "TEXT", 0, 0, "",               \
      "A system message before the conversation.")                             \
    X(TOOLS, TEXT, SL_VERB_RUN, "tools", "", "FILE", 0, 0, "",                 \
      "A JSON file with an array of tools that the model may call.")           \
    X(THINK, BOOL, SL_VERB_RUN, "think", "", "", 0, 0, "the model's",          \
      "Ask the template for an answer with, or without, reasoning first.")     \
    X(RAW, BOOL, SL_VERB_RUN, "raw", "", "", 0, 0, "off",                      \
      "Complete the prompt as it is, without the chat template.")              \
    X(HOST, TEXT, SL_VERB_SERVE | SL_VERB_BENCH, "host", "", "ADDRESS", 0, 0, "127.0.0.1",     \
      "Address to listen on; 0.0.0.0 is every one of this machine.")           \
    X(PORT, INT, SL_VERB_SERVE | SL_VERB_BENCH, "port", "", "N", 0, 65535, "8000",             \
      "Port to listen on; 0 is any free one, and is printed. When it is not "   \
      "given and 8000 is taken, serve looks for one up to 8031.")                 \
    X(API_KEY, TEXTS, SL_VERB_SERVE | SL_VERB_BENCH, "api-key", "", "KEY", 0,  \
      0, "",                                                                   \
      "Key that a client must send; for several give it again, or separate "   \
      "them by commas. bench sends the last.")                                 \
    X(API_KEY_FILE, TEXT, SL_VERB_SERVE, "api-key-file", "", "FILE", 0, 0, "", \
      "More such keys, one in a line; blank lines and those with # in front "  \
      "are left out. SIGHUP reads it again.")                                  \
    X(PROTECT, CHOICE, SL_VERB_SERVE, "protect", "", "api|all", 0, 0, "api",   \
      "For what a key is needed: /v1, or also tokenize, metrics and GET /; "   \
      "health and the page are always open.")                                  \
    X(SERVED_MODEL_NAME, TEXT, SL_VERB_SERVE | SL_VERB_BENCH, "served-model-name",             \
      "-a --alias", "NAME", 0, 0, "",                                          \
      "What clients call the model; several are separated by commas, the "     \
      "first is the one in replies.")                                          \
    X(MAX_NUM_QUEUED_REQS, INT, SL_VERB_SERVE, "max-num-queued-reqs", "", "N", \
      0, 1 << 20, "2048",                                                      \
      "Sequences that may wait beside those that run; more get 503.")          \
    X(MAX_NUM_QUEUED_TOKENS, COUNT, SL_VERB_SERVE, "max-num-queued-tokens", "",  \
      "N", 0, (double)(1ll << 40), "0",                                        \
      "Tokens of prompts that may wait to be read; of what comes beyond, only " \
      "a request that would be alone is taken, more get 503. 0 is no limit.")  \
    X(DRAIN_TIMEOUT, INT, SL_VERB_SERVE, "drain-timeout", "", "SECONDS", 0,    \
      3600, "30", "How long running requests may go on after SIGTERM.")        \
    X(READY_TIMEOUT, INT, SL_VERB_SERVE, "ready-timeout", "", "SECONDS", 1,     \
      1 << 20, "14400",                                                        \
      "How long loading may take, with the packing of weights; then the "      \
      "server ends.")                                                          \
    X(REQUEST_TIMEOUT, INT, SL_VERB_SERVE, "request-timeout", "", "SECONDS", 0, \
      1 << 20, "0",                                                            \
      "How long a request may take, waiting and running; 0 is no limit.")     \
    X(QUEUE_TIMEOUT, FLOAT, SL_VERB_SERVE, "queue-timeout", "", "SECONDS", 0,    \
      1 << 20, "0",                                                            \
      "How long a request may wait for its turn; then it gets 503. 0 is no "   \
      "limit.")                                                                \
    X(SSL_CERTFILE, TEXT, SL_VERB_SERVE, "ssl-certfile", "", "FILE", 0, 0, "", \
      "PEM certificate with its chain; makes the server speak HTTPS. SIGHUP "  \
      "reads it and its key again.")                                           \
    X(SSL_KEYFILE, TEXT, SL_VERB_SERVE, "ssl-keyfile", "", "FILE", 0, 0, "",   \
      "PEM key of the certificate.")                                           \
    X(TOOL_CALL_PARSER, CHOICE, SL_VERB_SERVE, "tool-call-parser", "",         \
      "qwen3_coder|qwen3_hermes|qwen3_xml=qwen3_coder|hermes=qwen3_hermes", 0, \
      0, "qwen3_coder", "How the model writes the calls of tools.")            \
    X(REASONING_PARSER, CHOICE, SL_VERB_SERVE, "reasoning-parser", "",         \
      "qwen3", 0, 0, "qwen3", "How the model writes reasoning.")               \
    X(BACKEND, CHOICE, SL_VERB_BENCH, "backend", "",                           \
      "openai|openai-chat|vllm=openai", 0, 0, "openai",                        \
      "Of bench serve: /v1/completions, or chats.")                            \
    X(NUM_PROMPTS, INT, SL_VERB_BENCH, "num-prompts", "", "N", 1, 1 << 24,     \
      "100", "Of bench serve: requests in all.")                               \
    X(REQUEST_RATE, FLOAT, SL_VERB_BENCH, "request-rate", "", "X", 0, 1e6,     \
      "0", "Of bench serve: requests per second, in random distances; 0 sends "\
      "as soon as --max-concurrency allows.")                                  \
    X(MAX_CONCURRENCY, INT, SL_VERB_BENCH, "max-concurrency", "", "N", 0,      \
      1 << 16, "0", "Of bench serve: requests in flight at most; 0 is no limit.")\
    X(RANDOM_INPUT_LEN, INT, SL_VERB_BENCH, "random-input-len",                \
      "--input-len", "N", 1, 1 << 24, "128",                                   \
      "Of bench serve: tokens of a random prompt.")                            \
    X(RANDOM_OUTPUT_LEN, INT, SL_VERB_BENCH, "random-output-len",              \
      "--output-len", "N", 1, 1 << 24, "128",                                  \
      "Of bench serve: tokens of every answer.")                               \
    X(DATASET_PATH, TEXT, SL_VERB_BENCH, "dataset-path", "", "FILE", 0, 0, "", \
      "Of bench serve: prompts, one per line, as text or as JSON objects with "\
      "'prompt'; instead of random ones.")                                     \
    X(REPLAY, TEXT, SL_VERB_BENCH, "replay", "", "FILE", 0, 0, "",             \
      "Of bench serve: recorded turns of chats, one JSON object per line, are "\
      "sent one after the other; the report says for each how much was read "  \
      "and how much had to be. 'messages' is a whole history, 'add' what "     \
      "comes behind the last answer; 'conversation' tells several apart.")     \
    X(SYNTHETIC_ACCEPTANCE, FLOAT, SL_VERB_BENCH, "synthetic-acceptance", "",  \
      "X", 0, 1, "none",                                                     \
      "Of bench speculate: an oracle drafts in the place of the drafters, "    \
      "right with chance X, after they did their work.")                       \
    X(SHAPE, TEXT, SL_VERB_BENCH, "shape", "", "NAME", 0, 0, "",               \
      "The dimensions of a published model, such as qwen3.5-0.8b, with "       \
      "--load-format dummy.")                                                  \
    X(ROWS, TEXT, SL_VERB_BENCH, "rows", "", "LIST", 0, 0, "1,4,8,512",        \
      "Rows of a step, several by commas. Up to 8 are a draft to verify, more "\
      "are a prompt.")                                                         \
    X(DEPTH, COUNT, SL_VERB_BENCH, "depth", "", "N", 0, 1 << 24, "0",          \
      "Tokens of context that each step looks back at.")                       \
    X(SAMPLES, INT, SL_VERB_BENCH, "samples", "", "N", 1, 10000, "9",          \
      "Rounds; the median is reported.")                                       \
    X(PROFILE, TEXT,                                                           \
      SL_VERB_RUN | SL_VERB_SERVE | SL_VERB_PULL | SL_VERB_DOCTOR, "profile",  \
      "", "NAME", 0, 0, "",                                                    \
      "Which settings of a bundle to use; without it the bundle's default.")   \
    X(UPDATE, BOOL, SL_VERB_RUN | SL_VERB_SERVE, "update", "", "", 0, 0,       \
      "off", "When the hub has a newer version, fetch it first.")              \
    X(FORCE, BOOL, SL_VERB_RUN | SL_VERB_SERVE, "force", "", "", 0, 0, "off",  \
      "Start although this machine has less memory or fewer cores than the "   \
      "bundle asks for.")                                                      \
    X(DETACH, BOOL, SL_VERB_SERVE, "detach", "-d", "", 0, 0, "off",            \
      "Go on in the background when the model is ready; 'sluice logs' shows "  \
      "what it says, 'sluice stop' ends it.")                                  \
    X(PRINT, BOOL, SL_VERB_SERVE, "print", "", "", 0, 0, "off",                \
      "Say what would be served and with which options, and end; of a model "  \
      "on a hub only what describes it is fetched.")                           \
    X(EVERY, BOOL, SL_VERB_STOP, "all", "", "", 0, 0, "off",                   \
      "Every server of yours on this machine.")                                \
    X(TIMEOUT, INT, SL_VERB_STOP, "timeout", "", "SECONDS", 0, 86400,          \
      "the server's --drain-timeout and ten more",                             \
      "How long requests that run may go on.")                                 \
    X(KILL, BOOL, SL_VERB_STOP, "kill", "", "", 0, 0, "off",                   \
      "End it by force when that time is over.")                               \
    X(FOLLOW, BOOL, SL_VERB_LOGS, "follow", "-f", "", 0, 0, "off",             \
      "Go on with what is written, until the server ends.")                    \
    X(LINES, INT, SL_VERB_LOGS, "lines", "-n", "N", 1, 1 << 20, "50",          \
      "Begin with the last N lines.")                                          \
    X(WEIGHTS, BOOL, SL_VERB_RM | SL_VERB_GC | SL_VERB_VERIFY, "weights", "",  \
      "", 0, 0, "off", "Weights in the shared cache, too.")                    \
    X(OLDER_THAN, INT, SL_VERB_GC, "older-than", "", "DAYS", 0, 36500, "30",   \
      "Keep what is younger.")                                                 \
    X(PARTIALS, BOOL, SL_VERB_GC, "partials", "", "", 0, 0, "off",             \
      "Unfinished downloads of any age.")                                      \
    X(PACKED, BOOL, SL_VERB_GC, "packed", "", "", 0, 0, "off",                 \
      "Packed weights that nothing has opened for --older-than days.")         \
    X(OUT, TEXT, SL_VERB_BUILD | SL_VERB_CONVERT, "out", "-o", "PATH", 0, 0,   \
      "",                                                                      \
      "The folder of the built bundle (without it DIR-built), or the file "    \
      "that convert writes.")                                                  \
    X(LIMIT, INT, SL_VERB_SEARCH, "limit", "", "N", 1, 1000, "20",             \
      "Show at most N.")                                                       \
    X(TAG, TEXT, SL_VERB_SEARCH, "tag", "", "TAG", 0, 0, "",                   \
      "Only repositories with this tag.")                                      \
    X(ALL, BOOL, SL_VERB_LIST, "all", "", "", 0, 0, "off",                     \
      "Older versions of bundles, too.")                                       \
    X(QUICK, BOOL, SL_VERB_VERIFY, "quick", "", "", 0, 0, "off",               \
      "Compare sizes and times only.")                                         \
    X(REPAIR, BOOL, SL_VERB_VERIFY, "repair", "", "", 0, 0, "off",             \
      "Fetch again what is damaged or gone.")                                  \
    X(WITH_WEIGHTS, BOOL, SL_VERB_PULL, "with-weights", "", "", 0, 0, "off",   \
      "Fetch the weights that a bundle names, too.")                           \
    X(PIN_REVISION, BOOL, SL_VERB_PULL, "pin-revision", "", "", 0, 0, "off",   \
      "Keep this version of a bundle: 'serve' asks for no newer one, until "   \
      "--no-pin-revision.")                                                    \
    X(PUBLIC, BOOL, SL_VERB_PUSH, "public", "", "", 0, 0, "off",               \
      "Everybody may see a repository that is made; one that is there stays "  \
      "as it is.")                                                             \
    X(BRANCH, TEXT, SL_VERB_PUSH, "branch", "", "NAME", 0, 0, "main",          \
      "The branch that gets the commit.")                                      \
    X(EXPECT_PARENT, TEXT, SL_VERB_PUSH, "expect-parent", "", "REVISION", 0,   \
      0, "", "Push only when the branch is at this commit.")                   \
    X(DRY_RUN, BOOL, SL_VERB_PULL | SL_VERB_RM | SL_VERB_GC | SL_VERB_PUSH, "dry-run", "", "", 0, 0, "off",             \
      "Say what would be done, and do nothing.")                               \
    X(OFFLINE, BOOL, SL_OPT_V_HUB, "offline", "", "", 0, 0, "off",             \
      "Open no connection to the hub; use what is on this machine.")           \
    X(CACHE_DIR, TEXT, SL_OPT_V_HUB, "cache-dir", "", "DIR", 0, 0,             \
      "", "Where files of the hub are kept; without it HF_HUB_CACHE and the "  \
      "other variables of the hub's own client decide.")                       \
    X(TOKEN_FILE, TEXT, SL_OPT_V_HUB, "token-file", "", "FILE", 0, 0, "",      \
      "A file with the hub's token; without it HF_TOKEN, or the file of the "  \
      "hub's own client.")                                                     \
    X(SPECIAL, BOOL, SL_VERB_TOKENIZE, "special", "", "", 0, 0, "on",          \
      "Recognise special tokens in the text.")                                 \
    X(COUNT, BOOL, SL_VERB_TOKENIZE, "count", "", "", 0, 0, "off",             \
      "Print only the number of tokens.")                                      \
    X(JSON, BOOL, SL_OPT_V_JSON, "json", "", "", 0, 0, "off",                  \
      "Print one JSON object instead of text.")                                \
    X(LOG_LEVEL, CHOICE, SL_OPT_V_LOG, "log-level", "",                        \
      "warn|debug|info|error", 0, 0, "warn",                                   \
      "The least important events to print on standard error.")                \
    X(HELP, BOOL, SL_OPT_V_ALL, "help", "-h", "", 0, 0, "off",                \
      "Print this and end.")

enum sl_opt_id {
#define X(id, ...) SL_OPT_##id,
    SL_OPTIONS(X)
#undef X
        SL_N_OPT
};

struct sl_opt {
    const char *name; /* long flag without dashes */
    const char *also; /* other spellings with dashes, separated by a space */
    const char *arg;  /* what stands for the value in help, or the choices */
    const char *def;  /* default, as help shows it */
    const char *help;
    enum sl_opt_type type;
    uint32_t verbs; /* enum sl_verb, or-ed */
    double lo, hi;
};

const struct sl_opt *sl_opt_get(enum sl_opt_id id);

/* Where a value came from, by rising rank. */
enum sl_opt_from {
    SL_FROM_DEFAULT,
    SL_FROM_PROFILE,
    SL_FROM_ENV,
    SL_FROM_LINE,
};

struct sl_opt_value {
    enum sl_opt_from from;
    int64_t i;     /* BOOL, INT, COUNT; CHOICE: index of the word */
    double f;      /* FLOAT */
    const char *s; /* TEXT, the last of TEXTS, else NULL; borrowed */
};

#define SL_OPT_MAX_LIST 16 /* values of an option that may be repeated */
#define SL_OPT_MAX_ARG 64  /* arguments that are no options */

struct sl_opts {
    enum sl_verb verb;
    struct sl_opt_value value[SL_N_OPT];
    const char *list[SL_OPT_MAX_LIST]; /* of the verb's one option of TEXTS */
    uint32_t n_list;
    const char *arg[SL_OPT_MAX_ARG]; /* what is no option, in order */
    uint32_t n_arg;
};

/* Defaults that help shows as a word ("the model's") leave `from` at
 * SL_FROM_DEFAULT and the value at 0; ask sl_opts_has. */
void sl_opts_init(struct sl_opts *o, enum sl_verb verb);

/* The arguments behind the verb. SL_EARG names the argument and the remedy. */
int sl_opts_line(struct sl_opts *o, int argc, char *const *argv,
                 struct sl_err *err);

/* SLUICE_... variables of this verb's options out of `env`, an array that ends
 * with NULL. Empty ones count as unset; those of other verbs are left alone.
 * One that names no option at all is refused like an unknown flag. */
int sl_opts_env(struct sl_opts *o, char *const *env, struct sl_err *err);

/* The keys of a profile; must live as long as `o`. */
int sl_opts_profile(struct sl_opts *o, const json_t *profile,
                    struct sl_err *err);

/* The option of this verb that a profile's key names, or -1. */
int sl_opt_find(enum sl_verb verb, const char *key);

/* Was it set by anybody? */
bool sl_opts_has(const struct sl_opts *o, enum sl_opt_id id);

/* Does the choice have a single word: what Sluice always does? */
bool sl_opt_is_always(enum sl_opt_id id);

/* "SLUICE_MAX_MODEL_LEN". out has room for SL_OPT_ENV_LEN bytes. */
#define SL_OPT_ENV_LEN 64
void sl_opt_env_name(char *out, enum sl_opt_id id);

/* The options of a verb, as `--help` shows them or as a manual page does. */
void sl_opts_help(struct sl_buf *b, enum sl_verb verb);
void sl_opts_man(struct sl_buf *b, enum sl_verb verb);

#endif
