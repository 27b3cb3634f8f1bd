#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/st_image.h"
#include "checkpoint/name_map.h"
#include "checkpoint/names.h"

static void expect_name(const char *from, const char *to)
{
    char out[HD_NAME_MAX];
    if (!hd_name_official(out, sizeof out, from) || strcmp(out, to) != 0)
        fail_msg("%s became %s, want %s", from, out, to);
}

/* Every kind of name in nine checkpoints of all three schemes, as an independent reader of
 * these checkpoints translates them. */
static void test_golden_names(void **state)
{
    (void)state;
    char *const text = read_golden("tests/golden/checkpoint/names.txt", NULL);
    int         n = 0;
    char       *rest = text;
    for (char *line; (line = strtok_r(rest, "\n", &rest)); n++) {
        char *const space = strchr(line, ' ');
        assert_non_null(space);
        *space = 0;
        expect_name(line, space + 1);
        expect_name(space + 1, space + 1);
    }
    assert_int_equal(n, 371);
    free(text);
}

static void expect_back(const char *official, const char *want)
{
    char out[HD_NAME_MAX], again[HD_NAME_MAX];
    if (!hd_name_hugging_face(out, sizeof out, official) || strcmp(out, want) != 0)
        fail_msg("%s became %s, want %s", official, out, want);
    if (!hd_name_official(again, sizeof again, out) || strcmp(again, official) != 0)
        fail_msg("%s became %s and %s again", official, out, again);
}

/* Names of modules, which have no suffix. */
static void expect_module(const char *official, const char *want)
{
    char out[HD_NAME_MAX];
    assert_true(hd_name_hugging_face(out, sizeof out, official));
    assert_string_equal(out, want);
}

/* Of the golden names those of the Hugging Face scheme come back as they were, and each official
 * one is found again from what it became. */
static void test_way_back(void **state)
{
    (void)state;
    char *const text = read_golden("tests/golden/checkpoint/names.txt", NULL);
    int         n = 0;
    char       *rest = text;
    for (char *line; (line = strtok_r(rest, "\n", &rest));) {
        char        back[HD_NAME_MAX], again[HD_NAME_MAX];
        char *const space = strchr(line, ' ');
        *space = 0;
        assert_true(hd_name_hugging_face(back, sizeof back, space + 1));
        assert_true(hd_name_official(again, sizeof again, back));
        assert_string_equal(again, space + 1);
        if (!strstr(line, ".self_attn.") && !strstr(line, ".mlp.")) continue;
        if (strstr(line, "indexer.weights_proj")) continue; /* an older spelling, without scorer */
        expect_back(space + 1, line);
        n++;
    }
    assert_true(n > 80);
    free(text);
    expect_back("embed.weight", "model.embed_tokens.weight");
    expect_back("head.weight", "lm_head.weight");
    expect_back("norm.weight", "model.norm.weight");
    expect_back("hc_head_fn", "model.hc_head.hc_fn");
    expect_back("layers.3.hc_attn_scale", "model.layers.3.attn_hc.scale");
    expect_back("layers.3.attn_norm.weight", "model.layers.3.input_layernorm.weight");
    expect_back("layers.3.attn.kv_norm.weight", "model.layers.3.self_attn.kv_norm.weight");
    expect_back("layers.3.attn.indexer.compressor.norm.weight",
                "model.layers.3.self_attn.compressor.indexer.kv_norm.weight");
    expect_back("layers.3.attn.indexer.weights_proj.weight_scale_2",
                "model.layers.3.self_attn.compressor.indexer.scorer.weights_proj.weight_scale_2");
    expect_back("mtp.0.norm.weight", "mtp.0.norm.weight");
    expect_back("mtp.0.hc_head_base", "mtp.0.hc_head.hc_base");
    expect_module("layers.3.ffn.gate", "model.layers.3.mlp.gate");
    expect_module("layers.3.attn.wo_a", "model.layers.3.self_attn.o_a_proj");
    expect_module("layers.3.attn.indexer.wq_b",
                  "model.layers.3.self_attn.compressor.indexer.q_b_proj");
    expect_module("head", "lm_head");
    expect_module("vision.blocks.3.w1x", "vision.blocks.3.w1x");
}

