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
    for (int32_t r = 0; r < a->r; r++)
        for (int32_t i = 0; i < a->n; i++) {
            int64_t const at = (int64_t)r * a->n + i;
            double const  limit = a->limit;
            double const  g = a->gate[at] > limit ? limit : a->gate[at];
            double const  u = a->up[at] > limit ? limit : a->up[at] < -limit ? -limit : a->up[at];
            a->y[at] = (float)(g / (1 + exp(-g)) * u * (a->has_w ? a->w[r] : 1.0f));
        }
    return HD_OK;
}
