#ifndef HD_OPS_X86_PEAK_ROUNDS_H
#define HD_OPS_X86_PEAK_ROUNDS_H

#include "ops/x86/peak.h"
#ifdef __AVX512F__
#include "ops/x86/vec_avx512.h"
#else
#include "ops/x86/vec_avx2.h"
#endif

/* 12 chains, so that none waits for itself; values stay below 1.  Both loops are unrolled by
 * force: an array that is indexed anywhere lies in memory, and a chain through memory is slower. */
static inline void multiply_add_rounds(int64_t rounds)
{
    float const start[VEC_LANES] = {0.5f};
    vec         sum[12];
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++) sum[i] = vec_load(start);
    vec const half = vec_load(start);
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) {
            sum[i] = vec_fma(sum[i], half, half);
            __asm__ volatile(""
                             : "+v"(sum[i])); /* or the compiler would see that nobody reads it */
        }
    }
}

#endif
