#ifndef HD_OPS_X86_E2M1_AVX512_H
#define HD_OPS_X86_E2M1_AVX512_H

#include "ops/x86/dot.h"

/* Four-bit codes under AVX-512: a register holds the values of all 16.  A lane takes the eight
 * codes of one 32-bit word after the other, which share a block, so that scales multiply the sum of
 * their products.  Values are 2^-6 of what they should be: then eight products of the largest
 * floats do not overflow where the scale would still have saved them. */

#define E2M1_UNIT 0x1p6f

/* All values; their upper halves are all that they have, and stand there once more for each value
 * of a bit that is not minded. */
INLINE vec e2m1_values(void)
{
    return _mm512_mul_ps(_mm512_set1_ps(1 / E2M1_UNIT),
                         _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f,
                                        -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f));
}
INLINE __m512i e2m1_upper_halves(void)
{
    __m512i const once = _mm512_srli_epi32(_mm512_castps_si512(e2m1_values()), 16);
    return _mm512_broadcast_i64x4(_mm512_cvtepi32_epi16(once));
}

/* The lowest four bits of a lane choose; or, of half a lane, the lowest five: so one shift brings
 * up two codes, the upper of which chooses among halves. */
INLINE void decode_e2m1(const uint8_t *codes, vec out[GROUP_VECS])
{
    __m512i const words = _mm512_loadu_si512(codes), halves = e2m1_upper_halves();
    vec const     values = e2m1_values();
#pragma GCC unroll 4
    for (int i = 0; i < GROUP_VECS / 2; i++) {
        __m512i const up = _mm512_srli_epi32(words, (unsigned)(4 * i));
        out[i] = _mm512_permutexvar_ps(up, values);
        out[i + 4] = _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xAAAAAAAA, up, halves));
    }
}

/* Of each pair of vectors `apart` from each other the lanes that `low` names, then those `step`
 * behind them. */
INLINE void exchange(vec v[GROUP_VECS], int apart, __m512i low, int step)
{
    __m512i const high = _mm512_add_epi32(low, _mm512_set1_epi32(step));
#pragma GCC unroll 8
    for (int i = 0; i < GROUP_VECS; i++) {
        if (i & apart) continue;
        vec const a = v[i], b = v[i + apart];
        v[i] = _mm512_permutex2var_ps(a, low, b);
        v[i + apart] = _mm512_permutex2var_ps(a, high, b);
    }
}

/* A 16 x 8 matrix transposed: vector i takes column 8l + i into lane l.  Each step trades one bit
 * of a vector's number for one of the lane's. */
INLINE void arrange_e2m1(const float *x, float *out)
{
    __m512i const first =
        _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
    __m512i const second =
        _mm512_setr_epi32(0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
    __m512i const third =
        _mm512_setr_epi32(0, 8, 16, 24, 2, 10, 18, 26, 4, 12, 20, 28, 6, 14, 22, 30);
    vec v[GROUP_VECS];
    for (int i = 0; i < GROUP_VECS; i++) v[i] = vec_load(x + VEC_LANES * i);
    exchange(v, 4, first, 4);
    exchange(v, 2, second, 2);
    exchange(v, 1, third, 1);
    for (int i = 0; i < GROUP_VECS; i++) vec_store(out + VEC_LANES * i, v[i]);
}

#endif
