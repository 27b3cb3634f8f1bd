#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "tokenizer/tokenizer.h"

#define MODEL   "models/demo"
#define FILE_OF MODEL "/tokenizer.json"

static hd_tokenizer *demo;

static int open_demo(void **state)
{
    hd_error err = {0};
    (void)state;
    return hd_tokenizer_open(&demo, MODEL, &err) == HD_OK ? 0 : -1;
}

static int close_demo(void **state)
{
    (void)state;
    hd_tokenizer_close(demo);
    return 0;
}

/* ---- vectors ---- */

static void check_ids(const char *text, size_t bytes, bool control, const json_object *want)
{
    hd_error       err = {0};
    int32_t        n = -1;
    int32_t *const ids = hd_memory_alloc(bytes * sizeof *ids);
    assert_int_equal(hd_tokenizer_encode(demo, text, bytes, control, ids, (int32_t)bytes, &n, &err),
                     HD_OK);
    if (n != (int32_t)json_object_array_length(want))
        fail_msg("'%s': %d ids, want %zu", text, n, json_object_array_length(want));
    size_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        size_t            length;
        const char *const token = hd_tokenizer_bytes(demo, ids[i], &length);
        if (ids[i] != json_object_get_int(json_object_array_get_idx(want, (size_t)i)))
            fail_msg("'%s': id %d is %d", text, i, ids[i]);
        assert_true(at + length <= bytes && memcmp(token, text + at, length) == 0);
        at += length;
    }
    assert_int_equal(at, bytes);
    hd_memory_free(ids);
}

static void check_row(const char *line)
{
    json_object *const row = json_tokener_parse(line);
    json_object *const text = json_object_object_get(row, "text");
    const char *const  s = json_object_get_string(text);
    size_t const       bytes = (size_t)json_object_get_string_len(text);
    check_ids(s, bytes, true, json_object_object_get(row, "ids"));
    check_ids(s, bytes, false, json_object_object_get(row, "ids_plain"));
    json_object_put(row);
}

static void test_vectors(void **state)
{
    hd_pool pool = {0};
    char   *text, *save = NULL;
    size_t  bytes;
    int     n = 0;
    (void)state;
    assert_int_equal(
        hd_file_read(&text, &bytes, "tests/golden/tokenizer/vectors.jsonl", 1 << 20, &pool, NULL),
        HD_OK);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save), n++)
        check_row(line);
    assert_true(n > 100);
    hd_pool_free(&pool);
}

/* ---- look-ups and limits ---- */

static void test_lookups(void **state)
{
    size_t bytes = 0;
    (void)state;
    assert_int_equal(hd_tokenizer_vocab(demo), 2048);
    assert_int_equal(hd_tokenizer_control_id(demo, "<think>", 7), 2044);
    assert_int_equal(hd_tokenizer_control_id(demo, "<think>", 6), -1);
    assert_int_equal(hd_tokenizer_control_id(demo, "<think>x", 8), -1);
    assert_int_equal(hd_tokenizer_control_id(demo, "", 0), -1);
    assert_int_equal(hd_tokenizer_control_id(demo, "the", 3), -1);
    assert_true(hd_tokenizer_is_control(demo, 0));
    assert_true(hd_tokenizer_is_control(demo, 2047));
    assert_false(hd_tokenizer_is_control(demo, 3));
    assert_false(hd_tokenizer_is_control(demo, -1));
    assert_false(hd_tokenizer_is_control(demo, 2048));
    assert_null(hd_tokenizer_bytes(demo, 2048, &bytes));
    assert_null(hd_tokenizer_bytes(demo, -1, &bytes));
    assert_memory_equal(hd_tokenizer_bytes(demo, 2044, &bytes), "<think>", 7);
    assert_int_equal(bytes, 7);
    hd_tokenizer_close(NULL);
}

