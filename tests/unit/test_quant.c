#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "quant/bf16.h"
#include "quant/fp4.h"
#include "quant/fp8.h"
#include "quant/matrix.h"

static uint64_t rng = 1;

static uint32_t next_word(void)
{
    rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(rng >> 32);
}

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float finite_word(void)
{
    for (;;) {
        float const f = from_bits(next_word());
        if (isfinite(f)) return f;
    }
}

#define assert_same_bits(a, b) assert_int_equal(to_bits(a), to_bits(b))

/* ---- decoding: every code against the formula of its format ---- */

static double small_float(unsigned code, int exponent_bits, int mantissa_bits, int bias)
{
    unsigned const steps = 1U << mantissa_bits;
    unsigned const mantissa = code & (steps - 1);
    int const      exponent = (int)(code >> mantissa_bits & ((1U << exponent_bits) - 1));
    double const   sign = code >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
    if (exponent == 0) return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(steps + mantissa, exponent - bias - mantissa_bits);
}

static void decodes_e4m3(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        float const v = hd_e4m3_to_f32((uint8_t)c);
        if ((c & 0x7F) == 0x7F)
            assert_true(isnan(v));
        else
            assert_same_bits(v, (float)small_float(c, 4, 3, 7));
    }
    assert_float_equal(hd_e4m3_to_f32(0x7E), 448, 0);
    assert_float_equal(hd_e4m3_to_f32(0x38), 1, 0);
    assert_float_equal(hd_e4m3_to_f32(0x01), 0x1p-9, 0);
}

static void decodes_e2m1(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 16; c++)
        assert_same_bits(hd_e2m1_to_f32(c), (float)small_float(c, 2, 1, 1));
    assert_float_equal(hd_e2m1_to_f32(0xF7), 6, 0); /* looks at four bits only */
}

static void decodes_e8m0(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 255; c++)
        assert_same_bits(hd_e8m0_to_f32((uint8_t)c), (float)ldexp(1, (int)c - 127));
    assert_true(isnan(hd_e8m0_to_f32(255)));
}

static void decodes_bf16(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 65536; c++) {
        float const v = hd_bf16_to_f32((uint16_t)c);
        if ((c >> 7 & 255) < 255)
            assert_same_bits(v, (float)small_float(c, 8, 7, 127));
        else if (c & 127)
            assert_true(isnan(v));
        else
            assert_same_bits(v, c & 0x8000 ? -INFINITY : INFINITY);
        if (!isnan(v)) assert_int_equal(hd_f32_to_bf16(v), c);
        if (isnan(v)) assert_true(isnan(hd_bf16_to_f32(hd_f32_to_bf16(v))));
    }
}

static void decodes_f16(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 65536; c++) {
        float const v = hd_f16_to_f32((uint16_t)c);
        if ((c >> 10 & 31) < 31)
            assert_same_bits(v, (float)small_float(c, 5, 10, 15));
        else if (c & 1023)
            assert_true(isnan(v));
        else
            assert_same_bits(v, c & 0x8000 ? -INFINITY : INFINITY);
    }
}

/* ---- encoding ---- */

typedef uint8_t encode_fn(double x);

/* Between the neighbours `low` and `low + 1`: below the midpoint the lower, above it the
 * higher, on it the even one; the same with a sign. */
static void check_gap(encode_fn *encode, unsigned low, double a, double b, unsigned sign)
{
    double const   middle = (a + b) / 2;
    unsigned const even = low & 1 ? low + 1 : low;
    assert_int_equal(encode(a), low);
    assert_int_equal(encode(nextafter(middle, a)), low);
    assert_int_equal(encode(middle), even);
    assert_int_equal(encode(nextafter(middle, b)), low + 1);
    assert_int_equal(encode(b), low + 1);
    assert_int_equal(encode(-nextafter(middle, a)), sign | low);
    assert_int_equal(encode(-middle), sign | even);
    assert_int_equal(encode(-nextafter(middle, b)), sign | (low + 1));
}

