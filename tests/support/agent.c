#include "agent.h"

#include <string.h>

#include "base/json_write.h"

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\","
    " \"description\": \"Get the weather of a city\", \"parameters\": {\"type\": \"object\","
    " \"properties\": {\"location\": {\"type\": \"string\"}}, \"required\": [\"location\"]}}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"calculate\","
    " \"description\": \"Multiply two numbers\", \"parameters\": {\"type\": \"object\","
    " \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": \"integer\"}},"
    " \"required\": [\"a\", \"b\"]}}}]";

static void add_message(agent *a) { hd_buffer_text(&a->messages, a->messages.used ? ", " : ""); }

void agent_open(agent *a, bool has_tools, bool keeps_reasoning, hd_think think, hd_dialect d)
{
    *a = (agent){
        .has_tools = has_tools, .keeps_reasoning = keeps_reasoning, .think = think, .dialect = d};
    hd_buffer_text(&a->messages,
                   "{\"role\": \"system\", \"content\": \"You are a helpful assistant.\"}");
}

void agent_close(agent *a)
{
    hd_buffer_free(&a->messages);
    hd_buffer_free(&a->content);
    hd_buffer_free(&a->reasoning);
    hd_buffer_free(&a->calls);
}

void agent_ask(agent *a, const char *text)
{
    add_message(a);
    hd_buffer_text(&a->messages, "{\"role\": \"user\", \"content\": ");
    hd_json_write_string(&a->messages, text, strlen(text));
    hd_buffer_text(&a->messages, "}");
}

hd_status agent_render(agent *a, const hd_tokenizer *t, int32_t *ids, int32_t cap, int32_t *n,
                       hd_parse_start *start, hd_error *err)
{
    hd_buffer request = {0};
    hd_prompt p = {0};
    hd_buffer_text(&request, "{\"messages\": [");
    hd_buffer_add(&request, a->messages.data, a->messages.used);
    hd_buffer_text(&request, "]");
    if (a->has_tools) hd_buffer_printf(&request, ", \"tools\": %s", tools);
    hd_buffer_text(&request, "}");
    hd_status s = hd_prompt_chat(&p, request.data, request.used, a->dialect, a->think, err);
    if (s == HD_OK) s = hd_prompt_encode(&p, t, ids, cap, n, err);
    *start = p.start;
    hd_prompt_free(&p);
    hd_buffer_free(&request);
    return s;
}

void agent_hear(agent *a, const hd_parse_event *e)
{
    if (e->kind == HD_PARSE_REASONING) hd_buffer_add(&a->reasoning, e->text, e->text_bytes);
    if (e->kind == HD_PARSE_CONTENT || e->kind == HD_PARSE_UNPARSED)
        hd_buffer_add(&a->content, e->text, e->text_bytes);
    if (e->kind != HD_PARSE_CALL) return;
    hd_buffer_printf(&a->calls,
                     "%s{\"id\": \"call_%d\", \"type\": \"function\", \"function\": {\"name\": ",
                     a->n_calls ? ", " : "", a->n_calls);
    hd_json_write_string(&a->calls, e->name, e->name_bytes);
    hd_buffer_text(&a->calls, ", \"arguments\": ");
    hd_json_write_string(&a->calls, e->text, e->text_bytes);
    hd_buffer_text(&a->calls, "}}");
    a->n_calls++;
}

static void add_text(agent *a, const char *name, const hd_buffer *text)
{
    hd_buffer_printf(&a->messages, ", \"%s\": ", name);
    hd_json_write_string(&a->messages, text->data ? text->data : "", text->used);
}

bool agent_take(agent *a)
{
    int32_t const n = a->n_calls;
    add_message(a);
    hd_buffer_text(&a->messages, "{\"role\": \"assistant\"");
    add_text(a, "content", &a->content);
    if (a->keeps_reasoning && a->reasoning.used) add_text(a, "reasoning_content", &a->reasoning);
    if (n) hd_buffer_printf(&a->messages, ", \"tool_calls\": [%s]", a->calls.data);
    hd_buffer_text(&a->messages, "}");
    for (int32_t i = 0; i < n; i++) {
        add_message(a);
        hd_buffer_printf(&a->messages,
                         "{\"role\": \"tool\", \"tool_call_id\": \"call_%d\", \"content\": "
                         "\"sunny, 21 degrees\"}",
                         i);
    }
    hd_buffer_clear(&a->content);
    hd_buffer_clear(&a->reasoning);
    hd_buffer_clear(&a->calls);
    a->n_calls = 0;
    return n > 0;
}
