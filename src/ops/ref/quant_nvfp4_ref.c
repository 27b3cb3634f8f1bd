#include "ops/quant_nvfp4.h"

#include <math.h>

#include "quant/fp4.h"

/* The scale that lets the row's largest magnitude just fit. */
static float dynamic_scale(const float *x, int32_t k)
{
    float amax = 0;
    for (int32_t c = 0; c < k; c++)
        if (isfinite(x[c]) && fabsf(x[c]) > amax) amax = fabsf(x[c]);
    float const scale = hd_nvfp4_scale(amax);
    return scale > 0 ? scale : 1;
}

static void round_parts(const hd_quant_nvfp4_args *a, const float *x, int64_t slot, float scale)
{
    int32_t const parts = HD_NVFP4_PARTS(a->k);
    for (int32_t p = 0; p < parts; p++) {
        int32_t const at = p * HD_NVFP4_PART, left = a->k - at;
        a->saturated[slot * parts + p] = hd_nvfp4_round(
            x + at, a->y + slot * a->k + at, left < HD_NVFP4_PART ? left : HD_NVFP4_PART, scale);
    }
}

static void write_codes(const hd_quant_nvfp4_args *a, const float *x, int64_t slot, float scale)
{
    hd_nvfp4_encode(x, a->k, scale, a->codes + slot * (a->k / 2),
                    a->sf + slot * (a->k / HD_NVFP4_BLOCK));
    a->g[slot] = scale;
}

bool hd_quant_nvfp4_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_quant_nvfp4_ref(const void *args, hd_stream *stream)
{
    const hd_quant_nvfp4_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++) {
        const float *const x = a->x + (int64_t)t * a->k;
        for (int32_t s = 0; s < a->s; s++) {
            int64_t const slot = (int64_t)t * a->s + s;
            float const   fixed = a->scale[a->has_ids ? a->ids[slot] : 0];
            float const   scale = fixed > 0 ? fixed : dynamic_scale(x, a->k);
            round_parts(a, x, slot, scale);
            if (a->has_codes) write_codes(a, x, slot, scale);
        }
    }
    return HD_OK;
}
