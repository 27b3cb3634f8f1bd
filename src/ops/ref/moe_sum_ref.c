#include "ops/moe_sum.h"

bool hd_moe_sum_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_moe_sum_ref(const void *args, hd_stream *stream)
{
    const hd_moe_sum_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++)
        for (int32_t c = 0; c < a->d; c++) {
            double sum = 0;
            for (int32_t s = 0; s < a->s; s++) {
                int64_t const slot = (int64_t)t * a->s + s;
                sum += (a->has_w ? (double)a->w[slot] : 1.0) * a->y[slot * a->d + c];
            }
            a->out[(int64_t)t * a->d + c] = (float)(sum + a->shared[(int64_t)t * a->d + c]);
        }
    return HD_OK;
}