static void encodes_e4m3(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 0x7E; c++)
        check_gap(hd_e4m3_encode, c, hd_e4m3_table[c], hd_e4m3_table[c + 1], 0x80);
    for (unsigned c = 0; c < 256; c++)
        if ((c & 0x7F) != 0x7F) assert_int_equal(hd_e4m3_encode(hd_e4m3_table[c]), c);
    static const double large[] = {448, 463, 464, 465, 480, 512, 1e30, 1e308, INFINITY};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        assert_int_equal(hd_e4m3_encode(large[i]), 0x7E);
        assert_int_equal(hd_e4m3_encode(-large[i]), 0xFE);
    }
    assert_int_equal(hd_e4m3_encode(NAN), 0x7F);
    assert_int_equal(hd_e4m3_encode(-0.0), 0x80);
    assert_int_equal(hd_e4m3_encode(0x1p-1074), 0);
}

static void encodes_e2m1(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 7; c++)
        check_gap(hd_e2m1_encode, c, hd_e2m1_table[c], hd_e2m1_table[c + 1], 8);
    for (unsigned c = 0; c < 16; c++) assert_int_equal(hd_e2m1_encode(hd_e2m1_table[c]), c);
    static const double large[] = {6, 6.5, 7, 8, 1e308, INFINITY};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        assert_int_equal(hd_e2m1_encode(large[i]), 7);
        assert_int_equal(hd_e2m1_encode(-large[i]), 15);
    }
    assert_int_equal(hd_e2m1_encode(NAN) & 7, 7);
    assert_int_equal(hd_e2m1_encode(-0.0), 8);
}

/* Each code's lower midpoint, just below it, just above it. */
static void encodes_bf16(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x7F80; c++) {
        uint32_t const middle = c << 16 | 0x8000;
        assert_int_equal(hd_f32_to_bf16(from_bits(middle - 1)), c);
        assert_int_equal(hd_f32_to_bf16(from_bits(middle)), c & 1 ? c + 1 : c);
        assert_int_equal(hd_f32_to_bf16(from_bits(middle + 1)), c + 1);
        assert_int_equal(hd_f32_to_bf16(from_bits(0x80000000 | (middle + 1))), 0x8000 | (c + 1));
    }
    assert_int_equal(hd_f32_to_bf16(3.4028235e38f), 0x7F80);
    assert_int_equal(hd_f32_to_bf16(-INFINITY), 0xFF80);
    /* The payload sits in the lower half only: the result must not become infinity. */
    assert_true(isnan(hd_bf16_to_f32(hd_f32_to_bf16(from_bits(0x7F800001)))));
    assert_true(isnan(hd_bf16_to_f32(hd_f32_to_bf16(from_bits(0xFFFFFFFF)))));
}

static void finds_next_power_of_two(void **state)
{
    (void)state;
    for (int e = -1000; e <= 1000; e++) {
        double const p = ldexp(1, e);
        assert_true(hd_pow2_ceil(p) == p);
        assert_true(hd_pow2_ceil(nextafter(p, INFINITY)) == 2 * p);
        assert_true(hd_pow2_ceil(nextafter(p, 0)) == p);
        assert_true(hd_pow2_ceil(p * 1.5) == 2 * p);
    }
    assert_true(hd_pow2_ceil(0x1p-1074) == 0x1p-1074);
}

/* ---- an independent implementation ---- */

static uint32_t take_hex(char **at) { return (uint32_t)strtoul(*at, at, 16); }

static void check_code_line(char *at)
{
    float const    x = from_bits(take_hex(&at));
    uint32_t const fp8 = take_hex(&at), fp4 = take_hex(&at), bf16 = take_hex(&at);
    assert_int_equal(hd_e4m3_encode(x), fp8);
    if (fp4 != 0xFF) assert_int_equal(hd_e2m1_encode(x), fp4);
    assert_int_equal(hd_f32_to_bf16(x), bf16);
}

