#include "server/openai_prompt.h"

#include "server/openai_offers.h"

/* What hd_prompt_chat looks at, but for a choice of tools that the grammar enforces. */
static const char *const prompt_members[] = {"messages",
                                             "tools",
                                             "response_format",
                                             "thinking",
                                             "reasoning_effort",
                                             "continue_final_message",
                                             "add_generation_prompt"};

static hd_status check_messages(const hd_fields *b)
{
    const json_object *const v = hd_fields_find(b, "messages");
    if (!json_object_is_type(v, json_type_array))
        return hd_fields_wrong(b, "messages", v, "a list of messages");
    if (json_object_array_length(v) == 0)
        return hd_api_refuse(b->error, "messages", "the list is empty");
    return HD_OK;
}

/* Other servers' words for thinking; those of the API itself come first. */
static hd_status write_template_words(hd_ask *out, const hd_fields *b)
{
    const json_object *const v = hd_fields_find(b, "chat_template_kwargs");
    hd_fields const          words = {.root = (json_object *)(uintptr_t)v, .error = b->error};
    bool                     is_thinking = false;
    if (!v) return HD_OK;
    if (!json_object_is_type(v, json_type_object))
        return hd_fields_wrong(b, "chat_template_kwargs", v, "an object");
    HD_TRY(hd_fields_bool(&words, "enable_thinking", &is_thinking));
    HD_TRY(hd_fields_bool(&words, "thinking", &is_thinking));
    bool const has_word =
        hd_fields_find(&words, "thinking") || hd_fields_find(&words, "enable_thinking");
    if (has_word && !hd_fields_find(b, "thinking"))
        hd_buffer_printf(&out->chat, ", \"thinking\": {\"type\": \"%s\"}",
                         is_thinking ? "enabled" : "disabled");
    return HD_OK;
}

static hd_status write_chat(hd_ask *out, const hd_fields *b)
{
    hd_buffer_text(&out->chat, "{");
    HD_TRY(hd_fields_copy(b, prompt_members, sizeof prompt_members / sizeof prompt_members[0],
                          &out->chat));
    HD_TRY(write_template_words(out, b));
    if (hd_json_equals(hd_fields_find(b, "tool_choice"), "none"))
        hd_buffer_text(&out->chat, ", \"tool_choice\": \"none\"");
    hd_buffer_text(&out->chat, "}");
    out->think = HD_THINK_ASKED;
    return out->chat.failed ? hd_ask_fail_memory(b->error) : HD_OK;
}

hd_status hd_openai_read_prompt(hd_ask *out, const hd_fields *b)
{
    HD_TRY(check_messages(b));
    HD_TRY(hd_openai_read_offers(out, b));
    return write_chat(out, b);
}

hd_status hd_openai_read_written(hd_ask *out, const hd_buffer *request, hd_api_error *e)
{
    hd_fields b;
    if (request->failed) return hd_ask_fail_memory(e);
    HD_TRY(hd_fields_open(&b, request->data, request->used, e));
    hd_status const s = hd_openai_read_prompt(out, &b);
    hd_fields_close(&b);
    return s;
}
