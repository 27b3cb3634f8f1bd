#include "quant/nvfp4_weights.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "quant/fp4.h"
#include "quant/fp8.h"

#define BLOCK       HD_NVFP4_BLOCK
#define SCALE_ONE   0x38 /* codes of E4M3 */
#define SCALE_LEAST 0x01
#define SCALE_MOST  0x7E

/* Codes tried below and above the one of the largest weight: from cutting it by a third to giving
 * it the code of 3.  Eight codes are a factor of two. */
#define SEARCH_BELOW 5
#define SEARCH_ABOVE 8

float hd_nvfp4_tensor_scale(float amax)
{
    float const scale = amax / (float)(HD_E2M1_MAX * HD_E4M3_MAX);
    if (amax == 0) return 1;
    return scale < FLT_MIN ? FLT_MIN : scale;
}

/* Scales are products and weights quotients of f32, rounded as such: weights are BF16 mostly, whose
 * quotients are ties more often than by chance, and these then fall as they do in ModelOpt. */

static float block_amax(const float *x)
{
    float amax = 0;
    for (int i = 0; i < BLOCK; i++) amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    return amax;
}

static void encode_block(const float *x, float scale, uint8_t *codes)
{
    for (int i = 0; i < BLOCK / 2; i++) {
        unsigned const low = hd_e2m1_encode((double)(x[2 * i] / scale));
        unsigned const high = hd_e2m1_encode((double)(x[2 * i + 1] / scale));
        codes[i] = (uint8_t)(low | high << 4);
    }
}

static uint8_t clamp_scale(int code)
{
    if (code < SCALE_LEAST) return SCALE_LEAST;
    return code > SCALE_MOST ? SCALE_MOST : (uint8_t)code;
}

/* ---- searching ---- */

static double square_error(const float *x, float scale)
{
    double sum = 0;
    for (int i = 0; i < BLOCK; i++) {
        uint8_t const code = hd_e2m1_encode((double)(x[i] / scale));
        double const  d = (double)x[i] - (double)hd_e2m1_to_f32(code) * (double)scale;
        sum += d * d;
    }
    return sum;
}

/* The first of the best; the code of the largest weight wins a tie. */
static uint8_t search_scale(const float *x, float scale, uint8_t start)
{
    uint8_t       best = start;
    uint8_t const last = clamp_scale(start + SEARCH_ABOVE);
    double        least = square_error(x, hd_e4m3_to_f32(start) * scale);
    for (uint8_t code = clamp_scale(start - SEARCH_BELOW); code <= last; code++) {
        double const error = code == start ? least : square_error(x, hd_e4m3_to_f32(code) * scale);
        if (error >= least) continue;
        least = error;
        best = code;
    }
    return best;
}

void hd_nvfp4_encode_weights(const float *x, int32_t k, float scale, hd_block_scales how,
                             uint8_t *codes, uint8_t *scales)
{
    for (int32_t b = 0; b < k / BLOCK; b++, x += BLOCK, codes += BLOCK / 2) {
        float const amax = block_amax(x), wanted = amax / ((float)HD_E2M1_MAX * scale);
        uint8_t     code = SCALE_ONE;
        if (amax > 0) code = clamp_scale(hd_e4m3_encode((double)wanted));
        if (amax > 0 && how == HD_SCALES_MSE) code = search_scale(x, scale, code);
        scales[b] = code;
        encode_block(x, hd_e4m3_to_f32(code) * scale, codes);
    }
}

/* ---- MXFP4 ---- */

float hd_nvfp4_cast_scale(int exponent)
{
    int const least = FLT_MIN_EXP - 1; /* of a normal number */
    return ldexpf(1, exponent - 8 < least ? least : exponent - 8);
}

static bool is_zero(const uint8_t *codes)
{
    unsigned any = 0;
    for (int i = 0; i < BLOCK / 2; i++) any |= codes[i] & 0x77u;
    return any == 0;
}

static float element_of(const uint8_t *codes, int i)
{
    return hd_e2m1_to_f32((unsigned)codes[i / 2] >> (i % 2 ? 4 : 0));
}

/* Rounds a block whose own scale is below the smallest one; returns whether a weight changed. */
static bool round_block(const uint8_t *codes, double from, double to, uint8_t *out)
{
    float   x[BLOCK];
    uint8_t rounded[BLOCK / 2];
    bool    is_other = false;
    for (int i = 0; i < BLOCK; i++) x[i] = element_of(codes, i) * (float)(from / to);
    encode_block(x, 1, rounded);
    for (int i = 0; i < BLOCK; i++) is_other = is_other || element_of(rounded, i) != x[i];
    memcpy(out, rounded, sizeof rounded);
    return is_other;
}

static bool cast_block(const uint8_t *codes, double from, float scale, uint8_t *out,
                       uint8_t *out_scale)
{
    double const wanted = from / scale, least = (double)hd_e4m3_to_f32(SCALE_LEAST);
    memmove(out, codes, BLOCK / 2);
    *out_scale = SCALE_ONE;
    if (is_zero(codes)) return false;
    *out_scale = clamp_scale(hd_e4m3_encode(wanted));
    return wanted < least && round_block(codes, wanted, least, out);
}

int32_t hd_nvfp4_cast_mxfp4(const uint8_t *codes, const uint8_t *scales, int32_t k, float scale,
                            uint8_t *out_codes, uint8_t *out_scales)
{
    int32_t changed = 0;
    for (int32_t b = 0; b < k / BLOCK; b++, codes += BLOCK / 2, out_codes += BLOCK / 2) {
        double const from = (double)hd_e8m0_to_f32(scales[b / (HD_MXFP4_BLOCK / BLOCK)]);
        changed += cast_block(codes, from, scale, out_codes, out_scales + b);
    }
    return changed;
}
