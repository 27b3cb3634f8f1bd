#include "tokenizer/prompt_text.h"

#include <string.h>

#include "tokenizer/chat_tokens.h"

void hd_prompt_text_control(hd_prompt_text *p, const char *token)
{
    hd_span const span = {p->text.used, p->text.used + strlen(token)};
    hd_buffer_text(&p->text, token);
    hd_buffer_add(&p->spans, &span, sizeof span);
}

/* The control token that `text` begins with, or NULL. */
static const char *find_token(const char *text)
{
    static const char *const tokens[] = {HD_TOKEN_DSML, HD_TOKEN_THINK, HD_TOKEN_THINK_END};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        if (strncmp(text, tokens[i], strlen(tokens[i])) == 0) return tokens[i];
    return NULL;
}

void hd_prompt_text_fixed(hd_prompt_text *p, const char *text, size_t bytes)
{
    const char       *kept = text; /* [kept, text) is still to be copied as plain text */
    const char *const end = text + bytes;
    while (text < end) {
        const char *const token = find_token(text);
        if (!token) {
            text++;
            continue;
        }
        hd_buffer_add(&p->text, kept, (size_t)(text - kept));
        hd_prompt_text_control(p, token);
        text += strlen(token);
        kept = text;
    }
    hd_buffer_add(&p->text, kept, (size_t)(text - kept));
}

hd_status hd_prompt_text_finish(hd_prompt *out, hd_prompt_text *p, hd_error *err)
{
    hd_buffer_add(&p->text, "", 0); /* an empty prompt has its NUL, too */
    if (p->text.failed || p->spans.failed) {
        hd_prompt_text_free(p);
        HD_FAIL(err, HD_ERR_MEMORY, "prompt: out of memory for its text");
    }
    out->text = p->text.data;
    out->text_bytes = p->text.used;
    out->control = (hd_span *)(void *)p->spans.data;
    out->n_control = p->spans.used / sizeof(hd_span);
    out->start = p->start;
    out->has_tools = p->has_tools;
    *p = (hd_prompt_text){0};
    return HD_OK;
}

void hd_prompt_text_free(hd_prompt_text *p)
{
    hd_buffer_free(&p->text);
    hd_buffer_free(&p->spans);
}

void hd_prompt_free(hd_prompt *p)
{
    if (!p) return;
    hd_memory_free(p->text);
    hd_memory_free(p->control);
    *p = (hd_prompt){0};
}
