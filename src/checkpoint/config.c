#include "checkpoint/config.h"
#include "base/file.h"
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define MAX_CONFIG_BYTES ((size_t)16 << 20)
#define N_OF(a)          (sizeof(a) / sizeof(a)[0])

/* Keys of the released config.json; `alias` is the spelling of inference/config.json. */
typedef struct int_key {
    const char *name, *alias;
    size_t      field; /* offset of an int32_t in hd_config */
    int32_t     low, high, fallback;
} int_key;

typedef struct float_key {
    const char *name, *alias;
    size_t      field; /* offset of a float in hd_config */
    double      low, high, fallback;
} float_key;

/* Keys of which this build runs one value only; `text` is the value as JSON. */
typedef struct fixed_key {
    const char *name, *text;
} fixed_key;

#define REQUIRED INT32_MIN
#define FIELD(f) offsetof(hd_config, f)

/* The bounds keep every dimension that is a product of two of these within int32_t. */
static const int_key int_keys[] = {
    {"num_hidden_layers", "n_layers", FIELD(n_layers), 1, HD_MAX_LAYERS, REQUIRED},
    {"hidden_size", "dim", FIELD(d_model), 1, 1 << 20, REQUIRED},
    {"vocab_size", NULL, FIELD(n_vocab), 1, 1 << 24, REQUIRED},
    {"num_attention_heads", "n_heads", FIELD(n_heads), 1, 4096, REQUIRED},
    {"head_dim", NULL, FIELD(head_dim), 2, 4096, REQUIRED},
    {"qk_rope_head_dim", "rope_head_dim", FIELD(rope_dim), 2, 4096, REQUIRED},
    {"q_lora_rank", NULL, FIELD(q_rank), 1, 1 << 20, REQUIRED},
    {"o_groups", NULL, FIELD(o_groups), 1, 4096, REQUIRED},
    {"o_lora_rank", NULL, FIELD(o_rank), 1, 1 << 18, REQUIRED},
    {"n_routed_experts", NULL, FIELD(n_experts), 1, 1 << 16, REQUIRED},
    {"num_experts_per_tok", "n_activated_experts", FIELD(n_experts_used), 1, 1 << 16, REQUIRED},
    {"moe_intermediate_size", "moe_inter_dim", FIELD(d_expert), 1, 1 << 20, REQUIRED},
    {"index_n_heads", NULL, FIELD(index_heads), 1, 4096, REQUIRED},
    {"index_head_dim", NULL, FIELD(index_dim), 2, 4096, REQUIRED},
    {"index_topk", NULL, FIELD(index_topk), 1, 1 << 20, REQUIRED},
    {"sliding_window", "window_size", FIELD(window), 1, 1 << 20, REQUIRED},
    {"hc_mult", NULL, FIELD(hc_mult), 1, 64, REQUIRED},
    {"hc_sinkhorn_iters", NULL, FIELD(hc_iters), 1, 10000, REQUIRED},
    {"max_position_embeddings", "max_seq_len", FIELD(max_positions), 1, INT32_MAX, 1 << 20},
    {"num_nextn_predict_layers", "n_mtp_layers", FIELD(n_mtp), 0, HD_MAX_MTP, 0},
    {"bos_token_id", NULL, FIELD(bos), 0, INT32_MAX, 0},
};

static const float_key float_keys[] = {
    {"rms_norm_eps", "norm_eps", FIELD(rms_eps), 0, 1, 1e-6},
    {"hc_eps", NULL, FIELD(hc_eps), 0, 1, 1e-6},
    {"routed_scaling_factor", "route_scale", FIELD(routed_scale), 1e-6, 1e6, 1},
    {"swiglu_limit", NULL, FIELD(swiglu_limit), 0, INFINITY, INFINITY},
};

static const fixed_key fixed_keys[] = {
    {"n_shared_experts", "1"},  {"num_key_value_heads", "1"}, {"hidden_act", "\"silu\""},
    {"norm_topk_prob", "true"}, {"attention_bias", "false"},  {"mlp_bias", "false"},
};

