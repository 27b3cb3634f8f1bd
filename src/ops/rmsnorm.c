#include "ops/rmsnorm.h"

#include <math.h>

#include "ops/op_errors.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_rmsnorm_args *const a = args;
    int32_t                      n = 0;
    out[n++] = HD_OPERAND(rmsnorm, x, HD_IN, HD_F32, a->t, a->d);
    if (a->has_w) out[n++] = HD_OPERAND(rmsnorm, w, HD_IN, HD_F32, a->d);
    out[n++] = HD_OPERAND(rmsnorm, y, HD_OUT, HD_F32, a->t, a->d);
    return n;
}

/* The sum has no cancellation, so every element has a relative error. */
static void allow(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    const hd_rmsnorm_args *const a = r->ref;
    const float *const           y = a->y + row * a->d;
    (void)o;
    for (int32_t i = 0; i < a->d; i++) allowed[i] = hd_sum_error(a->d) * fabs((double)y[i]);
}

const hd_op hd_op_rmsnorm = {"rmsnorm", sizeof(hd_rmsnorm_args), describe, NULL, allow, NULL};
