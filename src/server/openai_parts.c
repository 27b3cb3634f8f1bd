#include "server/openai_parts.h"

#include <math.h>
#include <string.h>

#include "base/json_write.h"

void hd_openai_write_text(hd_buffer *out, const hd_buffer *text)
{
    hd_json_write_string(out, text->used ? text->data : "", text->used);
}

void hd_openai_write_usage(hd_buffer *out, const hd_answers *r)
{
    hd_answers_usage const u = hd_answers_count(r);
    hd_buffer_printf(out,
                     "\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,"
                     "\"total_tokens\":%d,\"prompt_tokens_details\":{\"cached_tokens\":%d},"
                     "\"completion_tokens_details\":{\"reasoning_tokens\":%d},",
                     u.n_prompt, u.n_new, u.n_prompt + u.n_new, u.n_cached, u.n_reasoning);
    hd_buffer_printf(out, "\"prompt_cache_hit_tokens\":%d,\"prompt_cache_miss_tokens\":%d}",
                     u.n_cached, u.n_prompt - u.n_cached);
}

/* ---- logarithms of probabilities ---- */

void hd_openai_write_logprob(hd_buffer *out, float x)
{
    if (isnan(x))
        hd_buffer_text(out, "null");
    else
        hd_buffer_printf(out, "%.9g", isinf(x) ? -9999.0 : (double)x);
}

void hd_openai_write_token(hd_buffer *out, const hd_answers *r, int32_t id)
{
    size_t            bytes = 0;
    const char *const text = hd_tokenizer_bytes(r->tokenizer, id, &bytes);
    hd_json_write_string(out, text ? text : "", text ? bytes : 0);
}

static void write_prob(hd_buffer *out, const hd_answers *r, const hd_token_prob *t)
{
    size_t            bytes = 0;
    const char *const text = hd_tokenizer_bytes(r->tokenizer, t->id, &bytes);
    hd_buffer_text(out, "{\"token\":");
    hd_openai_write_token(out, r, t->id);
    hd_buffer_text(out, ",\"logprob\":");
    hd_openai_write_logprob(out, t->logprob);
    hd_buffer_text(out, ",\"bytes\":[");
    for (size_t i = 0; text && i < bytes; i++)
        hd_buffer_printf(out, i ? ",%u" : "%u", (unsigned)(unsigned char)text[i]);
    hd_buffer_text(out, "]");
}

static void write_sampled(hd_buffer *out, const hd_answers *r, const hd_sampled *s)
{
    write_prob(out, r, &s->token);
    hd_buffer_text(out, ",\"top_logprobs\":[");
    for (int32_t i = 0; i < s->n_top; i++) {
        if (i) hd_buffer_text(out, ",");
        write_prob(out, r, &s->top[i]);
        hd_buffer_text(out, "}");
    }
    hd_buffer_text(out, "]}");
}

/* The probs [from, to) that belong to reasoning, or those that do not.  returns how many */
static int32_t write_half(hd_buffer *out, const hd_answers *r, const hd_choice *c,
                          const int32_t span[2], bool is_reasoning)
{
    int32_t n = 0;
    for (int32_t i = span[0]; i < span[1]; i++) {
        if ((c->was_reasoning.data[i] != 0) != is_reasoning) continue;
        if (n++) hd_buffer_text(out, ",");
        write_sampled(out, r, hd_choice_prob(c, i));
    }
    return n;
}

void hd_openai_write_logprobs(hd_buffer *out, const hd_answers *r, const hd_choice *c, int32_t from,
                              int32_t to)
{
    int32_t const span[2] = {from, to};
    hd_buffer     reasoning = {0};
    hd_buffer_text(out, "{\"content\":[");
    write_half(out, r, c, span, false);
    hd_buffer_text(out, "]");
    if (write_half(&reasoning, r, c, span, true) > 0) {
        hd_buffer_text(out, ",\"reasoning_content\":[");
        hd_buffer_add(out, reasoning.data, reasoning.used);
        hd_buffer_text(out, "]");
    }
    hd_buffer_text(out, ",\"refusal\":null}");
    out->failed = out->failed || reasoning.failed;
    hd_buffer_free(&reasoning);
}

void hd_openai_write_content_logprobs(hd_buffer *out, const hd_answers *r, const hd_choice *c,
                                      int32_t from, int32_t to)
{
    int32_t const span[2] = {from, to};
    hd_buffer_text(out, "[");
    write_half(out, r, c, span, false);
    hd_buffer_text(out, "]");
}

/* ---- the rest ---- */

void hd_openai_write_hadal(hd_buffer *out, const hd_answers *r, int32_t choice)
{
    const hd_choice *const     c = &r->choices[choice];
    const hd_answer_end *const e = &c->end;
    uint64_t const seed = r->ask->generate.sampling.seed + (uint64_t)(choice % r->ask->n);
    hd_buffer_printf(out, ",\"hadal\":{\"blank\":\"%s\"", hd_blank_name(e->blank));
    if (c->unparsed.used) {
        hd_buffer_text(out, ",\"unparsed\":");
        hd_openai_write_text(out, &c->unparsed);
    }
    if (e->stop >= 0 && e->stop < r->ask->generate.n_stop) {
        const char *const stop = r->ask->generate.stop[e->stop];
        hd_buffer_text(out, ",\"stop\":");
        hd_json_write_string(out, stop, strlen(stop));
    }
    hd_buffer_printf(out, ",\"seed\":\"%llu\",\"wait_s\":%.6f,\"prompt_s\":%.6f,\"new_s\":%.6f}",
                     (unsigned long long)seed, e->wait_s, e->prompt_s, e->new_s);
}

void hd_openai_write_call_id(hd_buffer *out, const hd_answers *r, int32_t choice, int32_t call)
{
    hd_buffer_printf(out, "\"call_%02d_%s%02d\"", call, r->id, choice);
}

void hd_openai_write_error(hd_buffer *out, const hd_api_error *e, const char *id)
{
    (void)id;
    hd_api_write_error(out, e);
}

void hd_openai_write_failure(const hd_answers *r, hd_buffer *out, const hd_api_error *e)
{
    (void)r;
    hd_buffer_text(out, "data: ");
    hd_api_write_error(out, e);
    hd_buffer_text(out, "\n\n");
}