static void test_schemes(void **state)
{
    (void)state;
    expect_name("model.layers.3.self_attn.compressor.indexer.weights_proj.weight",
                "layers.3.attn.indexer.weights_proj.weight");
    expect_name("model.layers.3.self_attn.compressor.indexer.scorer.weights_proj.weight_packed",
                "layers.3.attn.indexer.weights_proj.weight_packed");
    expect_name("layers.3.mlp.experts.255.up_proj.weight_scale_inv",
                "layers.3.ffn.experts.255.w3.weight_scale_inv");
    expect_name("hc_head.scale", "hc_head_scale");
    expect_name("mtp.0.hc_head.hc_fn", "mtp.0.hc_head_fn");
    expect_name("model.layers.0.attn.norm.weight", "layers.0.attn.kv_norm.weight");
    expect_name("layers.0.attn.compressor.norm.weight", "layers.0.attn.compressor.norm.weight");
    expect_name("model.layers.0.self_attn.k_proj.k_scale", "layers.0.attn.k_proj.k_scale");
}

/* `attn_hc.scale` is a parameter, not the scale of a matrix. */
static void test_hyper_connection_scale(void **state)
{
    (void)state;
    expect_name("model.layers.1.attn_hc.scale", "layers.1.hc_attn_scale");
    expect_name("model.layers.1.ffn_hc.scale", "layers.1.hc_ffn_scale");
    expect_name("layers.1.hc_attn_scale", "layers.1.hc_attn_scale");
}

static void test_unknown_names_stay(void **state)
{
    (void)state;
    expect_name("", "");
    expect_name(".", ".");
    expect_name("vision.blocks.0.attn.qkv.weight", "vision.blocks.0.attn.qkv.weight");
    expect_name("embed_tokens", "embed_tokens");
    expect_name("mlp.x", "mlp.x");
    expect_name("compressor.indexer", "compressor.indexer");
    expect_name("mtp.0.emb.tok_emb.weight", "mtp.0.emb.tok_emb.weight");
    expect_name("layers.0.ffn.experts.gate_up_proj", "layers.0.ffn.experts.gate_up_proj");
}

static void test_long_names(void **state)
{
    (void)state;
    char out[16], name[HD_NAME_MAX];
    assert_true(hd_name_official(out, 12, "embed.weigh"));
    assert_false(hd_name_official(out, 12, "embed.weight"));
    assert_false(hd_name_official(out, 0, ""));
    assert_true(hd_name_official(out, 1, ""));
    assert_false(hd_name_official(out, 6, "a.b.c."));
    assert_true(hd_name_official(out, 7, "a.b.c."));
    memset(name, '.', 24);
    name[24] = 0;
    assert_false(hd_name_official(out, sizeof out, name));
}

static void test_map(void **state)
{
    (void)state;
    static const char *const names[] = {"b", "", "a.b", "a", "ab"};
    hd_pool                  pool = {0};
    hd_name_map              map = {0};
    int32_t                  twins[2];
    assert_int_equal(hd_name_map_find(&map, "a"), -1);
    assert_int_equal(hd_name_map_open(&map, 6, &pool, NULL), HD_OK);
    for (int32_t i = 0; i < 5; i++) hd_name_map_add(&map, names[i], i);
    assert_true(hd_name_map_sort(&map, twins));
    for (int32_t i = 0; i < 5; i++) assert_int_equal(hd_name_map_find(&map, names[i]), i);
    assert_int_equal(hd_name_map_find(&map, "c"), -1);
    assert_int_equal(hd_name_map_find(&map, "a."), -1);
    hd_name_map_add(&map, "a.b", 5);
    assert_false(hd_name_map_sort(&map, twins));
    assert_int_equal(twins[0], 2);
    assert_int_equal(twins[1], 5);
    hd_pool_free(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_names),
        cmocka_unit_test(test_schemes),
        cmocka_unit_test(test_way_back),
        cmocka_unit_test(test_hyper_connection_scale),
        cmocka_unit_test(test_unknown_names_stay),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
