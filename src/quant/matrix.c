#include "quant/matrix.h"

#include "quant/fp4.h"
#include "quant/fp8.h"

const char *hd_format_name(hd_format f)
{
    static const char *const names[HD_N_FORMATS] = {
        "none", "F32", "BF16", "FP8", "MXFP4", "NVFP4", "MXFP4 in tiles", "NVFP4 in tiles"};
    return (size_t)f < HD_N_FORMATS ? names[f] : "unknown";
}

hd_format hd_format_in_rows(hd_format f)
{
    if (f == HD_FMT_MXFP4_TILES) return HD_FMT_MXFP4;
    return f == HD_FMT_NVFP4_TILES ? HD_FMT_NVFP4 : f;
}

hd_format hd_format_in_tiles(hd_format f)
{
    if (f == HD_FMT_MXFP4) return HD_FMT_MXFP4_TILES;
    return f == HD_FMT_NVFP4 ? HD_FMT_NVFP4_TILES : f;
}

size_t hd_matrix_w_bytes(hd_format f, int32_t n, int32_t k)
{
    size_t const count = (size_t)n * (size_t)k;
    switch (hd_format_in_rows(f)) {
    case HD_FMT_F32: return count * 4;
    case HD_FMT_BF16: return count * 2;
    case HD_FMT_FP8: return count;
    case HD_FMT_MXFP4:
    case HD_FMT_NVFP4: return count / 2;
    case HD_FMT_MXFP4_TILES:
    case HD_FMT_NVFP4_TILES:
    case HD_FMT_NONE: break;
    }
    return 0;
}

int64_t hd_matrix_sf_rows(hd_format f, int64_t n)
{
    f = hd_format_in_rows(f);
    if (f == HD_FMT_FP8) return (n + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK;
    return f == HD_FMT_MXFP4 || f == HD_FMT_NVFP4 ? n : 0;
}

int64_t hd_matrix_sf_cols(hd_format f, int32_t k)
{
    switch (hd_format_in_rows(f)) {
    case HD_FMT_FP8: return ((int64_t)k + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK;
    case HD_FMT_MXFP4: return k / HD_MXFP4_BLOCK;
    case HD_FMT_NVFP4: return k / HD_NVFP4_BLOCK;
    case HD_FMT_F32:
    case HD_FMT_BF16:
    case HD_FMT_MXFP4_TILES:
    case HD_FMT_NVFP4_TILES:
    case HD_FMT_NONE: break;
    }
    return 0;
}

size_t hd_matrix_sf_bytes(hd_format f, int32_t n, int32_t k)
{
    size_t const count = (size_t)(hd_matrix_sf_rows(f, n) * hd_matrix_sf_cols(f, k));
    return f == HD_FMT_FP8 ? count * sizeof(float) : count;
}
