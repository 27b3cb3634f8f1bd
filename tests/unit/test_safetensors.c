#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/st_image.h"
#include "base/memory.h"
#include "checkpoint/safetensors_write.h"

#define N_OF(a) (sizeof(a) / sizeof(a)[0])

static hd_st_file accept(const char *header, size_t data_bytes, st_image *m)
{
    hd_st_file f = {0};
    hd_error   err = {0};
    *m = st_image_make(header, data_bytes);
    if (hd_st_parse(&f, m->data, m->bytes, "x.safetensors", &err) != HD_OK)
        fail_msg("%s: %s", header, err.message);
    return f;
}

/* Refused with this code; the message names the file and holds `text`. */
static void refuse_image(st_image *m, hd_status want, int64_t where, const char *text)
{
    hd_st_file f = {.n_tensors = 77};
    hd_error   err = {0};
    assert_int_equal(hd_st_parse(&f, m->data, m->bytes, "x.safetensors", NULL), want);
    assert_int_equal(hd_st_parse(&f, m->data, m->bytes, "x.safetensors", &err), want);
    if (!strstr(err.message, "x.safetensors: ") || !strstr(err.message, text))
        fail_msg("message \"%s\", want \"%s\"", err.message, text);
    if (where != INT64_MIN) assert_int_equal(err.where, where);
    assert_int_equal(f.n_tensors, 77);
    st_image_free(m);
}

static void refuse(const char *header, size_t data_bytes, hd_status want, const char *text)
{
    st_image m = st_image_make(header, data_bytes);
    refuse_image(&m, want, INT64_MIN, text);
}

/* ---- good files ---- */

static void test_tensors(void **state)
{
    (void)state;
    st_image   m;
    hd_st_file f =
        accept("{\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[6,10]}, \"a\" : "
               "{\"shape\":[3,2],\"dtype\":\"U8\",\"extra\":[{}],\"data_offsets\":[0,6]}}  \n",
               10, &m);
    assert_int_equal(f.n_tensors, 2);
    const hd_st_tensor *const a = hd_st_find(&f, "a"), *const b = hd_st_find(&f, "b");
    assert_ptr_equal(a, f.tensors); /* in the order of the data, not of the header */
    assert_ptr_equal(b, f.tensors + 1);
    assert_int_equal(a->rank, 2);
    assert_int_equal(a->shape[0], 3);
    assert_int_equal(a->bytes, 6);
    assert_int_equal(a->data[5], 5);
    assert_int_equal(b->rank, 0);
    assert_int_equal(hd_st_tensor_count(b), 1);
    assert_int_equal(b->data[0], 6);
    assert_null(hd_st_find(&f, "c"));
    char text[64];
    assert_string_equal(hd_st_tensor_print(a, text, sizeof text), "U8 [3, 2]");
    assert_string_equal(hd_st_tensor_print(a, text, 6), "U8 [3");
    hd_st_close(&f);
    st_image_free(&m);
}

static void test_empty_files(void **state)
{
    (void)state;
    static const char *const headers[] = {"{}", "{ }", "{\n}\n ", "{\"__metadata__\":{}}"};
    for (size_t i = 0; i < N_OF(headers); i++) {
        st_image   m;
        hd_st_file f = accept(headers[i], 0, &m);
        assert_int_equal(f.n_tensors, 0);
        assert_null(hd_st_find(&f, "a"));
        hd_st_close(&f);
        st_image_free(&m);
    }
}

