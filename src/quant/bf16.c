#include "quant/bf16.h"

#include <math.h>

uint16_t hd_f32_to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if (x != x) return (uint16_t)((u >> 16) | 0x40); /* keep it a NaN, and a quiet one */
    return (uint16_t)((u + 0x7FFF + ((u >> 16) & 1)) >> 16);
}

float hd_f16_to_f32(uint16_t b)
{
    int const   exponent = (b >> 10) & 31;
    float const mantissa = (float)(b & 1023);
    float       f;
    if (exponent == 31)
        f = mantissa != 0 ? NAN : INFINITY;
    else
        f = exponent ? ldexpf(1024 + mantissa, exponent - 25) : ldexpf(mantissa, -24);
    return b & 0x8000 ? -f : f;
}
