#include "ops/rmsnorm_nvfp4.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "ops/nvfp4_judge.h"
#include "ops/op_errors.h"
#include "quant/fp4.h"

static int32_t describe_scales(const hd_rmsnorm_nvfp4_args *a, hd_operand *out)
{
    static const char *const names[HD_NORM_COPIES] = {"scale0", "scale1", "scale2", "scale3"};
    for (int32_t i = 0; i < a->c; i++)
        out[i] =
            hd_operand_make(names[i], HD_IN, HD_F32,
                            offsetof(hd_rmsnorm_nvfp4_args, scale) + (size_t)i * sizeof a->scale[0],
                            (const int64_t[]){1}, 1);
    return a->c;
}

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_rmsnorm_nvfp4_args *const a = args;
    int32_t const                      parts = HD_NVFP4_PARTS(a->d);
    int32_t                            n = 0;
    out[n++] = HD_OPERAND(rmsnorm_nvfp4, x, HD_IN, HD_F32, a->t, a->d);
    if (a->has_w) out[n++] = HD_OPERAND(rmsnorm_nvfp4, w, HD_IN, HD_F32, a->d);
    n += describe_scales(a, out + n);
    out[n++] = HD_OPERAND(rmsnorm_nvfp4, y, HD_OUT, HD_F32, a->t, a->d);
    out[n++] = HD_OPERAND(rmsnorm_nvfp4, rounded, HD_OUT, HD_F32, a->c, a->t, a->d);
    out[n++] = HD_OPERAND(rmsnorm_nvfp4, saturated, HD_OUT, HD_I32, a->c, a->t, parts);
    if (!a->has_codes) return n;
    out[n++] = HD_OPERAND(rmsnorm_nvfp4, codes, HD_OUT, HD_U8, a->c, a->t, a->d / 2);
    out[n++] = HD_OPERAND(rmsnorm_nvfp4, sf, HD_OUT, HD_U8, a->c, a->t, a->d / HD_NVFP4_BLOCK);
    out[n++] = HD_OPERAND(rmsnorm_nvfp4, g, HD_OUT, HD_F32, a->c, a->t);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_rmsnorm_nvfp4_args *const a = args;
    if (a->d % HD_NVFP4_BLOCK) return "d % 16 == 0";
    if (a->c < 1 || a->c > HD_NORM_COPIES) return "1 <= c <= 4";
    return NULL;
}

hd_rmsnorm_args hd_rmsnorm_nvfp4_norm(const hd_rmsnorm_nvfp4_args *a)
{
    return (hd_rmsnorm_args){
        .x = a->x, .w = a->w, .y = a->y, .t = a->t, .d = a->d, .eps = a->eps, .has_w = a->has_w};
}

hd_quant_nvfp4_args hd_rmsnorm_nvfp4_rounding(const hd_rmsnorm_nvfp4_args *a, int32_t i)
{
    int64_t const       rows = (int64_t)i * a->t;
    hd_quant_nvfp4_args q = {.x = a->y,
                             .scale = a->scale[i],
                             .y = a->rounded + rows * a->d,
                             .saturated = a->saturated + rows * HD_NVFP4_PARTS(a->d),
                             .t = a->t,
                             .s = 1,
                             .k = a->d,
                             .e = 1,
                             .has_codes = a->has_codes};
    if (!a->has_codes) return q;
    q.codes = a->codes + rows * (a->d / 2);
    q.sf = a->sf + rows * (a->d / HD_NVFP4_BLOCK);
    q.g = a->g + rows;
    return q;
}

/* ---- judging ---- */

static bool reject(hd_op_verdict *v, const char *what, int64_t at, double got)
{
    snprintf(v->why, sizeof v->why, "%s at %" PRId64 ", %.9g", what, at, got);
    return false;
}

static bool judge_norm(const float *want, const float *got, int32_t d, hd_op_verdict *v)
{
    for (int32_t i = 0; i < d; i++) {
        double const allowed = hd_sum_error(d) * fabs((double)want[i]) + HD_ABSOLUTE_SLACK;
        double const err = fabs((double)got[i] - (double)want[i]);
        if (isnan(want[i]) && isnan(got[i])) continue;
        if (isinf(want[i]) && want[i] == got[i]) continue;
        if (!(err <= allowed)) return reject(v, "wrong y", i, (double)got[i]);
        if (err / allowed > v->worst) v->worst = err / allowed;
    }
    return true;
}

static bool judge(const hd_op_runs *r, int64_t row, hd_op_verdict *v)
{
    const hd_rmsnorm_nvfp4_args *const want = r->ref, *const got = r->got;
    int64_t const at = row * got->d;
    if (!judge_norm(want->y + at, got->y + at, got->d, v)) return false;
    for (int32_t i = 0; i < got->c; i++) {
        hd_quant_nvfp4_args const q = hd_rmsnorm_nvfp4_rounding(got, i);
        if (!hd_nvfp4_judge_row(&q, row, v)) return false;
    }
    return true;
}

const hd_op hd_op_rmsnorm_nvfp4 = {
    "rmsnorm_nvfp4", sizeof(hd_rmsnorm_nvfp4_args), describe, breaks, NULL, judge};