static void take_block(char **at, int32_t n, float *x, uint8_t *codes)
{
    for (int32_t i = 0; i < n; i++) x[i] = from_bits(take_hex(at));
    for (int32_t i = 0; i < n / 2; i++) {
        uint32_t const low = take_hex(at);
        codes[i] = (uint8_t)(low | take_hex(at) << 4);
    }
}

static void check_nvfp4_line(char *at)
{
    float       x[16];
    uint8_t     want[8], got[8], scale;
    float const global = from_bits(take_hex(&at));
    take_block(&at, 16, x, want);
    uint32_t const want_scale = take_hex(&at), want_saturated = take_hex(&at);
    assert_int_equal(hd_nvfp4_encode(x, 16, global, got, &scale), want_saturated);
    assert_int_equal(scale, want_scale);
    assert_memory_equal(got, want, sizeof want);
}

static void check_mxfp4_line(char *at)
{
    float   x[32];
    uint8_t want[16], got[16], scale;
    take_block(&at, 32, x, want);
    hd_mxfp4_encode(x, 32, got, &scale);
    assert_int_equal(scale, take_hex(&at));
    assert_memory_equal(got, want, sizeof want);
}

static void agrees_with_golden_file(void **state)
{
    hd_pool  pool = {0};
    hd_error err = {0};
    char    *text = NULL;
    size_t   bytes;
    int      lines = 0;
    (void)state;
    if (hd_file_read(&text, &bytes, "tests/golden/quant_codes.txt", 1 << 20, &pool, &err) != HD_OK)
        fail_msg("%s", err.message);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        if (line[0] == 'c') check_code_line(line + 1);
        if (line[0] == 'n') check_nvfp4_line(line + 1);
        if (line[0] == 'm') check_mxfp4_line(line + 1);
    }
    assert_true(lines > 2000);
    hd_pool_free(&pool);
}

/* ---- rows ---- */

#define ROW 64

static void fill_row(float *x, float size)
{
    for (int i = 0; i < ROW; i++) x[i] = size * ((float)(next_word() >> 8) * 0x1p-23f - 1);
}

/* Rounding a row is encoding and decoding it. */
static void rounds_nvfp4_as_it_encodes(void **state)
{
    (void)state;
    for (int i = 0; i < 2000; i++) {
        float       x[ROW], y[ROW];
        double      decoded[ROW];
        uint8_t     codes[ROW / 2], scales[ROW / 16];
        float const size = ldexpf(1, (int)(next_word() % 80) - 40);
        float const scale = hd_nvfp4_scale(size * (i % 3 == 0 ? 0.1f : 1));
        fill_row(x, size);
        int32_t const saturated = hd_nvfp4_encode(x, ROW, scale, codes, scales);
        assert_int_equal(hd_nvfp4_round(x, y, ROW, scale), saturated);
        hd_nvfp4_decode(codes, scales, (double)scale, 0, ROW, decoded);
        for (int c = 0; c < ROW; c++) assert_true((float)decoded[c] == y[c]);
    }
}

static void rounds_mxfp4_as_it_encodes(void **state)
{
    (void)state;
    for (int i = 0; i < 2000; i++) {
        float   x[ROW], y[ROW];
        double  decoded[ROW];
        uint8_t codes[ROW / 2], scales[ROW / 32];
        fill_row(x, ldexpf(1, (int)(next_word() % 80) - 40));
        hd_mxfp4_encode(x, ROW, codes, scales);
        hd_mxfp4_round(x, y, ROW);
        hd_mxfp4_decode(codes, scales, 0, ROW, decoded);
        for (int c = 0; c < ROW; c++) assert_true((float)decoded[c] == y[c]);
    }
}

static void rounds_fp8_by_the_formula(void **state)
{
    (void)state;
    for (int i = 0; i < 2000; i++) {
        float  x[ROW], y[ROW];
        double amax = 1e-4;
        fill_row(x, ldexpf(1, (int)(next_word() % 80) - 40));
        for (int c = 0; c < ROW; c++) amax = fmax(amax, fabs(x[c]));
        double const s = exp2(ceil(log2(amax / 448)));
        hd_fp8_round(x, y, ROW);
        for (int c = 0; c < ROW; c++)
            assert_true(y[c] == (float)(hd_e4m3_to_f32(hd_e4m3_encode(x[c] / s)) * s));
        hd_fp8_round(y, x, ROW); /* what is rounded stays */
        assert_memory_equal(x, y, sizeof x);
    }
}

