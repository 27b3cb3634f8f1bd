#ifndef HD_SUPPORT_AGENT_H
#define HD_SUPPORT_AGENT_H

#include "base/memory.h"
#include "hadal_serve.h"

/* A program that lets a model call tools, as one behind an HTTP interface sees it: it holds
 * messages, has all of them rendered for each turn, and adds what came back, calls and their
 * results included. */

typedef struct agent {
    hd_buffer  messages; /* objects with commas between them */
    hd_buffer  content, reasoning, calls;
    int32_t    n_calls;
    bool       has_tools, keeps_reasoning; /* it sends reasoning back */
    hd_think   think;
    hd_dialect dialect;
} agent;

void agent_open(agent *a, bool has_tools, bool keeps_reasoning, hd_think think, hd_dialect d);
void agent_close(agent *a);
/* The user says something. */
void agent_ask(agent *a, const char *text);
/* The prompt of the next turn. */
hd_status agent_render(agent *a, const hd_tokenizer *t, int32_t *ids, int32_t cap, int32_t *n,
                       hd_parse_start *start, hd_error *err);
/* Hears a part of the answer. */
void agent_hear(agent *a, const hd_parse_event *e);
/* Adds the answer to the messages, and results of its calls; whether there were any. */
bool agent_take(agent *a);

#endif
