#include "ops/x86/dot.h"

/* Of 32 weights the even ones come first, then the odd ones. */
static inline group decode(row_at at)
{
    __m512i const upper = _mm512_set1_epi32((int)0xFFFF0000);
    group         out;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i const w = _mm512_loadu_si512(at.w + 64 * i);
        out.v[2 * i] = _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
        out.v[2 * i + 1] = _mm512_castsi512_ps(_mm512_and_si512(w, upper));
    }
    out.scale = vec_zero();
    return out;
}

static const layout bf16 = {2 * GROUP, 0, false, 1, decode};

static inline void part_even_from_odd(const float *x, float *out)
{
    __m512i const even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512i const odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    for (int i = 0; i < GROUP; i += 32) {
        vec const a = vec_load(x + i), b = vec_load(x + i + 16);
        vec_store(out + i, _mm512_permutex2var_ps(a, even, b));
        vec_store(out + i + 16, _mm512_permutex2var_ps(a, odd, b));
    }
}

F32_FORMAT(hd_product_bf16_avx512, false, bf16, part_even_from_odd);