static void test_empty_tensors(void **state)
{
    (void)state;
    st_image   m;
    hd_st_file f = accept("{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                          "\"e\":{\"dtype\":\"I64\",\"shape\":[5,0],\"data_offsets\":[4,4]},"
                          "\"s\":{\"dtype\":\"I64\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                          4, &m);
    assert_int_equal(hd_st_find(&f, "e")->bytes, 0);
    assert_int_equal(hd_st_tensor_count(hd_st_find(&f, "e")), 0);
    assert_string_equal(f.tensors[0].name, "s");
    hd_st_close(&f);
    st_image_free(&m);
}

static void test_metadata_and_escapes(void **state)
{
    (void)state;
    st_image   m;
    hd_st_file f = accept("{\"__metadata__\":{\"format\":\"pt\",\"note\":\"a\\\"},{\\u00e9\"},"
                          "\"l\\u0061yer \\\"{\":{\"dt\\u0079pe\":\"\\u00558\",\"shape\":[1],"
                          "\"data_offsets\":[0,1]}}",
                          1, &m);
    assert_int_equal(f.n_meta, 2);
    assert_string_equal(f.meta[0].value, "pt");
    assert_string_equal(f.meta[1].value, "a\"},{\xC3\xA9");
    assert_non_null(hd_st_find(&f, "layer \"{"));
    hd_st_close(&f);
    st_image_free(&m);
}

static void test_dtypes(void **state)
{
    (void)state;
    hd_st_dtype d;
    int64_t     shape[2] = {3, 8};
    for (int i = 0; i < HD_ST_N_DTYPES; i++) {
        size_t bytes;
        assert_true(hd_st_dtype_from_name(&d, hd_st_dtype_name((hd_st_dtype)i)));
        assert_int_equal(d, i);
        assert_true(hd_st_tensor_bytes(d, 2, shape, &bytes));
        assert_int_equal(bytes, 3 * hd_st_dtype_bits(d));
    }
    assert_false(hd_st_dtype_from_name(&d, "F8"));
    assert_false(hd_st_dtype_from_name(&d, ""));
    assert_string_equal(hd_st_dtype_name(HD_ST_N_DTYPES), "unknown");
}

/* Two elements to a byte; a row that ends inside one is refused. */
static void test_packed(void **state)
{
    (void)state;
    st_image   m;
    hd_st_file f = accept("{\"w\":{\"dtype\":\"F4\",\"shape\":[2,8],\"data_offsets\":[0,8]},"
                          "\"s\":{\"dtype\":\"F8_E8M0\",\"shape\":[3],\"data_offsets\":[8,11]}}",
                          11, &m);
    assert_int_equal(hd_st_tensor_count(hd_st_find(&f, "w")), 16);
    hd_st_close(&f);
    st_image_free(&m);
    refuse("{\"w\":{\"dtype\":\"F4\",\"shape\":[2,7],\"data_offsets\":[0,7]}}", 7, HD_ERR_FORMAT,
           "tensor w: rows of F4 [2, 7] do not end on a byte");
    refuse("{\"w\":{\"dtype\":\"F4\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, HD_ERR_FORMAT,
           "tensor w: rows");
}

/* ---- hostile files ---- */

static void test_broken_lengths(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {3, UINT64_MAX, (uint64_t)1 << 63, 100000001};
    for (size_t i = 0; i < N_OF(lengths); i++) {
        st_image m = st_image_make("{}", 0);
        st_image_set_length(&m, lengths[i]);
        refuse_image(&m, HD_ERR_FORMAT, 0, "header of ");
    }
    for (size_t n = 0; n < 8; n++) {
        st_image m = {malloc(n + 1), n};
        memset(m.data, 0, n + 1);
        refuse_image(&m, HD_ERR_FORMAT, -1, "bytes are no safetensors file");
    }
}

static void test_broken_json(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        int64_t     where; /* in the file */
        const char *text;
    } cases[] = {
        {"", 8, "no JSON object"},
        {"[]", 8, "no JSON object"},
        {"null", 8, "no JSON object"},
        {"{", 9, "no JSON object"},
        {"{}}", 10, "no JSON object"},
        {"{} x", 11, "no JSON object"},
        {"{\"a\":1,}", 15, "no JSON object"},
        {"{,}", 9, "no JSON object"},
        {"{\"a\":1", 14, "no JSON object"},
        {"{\"a", 11, "no JSON object"},
        {"{\"a\\\"", 13, "no JSON object"},
        {"{\"a\\", 12, "no JSON object"},
        {"{a:1}", 9, "no JSON object"},
        {"{\"a\"}", INT64_MIN, "header entry at byte 9: byte 4: "},
        {"{\"a\":}", INT64_MIN, "header entry at byte 9: byte 5: "},
        {"{\"a\":{\"dtype\":]}", INT64_MIN, "header entry at byte 9: byte 14: "},
        {"{\"a\":[}", 15, "no JSON object"},
        {"{ \"\xFF\":{}}", 11, "not UTF-8"},
        {"{\"a\\u0000b\":{}}", 9, "U+0000"},
        {"{\"a\":{\"shape\":[18446744073709551616]}}", 23, "64 bits"},
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        st_image m = st_image_make(cases[i].header, 0);
        refuse_image(&m, HD_ERR_FORMAT, cases[i].where, cases[i].text);
    }
}

