#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "tokenizer/tokenizer.h"

static char   *file_text; /* owned by file_pool */
static size_t  file_bytes;
static hd_pool file_pool;

static int read_file(void **state)
{
    (void)state;
    hd_status const s = hd_file_read(&file_text, &file_bytes, "models/demo/tokenizer.json", 1 << 24,
                                     &file_pool, NULL);
    return s == HD_OK ? 0 : -1;
}

static int free_file(void **state)
{
    (void)state;
    hd_pool_free(&file_pool);
    return 0;
}

static void expect_refusal(const char *text, size_t bytes, hd_status code, const char *part)
{
    hd_error        err = {0};
    hd_tokenizer   *t = NULL;
    hd_status const s = hd_tokenizer_open_text(&t, text, bytes, "test", &err);
    if (s != code || !strstr(err.message, part))
        fail_msg("got %s '%s', want %s '%s'", hd_status_name(s), err.message, hd_status_name(code),
                 part);
    assert_null(t);
    assert_int_equal(hd_tokenizer_open_text(&t, text, bytes, "test", NULL), code);
}

/* The demo file with one place changed. */
typedef struct change {
    const char *path;  /* JSON pointer */
    const char *value; /* JSON */
    hd_status   code;
    const char *part; /* of the message */
} change;

static void test_changed_file(const change *c)
{
    json_object *file = json_tokener_parse(file_text);
    assert_int_equal(json_pointer_set(&file, c->path, json_tokener_parse(c->value)), 0);
    const char *const text = json_object_to_json_string(file);
    expect_refusal(text, strlen(text), c->code, c->part);
    json_object_put(file);
}

#define STAGE(n) "/pre_tokenizer/pretokenizers/" #n

