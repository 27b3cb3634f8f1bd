#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/st_image.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/shard_index.h"

#define N_OF(a) (sizeof(a) / sizeof(a)[0])
#define INDEX   "model.safetensors.index.json"

/* A header entry: U8 [4] at bytes 0 to 4 or 4 to 8. */
#define FIRST(name)  "\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}"
#define SECOND(name) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}"

static void make_folder(temp_folder *t)
{
    size_t      bytes;
    char *const text = read_golden("tests/golden/checkpoint/config_official.json", &bytes);
    temp_folder_make(t);
    temp_folder_write(t, "config.json", text, bytes);
    free(text);
}

/* Refused with this code; the message holds both texts. */
static void refuse(const temp_folder *t, hd_status want, const char *text, const char *also)
{
    hd_checkpoint *c = (hd_checkpoint *)&want;
    hd_error       err = {0};
    assert_int_equal(hd_checkpoint_open(&c, t->path, NULL, NULL), want);
    assert_int_equal(hd_checkpoint_open(&c, t->path, NULL, &err), want);
    assert_ptr_equal(c, &want);
    if (!strstr(err.message, text) || !strstr(err.message, also))
        fail_msg("message \"%s\", want \"%s\" and \"%s\"", err.message, text, also);
}

static hd_checkpoint *accept(const temp_folder *t, const hd_log *log)
{
    hd_checkpoint *c = NULL;
    hd_error       err = {0};
    if (hd_checkpoint_open(&c, t->path, log, &err) != HD_OK) fail_msg("%s", err.message);
    return c;
}

/* ---- folders ---- */

static void test_single_file(void **state)
{
    (void)state;
    temp_folder t;
    make_folder(&t);
    temp_folder_write_st(&t, "model.safetensors",
                         "{" FIRST("model.embed_tokens.weight") "," SECOND("norm.weight") "}", 8);
    temp_folder_write_text(&t, "other.safetensors", "not looked at");
    hd_checkpoint *const c = accept(&t, NULL);
    assert_int_equal(hd_checkpoint_count(c), 2);
    assert_int_equal(hd_checkpoint_shards(c), 1);
    assert_int_equal(hd_checkpoint_bytes(c), 8);
    assert_int_equal(hd_checkpoint_config(c)->n_layers, 4);
    assert_string_equal(hd_checkpoint_folder(c), t.path);
    assert_string_equal(hd_checkpoint_file_name(c, 0), "model.safetensors");
    hd_tensor *const e = hd_checkpoint_find(c, "embed.weight");
    assert_ptr_equal(e, hd_checkpoint_at(c, 0));
    assert_string_equal(e->st.name, "model.embed_tokens.weight");
    assert_string_equal(e->name, "embed.weight");
    assert_int_equal(e->ticked, 0);
    assert_int_equal(hd_checkpoint_find(c, "norm.weight")->st.data[0], 4);
    assert_null(hd_checkpoint_find(c, "model.embed_tokens.weight"));
    hd_checkpoint_close(c);
    hd_checkpoint_close(NULL);
    temp_folder_remove(&t);
}

/* Digest of a settled checkpoint of two tensors; the data is what the file holds. */
static uint64_t settled_digest(const temp_folder *t)
{
    hd_checkpoint *const c = accept(t, NULL);
    assert_int_equal(hd_checkpoint_settle(c, NULL), HD_OK);
    uint64_t const digest = hd_checkpoint_digest(c, 1);
    assert_int_not_equal(digest, hd_checkpoint_digest(c, 2));
    assert_int_equal(hd_checkpoint_count(c), 0);
    assert_null(hd_checkpoint_find(c, "norm.weight"));
    assert_null(hd_checkpoint_next(c, "", &(int32_t){-1}));
    assert_int_equal(hd_checkpoint_bytes(c), 8);
    assert_string_equal(hd_checkpoint_file_name(c, 0), "model.safetensors");
    hd_checkpoint_close(c);
    return digest;
}

