#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json_write.h"
#include "doctor/quantize_parts.h"

/* What config.json and hf_quant_config.json say about numbers, in ModelOpt's words, which the
 * loaders of these folders read.  It is written as text first, so that want of memory shows. */

#define MAX_CONFIG_BYTES ((size_t)16 << 20)
#define PRODUCER         "hadal"

static void put_text(hd_buffer *out, const char *s) { hd_json_write_string(out, s, strlen(s)); }

/* Without calibration only weights have scales, and there is a word for that. */
static const char *algo_of(const hd_quantize *q) { return q->opt.engine ? "NVFP4" : "W4A16_NVFP4"; }

static void put_producer(const hd_quantize *q, hd_buffer *out)
{
    hd_buffer_text(out, "\"producer\": {\"name\": \"" PRODUCER "\", \"version\": ");
    put_text(out, q->opt.version);
    hd_buffer_text(out, "}");
}

static void put_groups(const hd_quantize *q, hd_buffer *out)
{
    static const char numbers[] =
        "{\"dynamic\": false, \"num_bits\": 4, \"type\": \"float\", \"group_size\": 16}";
    hd_buffer_text(out, "\"config_groups\": {\"group_0\": {");
    if (q->opt.engine) hd_buffer_printf(out, "\"input_activations\": %s, ", numbers);
    hd_buffer_printf(out, "\"weights\": %s, \"targets\": [\"Linear\"]}}", numbers);
}

/* ---- lists of modules ---- */

/* The module of a matrix, experts together: "layers.3.ffn.experts". */
static hd_status name_module(const hd_quantize *q, const char *matrix, char out[HD_NAME_MAX],
                             hd_error *err)
{
    static const char mark[] = ".experts.";
    HD_TRY(hd_quantize_name(q, out, matrix, err));
    char *const at = strstr(out, mark);
    if (at) at[sizeof mark - 2] = '\0';
    return HD_OK;
}

static bool is_nvfp4(const hd_quantize *q, const hd_scanned *m)
{
    return m->format == HD_FMT_NVFP4 || hd_name_map_find(&q->by_name, m->name) >= 0;
}

/* Adds each module whose matrices are NVFP4 in the result, or each other one, with `value` behind
 * its name; matrices of one module follow one another in the walk. */
static hd_status put_modules(const hd_quantize *q, bool of_nvfp4, const char *value, hd_buffer *out,
                             hd_error *err)
{
    char last[HD_NAME_MAX] = "", module[HD_NAME_MAX];
    for (int64_t i = 0; i < q->source.used; i++) {
        const hd_scanned *const m = &q->source.items[i].what;
        if (m->format == HD_FMT_NONE || is_nvfp4(q, m) != of_nvfp4) continue;
        HD_TRY(name_module(q, m->name, module, err));
        if (strcmp(module, last) == 0) continue;
        if (*last) hd_buffer_text(out, ", ");
        put_text(out, module);
        hd_buffer_text(out, value);
        memcpy(last, module, sizeof last);
    }
    return HD_OK;
}

/* In a folder that is NVFP4 altogether each module that is not; in one whose experts are, what the
 * published ones say. */
static hd_status put_ignored(const hd_quantize *q, const char *key, hd_buffer *out, hd_error *err)
{
    hd_status s = HD_OK;
    hd_buffer_printf(out, "\"%s\": [", key);
    if (q->opt.to == HD_TO_NVFP4)
        s = put_modules(q, false, "", out, err);
    else
        hd_buffer_text(out, "\"*.attn.*\", \"*.ffn.shared_experts.*\", \"head\", \"mtp.*\"");
    hd_buffer_text(out, "]");
    return s;
}

static hd_status put_layers(const hd_quantize *q, hd_buffer *out, hd_error *err)
{
    char value[96];
    snprintf(value, sizeof value, ": {\"quant_algo\": \"%s\", \"group_size\": 16}", algo_of(q));
    hd_buffer_text(out, ", \"quantized_layers\": {");
    hd_status const s = put_modules(q, true, value, out, err);
    hd_buffer_text(out, "}");
    return s;
}

/* What both files say, in one of which the list of modules has another name. */
static hd_status put_numbers(const hd_quantize *q, const char *ignored_key, hd_buffer *out,
                             hd_error *err)
{
    bool const is_all = q->opt.to == HD_TO_NVFP4;
    hd_buffer_printf(out, "\"quant_algo\": \"%s\", \"group_size\": 16",
                     is_all ? algo_of(q) : "MIXED_PRECISION");
    if (!is_all) HD_TRY(put_layers(q, out, err));
    hd_buffer_text(out, ", ");
    return put_ignored(q, ignored_key, out, err);
}

/* ---- the two files ---- */

