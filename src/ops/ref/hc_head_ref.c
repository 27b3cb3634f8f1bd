#include "ops/hc_head.h"
#include "ops/hc_pre.h"
#include "ops/ref/stream_mix.h"

bool hd_hc_head_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_hc_head_ref(const void *args, hd_stream *stream)
{
    const hd_hc_head_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++) {
        double              z[HD_HC_MAX_STREAMS];
        hd_stream_mix const mix = {a->s + (int64_t)t * a->m * a->d, a->fn, a->m, a->d, a->eps};
        hd_mix_streams(&mix, a->m, z);
        for (int32_t i = 0; i < a->m; i++)
            z[i] = hd_sigmoid(z[i] * a->scale[0] + a->base[i]) + a->hc_eps;
        hd_weigh_streams(&mix, z, a->x + (int64_t)t * a->d);
    }
    return HD_OK;
}