/* Where a key is looked up and how it is reported. */
typedef struct source {
    const char  *what;
    json_object *root;
    hd_error    *err;
} source;

static json_object *get_member(json_object *object, const char *name)
{
    return name && json_object_is_type(object, json_type_object)
               ? json_object_object_get(object, name)
               : NULL;
}

/* The value of a key under either spelling; null counts as absent. */
static json_object *get_key(json_object *object, const char *name, const char *alias)
{
    json_object *const v = get_member(object, name);
    return v ? v : get_member(object, alias);
}

static const char *show(json_object *v)
{
    return v ? json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN) : "nothing";
}

static hd_status read_int(const source *s, json_object *v, const char *name, int32_t low,
                          int32_t high, int32_t *out)
{
    int64_t const n = json_object_get_int64(v);
    if (!json_object_is_type(v, json_type_int) || n < low || n > high)
        HD_FAIL(s->err, HD_ERR_FORMAT, "%s: %s is %.80s, want an integer in %d..%d", s->what, name,
                show(v), low, high);
    *out = (int32_t)n;
    return HD_OK;
}

static bool is_number(const json_object *v)
{
    return json_object_is_type(v, json_type_int) || json_object_is_type(v, json_type_double);
}

static hd_status read_real(const source *s, json_object *v, const char *name, double low,
                           double high, double *out)
{
    double const x = is_number(v) ? json_object_get_double(v) : NAN;
    if (!(x >= low && x <= high))
        HD_FAIL(s->err, HD_ERR_FORMAT, "%s: %s is %.80s, want a number in %g..%g", s->what, name,
                show(v), low, high);
    *out = x;
    return HD_OK;
}

static hd_status missing(const source *s, const char *name)
{
    HD_FAIL(s->err, HD_ERR_FORMAT, "%s: key %s is missing", s->what, name);
}

/* ---- what kind of model ---- */

static hd_status check_type(const source *s)
{
    json_object *const type = get_member(s->root, "model_type");
    const char *const  name = type ? json_object_get_string(type) : "deepseek_v4";
    if (strcmp(name, "deepseek_v4") != 0 && strcmp(name, "deepseek_ref") != 0)
        HD_FAIL(s->err, HD_ERR_UNSUPPORTED, "%s: model_type is %.80s, only deepseek_v4 is run",
                s->what, show(type));
    return HD_OK;
}

static hd_status check_architectures(const source *s)
{
    json_object *const list = get_member(s->root, "architectures");
    if (!list) return HD_OK;
    bool const is_list = json_object_is_type(list, json_type_array);
    for (size_t i = 0; is_list && i < json_object_array_length(list); i++) {
        const char *const name = json_object_get_string(json_object_array_get_idx(list, i));
        if (name && strcmp(name, "DeepseekV4ForCausalLM") == 0) return HD_OK;
    }
    HD_FAIL(s->err, HD_ERR_UNSUPPORTED,
            "%s: architectures is %.120s, only DeepseekV4ForCausalLM is run", s->what, show(list));
}

static hd_status check_fixed(const source *s)
{
    for (size_t i = 0; i < N_OF(fixed_keys); i++) {
        json_object *const v = get_member(s->root, fixed_keys[i].name);
        if (v && strcmp(show(v), fixed_keys[i].text) != 0)
            HD_FAIL(s->err, HD_ERR_UNSUPPORTED, "%s: %s is %.80s, only %s is run", s->what,
                    fixed_keys[i].name, show(v), fixed_keys[i].text);
    }
    return HD_OK;
}

static hd_status read_scoring(const source *s, hd_config *c)
{
    json_object *const v = get_key(s->root, "scoring_func", "score_func");
    if (!v) return missing(s, "scoring_func");
    for (int i = 0; i <= HD_SCORING_SOFTMAX; i++) {
        if (strcmp(json_object_get_string(v), hd_scoring_name((hd_scoring)i)) != 0) continue;
        c->scoring = (hd_scoring)i;
        return HD_OK;
    }
    HD_FAIL(s->err, HD_ERR_UNSUPPORTED,
            "%s: scoring_func is %.80s, want sqrtsoftplus, sigmoid or softmax", s->what, show(v));
}

