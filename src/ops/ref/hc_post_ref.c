#include "ops/hc_post.h"
#include "ops/hc_pre.h"

bool hd_hc_post_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_hc_post_ref(const void *args, hd_stream *stream)
{
    const hd_hc_post_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++) {
        const float *const comb = a->comb + (int64_t)t * a->m * a->m;
        for (int32_t c = 0; c < a->d; c++) {
            float *const s = a->s + (int64_t)t * a->m * a->d + c;
            double       next[HD_HC_MAX_STREAMS];
            for (int32_t j = 0; j < a->m; j++) {
                next[j] = (double)a->post[(int64_t)t * a->m + j] * a->y[(int64_t)t * a->d + c];
                for (int32_t i = 0; i < a->m; i++)
                    next[j] += (double)comb[i * a->m + j] * s[(int64_t)i * a->d];
            }
            for (int32_t j = 0; j < a->m; j++) s[(int64_t)j * a->d] = (float)next[j];
        }
    }
    return HD_OK;
}
