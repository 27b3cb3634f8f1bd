#ifndef HD_OPS_X86_LANES_H
#define HD_OPS_X86_LANES_H

#include <string.h>
#ifdef __AVX512F__
#include "ops/x86/vec_avx512.h"
#else
#include "ops/x86/vec_avx2.h"
#endif

/* The lanes of each of n sums added and multiplied by a power of two, for any vector width.  Sums
 * that do not fill the last run are added in the same order as others. */
static inline void add_lanes_times(const float *sums, int32_t n, float scale, float *out)
{
    int32_t i = 0;
    for (; i + VEC_LANES <= n; i += VEC_LANES)
        vec_store(out + i, vec_mul(vec_add_lanes(sums + i * VEC_LANES), vec_all(scale)));
    if (i == n) return;
    float rest[VEC_LANES * VEC_LANES] = {0}, added[VEC_LANES];
    memcpy(rest, sums + i * VEC_LANES, sizeof *sums * (size_t)((n - i) * VEC_LANES));
    vec_store(added, vec_mul(vec_add_lanes(rest), vec_all(scale)));
    memcpy(out + i, added, sizeof *out * (size_t)(n - i));
}

#endif
