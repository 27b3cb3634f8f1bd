/* What an audit counts in tensors of several parts, against a plain walk over their elements;
 * its lists and names.  Whole folders are audited in tests/cli/test_cli_audit.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/st_image.h"
#include "base/file.h"
#include "doctor/audit_parts.h"
#include "quant/fp4.h"
#include "quant/fp8.h"

/* Parts are released from the mapping once read, so tensors must lie in files. */
typedef struct fixture {
    temp_folder folder;
    hd_file     maps[2];
    hd_tensor   w, scale;
    hd_scan     got;
    int64_t     told; /* bytes of parts */
} fixture;

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void map_tensor(fixture *f, int i, hd_st_dtype dtype, const uint8_t *data, int64_t n,
                       int64_t k)
{
    char             path[512];
    size_t           bytes;
    hd_tensor *const t = i ? &f->scale : &f->w;
    t->st = (hd_st_tensor){.name = i ? "s" : "w", .dtype = dtype, .rank = 2, .shape = {n, k}};
    assert_true(hd_st_tensor_bytes(dtype, 2, t->st.shape, &bytes));
    temp_folder_write(&f->folder, t->st.name, data, bytes);
    temp_folder_path(&f->folder, t->st.name, path, sizeof path);
    assert_int_equal(hd_file_map(&f->maps[i], path, NULL), HD_OK);
    t->st.data = f->maps[i].data;
    t->st.bytes = bytes;
}

static void add_bytes(void *user, int64_t bytes) { ((fixture *)user)->told += bytes; }

static void scan(fixture *f, hd_format format, int32_t n, int32_t k, int32_t limit)
{
    hd_scanned const  m = {.name = "w",
                           .format = format,
                           .n = n,
                           .k = k,
                           .w = &f->w,
                           .scale = f->scale.st.data ? &f->scale : NULL,
                           .limit = limit};
    hd_scanner *const s = hd_scanner_make();
    assert_non_null(s);
    assert_true(hd_scan_item(s, &m, &f->got, add_bytes, f));
    assert_int_equal(f->told, hd_scanned_bytes(&m));
    hd_scanner_free(s);
}

static void open_fixture(fixture *f)
{
    *f = (fixture){0};
    temp_folder_make(&f->folder);
}

static void close_fixture(fixture *f)
{
    hd_file_unmap(&f->maps[0]);
    hd_file_unmap(&f->maps[1]);
    temp_folder_remove(&f->folder);
}

static uint8_t *fill(int64_t n, uint32_t seed)
{
    uint8_t *const data = malloc((size_t)n);
    assert_non_null(data);
    for (int64_t i = 0; i < n; i++) data[i] = (uint8_t)next_random(&seed);
    return data;
}

static void note(hd_tally *t, bool is_it, int64_t at)
{
    if (is_it && !t->n++) t->first = at;
}

static void assert_tally(hd_tally got, hd_tally want)
{
    assert_int_equal(got.n, want.n);
    if (want.n) assert_int_equal(got.first, want.first);
}

/* ---- four bits ---- */

#define ROWS    300
#define COLUMNS 32768 /* 4.9 MB of codes: two parts */

static void expect_nvfp4(const uint8_t *codes, const uint8_t *scales, int64_t blocks, hd_scan *want)
{
    for (int64_t i = 0; i < blocks; i++) {
        float const s = hd_e4m3_to_f32(scales[i]);
        float       most = 0;
        int         exponent;
        for (int j = 0; j < 16; j++)
            most =
                fmaxf(most, fabsf(hd_e2m1_to_f32((unsigned)codes[8 * i + j / 2] >> 4 * (j & 1))));
        note(&want->nan, isnan(s), i);
        if (isnan(s)) continue;
        note(&want->negative, signbit(s) != 0, i);
        note(&want->lost, scales[i] == 0 && most > 0, i);
        want->zero += s == 0;
        if (signbit(s) || s == 0) continue;
        note(&want->denormal, s < 0x1p-6f, i);
        note(&want->saturated, s == 448 && most == 6, i);
        note(&want->uneven, frexpf(s, &exponent) != 0.5f, i);
        want->amax = fmax(want->amax, (double)s * (double)most);
    }
}

