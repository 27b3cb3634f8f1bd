/* Four-bit matrices in tiles: every element keeps its code and scale, every byte moves somewhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "quant/fp4.h"
#include "quant/tiles.h"

enum { N = 96, K = 192 };

static int32_t block_of(hd_format f) { return f == HD_FMT_NVFP4 ? HD_NVFP4_BLOCK : HD_MXFP4_BLOCK; }

static void fill(uint8_t *data, size_t bytes, uint32_t seed)
{
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1664525U + 1013904223U;
        data[i] = (uint8_t)(seed >> 24);
    }
}

static uint8_t code_in_rows(const uint8_t *w, int32_t row, int32_t column)
{
    uint8_t const pair = w[(row * K + column) / 2];
    return column & 1 ? pair >> 4 : pair & 15;
}

static void check_elements(hd_format f)
{
    static uint8_t w[N * K / 2], moved[N * K / 2], sf[N * K / 16], moved_sf[N * K / 16];
    int32_t const  block = block_of(f);
    fill(w, sizeof w, 1);
    fill(sf, sizeof sf, 2);
    hd_tiles_move_codes(f, N, K, w, moved);
    hd_tiles_move_scales(f, N, K, sf, moved_sf);
    for (int32_t row = 0; row < N; row++)
        for (int32_t c = 0; c < K; c++) {
            uint8_t octet[8];
            hd_tiles_octet(f, moved, K, row, c - c % 8, octet);
            assert_int_equal(octet[c % 8], code_in_rows(w, row, c));
            assert_int_equal(hd_tiles_code(f, moved, K, row, c), code_in_rows(w, row, c));
            assert_int_equal(hd_tiles_scale(f, moved_sf, K, row, c),
                             sf[row * (K / block) + c / block]);
        }
}

static void test_elements(void **state)
{
    (void)state;
    check_elements(HD_FMT_NVFP4);
    check_elements(HD_FMT_MXFP4);
}

/* The order that kernels rely on: quant/tiles.h. */
static void test_places(void **state)
{
    static uint8_t w[N * K / 2], moved[N * K / 2], sf[N * K / 16], moved_sf[N * K / 16];
    (void)state;
    /* Row 41, column 64 + 19: tile (1, 1); row 9 of it, octet 2, element 3: pair 1, high half. */
    w[(41 * K + 64 + 19) / 2] = 0xF0;
    hd_tiles_move_codes(HD_FMT_NVFP4, N, K, w, moved);
    /* Lane 4 + 1 (octets 2 and 3), second row, first word; magnitude at bit 6, sign at 12. */
    int32_t const at = (1 * 3 + 1) * HD_TILES_CODE_BYTES + 5 * 16 + 8;
    assert_int_equal(moved[at + 2], 0xC0);
    assert_int_equal(moved[at + 3], 0x11);
    hd_tiles_move_codes(HD_FMT_MXFP4, N, K, w, moved);
    /* Lane 4 + 2 (octets 2 and 6). */
    assert_int_equal(moved[at + 16 + 2], 0xC0);
    sf[41 * (K / 16) + 4 + 1] = 7;
    hd_tiles_move_scales(HD_FMT_NVFP4, N, K, sf, moved_sf);
    assert_int_equal(moved_sf[(1 * 3 + 1) * 128 + (1 * 4 + 1) * 4 + 1], 7);
}

static void test_fit(void **state)
{
    (void)state;
    assert_true(hd_tiles_fit(HD_FMT_NVFP4, 32, 64));
    assert_true(hd_tiles_fit(HD_FMT_MXFP4, 4096, 7168));
    assert_false(hd_tiles_fit(HD_FMT_NVFP4, 48, 64));
    assert_false(hd_tiles_fit(HD_FMT_NVFP4, 32, 96));
    assert_false(hd_tiles_fit(HD_FMT_FP8, 32, 64));
}

static void test_formats(void **state)
{
    (void)state;
    assert_int_equal(hd_format_in_tiles(HD_FMT_NVFP4), HD_FMT_NVFP4_TILES);
    assert_int_equal(hd_format_in_rows(HD_FMT_MXFP4_TILES), HD_FMT_MXFP4);
    assert_int_equal(hd_format_in_tiles(HD_FMT_BF16), HD_FMT_BF16);
    assert_int_equal(hd_matrix_w_bytes(HD_FMT_NVFP4_TILES, 32, 64), 1024);
    assert_int_equal(hd_matrix_sf_bytes(HD_FMT_NVFP4_TILES, 32, 64), 128);
    assert_int_equal(hd_matrix_sf_bytes(HD_FMT_MXFP4_TILES, 32, 64), 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_elements),
                                       cmocka_unit_test(test_places), cmocka_unit_test(test_fit),
                                       cmocka_unit_test(test_formats)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
