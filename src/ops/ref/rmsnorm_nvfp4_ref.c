#include "ops/rmsnorm_nvfp4.h"

bool hd_rmsnorm_nvfp4_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_rmsnorm_nvfp4_ref(const void *args, hd_stream *stream)
{
    const hd_rmsnorm_nvfp4_args *const a = args;
    hd_rmsnorm_args const              norm = hd_rmsnorm_nvfp4_norm(a);
    hd_status                          s = hd_rmsnorm_ref(&norm, stream);
    for (int32_t i = 0; s == HD_OK && i < a->c; i++) {
        hd_quant_nvfp4_args const rounding = hd_rmsnorm_nvfp4_rounding(a, i);
        s = hd_quant_nvfp4_ref(&rounding, stream);
    }
    return s;
}
