/* Cache rows: bytes and values against another program's, the published places of rows, and
 * what reading and writing promise. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../support/golden.h"
#include "kv/cache.h"

static const hd_row_layout layouts[] = {
    {HD_ROW_F32, 5, 0, 3},      {HD_ROW_BF16, 128, 0, 2},   {HD_ROW_FP8, 512, 64, 2},
    {HD_ROW_FP8, 512, 64, 64},  {HD_ROW_FP8, 128, 64, 4},   {HD_ROW_NVFP4, 512, 64, 2},
    {HD_ROW_NVFP4, 128, 64, 3}, {HD_ROW_MXFP4, 128, 0, 64},
};
#define N_LAYOUTS (int32_t)(sizeof layouts / sizeof layouts[0])
#define N_ROWS    10

/* ---- another program's bytes ---- */

static const hd_st_tensor *find(const hd_st_file *f, const hd_row_layout *l, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%d.%d.%d.%s", hd_row_format_name(l->format), l->d, l->tail,
             l->page, what);
    const hd_st_tensor *const t = hd_st_find(f, name);
    if (!t) fail_msg("no expected value %s", name);
    return t;
}

static const float *floats(const hd_st_file *f, const hd_row_layout *l, const char *what)
{
    return (const float *)(const void *)find(f, l, what)->data;
}

static void check_value(float got, float want, const char *what, int32_t row, int32_t c)
{
    if (memcmp(&got, &want, sizeof got) != 0 && !(isnan(got) && isnan(want)))
        fail_msg("%s: row %d, element %d reads %.9g, not %.9g", what, row, c, (double)got,
                 (double)want);
}

static void check_bytes(const hd_row_layout *l, const uint8_t *got, const hd_st_tensor *want)
{
    const uint8_t *const w = want->data;
    for (int64_t i = 0; i < hd_st_tensor_count(want); i++)
        if (got[i] != w[i])
            fail_msg("%s %d: byte %d is %02x, not %02x", hd_row_format_name(l->format), l->d,
                     (int)i, got[i], w[i]);
}

static void writes_what_another_program_writes(void **state)
{
    static uint8_t pool[64 * 1024] __attribute__((aligned(16)));
    hd_st_file     f = {0};
    hd_error       err = {0};
    (void)state;
    if (hd_st_open(&f, "tests/golden/kv_rows.safetensors", &err) != HD_OK)
        fail_msg("%s", err.message);
    for (int32_t i = 0; i < N_LAYOUTS; i++) {
        const hd_row_layout *const l = &layouts[i];
        const float *const x = floats(&f, l, "x"), *const y = floats(&f, l, "y");
        float buffer[HD_ROW_MAX];
        memset(pool, 0, sizeof pool);
        for (int32_t r = 0; r < N_ROWS; r++) hd_row_write(l, pool, r, x + (int64_t)r * l->d);
        check_bytes(l, pool, find(&f, l, "pool"));
        for (int32_t r = 0; r < N_ROWS; r++) {
            const float *const got = hd_row_read(l, pool, r, buffer);
            for (int32_t c = 0; c < l->d; c++)
                check_value(got[c], y[r * l->d + c], hd_row_format_name(l->format), r, c);
        }
    }
    hd_st_close(&f);
}

/* ---- places ---- */

static void finds_the_published_places(void **state)
{
    hd_row_layout const fp8 = {HD_ROW_FP8, 512, 64, 64}, pair = {HD_ROW_FP8, 512, 64, 2};
    hd_row_layout const index = {HD_ROW_MXFP4, 128, 0, 64}, nvfp4 = {HD_ROW_NVFP4, 512, 64, 64};
    (void)state;
    assert_int_equal(hd_row_data_bytes(&fp8) + hd_row_scale_bytes(&fp8), 584);
    assert_int_equal(hd_row_page_bytes(&fp8), 37440);
    assert_int_equal(hd_row_page_bytes(&pair), 1728);
    assert_int_equal(hd_row_data_at(&fp8, 63), 63 * 576);
    assert_int_equal(hd_row_scale_at(&fp8, 0), 64 * 576);
    assert_int_equal(hd_row_scale_at(&fp8, 63), 64 * 576 + 63 * 8);
    assert_int_equal(hd_row_data_at(&fp8, 64), 37440);
    assert_int_equal(hd_row_scale_at(&fp8, 65), 37440 + 64 * 576 + 8);
    assert_int_equal(hd_row_data_bytes(&nvfp4) + hd_row_scale_bytes(&nvfp4), 384);
    assert_int_equal(hd_row_page_bytes(&nvfp4), 64 * 384);
    assert_int_equal(hd_row_data_bytes(&index) + hd_row_scale_bytes(&index), 68);
    assert_int_equal(hd_row_page_bytes(&index), 4352);
    assert_int_equal(hd_row_scale_at(&index, 1), 64 * 64 + 4);
}

