#ifndef HADAL_H
#define HADAL_H

/* hadal.h: DeepSeek-V4 inference from four-bit checkpoints.
 *
 * One engine is one loaded model; one session is one sequence with its own cache.
 * An engine and a tokenizer may be used from several threads, a session or a parser
 * from one at a time; a thread that evaluates shares the work and needs 1 MiB of stack.
 * No call ends the process or prints: messages go to hd_options.log, failures to the
 * hd_error that the caller passes (NULL is allowed everywhere).  After a failure the
 * out parameters are untouched unless said otherwise.  Text is UTF-8 with an explicit
 * length in bytes; token ids are int32_t.                                            */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ------------------------------------------------------------------- */

typedef enum hd_status {
    HD_OK = 0,
    HD_ERR_INVALID,     /* the caller broke the contract or gave an unusable option   */
    HD_ERR_IO,          /* the system refused to open, read, map or write             */
    HD_ERR_FORMAT,      /* a file or a request is malformed or contradicts itself     */
    HD_ERR_UNSUPPORTED, /* well formed, but not something this build runs             */
    HD_ERR_MEMORY,      /* an allocation failed                                       */
    HD_ERR_LIMIT,       /* a capacity is used up: context, sessions, caller's buffer  */
    HD_ERR_NUMERIC,     /* NaN or infinity where a number is needed                   */
    HD_ERR_CANCELLED,   /* a callback asked to stop                                   */
    HD_ERR_DEVICE       /* the accelerator failed; the engine is dead                 */
} hd_status;

typedef struct hd_error {
    hd_status code;         /* HD_OK when unset                                       */
    int64_t   where;        /* byte offset in the file or text; -1 when there is none */
    char      message[512]; /* one line, no newline: what, which tensor, found, wanted */
} hd_error;

/* A name such as "format" for messages; never NULL. */
const char *hd_status_name(hd_status s);

typedef enum hd_log_level { HD_LOG_WARNING, HD_LOG_INFO, HD_LOG_DEBUG } hd_log_level;
typedef void hd_log_fn(void *user, hd_log_level level, const char *line);
/* Called between 0 and a few hundred times during long work; `done` rises to `total`. */
typedef void hd_progress_fn(void *user, const char *what, int64_t done, int64_t total);

/* ---- tokenizer ------------------------------------------------------------------ */

typedef struct hd_tokenizer hd_tokenizer;

/* Reads `path`, a tokenizer.json or a folder that holds one.
 * owns     *out is the caller's, closed by hd_tokenizer_close (NULL is fine)
 * returns  HD_ERR_IO, HD_ERR_FORMAT, HD_ERR_UNSUPPORTED (another tokenizer's rules) */
hd_status hd_tokenizer_open(hd_tokenizer **out, const char *path, hd_error *err);
void      hd_tokenizer_close(hd_tokenizer *t);
int32_t   hd_tokenizer_vocab(const hd_tokenizer *t); /* largest id + 1 */

/* Text to ids.  `control` true: the spellings of added tokens become these tokens, as
 * Hugging Face does; false: they are ordinary text, which is what user text must be.
 * ids      [cap] caller's; *n is the count, also when HD_ERR_LIMIT says cap < *n;
 *          cap = text_bytes always suffices                                           */
hd_status hd_tokenizer_encode(const hd_tokenizer *t, const char *text, size_t text_bytes,
                              bool control, int32_t *ids, int32_t cap, int32_t *n, hd_error *err);

/* The bytes of one token, not always valid UTF-8 alone; NULL for an unknown id.
 * Borrowed from the tokenizer. */
const char *hd_tokenizer_bytes(const hd_tokenizer *t, int32_t id, size_t *bytes);
/* The id of an added (control) token by its exact spelling, -1 when there is none. */
int32_t hd_tokenizer_control_id(const hd_tokenizer *t, const char *text, size_t text_bytes);
bool    hd_tokenizer_is_control(const hd_tokenizer *t, int32_t id);

/* Bytes to whole UTF-8 characters: holds back an incomplete tail until it is complete
 * and turns what cannot become a character into U+FFFD.  Zero-initialise before use.   */
typedef struct hd_utf8_stream {
    unsigned char held[4];
    int32_t       n_held;
} hd_utf8_stream;
/* Writes at most 3 * (bytes + 3) bytes to out; returns how many. */
size_t hd_utf8_push(hd_utf8_stream *s, const char *in, size_t bytes, char *out);
/* The end of the text: writes U+FFFD for what is still held; out has room for 9 bytes.  */
size_t hd_utf8_flush(hd_utf8_stream *s, char *out);

