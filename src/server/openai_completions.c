#include <string.h>

#include "base/json_write.h"
#include "server/api.h"
#include "server/openai_parts.h"
#include "server/prompts.h"

/* POST /v1/completions: prompts that are texts or ids, and are continued as they are. */

enum { DEFAULT_TOKENS = 16, MAX_PROMPTS = 256 };

/* ---- what is asked ---- */

static hd_status read_ids(hd_ask *out, const hd_fields *b, const json_object *list,
                          const hd_ask_context *c, hd_ask_prompt *p)
{
    size_t const n = json_object_array_length(list);
    if (n == 0 || n > (size_t)c->max_tokens)
        return hd_api_refuse(b->error, "prompt", "%zu ids, wanted 1 .. %d", n, c->max_tokens);
    int32_t *const ids = hd_pool_alloc(&out->pool, n * sizeof *ids);
    if (!ids) return hd_ask_fail_memory(b->error);
    for (size_t i = 0; i < n; i++) {
        int64_t id = -1;
        if (!hd_json_whole(json_object_array_get_idx(list, i), &id) || id < 0 || id >= c->n_vocab)
            return hd_api_refuse(b->error, "prompt", "entry %zu is no id 0 .. %d", i,
                                 c->n_vocab - 1);
        ids[i] = (int32_t)id;
    }
    *p = (hd_ask_prompt){.ids = ids, .n_ids = (int32_t)n};
    return HD_OK;
}

static hd_status read_text(hd_ask *out, const hd_fields *b, const json_object *v, hd_ask_prompt *p)
{
    size_t            bytes = 0;
    const char *const text = hd_json_text(v, &bytes);
    if (!text) return hd_fields_wrong(b, "prompt", v, "a text, ids, or a list of either");
    *p = (hd_ask_prompt){.text = hd_pool_copy(&out->pool, text, bytes), .bytes = bytes};
    return p->text ? HD_OK : hd_ask_fail_memory(b->error);
}

static hd_status read_prompt(hd_ask *out, const hd_fields *b, const json_object *v,
                             const hd_ask_context *c, hd_ask_prompt *p)
{
    if (json_object_is_type(v, json_type_array)) return read_ids(out, b, v, c, p);
    return read_text(out, b, v, p);
}

/* A list is several prompts, unless it is one prompt's ids. */
static bool is_list_of_prompts(const json_object *v)
{
    return json_object_is_type(v, json_type_array) && json_object_array_length(v) > 0 &&
           !json_object_is_type(json_object_array_get_idx(v, 0), json_type_int);
}

static hd_status read_prompts(hd_ask *out, const hd_fields *b, const hd_ask_context *c)
{
    const json_object *const v = hd_fields_find(b, "prompt");
    bool const               is_list = is_list_of_prompts(v);
    size_t const             n = is_list ? json_object_array_length(v) : 1;
    if (n > MAX_PROMPTS)
        return hd_api_refuse(b->error, "prompt", "%zu prompts, at most %d", n, MAX_PROMPTS);
    hd_ask_prompt *const list = hd_pool_alloc(&out->pool, n * sizeof *list);
    if (!list) return hd_ask_fail_memory(b->error);
    for (size_t i = 0; i < n; i++)
        HD_TRY(read_prompt(out, b, is_list ? json_object_array_get_idx(v, i) : v, c, &list[i]));
    out->prompts = list;
    out->n_prompts = (int32_t)n;
    return HD_OK;
}

static hd_status read_suffix(hd_ask *out, const hd_fields *b)
{
    const char *text = NULL;
    size_t      bytes = 0;
    HD_TRY(hd_fields_text(b, "suffix", &text, &bytes));
    if (!text) return HD_OK;
    for (int32_t i = 0; i < out->n_prompts; i++)
        if (!out->prompts[i].text)
            return hd_api_refuse(b->error, "suffix", "only together with prompts that are texts");
    out->suffix = hd_pool_copy(&out->pool, text, bytes);
    out->suffix_bytes = bytes;
    return out->suffix ? HD_OK : hd_ask_fail_memory(b->error);
}

