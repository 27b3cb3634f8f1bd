#ifndef HD_OPS_X86_E2M1_AVX512_H
#define HD_OPS_X86_E2M1_AVX512_H

#include "ops/x86/dot.h"

/* Four-bit codes under AVX-512: a register holds the values of all 16.  Of a block of 16 the
 * even lanes take codes 0 .. 7, the odd ones codes 8 .. 15. */

INLINE vec decode_16_e2m1(const uint8_t *codes, vec scale)
{
    __m512i const shift =
        _mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28);
    vec const value = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f,
                                     -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
    int64_t   bytes;
    memcpy(&bytes, codes, sizeof bytes);
    /* Only the lowest four bits of a lane choose. */
    __m512i const code = _mm512_srlv_epi32(_mm512_set1_epi64(bytes), shift);
    return _mm512_mul_ps(_mm512_permutexvar_ps(code, value), scale);
}

INLINE void arrange_e2m1(const float *x, float *out)
{
    __m512i const order = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    for (int i = 0; i < HD_PRODUCT_GROUP; i += 16)
        vec_store(out + i, _mm512_permutexvar_ps(order, vec_load(x + i)));
}

#endif