/* ---- prompts -------------------------------------------------------------------- */

/* How a model wants its prompts.  GA and PREVIEW are written as the encoders published with the
 * checkpoints write them; their words for efforts differ.  GA_API and V41_API are written as
 * DeepSeek's service writes Chat Completions requests for V4 GA and for V4.1. */
typedef enum hd_dialect {
    HD_DIALECT_GA,
    HD_DIALECT_PREVIEW,
    HD_DIALECT_GA_API,
    HD_DIALECT_V41_API
} hd_dialect;

typedef struct hd_span {
    size_t start, end; /* byte range [start, end) */
} hd_span;

typedef enum hd_parse_start {
    HD_START_REASONING, /* the prompt ended with <think>          */
    HD_START_CONTENT,   /* the prompt ended with </think>         */
    HD_START_REASONING_CONTINUATION,
    HD_START_CONTENT_CONTINUATION,
    HD_START_TOOL_CALLS /* the prompt ended with an opened block  */
} hd_parse_start;

/* A rendered prompt.  The ranges in `control` are control tokens that the template wrote;
 * everything between them is plain text, whatever it spells. */
typedef struct hd_prompt {
    char          *text; /* owned; ends with a NUL that text_bytes does not count */
    size_t         text_bytes;
    hd_span       *control; /* [n_control] owned, ascending */
    size_t         n_control;
    hd_parse_start start;     /* what the parser of the answer is to be told: where it begins */
    bool           has_tools; /* and whether tools are offered */
} hd_prompt;

/* Renders the arguments of the model's own encode_messages: a JSON object with `messages`
 * and optionally `thinking_mode`, `drop_thinking`, `reasoning_effort`, `context`,
 * `add_default_bos_token`.  Zero-initialised *out; release with hd_prompt_free.
 * returns  HD_ERR_FORMAT with the path of the offending message; HD_ERR_INVALID for a dialect
 *          of the service, which has no such function                                     */
hd_status hd_prompt_render(hd_prompt *out, const char *json, size_t json_bytes, hd_dialect dialect,
                           hd_error *err);

typedef enum hd_think {
    HD_THINK_OFF,
    HD_THINK_LOW,
    HD_THINK_HIGH,
    HD_THINK_MAX,
    HD_THINK_ASKED /* as `thinking` and `reasoning_effort` of the request say; else high */
} hd_think;

/* Renders a Chat Completions request: an object with `messages` and optionally `tools`,
 * `tool_choice`, `response_format`, `thinking`, `reasoning_effort`; other members are not
 * looked at.  A last assistant message with `prefix` true is continued, as with
 * `continue_final_message` true beside `messages`; else a generation prompt ends the text.
 * GA_API and V41_API refuse what the service refuses; GA and PREVIEW take what can be
 * understood: a bare list of messages, `developer` for `system`, missing content, arguments
 * that are an object, calls without results.
 * returns  HD_ERR_FORMAT with the path of the offending value; HD_ERR_UNSUPPORTED          */
hd_status hd_prompt_chat(hd_prompt *out, const char *json, size_t json_bytes, hd_dialect dialect,
                         hd_think think, hd_error *err);
void      hd_prompt_free(hd_prompt *p);

/* Prompt to ids: control ranges become their tokens, the text between is encoded plain.
 * ids, cap, n as in hd_tokenizer_encode. */
hd_status hd_prompt_encode(const hd_prompt *p, const hd_tokenizer *t, int32_t *ids, int32_t cap,
                           int32_t *n, hd_error *err);

/* ---- output parser ---------------------------------------------------------------- */

typedef enum hd_parse_kind {
    HD_PARSE_REASONING,
    HD_PARSE_CONTENT,
    HD_PARSE_CALL,
    HD_PARSE_UNPARSED
} hd_parse_kind;

typedef struct hd_parse_event {
    hd_parse_kind kind;
    const char   *text; /* REASONING, CONTENT, UNPARSED: the next bytes; CALL: the JSON arguments */
    size_t        text_bytes;
    const char   *name; /* CALL: function name */
    size_t        name_bytes;
    int32_t       index; /* CALL: 0, 1, ... over the whole answer */
} hd_parse_event;

/* Pointers in the event live until the callback returns. */
typedef void hd_parse_fn(void *user, const hd_parse_event *e);

