#ifndef HD_TOKENIZER_CHAT_BODY_H
#define HD_TOKENIZER_CHAT_BODY_H

#include "tokenizer/chat.h"

/* Reading the body of a Chat Completions request.  It becomes arguments of encode_messages:
 * every message is built anew from the members that are known here, so that a client cannot
 * reach the encoder's own ones (task, wo_eos, tools inside a message). */

HD_BEGIN_C

typedef struct hd_chat_body {
    const hd_chat_rules *rules;
    hd_error            *err;
    bool                 is_thinking;
    bool                 continues; /* the last answer, as `prefix` on it would say */
    bool                 must_call; /* the answer is to begin with a call              */
    json_object         *continued; /* owned; a last answer to go on with, NULL: none  */
    char                 path[128]; /* of the value being read, for error messages     */
} hd_chat_body;

/* HD_ERR_FORMAT "messages[3].content: found int, wanted a string". */
hd_status hd_body_fail(const hd_chat_body *b, const json_object *found, const char *wanted);
hd_status hd_body_fail_memory(const hd_chat_body *b);

/* Extends the path by ".name" or "[index]" and returns its old length, for `leave`. */
size_t hd_body_enter(hd_chat_body *b, const char *name);
size_t hd_body_enter_item(hd_chat_body *b, size_t index);
void   hd_body_leave(hd_chat_body *b, size_t length);

/* Adds `value`, whose reference is taken, also after a failure. */
hd_status hd_body_put(const hd_chat_body *b, json_object *object, const char *name,
                      json_object *value);
hd_status hd_body_append(const hd_chat_body *b, json_object *list, json_object *value);
/* A further reference to a value of the request. */
json_object *hd_body_share(const json_object *v);

/* Whether some number of v is infinite or none, which only Python takes for JSON. */
bool hd_body_has_odd_number(const json_object *v);

/* Fills `messages` from the request's list; a last message with `prefix` goes to b->continued. */
hd_status hd_body_convert_messages(hd_chat_body *b, json_object *messages, const json_object *list);
/* Puts tools and format on the system message of arguments, and sets b->must_call. */
hd_status hd_body_add_offers(hd_chat_body *b, json_object *arguments, const json_object *root);

HD_END_C
#endif
