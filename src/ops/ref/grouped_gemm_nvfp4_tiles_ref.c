#include "ops/op.h"
#include "ops/ref/decode_row.h"

bool hd_grouped_gemm_nvfp4_tiles_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_grouped_gemm_nvfp4_tiles_ref(const void *args, hd_stream *stream)
{
    (void)stream;
    return hd_grouped_gemm_by_rows(args, hd_decode_nvfp4_tiles);
}
