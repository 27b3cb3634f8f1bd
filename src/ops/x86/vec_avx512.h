#ifndef HD_OPS_X86_VEC_AVX512_H
#define HD_OPS_X86_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

/* The vectors of products under AVX-512. */

typedef __m512 vec;
#define VEC_LANES 16
#define VEC_ROWS  8 /* by three inputs: what 32 registers hold */

static inline vec   vec_load(const float *x) { return _mm512_loadu_ps(x); }
static inline void  vec_store(float *x, vec v) { _mm512_storeu_ps(x, v); }
static inline vec   vec_zero(void) { return _mm512_setzero_ps(); }
static inline vec   vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
static inline vec   vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline float vec_add_lanes(vec v) { return _mm512_reduce_add_ps(v); }
/* A value that stays in its register: GCC would rather read memory again for each use, and this is
 * bound by reading. */
static inline vec vec_keep(vec v)
{
    __asm__("" : "+v"(v));
    return v;
}
static inline void vec_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }

#endif