/* Settled, it has no tensors, and a digest of names and data. */
static void test_settled(void **state)
{
    (void)state;
    temp_folder t;
    make_folder(&t);
    temp_folder_write_st(&t, "model.safetensors",
                         "{" FIRST("norm.weight") "," SECOND("embed.weight") "}", 8);
    uint64_t const digest = settled_digest(&t);
    assert_int_equal(digest, settled_digest(&t));
    temp_folder_write_st(&t, "model.safetensors",
                         "{" FIRST("norm.weight") "," SECOND("embed.weighs") "}", 8);
    assert_int_not_equal(digest, settled_digest(&t));
    st_image m = st_image_make("{" FIRST("norm.weight") "," SECOND("embed.weight") "}", 8);
    m.data[m.bytes - 1] ^= 1;
    temp_folder_write(&t, "model.safetensors", m.data, m.bytes);
    assert_int_not_equal(digest, settled_digest(&t));
    st_image_free(&m);
    temp_folder_remove(&t);
}

/* Those with a prefix, by name. */
static void test_next(void **state)
{
    (void)state;
    temp_folder t;
    int32_t     at = -1;
    make_folder(&t);
    temp_folder_write_st(&t, "1.safetensors", "{" FIRST("a.x") "," SECOND("a.b.y") "}", 8);
    temp_folder_write_st(&t, "2.safetensors", "{" FIRST("a") "," SECOND("ab.x") "}", 8);
    hd_checkpoint *const c = accept(&t, NULL);
    assert_string_equal(hd_checkpoint_next(c, "a.", &at)->name, "a.b.y");
    assert_string_equal(hd_checkpoint_next(c, "a.", &at)->name, "a.x");
    assert_null(hd_checkpoint_next(c, "a.", &at));
    assert_null(hd_checkpoint_next(c, "b", &(int32_t){-1}));
    assert_null(hd_checkpoint_next(c, "a.c", &(int32_t){-1}));
    hd_checkpoint_close(c);
    temp_folder_remove(&t);
}

static void test_all_files(void **state)
{
    (void)state;
    temp_folder t;
    make_folder(&t);
    temp_folder_write_st(&t, "b.safetensors", "{" FIRST("b") "}", 4);
    temp_folder_write_st(&t, "a.safetensors", "{" FIRST("a") "}", 4);
    temp_folder_write_text(&t, ".hidden.safetensors", "not looked at");
    temp_folder_write_text(&t, "safetensors", "not looked at");
    hd_checkpoint *const c = accept(&t, NULL);
    assert_int_equal(hd_checkpoint_count(c), 2);
    assert_string_equal(hd_checkpoint_file_name(c, 0), "a.safetensors");
    assert_int_equal(hd_checkpoint_find(c, "b")->shard, 1);
    hd_checkpoint_close(c);
    temp_folder_remove(&t);
}

typedef struct log_record {
    int  n_lines, n_progress;
    char warning[512];
} log_record;

static void note_line(void *user, hd_log_level level, const char *line)
{
    log_record *const r = user;
    r->n_lines++;
    if (level == HD_LOG_WARNING) snprintf(r->warning, sizeof r->warning, "%s", line);
}

static void note_progress(void *user, const char *what, int64_t done, int64_t total)
{
    log_record *const r = user;
    assert_string_equal(what, "reading headers");
    assert_int_equal(done, r->n_progress++);
    assert_int_equal(total, 2);
}