static hd_status parse(json_object **out, const hd_buffer *text, const char *what, hd_error *err)
{
    if (text->failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %s", what);
    return hd_json_parse(out, text->data, text->used, HD_JSON_STRICT, what, err);
}

static hd_status write_json(const hd_quantize *q, const char *name, json_object *root,
                            hd_error *err)
{
    hd_buffer         out = {0};
    const char *const s = json_object_to_json_string_ext(
        root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
    hd_buffer_text(&out, s ? s : "");
    hd_buffer_text(&out, "\n");
    out.failed = out.failed || !s;
    hd_status const status = hd_quantize_write_text(q->model, name, &out, err);
    hd_buffer_free(&out);
    return status;
}

/* Sets member `key` to a value that the caller has, too. */
static hd_status set(json_object *o, const char *key, json_object *value, hd_error *err)
{
    if (json_object_object_add(o, key, json_object_get(value)) == 0) return HD_OK;
    json_object_put(value);
    HD_FAIL(err, HD_ERR_MEMORY, "no memory for config.json");
}

static hd_status make_quantization(const hd_quantize *q, json_object **out, hd_error *err)
{
    hd_buffer  text = {0};
    bool const is_all = q->opt.to == HD_TO_NVFP4;
    hd_buffer_text(&text, is_all ? "{" : "{\"moe_quant_algo\": \"NVFP4\", ");
    put_groups(q, &text);
    hd_buffer_text(&text, ", ");
    hd_status s = put_numbers(q, "ignore", &text, err);
    hd_buffer_text(&text, ", ");
    put_producer(q, &text);
    hd_buffer_text(&text, ", \"quant_method\": \"modelopt\"}");
    if (s == HD_OK) s = parse(out, &text, "quantization_config", err);
    hd_buffer_free(&text);
    return s;
}

/* Where something else than the experts is quantized the old words stay beside the new ones, and
 * say what that is. */
static hd_status merge(json_object *old, json_object *new, hd_error *err)
{
    json_object_object_foreach(new, key, value)
    {
        bool const is_said = strcmp(key, "quant_method") == 0;
        if (!is_said || !json_object_object_get_ex(old, key, NULL))
            HD_TRY(set(old, key, value, err));
    }
    return HD_OK;
}

static hd_status rewrite(const hd_quantize *q, json_object *root, json_object *quantization,
                         hd_error *err)
{
    json_object *old = NULL, *four = NULL;
    bool const   has_old = json_object_object_get_ex(root, "quantization_config", &old) &&
                         json_object_is_type(old, json_type_object);
    if (has_old && q->opt.to == HD_TO_NVFP4_EXPERTS)
        HD_TRY(merge(old, quantization, err));
    else
        HD_TRY(set(root, "quantization_config", quantization, err));
    if (!json_object_object_get_ex(root, "expert_dtype", NULL)) return HD_OK;
    if (!(four = json_object_new_string("fp4")))
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for config.json");
    hd_status const s = set(root, "expert_dtype", four, err);
    json_object_put(four);
    return s;
}

/* Sizes, names and everything else stay. */
static hd_status write_config(const hd_quantize *q, hd_error *err)
{
    char         path[HD_MAX_PATH];
    hd_pool      pool = {0};
    char        *json = NULL;
    size_t       bytes = 0;
    json_object *root = NULL, *quantization = NULL;
    HD_TRY(hd_quantize_path(path, q->opt.source, "config.json", err));
    hd_status s = hd_file_read(&json, &bytes, path, MAX_CONFIG_BYTES, &pool, err);
    if (s == HD_OK) s = hd_json_parse(&root, json, bytes, HD_JSON_PYTHON, path, err);
    if (s == HD_OK) s = make_quantization(q, &quantization, err);
    if (s == HD_OK) s = rewrite(q, root, quantization, err);
    if (s == HD_OK) s = write_json(q, "config.json", root, err);
    json_object_put(quantization);
    json_object_put(root);
    hd_pool_free(&pool);
    return s;
}

static hd_status write_quant_config(const hd_quantize *q, hd_error *err)
{
    hd_buffer    text = {0};
    json_object *root = NULL;
    hd_buffer_text(&text, "{");
    put_producer(q, &text);
    hd_buffer_text(&text, ", \"quantization\": {\"kv_cache_quant_algo\": null, ");
    hd_status s = put_numbers(q, "exclude_modules", &text, err);
    hd_buffer_text(&text, "}}");
    if (s == HD_OK) s = parse(&root, &text, "hf_quant_config.json", err);
    if (s == HD_OK) s = write_json(q, "hf_quant_config.json", root, err);
    json_object_put(root);
    hd_buffer_free(&text);
    return s;
}

hd_status hd_quantize_write_configs(const hd_quantize *q, hd_error *err)
{
    HD_TRY(write_config(q, err));
    return write_quant_config(q, err);
}