typedef enum hd_finish {
    HD_FINISH_NONE,
    HD_FINISH_STOP,
    HD_FINISH_LENGTH,
    HD_FINISH_TOOL_CALLS
} hd_finish;
const char *hd_finish_name(hd_finish f); /* "stop", "length", "tool_calls" */

typedef struct hd_parser_options {
    hd_parse_start     start;
    bool               has_tools; /* false: DSML markup is text                          */
    const char *const *stop;      /* [n_stop] stop strings of the answer, or NULL; copied */
    int32_t            n_stop;
    hd_parse_fn       *on_event;
    void              *user;
} hd_parser_options;

typedef struct hd_parser hd_parser;
hd_status hd_parser_open(hd_parser **out, const hd_parser_options *opt, hd_error *err);
void      hd_parser_close(hd_parser *p);
/* Feeds bytes in which the spelling of a control token is that token (recorded text). */
hd_status hd_parser_push_text(hd_parser *p, const char *text, size_t bytes, hd_error *err);
/* Feeds one generated token: `control` says whether these bytes are a control token; the
 * same bytes spelled by ordinary tokens are text that the model quotes.                   */
hd_status hd_parser_push_token(hd_parser *p, const char *text, size_t bytes, bool control,
                               hd_error *err);
/* True once EOS or a stop string was met: what follows is ignored. */
bool hd_parser_is_done(const hd_parser *p);
/* The end of the output: releases what was held back.  `cut` true: the output was cut at a
 * limit, false: the model stopped by itself.                                              */
hd_status hd_parser_finish(hd_parser *p, bool cut, hd_finish *finish, hd_error *err);

/* ---- engine ------------------------------------------------------------------------ */

typedef struct hd_engine  hd_engine;
typedef struct hd_session hd_session;

/* Which roundings of activations the forward pass makes (doc/numerics.md). */
typedef enum hd_act {
    HD_ACT_DEFAULT,  /* what the checkpoint was made for                                 */
    HD_ACT_EXACT,    /* none                                                              */
    HD_ACT_OFFICIAL, /* E4M3 in blocks of 128, KV and indexer rounding as released        */
    HD_ACT_NVFP4     /* W4A4: NVFP4 in front of every NVFP4 matrix                        */
} hd_act;
const char *hd_act_name(hd_act a);
/* Returns false when `name` is none of "default", "exact", "official", "nvfp4". */
bool hd_act_from_name(hd_act *out, const char *name);

/* How the rows of the KV cache are kept.  Compressor states are always f32. */
typedef enum hd_kv {
    HD_KV_DEFAULT, /* f32                                                                 */
    HD_KV_F32,
    HD_KV_BF16,
    HD_KV_FP8,  /* E4M3 with a power-of-two scale for each 64, RoPE part bf16: equal bits to
                   f32 when the activations are `official`; indexer rows MXFP4             */
    HD_KV_NVFP4 /* NVFP4, RoPE part bf16; indexer rows MXFP4                               */
} hd_kv;
const char *hd_kv_name(hd_kv kv);
/* Returns false when `name` is none of "default", "f32", "bf16", "fp8", "nvfp4". */
bool hd_kv_from_name(hd_kv *out, const char *name);

typedef struct hd_options {
    const char *model;        /* folder with config.json and *.safetensors              */
    hd_act      act;          /* 0: default                                             */
    hd_kv       kv;           /* 0: default                                             */
    int32_t     max_tokens;   /* context of a session; 0: 4096, or the model's if less   */
    int32_t     n_sessions;   /* sessions open at once; 0: 1                            */
    int32_t     chunk;        /* most tokens of one pass; 0: 128                        */
    int32_t     marks;        /* page edges that a session can go back to; 0: 4; -1: none */
    bool        has_mtp;      /* also bind the MTP block, where the model has one       */
    bool        is_trusted;   /* loaded before without this: block scales are not read  */
    uint32_t    isa;          /* mask of kernel families; 0: all of this machine's CPU    */
    int32_t     n_threads;    /* that share a pass; 0: one for each core that this process may
                                 use, within the quota of its container                   */
    bool is_unpinned;         /* the system decides where threads run.  Else each has a core of
                                 its own when they are as many as the cores, and a memory node
                                 when there are several                                  */
    hd_log_fn      *log;      /* NULL: silent                                           */
    hd_progress_fn *progress; /* NULL: none                                             */
    void           *user;     /* handed to log and progress                             */
} hd_options;