static void test_deep_json(void **state)
{
    (void)state;
    char header[60000] = "{\"a\":";
    memset(header + 5, '[', sizeof header - 6);
    refuse(header, 0, HD_ERR_FORMAT, "no JSON object");
    memset(header + 5 + 10000, ']', 10000);
    strcpy(header + 5 + 20000, "}");
    refuse(header, 0, HD_ERR_FORMAT, "nested deeper");
}

static void test_bad_entries(void **state)
{
    (void)state;
    static const struct {
        const char *entry; /* of tensor t, with 8 bytes of data */
        hd_status   status;
        const char *text;
    } cases[] = {
        {"5", HD_ERR_FORMAT, "tensor t is 5, not an object"},
        {"null", HD_ERR_FORMAT, "tensor t is null"},
        {"{\"shape\":[8],\"data_offsets\":[0,8]}", HD_ERR_FORMAT, "tensor t: dtype is nothing"},
        {"{\"dtype\":3,\"shape\":[8],\"data_offsets\":[0,8]}", HD_ERR_FORMAT, "dtype is 3"},
        {"{\"dtype\":\"Q4\",\"shape\":[8],\"data_offsets\":[0,8]}", HD_ERR_UNSUPPORTED,
         "tensor t: unknown dtype Q4"},
        {"{\"dtype\":\"U8\",\"data_offsets\":[0,8]}", HD_ERR_FORMAT, "shape is nothing"},
        {"{\"dtype\":\"U8\",\"shape\":8,\"data_offsets\":[0,8]}", HD_ERR_FORMAT, "shape is 8"},
        {"{\"dtype\":\"U8\",\"shape\":[-8],\"data_offsets\":[0,8]}", HD_ERR_FORMAT,
         "shape [-8], want counts"},
        {"{\"dtype\":\"U8\",\"shape\":[8.0],\"data_offsets\":[0,8]}", HD_ERR_FORMAT, "want counts"},
        {"{\"dtype\":\"U8\",\"shape\":[\"8\"],\"data_offsets\":[0,8]}", HD_ERR_FORMAT,
         "want counts"},
        {"{\"dtype\":\"U8\",\"shape\":[9223372036854775808],\"data_offsets\":[0,8]}", HD_ERR_FORMAT,
         "want counts"},
        {"{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,8],\"data_offsets\":[0,8]}",
         HD_ERR_UNSUPPORTED, "9 dimensions, at most 8"},
        {"{\"dtype\":\"U8\",\"shape\":[8]}", HD_ERR_FORMAT, "data_offsets nothing"},
        {"{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8,8]}", HD_ERR_FORMAT, "two offsets"},
        {"{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[-1,7]}", HD_ERR_FORMAT, "two offsets"},
        {"{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,0]}", HD_ERR_FORMAT,
         "data_offsets [8, 0], want a rising range in the file's 8 bytes"},
        {"{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}", HD_ERR_FORMAT, "rising range"},
        {"{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[9223372036854775807,"
         "9223372036854775807]}",
         HD_ERR_FORMAT, "rising range"},
        {"{\"dtype\":\"U8\",\"shape\":[7],\"data_offsets\":[0,8]}", HD_ERR_FORMAT,
         "U8 [7] takes 7 bytes, data_offsets span 8"},
        {"{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,8]}", HD_ERR_FORMAT,
         "F32 [8] takes 32 bytes, data_offsets span 8"},
        {"{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}",
         HD_ERR_FORMAT, "larger than any file"},
        {"{\"dtype\":\"U8\",\"shape\":[0,4294967296,4294967296],\"data_offsets\":[0,0]}",
         HD_ERR_FORMAT, "larger than any file"},
        {"{\"dtype\":\"F64\",\"shape\":[2305843009213693953],\"data_offsets\":[0,8]}",
         HD_ERR_FORMAT, "larger than any file"},
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        char header[400];
        snprintf(header, sizeof header, "{\"t\":%s}", cases[i].entry);
        st_image m = st_image_make(header, 8);
        refuse_image(&m, cases[i].status, 9, cases[i].text);
    }
}

