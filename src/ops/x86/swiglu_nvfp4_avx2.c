#include "ops/swiglu_nvfp4.h"

bool hd_swiglu_nvfp4_avx2_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_swiglu_nvfp4_avx2(const void *args, hd_stream *stream)
{
    hd_swiglu_args const      gating = hd_swiglu_nvfp4_gating(args);
    hd_quant_nvfp4_args const rounding = hd_swiglu_nvfp4_rounding(args);
    hd_status const           s = hd_swiglu_avx2(&gating, stream);
    return s == HD_OK ? hd_quant_nvfp4_avx2(&rounding, stream) : s;
}
