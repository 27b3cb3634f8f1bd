#include "ops/quant_fp8.h"

#include "quant/bf16.h"
#include "quant/fp8.h"

bool hd_quant_fp8_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_quant_fp8_ref(const void *args, hd_stream *stream)
{
    const hd_quant_fp8_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++) {
        const float *const x = a->x + (int64_t)t * a->k;
        float *const       y = a->y + (int64_t)t * a->k;
        for (int32_t c = 0; c < a->k - a->tail; c += a->block) hd_fp8_round(x + c, y + c, a->block);
        for (int32_t c = a->k - a->tail; c < a->k; c++) y[c] = hd_bf16_to_f32(hd_f32_to_bf16(x[c]));
    }
    return HD_OK;
}
