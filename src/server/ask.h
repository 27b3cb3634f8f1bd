#ifndef HD_SERVER_ASK_H
#define HD_SERVER_ASK_H

#include "hadal_serve.h"
#include "server/fields.h"

/* What a client asks, in the one form that every API is translated to: prompts, how answers are
 * drawn, what they are held to, and how they are told. */

HD_BEGIN_C

/* What requests are translated against; all borrowed and read only. */
typedef struct hd_ask_context {
    const hd_tokenizer *tokenizer;
    const char         *model; /* the name that this server answers to */
    hd_dialect          dialect;
    int32_t             bos, n_vocab, max_tokens;
    int32_t             max_answers;         /* of one request */
    float               default_temperature; /* where a request names none */
} hd_ask_context;

/* A prompt that is no conversation. */
typedef struct hd_ask_prompt {
    const char    *text; /* [bytes]; NULL: ids */
    size_t         bytes;
    const int32_t *ids; /* [n_ids] */
    int32_t        n_ids;
} hd_ask_prompt;

typedef enum hd_ask_hold {
    HD_HOLD_NOTHING,
    HD_HOLD_GRAMMAR,   /* the answer follows ask.grammar, or the request fails          */
    HD_HOLD_IF_IT_CAN, /* the same, but a grammar that cannot be made is done without   */
} hd_ask_hold;

typedef struct hd_ask {
    hd_pool pool; /* owned; holds every array and text below */

    hd_buffer            chat; /* owned; a Chat Completions request for hd_prompt_chat; or empty */
    hd_think             think;
    const hd_ask_prompt *prompts; /* [n_prompts] when there is no chat */
    int32_t              n_prompts;
    bool                 has_bos; /* a text is to begin with the token that begins sequences */
    const char          *suffix;  /* [suffix_bytes]; the answer goes between; NULL: none */
    size_t               suffix_bytes;

    int32_t             n; /* answers to each prompt */
    hd_generate_options generate;
    bool                has_seed;   /* else one is drawn      */
    bool                fits_limit; /* max_new shrinks to what the context has left */
    bool                is_fitted;  /* and did, when the prompt was read                  */
    bool                is_scored;
    hd_ask_hold         hold;
    hd_grammar_options  grammar;

    bool is_streamed, has_usage, has_running_usage;
    bool has_logprobs;
    bool is_echoed;

    const char *told; /* members of the body that the answer repeats, JSON; NULL: none */
} hd_ask;

void hd_ask_free(hd_ask *a); /* a zeroed one is fine */
/* Answers that it wants. */
int32_t hd_ask_count(const hd_ask *a);

/* ---- members that APIs share ---- */

/* Refuses another model than this server's; a body that names none is fine. */
hd_status hd_ask_read_model(const hd_fields *b, const hd_ask_context *c);
/* temperature, top_p, top_k, min_p, penalties, seed, logit_bias, min_tokens, ignore_eos, stop,
 * stop_token_ids, n, into a->generate. */
hd_status hd_ask_read_drawing(hd_ask *a, const hd_fields *b, const hd_ask_context *c);
/* A text or a list of texts that end the answer, under the name that the API has for it. */
hd_status hd_ask_read_stop(hd_ask *a, const hd_fields *b, const char *name);
/* stream and stream_options. */
hd_status hd_ask_read_stream(hd_ask *a, const hd_fields *b);
/* A member that the API has but that is not to be had here, so that no one takes silence for
 * consent: 400. */
hd_status hd_ask_refuse_members(const hd_fields *b, const char *const *names);

/* Memory was short. */
hd_status hd_ask_fail_memory(hd_api_error *e);

HD_END_C
#endif