static hd_status read_counts(hd_ask *out, const hd_fields *b)
{
    int64_t n_new = DEFAULT_TOKENS, n_top = 0, best_of = out->n;
    HD_TRY(hd_fields_integer(b, "max_tokens", 0, INT32_MAX, &n_new));
    HD_TRY(hd_fields_integer(b, "logprobs", 0, HD_MAX_TOP_LOGPROBS, &n_top));
    HD_TRY(hd_fields_integer(b, "best_of", 1, INT32_MAX, &best_of));
    if (best_of != out->n) return hd_api_refuse(b->error, "best_of", "only the same as n");
    out->has_logprobs = hd_fields_find(b, "logprobs");
    out->generate.n_top = (int32_t)n_top;
    out->is_scored = n_new == 0 || (out->is_echoed && out->has_logprobs);
    out->generate.max_new = n_new == 0 ? -1 : (int32_t)n_new;
    return HD_OK;
}

static hd_status read(hd_ask *out, const hd_fields *b, const hd_ask_context *c)
{
    out->has_bos = true;
    HD_TRY(hd_ask_read_model(b, c));
    HD_TRY(hd_ask_read_drawing(out, b, c));
    HD_TRY(read_prompts(out, b, c));
    HD_TRY(read_suffix(out, b));
    HD_TRY(hd_fields_bool(b, "echo", &out->is_echoed));
    HD_TRY(hd_fields_bool(b, "add_special_tokens", &out->has_bos));
    HD_TRY(read_counts(out, b));
    /* The parser finds stop texts; without them every byte is passed on as it comes. */
    out->generate.is_raw = out->generate.n_stop == 0;
    return hd_ask_read_stream(out, b);
}

/* ---- prompts that are told again ---- */

static const hd_ask_prompt *prompt_of(const hd_answers *r, int32_t choice)
{
    return &r->ask->prompts[choice / r->ask->n];
}

/* The text that the prompt's tokens spell. */
static void gather_prompt(hd_buffer *text, const hd_answers *r, int32_t choice)
{
    const hd_ask_prompt *const p = prompt_of(r, choice);
    if (!r->ask->is_echoed) return;
    if (p->text) hd_buffer_add(text, p->text, p->bytes);
    for (int32_t i = 0; i < p->n_ids; i++) {
        size_t            bytes = 0;
        const char *const t = hd_tokenizer_bytes(r->tokenizer, p->ids[i], &bytes);
        if (t) hd_buffer_add(text, t, bytes);
    }
}

/* ---- logarithms of probabilities, as this older API has them ---- */

typedef struct run {
    const hd_sampled *items;
    int32_t           n;
} run;

/* The prompt's tokens, when they are told again, and tokens [from, to) of the answer. */
static void find_runs(const hd_answers *r, int32_t choice, const int32_t span[2], run out[2])
{
    const hd_choice *const c = &r->choices[choice];
    /* Nobody wrote the token that begins the sequence. */
    int32_t const hidden = hd_prompts_adds_bos(r->ask, prompt_of(r, choice), r->tokenizer, r->bos);
    int32_t const n = (int32_t)(c->scored.used / sizeof(hd_sampled)) - hidden;
    bool const    has_prompt = r->ask->is_echoed && span[0] == 0 && n > 0;
    out[0] = (run){(const hd_sampled *)(const void *)c->scored.data, has_prompt ? n : 0};
    if (has_prompt) out[0].items += hidden;
    out[1] = (run){span[1] > span[0] ? hd_choice_prob(c, span[0]) : NULL, span[1] - span[0]};
}

typedef void write_fn(hd_buffer *out, const hd_answers *r, const hd_sampled *s);

static void write_token(hd_buffer *out, const hd_answers *r, const hd_sampled *s)
{
    hd_openai_write_token(out, r, s->token.id);
}

static void write_logprob(hd_buffer *out, const hd_answers *r, const hd_sampled *s)
{
    (void)r;
    hd_openai_write_logprob(out, s->token.logprob);
}