static void test_capacity(void **state)
{
    hd_error err = {0};
    int32_t  n = -1, ids[4] = {-7, -7, -7, -7};
    (void)state;
    assert_int_equal(hd_tokenizer_encode(demo, "a.b.c", 5, true, NULL, 0, &n, &err), HD_ERR_LIMIT);
    int32_t const whole = n;
    assert_in_range(whole, 3, 5);
    assert_int_equal(hd_tokenizer_encode(demo, "a.b.c", 5, true, ids, 2, &n, &err), HD_ERR_LIMIT);
    assert_int_equal(n, whole);
    assert_int_equal(ids[2], -7);
    assert_int_equal(hd_tokenizer_encode(demo, NULL, 0, true, NULL, 0, &n, &err), HD_OK);
    assert_int_equal(n, 0);
    assert_int_equal(hd_tokenizer_encode(demo, "a", 1, true, NULL, 4, &n, &err), HD_ERR_INVALID);
    assert_int_equal(hd_tokenizer_encode(demo, "a", 1, true, ids, -1, &n, &err), HD_ERR_INVALID);
    assert_int_equal(hd_tokenizer_encode(demo, NULL, 1, true, ids, 4, &n, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_tokenizer_encode(demo, "a", (size_t)INT32_MAX + 1, true, ids, 4, &n, &err),
                     HD_ERR_INVALID);
}

static void test_text_not_utf8(void **state)
{
    static const struct {
        const char *text;
        size_t      bytes;
        int64_t     where;
    } cases[] = {{"ab\xFF", 3, 2},       {"\x80", 1, 0},
                 {"a\xC3", 2, 1},        {"\xC0\x80", 2, 0},
                 {"\xED\xA0\x80", 3, 0}, {"\xF4\x90\x80\x80", 4, 0},
                 {"x\xE4\xBD", 3, 1},    {"12345678\xE0\x80\x80", 11, 8},
                 {"\xF0\x9F\x99z", 4, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hd_error err = {0};
        int32_t  n = -5, ids[16];
        assert_int_equal(
            hd_tokenizer_encode(demo, cases[i].text, cases[i].bytes, i % 2 == 0, ids, 16, &n, &err),
            HD_ERR_FORMAT);
        assert_int_equal(err.where, cases[i].where);
        assert_int_equal(n, -5);
    }
}

/* A quadratic merge would need minutes here. */
static void test_long_piece(void **state)
{
    size_t const   bytes = 1 << 20;
    char *const    text = hd_memory_alloc(bytes);
    int32_t *const ids = hd_memory_alloc(bytes * sizeof *ids);
    int32_t        n = 0;
    (void)state;
    for (size_t i = 0; i < bytes; i++) text[i] = "etaoinshrdlu"[(i * i + i / 7) % 12];
    clock_t const start = clock();
    assert_int_equal(hd_tokenizer_encode(demo, text, bytes, true, ids, (int32_t)bytes, &n, NULL),
                     HD_OK);
    assert_true(clock() - start < 20 * CLOCKS_PER_SEC);
    size_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        size_t            length;
        const char *const token = hd_tokenizer_bytes(demo, ids[i], &length);
        assert_memory_equal(token, text + at, length);
        at += length;
    }
    assert_int_equal(at, bytes);
    hd_memory_free(ids);
    hd_memory_free(text);
}

/* The rule itself: join the pair of the lowest rank, the leftmost of equals, look again. */
static int32_t merge_slowly(const char *text, int32_t n, int32_t *ids)
{
    for (int32_t i = 0; i < n; i++) ids[i] = demo->bpe.byte_id[(unsigned char)text[i]];
    for (;;) {
        const hd_merge *best = NULL;
        int32_t         at = 0;
        for (int32_t i = 0; i + 1 < n; i++) {
            for (uint32_t k = 0; k < demo->bpe.row[demo->vocab.n]; k++) {
                const hd_merge *const m = &demo->bpe.merges[k];
                if (m->left != ids[i] || m->right != ids[i + 1]) continue;
                if (best && best->rank <= m->rank) continue;
                best = m;
                at = i;
            }
        }
        if (!best) return n;
        ids[at] = best->made;
        n--;
        memmove(ids + at + 1, ids + at + 2, (size_t)(n - at - 1) * sizeof *ids);
    }
}

static void check_merging(const char *text, size_t bytes)
{
    int32_t        slow[130], fast[130];
    hd_bpe_scratch scratch = {0};
    hd_ids         ids = {fast, 130, 0};
    assert_int_equal(hd_bpe_encode(&demo->bpe, &scratch, text, bytes, &ids, NULL), HD_OK);
    assert_int_equal(ids.n, merge_slowly(text, (int32_t)bytes, slow));
    assert_memory_equal(fast, slow, (size_t)ids.n * sizeof *fast);
    hd_bpe_scratch_free(&scratch);
}

/* Lengths on both sides of where merging changes from the stack to a heap. */
static void test_merging_follows_the_rule(void **state)
{
    static const size_t lengths[] = {1, 2, 3, 9, 30, 62, 63, 64, 65, 66, 67, 80, 100, 130};
    uint32_t            seed = 1;
    char                text[130];
    (void)state;
    for (size_t k = 0; k < 4 * (sizeof lengths / sizeof lengths[0]); k++) {
        for (size_t i = 0; i < sizeof text; i++) {
            seed = seed * 1664525u + 1013904223u;
            text[i] = "theinandoflsre ing to"[seed % 0x1000000u * 21u >> 24];
        }
        check_merging(text, lengths[k / 4]);
    }
}

/* Joining b and c makes the candidate a, b stale: the pair there is now a, bc, whose turn
 * comes after bc, d. */
static void test_stale_candidate(void **state)
{
    char       bytes[256 + 2 + 2 + 3 + 3];
    uint32_t   offset[261] = {0};
    const bool is_control[260] = {false};
    hd_vocab   vocab = {260, offset, bytes, is_control};
    hd_merge   merges[] = {
          {'b', 'c', 256, 0}, {'a', 'b', 257, 1}, {256, 'd', 258, 2}, {'a', 256, 259, 3}};
    hd_bpe  bpe = {.vocab = &vocab};
    hd_pool pool = {0};
    char    text[4 * 30];
    (void)state;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        offset[i + 1] = (uint32_t)i + 1;
        bpe.byte_id[i] = i;
    }
    memcpy(bytes + 256, "bcabbcdabc", 10);
    for (int i = 0; i < 4; i++) offset[257 + i] = offset[256 + i] + (i < 2 ? 2 : 3);
    assert_int_equal(hd_bpe_build(&bpe, merges, 4, &pool, NULL), HD_OK);
    for (size_t i = 0; i < sizeof text; i++) text[i] = "abcd"[i % 4];
    for (size_t length = 4; length <= sizeof text; length += 4) {
        int32_t        got[120];
        hd_ids         ids = {got, 120, 0};
        hd_bpe_scratch scratch = {0};
        assert_int_equal(hd_bpe_encode(&bpe, &scratch, text, length, &ids, NULL), HD_OK);
        assert_int_equal(ids.n, length / 2);
        for (int32_t i = 0; i < ids.n; i++) assert_int_equal(got[i], i % 2 ? 258 : 'a');
        hd_bpe_scratch_free(&scratch);
    }
    hd_pool_free(&pool);
}

