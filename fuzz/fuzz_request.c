#include <stdlib.h>
#include <string.h>

#include "server/anthropic_messages.h"
#include "server/prompts.h"
#include "server/server_state.h"
#include "server/token_routes.h"

/* Bodies of requests through every route that reads one: the translation of an API up to the
 * prompt's tokens, or all of a route that answers at once. */

typedef struct target {
    const hd_api *api; /* or: */
    hd_status (*work)(struct hd_server *s, const hd_fields *b, hd_response *out);
} target;

static const target targets[] = {
    {&hd_api_openai_chat, NULL},       {&hd_api_openai_completions, NULL},
    {&hd_api_openai_responses, NULL},  {&hd_api_anthropic_messages, NULL},
    {NULL, hd_anthropic_count_tokens}, {NULL, hd_route_tokenize},
    {NULL, hd_route_detokenize}};

static hd_tokenizer *open_tokenizer(void)
{
    static hd_tokenizer *t;
    hd_error             err = {0};
    if (!t && hd_tokenizer_open(&t, "models/demo", &err) != HD_OK) abort();
    return t;
}

/* What is sent must be JSON, whatever the client's texts are. */
static void check_json(const char *text, size_t bytes)
{
    json_object *v = NULL;
    hd_error     err = {0};
    if (hd_json_parse(&v, text, bytes, HD_JSON_PYTHON | HD_JSON_UNIQUE, "sent", &err) != HD_OK)
        abort();
    json_object_put(v);
}

static void check_error(const hd_api_error *e)
{
    static const hd_api *const shapes[] = {&hd_api_openai_chat, &hd_api_anthropic_messages};
    if (e->status < 400 || e->status >= 500 || !e->type || !e->message[0]) abort();
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        hd_buffer out = {0};
        shapes[i]->write_error(&out, e, "id");
        check_json(out.data, out.used);
        hd_buffer_free(&out);
    }
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

/* What the answer repeats stands behind other members. */
static void check_told(const hd_ask *a)
{
    hd_buffer out = {0};
    if (!a->told) return;
    hd_buffer_printf(&out, "{\"id\":0%s}", a->told);
    check_json(out.data, out.used);
    hd_buffer_free(&out);
}

static hd_status run_api(const hd_api *api, const hd_fields *b, const hd_ask_context *c)
{
    hd_ask          a = {0};
    hd_status const s = api->read(&a, b, c);
    if (s == HD_OK) {
        check_ask(&a, c);
        check_told(&a);
        encode_all(&a, c);
    }
    hd_ask_free(&a);
    return s;
}

static hd_status run_work(const target *to, const hd_fields *b, const hd_ask_context *c)
{
    hd_server       server = {.context = *c};
    hd_response     out = {0};
    hd_status const s = to->work(&server, b, &out);
    if (s == HD_OK) check_json(out.body.data, out.body.used);
    hd_buffer_free(&out.body);
    return s;
}

static void run(const target *to, const char *text, size_t bytes, hd_dialect dialect)
{
    hd_tokenizer *const  t = open_tokenizer();
    hd_ask_context const c = {.tokenizer = t,
                              .model = "m",
                              .dialect = dialect,
                              .n_vocab = hd_tokenizer_vocab(t),
                              .max_tokens = 4096,
                              .max_answers = 16,
                              .default_temperature = 1};
    hd_api_error         e = {0};
    hd_fields            b;
    hd_status            s = hd_fields_open(&b, text, bytes, &e);
    if (s == HD_OK) s = to->api ? run_api(to->api, &b, &c) : run_work(to, &b, &c);
    hd_fields_close(&b);
    if (s != HD_OK) check_error(&e);
}

/* The first byte chooses route and dialect, the rest is the body. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    run(&targets[(data[0] & 15) % (sizeof targets / sizeof targets[0])], (const char *)data + 1,
        size - 1, (hd_dialect)(data[0] >> 4 & 3));
    return 0;
}