/* ---- plain numbers ---- */

static hd_status read_ints(const source *s, hd_config *c)
{
    for (const int_key *k = int_keys; k < int_keys + N_OF(int_keys); k++) {
        json_object *const v = get_key(s->root, k->name, k->alias);
        int32_t *const     field = (int32_t *)(void *)((char *)c + k->field);
        if (v)
            HD_TRY(read_int(s, v, k->name, k->low, k->high, field));
        else if (k->fallback == REQUIRED)
            return missing(s, k->name);
        else
            *field = k->fallback;
    }
    return HD_OK;
}

static hd_status read_floats(const source *s, hd_config *c)
{
    for (const float_key *k = float_keys; k < float_keys + N_OF(float_keys); k++) {
        json_object *const v = get_key(s->root, k->name, k->alias);
        double             x = k->fallback;
        if (v) HD_TRY(read_real(s, v, k->name, k->low, k->high, &x));
        *(float *)(void *)((char *)c + k->field) = (float)x;
    }
    if (c->swiglu_limit == 0) c->swiglu_limit = INFINITY;
    return HD_OK;
}

/* ---- rotary positions ---- */

/* transformers keeps the numbers of both kinds of layer under rope_parameters. */
static json_object *get_rope(const source *s, const char *kind)
{
    return get_member(get_member(s->root, "rope_parameters"), kind);
}

static hd_status read_theta(const source *s, const char *name, const char *kind, double *out)
{
    json_object *v = get_member(s->root, name);
    if (!v) v = get_member(get_rope(s, kind), "rope_theta");
    return v ? read_real(s, v, name, 2, 1e15, out) : missing(s, name);
}

static hd_status read_yarn_numbers(const source *s, json_object *from, hd_yarn *y)
{
    const struct {
        const char *name, *alias;
        double      low, fallback;
        double     *out;
    } keys[] = {
        {"factor", "rope_factor", 1, 0, &y->factor},
        {"original_max_position_embeddings", "original_seq_len", 1, 0, &y->orig},
        {"beta_fast", NULL, 1e-3, 32, &y->beta_fast},
        {"beta_slow", NULL, 1e-3, 1, &y->beta_slow},
    };
    for (size_t i = 0; i < N_OF(keys); i++) {
        json_object *const v = get_key(from, keys[i].name, keys[i].alias);
        if (!v && keys[i].fallback == 0) return missing(s, keys[i].name);
        *keys[i].out = keys[i].fallback;
        if (v) HD_TRY(read_real(s, v, keys[i].name, keys[i].low, 1e9, keys[i].out));
    }
    return HD_OK;
}

static hd_status read_yarn(const source *s, hd_yarn *y)
{
    *y = (hd_yarn){1, 1, 32, 1};
    json_object *from = get_member(s->root, "rope_scaling");
    if (!from) from = get_rope(s, "compress");
    if (!from && get_member(s->root, "rope_factor")) from = s->root;
    if (!from) return HD_OK;
    json_object *const type = from == s->root ? NULL : get_key(from, "rope_type", "type");
    if (type && strcmp(json_object_get_string(type), "default") == 0) return HD_OK;
    if (type && strcmp(json_object_get_string(type), "yarn") != 0)
        HD_FAIL(s->err, HD_ERR_UNSUPPORTED, "%s: rope_scaling type is %.80s, only yarn is run",
                s->what, show(type));
    return read_yarn_numbers(s, from, y);
}

static hd_status read_rope(const source *s, hd_config *c)
{
    HD_TRY(read_theta(s, "rope_theta", "main", &c->rope_theta));
    HD_TRY(read_theta(s, "compress_rope_theta", "compress", &c->compress_theta));
    return read_yarn(s, &c->yarn);
}

/* ---- layers ---- */