static void test_bad_metadata(void **state)
{
    (void)state;
    refuse("{\"__metadata__\":3}", 0, HD_ERR_FORMAT, "__metadata__ is 3, not an object");
    refuse("{\"__metadata__\":{\"a\":[]}}", 0, HD_ERR_FORMAT, "__metadata__ a is []");
    refuse("{\"__metadata__\":{\"a\":null}}", 0, HD_ERR_FORMAT, "__metadata__ a is nothing");
    refuse("{\"__metadata__\":{\"a\":\"0123456789012345678901234567890123456789\"},"
           "\"__metadata__\":{}}",
           0, HD_ERR_FORMAT, "__metadata__ is there twice");
}

/* Two U8 tensors a and b at these places in a file with `data` bytes. */
static void refuse_places(int a, int a_end, int b, int b_end, size_t data, int64_t where,
                          const char *text)
{
    char header[300];
    snprintf(header, sizeof header,
             "{\"a\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]},"
             "\"b\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]}}",
             a_end - a, a, a_end, b_end - b, b, b_end);
    st_image m = st_image_make(header, data);
    refuse_image(&m, HD_ERR_FORMAT, (int64_t)(8 + strlen(header)) + where, text);
}

static void test_cover(void **state)
{
    (void)state;
    refuse_places(0, 4, 3, 8, 8, 3, "tensors a and b overlap by 1 bytes");
    refuse_places(0, 8, 2, 4, 8, 2, "tensors a and b overlap by 6 bytes");
    refuse_places(0, 4, 0, 4, 4, 0, "tensors a and b overlap by 4 bytes");
    refuse_places(0, 4, 5, 8, 8, 4, "1 bytes between a and b belong to no tensor");
    refuse_places(1, 4, 4, 8, 8, 0, "1 bytes between the header and a belong to no tensor");
    refuse_places(0, 4, 4, 8, 11, 8, "the last 3 bytes, after b, belong to no tensor");
    refuse("{}", 5, HD_ERR_FORMAT, "the last 5 bytes, after the header");
}

static void test_duplicates(void **state)
{
    (void)state;
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
           "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
           2, HD_ERR_FORMAT, "tensor a is there twice");
}

/* Millions of entries too short to be tensors are refused before memory is taken for them. */
static void test_many_entries(void **state)
{
    (void)state;
    size_t const n = 2000000;
    char *const  header = malloc(n * 5 + 2);
    assert_non_null(header);
    header[0] = '{';
    for (size_t i = 0; i < n; i++) memcpy(header + 1 + i * 5, "\"\":0,", 5);
    strcpy(header + n * 5, "}");
    st_image m = st_image_make(header, 0);
    free(header);
    int64_t const before = hd_memory_count();
    refuse_image(&m, HD_ERR_FORMAT, 8, "names 2000000 tensors in 10000001 bytes");
    assert_int_equal(hd_memory_count(), before);
}

static void test_long_entry(void **state)
{
    (void)state;
    char *const header = malloc(70000 + 64);
    assert_non_null(header);
    memset(header, ' ', 70064);
    memcpy(header, "{\"a\":", 5);
    strcpy(header + 70000, "1}");
    refuse(header, 0, HD_ERR_FORMAT, "at most 65536 are read");
    free(header);
}

