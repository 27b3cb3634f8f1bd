#include "ops/op.h"
#include "ops/x86/product.h"

bool hd_gemm_f32_avx512_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_gemm_f32_avx512(const void *args, hd_stream *stream)
{
    return hd_product_gemm(args, stream, &hd_product_f32_avx512);
}