static hd_status check_ratio(const source *s, size_t layer, int32_t ratio)
{
    if (ratio != 0 && ratio != 4 && ratio != 128)
        HD_FAIL(s->err, HD_ERR_UNSUPPORTED,
                "%s: layer %zu compresses %d to 1, only 4 and 128 are run", s->what, layer, ratio);
    return HD_OK;
}

/* One entry a layer, then perhaps some for the blocks behind them: their count does not always
 * agree with num_nextn_predict_layers, so what is missing is window-only. */
static hd_status read_ratios(const source *s, json_object *list, hd_config *c)
{
    size_t const n =
        json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    if (n < (size_t)c->n_layers || n > (size_t)c->n_layers + HD_MAX_MTP)
        HD_FAIL(s->err, HD_ERR_FORMAT,
                "%s: compress_ratios has %zu entries, want %d layers and up to %d", s->what, n,
                c->n_layers, HD_MAX_MTP);
    for (size_t i = 0; i < n; i++) {
        int32_t ratio;
        HD_TRY(
            read_int(s, json_object_array_get_idx(list, i), "compress_ratios", 0, 1 << 20, &ratio));
        if (ratio == 1) ratio = 0;
        HD_TRY(check_ratio(s, i, ratio));
        c->ratios[i] = ratio;
    }
    return HD_OK;
}

static hd_status check_rates(const source *s)
{
    json_object *const rates = get_member(s->root, "compress_rates");
    const struct {
        const char *name;
        int32_t     want;
    } known[] = {{"compressed_sparse_attention", 4}, {"heavily_compressed_attention", 128}};
    for (size_t i = 0; i < N_OF(known); i++) {
        json_object *const v = get_member(rates, known[i].name);
        if (v && json_object_get_int64(v) != known[i].want)
            HD_FAIL(s->err, HD_ERR_UNSUPPORTED, "%s: compress_rates: %s is %.80s, only %d is run",
                    s->what, known[i].name, show(v), known[i].want);
    }
    return HD_OK;
}

static bool find_type_ratio(json_object *type, int32_t *out)
{
    static const struct {
        const char *name;
        int32_t     ratio;
    } known[] = {{"sliding_attention", 0},
                 {"compressed_sparse_attention", 4},
                 {"heavily_compressed_attention", 128}};
    for (size_t i = 0; type && i < N_OF(known); i++) {
        if (strcmp(json_object_get_string(type), known[i].name) != 0) continue;
        *out = known[i].ratio;
        return true;
    }
    return false;
}

static hd_status read_layer_types(const source *s, json_object *list, hd_config *c)
{
    size_t const n =
        json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    if (n != (size_t)c->n_layers)
        HD_FAIL(s->err, HD_ERR_FORMAT, "%s: layer_types has %zu entries, want %d", s->what, n,
                c->n_layers);
    HD_TRY(check_rates(s));
    for (size_t i = 0; i < n; i++) {
        json_object *const type = json_object_array_get_idx(list, i);
        if (!find_type_ratio(type, &c->ratios[i]))
            HD_FAIL(s->err, HD_ERR_UNSUPPORTED, "%s: layer_types: layer %zu is %.80s", s->what, i,
                    show(type));
    }
    return HD_OK;
}

/* Hash-routed layers come first; their number is all there is to know. */
static hd_status count_hash_layers(const source *s, json_object *list, hd_config *c)
{
    size_t const n =
        json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    if (n != (size_t)c->n_layers)
        HD_FAIL(s->err, HD_ERR_FORMAT, "%s: mlp_layer_types has %zu entries, want %d", s->what, n,
                c->n_layers);
    for (size_t i = 0; i < n; i++) {
        const char *const type = json_object_get_string(json_object_array_get_idx(list, i));
        bool const        is_hash = type && strcmp(type, "hash_moe") == 0;
        if ((!is_hash && !(type && strcmp(type, "moe") == 0)) ||
            (is_hash && i != (size_t)c->n_hash_layers))
            HD_FAIL(s->err, HD_ERR_UNSUPPORTED,
                    "%s: mlp_layer_types: layer %zu is %.60s, want hash_moe in front, then moe",
                    s->what, i, type ? type : "null");
        c->n_hash_layers += is_hash;
    }
    return HD_OK;
}