/* Every prefix of a good file is refused, whatever the cut goes through. */
static void test_truncation(void **state)
{
    (void)state;
    st_image   m;
    hd_st_file f = accept("{\"__metadata__\":{\"k\":\"v\"},"
                          "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                          "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[4,12]}}",
                          12, &m);
    hd_st_close(&f);
    for (size_t n = 0; n < m.bytes; n++) {
        st_image cut = {malloc(n ? n : 1), n};
        if (n) memcpy(cut.data, m.data, n);
        refuse_image(&cut, HD_ERR_FORMAT, INT64_MIN, "");
    }
    st_image_free(&m);
}

static void test_memory_failures(void **state)
{
    (void)state;
    st_image   m;
    hd_st_file f = accept("{\"__metadata__\":{\"k\":\"v\"},"
                          "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
                          4, &m);
    hd_st_close(&f);
    hd_status s = HD_ERR_MEMORY;
    for (int64_t n = 1; s != HD_OK; n++) {
        hd_memory_fail_at(n);
        s = hd_st_parse(&f, m.data, m.bytes, "x", NULL);
        hd_memory_fail_at(0);
        if (s != HD_OK) assert_int_equal(s, HD_ERR_MEMORY);
    }
    hd_st_close(&f);
    st_image_free(&m);
}

