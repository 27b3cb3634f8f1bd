#include "server/token_routes.h"

#include "base/json_write.h"
#include "server/prompts.h"
#include "server/server_state.h"

/* ---- to ids ---- */

static const char *const chat_members[] = {"messages",
                                           "tools",
                                           "tool_choice",
                                           "response_format",
                                           "thinking",
                                           "reasoning_effort",
                                           "continue_final_message",
                                           "add_generation_prompt"};

/* A conversation as /v1/chat/completions would read it, or a text. */
static hd_status read_ask(hd_ask *a, hd_ask_prompt *p, const hd_fields *b)
{
    a->n = 1;
    if (hd_fields_find(b, "messages")) {
        a->think = HD_THINK_ASKED;
        hd_buffer_text(&a->chat, "{");
        HD_TRY(hd_fields_copy(b, chat_members, sizeof chat_members / sizeof chat_members[0],
                              &a->chat));
        hd_buffer_text(&a->chat, "}");
        return a->chat.failed ? hd_ask_fail_memory(b->error) : HD_OK;
    }
    HD_TRY(hd_fields_text(b, "prompt", &p->text, &p->bytes));
    if (!p->text) return hd_fields_wrong(b, "prompt", NULL, "a text, or messages");
    HD_TRY(hd_fields_bool(b, "add_special_tokens", &a->has_bos));
    a->prompts = p;
    a->n_prompts = 1;
    return HD_OK;
}

static void write_tokens(hd_buffer *out, const hd_server *s, const hd_encoded *e, bool has_texts)
{
    hd_buffer_printf(out, "{\"count\":%d,\"max_model_len\":%d,\"tokens\":[", e->n,
                     s->context.max_tokens);
    for (int32_t i = 0; i < e->n; i++) hd_buffer_printf(out, i ? ",%d" : "%d", e->ids[i]);
    hd_buffer_text(out, "]");
    for (int32_t i = 0; has_texts && i < e->n; i++) {
        size_t            bytes = 0;
        const char *const text = hd_tokenizer_bytes(s->context.tokenizer, e->ids[i], &bytes);
        hd_buffer_text(out, i ? "," : ",\"token_strs\":[");
        hd_json_write_string(out, text ? text : "", text ? bytes : 0);
    }
    hd_buffer_text(out, has_texts && e->n > 0 ? "]}" : "}");
}

/* An empty text has no token, which is no mistake here. */
static hd_status encode(hd_encoded *out, const hd_ask *a, const hd_fields *b, const hd_server *s)
{
    bool const is_empty = !a->chat.used && a->prompts[0].bytes == 0 && !a->has_bos;
    *out = (hd_encoded){0};
    return is_empty ? HD_OK : hd_prompts_encode(out, a, 0, &s->context, b->error);
}

hd_status hd_route_tokenize(hd_server *s, const hd_fields *b, hd_response *out)
{
    hd_ask        a = {0};
    hd_ask_prompt p = {0};
    hd_encoded    e = {0};
    bool          has_texts = false;
    hd_status     status = read_ask(&a, &p, b);
    if (status == HD_OK) status = hd_fields_bool(b, "return_token_strs", &has_texts);
    if (status == HD_OK) status = encode(&e, &a, b, s);
    if (status == HD_OK) write_tokens(&out->body, s, &e, has_texts);
    hd_memory_free(e.ids);
    hd_ask_free(&a);
    return status;
}

/* ---- and back ---- */

static void write_text(hd_buffer *out, const hd_buffer *text)
{
    hd_buffer_text(out, "{\"prompt\":");
    hd_json_write_string(out, text->used ? text->data : "", text->used);
    hd_buffer_text(out, "}");
}

hd_status hd_route_detokenize(hd_server *s, const hd_fields *b, hd_response *out)
{
    const json_object *const v = hd_fields_find(b, "tokens");
    hd_buffer                text = {0};
    hd_status                status = HD_OK;
    if (!json_object_is_type(v, json_type_array))
        return hd_fields_wrong(b, "tokens", v, "a list of ids");
    size_t const n = json_object_array_length(v);
    for (size_t i = 0; i < n && status == HD_OK; i++) {
        int64_t    id = -1;
        size_t     bytes = 0;
        bool const is_id = hd_json_whole(json_object_array_get_idx(v, i), &id) && id >= 0 &&
                           id < s->context.n_vocab;
        const char *const t =
            is_id ? hd_tokenizer_bytes(s->context.tokenizer, (int32_t)id, &bytes) : NULL;
        if (t)
            hd_buffer_add(&text, t, bytes);
        else
            status = hd_api_refuse(b->error, "tokens", "entry %zu is no id of a token", i);
    }
    if (status == HD_OK && text.failed) status = hd_ask_fail_memory(b->error);
    if (status == HD_OK) write_text(&out->body, &text);
    hd_buffer_free(&text);
    return status;
}

static void write_control(hd_buffer *out, const hd_server *s, const char *name, int32_t id)
{
    size_t            bytes = 0;
    const char *const text = hd_tokenizer_bytes(s->context.tokenizer, id, &bytes);
    hd_buffer_printf(out, ",\"%s\":", name);
    hd_json_write_string(out, text ? text : "", text ? bytes : 0);
}

void hd_route_tokenizer_info(hd_server *s, const hd_http_request *r, hd_response *out)
{
    (void)r;
    hd_buffer_printf(&out->body,
                     "{\"tokenizer_class\":\"hadal\",\"vocab_size\":%d,\"model_max_length\":%d,"
                     "\"add_bos_token\":false,\"add_eos_token\":false",
                     s->context.n_vocab, s->context.max_tokens);
    write_control(&out->body, s, "bos_token", s->info.bos);
    write_control(&out->body, s, "eos_token", s->info.eos);
    hd_buffer_text(&out->body, "}");
}