/* A page of 4 with scales 1, 2, 4, 8: a reader that expects each scale behind its value would
 * take a value for a scale. */
static void finds_each_rows_own_scale(void **state)
{
    hd_row_layout const l = {HD_ROW_MXFP4, 32, 0, 4};
    uint8_t             pool[4 * 17];
    float               x[32], buffer[32];
    (void)state;
    memset(pool, 0xEE, sizeof pool);
    for (int32_t r = 3; r >= 0; r--) {
        for (int32_t i = 0; i < 32; i++) x[i] = (float)(4 << r);
        hd_row_write(&l, pool, r, x);
    }
    for (int32_t r = 0; r < 4; r++) {
        assert_int_equal(pool[4 * 16 + r], 127 + r);
        assert_true(hd_row_read(&l, pool, r, buffer)[31] == (float)(4 << r));
    }
}

static void counts_bytes_beyond_32_bits(void **state)
{
    hd_row_layout const fp8 = {HD_ROW_FP8, 512, 64, 256}, wide = {HD_ROW_F32, 1000, 0, 250};
    (void)state;
    assert_int_equal(hd_row_page_bytes(&fp8), 149760);
    assert_true(hd_row_data_at(&fp8, INT64_C(14340) * 256) == INT64_C(2147558400));
    assert_int_equal(hd_row_page_bytes(&wide), 1000000);
    assert_true(hd_row_data_at(&wide, INT64_C(2200) * 250) == INT64_C(2200000000));
    hd_row_layout const small = {HD_ROW_MXFP4, 128, 0, 64};
    int64_t const       row = hd_row_of(&small, 4095, 1 << 18, (1 << 18) - 1);
    assert_true(row == (INT64_C(1) << 30) - 1);
    assert_true(hd_row_scale_at(&small, row) == (INT64_C(1) << 24) * 4352 - 4);
}

/* Every byte of a page belongs to one row or to the padding. */
static void rows_do_not_overlap(void **state)
{
    (void)state;
    for (int32_t i = 0; i < N_LAYOUTS; i++) {
        const hd_row_layout *const l = &layouts[i];
        uint8_t                    owner[40000] = {0};
        for (int32_t r = 0; r < l->page; r++) {
            for (int32_t b = 0; b < hd_row_data_bytes(l); b++) owner[hd_row_data_at(l, r) + b]++;
            for (int32_t b = 0; b < hd_row_scale_bytes(l); b++) owner[hd_row_scale_at(l, r) + b]++;
        }
        for (int64_t b = 0; b < hd_row_page_bytes(l); b++) assert_in_range(owner[b], 0, 1);
        for (int64_t b = hd_row_page_bytes(l); b < 40000; b++) assert_int_equal(owner[b], 0);
    }
}

