#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/st_image.h"
#include "checkpoint/config.h"

#define N_OF(a)      (sizeof(a) / sizeof(a)[0])
#define OFFICIAL     "tests/golden/checkpoint/config_official.json"
#define TRANSFORMERS "tests/golden/checkpoint/config_transformers.json"

/* The golden config with its first `from` replaced by `to`; owned by the caller. */
static char *edit(const char *path, const char *from, const char *to)
{
    char *const  text = read_golden(path, NULL);
    char *const  at = strstr(text, from);
    size_t const cap = strlen(text) + strlen(to) + 1;
    char *const  out = malloc(cap);
    if (!at) fail_msg("%s has no %s", path, from);
    assert_non_null(out);
    snprintf(out, cap, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    free(text);
    return out;
}

static hd_config accept_edit(const char *path, const char *from, const char *to)
{
    char *const text = edit(path, from, to);
    hd_config   c;
    hd_error    err;
    if (hd_config_parse(&c, text, strlen(text), "config.json", &err) != HD_OK)
        fail_msg("%s -> %s: %s", from, to, err.message);
    free(text);
    return c;
}

static void refuse_edit(const char *path, const char *from, const char *to, hd_status want,
                        const char *message)
{
    char *const text = edit(path, from, to);
    hd_config   c = {.n_layers = 77};
    hd_error    err;
    assert_int_equal(hd_config_parse(&c, text, strlen(text), "config.json", NULL), want);
    assert_int_equal(hd_config_parse(&c, text, strlen(text), "config.json", &err), want);
    if (strncmp(err.message, "config.json: ", 13) != 0 || !strstr(err.message, message))
        fail_msg("%s -> %s: message \"%s\", want \"%s\"", from, to, err.message, message);
    assert_int_equal(c.n_layers, 77);
    free(text);
}

/* Both goldens describe the same model in the two key families. */
static void expect_tiny(const hd_config *c)
{
    static const int32_t ratios[] = {0, 128, 4, 4, 0};
    assert_int_equal(c->n_layers, 4);
    assert_int_equal(c->d_model, 128);
    assert_int_equal(c->n_vocab, 2048);
    assert_int_equal(c->n_heads, 4);
    assert_int_equal(c->head_dim, 512);
    assert_int_equal(c->rope_dim, 64);
    assert_int_equal(c->q_rank, 128);
    assert_int_equal(c->o_groups, 2);
    assert_int_equal(c->o_rank, 128);
    assert_int_equal(c->n_experts, 8);
    assert_int_equal(c->n_experts_used, 3);
    assert_int_equal(c->d_expert, 128);
    assert_int_equal(c->n_hash_layers, 1);
    assert_int_equal(c->index_heads, 8);
    assert_int_equal(c->index_dim, 128);
    assert_int_equal(c->index_topk, 8);
    assert_int_equal(c->window, 128);
    assert_int_equal(c->hc_mult, 4);
    assert_int_equal(c->hc_iters, 20);
    assert_int_equal(c->max_positions, 1048576);
    assert_int_equal(c->n_mtp, 1);
    assert_memory_equal(c->ratios, ratios, sizeof ratios);
    assert_true(c->rms_eps == 1e-6f && c->hc_eps == 1e-6f);
    assert_true(c->routed_scale == 2.5f && c->swiglu_limit == 3.0f);
    assert_int_equal(c->scoring, HD_SCORING_SQRTSOFTPLUS);
    assert_true(c->rope_theta == 10000 && c->compress_theta == 160000);
    assert_true(c->yarn.factor == 16 && c->yarn.orig == 65536);
    assert_true(c->yarn.beta_fast == 32 && c->yarn.beta_slow == 1);
    assert_int_equal(c->bos, 0);
    assert_int_equal(c->n_eos, 1);
    assert_int_equal(c->eos[0], 1);
    assert_false(c->tie_embeddings);
    assert_false(c->has_dspark);
    assert_int_equal(c->dialect, HD_DIALECT_PREVIEW);
}

static void test_key_families(void **state)
{
    (void)state;
    hd_config c = accept_edit(OFFICIAL, "{", "{");
    expect_tiny(&c);
    assert_string_equal(c.quant.method, "fp8");
    assert_string_equal(c.quant.algo, "MIXED_PRECISION");
    assert_string_equal(c.quant.moe_algo, "NVFP4");
    assert_string_equal(c.quant.expert_dtype, "fp4");
    c = accept_edit(TRANSFORMERS, "{", "{");
    expect_tiny(&c);
    assert_string_equal(c.quant.method, "modelopt");
    assert_string_equal(c.quant.algo, "NVFP4");
}

/* The spelling of the released inference/config.json. */
static void test_inference_keys(void **state)
{
    (void)state;
    static const char text[] =
        "{\"vocab_size\":2048,\"dim\":128,\"moe_inter_dim\":128,\"n_layers\":4,\"n_hash_layers\":1,"
        "\"n_heads\":4,\"n_routed_experts\":8,\"n_shared_experts\":1,\"n_activated_experts\":3,"
        "\"route_scale\":2.5,\"score_func\":\"sqrtsoftplus\",\"swiglu_limit\":3.0,"
        "\"q_lora_rank\":128,\"head_dim\":512,\"rope_head_dim\":64,\"o_groups\":2,"
        "\"o_lora_rank\":128,\"window_size\":128,\"original_seq_len\":65536,\"rope_theta\":10000,"
        "\"rope_factor\":16,\"beta_fast\":32,\"beta_slow\":1,\"compress_rope_theta\":160000,"
        "\"index_n_heads\":8,\"index_head_dim\":128,\"index_topk\":8,\"hc_mult\":4,"
        "\"hc_sinkhorn_iters\":20,\"n_mtp_layers\":1,\"compress_ratios\":[1,128,4,4,0]}";
    hd_config c;
    assert_int_equal(hd_config_parse(&c, text, sizeof text - 1, "config.json", NULL), HD_OK);
    expect_tiny(&c);
}

static void test_optional_keys(void **state)
{
    (void)state;
    assert_true(isinf(accept_edit(OFFICIAL, "\"swiglu_limit\": 3.0,", "").swiglu_limit));
    assert_true(
        isinf(accept_edit(OFFICIAL, "\"swiglu_limit\": 3.0", "\"swiglu_limit\": 0").swiglu_limit));
    assert_true(isinf(
        accept_edit(OFFICIAL, "\"swiglu_limit\": 3.0", "\"swiglu_limit\": null").swiglu_limit));
    assert_true(isinf(
        accept_edit(OFFICIAL, "\"swiglu_limit\": 3.0", "\"swiglu_limit\": Infinity").swiglu_limit));
    assert_true(
        accept_edit(OFFICIAL, "\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": 1e-20").rms_eps ==
        1e-20f);
    assert_int_equal(accept_edit(OFFICIAL, "\"num_nextn_predict_layers\": 1,", "").n_mtp, 0);
    assert_true(accept_edit(OFFICIAL, "\"rope_scaling\"", "\"no_scaling\"").yarn.factor == 1);
    assert_int_equal(accept_edit(OFFICIAL, "\"model_type\": \"deepseek_v4\",", "").n_layers, 4);
    assert_int_equal(accept_edit(OFFICIAL, "\"deepseek_v4\"", "\"deepseek_ref\"").n_layers, 4);
    assert_int_equal(accept_edit(OFFICIAL, "\"sqrtsoftplus\"", "\"sigmoid\"").scoring,
                     HD_SCORING_SIGMOID);
    assert_true(
        accept_edit(OFFICIAL, "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true")
            .tie_embeddings);
    hd_config const c = accept_edit(OFFICIAL, "{", "{\"dspark_block_size\": 5,");
    assert_true(c.has_dspark);
    assert_int_equal(c.dialect, HD_DIALECT_GA);
}

/* Releases with DSpark list three entries behind the layers and promise one block. */
static void test_ratio_counts(void **state)
{
    (void)state;
    assert_int_equal(accept_edit(OFFICIAL, "4,\n    0\n", "4,\n 0, 0, 0\n").ratios[3], 4);
    assert_int_equal(accept_edit(OFFICIAL, "4,\n    0\n", "4\n").ratios[4], 0);
    refuse_edit(OFFICIAL, "4,\n    4,\n    0\n", "4\n", HD_ERR_FORMAT,
                "compress_ratios has 3 entries, want 4");
    refuse_edit(OFFICIAL, "4,\n    0\n", "4,0,0,0,0,0,0,0,0,0\n", HD_ERR_FORMAT,
                "compress_ratios has 13");
}

static void test_other_models(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *text;
    } cases[] = {
        {"\"deepseek_v4\"", "\"deepseek_v41\"", "model_type is \"deepseek_v41\", only deepseek_v4"},
        {"\"deepseek_v4\"", "{}", "model_type is {}"},
        {"DeepseekV4ForCausalLM", "LlamaForCausalLM", "LlamaForCausalLM"},
        {"\"DeepseekV4ForCausalLM\"", "null", "architectures is [null]"},
        {"\"n_shared_experts\": 1", "\"n_shared_experts\": 2", "n_shared_experts is 2, only 1"},
        {"\"num_key_value_heads\": 1", "\"num_key_value_heads\": 8", "num_key_value_heads is 8"},
        {"\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"", "hidden_act is \"gelu\""},
        {"\"norm_topk_prob\": true", "\"norm_topk_prob\": false", "norm_topk_prob is false"},
        {"\"attention_bias\": false", "\"attention_bias\": true", "attention_bias is true"},
        {"\"sqrtsoftplus\"", "\"relu\"", "scoring_func is \"relu\""},
        {"\"type\": \"yarn\"", "\"type\": \"linear\"", "rope_scaling type is \"linear\""},
        {"[\n    0,\n    128,", "[\n 0,\n 64,", "layer 1 compresses 64 to 1"},
    };
    for (size_t i = 0; i < N_OF(cases); i++)
        refuse_edit(OFFICIAL, cases[i].from, cases[i].to, HD_ERR_UNSUPPORTED, cases[i].text);
    refuse_edit(TRANSFORMERS, "\"sliding_attention\"", "\"full_attention\"", HD_ERR_UNSUPPORTED,
                "layer 0 is \"full_attention\"");
    refuse_edit(TRANSFORMERS, "\"heavily_compressed_attention\": 128",
                "\"heavily_compressed_attention\": 64", HD_ERR_UNSUPPORTED,
                "heavily_compressed_attention is 64, only 128");
    refuse_edit(TRANSFORMERS, "\"moe\"", "\"dense\"", HD_ERR_UNSUPPORTED, "layer 1 is dense");
    refuse_edit(TRANSFORMERS, "\"moe\",\n        \"moe\"", "\"moe\", \"hash_moe\"",
                HD_ERR_UNSUPPORTED, "layer 2 is hash_moe");
}

static void test_bad_values(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *text;
    } cases[] = {
        {"\"hidden_size\": 128,", "", "key hidden_size is missing"},
        {"\"hidden_size\": 128", "\"hidden_size\": null", "key hidden_size is missing"},
        {"\"hidden_size\": 128", "\"hidden_size\": \"128\"",
         "hidden_size is \"128\", want an integer"},
        {"\"hidden_size\": 128", "\"hidden_size\": 128.5", "hidden_size is 128.5"},
        {"\"hidden_size\": 128", "\"hidden_size\": 0", "hidden_size is 0, want an integer in 1.."},
        {"\"hidden_size\": 128", "\"hidden_size\": -128", "hidden_size is -128"},
        {"\"hidden_size\": 128", "\"hidden_size\": [128]", "hidden_size is [128]"},
        {"\"hidden_size\": 128", "\"hidden_size\": 4294967424", "hidden_size is 4294967424"},
        {"\"hidden_size\": 128", "\"hidden_size\": 18446744073709551744",
         "hidden_size is 18446744073709551744"},
        {"\"num_hidden_layers\": 4", "\"num_hidden_layers\": 1025",
         "num_hidden_layers is 1025, want an integer in 1..1024"},
        {"\"num_hidden_layers\": 4", "\"num_hidden_layers\": 44",
         "compress_ratios has 5 entries, want 44"},
        {"\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": NaN", "rms_norm_eps is NaN"},
        {"\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": \"1e-6\"",
         "rms_norm_eps is \"1e-6\", want a number"},
        {"\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": -1e-06", "rms_norm_eps is -1e-06"},
        {"\"routed_scaling_factor\": 2.5", "\"routed_scaling_factor\": Infinity",
         "routed_scaling_factor is Infinity"},
        {"\"swiglu_limit\": 3.0", "\"swiglu_limit\": -3", "swiglu_limit is -3"},
        {"\"rope_theta\": 10000,", "", "key rope_theta is missing"},
        {"\"rope_theta\": 10000", "\"rope_theta\": 1", "rope_theta is 1"},
        {"\"factor\": 16", "\"factor\": 0", "factor is 0"},
        {"\"factor\": 16,", "", "key factor is missing"},
        {"\"scoring_func\": \"sqrtsoftplus\",", "", "key scoring_func is missing"},
        {"\"compress_ratios\"", "\"no_ratios\"", "compress_ratios (or layer_types) is missing"},
        {"[\n    0,\n    128,", "[\n 0,\n -4,", "compress_ratios is -4"},
        {"[\n    0,\n    128,", "[\n 0,\n null,", "compress_ratios is nothing"},
        {"\"o_groups\": 2", "\"o_groups\": 3",
         "o_groups is 3, want a divisor of num_attention_heads 4"},
        {"\"qk_rope_head_dim\": 64", "\"qk_rope_head_dim\": 63",
         "qk_rope_head_dim is 63, want a multiple of 2"},
        {"\"qk_rope_head_dim\": 64", "\"qk_rope_head_dim\": 514", "at most head_dim 512"},
        {"\"qk_rope_head_dim\": 64", "\"qk_rope_head_dim\": 130", "at most index_head_dim 128"},
        {"\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 9",
         "num_experts_per_tok is 9, want at most n_routed_experts 8"},
        {"\"num_hash_layers\": 1", "\"num_hash_layers\": 5",
         "num_hash_layers is 5, want an integer in 0..4"},
        {"\"num_nextn_predict_layers\": 1", "\"num_nextn_predict_layers\": 9",
         "num_nextn_predict_layers is 9"},
        {"\"bos_token_id\": 0", "\"bos_token_id\": 2048",
         "bos_token_id is 2048, want below vocab_size 2048"},
        {"\"eos_token_id\": 1", "\"eos_token_id\": 2048", "eos_token_id is 2048"},
        {"\"eos_token_id\": 1", "\"eos_token_id\": []", "eos_token_id has 0 ids"},
        {"\"eos_token_id\": 1", "\"eos_token_id\": [1,1,1,1,1,1,1,1,1]",
         "eos_token_id has 9 ids, want 1 to 8"},
        {"\"eos_token_id\": 1", "\"eos_token_id\": [1,null]", "eos_token_id is nothing"},
        {"{", "{\"x\"", "byte"},
        {"{", "{\"\xFF\":1,", "not UTF-8"},
    };
    for (size_t i = 0; i < N_OF(cases); i++)
        refuse_edit(OFFICIAL, cases[i].from, cases[i].to, HD_ERR_FORMAT, cases[i].text);
    refuse_edit(TRANSFORMERS, "\"sliding_attention\",", "", HD_ERR_FORMAT,
                "layer_types has 3 entries");
    refuse_edit(TRANSFORMERS, "\"hash_moe\",", "", HD_ERR_FORMAT, "mlp_layer_types has 3 entries");
    static const char *const texts[] = {"", "[]", "3", "null", "{}", "\"deepseek_v4\""};
    for (size_t i = 0; i < N_OF(texts); i++) {
        hd_config c;
        assert_int_equal(hd_config_parse(&c, texts[i], strlen(texts[i]), "x", NULL), HD_ERR_FORMAT);
    }
}

static void test_generation(void **state)
{
    (void)state;
    hd_config c = accept_edit(OFFICIAL, "\"eos_token_id\": 1", "\"eos_token_id\": null");
    assert_int_equal(c.n_eos, 1);
    assert_int_equal(c.eos[0], 1);
    static const char list[] = "{\"eos_token_id\": [3, 2]}", none[] = "{}",
                      bad[] = "{\"eos_token_id\": [0, -1]}";
    assert_int_equal(hd_config_parse_generation(&c, list, sizeof list - 1, "g", NULL), HD_OK);
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos[0], 3);
    assert_int_equal(c.eos[1], 2);
    assert_int_equal(hd_config_parse_generation(&c, none, sizeof none - 1, "g", NULL), HD_OK);
    assert_int_equal(hd_config_parse_generation(&c, bad, sizeof bad - 1, "g", NULL), HD_ERR_FORMAT);
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos[0], 3);
}

