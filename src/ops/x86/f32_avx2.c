#include "ops/x86/dot.h"

static inline group decode(row_at at)
{
    group out;
    memcpy(&out, at.w, sizeof out);
    return out;
}

static const layout f32 = {HD_PRODUCT_GROUP * 4, 0, decode};

static inline void keep_order(const float *x, float *out)
{
    memcpy(out, x, HD_PRODUCT_GROUP * sizeof *x);
}

F32_FORMAT(hd_product_f32_avx2, false, f32, keep_order);