static void write_top(hd_buffer *out, const hd_answers *r, const hd_sampled *s)
{
    if (s->n_top == 0) {
        hd_buffer_text(out, "null");
        return;
    }
    for (int32_t i = 0; i < s->n_top; i++) {
        hd_buffer_text(out, i ? "," : "{");
        hd_openai_write_token(out, r, s->top[i].id);
        hd_buffer_text(out, ":");
        hd_openai_write_logprob(out, s->top[i].logprob);
    }
    hd_buffer_text(out, "}");
}

static void write_list(hd_buffer *out, const hd_answers *r, const run runs[2], const char *name,
                       write_fn *write)
{
    bool is_first = true;
    hd_buffer_printf(out, "\"%s\":[", name);
    for (int k = 0; k < 2; k++)
        for (int32_t i = 0; i < runs[k].n; i++) {
            if (!is_first) hd_buffer_text(out, ",");
            is_first = false;
            write(out, r, &runs[k].items[i]);
        }
    hd_buffer_text(out, "]");
}

/* Where each token begins in the text, in characters. */
static void write_offsets(hd_buffer *out, const hd_answers *r, const run runs[2], int64_t at)
{
    bool is_first = true;
    hd_buffer_text(out, "\"text_offset\":[");
    for (int k = 0; k < 2; k++)
        for (int32_t i = 0; i < runs[k].n; i++) {
            size_t            bytes = 0;
            const char *const t =
                hd_tokenizer_bytes(r->tokenizer, runs[k].items[i].token.id, &bytes);
            hd_buffer_printf(out, is_first ? "%lld" : ",%lld", (long long)at);
            is_first = false;
            for (size_t j = 0; t && j < bytes; j++) at += ((unsigned char)t[j] & 0xC0) != 0x80;
        }
    hd_buffer_text(out, "]");
}

