#ifndef HD_OPS_REF_DECODE_ROW_H
#define HD_OPS_REF_DECODE_ROW_H

#include "base/status.h"
#include "ops/gemm.h"
#include "ops/grouped_gemm.h"

/* Row decoders and product loops that gemm_<format> and grouped_gemm_<format> share. */

HD_BEGIN_C

typedef struct hd_ref_matrix {
    const void  *w, *sf; /* layouts in ops/gemm.h */
    int32_t      k;
    const float *scale; /* NVFP4's tensor scale, read for it alone */
} hd_ref_matrix;

/* Decodes elements [k0, k0 + n) of one row; k0 is a multiple of every block size. */
typedef void hd_decode_fn(const hd_ref_matrix *m, int64_t row, int32_t k0, int32_t n, double *out);
hd_decode_fn hd_decode_f32, hd_decode_bf16, hd_decode_fp8, hd_decode_mxfp4, hd_decode_nvfp4,
    hd_decode_mxfp4_tiles, hd_decode_nvfp4_tiles;

/* The whole op for a format given by its decoder. */
hd_status hd_gemm_by_rows(const hd_gemm_args *a, hd_decode_fn *decode);
hd_status hd_grouped_gemm_by_rows(const hd_grouped_gemm_args *a, hd_decode_fn *decode);

HD_END_C
#endif