/* Tensors that the index omits are used, and said. */
static void test_index(void **state)
{
    (void)state;
    temp_folder t;
    log_record  record = {0};
    hd_log      log = {note_line, note_progress, &record};
    make_folder(&t);
    temp_folder_write_text(&t, INDEX,
                           "{\"metadata\":{},\"weight_map\":{\"b.weight\":\"2.safetensors\","
                           "\"a\":\"1.safetensors\"}}");
    temp_folder_write_st(&t, "1.safetensors", "{" FIRST("a") "}", 4);
    temp_folder_write_st(&t, "2.safetensors", "{" FIRST("b.weight") "," SECOND("b.scale") "}", 8);
    temp_folder_write_text(&t, "3.safetensors", "not looked at");
    hd_checkpoint *const c = accept(&t, &log);
    assert_int_equal(hd_checkpoint_count(c), 3);
    assert_int_equal(hd_checkpoint_find(c, "b.scale")->shard, 1);
    assert_non_null(strstr(record.warning, "omits 1 tensors"));
    assert_int_equal(record.n_lines, 4);
    assert_int_equal(record.n_progress, 3);
    hd_checkpoint_close(c);
    temp_folder_remove(&t);
}

static void test_missing_parts(void **state)
{
    (void)state;
    temp_folder t;
    temp_folder_make(&t);
    refuse(&t, HD_ERR_IO, t.path, "config.json");
    temp_folder_remove(&t);
    refuse(&t, HD_ERR_IO, t.path, "no such folder");
    make_folder(&t);
    refuse(&t, HD_ERR_IO, t.path, "no *.safetensors");
    temp_folder_write_text(&t, INDEX, "{\"weight_map\":{\"a\":\"1.safetensors\"}}");
    refuse(&t, HD_ERR_IO, "1.safetensors: missing", INDEX);
    temp_folder_write_st(&t, "1.safetensors", "{" FIRST("b") "}", 4);
    refuse(&t, HD_ERR_FORMAT, "tensor a is not in 1.safetensors", INDEX);
    temp_folder_write_text(&t, "1.safetensors", "12345678");
    refuse(&t, HD_ERR_FORMAT, "1.safetensors", "header of ");
    temp_folder_write_text(&t, INDEX, "{");
    refuse(&t, HD_ERR_FORMAT, INDEX, "byte");
    temp_folder_remove(&t);
}

static void test_twins(void **state)
{
    (void)state;
    temp_folder t;
    make_folder(&t);
    temp_folder_write_st(&t, "1.safetensors", "{" FIRST("embed.weight") "}", 4);
    temp_folder_write_st(&t, "2.safetensors", "{" FIRST("embed.weight") "}", 4);
    refuse(&t, HD_ERR_FORMAT, "embed.weight in 1.safetensors", "embed.weight in 2.safetensors");
    temp_folder_write_st(&t, "2.safetensors", "{" FIRST("model.embed_tokens.weight") "}", 4);
    refuse(&t, HD_ERR_FORMAT, "tensor embed.weight is there twice: embed.weight in 1.safetensors",
           "model.embed_tokens.weight in 2.safetensors");
    temp_folder_remove(&t);
}

static void test_long_name(void **state)
{
    (void)state;
    char        header[800], name[600];
    temp_folder t;
    make_folder(&t);
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    snprintf(header, sizeof header,
             "{\"%s\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", name);
    temp_folder_write_st(&t, "model.safetensors", header, 0);
    refuse(&t, HD_ERR_FORMAT, "model.safetensors", "too long (599 bytes)");
    temp_folder_remove(&t);
}

static void test_memory_failures(void **state)
{
    (void)state;
    temp_folder    t;
    hd_checkpoint *c = NULL;
    make_folder(&t);
    temp_folder_write_text(&t, INDEX, "{\"weight_map\":{\"model.norm.weight\":\"1.safetensors\"}}");
    temp_folder_write_st(&t, "1.safetensors", "{" FIRST("model.norm.weight") "}", 4);
    for (int64_t n = 1; !c; n++) {
        hd_memory_fail_at(n);
        hd_status const s = hd_checkpoint_open(&c, t.path, NULL, NULL);
        hd_memory_fail_at(0);
        if (s != HD_OK) assert_int_equal(s, HD_ERR_MEMORY);
    }
    hd_checkpoint_close(c);
    temp_folder_remove(&t);
}

/* ---- the index by itself ---- */

