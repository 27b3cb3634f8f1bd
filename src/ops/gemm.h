#ifndef HD_OPS_GEMM_H
#define HD_OPS_GEMM_H

#include "ops/op.h"

HD_BEGIN_C

/* gemm_<format>: multiplies activations by a weight matrix, or by g matrices side by side.
 *
 *   y[t, q*n + i] = sum_j W[q*n + i, j] * x[t, q*k + j]        for each group q < g
 *
 * W[i,j], by the format in the op's name:
 *   f32     w[i,j]
 *   bf16    w[i,j]
 *   fp8     e4m3(w[i,j]) * sf[i/128, j/128]
 *   mxfp4   e2m1(w[i,j]) * 2^(sf[i, j/32] - 127)
 *   nvfp4   e2m1(w[i,j]) * e4m3(sf[i, j/16]) * w_scale
 *   mxfp4_tiles, nvfp4_tiles   the same, w and sf moved as quant/tiles.h says
 *
 * With has_codes x has been rounded to NVFP4 and is there twice, as floats and as codes:
 *
 *   x[t,j] = e2m1(x_codes[t,j]) * e4m3(x_sf[t, j/16]) * x_scale[t]        j < g*k
 *
 * A kernel reads either.  Codes times codes are whole numbers, exact in integers.
 *
 * layout    four-bit codes two a byte along k, the low nibble first
 * numerics  products and sums in f32 or wider, any order; one rounding at y; a row of y
 *           depends on its row of x alone, whatever t is among those that a kernel takes.
 *           An element of x (fp8: times its block's scale) or of W may be off by 2^-124, so
 *           that numbers near the smallest of f32 need no care
 * aliasing  none
 * special   with has_codes a block of x that has a NaN or infinity is NaN altogether
 * order     w, sf and w_scale may be read before what precedes in the stream has ended: a GPU loads
 *           weights while the kernel before ends
 * limits    k % 32 == 0 for mxfp4, k % 16 == 0 for nvfp4, n % 32 == 0 and k % 64 == 0 for tiles; w
 *           and sf hold no NaN code */
typedef struct hd_gemm_args {
    const float *x;   /* [t, g*k]                                         in              */
    const void  *w;   /* [g*n, k] f32, bf16 or e4m3 bytes; [g*n, k/2] four-bit     in      */
    const void  *sf;  /* fp8 [(g*n+127)/128, (k+127)/128] f32; mxfp4 [g*n, k/32] e8m0;
                         nvfp4 [g*n, k/16] e4m3; none for f32 and bf16    in              */
    float         *y; /* [t, g*n]                                         out             */
    int32_t        t, n, k, g;
    float          w_scale;   /* nvfp4: one for the tensor */
    bool           has_codes; /* nvfp4 only                                                       */
    const uint8_t *x_codes; /* [t, g*k/2]                                in   only when has_codes */
    const uint8_t *x_sf;    /* [t, g*k/16] e4m3                          in   likewise            */
    const float   *x_scale; /* [t]                                       in   likewise            */
} hd_gemm_args;

typedef hd_gemm_args hd_gemm_f32_args;
typedef hd_gemm_args hd_gemm_bf16_args;
typedef hd_gemm_args hd_gemm_fp8_args;
typedef hd_gemm_args hd_gemm_mxfp4_args;
typedef hd_gemm_args hd_gemm_nvfp4_args;
typedef hd_gemm_args hd_gemm_mxfp4_tiles_args;
typedef hd_gemm_args hd_gemm_nvfp4_tiles_args;

HD_END_C
#endif