/* Rare codes come first in the second part: an index that counts from the part would be wrong. */
static void test_nvfp4(void **state)
{
    fixture        f;
    int64_t const  blocks = (int64_t)ROWS * COLUMNS / 16;
    uint8_t *const codes = fill(blocks * 8, 1), *const scales = fill(blocks, 2);
    hd_scan want = {0};
    (void)state;
    for (int64_t i = 0; i < blocks - 1000; i++) scales[i] = 0x30 + (scales[i] & 8);
    expect_nvfp4(codes, scales, blocks, &want);
    assert_in_range(want.nan.first, ((int64_t)4 << 20) / 8, blocks);
    assert_true(want.nan.n && want.negative.n && want.lost.n && want.denormal.n);
    assert_true(want.saturated.n && want.uneven.n);
    open_fixture(&f);
    map_tensor(&f, 0, HD_ST_U8, codes, ROWS, COLUMNS / 2);
    map_tensor(&f, 1, HD_ST_F8_E4M3, scales, ROWS, COLUMNS / 16);
    scan(&f, HD_FMT_NVFP4, ROWS, COLUMNS, 0);
    assert_int_equal(f.got.blocks, blocks);
    assert_int_equal(f.got.values, blocks * 16);
    assert_int_equal(f.got.zero, want.zero);
    assert_tally(f.got.nan, want.nan);
    assert_tally(f.got.negative, want.negative);
    assert_tally(f.got.lost, want.lost);
    assert_tally(f.got.denormal, want.denormal);
    assert_tally(f.got.saturated, want.saturated);
    assert_tally(f.got.uneven, want.uneven);
    assert_float_equal(f.got.amax, want.amax, 0);
    close_fixture(&f);
    free(codes);
    free(scales);
}

/* The largest code of a block may be in any of its nibbles. */
static void test_every_nibble(void **state)
{
    (void)state;
    for (int at = 0; at < 32; at++)
        for (unsigned code = 1; code < 8; code++) {
            fixture f;
            uint8_t codes[16], scale = 127;
            memset(codes, code > 1 ? 0x11 * (int)(code - 1) : 0x88, sizeof codes);
            unsigned const shift = 4 * ((unsigned)at & 1);
            codes[at / 2] = (uint8_t)((codes[at / 2] & ~(15u << shift)) | (code | 8) << shift);
            open_fixture(&f);
            map_tensor(&f, 0, HD_ST_I8, codes, 1, 16);
            map_tensor(&f, 1, HD_ST_F8_E8M0, &scale, 1, 1);
            scan(&f, HD_FMT_MXFP4, 1, 32, 0);
            assert_float_equal(f.got.amax, (double)hd_e2m1_to_f32(code), 0);
            close_fixture(&f);
        }
}

/* ---- eight bits ---- */

static void test_fp8(void **state)
{
    enum { N = 130, K = 200 }; /* cut blocks on both sides */
    fixture        f;
    uint8_t *const codes = fill(N * K, 3);
    float          scales[4] = {0.5f, 0.75f, 0, -1};
    (void)state;
    for (int i = 0; i < N * K; i++)
        if ((codes[i] & 0x7F) == 0x7F) codes[i] = 0x10;
    codes[129 * K + 7] = 0xFF;
    codes[5 * K + 150] = 0x7E;
    codes[6 * K + 20] = 0x7E;
    open_fixture(&f);
    map_tensor(&f, 0, HD_ST_F8_E4M3, codes, N, K);
    map_tensor(&f, 1, HD_ST_F32, (const uint8_t *)scales, 2, 2);
    scan(&f, HD_FMT_FP8, N, K, 0);
    assert_tally(f.got.broken, (hd_tally){1, 129 * K + 7});
    assert_tally(f.got.uneven, (hd_tally){1, 1});
    assert_tally(f.got.lost, (hd_tally){1, 2});
    assert_tally(f.got.negative, (hd_tally){1, 3});
    assert_float_equal(f.got.amax, 448 * 0.75, 0);
    assert_int_equal(f.got.blocks, 4);
    assert_int_equal(f.got.values, N * K);
    close_fixture(&f);
    free(codes);
}

/* ---- values ---- */

static void test_floats(void **state)
{
    enum { N = 5 << 19 }; /* 5 MB: two parts */
    fixture         f;
    uint16_t *const values = calloc(N, 2);
    (void)state;
    assert_non_null(values);
    values[3] = 0xC0A0;     /* -5 */
    values[N - 2] = 0x7F80; /* infinity */
    values[N - 1] = 0xFFC0; /* NaN */
    open_fixture(&f);
    map_tensor(&f, 0, HD_ST_BF16, (const uint8_t *)values, 1, N);
    scan(&f, HD_FMT_NONE, 0, 0, 0);
    assert_tally(f.got.broken, (hd_tally){2, N - 2});
    assert_float_equal(f.got.amax, 5, 0);
    assert_int_equal(f.got.values, N);
    close_fixture(&f);
    free(values);
}

static void test_whole_numbers(void **state)
{
    fixture       f;
    int64_t const values[6] = {0, 7, -1, 8, INT64_MIN, (int64_t)1 << 32};
    (void)state;
    open_fixture(&f);
    map_tensor(&f, 0, HD_ST_I64, (const uint8_t *)values, 2, 3);
    scan(&f, HD_FMT_NONE, 0, 0, 8);
    assert_tally(f.got.outside, (hd_tally){4, 2});
    close_fixture(&f);
}

/* ---- lists and names ---- */