static void test_open(void **state)
{
    (void)state;
    temp_folder t;
    char        path[256];
    hd_st_file  f = {0};
    hd_error    err = {0};
    temp_folder_make(&t);
    temp_folder_path(&t, "a.safetensors", path, sizeof path);
    assert_int_equal(hd_st_open(&f, path, &err), HD_ERR_IO);
    assert_non_null(strstr(err.message, path));
    temp_folder_write_text(&t, "a.safetensors", "");
    assert_int_equal(hd_st_open(&f, path, &err), HD_ERR_FORMAT);
    assert_non_null(strstr(err.message, path));
    temp_folder_write_st(&t, "a.safetensors",
                         "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4);
    assert_int_equal(hd_st_open(&f, path, &err), HD_OK);
    assert_int_equal(hd_st_find(&f, "a")->data[3], 3);
    hd_st_close(&f);
    hd_st_close(&f);
    temp_folder_remove(&t);
}

/* ---- writer ---- */

static void test_write_and_read(void **state)
{
    (void)state;
    static const hd_st_tensor list[] = {
        {.name = "w \"q\" \xC3\xA9", .dtype = HD_ST_BF16, .rank = 2, .shape = {2, 3}},
        {.name = "empty", .dtype = HD_ST_F32, .rank = 1, .shape = {0}},
        {.name = "s", .dtype = HD_ST_F64},
        {.name = "n", .dtype = HD_ST_F4, .rank = 1, .shape = {6}},
    };
    static const hd_st_meta meta[] = {{"format", "hadal"}, {"a\n", "\\"}};
    temp_folder             t;
    char                    path[256];
    hd_st_writer            w;
    hd_st_file              f;
    temp_folder_make(&t);
    temp_folder_path(&t, "out.safetensors", path, sizeof path);
    hd_st_layout const layout = {list, N_OF(list), N_OF(meta), meta};
    assert_int_equal(hd_st_writer_begin(&w, path, &layout, NULL), HD_OK);
    assert_false(is_there(path));
    assert_int_equal(hd_st_writer_put(&w, 3, "xyz", 3, NULL), HD_OK);
    assert_int_equal(hd_st_writer_put(&w, 3, "xyz", 3, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_st_writer_put(&w, 0, "0123456789", 10, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_st_writer_put(&w, 4, "", 0, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_st_writer_put(&w, 0, "0123456789ab", 12, NULL), HD_OK);
    assert_int_equal(hd_st_writer_put(&w, 2, "ABCDEFGH", 8, NULL), HD_OK);
    assert_int_equal(hd_st_writer_commit(&w, NULL), HD_OK);
    assert_int_equal(hd_st_open(&f, path, NULL), HD_OK);
    assert_int_equal((uintptr_t)f.tensors[0].data % 8, 0);
    assert_int_equal(f.n_tensors, 4);
    assert_int_equal(f.n_meta, 2);
    assert_string_equal(f.meta[1].key, "a\n");
    assert_memory_equal(hd_st_find(&f, list[0].name)->data, "0123456789ab", 12);
    assert_memory_equal(hd_st_find(&f, "s")->data, "ABCDEFGH", 8);
    assert_memory_equal(hd_st_find(&f, "n")->data, "xyz", 3);
    hd_st_close(&f);
    temp_folder_remove(&t);
}

static void test_writer_refuses(void **state)
{
    (void)state;
    static const hd_st_tensor bad[][2] = {
        {{.name = "a", .dtype = HD_ST_U8}, {.name = "a", .dtype = HD_ST_I8}},
        {{.name = "a\xFF", .dtype = HD_ST_U8}, {.name = "b", .dtype = HD_ST_I8}},
        {{.name = "__metadata__", .dtype = HD_ST_U8}, {.name = "b", .dtype = HD_ST_I8}},
        {{.name = "a", .dtype = HD_ST_F4, .rank = 1, .shape = {3}}, {.name = "b"}},
        {{.name = "a", .rank = 1, .shape = {-1}}, {.name = "b"}},
        {{.name = "a", .rank = HD_ST_MAX_RANK + 1}, {.name = "b"}},
    };
    temp_folder t;
    char        path[256];
    temp_folder_make(&t);
    temp_folder_path(&t, "out.safetensors", path, sizeof path);
    for (size_t i = 0; i < N_OF(bad); i++) {
        hd_st_writer       w;
        hd_st_layout const layout = {.tensors = bad[i], .n_tensors = 2};
        assert_int_equal(hd_st_writer_begin(&w, path, &layout, NULL), HD_ERR_INVALID);
        hd_st_writer_abort(&w);
    }
    static const int64_t huge = INT64_MAX / 8; /* bytes; five of them are too many for a file */
    hd_st_tensor         many[5] = {
                {.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}, {.name = "e"}};
    for (int i = 0; i < 5; i++) many[i].rank = 1, many[i].shape[0] = huge;
    hd_st_writer       w;
    hd_st_layout const layout = {.tensors = many, .n_tensors = 5};
    assert_int_equal(hd_st_writer_begin(&w, path, &layout, NULL), HD_ERR_INVALID);
    assert_int_equal(rmdir(t.path), 0); /* nothing was left behind */
}

/* Nothing appears, and nothing stays, unless every tensor was written. */
/* Parts of two tensors, in any order: no byte too many, and none missing at the end. */
static void test_writer_takes_parts(void **state)
{
    (void)state;
    static const hd_st_tensor two[] = {{.name = "a", .dtype = HD_ST_U8, .rank = 1, .shape = {5}},
                                       {.name = "b", .dtype = HD_ST_U8, .rank = 1, .shape = {2}}};
    hd_st_layout const        layout = {.tensors = two, .n_tensors = 2};
    temp_folder               t;
    char                      path[256];
    hd_st_writer              w;
    hd_st_file                f;
    hd_error                  err;
    temp_folder_make(&t);
    temp_folder_path(&t, "out.safetensors", path, sizeof path);
    assert_int_equal(hd_st_writer_begin(&w, path, &layout, NULL), HD_OK);
    assert_int_equal(hd_st_writer_put_part(&w, 0, 3, "de", 2, NULL), HD_OK);
    assert_int_equal(hd_st_writer_put_part(&w, 1, 0, "x", 1, NULL), HD_OK);
    assert_int_equal(hd_st_writer_put_part(&w, 0, 4, "ef", 2, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_st_writer_put_part(&w, 0, SIZE_MAX, "e", 1, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_st_writer_put_part(&w, 2, 0, "e", 1, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_st_writer_put_part(&w, 0, 0, "abcd", 4, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_st_writer_put(&w, 0, "abcde", 5, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_st_writer_put_part(&w, 0, 0, "abc", 3, NULL), HD_OK);
    assert_int_equal(hd_st_writer_put_part(&w, 1, 1, "y", 1, NULL), HD_OK);
    assert_int_equal(hd_st_writer_commit(&w, NULL), HD_OK);
    assert_int_equal(hd_st_open(&f, path, &err), HD_OK);
    assert_memory_equal(hd_st_find(&f, "a")->data, "abcde", 5);
    assert_memory_equal(hd_st_find(&f, "b")->data, "xy", 2);
    hd_st_close(&f);
    assert_int_equal(hd_st_writer_begin(&w, path, &layout, NULL), HD_OK);
    assert_int_equal(hd_st_writer_put_part(&w, 0, 0, "abcde", 5, NULL), HD_OK);
    assert_int_equal(hd_st_writer_put_part(&w, 1, 0, "x", 1, NULL), HD_OK);
    assert_int_equal(hd_st_writer_commit(&w, &err), HD_ERR_INVALID);
    temp_folder_remove(&t);
}

/* Each allocation of a writer may fail, those that its header grows by too. */
static void test_writer_wants_memory(void **state)
{
    (void)state;
    static const hd_st_tensor one = {.name = "a", .dtype = HD_ST_U8, .rank = 1, .shape = {2}};
    hd_st_layout const        layout = {.tensors = &one, .n_tensors = 1};
    temp_folder               t;
    char                      path[256];
    int64_t                   n = 1;
    temp_folder_make(&t);
    temp_folder_path(&t, "out.safetensors", path, sizeof path);
    for (hd_status s = HD_ERR_MEMORY; s != HD_OK; n++) {
        hd_st_writer w;
        hd_error     err = {0};
        hd_memory_fail_at(n);
        s = hd_st_writer_begin(&w, path, &layout, &err);
        hd_memory_fail_at(0);
        if (s != HD_OK) assert_int_equal(s, HD_ERR_MEMORY);
        hd_st_writer_abort(&w);
    }
    assert_true(n > 3);
    assert_int_equal(rmdir(t.path), 0);
}

static void test_writer_is_atomic(void **state)
{
    (void)state;
    static const hd_st_tensor one = {.name = "a", .dtype = HD_ST_U8, .rank = 1, .shape = {2}};
    hd_st_layout const        layout = {.tensors = &one, .n_tensors = 1};
    temp_folder               t;
    char                      path[256];
    hd_st_writer              w = {0};
    hd_error                  err;
    hd_st_writer_abort(&w);
    temp_folder_make(&t);
    temp_folder_path(&t, "out.safetensors", path, sizeof path);
    assert_int_equal(hd_st_writer_begin(&w, path, &layout, NULL), HD_OK);
    assert_int_equal(hd_st_writer_commit(&w, &err), HD_ERR_INVALID);
    assert_string_equal(err.message, "tensor 0 of 1 was not written whole");
    assert_int_equal(hd_st_writer_begin(&w, path, &layout, NULL), HD_OK);
    assert_int_equal(hd_st_writer_put(&w, 0, "xy", 2, NULL), HD_OK);
    hd_st_writer_abort(&w);
    assert_false(is_there(path));
    assert_int_equal(rmdir(t.path), 0);
    assert_int_equal(hd_st_writer_begin(&w, path, &layout, &err), HD_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_empty_files),
        cmocka_unit_test(test_empty_tensors),
        cmocka_unit_test(test_metadata_and_escapes),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_broken_lengths),
        cmocka_unit_test(test_broken_json),
        cmocka_unit_test(test_deep_json),
        cmocka_unit_test(test_bad_entries),
        cmocka_unit_test(test_bad_metadata),
        cmocka_unit_test(test_cover),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_many_entries),
        cmocka_unit_test(test_long_entry),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_memory_failures),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_write_and_read),
        cmocka_unit_test(test_writer_refuses),
        cmocka_unit_test(test_writer_takes_parts),
        cmocka_unit_test(test_writer_wants_memory),
        cmocka_unit_test(test_writer_is_atomic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
