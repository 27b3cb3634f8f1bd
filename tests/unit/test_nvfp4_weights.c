/* Weights to NVFP4: against the definitions, against trying all scales, and MXFP4 kept as it is. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "quant/fp4.h"
#include "quant/fp8.h"
#include "quant/nvfp4_weights.h"

#define ROW    64
#define BLOCKS (ROW / 16)

static uint32_t seed = 7;
static uint32_t next_word(void) { return seed = seed * 1664525u + 1013904223u; }

/* A sum of uniforms: weights are bell shaped, and that is what makes a search worth it. */
static float next_weight(float size)
{
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += (float)(next_word() >> 8) * 0x1p-23f - 1;
    return size * sum;
}

static double sum_of_squares(const float *x, const double *y, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
    return sum;
}

static double error_of(const float *x, float scale, hd_block_scales how)
{
    uint8_t codes[ROW / 2], scales[BLOCKS];
    double  got[ROW];
    hd_nvfp4_encode_weights(x, ROW, scale, how, codes, scales);
    hd_nvfp4_decode(codes, scales, (double)scale, 0, ROW, got);
    return sum_of_squares(x, got, ROW);
}

static void scales_a_tensor(void **state)
{
    (void)state;
    assert_true(hd_nvfp4_tensor_scale(2688) == 1);
    assert_true(hd_nvfp4_tensor_scale(0.1875f) == 0.1875f / 2688);
    assert_true(hd_nvfp4_tensor_scale(0) == 1);
    assert_true(isnormal(hd_nvfp4_tensor_scale(0x1p-149f)));
}

/* The scale of a block is its largest weight over 6, in E4M3; of zeros it is 1, and none is 0. */
static void takes_the_largest(void **state)
{
    (void)state;
    float   x[ROW] = {0};
    uint8_t codes[ROW / 2], scales[BLOCKS];
    x[3] = -6;
    x[4] = 0.25f; /* a tie: to the even code, 0 */
    x[5] = 0.26f;
    x[16] = 448 * 6;
    x[32] = 1e-20f; /* below the smallest scale */
    x[33] = -0.0f;
    hd_nvfp4_encode_weights(x, ROW, 1, HD_SCALES_MAX, codes, scales);
    uint8_t const want[BLOCKS] = {0x38, 0x7E, 0x01, 0x38};
    assert_memory_equal(scales, want, sizeof want);
    assert_int_equal(codes[1], 0xF0);
    assert_int_equal(codes[2], 0x10);
    assert_int_equal(codes[8], 0x07);
    assert_int_equal(codes[16], 0x80); /* a sign is no weight, and is kept */
    assert_int_equal(codes[24], 0);
}

/* What a search may find at best: the least error of all scales, block by block. */
static double best_error(const float *x, float scale)
{
    double sum = 0;
    for (int b = 0; b < BLOCKS; b++) {
        double least = INFINITY;
        for (int code = 1; code <= 0x7E; code++) {
            double error = 0, s = (double)hd_e4m3_to_f32((uint8_t)code) * (double)scale;
            for (int i = 16 * b; i < 16 * b + 16; i++) {
                double const y = (double)hd_e2m1_to_f32(hd_e2m1_encode((double)x[i] / s)) * s;
                error += ((double)x[i] - y) * ((double)x[i] - y);
            }
            if (error < least) least = error;
        }
        sum += least;
    }
    return sum;
}

static void searches_the_least_error(void **state)
{
    (void)state;
    double by_max = 0, by_search = 0, best = 0;
    for (int i = 0; i < 500; i++) {
        float       x[ROW];
        float const size = ldexpf(1, (int)(next_word() >> 16) % 40 - 20);
        for (int c = 0; c < ROW; c++) x[c] = next_weight(size * (c < 48 ? 1 : 0.01f));
        float const  scale = hd_nvfp4_tensor_scale(4 * size);
        double const m = error_of(x, scale, HD_SCALES_MAX), s = error_of(x, scale, HD_SCALES_MSE);
        assert_true(s <= m);
        by_max += m / (double)(size * size);
        by_search += s / (double)(size * size);
        best += best_error(x, scale) / (double)(size * size);
    }
    assert_true(by_search < 0.85 * by_max); /* it is worth it */
    assert_true(by_search < 1.001 * best);  /* and misses next to nothing */
}

/* ---- MXFP4 ---- */

static void fill_mxfp4(uint8_t *codes, uint8_t *scales, int span)
{
    for (int i = 0; i < ROW / 2; i++) codes[i] = (uint8_t)(next_word() >> 24);
    codes[0] |= 7;
    codes[16] |= 7; /* no block of zeros */
    scales[0] = (uint8_t)(120 - span);
    scales[1] = 120;
}

static int32_t cast(int span, double want[ROW], double got[ROW], uint8_t *codes, uint8_t *out)
{
    uint8_t scales[ROW / 32], out_scales[BLOCKS];
    fill_mxfp4(codes, scales, span);
    float const   scale = hd_nvfp4_cast_scale(120 - 127);
    int32_t const n = hd_nvfp4_cast_mxfp4(codes, scales, ROW, scale, out, out_scales);
    hd_mxfp4_decode(codes, scales, 0, ROW, want);
    hd_nvfp4_decode(out, out_scales, (double)scale, 0, ROW, got);
    return n;
}

/* Spans of up to 17 powers of two keep codes and values. */
static void casts_exactly(void **state)
{
    (void)state;
    for (int span = 0; span <= 17; span++) {
        uint8_t codes[ROW / 2], out[ROW / 2];
        double  want[ROW], got[ROW];
        assert_int_equal(cast(span, want, got, codes, out), 0);
        assert_memory_equal(codes, out, sizeof out);
        assert_memory_equal(want, got, sizeof got);
    }
}

/* Beyond, the small block is rounded to the nearest that is there, and counted; the other stays. */
static void counts_what_does_not_fit(void **state)
{
    (void)state;
    for (int span = 18; span <= 24; span++) {
        uint8_t       codes[ROW / 2], out[ROW / 2];
        double        want[ROW], got[ROW];
        int32_t       changed = 0;
        int32_t const n = cast(span, want, got, codes, out);
        double const  step = 0x1p-9 * 0.5 * (double)hd_nvfp4_cast_scale(120 - 127);
        for (int b = 0; b < BLOCKS; b++) {
            bool is_other = false;
            for (int i = 16 * b; i < 16 * b + 16; i++) {
                is_other = is_other || want[i] != got[i];
                assert_true(fabs(want[i] - got[i]) <= step * (b < 2 ? 1 : 0));
            }
            changed += is_other;
        }
        assert_int_equal(n, changed);
        assert_true(n > 0);
    }
}

/* A block of zeros may have any scale: 1, and the largest exponent is of the others. */
static void casts_zeros(void **state)
{
    (void)state;
    uint8_t codes[16] = {0x80, 0x08}, scales[1] = {3}, out[16], out_scales[2];
    assert_int_equal(hd_nvfp4_cast_mxfp4(codes, scales, 32, 1, out, out_scales), 0);
    assert_int_equal(out_scales[0], 0x38);
    assert_int_equal(out_scales[1], 0x38);
    assert_memory_equal(codes, out, sizeof out);
    assert_true(isnormal(hd_nvfp4_cast_scale(-127)));
    assert_true(hd_nvfp4_cast_scale(0) == 0x1p-8f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_a_tensor),          cmocka_unit_test(takes_the_largest),
        cmocka_unit_test(searches_the_least_error), cmocka_unit_test(casts_exactly),
        cmocka_unit_test(counts_what_does_not_fit), cmocka_unit_test(casts_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
