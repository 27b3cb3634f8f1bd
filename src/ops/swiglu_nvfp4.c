#include "ops/swiglu_nvfp4.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "ops/nvfp4_judge.h"
#include "ops/op_errors.h"
#include "quant/fp4.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_swiglu_nvfp4_args *const a = args;
    int32_t const                     parts = HD_NVFP4_PARTS(a->n);
    int32_t                           n = 0;
    if (a->is_paired) out[n++] = HD_OPERAND(swiglu_nvfp4, gate_up, HD_IN, HD_F32, a->r, 2, a->n);
    if (!a->is_paired) out[n++] = HD_OPERAND(swiglu_nvfp4, gate, HD_IN, HD_F32, a->r, a->n);
    if (!a->is_paired) out[n++] = HD_OPERAND(swiglu_nvfp4, up, HD_IN, HD_F32, a->r, a->n);
    if (a->has_ids) out[n++] = HD_OPERAND(swiglu_nvfp4, ids, HD_IN, HD_I32, a->r);
    out[n++] = HD_OPERAND(swiglu_nvfp4, scale, HD_IN, HD_F32, a->e);
    out[n++] = HD_OPERAND(swiglu_nvfp4, y, HD_OUT, HD_F32, a->r, a->n);
    out[n++] = HD_OPERAND(swiglu_nvfp4, rounded, HD_OUT, HD_F32, a->r, a->n);
    out[n++] = HD_OPERAND(swiglu_nvfp4, saturated, HD_OUT, HD_I32, a->r, parts);
    if (!a->has_codes) return n;
    out[n++] = HD_OPERAND(swiglu_nvfp4, codes, HD_OUT, HD_U8, a->r, a->n / 2);
    out[n++] = HD_OPERAND(swiglu_nvfp4, sf, HD_OUT, HD_U8, a->r, a->n / HD_NVFP4_BLOCK);
    out[n++] = HD_OPERAND(swiglu_nvfp4, g, HD_OUT, HD_F32, a->r);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_swiglu_nvfp4_args *const a = args;
    if (a->n % HD_NVFP4_BLOCK) return "n % 16 == 0";
    if (!(a->limit > 0)) return "limit > 0";
    return NULL;
}

hd_swiglu_args hd_swiglu_nvfp4_gating(const hd_swiglu_nvfp4_args *a)
{
    return (hd_swiglu_args){.gate = a->gate,
                            .up = a->up,
                            .y = a->y,
                            .r = a->r,
                            .n = a->n,
                            .limit = a->limit,
                            .is_paired = a->is_paired,
                            .gate_up = a->gate_up};
}

hd_quant_nvfp4_args hd_swiglu_nvfp4_rounding(const hd_swiglu_nvfp4_args *a)
{
    return (hd_quant_nvfp4_args){.x = a->y,
                                 .ids = a->ids,
                                 .scale = a->scale,
                                 .y = a->rounded,
                                 .saturated = a->saturated,
                                 .t = a->r,
                                 .s = 1,
                                 .k = a->n,
                                 .e = a->e,
                                 .has_ids = a->has_ids,
                                 .has_codes = a->has_codes,
                                 .codes = a->codes,
                                 .sf = a->sf,
                                 .g = a->g};
}

/* As swiglu allows. */
static bool judge_gating(const hd_op_runs *r, int64_t row, hd_op_verdict *v)
{
    const hd_swiglu_nvfp4_args *const want = r->ref, *const got = r->got;
    hd_swiglu_args const in = hd_swiglu_nvfp4_gating(r->in);
    const float *const   up = hd_swiglu_up(&in, row);
    for (int32_t i = 0; i < in.n; i++) {
        float const  y = got->y[row * in.n + i], ref = want->y[row * in.n + i];
        double const most = fmin(fabs((double)up[i]), (double)in.limit);
        double const allowed = 16 * HD_ROUNDOFF * fabs((double)ref) + 0x1p-119 * most;
        double const err = fabs((double)y - (double)ref);
        if ((isnan(y) && isnan(ref)) || (isinf(ref) && y == ref)) continue;
        if (!(err <= allowed)) {
            snprintf(v->why, sizeof v->why, "wrong y at %d, %.9g, wanted %.9g", i, (double)y,
                     (double)ref);
            return false;
        }
        if (allowed > 0 && err / allowed > v->worst) v->worst = err / allowed;
    }
    return true;
}

static bool judge(const hd_op_runs *r, int64_t row, hd_op_verdict *v)
{
    hd_quant_nvfp4_args const q = hd_swiglu_nvfp4_rounding(r->got);
    return judge_gating(r, row, v) && hd_nvfp4_judge_row(&q, row, v);
}

const hd_op hd_op_swiglu_nvfp4 = {
    "swiglu_nvfp4", sizeof(hd_swiglu_nvfp4_args), describe, breaks, NULL, judge};
