#include "ops/swiglu.h"

#include <math.h>

bool hd_swiglu_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_swiglu_ref(const void *args, hd_stream *stream)
{
    const hd_swiglu_args *const a = args;
    (void)stream;
    for (int32_t r = 0; r < a->r; r++) {
        const float *const gate = hd_swiglu_gate(a, r), *const up = hd_swiglu_up(a, r);
        for (int32_t i = 0; i < a->n; i++) {
            double const limit = a->limit;
            double const g = gate[i] > limit ? limit : gate[i];
            double const u = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
            a->y[(int64_t)r * a->n + i] =
                (float)(g / (1 + exp(-g)) * u * (a->has_w ? a->w[r] : 1.0f));
        }
    }
    return HD_OK;
}