/* Rounds in place as it does into another row. */
static void rounds_in_place(void **state)
{
    float x[ROW], y[ROW], z[ROW];
    (void)state;
    fill_row(x, 3);
    memcpy(z, x, sizeof z);
    hd_fp8_round(x, y, ROW);
    hd_fp8_round(z, z, ROW);
    assert_memory_equal(y, z, sizeof y);
    memcpy(z, x, sizeof z);
    hd_mxfp4_round(x, y, ROW);
    hd_mxfp4_round(z, z, ROW);
    assert_memory_equal(y, z, sizeof y);
    memcpy(z, x, sizeof z);
    hd_nvfp4_round(x, y, ROW, 0.001f);
    hd_nvfp4_round(z, z, ROW, 0.001f);
    assert_memory_equal(y, z, sizeof y);
}

static void encodes_zero_blocks(void **state)
{
    float   x[ROW] = {0}, y[ROW];
    uint8_t codes[ROW / 2], scales[ROW / 16];
    double  decoded[ROW];
    (void)state;
    memset(codes, 0xEE, sizeof codes);
    assert_int_equal(hd_nvfp4_encode(x, ROW, 1, codes, scales), 0);
    for (int i = 0; i < ROW / 2; i++) assert_int_equal(codes[i], 0);
    hd_nvfp4_decode(codes, scales, 1, 0, ROW, decoded);
    for (int i = 0; i < ROW; i++) assert_true(decoded[i] == 0);
    hd_mxfp4_encode(x, ROW, codes, scales);
    for (int i = 0; i < ROW / 32; i++) assert_int_equal(scales[i], 127);
    assert_int_equal(hd_nvfp4_round(x, y, ROW, 0.5f), 0);
    assert_memory_equal(x, y, sizeof x);
    hd_fp8_round(x, y, ROW);
    assert_memory_equal(x, y, sizeof x);
    hd_mxfp4_round(x, y, ROW);
    assert_memory_equal(x, y, sizeof x);
}

static void counts_saturated_blocks(void **state)
{
    float   x[ROW] = {0}, y[ROW];
    uint8_t codes[ROW / 2], scales[ROW / 16];
    (void)state;
    x[0] = 2688;     /* block scale exactly 448: fits */
    x[16] = 2688.5f; /* just above                     */
    x[32] = -1e6f;
    x[48] = 1;
    assert_int_equal(hd_nvfp4_encode(x, ROW, 1, codes, scales), 2);
    assert_int_equal(scales[0], 0x7E);
    assert_int_equal(scales[2], 0x7E);
    assert_int_equal(hd_nvfp4_round(x, y, ROW, 1), 2);
    assert_float_equal(y[0], 2688, 0);
    assert_float_equal(y[32], -2688, 0);
}

/* The scale made for a row never saturates in it, and is 0 only for a row of zeros. */
static void scales_rows_to_fit(void **state)
{
    (void)state;
    assert_true(hd_nvfp4_scale(0) == 0);
    assert_true(hd_nvfp4_scale(2688) == 1);
    for (int i = 0; i < 100000; i++) {
        float x[16] = {fabsf(finite_word())}, y[16];
        if (x[0] == 0) continue;
        float const scale = hd_nvfp4_scale(x[0]);
        assert_true(scale > 0);
        assert_int_equal(hd_nvfp4_round(x, y, 16, scale), 0);
    }
}

