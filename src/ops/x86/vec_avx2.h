#ifndef HD_OPS_X86_VEC_AVX2_H
#define HD_OPS_X86_VEC_AVX2_H

#include "ops/x86/vectors_avx2.h"

/* The vectors of products under AVX2. */

typedef __m256 vec;
#define VEC_LANES 8
#define VEC_ROWS  4 /* by three inputs: what 16 registers hold */

static inline vec  vec_load(const float *x) { return _mm256_loadu_ps(x); }
static inline void vec_store(float *x, vec v) { _mm256_storeu_ps(x, v); }
static inline vec  vec_zero(void) { return _mm256_setzero_ps(); }
static inline vec  vec_all(float v) { return _mm256_set1_ps(v); }
static inline vec  vec_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
static inline vec  vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
/* The sums of the lanes of each of 8 vectors. */
static inline vec vec_add_lanes(const float *x)
{
    vec v[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) v[i] = vec_load(x + i * VEC_LANES);
    return add_lanes_of_8(v);
}
/* See vec_avx512.h: narrower vectors are read as fast as they are used. */
static inline vec vec_keep(vec v) { return v; }
/* See vec_avx512.h. */
static inline void vec_prefetch(const void *p)
{
    __asm__ volatile("prefetcht0 %0" : : "m"(*(const char *)p));
}

#endif