static hd_status read_layers(const source *s, hd_config *c)
{
    json_object *const ratios = get_member(s->root, "compress_ratios");
    json_object *const types = get_member(s->root, "layer_types");
    if (!ratios && !types) return missing(s, "compress_ratios (or layer_types)");
    HD_TRY(ratios ? read_ratios(s, ratios, c) : read_layer_types(s, types, c));
    json_object *const n_hash = get_key(s->root, "num_hash_layers", "n_hash_layers");
    json_object *const mlp = get_member(s->root, "mlp_layer_types");
    if (n_hash) return read_int(s, n_hash, "num_hash_layers", 0, c->n_layers, &c->n_hash_layers);
    return mlp ? count_hash_layers(s, mlp, c) : HD_OK;
}

/* ---- sizes against each other ---- */

static hd_status check_sizes(const source *s, const hd_config *c)
{
    const struct {
        bool        is_good;
        const char *name;
        int32_t     value;
        const char *rule;
        int32_t     other;
    } rules[] = {
        {c->n_heads % c->o_groups == 0, "o_groups", c->o_groups, "a divisor of num_attention_heads",
         c->n_heads},
        {c->rope_dim % 2 == 0, "qk_rope_head_dim", c->rope_dim, "a multiple of", 2},
        {c->rope_dim <= c->head_dim, "qk_rope_head_dim", c->rope_dim, "at most head_dim",
         c->head_dim},
        {c->rope_dim <= c->index_dim, "qk_rope_head_dim", c->rope_dim, "at most index_head_dim",
         c->index_dim},
        {c->n_experts_used <= c->n_experts, "num_experts_per_tok", c->n_experts_used,
         "at most n_routed_experts", c->n_experts},
        {c->bos < c->n_vocab, "bos_token_id", c->bos, "below vocab_size", c->n_vocab},
    };
    for (size_t i = 0; i < N_OF(rules); i++)
        if (!rules[i].is_good)
            HD_FAIL(s->err, HD_ERR_FORMAT, "%s: %s is %d, want %s %d", s->what, rules[i].name,
                    rules[i].value, rules[i].rule, rules[i].other);
    return HD_OK;
}

/* ---- ids and hints ---- */

/* One id or a list of them; replaces those known so far. */
static hd_status read_eos(const source *s, hd_config *c)
{
    json_object *const v = get_member(s->root, "eos_token_id");
    bool const         is_list = json_object_is_type(v, json_type_array);
    size_t const       n = is_list ? json_object_array_length(v) : 1;
    if (!v) return HD_OK;
    if (n == 0 || n > HD_MAX_EOS)
        HD_FAIL(s->err, HD_ERR_FORMAT, "%s: eos_token_id has %zu ids, want 1 to %d", s->what, n,
                HD_MAX_EOS);
    for (size_t i = 0; i < n; i++)
        HD_TRY(read_int(s, is_list ? json_object_array_get_idx(v, i) : v, "eos_token_id", 0,
                        c->n_vocab - 1, &c->eos[i]));
    c->n_eos = (int32_t)n;
    return HD_OK;
}

static void copy_hint(char *out, size_t cap, json_object *v)
{
    if (json_object_is_type(v, json_type_string))
        snprintf(out, cap, "%s", json_object_get_string(v));
}

