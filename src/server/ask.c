#include "server/ask.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STOPS = 64, MAX_STOP_BYTES = 1024, MAX_BIASES = 4096 };

void hd_ask_free(hd_ask *a)
{
    hd_buffer_free(&a->chat);
    hd_pool_free(&a->pool);
    *a = (hd_ask){0};
}

int32_t hd_ask_count(const hd_ask *a) { return a->n * (a->chat.used ? 1 : a->n_prompts); }

hd_status hd_ask_fail_memory(hd_api_error *e)
{
    return hd_api_fail(e, 503, hd_api_type_of(503), NULL, "no memory for the request"),
           HD_ERR_MEMORY;
}

hd_status hd_ask_read_model(const hd_fields *b, const hd_ask_context *c)
{
    const char *name = c->model;
    HD_TRY(hd_fields_text(b, "model", &name, NULL));
    if (strcmp(name, c->model) == 0) return HD_OK;
    hd_api_refuse(b->error, "model", "there is no %.100s here, only %.100s", name, c->model);
    b->error->status = 404;
    b->error->code = "model_not_found";
    return HD_ERR_FORMAT;
}

/* ---- drawing ---- */

typedef struct real_member {
    const char *name;
    double      least, most;
    size_t      offset; /* in hd_sampling */
} real_member;

static hd_status read_reals(hd_sampling *s, const hd_fields *b)
{
    static const real_member members[] = {
        {"temperature", 0, 2, offsetof(hd_sampling, temperature)},
        {"top_p", 0, 1, offsetof(hd_sampling, top_p)},
        {"min_p", 0, 1, offsetof(hd_sampling, min_p)},
        {"presence_penalty", -2, 2, offsetof(hd_sampling, presence_penalty)},
        {"frequency_penalty", -2, 2, offsetof(hd_sampling, frequency_penalty)},
        {"repetition_penalty", 0, 100, offsetof(hd_sampling, repetition_penalty)}};
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const real_member *const m = &members[i];
        HD_TRY(hd_fields_real(b, m->name, m->least, m->most,
                              (float *)(void *)((char *)s + m->offset)));
    }
    /* Of hardly any share the likeliest token is left; 0 means all to the sampler. */
    if (hd_fields_find(b, "top_p") && s->top_p == 0) s->top_p = FLT_MIN;
    return HD_OK;
}

static hd_status read_integers(hd_ask *a, const hd_fields *b, const hd_ask_context *c)
{
    int64_t top_k = 0, min_new = 0, seed = 0, n = 1;
    HD_TRY(hd_fields_integer(b, "top_k", -1, INT32_MAX, &top_k));
    HD_TRY(hd_fields_integer(b, "min_tokens", 0, INT32_MAX, &min_new));
    HD_TRY(hd_fields_integer(b, "seed", INT64_MIN, INT64_MAX, &seed));
    HD_TRY(hd_fields_integer(b, "n", 1, c->max_answers, &n));
    HD_TRY(hd_fields_bool(b, "ignore_eos", &a->generate.ignore_eos));
    a->generate.sampling.top_k = top_k > 0 ? (int32_t)top_k : 0;
    a->generate.min_new = (int32_t)min_new;
    a->generate.sampling.seed = (uint64_t)seed;
    a->has_seed = hd_fields_find(b, "seed");
    a->n = (int32_t)n;
    return HD_OK;
}

/* An id in `key`, whole. */
static bool read_id(const char *key, int32_t n_vocab, int32_t *id)
{
    char      *end = NULL;
    long const n = strtol(key, &end, 10);
    if (key[0] < '0' || key[0] > '9' || *end || n >= n_vocab) return false;
    *id = (int32_t)n;
    return true;
}

static hd_status read_biases(hd_ask *a, const hd_fields *b, const hd_ask_context *c)
{
    const json_object *const v = hd_fields_find(b, "logit_bias");
    hd_sampling *const       s = &a->generate.sampling;
    if (!v) return HD_OK;
    if (!json_object_is_type(v, json_type_object))
        return hd_fields_wrong(b, "logit_bias", v, "an object");
    int const n = json_object_object_length(v);
    if (n > MAX_BIASES)
        return hd_api_refuse(b->error, "logit_bias", "%d ids, at most %d", n, MAX_BIASES);
    hd_logit_bias *const list = hd_pool_alloc(&a->pool, (size_t)n * sizeof *list);
    if (!list) return hd_ask_fail_memory(b->error);
    json_object_object_foreach((json_object *)(uintptr_t)v, key, value)
    {
        bool const is_number = json_object_is_type(value, json_type_int) ||
                               json_object_is_type(value, json_type_double);
        double const x = is_number ? json_object_get_double(value) : 1000;
        int32_t      id = 0;
        if (!read_id(key, c->n_vocab, &id))
            return hd_api_refuse(b->error, "logit_bias", "%.40s is no id below %d", key,
                                 c->n_vocab);
        if (!(x >= -100 && x <= 100))
            return hd_api_refuse(b->error, "logit_bias", "of %d: wanted a number -100 .. 100", id);
        list[s->n_bias++] = (hd_logit_bias){id, (float)x};
    }
    s->bias = list;
    return HD_OK;
}

