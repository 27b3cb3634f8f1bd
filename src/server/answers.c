#include "server/answers.h"

#include <stdio.h>
#include <string.h>

hd_status hd_answers_open(hd_answers *r, const hd_ask *ask, const hd_ask_context *c, const char *id,
                          int64_t created)
{
    static const char think_end[] = "</think>";
    int32_t const     n = hd_ask_count(ask);
    *r = (hd_answers){.ask = ask,
                      .tokenizer = c->tokenizer,
                      .model = c->model,
                      .created = created,
                      .think_end = -1,
                      .bos = c->bos,
                      .n = n};
    snprintf(r->id, sizeof r->id, "%s", id);
    if (c->tokenizer)
        r->think_end = hd_tokenizer_control_id(c->tokenizer, think_end, sizeof think_end - 1);
    r->choices = hd_memory_alloc((size_t)n * sizeof *r->choices);
    return r->choices ? HD_OK : HD_ERR_MEMORY;
}

static void close_choice(hd_choice *c)
{
    hd_buffer *const all[] = {&c->content, &c->reasoning, &c->unparsed,     &c->calls,
                              &c->scored,  &c->probs,     &c->was_reasoning};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) hd_buffer_free(all[i]);
    hd_pool_free(&c->pool);
}

void hd_answers_close(hd_answers *r)
{
    for (int32_t i = 0; r->choices && i < r->n; i++) close_choice(&r->choices[i]);
    hd_memory_free(r->choices);
    hd_memory_free(r->own);
    r->choices = NULL;
    r->own = NULL;
}

/* ---- events ---- */

static bool take_call(hd_choice *c, const hd_parse_event *p)
{
    hd_answer_call const call = {hd_pool_copy(&c->pool, p->name, p->name_bytes),
                                 hd_pool_copy(&c->pool, p->text, p->text_bytes), p->name_bytes,
                                 p->text_bytes};
    hd_buffer_add(&c->calls, &call, sizeof call);
    return call.name && call.arguments && !c->calls.failed;
}

static bool add_text(hd_buffer *out, const hd_parse_event *p)
{
    hd_buffer_add(out, p->text, p->text_bytes);
    return !out->failed;
}

static bool take_parse(hd_choice *c, const hd_parse_event *p)
{
    switch (p->kind) {
    case HD_PARSE_REASONING: return add_text(&c->reasoning, p);
    case HD_PARSE_CONTENT: return add_text(&c->content, p);
    case HD_PARSE_UNPARSED: return add_text(&c->unparsed, p);
    case HD_PARSE_CALL: return take_call(c, p);
    }
    return false;
}

static bool take_token(const hd_answers *r, hd_choice *c, const hd_sampled *drawn)
{
    char const is_reasoning = c->is_reasoning;
    c->n_tokens++;
    c->n_reasoning += c->is_reasoning;
    if (drawn->token.id == r->think_end) c->is_reasoning = false;
    if (!r->ask->has_logprobs) return true;
    hd_buffer_add(&c->probs, drawn, sizeof *drawn);
    hd_buffer_add(&c->was_reasoning, &is_reasoning, 1);
    return !c->probs.failed && !c->was_reasoning.failed;
}

static bool take_end(hd_answers *r, hd_choice *c, const hd_answer_end *end)
{
    c->end = *end;
    r->n_ended += !c->has_ended;
    c->has_ended = true;
    return true;
}

bool hd_answers_take(hd_answers *r, int32_t choice, const hd_answer_event *e)
{
    hd_choice *const c = &r->choices[choice];
    if (e->token) return take_token(r, c, e->token);
    if (e->parse) return take_parse(c, e->parse);
    if (e->end) return take_end(r, c, e->end);
    hd_buffer_add(&c->scored, e->prompt, sizeof *e->prompt);
    return !c->scored.failed;
}

/* ---- what was gathered ---- */

int32_t hd_choice_n_calls(const hd_choice *c)
{
    return (int32_t)(c->calls.used / sizeof(hd_answer_call));
}

const hd_answer_call *hd_choice_call(const hd_choice *c, int32_t i)
{
    return (const hd_answer_call *)(const void *)c->calls.data + i;
}

int32_t hd_choice_n_probs(const hd_choice *c)
{
    return (int32_t)(c->probs.used / sizeof(hd_sampled));
}

const hd_sampled *hd_choice_prob(const hd_choice *c, int32_t i)
{
    return (const hd_sampled *)(const void *)c->probs.data + i;
}

/* Answers to one prompt share its tokens. */
hd_answers_usage hd_answers_count(const hd_answers *r)
{
    hd_answers_usage u = {0};
    for (int32_t i = 0; i < r->n; i++) {
        const hd_choice *const c = &r->choices[i];
        u.n_new += c->has_ended ? c->end.n_new : c->n_tokens;
        u.n_reasoning += c->has_ended ? c->end.n_reasoning : c->n_reasoning;
        if (i % r->ask->n > 0) continue;
        u.n_prompt += c->n_prompt;
        u.n_cached += c->has_ended ? c->end.n_cached : 0;
    }
    return u;
}

const hd_error *hd_answers_failure(const hd_answers *r)
{
    for (int32_t i = 0; i < r->n; i++)
        if (r->choices[i].has_ended && r->choices[i].end.error.code != HD_OK)
            return &r->choices[i].end.error;
    return NULL;
}