static void holds_what_it_can_hold(void **state)
{
    float   x[32], back[32];
    double  decoded[32];
    uint8_t codes[16], scales[2];
    (void)state;
    for (int i = 0; i < 32; i++) x[i] = hd_e2m1_table[i & 15] * 0.25f * 0.5f;
    assert_int_equal(hd_nvfp4_encode(x, 32, 0.25f, codes, scales), 0);
    hd_nvfp4_decode(codes, scales, 0.25, 0, 32, decoded);
    for (int i = 0; i < 32; i++) back[i] = (float)decoded[i];
    assert_memory_equal(x, back, sizeof x);
    hd_mxfp4_encode(x, 32, codes, scales);
    hd_mxfp4_decode(codes, scales, 0, 32, decoded);
    for (int i = 0; i < 32; i++) back[i] = (float)decoded[i];
    assert_memory_equal(x, back, sizeof x);
}

/* A part of a row decodes as it does in the whole row. */
static void decodes_parts_of_rows(void **state)
{
    float   x[4 * ROW];
    uint8_t codes[2 * ROW], scales[4 * ROW / 16];
    double  whole[4 * ROW], part[ROW];
    (void)state;
    for (int i = 0; i < 4; i++) fill_row(x + i * ROW, (float)(i + 1));
    hd_nvfp4_encode(x, 4 * ROW, hd_nvfp4_scale(4), codes, scales);
    hd_nvfp4_decode(codes, scales, 0.1, 0, 4 * ROW, whole);
    hd_nvfp4_decode(codes, scales, 0.1, 48, 32, part);
    assert_memory_equal(part, whole + 48, 32 * sizeof *part);
    hd_mxfp4_encode(x, 4 * ROW, codes, scales);
    hd_mxfp4_decode(codes, scales, 0, 4 * ROW, whole);
    hd_mxfp4_decode(codes, scales, 96, 64, part);
    assert_memory_equal(part, whole + 96, 64 * sizeof *part);
}

static void assert_no_nan(const float *row)
{
    for (int c = 0; c < ROW; c++) assert_true(row[c] == row[c]);
}

static bool is_nan_code(uint8_t code) { return (code & 0x7F) == 0x7F; }

/* One million finite bit patterns in rows whose elements are of any size. */
static void makes_no_nan_of_finite_input(void **state)
{
    (void)state;
    for (int i = 0; i < 1000000 / ROW; i++) {
        float   x[ROW], y[ROW];
        uint8_t codes[ROW / 2], scales[ROW / 16];
        float   scale = fabsf(finite_word());
        if (scale == 0) scale = 1;
        for (int c = 0; c < ROW; c++) x[c] = finite_word();
        hd_nvfp4_encode(x, ROW, scale, codes, scales);
        for (int b = 0; b < ROW / 16; b++) assert_false(is_nan_code(scales[b]));
        hd_mxfp4_encode(x, ROW, codes, scales);
        for (int b = 0; b < ROW / 32; b++) assert_int_not_equal(scales[b], 255);
        hd_nvfp4_round(x, y, ROW, scale);
        assert_no_nan(y);
        hd_mxfp4_round(x, y, ROW);
        assert_no_nan(y);
        hd_fp8_round(x, y, ROW);
        assert_no_nan(y);
    }
}

/* Codes are finite for every size; rounded values too, up to where the next code is beyond
 * f32 itself. */
static void survives_extremes(void **state)
{
    static const float sizes[] = {3.4028235e38f, 0x1.8p127f, 0x1p-149f, 0x1p-126f, 1e-45f};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        float   x[32], y[32];
        uint8_t codes[16], scales[2];
        double  decoded[32];
        for (int i = 0; i < 32; i++) x[i] = i % 2 ? -sizes[s] : sizes[s];
        hd_mxfp4_encode(x, 32, codes, scales);
        hd_mxfp4_decode(codes, scales, 0, 32, decoded);
        for (int i = 0; i < 32; i++) assert_true(isfinite(decoded[i]));
        float const scale = hd_nvfp4_scale(sizes[s]);
        if (scale > 0) hd_nvfp4_encode(x, 32, scale, codes, scales);
        hd_fp8_round(x, y, 32);
        for (int i = 0; i < 32; i++) assert_int_equal(isinf(y[i]) != 0, s == 0);
        hd_mxfp4_round(x, y, 32);
        for (int i = 0; i < 32; i++) assert_int_equal(isinf(y[i]) != 0, s == 0);
    }
}

