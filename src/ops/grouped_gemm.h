#ifndef HD_OPS_GROUPED_GEMM_H
#define HD_OPS_GROUPED_GEMM_H

#include "ops/op.h"

HD_BEGIN_C

/* grouped_gemm_<format>: multiplies each token by the matrices of the experts it goes to.
 *
 *   y[t,s,i] = sum_j W_e[i,j] * x[t, s % xs, j]      e = ids[t,s]
 *
 * xs = 1: the slots of a token share its input; xs = s: each slot has its own.
 * W_e, formats, layout, numerics and codes of x as in ops/gemm.h; every expert has its own w_scale.
 *
 * aliasing  none
 * limits    as in ops/gemm.h; 0 <= ids < e; xs is 1 or s */
typedef struct hd_grouped_gemm_args {
    const float       *x;       /* [t, xs, k] in                                             */
    const int32_t     *ids;     /* [t, s]     in                                             */
    const void *const *w;       /* [e] pointers to matrices as in ops/gemm.h            in   */
    const void *const *sf;      /* [e] pointers to scales as there; none for f32, bf16  in   */
    const float       *w_scale; /* [e]        in   nvfp4 only                                */
    float             *y;       /* [t, s, n]  out                                            */
    int32_t            t, s, xs, n, k, e;
    bool               has_codes; /* nvfp4 only                                              */
    const uint8_t     *x_codes;   /* [t, xs, k/2]   in   only when has_codes                 */
    const uint8_t     *x_sf;      /* [t, xs, k/16]  in   likewise                            */
    const float       *x_scale;   /* [t, xs]        in   likewise                            */
} hd_grouped_gemm_args;

typedef hd_grouped_gemm_args hd_grouped_gemm_f32_args;
typedef hd_grouped_gemm_args hd_grouped_gemm_bf16_args;
typedef hd_grouped_gemm_args hd_grouped_gemm_fp8_args;
typedef hd_grouped_gemm_args hd_grouped_gemm_mxfp4_args;
typedef hd_grouped_gemm_args hd_grouped_gemm_nvfp4_args;
typedef hd_grouped_gemm_args hd_grouped_gemm_mxfp4_tiles_args;
typedef hd_grouped_gemm_args hd_grouped_gemm_nvfp4_tiles_args;

HD_END_C
#endif
