#include "ops/add_streams.h"

bool hd_add_streams_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_add_streams_ref(const void *args, hd_stream *stream)
{
    const hd_add_streams_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++)
        for (int32_t i = 0; i < a->m; i++) {
            float *const s = a->s + ((int64_t)t * a->m + i) * a->d;
            for (int32_t c = 0; c < a->d; c++) s[c] += a->x[(int64_t)t * a->d + c];
        }
    return HD_OK;
}
