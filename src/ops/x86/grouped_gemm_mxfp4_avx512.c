#include "ops/op.h"
#include "ops/x86/product.h"

bool hd_grouped_gemm_mxfp4_avx512_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_grouped_gemm_mxfp4_avx512(const void *args, hd_stream *stream)
{
    return hd_product_grouped(args, stream, &hd_product_mxfp4_avx512);
}
