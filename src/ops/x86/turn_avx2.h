#ifndef HD_OPS_X86_TURN_AVX2_H
#define HD_OPS_X86_TURN_AVX2_H

#include <math.h>

#include "ops/x86/vectors_avx2.h"

#define HD_MAX_TAIL 1024

/* The turn of a position, as it meets the elements of a tail: the same for all heads of a token. */
typedef struct turn {
    float cosine[HD_MAX_TAIL];
    float sine[HD_MAX_TAIL]; /* negative for the even element of a pair */
} turn;

/* By position * freq[i], and by as much backwards where sign is -1. */
static inline void make_turn(float position, const float *freq, int32_t dr, float sign, turn *out)
{
    for (int32_t i = 0; i < dr; i += 2) {
        double const angle = (double)(position * freq[i / 2]) * sign;
        out->cosine[i] = out->cosine[i + 1] = (float)cos(angle);
        out->sine[i + 1] = (float)sin(angle);
        out->sine[i] = -out->sine[i + 1];
    }
}

static inline void apply_turn(const turn *by, float *tail, int32_t dr)
{
    for (int32_t i = 0; i < dr; i += 8) {
        int32_t const n = dr - i;
        __m256 const  x = load_first(tail + i, n);
        __m256 const  crossed =
            _mm256_mul_ps(_mm256_permute_ps(x, 0xB1), load_first(by->sine + i, n));
        store_first(tail + i, n, _mm256_fmadd_ps(x, load_first(by->cosine + i, n), crossed));
    }
}

#endif