static void knows_which_layouts_exist(void **state)
{
    static const hd_row_layout bad[] = {
        {HD_ROW_F32, 0, 0, 1},      {HD_ROW_F32, 8, 0, 0},     {HD_ROW_F32, 8, 4, 1},
        {HD_ROW_BF16, 8, 4, 1},     {HD_ROW_BF16, 1025, 0, 1}, {HD_ROW_FP8, 500, 64, 1},
        {HD_ROW_FP8, 512, 513, 1},  {HD_ROW_FP8, 512, -64, 1}, {HD_ROW_NVFP4, 72, 64, 1},
        {HD_ROW_MXFP4, 128, 32, 1}, {HD_ROW_MXFP4, 48, 0, 1},  {(hd_row_format)9, 64, 0, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(hd_row_is_valid(&bad[i]));
    for (int32_t i = 0; i < N_LAYOUTS; i++) assert_true(hd_row_is_valid(&layouts[i]));
}

/* ---- promises ---- */

static float noise(uint64_t *rng)
{
    *rng = *rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(int32_t)(*rng >> 32) * 0x1p-31f;
}

/* What was read is on the grid: written again it reads the same, and from then on its bytes
 * are the same too (a scale may halve once, when the largest element sits at half the grid). */
static void rewrites_what_it_read(void **state)
{
    static uint8_t pool[4][40000] __attribute__((aligned(16)));
    uint64_t       rng = 5;
    (void)state;
    for (int32_t i = 0; i < N_LAYOUTS * 200; i++) {
        const hd_row_layout *const l = &layouts[i % N_LAYOUTS];
        float                      x[HD_ROW_MAX], a[HD_ROW_MAX], b[HD_ROW_MAX];
        float const                size = ldexpf(1, i % 7);
        for (int32_t c = 0; c < l->d; c++) x[c] = noise(&rng) * size;
        hd_row_write(l, pool[0], 1, x);
        const float *const first = hd_row_read(l, pool[0], 1, a);
        hd_row_write(l, pool[1], 1, first);
        const float *const second = hd_row_read(l, pool[1], 1, b);
        assert_memory_equal(first, second, (size_t)l->d * sizeof *first);
        hd_row_write(l, pool[2], 1, second);
        assert_memory_equal(pool[1], pool[2], (size_t)hd_row_page_bytes(l));
    }
}

/* A broken element never reads as a number, and breaks no more than its block. */
static void keeps_nan_and_infinity_visible(void **state)
{
    static uint8_t     pool[40000] __attribute__((aligned(16)));
    static const float broken[] = {NAN, INFINITY, -INFINITY};
    static const int   blocks[HD_N_ROW_FORMATS] = {1, 1, 64, 16, 32};
    (void)state;
    for (int32_t i = 0; i < N_LAYOUTS * 3; i++) {
        const hd_row_layout *const l = &layouts[i % N_LAYOUTS];
        int32_t const              block = blocks[l->format];
        for (int32_t at = 0; at < l->d; at++) {
            float x[HD_ROW_MAX] = {0}, buffer[HD_ROW_MAX];
            x[at] = broken[i / N_LAYOUTS];
            hd_row_write(l, pool, 0, x);
            const float *const y = hd_row_read(l, pool, 0, buffer);
            assert_true(isnan(y[at]) || isinf(y[at]));
            for (int32_t c = 0; c < l->d; c++)
                if (c / block != at / block || at >= l->d - l->tail)
                    assert_true(c == at || y[c] == 0);
        }
    }
}

/* Writing a row leaves the bytes of all others, and the padding, as they were. */
static void writes_its_own_bytes_only(void **state)
{
    static uint8_t pool[80000] __attribute__((aligned(16))), before[80000];
    uint64_t       rng = 11;
    (void)state;
    for (int32_t i = 0; i < N_LAYOUTS; i++) {
        const hd_row_layout *const l = &layouts[i];
        float                      x[HD_ROW_MAX];
        for (int32_t c = 0; c < l->d; c++) x[c] = noise(&rng);
        memset(pool, 0xA5, sizeof pool);
        memcpy(before, pool, sizeof pool);
        hd_row_write(l, pool, 1, x);
        memcpy(before + hd_row_data_at(l, 1), pool + hd_row_data_at(l, 1),
               (size_t)hd_row_data_bytes(l));
        memcpy(before + hd_row_scale_at(l, 1), pool + hd_row_scale_at(l, 1),
               (size_t)hd_row_scale_bytes(l));
        assert_memory_equal(pool, before, sizeof pool);
    }
}

/* ---- the rows of a sequence ---- */

/* After 130 tokens layers without a compressor have no rows, those of ratio 4 have 32 of each
 * kind, one of ratio 128 has one; a row appears with the last token of its group. */
static void counts_the_rows_of_a_sequence(void **state)
{
    static const struct {
        int32_t ratio, n, rows;
    } cases[] = {{0, 130, 0},  {4, 3, 0},     {4, 4, 1},     {4, 7, 1},     {4, 8, 2},
                 {4, 130, 32}, {128, 127, 0}, {128, 128, 1}, {128, 130, 1}, {128, 256, 2}};
    hd_cache_shape const s = {.n_seq = 1,
                              .max_tokens = 512,
                              .chunk = 8,
                              .window = 128,
                              .head_dim = 512,
                              .rope_dim = 64,
                              .index_dim = 128,
                              .kv = HD_KV_FP8};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hd_arena       measured = {0};
        hd_layer_cache c;
        hd_cache_range r[HD_CACHE_MAX_RANGES];
        hd_cache_bind(&c, &s, cases[i].ratio, &measured);
        int32_t const n = hd_cache_ranges(&c, &s, HD_CACHE_ROWS, cases[i].n, r);
        assert_int_equal(n, cases[i].ratio == 4 ? 2 : cases[i].ratio > 0);
        for (int32_t k = 0; k < n; k++) {
            assert_int_equal(r[k].first, 0);
            assert_int_equal(r[k].end, cases[i].rows);
        }
    }
}

/* ---- what a token costs ---- */

/* V4 Flash: 43 layers, 21 of ratio 4, 20 of ratio 128; per 256 tokens and layer one page of
 * 64 rows and one of 64 indexer rows, or one of 2 rows. */
static void counts_what_a_token_costs(void **state)
{
    hd_cache_shape s = {.head_dim = 512, .rope_dim = 64, .index_dim = 128, .kv = HD_KV_FP8};
    (void)state;
    assert_int_equal(hd_cache_edge_bytes(&s, 0), 0);
    assert_int_equal(hd_cache_edge_bytes(&s, 4), 37440 + 4352);
    assert_int_equal(hd_cache_edge_bytes(&s, 128), 1728);
    int64_t const flash = 21 * hd_cache_edge_bytes(&s, 4) + 20 * hd_cache_edge_bytes(&s, 128);
    assert_int_equal(flash / HD_CACHE_EDGE, 3563);
    s.kv = HD_KV_NVFP4;
    assert_int_equal(hd_cache_edge_bytes(&s, 4), 64 * 384 + 4352);
    s.kv = HD_KV_F32;
    assert_int_equal(hd_cache_edge_bytes(&s, 4), 64 * (512 + 128) * 4);
    assert_int_equal(hd_cache_edge_bytes(&s, 128), 2 * 512 * 4);
    s.kv = HD_KV_BF16;
    assert_int_equal(hd_cache_edge_bytes(&s, 4), 64 * (512 + 128) * 2);
}

static void refuses_rows_that_do_not_fit_a_format(void **state)
{
    hd_cache_shape s = {.head_dim = 100, .rope_dim = 64, .index_dim = 128, .kv = HD_KV_FP8};
    hd_error       err = {0};
    (void)state;
    assert_int_equal(hd_cache_check(&s, &err), HD_ERR_UNSUPPORTED);
    assert_string_equal(err.message, "KV rows of 100 elements, 64 of them RoPE, cannot be fp8");
    s.head_dim = 128, s.index_dim = 100;
    assert_int_equal(hd_cache_check(&s, &err), HD_ERR_UNSUPPORTED);
    assert_string_equal(err.message, "indexer rows of 100 elements cannot be mxfp4");
    s.index_dim = 0;
    assert_int_equal(hd_cache_check(&s, &err), HD_OK);
}

static void names_formats(void **state)
{
    hd_kv kv = HD_KV_DEFAULT;
    (void)state;
    for (hd_kv i = HD_KV_DEFAULT; i <= HD_KV_NVFP4; i++) {
        assert_true(hd_kv_from_name(&kv, hd_kv_name(i)));
        assert_int_equal(kv, i);
    }
    assert_false(hd_kv_from_name(&kv, "q8"));
    assert_string_equal(hd_kv_name((hd_kv)77), "unknown");
    assert_string_equal(hd_row_format_name((hd_row_format)77), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_what_another_program_writes),
        cmocka_unit_test(finds_the_published_places),
        cmocka_unit_test(finds_each_rows_own_scale),
        cmocka_unit_test(counts_bytes_beyond_32_bits),
        cmocka_unit_test(rows_do_not_overlap),
        cmocka_unit_test(knows_which_layouts_exist),
        cmocka_unit_test(rewrites_what_it_read),
        cmocka_unit_test(keeps_nan_and_infinity_visible),
        cmocka_unit_test(writes_its_own_bytes_only),
        cmocka_unit_test(counts_the_rows_of_a_sequence),
        cmocka_unit_test(counts_what_a_token_costs),
        cmocka_unit_test(refuses_rows_that_do_not_fit_a_format),
        cmocka_unit_test(names_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