static void test_index_text(void **state)
{
    (void)state;
    static const char text[] =
        "{\"metadata\":{\"weight_map\":[{}, \"]\"]},\"weight_map\": {\"a\":\"y.safetensors\",\"b\" "
        ":\"\\u0078.safetensors\",\"\\u0063\":\"y.safetensors\"} }";
    hd_pool        pool = {0};
    hd_shard_index x;
    assert_int_equal(hd_shard_index_parse(&x, text, sizeof text - 1, INDEX, &pool, NULL), HD_OK);
    assert_int_equal(x.n_shards, 2);
    assert_string_equal(x.shards[0], "x.safetensors");
    assert_int_equal(x.n_entries, 3);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(x.entries[i].shard, x.entries[i].name[0] == 'b' ? 0 : 1);
    assert_string_equal(x.entries[2].name, "c");
    hd_pool_free(&pool);
}

static void test_bad_index(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "[]",
        "null",
        "{}",
        "{\"weight_map\":[]}",
        "{\"weight_map\":{}}",
        "{\"weight_map\":{\"t\":3}}",
        "{\"weight_map\":{\"t\":null}}",
        "{\"weight_map\":{\"t\":[\"a.safetensors\"]}}",
        "{\"weight_map\":{\"t\":\"a.safetensors\",\"t\":\"b.safetensors\"}}",
        "{\"weight_map\":{\"t\":\"a.safetensors\",\"\\u0074\":\"a.safetensors\"}}",
        "{\"weight_map\":{\"t\":\"a.safetensors\"},\"weight_map\":{\"u\":\"a.safetensors\"}}",
        "{\"weight_map\":{\"t\":\"a.safetensors\"}",
        "{\"weight_map\":{\"t\":\"a.safetensors\"}}x",
        "{\"weight_map\":{\"t\":\"a.safetensors\",}}"};
    for (size_t i = 0; i < N_OF(texts); i++) {
        hd_pool        pool = {0};
        hd_shard_index x = {.n_shards = 7};
        hd_error       err;
        assert_int_equal(hd_shard_index_parse(&x, texts[i], strlen(texts[i]), INDEX, &pool, &err),
                         HD_ERR_FORMAT);
        assert_non_null(strstr(err.message, INDEX));
        assert_int_equal(x.n_shards, 7);
        hd_pool_free(&pool);
    }
}

static void test_shard_paths(void **state)
{
    (void)state;
    static const char *const names[] = {"../a.safetensors",
                                        "/etc/a.safetensors",
                                        "x/a.safetensors",
                                        "..",
                                        "",
                                        ".safetensors",
                                        ".a.safetensors",
                                        "a.safetensors/",
                                        "x\\\\a.safetensors",
                                        "a.bin",
                                        "a.safetensors\\u0000",
                                        "a\\u0000.safetensors",
                                        "a.safetensors.bin"};
    for (size_t i = 0; i < N_OF(names); i++) {
        char           text[200];
        hd_pool        pool = {0};
        hd_shard_index x;
        hd_error       err;
        int const      n =
            snprintf(text, sizeof text, "{\"weight_map\":{\"t.weight\":\"%s\"}}", names[i]);
        assert_int_equal(hd_shard_index_parse(&x, text, (size_t)n, INDEX, &pool, &err),
                         HD_ERR_FORMAT);
        assert_non_null(strstr(err.message, INDEX ": weight_map: t.weight lies in \""));
        hd_pool_free(&pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_file),
        cmocka_unit_test(test_settled),
        cmocka_unit_test(test_next),
        cmocka_unit_test(test_all_files),
        cmocka_unit_test(test_index),
        cmocka_unit_test(test_missing_parts),
        cmocka_unit_test(test_twins),
        cmocka_unit_test(test_long_name),
        cmocka_unit_test(test_memory_failures),
        cmocka_unit_test(test_index_text),
        cmocka_unit_test(test_bad_index),
        cmocka_unit_test(test_shard_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