static void test_findings(void **state)
{
    hd_findings           f = {0};
    hd_finding_head const a = {HD_ERROR, "a", "t", NULL}, b = {HD_NOTE, "b", NULL, "f"};
    (void)state;
    for (int i = 0; i < HD_MAX_FINDINGS_OF_KIND + 5; i++) hd_findings_add(&f, &a, "number %d", i);
    hd_findings_add(&f, &b, "a\nb\x1b[0m");
    assert_int_equal(f.n[HD_ERROR], HD_MAX_FINDINGS_OF_KIND + 5);
    assert_int_equal(f.used, HD_MAX_FINDINGS_OF_KIND + 1);
    assert_string_equal(f.list[7].message, "number 7");
    assert_string_equal(f.list[f.used - 1].message, "a?b?[0m");
    assert_null(f.list[f.used - 1].tensor);
    assert_string_equal(f.list[f.used - 1].file, "f");
    hd_findings_free(&f);
}

static void test_patterns(void **state)
{
    static const char *const names[][2] = {
        {"layers.12.ffn.experts.3.w1", "layers.*.ffn.experts.*.w1"},
        {"embed", "embed"},
        {"7", "*"},
        {"a.b2.3c.", "a.b2.3c."},
        {"", ""}};
    char out[64], small[8];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_string_equal(hd_audit_pattern(names[i][0], out, sizeof out), names[i][1]);
    assert_string_equal(hd_audit_pattern("layers.12.x", small, sizeof small), "layers.");
}

/* ---- want of memory and of files ---- */

#define CONFIG "tests/models/tiny512-official/config.json"

/* A model that lacks nearly all, with a matrix of each kind. */
static void write_model(temp_folder *t)
{
    static const char header[] =
        "{\"layers.0.attn.wq_a.weight\":{\"dtype\":\"U8\",\"shape\":[64,64],\"data_offsets\":[0,"
        "4096]},"
        "\"layers.0.attn.wq_a.weight_scale\":{\"dtype\":\"F8_E4M3\",\"shape\":[64,8],"
        "\"data_offsets\":[4096,4608]},"
        "\"layers.0.attn.wq_a.weight_scale_2\":{\"dtype\":\"F32\",\"shape\":[],"
        "\"data_offsets\":[4608,4612]},"
        "\"a.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[130,8],\"data_offsets\":[4612,5652]},"
        "\"a.scale\":{\"dtype\":\"F8_E8M0\",\"shape\":[2,1],\"data_offsets\":[5652,5654]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[5654,5660]}}";
    size_t      bytes;
    char *const config = read_golden(CONFIG, &bytes);
    temp_folder_make(t);
    temp_folder_write(t, "config.json", config, bytes);
    temp_folder_write_st(t, "model.safetensors", header, 5660);
    free(config);
}

static hd_status run_audit(const temp_folder *model, hd_error *err)
{
    hd_audit              *a = NULL;
    hd_buffer              out = {0};
    hd_audit_options const opt = {.model = model->path, .against = model->path, .n_threads = 1};
    hd_status              s = hd_audit_run(&a, &opt, err);
    if (s == HD_OK) {
        hd_audit_print(a, true, &out);
        hd_audit_print_json(a, true, &out);
        if (out.failed) s = hd_error_set(err, HD_ERR_MEMORY, -1, "no memory for the report");
    }
    hd_buffer_free(&out);
    hd_audit_close(a);
    return s;
}

/* Each allocation fails once: an error and nothing left behind, which a sanitizer would see. */
static void test_no_memory(void **state)
{
    temp_folder model;
    int64_t     n = 1;
    (void)state;
    write_model(&model);
    for (;; n++) {
        hd_error      err = {0};
        int64_t const before = hd_memory_count();
        hd_memory_fail_at(n);
        hd_status const s = run_audit(&model, &err);
        hd_memory_fail_at(0);
        if (s == HD_OK && hd_memory_count() - before < n) break;
        if (s == HD_OK) continue; /* a finding less, or a median: nothing that the report needs */
        assert_int_equal(s, HD_ERR_MEMORY);
        assert_true(err.message[0] != '\0');
    }
    assert_true(n > 20);
    temp_folder_remove(&model);
}

/* A file that cannot be read is a finding; only the two folders themselves may be missed. */
static void test_no_file(void **state)
{
    temp_folder model;
    int         failed = 0;
    (void)state;
    write_model(&model);
    for (int64_t n = 1; n < 40; n++) {
        hd_error err = {0};
        hd_file_fail_at(n);
        hd_status const s = run_audit(&model, &err);
        hd_file_fail_at(0);
        if (s == HD_OK) continue;
        assert_int_equal(s, HD_ERR_IO);
        assert_int_equal(strncmp(err.message, model.path, strlen(model.path)), 0);
        assert_int_equal(err.message[strlen(model.path)], ':');
        failed++;
    }
    assert_in_range(failed, 0, 2);
    temp_folder_remove(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvfp4),         cmocka_unit_test(test_every_nibble),
        cmocka_unit_test(test_fp8),           cmocka_unit_test(test_floats),
        cmocka_unit_test(test_whole_numbers), cmocka_unit_test(test_findings),
        cmocka_unit_test(test_patterns),      cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
