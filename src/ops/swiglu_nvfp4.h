#ifndef HD_OPS_SWIGLU_NVFP4_H
#define HD_OPS_SWIGLU_NVFP4_H

#include "ops/quant_nvfp4.h"
#include "ops/swiglu.h"

HD_BEGIN_C

/* swiglu_nvfp4: gates one half of an expert by the other and rounds the result to NVFP4 for the
 * product that reads it.
 *
 *   y = swiglu(gate, up)                            as in ops/swiglu.h, without w
 *   rounded = quant_nvfp4(y, scale)                 as in ops/quant_nvfp4.h, one slot a row; so
 *                                                   are saturated, codes, sf, g
 *
 * numerics  y as swiglu; the rest exactly what quant_nvfp4 makes of that y
 * aliasing  none
 * special   as in the two
 * order     without has_ids scale may be read before what precedes in the stream has ended
 * limits    as in the two: n % 16 == 0; limit > 0; scale finite, >= 0; 0 <= ids < e */
typedef struct hd_swiglu_nvfp4_args {
    const float   *gate;      /* [r, n]     in   unless is_paired                        */
    const float   *up;        /* [r, n]     in   likewise                                */
    const float   *gate_up;   /* [r, 2, n]  in   only when is_paired                     */
    const int32_t *ids;       /* [r]        in   only when has_ids                       */
    const float   *scale;     /* [e]        in                                           */
    float         *y;         /* [r, n]     out                                          */
    float         *rounded;   /* [r, n]     out                                          */
    int32_t       *saturated; /* [r, parts] out                                          */
    uint8_t       *codes;     /* [r, n/2]   out  only when has_codes                     */
    uint8_t       *sf;        /* [r, n/16]  out  likewise                                */
    float         *g;         /* [r]        out  likewise                                */
    int32_t        r, n, e;
    float          limit;
    bool           is_paired, has_ids, has_codes;
} hd_swiglu_nvfp4_args;

/* The two ops that it stands for. */
hd_swiglu_args      hd_swiglu_nvfp4_gating(const hd_swiglu_nvfp4_args *a);
hd_quant_nvfp4_args hd_swiglu_nvfp4_rounding(const hd_swiglu_nvfp4_args *a);

HD_END_C
#endif