static void test_folder(void **state)
{
    (void)state;
    temp_folder t;
    hd_config   c;
    hd_error    err;
    char *const text = edit(OFFICIAL, "{", "{");
    temp_folder_make(&t);
    assert_int_equal(hd_config_read(&c, t.path, &err), HD_ERR_IO);
    assert_non_null(strstr(err.message, "config.json"));
    temp_folder_write_text(&t, "config.json", text);
    assert_int_equal(hd_config_read(&c, t.path, &err), HD_OK);
    expect_tiny(&c);
    temp_folder_write_text(&t, "generation_config.json", "{\"eos_token_id\": 7}");
    assert_int_equal(hd_config_read(&c, t.path, &err), HD_OK);
    assert_int_equal(c.eos[0], 7);
    temp_folder_write_text(&t, "generation_config.json", "{\"eos_token_id\": ");
    assert_int_equal(hd_config_read(&c, t.path, &err), HD_ERR_FORMAT);
    assert_non_null(strstr(err.message, "generation_config.json"));
    temp_folder_remove(&t);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key_families),  cmocka_unit_test(test_inference_keys),
        cmocka_unit_test(test_optional_keys), cmocka_unit_test(test_ratio_counts),
        cmocka_unit_test(test_other_models),  cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_generation),    cmocka_unit_test(test_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