/* NaN and infinity must stay visible, or they could not be traced to where they arose. */
static void keeps_nan_and_infinity(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        float x[32], y[32];
        for (int i = 0; i < 32; i++) x[i] = (float)i / 8;
        x[5] = kind == 0 ? NAN : kind == 1 ? INFINITY : -INFINITY;
        hd_fp8_round(x, y, 32);
        assert_memory_equal(x, y, sizeof x);
        hd_mxfp4_round(x, y, 32);
        assert_memory_equal(x, y, sizeof x);
        hd_nvfp4_round(x, y, 32, 0.01f);
        assert_memory_equal(x, y, 16 * sizeof *x); /* only the block that holds it */
        assert_true(isfinite(y[16]));
    }
}

/* ---- published small cases ---- */

/* Bytes 72 F1 hold 2 then 7, 1 then F: one, six, a half, minus six. */
static void decodes_low_nibble_first(void **state)
{
    uint8_t const codes[8] = {0x72, 0xF1}, scales[1] = {0x38};
    double        v[16];
    (void)state;
    hd_nvfp4_decode(codes, scales, 1.0 / 2048, 0, 16, v);
    assert_true(v[0] == 4.8828125e-4 && v[1] == 2.9296875e-3);
    assert_true(v[2] == 2.44140625e-4 && v[3] == -2.9296875e-3);
}

/* Gate and up with their own scales: 6 * 2^-10 and 6 * 2^-12. */
static void keeps_scales_of_fused_halves_apart(void **state)
{
    uint8_t codes[8], scales[1] = {0x38};
    double  v[16];
    (void)state;
    memset(codes, 0x77, sizeof codes);
    hd_nvfp4_decode(codes, scales, 0x1p-10, 0, 16, v);
    assert_true(v[0] == 0.005859375 && v[15] == 0.005859375);
    hd_nvfp4_decode(codes, scales, 0x1p-12, 0, 16, v);
    assert_true(v[0] == 0.00146484375);
}

static void rounds_scales_up_to_powers_of_two(void **state)
{
    static const double scales[] = {1, 0.75, 1, 1};
    (void)state;
    for (int i = 0; i < 4; i++) assert_true(hd_pow2_ceil(scales[i]) == 1);
}

static void names_formats(void **state)
{
    (void)state;
    assert_string_equal(hd_format_name(HD_FMT_NVFP4), "NVFP4");
    assert_string_equal(hd_format_name(HD_FMT_NONE), "none");
    assert_string_equal(hd_format_name((hd_format)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_e4m3),
        cmocka_unit_test(decodes_e2m1),
        cmocka_unit_test(decodes_e8m0),
        cmocka_unit_test(decodes_bf16),
        cmocka_unit_test(decodes_f16),
        cmocka_unit_test(encodes_e4m3),
        cmocka_unit_test(encodes_e2m1),
        cmocka_unit_test(encodes_bf16),
        cmocka_unit_test(finds_next_power_of_two),
        cmocka_unit_test(agrees_with_golden_file),
        cmocka_unit_test(rounds_nvfp4_as_it_encodes),
        cmocka_unit_test(rounds_mxfp4_as_it_encodes),
        cmocka_unit_test(rounds_fp8_by_the_formula),
        cmocka_unit_test(rounds_in_place),
        cmocka_unit_test(encodes_zero_blocks),
        cmocka_unit_test(counts_saturated_blocks),
        cmocka_unit_test(scales_rows_to_fit),
        cmocka_unit_test(holds_what_it_can_hold),
        cmocka_unit_test(decodes_parts_of_rows),
        cmocka_unit_test(makes_no_nan_of_finite_input),
        cmocka_unit_test(survives_extremes),
        cmocka_unit_test(keeps_nan_and_infinity),
        cmocka_unit_test(decodes_low_nibble_first),
        cmocka_unit_test(keeps_scales_of_fused_halves_apart),
        cmocka_unit_test(rounds_scales_up_to_powers_of_two),
        cmocka_unit_test(names_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