/* ---- files ---- */

static char   *file_text; /* owned by file_pool */
static size_t  file_bytes;
static hd_pool file_pool;

static int read_file(void **state)
{
    (void)state;
    hd_status const s = hd_file_read(&file_text, &file_bytes, FILE_OF, 1 << 24, &file_pool, NULL);
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
    (void)state;
    int64_t n = 0;
    for (; s == HD_ERR_MEMORY && n < 1000; n++) {
        hd_memory_fail_at(n + 1);
        s = hd_tokenizer_open(&t, MODEL, &err);
        hd_memory_fail_at(0);
        assert_true(s == HD_OK || !t);
    }
    assert_int_equal(s, HD_OK);
    assert_true(n > 5);
    hd_tokenizer_close(t);

    char    text[300];
    int32_t ids[300], n_ids = -3;
    memset(text, 'a', sizeof text);
    hd_memory_fail_at(1);
    s = hd_tokenizer_encode(demo, text, sizeof text, true, ids, 300, &n_ids, &err);
    hd_memory_fail_at(0);
    assert_int_equal(s, HD_ERR_MEMORY);
    assert_int_equal(n_ids, -3);
}

/* Ordinary text needs no memory of its own. */
static void test_short_pieces_allocate_nothing(void **state)
{
    static const char text[] = "The quick brown fox, <think> and 12345 more.\n";
    int32_t           ids[64], n;
    (void)state;
    int64_t const before = hd_memory_count();
    assert_int_equal(hd_tokenizer_encode(demo, text, strlen(text), true, ids, 64, &n, NULL), HD_OK);
    assert_int_equal(hd_memory_count(), before);
}

int main(void)
{
    const struct CMUnitTest encoding[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_lookups),
        cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_text_not_utf8),
        cmocka_unit_test(test_long_piece),
        cmocka_unit_test(test_merging_follows_the_rule),
        cmocka_unit_test(test_stale_candidate),
        cmocka_unit_test(test_memory_short),
        cmocka_unit_test(test_short_pieces_allocate_nothing),
    };
    const struct CMUnitTest files[] = {
        cmocka_unit_test(test_other_rules), cmocka_unit_test(test_bad_vocab),
        cmocka_unit_test(test_bad_merges),  cmocka_unit_test(test_bad_added),
        cmocka_unit_test(test_bad_text),    cmocka_unit_test(test_other_spellings),
        cmocka_unit_test(test_added_order),
    };
    int const failed = cmocka_run_group_tests(encoding, open_demo, close_demo);
    return failed + cmocka_run_group_tests(files, read_file, free_file);
}
