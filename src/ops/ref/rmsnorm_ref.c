#include "ops/rmsnorm.h"

#include <math.h>

bool hd_rmsnorm_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_rmsnorm_ref(const void *args, hd_stream *stream)
{
    const hd_rmsnorm_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++) {
        const float *const x = a->x + (int64_t)t * a->d;
        float *const       y = a->y + (int64_t)t * a->d;
        double             sum = 0;
        for (int32_t c = 0; c < a->d; c++) sum += (double)x[c] * x[c];
        double const r = 1 / sqrt(sum / a->d + a->eps);
        for (int32_t c = 0; c < a->d; c++) y[c] = (float)(x[c] * r * (a->has_w ? a->w[c] : 1.0f));
    }
    return HD_OK;
}
