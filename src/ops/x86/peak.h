#ifndef HD_OPS_X86_PEAK_H
#define HD_OPS_X86_PEAK_H

#include "base/status.h"

/* Loops of nothing but multiply-adds in registers: what one thread can do at most. */

HD_BEGIN_C

#define HD_PEAK_AVX2   (12 * 8 * 2) /* f32 operations of a round */
#define HD_PEAK_AVX512 (12 * 16 * 2)
void hd_peak_avx2(int64_t rounds);
void hd_peak_avx512(int64_t rounds);

HD_END_C
#endif
