#include "quant/fp8.h"

#include <math.h>
#include <string.h>

#define E4M3_NAN  0x7F
#define E8M0_NAN  0xFF
#define E8M0_BIAS 127

#define NORMAL(s, p) \
    s 8 * (p), s 9 * (p), s 10 * (p), s 11 * (p), s 12 * (p), s 13 * (p), s 14 * (p), s 15 * (p)
#define HALF(s)                                                                                 \
    s 0x0p-9f, s 0x1p-9f, s 0x2p-9f, s 0x3p-9f, s 0x4p-9f, s 0x5p-9f, s 0x6p-9f, s 0x7p-9f,     \
        NORMAL(s, 0x1p-9f), NORMAL(s, 0x1p-8f), NORMAL(s, 0x1p-7f), NORMAL(s, 0x1p-6f),         \
        NORMAL(s, 0x1p-5f), NORMAL(s, 0x1p-4f), NORMAL(s, 0x1p-3f), NORMAL(s, 0x1p-2f),         \
        NORMAL(s, 0x1p-1f), NORMAL(s, 0x1p0f), NORMAL(s, 0x1p1f), NORMAL(s, 0x1p2f),            \
        NORMAL(s, 0x1p3f), NORMAL(s, 0x1p4f), s 256.0f, s 288.0f, s 320.0f, s 352.0f, s 384.0f, \
        s 416.0f, s 448.0f, NAN
const float hd_e4m3_table[256] = {HALF(+), HALF(-)};

uint8_t hd_e4m3_encode(double x)
{
    if (x != x) return E4M3_NAN;
    uint8_t const sign = signbit(x) ? 0x80 : 0;
    double const  a = fabs(x);
    if (a >= HD_E4M3_MAX) return (uint8_t)(sign | 0x7E);
    int exponent = -6; /* below 2^-6 the step stays 2^-9 */
    if (a >= 0x1p-6) {
        frexp(a, &exponent);
        exponent--;
    }
    /* nearbyint ties to even; a mantissa of 16 carries into the exponent by itself. */
    int const steps = (int)nearbyint(ldexp(a, 3 - exponent));
    int const code = (exponent + 6) * 8 + steps;
    return (uint8_t)(sign | (code > 0x7E ? 0x7E : code));
}

double hd_pow2_ceil(double x)
{
    int          exponent;
    double const mantissa = frexp(x, &exponent); /* x = mantissa * 2^exponent, [0.5, 1) */
    return ldexp(1.0, mantissa == 0.5 ? exponent - 1 : exponent);
}

/* Largest magnitude of a run; NaN or infinity when it holds one. */
static double finite_amax(const float *x, int32_t n)
{
    double amax = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) return NAN;
        if (fabs(x[i]) > amax) amax = fabs(x[i]);
    }
    return amax;
}

double hd_fp8_scale(double amax) { return hd_pow2_ceil((amax > 1e-4 ? amax : 1e-4) / HD_E4M3_MAX); }

/* The scale of a run, NaN when it holds NaN or infinity. */
static double run_scale(const float *x, int32_t n)
{
    double const amax = finite_amax(x, n);
    return amax != amax ? NAN : hd_fp8_scale(amax);
}

void hd_fp8_round(const float *x, float *y, int32_t n)
{
    double const s = run_scale(x, n);
    if (s != s) {
        memmove(y, x, (size_t)n * sizeof *y);
        return;
    }
    for (int32_t i = 0; i < n; i++) y[i] = (float)(hd_e4m3_to_f32(hd_e4m3_encode(x[i] / s)) * s);
}

uint8_t hd_fp8_encode(const float *x, int32_t n, uint8_t *codes)
{
    double const s = run_scale(x, n);
    for (int32_t i = 0; i < n; i++) codes[i] = s == s ? hd_e4m3_encode(x[i] / s) : E4M3_NAN;
    return s == s ? (uint8_t)(ilogb(s) + E8M0_BIAS) : E8M0_NAN;
}
