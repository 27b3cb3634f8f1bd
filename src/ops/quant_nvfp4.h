#ifndef HD_OPS_QUANT_NVFP4_H
#define HD_OPS_QUANT_NVFP4_H

#include "ops/op.h"

HD_BEGIN_C

/* quant_nvfp4: rounds activations to what NVFP4 can hold, one copy for each expert that a
 * token goes to.
 *
 *   over each block of 16:  sb = e4m3(amax / 6 / g) saturating at 448
 *   y[t,s] = e2m1(x[t] / (sb * g)) * sb * g          0 for the block when sb is 0
 *   g = scale[ids[t,s]]; without has_ids s is 1 and g = scale[0]
 *   g = 0 asks for a dynamic one: the row's amax / (6 * 448), 1 for a row of zeros
 *
 * With has_codes the same also as codes: y = e2m1(codes) * e4m3(sf) * g.
 *
 * numerics  exact: nearest, ties to even code
 * layout    codes two a byte along k, the low nibble first; saturations are counted for each
 *           HD_NVFP4_PART elements of a row, so that no count crosses the whole of it
 * special   a row of zeros gives zeros; a block with NaN or infinity stays what it is, as codes
 *           its scale is NaN
 * order     without has_ids scale may be read before what precedes in the stream has ended
 * limits    k % 16 == 0; scale finite, >= 0; 0 <= ids < e */
#define HD_NVFP4_PART     1024
#define HD_NVFP4_PARTS(k) ((k) / HD_NVFP4_PART + ((k) % HD_NVFP4_PART != 0))
typedef struct hd_quant_nvfp4_args {
    const float   *x;         /* [t, k]    in                                              */
    const int32_t *ids;       /* [t, s]    in   only when has_ids                           */
    const float   *scale;     /* [e]       in   global scales, amax / (6 * 448), or 0       */
    float         *y;         /* [t, s, k] out                                              */
    int32_t       *saturated; /* [t, s, parts] out  blocks whose scale was above 448        */
    int32_t        t, s, k, e;
    bool           has_ids, has_codes;
    uint8_t       *codes; /* [t, s, k/2]  out  only when has_codes                          */
    uint8_t       *sf;    /* [t, s, k/16] out  likewise                                     */
    float         *g;     /* [t, s]       out  likewise                                     */
} hd_quant_nvfp4_args;

HD_END_C
#endif