static void test_other_rules(void **state)
{
    static const change changes[] = {
        {"/model/type", "\"WordPiece\"", HD_ERR_UNSUPPORTED, "model type is \"WordPiece\""},
        {"/model/dropout", "0.1", HD_ERR_UNSUPPORTED, "dropout is 0.1"},
        {"/model/dropout", "\"x\"", HD_ERR_UNSUPPORTED, "dropout is \"x\""},
        {"/model/continuing_subword_prefix", "\"##\"", HD_ERR_UNSUPPORTED,
         "subword_prefix is \"##\""},
        {"/model/end_of_word_suffix", "\"</w>\"", HD_ERR_UNSUPPORTED, "word_suffix is"},
        {"/model/ignore_merges", "true", HD_ERR_UNSUPPORTED, "ignore_merges is true"},
        {"/normalizer", "{\"type\":\"NFC\"}", HD_ERR_UNSUPPORTED,
         "normalizer { \"type\": \"NFC\" }"},
        {"/pre_tokenizer", "null", HD_ERR_UNSUPPORTED, "pre_tokenizer missing"},
        {"/pre_tokenizer", "[]", HD_ERR_UNSUPPORTED, "pre_tokenizer [ ]"},
        {"/pre_tokenizer/pretokenizers", "[]", HD_ERR_UNSUPPORTED, "want a Sequence of 4"},
        {STAGE(0) "/pattern/Regex", "\"\\\\d\"", HD_ERR_UNSUPPORTED, "stage 1"},
        {STAGE(0) "/pattern", "{\"String\":\"x\"}", HD_ERR_UNSUPPORTED, "stage 1"},
        {STAGE(1) "/invert", "true", HD_ERR_UNSUPPORTED, "stage 2"},
        {STAGE(2) "/behavior", "\"Removed\"", HD_ERR_UNSUPPORTED, "stage 3"},
        {STAGE(3) "/use_regex", "true", HD_ERR_UNSUPPORTED, "stage 4"},
        {STAGE(3) "/add_prefix_space", "true", HD_ERR_UNSUPPORTED, "stage 4"},
        {"/decoder", "{\"type\":\"WordPiece\"}", HD_ERR_UNSUPPORTED, "decoder is {"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) test_changed_file(&changes[i]);
}

static void test_bad_vocab(void **state)
{
    static const change changes[] = {
        {"/model", "7", HD_ERR_FORMAT, "model.vocab is missing"},
        {"/model/vocab", "[]", HD_ERR_FORMAT, "model.vocab is missing or no object"},
        {"/model/vocab", "{}", HD_ERR_UNSUPPORTED, "no token for byte 00"},
        {"/model/vocab/!", "-1", HD_ERR_FORMAT, "id -1 of token \"!\""},
        {"/model/vocab/!", "2051", HD_ERR_FORMAT,
         "id 2051 of token \"!\": the file has 2051 tokens"},
        {"/model/vocab/!", "\"3\"", HD_ERR_FORMAT, "id of token \"!\" is not an integer"},
        {"/model/vocab/!", "3.5", HD_ERR_FORMAT, "not an integer"},
        {"/model/vocab/!", "4", HD_ERR_FORMAT, "both have id 4"},
        {"/model/vocab/th", "2050", HD_ERR_FORMAT, "no token has id 261"},
        {"/model/vocab/\xE6\xBC\xA2", "2048", HD_ERR_FORMAT, "does not spell bytes"},
        {"/model/vocab/", "2048", HD_ERR_FORMAT, "does not spell bytes"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) test_changed_file(&changes[i]);
}

static void test_bad_merges(void **state)
{
    static const change changes[] = {
        {"/model/merges", "null", HD_ERR_FORMAT, "model.merges is missing"},
        {"/model/merges/0", "\"ab\"", HD_ERR_FORMAT, "merge 0 is \"ab\": want two tokens"},
        {"/model/merges/0", "\"t h e\"", HD_ERR_FORMAT, "want two tokens"},
        {"/model/merges/0", "[\"t\"]", HD_ERR_FORMAT, "want two tokens"},
        {"/model/merges/0", "[\"t\", 7]", HD_ERR_FORMAT, "want two tokens"},
        {"/model/merges/0", "[\"t\\u0000\", \"h\"]", HD_ERR_FORMAT, "want two tokens"},
        {"/model/merges/5", "7", HD_ERR_FORMAT, "merge 5 is 7"},
        {"/model/merges/0", "\"zqj h\"", HD_ERR_FORMAT, "merge 0: \"zqj\" is not in model.vocab"},
        {"/model/merges/0", "[\"t\", \"zqj\"]", HD_ERR_FORMAT, "\"zqj\" is not"},
        {"/model/merges/0", "[\"z\", \"q\"]", HD_ERR_FORMAT, "\"zq\" is not"},
        {"/model/merges/0", "[\"t\", \"h\"]", HD_ERR_FORMAT, "merges 0 and 2 join the same pair"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) test_changed_file(&changes[i]);
}

static void test_bad_added(void **state)
{
    static const change changes[] = {
        {"/added_tokens/12/lstrip", "true", HD_ERR_UNSUPPORTED, "\"<think>\": lstrip is not"},
        {"/added_tokens/12/rstrip", "true", HD_ERR_UNSUPPORTED, "rstrip"},
        {"/added_tokens/12/single_word", "true", HD_ERR_UNSUPPORTED, "single_word"},
        {"/added_tokens/12/special", "3", HD_ERR_FORMAT, "special is not true or false"},
        {"/added_tokens/12/content", "\"\"", HD_ERR_FORMAT, "has no content"},
        {"/added_tokens/12", "7", HD_ERR_FORMAT, "added token 7 has no content"},
        {"/added_tokens/12/id", "null", HD_ERR_FORMAT, "id of token \"<think>\" is not an integer"},
        {"/added_tokens/12/id", "2045", HD_ERR_FORMAT, "both have id 2045"},
        {"/added_tokens/12/id", "9999", HD_ERR_FORMAT, "id 9999"},
        {"/added_tokens/0/id", "7", HD_ERR_FORMAT, "has id 7, in model.vocab 0"},
        {"/added_tokens/1",
         "{\"id\":0,\"content\":\"<\xEF\xBD\x9C"
         "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>\"}",
         HD_ERR_FORMAT, "is there twice"},
        {"/added_tokens/13/content", "\"<think>\"", HD_ERR_FORMAT, "\"<think>\" is there twice"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) test_changed_file(&changes[i]);
}

static void test_bad_text(void **state)
{
    (void)state;
    expect_refusal("", 0, HD_ERR_FORMAT, "test");
    expect_refusal("[]", 2, HD_ERR_UNSUPPORTED, "pre_tokenizer missing");
    expect_refusal(file_text, file_bytes / 2, HD_ERR_FORMAT, "test");
    hd_tokenizer *t = NULL;
    hd_error      err = {0};
    assert_int_equal(hd_tokenizer_open(&t, "no/such/folder", &err), HD_ERR_IO);
    assert_non_null(strstr(err.message, "no/such/folder"));
    assert_int_equal(hd_tokenizer_open(&t, "tests", &err), HD_ERR_IO);
    assert_int_equal(hd_tokenizer_open(&t, NULL, &err), HD_ERR_INVALID);
    assert_null(t);
}

/* ---- files that differ without a difference ---- */

static int32_t encode_with(const char *json, const char *text, int32_t ids[64])
{
    hd_error      err = {0};
    hd_tokenizer *t = NULL;
    int32_t       n = 0;
    if (hd_tokenizer_open_text(&t, json, strlen(json), "test", &err) != HD_OK)
        fail_msg("%s", err.message);
    assert_int_equal(hd_tokenizer_encode(t, text, strlen(text), true, ids, 64, &n, NULL), HD_OK);
    hd_tokenizer_close(t);
    return n;
}

/* Merges as "a b", line ends unescaped in the expressions, an empty normalizer, settings of
 * batch jobs, an old file without the newer keys. */
static void test_other_spellings(void **state)
{
    static const char  text[] = "the\r\n\r\nend <think> of  it\n";
    json_object       *file = json_tokener_parse(file_text);
    int32_t            want[64], got[64], n_want = encode_with(file_text, text, want);
    json_object *const model = json_object_object_get(file, "model");
    json_object *const old = json_object_object_get(model, "merges");
    json_object *const merges = json_object_new_array();
    (void)state;
    for (size_t i = 0; i < json_object_array_length(old); i++) {
        char               joined[256];
        json_object *const pair = json_object_array_get_idx(old, i);
        snprintf(joined, sizeof joined, "%s %s",
                 json_object_get_string(json_object_array_get_idx(pair, 0)),
                 json_object_get_string(json_object_array_get_idx(pair, 1)));
        json_object_array_add(merges, json_object_new_string(joined));
    }
    json_object_object_add(model, "merges", merges);
    json_object_object_del(model, "ignore_merges");
    json_pointer_set(&file, "/normalizer",
                     json_tokener_parse("{\"type\":\"Sequence\",\"normalizers\":[]}"));
    json_pointer_set(&file, "/truncation", json_tokener_parse("{\"max_length\":5}"));
    json_pointer_set(
        &file, STAGE(2) "/pattern/Regex",
        json_object_new_string("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
                               "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
                               "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"));
    assert_int_equal(encode_with(json_object_to_json_string(file), text, got), n_want);
    assert_memory_equal(got, want, (size_t)n_want * sizeof *want);
    json_object_put(file);
}

/* Tokens not flagged `normalized` are found before those that are, even further right, and
 * the longest of those that start together wins. */
static void test_added_order(void **state)
{
    json_object             *file = json_tokener_parse(file_text);
    json_object *const       added = json_object_object_get(file, "added_tokens");
    static const char *const more[] = {"{\"id\":2048,\"content\":\"ab<think\",\"normalized\":true}",
                                       "{\"id\":2049,\"content\":\"xy\",\"normalized\":false}",
                                       "{\"id\":2050,\"content\":\"xyz\",\"normalized\":false}",
                                       "{\"id\":2051,\"content\":\"qq\",\"special\":false}"};
    int32_t                  ids[64];
    (void)state;
    for (size_t i = 0; i < 4; i++) json_object_array_add(added, json_tokener_parse(more[i]));
    const char *const json = json_object_to_json_string(file);
    int32_t const     n = encode_with(json, "ab<think>", ids);
    assert_int_equal(ids[n - 1], 2044);
    assert_int_equal(encode_with(json, "ab<think", ids), 1);
    assert_int_equal(ids[0], 2048);
    assert_int_equal(encode_with(json, "xyzxyqqxy", ids), 4);
    int32_t const want[4] = {2050, 2049, 2051, 2049};
    assert_memory_equal(ids, want, sizeof want);
    json_object_put(file);
}

/* ---- short memory ---- */

static void test_memory_short(void **state)
{
    hd_error      err = {0};
    hd_tokenizer *t = NULL;
    hd_status     s = HD_ERR_MEMORY;
    int64_t       n = 0;
    (void)state;
    for (; s == HD_ERR_MEMORY && n < 1000; n++) {
        hd_memory_fail_at(n + 1);
        s = hd_tokenizer_open(&t, "models/demo", &err);
        hd_memory_fail_at(0);
        assert_true(s == HD_OK || !t);
    }
    assert_int_equal(s, HD_OK);
    assert_true(n > 5);
    hd_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_rules), cmocka_unit_test(test_bad_vocab),
        cmocka_unit_test(test_bad_merges),  cmocka_unit_test(test_bad_added),
        cmocka_unit_test(test_bad_text),    cmocka_unit_test(test_other_spellings),
        cmocka_unit_test(test_added_order), cmocka_unit_test(test_memory_short),
    };
    return cmocka_run_group_tests(tests, read_file, free_file);
}
