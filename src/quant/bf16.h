#ifndef HD_QUANT_BF16_H
#define HD_QUANT_BF16_H

#include <string.h>

#include "base/status.h"

HD_BEGIN_C

/* bf16: the upper half of an f32.  Inline, because weights are decoded one by one. */
static inline float hd_bf16_to_f32(uint16_t b)
{
    uint32_t const u = (uint32_t)b << 16;
    float          f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Nearest, ties to even; NaN stays NaN; a finite value beyond the largest becomes infinity,
 * as the format defines it. */
uint16_t hd_f32_to_bf16(float x);

/* IEEE half, only read. */
float hd_f16_to_f32(uint16_t b);

HD_END_C
#endif
