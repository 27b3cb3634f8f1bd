#include "ops/x86/codes_avx512.h"
#include "ops/x86/e2m1_avx512.h"

static inline group decode(row_at at)
{
    group out;
    decode_e2m1(at.w, out.v);
    out.scale = scales_spread(at.sf);
    return out;
}

static const layout nvfp4 = {GROUP / 2, GROUP / 16, true, E2M1_UNIT * 0x1p8f, decode};

F32_FORMAT(hd_product_nvfp4_avx512, true, nvfp4, arrange_e2m1);
