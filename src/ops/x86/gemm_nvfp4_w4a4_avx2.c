#include "ops/op.h"
#include "ops/x86/product.h"

bool hd_gemm_nvfp4_w4a4_avx2_supports(const void *args)
{
    const hd_gemm_args *const a = args;
    return a->has_codes;
}

hd_status hd_gemm_nvfp4_w4a4_avx2(const void *args, hd_stream *stream)
{
    return hd_product_gemm(args, stream, &hd_product_nvfp4_w4a4_avx2);
}
