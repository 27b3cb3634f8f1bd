#ifndef HD_QUANT_FP8_H
#define HD_QUANT_FP8_H

#include <string.h>

#include "base/status.h"

HD_BEGIN_C

/* E4M3 (the "fn" kind: no infinity): sign, 4 exponent bits of bias 7, 3 mantissa bits.
 * 0x7F and 0xFF are NaN, the largest value is 448, the smallest step 2^-9. */
#define HD_E4M3_MAX 448.0
extern const float  hd_e4m3_table[256]; /* value of each code, NaN for the two NaN codes */
static inline float hd_e4m3_to_f32(uint8_t code) { return hd_e4m3_table[code]; }
/* Nearest, ties to the even code, saturating at 448, also for infinity; only NaN gives NaN. */
uint8_t hd_e4m3_encode(double x);

/* E8M0: a power of two, 2^(code - 127); 0xFF is NaN, code 0 the f32 denormal 2^-127. */
static inline float hd_e8m0_to_f32(uint8_t code)
{
    uint32_t const bits = code == 0xFF ? UINT32_C(0x7FC00000)
                          : code == 0  ? UINT32_C(0x00400000)
                                       : (uint32_t)code << 23;
    float          v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* The smallest power of two that is at least x, for finite x > 0; exact. */
double hd_pow2_ceil(double x);

/* FP8 matrices carry one scale for each 128 x 128 block; FP8 activations one power of two for
 * each run of `block` elements along k. */
#define HD_FP8_BLOCK 128
/* The scale of a run by its largest magnitude, which is finite. */
double hd_fp8_scale(double amax);
/* Rounds a run of n elements that share a scale:
 * s = 2^ceil(log2(max(amax, 1e-4) / 448)), y = e4m3(clamp(x / s)) * s.  y may be x.
 * A run with NaN or infinity is copied as it is, so that it can be found where it arose. */
void hd_fp8_round(const float *x, float *y, int32_t n);
/* The same as codes; returns the E8M0 code of s.  A run with NaN or infinity becomes NaN
 * altogether: every code and the scale. */
uint8_t hd_fp8_encode(const float *x, int32_t n, uint8_t *codes);

HD_END_C
#endif
