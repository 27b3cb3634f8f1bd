#ifndef HD_OPS_X86_F32_ROWS_H
#define HD_OPS_X86_F32_ROWS_H

#include "ops/x86/dot.h"

/* Weights that are f32 already, for any vector width. */

INLINE group decode_f32(row_at at)
{
    group out;
    memcpy(out.v, at.w, sizeof out.v);
    out.scale = vec_zero();
    return out;
}

static const layout f32 = {GROUP * 4, 0, false, 1, decode_f32};

INLINE void keep_order(const float *x, float *out) { memcpy(out, x, GROUP * sizeof *x); }

#endif
