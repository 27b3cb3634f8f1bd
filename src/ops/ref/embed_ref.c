#include "ops/embed.h"

#include "quant/bf16.h"

bool hd_embed_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_embed_ref(const void *args, hd_stream *stream)
{
    const hd_embed_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++)
        for (int32_t i = 0; i < a->m; i++) {
            int64_t const from = (int64_t)a->id[t] * a->d;
            float *const  y = a->y + ((int64_t)t * a->m + i) * a->d;
            for (int32_t c = 0; c < a->d; c++)
                y[c] = a->is_f32 ? ((const float *)a->table)[from + c]
                                 : hd_bf16_to_f32(((const uint16_t *)a->table)[from + c]);
        }
    return HD_OK;
}
