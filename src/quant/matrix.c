#include "quant/matrix.h"

#include "quant/fp4.h"
#include "quant/fp8.h"

const char *hd_format_name(hd_format f)
{
    static const char *const names[HD_N_FORMATS] = {"none", "F32", "BF16", "FP8", "MXFP4", "NVFP4"};
    return (size_t)f < HD_N_FORMATS ? names[f] : "unknown";
}

size_t hd_matrix_w_bytes(hd_format f, int32_t n, int32_t k)
{
    size_t const count = (size_t)n * (size_t)k;
    switch (f) {
    case HD_FMT_F32: return count * 4;
    case HD_FMT_BF16: return count * 2;
    case HD_FMT_FP8: return count;
    case HD_FMT_MXFP4:
    case HD_FMT_NVFP4: return count / 2;
    case HD_FMT_NONE: break;
    }
    return 0;
}

int64_t hd_matrix_sf_rows(hd_format f, int64_t n)
{
    if (f == HD_FMT_FP8) return (n + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK;
    return f == HD_FMT_MXFP4 || f == HD_FMT_NVFP4 ? n : 0;
}

int64_t hd_matrix_sf_cols(hd_format f, int32_t k)
{
    switch (f) {
    case HD_FMT_FP8: return ((int64_t)k + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK;
    case HD_FMT_MXFP4: return k / HD_MXFP4_BLOCK;
    case HD_FMT_NVFP4: return k / HD_NVFP4_BLOCK;
    case HD_FMT_F32:
    case HD_FMT_BF16:
    case HD_FMT_NONE: break;
    }
    return 0;
}

size_t hd_matrix_sf_bytes(hd_format f, int32_t n, int32_t k)
{
    size_t const count = (size_t)(hd_matrix_sf_rows(f, n) * hd_matrix_sf_cols(f, k));
    return f == HD_FMT_FP8 ? count * sizeof(float) : count;
}
