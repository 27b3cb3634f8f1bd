#include <time.h>

#include "server/prompts.h"
#include "server/server_state.h"

/* ---- the engine's thread: what happens to an answer ---- */

static bool on_event(void *user, const hd_answer_event *e)
{
    hd_part *const    part = user;
    hd_mailbox *const mailbox = &part->call->server->mailbox;
    hd_note          *note = &part->end;
    if (e->end)
        note->end = *e->end;
    else
        note = hd_note_copy(e);
    if (!note) return false; /* memory is short: the end is all that will be told */
    note->call = part->call;
    note->choice = part->choice;
    hd_mailbox_post(mailbox, note);
    return true;
}

/* ---- submission ---- */

static hd_status submit_part(hd_call *c, const hd_encoded *prompt, int32_t choice, hd_part *part)
{
    hd_prep *const   p = &c->prep;
    hd_choice *const told = &p->reply.choices[choice];
    hd_error         err = {0};
    hd_request       r = {.prompt = prompt->ids,
                          .n_prompt = prompt->n,
                          .generate = p->ask.generate,
                          .grammar = hd_held_grammar_get(p->grammar),
                          .is_scored = p->ask.is_scored,
                          .is_kept = true,
                          .on_event = on_event,
                          .user = part};
    r.generate.start = prompt->start;
    r.generate.has_tools = prompt->has_tools;
    r.generate.sampling.seed += (uint64_t)(choice % p->ask.n);
    told->n_prompt = prompt->n;
    told->is_reasoning =
        prompt->start == HD_START_REASONING || prompt->start == HD_START_REASONING_CONTINUATION;
    *part = (hd_part){.call = c, .choice = choice};
    part->end.kind = HD_NOTE_END;
    part->end.is_kept = true;
    if (hd_batch_submit(c->server->batch, &r, &part->ticket, &err) != HD_OK)
        return hd_api_pass_on(&p->error, &err);
    p->n_parts++;
    return HD_OK;
}

/* What the context leaves is enough for a client that named a large number only to be safe. */
static void fit_limit(hd_ask *a, const hd_ask_context *x, const hd_encoded *prompt)
{
    int32_t const left = x->max_tokens - prompt->n;
    a->is_fitted = a->fits_limit && left > 0 && a->generate.max_new > left;
    if (a->is_fitted) a->generate.max_new = left;
}

static hd_status submit_prompt(hd_call *c, int32_t index)
{
    hd_prep *const p = &c->prep;
    hd_encoded     prompt;
    HD_TRY(hd_prompts_encode(&prompt, &p->ask, index, &c->server->context, &p->error));
    fit_limit(&p->ask, &c->server->context, &prompt);
    hd_status s = HD_OK;
    for (int32_t i = index * p->ask.n; i < (index + 1) * p->ask.n && s == HD_OK; i++)
        s = submit_part(c, &prompt, i, &p->parts[i]);
    hd_memory_free(prompt.ids);
    return s;
}

static hd_status hold_grammar(hd_call *c)
{
    hd_prep *const p = &c->prep;
    hd_error       err = {0};
    bool const     can_do_without = p->ask.hold == HD_HOLD_IF_IT_CAN;
    if (p->ask.hold == HD_HOLD_NOTHING) return HD_OK;
    /* An answer that nothing ends has no end at which a grammar is complete. */
    if (can_do_without && p->ask.generate.ignore_eos) return HD_OK;
    p->ask.grammar.dialect = c->server->context.dialect;
    hd_status const s =
        hd_grammar_cache_hold(c->server->grammars, &p->ask.grammar, &p->grammar, &err);
    if (s == HD_OK || (can_do_without && s != HD_ERR_MEMORY)) return HD_OK;
    return hd_api_pass_on(&p->error, &err);
}

static hd_status submit(hd_call *c)
{
    hd_prep *const p = &c->prep;
    int32_t const  n = hd_ask_count(&p->ask);
    if (!p->ask.has_seed) p->ask.generate.sampling.seed = hd_random() >> 11; /* 53 bits */
    if (hd_answers_open(&p->reply, &p->ask, &c->server->context, c->id, (int64_t)time(NULL)) !=
        HD_OK)
        return hd_ask_fail_memory(&p->error);
    p->parts = hd_memory_alloc((size_t)n * sizeof *p->parts);
    if (!p->parts) return hd_ask_fail_memory(&p->error);
    HD_TRY(hold_grammar(c));
    hd_status s = HD_OK;
    for (int32_t i = 0; i < n / p->ask.n && s == HD_OK; i++) s = submit_prompt(c, i);
    for (int32_t i = 0; s != HD_OK && i < p->n_parts; i++)
        hd_batch_cancel(c->server->batch, p->parts[i].ticket);
    return s;
}

/* ---- preparation ---- */

static hd_status ask(hd_call *c, const hd_fields *b)
{
    if (c->route->work) return c->route->work(c->server, b, &c->prep.response);
    if (hd_flag_is_raised(&c->server->has_died))
        return hd_api_pass_on(&c->prep.error, &c->server->death);
    HD_TRY(c->route->api->read(&c->prep.ask, b, &c->server->context));
    return submit(c);
}

void hd_prep_run(hd_call *c)
{
    hd_prep *const p = &c->prep;
    hd_fields      b = {0};
    if (hd_fields_open(&b, p->body.used ? p->body.data : "", p->body.used, &p->error) == HD_OK)
        ask(c, &b);
    hd_fields_close(&b);
    hd_buffer_free(&p->body);
    p->prepared = (hd_note){.call = c, .kind = HD_NOTE_PREPARED, .is_kept = true};
    hd_mailbox_post(&c->server->mailbox, &p->prepared);
}

void hd_prep_free(hd_prep *p)
{
    hd_buffer_free(&p->body);
    hd_buffer_free(&p->response.body);
    hd_answers_close(&p->reply);
    hd_grammar_cache_release(p->grammar);
    hd_memory_free(p->parts);
    hd_ask_free(&p->ask);
}
