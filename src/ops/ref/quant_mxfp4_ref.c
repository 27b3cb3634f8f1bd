#include "ops/quant_mxfp4.h"

#include "quant/fp4.h"

bool hd_quant_mxfp4_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_quant_mxfp4_ref(const void *args, hd_stream *stream)
{
    const hd_quant_mxfp4_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++)
        hd_mxfp4_round(a->x + (int64_t)t * a->k, a->y + (int64_t)t * a->k, a->k);
    return HD_OK;
}
