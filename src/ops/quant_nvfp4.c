#include "ops/quant_nvfp4.h"

#include "quant/fp4.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_quant_nvfp4_args *const a = args;
    int32_t                          n = 0;
    out[n++] = HD_OPERAND(quant_nvfp4, x, HD_IN, HD_F32, a->t, a->k);
    if (a->has_ids) out[n++] = HD_OPERAND(quant_nvfp4, ids, HD_IN, HD_I32, a->t, a->s);
    out[n++] = HD_OPERAND(quant_nvfp4, scale, HD_IN, HD_F32, a->e);
    out[n++] = HD_OPERAND(quant_nvfp4, y, HD_OUT, HD_F32, a->t, a->s, a->k);
    out[n++] = HD_OPERAND(quant_nvfp4, saturated, HD_OUT, HD_I32, a->t, a->s, HD_NVFP4_PARTS(a->k));
    if (!a->has_codes) return n;
    out[n++] = HD_OPERAND(quant_nvfp4, codes, HD_OUT, HD_U8, a->t, a->s, a->k / 2);
    out[n++] = HD_OPERAND(quant_nvfp4, sf, HD_OUT, HD_U8, a->t, a->s, a->k / HD_NVFP4_BLOCK);
    out[n++] = HD_OPERAND(quant_nvfp4, g, HD_OUT, HD_F32, a->t, a->s);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_quant_nvfp4_args *const a = args;
    if (a->k % 16) return "k % 16 == 0";
    if (!a->has_ids && a->s != 1) return "s is 1 without ids";
    return NULL;
}

const hd_op hd_op_quant_nvfp4 = {"quant_nvfp4", sizeof(hd_quant_nvfp4_args), describe, breaks, NULL,
                                 NULL};