/* Loads a model.  On success *out is the caller's, closed by hd_engine_close (NULL is
 * fine; close sessions first).  After open, nothing allocates.  The model's files stay mapped:
 * when one is cut while the engine is open the system sends SIGBUS, which is the program's
 * business (doc/checkpoints.md).                                                          */
hd_status hd_engine_open(hd_engine **out, const hd_options *opt, hd_error *err);
void      hd_engine_close(hd_engine *e);

typedef struct hd_engine_info {
    const char *family; /* e.g. "NVFP4 (40 matrices ...)": formats found, one line   */
    hd_act      act;    /* the one in force, never HD_ACT_DEFAULT                    */
    hd_kv       kv;     /* the one in force, never HD_KV_DEFAULT                     */
    int32_t     n_layers, n_vocab, max_tokens, bos, eos;
    bool        has_mtp;      /* the checkpoint has an MTP block                           */
    int64_t     weight_bytes; /* of all tensors used                                       */
    int64_t     kv_bytes;     /* of all sessions together                                  */
    double      token_bytes;  /* KV of one more token of context, over whole pages         */
    int64_t     act_bytes;    /* activations of the largest pass                           */
    hd_dialect  dialect;      /* of prompts                                                */
    uint32_t    isa;          /* of hd_options.isa, the families that have any kernel      */
    int32_t     n_threads;    /* that share a pass on the host                             */
} hd_engine_info;
void hd_engine_info_get(const hd_engine *e, hd_engine_info *out); /* borrowed strings */
const hd_tokenizer *hd_engine_tokenizer(const hd_engine *e);      /* borrowed         */

hd_status hd_session_open(hd_session **out, hd_engine *e, hd_error *err);
void      hd_session_close(hd_session *s);        /* gives the memory of its context back */
void      hd_session_reset(hd_session *s);        /* back to an empty sequence */
int32_t   hd_session_length(const hd_session *s); /* tokens evaluated          */
/* The tokens evaluated, [hd_session_length], borrowed until the next call on this session. */
const int32_t *hd_session_tokens(const hd_session *s);

/* Evaluates tokens after those already there, in chunks; logits of the last one are kept.
 * returns  HD_ERR_INVALID for an id outside the vocabulary (nothing evaluated),
 *          HD_ERR_LIMIT when the context would overflow (nothing evaluated)               */
hd_status hd_session_eval(hd_session *s, const int32_t *tokens, int32_t n, hd_error *err);
/* Logits after the last token, [n_vocab], borrowed until the next call on this session.   */
hd_status hd_session_logits(hd_session *s, const float **logits, hd_error *err);
/* Evaluates tokens as hd_session_eval does and writes to logprob[i] the natural logarithm
 * of the probability that token i had before it was read; logprob[0] of a fresh session is
 * NaN, because nothing predicts it.                                                       */
hd_status hd_session_score(hd_session *s, const int32_t *tokens, int32_t n, float *logprob,
                           hd_error *err);

/* ---- state of sessions ----
 * A session that was forked, taken back or restored continues with the bits that it would have
 * had in one run.                                                                            */

/* Makes `to`, a session of the same engine, equal to `from`; what `to` held is gone. */
hd_status hd_session_fork(hd_session *to, const hd_session *from, hd_error *err);
/* Goes back to the first n tokens; n is 0, the present length, or a page edge: a multiple of
 * 256, of which hd_options.marks last ones are kept.  Unless n is the present length there are
 * no logits until the next token is evaluated.
 * returns  HD_ERR_INVALID for another n, HD_ERR_LIMIT naming the edges that are kept          */
hd_status hd_session_rewind(hd_session *s, int32_t n, hd_error *err);
/* Writes the session to a file, whole or not at all. */
hd_status hd_session_save(const hd_session *s, const char *path, hd_error *err);
/* Replaces the session by a saved one, of the same model, activations and KV rows; context
 * and chunk may be others.  Edges before the end are not kept.  A file that was changed in any
 * byte is refused, and a refused one leaves the session as it was.
 * returns  HD_ERR_FORMAT, HD_ERR_UNSUPPORTED (another version), HD_ERR_INVALID (another model
 *          or other options), HD_ERR_LIMIT (longer than the context), HD_ERR_IO               */
hd_status hd_session_restore(hd_session *s, const char *path, hd_error *err);

/* ---- sampling ------------------------------------------------------------------------ */

typedef struct hd_logit_bias {
    int32_t id;
    float   bias; /* -100 .. 100, added to the logit; of one id they add up */
} hd_logit_bias;

