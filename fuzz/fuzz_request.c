#include <stdlib.h>
#include <string.h>

#include "server/api.h"
#include "server/prompts.h"

/* Bodies of requests through the translation of each API, up to the prompt's tokens. */

static hd_tokenizer *open_tokenizer(void)
{
    static hd_tokenizer *t;
    hd_error             err = {0};
    if (!t && hd_tokenizer_open(&t, "models/demo", &err) != HD_OK) abort();
    return t;
}

static void check_error(const hd_api_error *e)
{
    hd_buffer    out = {0};
    json_object *v = NULL;
    hd_error     err = {0};
    if (e->status < 400 || e->status >= 500 || !e->type || !e->message[0]) abort();
    hd_api_write_error(&out, e);
    if (hd_json_parse(&v, out.data, out.used, HD_JSON_UNIQUE, "error", &err) != HD_OK) abort();
    json_object_put(v);
    hd_buffer_free(&out);
}

static void check_ask(const hd_ask *a, const hd_ask_context *c)
{
    const hd_sampling *const s = &a->generate.sampling;
    if (hd_ask_count(a) < 1 || a->n > c->max_answers) abort();
    if (!(s->temperature >= 0 && s->temperature <= 2)) abort();
    if (!(s->top_p >= 0 && s->top_p <= 1) || s->top_k < 0) abort();
    if (a->generate.n_stop_ids > HD_MAX_STOP_IDS || a->generate.n_top > HD_MAX_TOP_LOGPROBS)
        abort();
    if (a->has_running_usage && !a->has_usage) abort();
    for (int32_t i = 0; i < a->generate.n_stop; i++)
        if (!a->generate.stop[i][0]) abort();
}

static void encode_all(const hd_ask *a, const hd_ask_context *c)
{
    int32_t const n = a->chat.used ? 1 : a->n_prompts;
    for (int32_t i = 0; i < n; i++) {
        hd_encoded   prompt;
        hd_api_error e = {0};
        if (hd_prompts_encode(&prompt, a, i, c, &e) != HD_OK) {
            check_error(&e);
            continue;
        }
        for (int32_t k = 0; k < prompt.n; k++)
            if (prompt.ids[k] < 0 || prompt.ids[k] >= c->n_vocab) abort();
        hd_memory_free(prompt.ids);
    }
}

static void run(const hd_api *api, const char *text, size_t bytes, hd_dialect dialect)
{
    hd_tokenizer *const  t = open_tokenizer();
    hd_ask_context const c = {.tokenizer = t,
                              .model = "m",
                              .dialect = dialect,
                              .n_vocab = hd_tokenizer_vocab(t),
                              .max_tokens = 4096,
                              .max_answers = 16,
                              .default_temperature = 1};
    hd_ask               a = {0};
    hd_api_error         e = {0};
    hd_fields            b;
    hd_status            s = hd_fields_open(&b, text, bytes, &e);
    if (s == HD_OK) s = api->read(&a, &b, &c);
    hd_fields_close(&b);
    if (s != HD_OK) {
        check_error(&e);
    } else {
        check_ask(&a, &c);
        encode_all(&a, &c);
    }
    hd_ask_free(&a);
}

/* The first byte chooses API and dialect, the rest is the body. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const hd_api *const apis[] = {&hd_api_openai_chat, &hd_api_openai_completions};
    if (size == 0) return 0;
    run(apis[data[0] % (sizeof apis / sizeof apis[0])], (const char *)data + 1, size - 1,
        (hd_dialect)(data[0] >> 4 & 3));
    return 0;
}
