#include "cli/answer.h"

#include <math.h>
#include <unistd.h>

#include "base/json_write.h"

/* ---- what is shown ---- */

static void end_reasoning(hd_answer *a)
{
    if (a->last_reasoning && a->last_reasoning != '\n') hd_screen_dim(a->screen, "\n", 1);
    a->last_reasoning = 0;
}

static void show(hd_answer *a, const char *text, size_t bytes)
{
    if (!a->is_shown || bytes == 0) return;
    end_reasoning(a);
    a->last_out = text[bytes - 1];
    hd_stdout_write(text, bytes);
}

static void show_reasoning(hd_answer *a, const char *text, size_t bytes)
{
    if (!a->is_shown || bytes == 0) return;
    a->last_reasoning = text[bytes - 1];
    hd_screen_dim(a->screen, text, bytes);
}

static void end_line(hd_answer *a)
{
    if (a->last_out && a->last_out != '\n') show(a, "\n", 1);
}

static void show_call(hd_answer *a, const hd_parse_event *p)
{
    end_line(a);
    show(a, p->name, p->name_bytes);
    show(a, " ", 1);
    show(a, p->text, p->text_bytes);
    show(a, "\n", 1);
}

/* ---- what is kept ---- */

static void keep_call(hd_answer *a, const hd_parse_event *p)
{
    hd_buffer_text(&a->calls, a->n_calls++ ? ", {\"name\": " : "{\"name\": ");
    hd_json_write_string(&a->calls, p->name, p->name_bytes);
    hd_buffer_text(&a->calls, ", \"arguments\": ");
    hd_json_write_string(&a->calls, p->text, p->text_bytes);
    hd_buffer_text(&a->calls, "}");
}

static void write_prob(hd_answer *a, const hd_token_prob *t)
{
    size_t            bytes = 0;
    const char *const text = hd_tokenizer_bytes(a->tokenizer, t->id, &bytes);
    hd_buffer_printf(&a->probs, "{\"id\": %d, \"token\": ", t->id);
    hd_json_write_string(&a->probs, text ? text : "", text ? bytes : 0);
    if (isfinite(t->logprob))
        hd_buffer_printf(&a->probs, ", \"logprob\": %.7g", (double)t->logprob);
    else
        hd_buffer_text(&a->probs, ", \"logprob\": null");
}

static void keep_probs(hd_answer *a, const hd_sampled *drawn)
{
    if (a->probs.used) hd_buffer_text(&a->probs, ", ");
    write_prob(a, &drawn->token);
    hd_buffer_text(&a->probs, ", \"top\": [");
    for (int32_t i = 0; i < drawn->n_top; i++) {
        if (i) hd_buffer_text(&a->probs, ", ");
        write_prob(a, &drawn->top[i]);
        hd_buffer_text(&a->probs, "}");
    }
    hd_buffer_text(&a->probs, "]}");
}

/* ---- events ---- */

static void take(hd_answer *a, const hd_parse_event *p)
{
    switch (p->kind) {
    case HD_PARSE_REASONING:
        hd_buffer_add(&a->reasoning, p->text, p->text_bytes);
        show_reasoning(a, p->text, p->text_bytes);
        break;
    case HD_PARSE_CONTENT:
        hd_buffer_add(&a->text, p->text, p->text_bytes);
        show(a, p->text, p->text_bytes);
        break;
    case HD_PARSE_CALL:
        keep_call(a, p);
        show_call(a, p);
        break;
    case HD_PARSE_UNPARSED:
        hd_buffer_add(&a->unparsed, p->text, p->text_bytes);
        show(a, p->text, p->text_bytes);
        break;
    }
}

bool hd_answer_on_event(void *answer, const hd_generate_event *e)
{
    hd_answer *const a = answer;
    if (e->token) hd_buffer_add(&a->ids, &e->token->token.id, sizeof e->token->token.id);
    if (e->token && a->has_probs) keep_probs(a, e->token);
    if (e->parse) take(a, e->parse);
    return !(a->stop && *a->stop) && !(a->is_shown && hd_stdout_has_failed());
}

void hd_answer_end(hd_answer *a, bool is_raw)
{
    if (!is_raw || isatty(STDOUT_FILENO)) end_line(a);
    end_reasoning(a);
}

/* ---- life ---- */

void hd_answer_clear(hd_answer *a)
{
    hd_buffer *const all[] = {&a->text, &a->reasoning, &a->unparsed, &a->calls, &a->probs, &a->ids};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) hd_buffer_clear(all[i]);
    a->n_calls = 0;
    a->last_out = 0;
    a->last_reasoning = 0;
}

void hd_answer_free(hd_answer *a)
{
    hd_buffer *const all[] = {&a->text, &a->reasoning, &a->unparsed, &a->calls, &a->probs, &a->ids};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) hd_buffer_free(all[i]);
}

bool hd_answer_has_failed(const hd_answer *a)
{
    return a->text.failed || a->reasoning.failed || a->unparsed.failed || a->calls.failed ||
           a->probs.failed || a->ids.failed;
}

/* ---- JSON ---- */

void hd_answer_write_ids(hd_buffer *out, const int32_t *ids, int32_t n)
{
    hd_buffer_text(out, "[");
    for (int32_t i = 0; i < n; i++) hd_buffer_printf(out, "%s%d", i ? ", " : "", ids[i]);
    hd_buffer_text(out, "]");
}

static void write_text(hd_buffer *out, const char *name, const hd_buffer *text)
{
    hd_buffer_printf(out, "\"%s\": ", name);
    hd_json_write_string(out, text->used ? text->data : "", text->used);
    hd_buffer_text(out, ", ");
}

void hd_answer_write_json(const hd_answer *a, hd_buffer *out)
{
    write_text(out, "text", &a->text);
    write_text(out, "reasoning", &a->reasoning);
    hd_buffer_printf(out, "\"tool_calls\": [%s], ", a->calls.used ? a->calls.data : "");
    write_text(out, "unparsed", &a->unparsed);
    hd_buffer_text(out, "\"ids\": ");
    hd_answer_write_ids(out, (const int32_t *)(const void *)a->ids.data,
                        (int32_t)(a->ids.used / sizeof(int32_t)));
    hd_buffer_printf(out, ", \"logprobs\": [%s]", a->probs.used ? a->probs.data : "");
}
