#ifndef HD_OPS_RMSNORM_NVFP4_H
#define HD_OPS_RMSNORM_NVFP4_H

#include "ops/quant_nvfp4.h"
#include "ops/rmsnorm.h"

HD_BEGIN_C

/* rmsnorm_nvfp4: normalises rows and rounds them to NVFP4 for the products that read them, each
 * with a scale of its own.
 *
 *   y = rmsnorm(x, w)                               as in ops/rmsnorm.h
 *   rounded[i] = quant_nvfp4(y, scale[i])           as in ops/quant_nvfp4.h, without ids; so
 *                                                   are saturated, codes, sf, g
 *
 * numerics  y as rmsnorm; the rest exactly what quant_nvfp4 makes of that y
 * aliasing  none
 * special   as in the two
 * order     w and the scales may be read before what precedes in the stream has ended
 * limits    d % 16 == 0; 1 <= c <= HD_NORM_COPIES; scales finite, >= 0 */
#define HD_NORM_COPIES 4
typedef struct hd_rmsnorm_nvfp4_args {
    const float *x;                     /* [t, d] in                                   */
    const float *w;                     /* [d]    in   only when has_w                 */
    const float *scale[HD_NORM_COPIES]; /* [1]    in   each of the first c             */
    float       *y;                     /* [t, d] out                                  */
    float       *rounded;               /* [c, t, d] out                               */
    int32_t     *saturated;             /* [c, t, parts] out                           */
    uint8_t     *codes;                 /* [c, t, d/2]   out  only when has_codes      */
    uint8_t     *sf;                    /* [c, t, d/16]  out  likewise                 */
    float       *g;                     /* [c, t]        out  likewise                 */
    int32_t      t, d, c;
    float        eps; /* added to the mean square, > 0 */
    bool         has_w, has_codes;
} hd_rmsnorm_nvfp4_args;

/* The two ops that it stands for: the norm, and the rounding of copy i. */
hd_rmsnorm_args     hd_rmsnorm_nvfp4_norm(const hd_rmsnorm_nvfp4_args *a);
hd_quant_nvfp4_args hd_rmsnorm_nvfp4_rounding(const hd_rmsnorm_nvfp4_args *a, int32_t i);

HD_END_C
#endif
