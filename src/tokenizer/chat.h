#ifndef HD_TOKENIZER_CHAT_H
#define HD_TOKENIZER_CHAT_H

#include "base/json.h"
#include "tokenizer/prompt_text.h"
#include "tokenizer/python_json.h"

/* From messages to a prompt, in three steps: the request becomes the arguments of the
 * model's own encode_messages (chat_request.c, chat_messages.c, chat_offers.c), its messages
 * become turns (chat_turns.c), the turns become text (chat_render.c, chat_tools.c).  What the
 * dialects differ in stands in one table (chat_rules.c).  Where these files read an odd value
 * as Python would (truth, str()), it is because the official encoder is written in Python
 * and its text is what the model knows. */

HD_BEGIN_C

/* What dialects differ in.  The service writes prompts from requests that it has checked: it
 * refuses what does not fit, opens an answer in front of it instead of behind the user's turn,
 * and forgets the reasoning of every past answer unless tools are offered. */
typedef struct hd_chat_rules {
    bool        is_service;
    const char *efforts[HD_THINK_ASKED];    /* prefix of the prompt; NULL: no word for it        */
    const char *calls, *invoke, *parameter; /* names of DSML tags, as they stand behind ｜DSML｜ */
    bool        closes_tight; /* no blank line in a call without arguments                  */
    bool        sorts_calls;  /* calls and their results go by id, not as they came         */
    bool        gathers; /* system messages go to the front, as one; user texts become one, too */
    const char *system_token; /* in front of each system message; NULL: none                */
    const char *image_token;  /* in place of an image; NULL: none                           */
    const char *image_text;   /* the same as plain text; without both images are refused    */
    const char *json_only;    /* what response_format json_object says; NULL: as a schema   */
    hd_spelling spelling;     /* of numbers */
} hd_chat_rules;

/* NULL when there is no such dialect. */
const hd_chat_rules *hd_chat_rules_find(hd_dialect dialect);

typedef enum hd_chat_role {
    HD_ROLE_SYSTEM,
    HD_ROLE_DEVELOPER,
    HD_ROLE_USER, /* also the results of tools */
    HD_ROLE_ASSISTANT,
    HD_ROLE_LATEST_REMINDER,
    HD_ROLE_SEARCH_RESULTS, /* known when old turns are dropped, not when rendered */
    HD_ROLE_UNKNOWN
} hd_chat_role;

/* One message as it stood in the request; everything is borrowed from the parsed JSON. */
typedef struct hd_chat_source {
    const json_object *message; /* an object */
    const char        *list;    /* "messages" or "context", for error messages */
    int32_t            index;   /* in that list */
} hd_chat_source;

/* One part of a user turn. */
typedef struct hd_chat_block {
    hd_chat_source from;
    bool           is_result; /* from a `tool` message */
    int32_t        order;     /* results: place of the call that asked for it */
} hd_chat_block;

typedef struct hd_chat_turn {
    hd_chat_source     from; /* the first message of the turn */
    hd_chat_role       role;
    const json_object *task;   /* NULL: none */
    hd_chat_block     *blocks; /* [n_blocks] borrowed; user turns only */
    int32_t            n_blocks;
} hd_chat_turn;

typedef struct hd_chat {
    hd_chat_turn *turns; /* [n_turns] owned by the pool */
    int32_t       n_turns;
    int32_t       n_context; /* the first ones are context: seen, not rendered */
} hd_chat;

/* HD_ERR_FORMAT "messages[3].content: found a list, wanted text". */
hd_status hd_chat_fail(const hd_chat_source *from, const char *key, const json_object *found,
                       const char *wanted, hd_error *err);

/* Merges `context` and `messages` (lists or NULL) into turns: user and tool messages that
 * follow each other become one turn, and results take the order of the calls. */
hd_status hd_chat_merge(hd_chat *out, const json_object *context, const json_object *messages,
                        hd_pool *pool, hd_error *err);
/* The last user or developer turn, -1 when there is none. */
int32_t hd_chat_last_user(const hd_chat *chat);
/* Drops the turns that thinking mode forgets: developers (and unknown roles) before the last
 * user turn. */
void hd_chat_forget(hd_chat *chat);

/* Writes the section that offers `tools`, a list. */
hd_status hd_chat_write_tools(hd_prompt_text *out, const json_object *tools,
                              const hd_chat_source *from, const hd_chat_rules *rules,
                              hd_error *err);
/* Writes the tool_calls of an assistant message, a list, as a DSML block, or only its opening. */
void      hd_chat_open_calls(hd_prompt_text *out, const hd_chat_rules *rules);
hd_status hd_chat_write_calls(hd_prompt_text *out, const json_object *list,
                              const hd_chat_source *from, const hd_chat_rules *rules,
                              hd_error *err);

/* Renders the arguments of encode_messages; *ends_open tells whether the text ends with a
 * generation prompt.  Requests bring members that the official function does not know, and
 * which it therefore ignores in published dialects: `json_only` on a system message, and
 * content as a list of texts, null between them being an image. */
hd_status hd_chat_render(hd_prompt_text *out, const json_object *arguments,
                         const hd_chat_rules *rules, bool *ends_open, hd_error *err);

HD_END_C
#endif