/* All zero: greedy.  A draw first changes the logits, then filters: + bias; repetition_penalty
 * divides those above 0 and multiplies those below for each id of the sequence, its prompt too;
 * presence_penalty is subtracted for each id drawn before, frequency_penalty as often as it was. */
typedef struct hd_sampling {
    float                temperature;        /* 0: greedy, ties to the lowest id */
    int32_t              top_k;              /* 0: all                           */
    float                top_p;              /* 0 or 1: all                      */
    float                min_p;              /* 0: none; share of the best       */
    uint64_t             seed;               /* same seed, same tokens           */
    float                presence_penalty;   /* -2 .. 2                          */
    float                frequency_penalty;  /* -2 .. 2                          */
    float                repetition_penalty; /* 0 or 1: none; up to 100          */
    const hd_logit_bias *bias;               /* [n_bias]                         */
    int32_t              n_bias;
} hd_sampling;

#define HD_MAX_TOP_LOGPROBS 20

typedef struct hd_token_prob {
    int32_t id;
    float   logprob; /* natural logarithm, of the raw distribution before changes and temperature */
} hd_token_prob;

typedef struct hd_sampled {
    hd_token_prob token;
    hd_token_prob top[HD_MAX_TOP_LOGPROBS]; /* the most likely, falling; ties by id */
    int32_t       n_top;
} hd_sampled;

/* What a token is drawn from. */
typedef struct hd_draw {
    const float    *logits; /* [n] */
    int32_t         n;
    int32_t         n_top;            /* alternatives wanted */
    uint64_t        step;             /* draw number `step` of a seed is a pure function of both */
    const int32_t  *past;             /* [n_past] the sequence: a prompt, then what was drawn */
    int32_t         n_past, n_prompt; /* n_past = n_prompt + drawn */
    const int32_t  *banned;           /* [n_banned] ids that must not be drawn */
    int32_t         n_banned;
    const uint32_t *allowed; /* [(n + 31) / 32] bit id % 32 of allowed[id / 32] is set for each id
                                that may be drawn; NULL: all of them */
    int32_t *scratch;        /* [n] caller's */
    float   *changed;        /* [n] caller's; NULL is fine while nothing changes the logits */
} hd_draw;

/* Picks a token.
 * returns  HD_ERR_NUMERIC naming the first NaN or infinite logit; HD_ERR_INVALID            */
hd_status hd_sample(hd_sampled *out, const hd_sampling *sampling, const hd_draw *draw,
                    hd_error *err);

/* ---- generation ------------------------------------------------------------------------ */

typedef struct hd_generate_event {
    const hd_sampled     *token; /* the token just drawn, or NULL for parser output only  */
    const hd_parse_event *parse; /* what the parser released, or NULL                     */
} hd_generate_event;
/* Returns false to stop: the result then says HD_ERR_CANCELLED, the session stays usable. */
typedef bool hd_generate_fn(void *user, const hd_generate_event *e);

#define HD_MAX_STOP_IDS 64

typedef struct hd_generate_options {
    hd_sampling        sampling;
    int32_t            max_new; /* most tokens to draw; 0: up to the end of the context       */
    int32_t            min_new; /* ids that end the answer are not among the first min_new    */
    int32_t            n_top;   /* alternatives reported with each token                      */
    bool               is_raw;  /* no parser: bytes of all tokens but EOS come as CONTENT     */
    bool               ignore_eos;
    hd_parse_start     start;
    bool               has_tools;
    const char *const *stop;
    int32_t            n_stop;
    const int32_t     *stop_ids;   /* [n_stop_ids] end the answer as EOS does                 */
    int32_t            n_stop_ids; /* at most HD_MAX_STOP_IDS                                 */
    hd_generate_fn    *on_event;
    void              *user;
} hd_generate_options;

typedef struct hd_generate_result {
    hd_finish finish;
    int32_t   n_prompt, n_new; /* tokens evaluated as prompt; tokens drawn, the end included */
    double    prompt_s, new_s; /* seconds of each                                        */
} hd_generate_result;

/* Evaluates the prompt and draws tokens until EOS, a stop id, a stop string or a limit.  Drawn
 * tokens are part of the session afterwards, except the last.  Unlike evaluation, generation may
 * allocate: its parser holds back what may still become a call, however long that gets, and
 * HD_ERR_MEMORY leaves the session usable.                                                 */
hd_status hd_generate(hd_session *s, const int32_t *prompt, int32_t n_prompt,
                      const hd_generate_options *opt, hd_generate_result *out, hd_error *err);

#ifdef __cplusplus
}
#endif
#endif
