#include "server/prompts.h"

#include <string.h>

static hd_status make_room(hd_encoded *out, size_t n, hd_api_error *e)
{
    if (n > INT32_MAX)
        return hd_api_fail(e, 400, hd_api_type_of(400), "context_length_exceeded",
                           "the prompt is too long: %zu bytes", n);
    out->ids = hd_memory_alloc(n * sizeof *out->ids);
    return out->ids ? HD_OK : hd_ask_fail_memory(e);
}

/* ---- conversations ---- */

static hd_status encode_prompt(hd_encoded *out, const hd_prompt *p, const hd_ask_context *c,
                               hd_api_error *e)
{
    hd_error err = {0};
    HD_TRY(make_room(out, p->text_bytes, e));
    hd_status const s =
        hd_prompt_encode(p, c->tokenizer, out->ids, (int32_t)p->text_bytes, &out->n, &err);
    out->start = p->start;
    out->has_tools = p->has_tools;
    return s == HD_OK ? HD_OK : hd_api_pass_on(e, &err);
}

static hd_status encode_chat(hd_encoded *out, const hd_ask *a, const hd_ask_context *c,
                             hd_api_error *e)
{
    hd_error  err = {0};
    hd_prompt p = {0};
    if (hd_prompt_chat(&p, a->chat.data, a->chat.used, c->dialect, a->think, &err) != HD_OK)
        return hd_api_pass_on(e, &err);
    hd_status const s = encode_prompt(out, &p, c, e);
    hd_prompt_free(&p);
    return s;
}

/* ---- texts ---- */

static hd_status add_control(hd_encoded *out, const hd_ask_context *c, const char *spelling,
                             hd_api_error *e)
{
    int32_t const id = hd_tokenizer_control_id(c->tokenizer, spelling, strlen(spelling));
    if (id < 0) return hd_api_refuse(e, "suffix", "this model has no token %s", spelling);
    out->ids[out->n++] = id;
    return HD_OK;
}

/* `control` true: spellings of control tokens become these tokens, as raw prompts need them. */
static hd_status add_text(hd_encoded *out, const hd_ask_context *c, const char *text, size_t bytes,
                          bool control, hd_api_error *e)
{
    hd_error err = {0};
    int32_t  n = 0;
    if (hd_tokenizer_encode(c->tokenizer, text, bytes, control, out->ids + out->n, (int32_t)bytes,
                            &n, &err) != HD_OK)
        return hd_api_pass_on(e, &err);
    out->n += n;
    return HD_OK;
}

/* The answer goes between prompt and suffix. */
static hd_status encode_between(hd_encoded *out, const hd_ask *a, const hd_ask_prompt *p,
                                const hd_ask_context *c, hd_api_error *e)
{
    HD_TRY(add_control(out, c, "<｜fim▁begin｜>", e));
    HD_TRY(add_text(out, c, p->text, p->bytes, false, e));
    HD_TRY(add_control(out, c, "<｜fim▁hole｜>", e));
    HD_TRY(add_text(out, c, a->suffix, a->suffix_bytes, false, e));
    return add_control(out, c, "<｜fim▁end｜>", e);
}

bool hd_prompts_adds_bos(const hd_ask *a, const hd_ask_prompt *p, const hd_tokenizer *t,
                         int32_t bos)
{
    size_t            bytes = 0;
    const char *const spelling = hd_tokenizer_bytes(t, bos, &bytes);
    if (!a->has_bos || !p->text) return false;
    /* Beside a suffix the spelling is ordinary text. */
    if (a->suffix || !spelling || bytes == 0) return true;
    return p->bytes < bytes || memcmp(p->text, spelling, bytes) != 0;
}

static hd_status encode_text(hd_encoded *out, const hd_ask *a, const hd_ask_prompt *p,
                             const hd_ask_context *c, hd_api_error *e)
{
    enum { MOST_CONTROL = 4 };
    size_t bytes = 0;
    if (!hd_size_add(p->bytes, a->suffix_bytes + MOST_CONTROL, &bytes)) bytes = SIZE_MAX;
    HD_TRY(make_room(out, bytes, e));
    if (hd_prompts_adds_bos(a, p, c->tokenizer, c->bos)) out->ids[out->n++] = c->bos;
    if (a->suffix) return encode_between(out, a, p, c, e);
    return add_text(out, c, p->text, p->bytes, true, e);
}

static hd_status copy_ids(hd_encoded *out, const hd_ask_prompt *p, hd_api_error *e)
{
    HD_TRY(make_room(out, (size_t)p->n_ids, e));
    memcpy(out->ids, p->ids, (size_t)p->n_ids * sizeof *out->ids);
    out->n = p->n_ids;
    return HD_OK;
}

/* ---- the whole ---- */

hd_status hd_prompts_encode(hd_encoded *out, const hd_ask *a, int32_t index,
                            const hd_ask_context *c, hd_api_error *e)
{
    const hd_ask_prompt *const p = a->chat.used ? NULL : &a->prompts[index];
    hd_status                  s;
    *out = (hd_encoded){.start = HD_START_CONTENT};
    if (!p)
        s = encode_chat(out, a, c, e);
    else
        s = p->text ? encode_text(out, a, p, c, e) : copy_ids(out, p, e);
    if (s == HD_OK && out->n == 0) s = hd_api_refuse(e, "prompt", "it has no token");
    if (s != HD_OK) {
        hd_memory_free(out->ids);
        out->ids = NULL;
    }
    return s;
}
