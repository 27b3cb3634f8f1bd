#ifndef HD_OPS_X86_VEC_AVX512_H
#define HD_OPS_X86_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

/* The vectors of products under AVX-512. */

typedef __m512 vec;
#define VEC_LANES 16
#define VEC_ROWS  8 /* by three inputs: what 32 registers hold */

static inline vec  vec_load(const float *x) { return _mm512_loadu_ps(x); }
static inline void vec_store(float *x, vec v) { _mm512_storeu_ps(x, v); }
static inline vec  vec_zero(void) { return _mm512_setzero_ps(); }
static inline vec  vec_all(float v) { return _mm512_set1_ps(v); }
static inline vec  vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
static inline vec  vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
/* Of runs of 2 * half lanes the lower half plus the upper one: first of all runs of a, then of b.
 */
static inline vec vec_add_halves(vec a, vec b, int half)
{
    __m512i const lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i const within = _mm512_and_si512(lane, _mm512_set1_epi32(half - 1));
    __m512i const low = _mm512_sub_epi32(_mm512_add_epi32(lane, lane), within);
    __m512i const high = _mm512_add_epi32(low, _mm512_set1_epi32(half));
    return _mm512_add_ps(_mm512_permutex2var_ps(a, low, b), _mm512_permutex2var_ps(a, high, b));
}

/* The sums of the lanes of each of 16 vectors. */
static inline vec vec_add_lanes(const float *x)
{
    vec v[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) v[i] = vec_load(x + i * VEC_LANES);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) v[i] = vec_add_halves(v[2 * i], v[2 * i + 1], 8);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) v[i] = vec_add_halves(v[2 * i], v[2 * i + 1], 4);
    v[0] = vec_add_halves(v[0], v[1], 2);
    v[1] = vec_add_halves(v[2], v[3], 2);
    return vec_add_halves(v[0], v[1], 1);
}

/* A value that stays in its register: GCC would rather read memory again for each use, and this is
 * bound by reading. */
static inline vec vec_keep(vec v)
{
    __asm__("" : "+v"(v));
    return v;
}
/* An instruction that stays: GCC takes a function that only fetches for one without effect, and
 * leaves out calls of it. */
static inline void vec_prefetch(const void *p)
{
    __asm__ volatile("prefetcht0 %0" : : "m"(*(const char *)p));
}

#endif
