#include "ops/matrix_operands.h"

hd_operand hd_matrix_w_operand(hd_format f, size_t slot, int64_t n, int32_t k)
{
    bool const     is_four_bit = f == HD_FMT_MXFP4 || f == HD_FMT_NVFP4;
    hd_dtype const dtype = f == HD_FMT_F32 ? HD_F32 : f == HD_FMT_BF16 ? HD_BF16 : HD_U8;
    int64_t const  shape[] = {n, is_four_bit ? k / 2 : k};
    return hd_operand_make("w", HD_IN, dtype, slot, shape, 2);
}

hd_operand hd_matrix_sf_operand(hd_format f, size_t slot, int64_t n, int32_t k)
{
    int64_t const shape[] = {hd_matrix_sf_rows(f, n), hd_matrix_sf_cols(f, k)};
    return hd_operand_make("sf", HD_IN, f == HD_FMT_FP8 ? HD_F32 : HD_U8, slot, shape, 2);
}