static int64_t count_characters(const char *text, size_t bytes)
{
    int64_t n = 0;
    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

/* Where token `from` of the answer begins. */
static int64_t find_offset(const hd_answers *r, int32_t choice, int32_t from)
{
    const hd_choice *const c = &r->choices[choice];
    hd_buffer              text = {0};
    gather_prompt(&text, r, choice);
    for (int32_t i = 0; i < from; i++) {
        size_t            bytes = 0;
        const char *const t =
            hd_tokenizer_bytes(r->tokenizer, hd_choice_prob(c, i)->token.id, &bytes);
        if (t) hd_buffer_add(&text, t, bytes);
    }
    int64_t const n = text.used ? count_characters(text.data, text.used) : 0;
    hd_buffer_free(&text);
    return n;
}

static void write_logprobs(hd_buffer *out, const hd_answers *r, int32_t choice, int32_t from,
                           int32_t to)
{
    int32_t const span[2] = {from, to};
    run           runs[2];
    hd_buffer_text(out, ",\"logprobs\":");
    if (!r->ask->has_logprobs) {
        hd_buffer_text(out, "null");
        return;
    }
    find_runs(r, choice, span, runs);
    hd_buffer_text(out, "{");
    write_list(out, r, runs, "tokens", write_token);
    hd_buffer_text(out, ",");
    write_list(out, r, runs, "token_logprobs", write_logprob);
    hd_buffer_text(out, ",");
    write_list(out, r, runs, "top_logprobs", write_top);
    hd_buffer_text(out, ",");
    write_offsets(out, r, runs, runs[0].n > 0 ? 0 : find_offset(r, choice, from));
    hd_buffer_text(out, "}");
}

/* ---- what is answered ---- */

static void write_head(hd_buffer *out, const hd_answers *r)
{
    hd_buffer_printf(out, "{\"id\":\"cmpl-%s\",\"object\":\"text_completion\",\"created\":%lld,",
                     r->id, (long long)r->created);
    hd_buffer_text(out, "\"model\":");
    hd_json_write_string(out, r->model, strlen(r->model));
    hd_buffer_text(out, ",\"choices\":[");
}

static void write_finish(hd_buffer *out, const hd_answers *r, int32_t choice)
{
    hd_buffer_printf(out, ",\"finish_reason\":\"%s\"",
                     hd_finish_name(r->choices[choice].end.finish));
    hd_openai_write_hadal(out, r, choice);
}

static void write_choice(hd_buffer *out, const hd_answers *r, int32_t i)
{
    const hd_choice *const c = &r->choices[i];
    hd_buffer              text = {0};
    gather_prompt(&text, r, i);
    hd_buffer_add(&text, c->content.data, c->content.used);
    hd_buffer_printf(out, "%s{\"index\":%d,\"text\":", i ? "," : "", i);
    hd_openai_write_text(out, &text);
    write_logprobs(out, r, i, 0, hd_choice_n_probs(c));
    write_finish(out, r, i);
    hd_buffer_text(out, "}");
    out->failed = out->failed || text.failed;
    hd_buffer_free(&text);
}

static void write_whole(const hd_answers *r, hd_buffer *out)
{
    write_head(out, r);
    for (int32_t i = 0; i < r->n; i++) write_choice(out, r, i);
    hd_buffer_text(out, "],");
    hd_openai_write_usage(out, r);
    hd_buffer_text(out, "}");
}

/* ---- piece by piece ---- */

static void close_chunk(hd_buffer *out, const hd_answers *r, bool is_last)
{
    hd_buffer_text(out, "]");
    if (r->ask->has_usage) {
        hd_buffer_text(out, ",");
        if (is_last || r->ask->has_running_usage)
            hd_openai_write_usage(out, r);
        else
            hd_buffer_text(out, "\"usage\":null");
    }
    hd_buffer_text(out, "}\n\n");
}

static void write_chunk(hd_answers *r, int32_t choice, const char *text, size_t bytes,
                        hd_buffer *out)
{
    hd_choice *const c = &r->choices[choice];
    int32_t const    n = hd_choice_n_probs(c);
    hd_buffer_text(out, "data: ");
    write_head(out, r);
    hd_buffer_printf(out, "{\"index\":%d,\"text\":", choice);
    hd_json_write_string(out, text, bytes);
    write_logprobs(out, r, choice, c->n_told, n);
    c->n_told = n;
    if (c->has_ended)
        write_finish(out, r, choice);
    else
        hd_buffer_text(out, ",\"finish_reason\":null");
    hd_buffer_text(out, "}");
    close_chunk(out, r, false);
}

static void begin(hd_answers *r, hd_buffer *out)
{
    (void)r, (void)out; /* nothing is said before there is text */
}

/* The prompt stands before the first text, or before the end when there is none. */
static void event(hd_answers *r, int32_t choice, const hd_answer_event *e, hd_buffer *out)
{
    hd_choice *const c = &r->choices[choice];
    bool const       has_text = e->parse && e->parse->text_bytes > 0;
    hd_buffer        text = {0};
    if (!has_text && !e->end) return;
    if (!c->has_begun) gather_prompt(&text, r, choice);
    c->has_begun = true;
    if (has_text) hd_buffer_add(&text, e->parse->text, e->parse->text_bytes);
    write_chunk(r, choice, text.used ? text.data : "", text.used, out);
    out->failed = out->failed || text.failed;
    hd_buffer_free(&text);
}

static void finish(hd_answers *r, hd_buffer *out)
{
    if (r->ask->has_usage) {
        hd_buffer_text(out, "data: ");
        write_head(out, r);
        close_chunk(out, r, true);
    }
    hd_buffer_text(out, "data: [DONE]\n\n");
}

const hd_api hd_api_openai_completions = {.name = "completions",
                                          .read = read,
                                          .write_whole = write_whole,
                                          .begin = begin,
                                          .event = event,
                                          .finish = finish,
                                          .keep_alive = HD_OPENAI_KEEP_ALIVE,
                                          .write_error = hd_openai_write_error,
                                          .write_failure = hd_openai_write_failure};