/* ---- ends ---- */

static hd_status add_stop(const hd_fields *b, const char *name, const json_object *v,
                          const char **out)
{
    size_t bytes = 0;
    *out = hd_json_text(v, &bytes);
    if (!*out) return hd_fields_wrong(b, name, v, "a string or a list of strings");
    if (bytes == 0 || bytes > MAX_STOP_BYTES || strlen(*out) != bytes)
        return hd_api_refuse(b->error, name, "wanted 1 .. %d bytes without NUL", MAX_STOP_BYTES);
    return HD_OK;
}

/* The texts are copied, for the body goes before the answer. */
static hd_status copy_stops(hd_ask *a, const hd_fields *b, const char **list, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        list[i] = hd_pool_copy(&a->pool, list[i], strlen(list[i]));
        if (!list[i]) return hd_ask_fail_memory(b->error);
    }
    a->generate.stop = list;
    a->generate.n_stop = n;
    return HD_OK;
}

hd_status hd_ask_read_stop(hd_ask *a, const hd_fields *b, const char *name)
{
    const json_object *const v = hd_fields_find(b, name);
    bool const               is_list = json_object_is_type(v, json_type_array);
    if (!v) return HD_OK;
    size_t const n = is_list ? json_object_array_length(v) : 1;
    if (n > MAX_STOPS)
        return hd_api_refuse(b->error, name, "%zu strings, at most %d", n, MAX_STOPS);
    const char **const list = hd_pool_alloc(&a->pool, n * sizeof *list);
    if (!list) return hd_ask_fail_memory(b->error);
    for (size_t i = 0; i < n; i++)
        HD_TRY(add_stop(b, name, is_list ? json_object_array_get_idx(v, i) : v, &list[i]));
    return copy_stops(a, b, list, (int32_t)n);
}

static hd_status read_stop_ids(hd_ask *a, const hd_fields *b, const hd_ask_context *c)
{
    const json_object *const v = hd_fields_find(b, "stop_token_ids");
    if (!v) return HD_OK;
    if (!json_object_is_type(v, json_type_array))
        return hd_fields_wrong(b, "stop_token_ids", v, "a list of ids");
    size_t const n = json_object_array_length(v);
    if (n > HD_MAX_STOP_IDS)
        return hd_api_refuse(b->error, "stop_token_ids", "%zu ids, at most %d", n, HD_MAX_STOP_IDS);
    int32_t *const ids = hd_pool_alloc(&a->pool, n * sizeof *ids);
    if (!ids) return hd_ask_fail_memory(b->error);
    for (size_t i = 0; i < n; i++) {
        int64_t id = -1;
        if (!hd_json_whole(json_object_array_get_idx(v, i), &id) || id < 0 || id >= c->n_vocab)
            return hd_api_refuse(b->error, "stop_token_ids", "wanted ids 0 .. %d", c->n_vocab - 1);
        ids[i] = (int32_t)id;
    }
    a->generate.stop_ids = ids;
    a->generate.n_stop_ids = (int32_t)n;
    return HD_OK;
}

hd_status hd_ask_read_drawing(hd_ask *a, const hd_fields *b, const hd_ask_context *c)
{
    a->generate.sampling.temperature = c->default_temperature;
    HD_TRY(read_reals(&a->generate.sampling, b));
    HD_TRY(read_integers(a, b, c));
    HD_TRY(read_biases(a, b, c));
    HD_TRY(hd_ask_read_stop(a, b, "stop"));
    return read_stop_ids(a, b, c);
}

/* ---- how it is told ---- */

hd_status hd_ask_read_stream(hd_ask *a, const hd_fields *b)
{
    const json_object *const v = hd_fields_find(b, "stream_options");
    hd_fields const          options = {.root = (json_object *)(uintptr_t)v, .error = b->error};
    HD_TRY(hd_fields_bool(b, "stream", &a->is_streamed));
    if (!v) return HD_OK;
    if (!json_object_is_type(v, json_type_object))
        return hd_fields_wrong(b, "stream_options", v, "an object");
    if (!a->is_streamed)
        return hd_api_refuse(b->error, "stream_options", "only together with stream");
    HD_TRY(hd_fields_bool(&options, "include_usage", &a->has_usage));
    HD_TRY(hd_fields_bool(&options, "continuous_usage_stats", &a->has_running_usage));
    a->has_running_usage = a->has_running_usage && a->has_usage;
    return HD_OK;
}

hd_status hd_ask_refuse_members(const hd_fields *b, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (hd_fields_find(b, names[i]))
            return hd_api_refuse(b->error, names[i], "is not supported here");
    return HD_OK;
}
