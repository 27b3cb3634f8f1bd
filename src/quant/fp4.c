#include "quant/fp4.h"

#include <math.h>
#include <string.h>

#include "quant/fp8.h"

#define E8M0_NAN 0xFF

const float hd_e2m1_table[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                 -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

uint8_t hd_e2m1_encode(double x)
{
    unsigned const sign = signbit(x) ? 8 : 0;
    double const   a = fabs(x);
    unsigned       code;
    /* Midpoints between neighbours; a tie goes to the even code. */
    if (a <= 0.25)
        code = 0;
    else if (a < 0.75)
        code = 1;
    else if (a <= 1.25)
        code = 2;
    else if (a < 1.75)
        code = 3;
    else if (a <= 2.5)
        code = 4;
    else if (a < 3.5)
        code = 5;
    else if (a <= 5.0)
        code = 6;
    else
        code = 7;
    return (uint8_t)(sign | code);
}

/* Largest magnitude of a block; NaN when it holds NaN or infinity. */
static double block_amax(const float *x, int32_t n)
{
    double amax = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) return NAN;
        if (fabs(x[i]) > amax) amax = fabs(x[i]);
    }
    return amax;
}

static void decode_block(const uint8_t *codes, double scale, int32_t n, double *out)
{
    for (int32_t i = 0; i < n / 2; i++) {
        out[2 * i] = hd_e2m1_to_f32(codes[i]) * scale;
        out[2 * i + 1] = hd_e2m1_to_f32(codes[i] >> 4) * scale;
    }
}

/* Divides by the scale, not by its reciprocal: the quotient must round once. */
static void encode_block(const float *x, double scale, int32_t n, uint8_t *codes)
{
    for (int32_t i = 0; i < n / 2; i++)
        codes[i] =
            (uint8_t)(hd_e2m1_encode(x[2 * i] / scale) | hd_e2m1_encode(x[2 * i + 1] / scale) << 4);
}

static void round_block(const float *x, float *y, double scale, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        y[i] = (float)(hd_e2m1_to_f32(hd_e2m1_encode(x[i] / scale)) * scale);
}

/* ---- MXFP4 ---- */

void hd_mxfp4_decode(const uint8_t *codes, const uint8_t *scales, int32_t k0, int32_t n,
                     double *out)
{
    for (int32_t i = 0; i < n; i += HD_MXFP4_BLOCK)
        decode_block(codes + (k0 + i) / 2, hd_e8m0_to_f32(scales[(k0 + i) / HD_MXFP4_BLOCK]),
                     HD_MXFP4_BLOCK, out + i);
}

void hd_mxfp4_encode(const float *x, int32_t k, uint8_t *codes, uint8_t *scales)
{
    for (int32_t b = 0; b < k / HD_MXFP4_BLOCK; b++) {
        const float *const block = x + b * HD_MXFP4_BLOCK;
        double const       amax = block_amax(block, HD_MXFP4_BLOCK);
        uint8_t *const     out = codes + b * HD_MXFP4_BLOCK / 2;
        int                exponent = 0;
        if (amax != amax) {
            scales[b] = E8M0_NAN;
            memset(out, 0, HD_MXFP4_BLOCK / 2);
            continue;
        }
        if (amax > 0) exponent = (int)log2(hd_pow2_ceil(amax / HD_E2M1_MAX));
        if (exponent < -127) exponent = -127;
        scales[b] = (uint8_t)(exponent + 127);
        encode_block(block, ldexp(1.0, exponent), HD_MXFP4_BLOCK, out);
    }
}

double hd_mxfp4_scale(double amax)
{
    double const floor = HD_E2M1_MAX * 0x1p-126;
    return hd_pow2_ceil((amax > floor ? amax : floor) / HD_E2M1_MAX);
}

void hd_mxfp4_round(const float *x, float *y, int32_t k)
{
    for (int32_t i = 0; i < k; i += HD_MXFP4_BLOCK) {
        double const amax = block_amax(x + i, HD_MXFP4_BLOCK);
        if (amax != amax)
            memmove(y + i, x + i, HD_MXFP4_BLOCK * sizeof *y);
        else
            round_block(x + i, y + i, hd_mxfp4_scale(amax), HD_MXFP4_BLOCK);
    }
}

/* ---- NVFP4 ---- */

void hd_nvfp4_decode(const uint8_t *codes, const uint8_t *scales, double scale, int32_t k0,
                     int32_t n, double *out)
{
    for (int32_t i = 0; i < n; i += HD_NVFP4_BLOCK)
        decode_block(codes + (k0 + i) / 2,
                     (double)hd_e4m3_to_f32(scales[(k0 + i) / HD_NVFP4_BLOCK]) * scale,
                     HD_NVFP4_BLOCK, out + i);
}

/* Rounded up: a scale that is too small by half a unit would count as saturated. */
float hd_nvfp4_scale(float amax)
{
    double const exact = amax / (HD_E2M1_MAX * HD_E4M3_MAX);
    float const  nearest = (float)exact;
    return nearest < exact ? nextafterf(nearest, INFINITY) : nearest;
}

uint8_t hd_nvfp4_block_scale(double amax, double scale, int32_t *saturated)
{
    double const wanted = amax / HD_E2M1_MAX / scale;
    *saturated += wanted > HD_E4M3_MAX;
    return hd_e4m3_encode(wanted);
}

int32_t hd_nvfp4_encode(const float *x, int32_t k, float scale, uint8_t *codes, uint8_t *scales)
{
    int32_t saturated = 0;
    for (int32_t b = 0; b < k / HD_NVFP4_BLOCK; b++) {
        const float *const block = x + b * HD_NVFP4_BLOCK;
        uint8_t *const     out = codes + b * HD_NVFP4_BLOCK / 2;
        scales[b] = hd_nvfp4_block_scale(block_amax(block, HD_NVFP4_BLOCK), scale, &saturated);
        double const s = (double)hd_e4m3_to_f32(scales[b]) * scale;
        if (s > 0)
            encode_block(block, s, HD_NVFP4_BLOCK, out);
        else
            memset(out, 0, HD_NVFP4_BLOCK / 2);
    }
    return saturated;
}

int32_t hd_nvfp4_round(const float *x, float *y, int32_t k, float scale)
{
    int32_t saturated = 0;
    for (int32_t i = 0; i < k; i += HD_NVFP4_BLOCK) {
        double const amax = block_amax(x + i, HD_NVFP4_BLOCK);
        if (amax != amax) {
            memmove(y + i, x + i, HD_NVFP4_BLOCK * sizeof *y);
            continue;
        }
        double const s =
            (double)hd_e4m3_to_f32(hd_nvfp4_block_scale(amax, scale, &saturated)) * scale;
        if (s > 0)
            round_block(x + i, y + i, s, HD_NVFP4_BLOCK);
        else
            memset(y + i, 0, HD_NVFP4_BLOCK * sizeof *y);
    }
    return saturated;
}
