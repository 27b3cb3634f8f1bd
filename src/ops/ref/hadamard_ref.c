#include "ops/hadamard.h"

#include <math.h>

static bool is_odd(int32_t bits) { return __builtin_popcount((unsigned)bits) & 1; }

bool hd_hadamard_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_hadamard_ref(const void *args, hd_stream *stream)
{
    const hd_hadamard_args *const a = args;
    (void)stream;
    double const norm = 1 / sqrt(a->k);
    for (int32_t t = 0; t < a->t; t++) {
        float *const x = a->x + (int64_t)t * a->k;
        double       y[HD_HADAMARD_MAX];
        for (int32_t j = 0; j < a->k; j++) {
            y[j] = 0;
            for (int32_t i = 0; i < a->k; i++) y[j] += is_odd(i & j) ? -(double)x[i] : (double)x[i];
        }
        for (int32_t j = 0; j < a->k; j++) x[j] = (float)(y[j] * norm);
    }
    return HD_OK;
}