static void read_hints(const source *s, hd_config *c)
{
    json_object *const q = get_member(s->root, "quantization_config");
    json_object *const top = get_member(s->root, "expert_dtype");
    copy_hint(c->quant.method, sizeof c->quant.method, get_member(q, "quant_method"));
    copy_hint(c->quant.algo, sizeof c->quant.algo, get_member(q, "quant_algo"));
    copy_hint(c->quant.moe_algo, sizeof c->quant.moe_algo, get_member(q, "moe_quant_algo"));
    copy_hint(c->quant.expert_dtype, sizeof c->quant.expert_dtype,
              top ? top : get_member(q, "expert_dtype"));
    copy_hint(c->quant.scale_fmt, sizeof c->quant.scale_fmt, get_member(q, "scale_fmt"));
    c->tie_embeddings = json_object_get_boolean(get_member(s->root, "tie_word_embeddings"));
    c->has_dspark = get_member(s->root, "dspark_block_size") != NULL;
    c->dialect = c->has_dspark ? HD_DIALECT_GA : HD_DIALECT_PREVIEW;
}

/* ---- the files ---- */

static hd_status read_config(const source *s, hd_config *c)
{
    if (!json_object_is_type(s->root, json_type_object))
        HD_FAIL(s->err, HD_ERR_FORMAT, "%s: not a JSON object", s->what);
    HD_TRY(check_type(s));
    HD_TRY(check_architectures(s));
    HD_TRY(check_fixed(s));
    HD_TRY(read_ints(s, c));
    HD_TRY(read_floats(s, c));
    HD_TRY(read_scoring(s, c));
    HD_TRY(read_rope(s, c));
    HD_TRY(read_layers(s, c));
    HD_TRY(check_sizes(s, c));
    read_hints(s, c);
    c->n_eos = 1;
    c->eos[0] = 1 < c->n_vocab ? 1 : 0; /* the id of every release */
    return read_eos(s, c);
}

hd_status hd_config_parse(hd_config *out, const char *json, size_t bytes, const char *what,
                          hd_error *err)
{
    source    s = {.what = what, .err = err};
    hd_config c = {0};
    HD_TRY(hd_json_parse(&s.root, json, bytes, HD_JSON_PYTHON, what, err));
    hd_status const status = read_config(&s, &c);
    json_object_put(s.root);
    if (status == HD_OK) *out = c;
    return status;
}

hd_status hd_config_parse_generation(hd_config *c, const char *json, size_t bytes, const char *what,
                                     hd_error *err)
{
    source    s = {.what = what, .err = err};
    hd_config next = *c;
    HD_TRY(hd_json_parse(&s.root, json, bytes, HD_JSON_PYTHON, what, err));
    hd_status const status = read_eos(&s, &next);
    json_object_put(s.root);
    if (status == HD_OK) *c = next;
    return status;
}

typedef hd_status parse_fn(hd_config *c, const char *json, size_t bytes, const char *what,
                           hd_error *err);

static hd_status parse_path(hd_config *c, const char *path, parse_fn *parse, hd_error *err)
{
    hd_pool   pool = {0};
    char     *text;
    size_t    bytes;
    hd_status s = hd_file_read(&text, &bytes, path, MAX_CONFIG_BYTES, &pool, err);
    if (s == HD_OK) s = parse(c, text, bytes, path, err);
    hd_pool_free(&pool);
    return s;
}

hd_status hd_config_read(hd_config *out, const char *folder, hd_error *err)
{
    char      config[4096], generation[4096];
    int const n = snprintf(config, sizeof config, "%s/config.json", folder);
    int const m = snprintf(generation, sizeof generation, "%s/generation_config.json", folder);
    if (n < 0 || m < 0 || (size_t)m >= sizeof generation)
        HD_FAIL(err, HD_ERR_INVALID, "%.200s...: path is too long", folder);
    hd_config    c;
    hd_file_kind found;
    HD_TRY(parse_path(&c, config, hd_config_parse, err));
    HD_TRY(hd_file_look(&found, generation, err));
    if (found != HD_FILE_NONE) HD_TRY(parse_path(&c, generation, hd_config_parse_generation, err));
    *out = c;
    return HD_OK;
}

const char *hd_scoring_name(hd_scoring s)
{
    static const char *const names[] = {"sqrtsoftplus", "sigmoid", "softmax"};
    return (size_t)s < N_OF(names) ? names[s] : "unknown";
}
