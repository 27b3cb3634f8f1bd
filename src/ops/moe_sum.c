#include "ops/moe_sum.h"

#include <math.h>

#include "ops/op_errors.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_moe_sum_args *const a = args;
    int32_t                      n = 0;
    out[n++] = HD_OPERAND(moe_sum, y, HD_IN, HD_F32, a->t, a->s, a->d);
    if (a->has_w) out[n++] = HD_OPERAND(moe_sum, w, HD_IN, HD_F32, a->t, a->s);
    out[n++] = HD_OPERAND(moe_sum, shared, HD_IN, HD_F32, a->t, a->d);
    out[n++] = HD_OPERAND(moe_sum, out, HD_OUT, HD_F32, a->t, a->d);
    return n;
}

static void allow(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    const hd_moe_sum_args *const a = r->in;
    (void)o;
    for (int32_t c = 0; c < a->d; c++) {
        double sum = fabs((double)a->shared[row * a->d + c]);
        for (int32_t s = 0; s < a->s; s++) {
            double const w = a->has_w ? a->w[row * a->s + s] : 1;
            sum += fabs(w * a->y[(row * a->s + s) * a->d + c]);
        }
        allowed[c] = (a->s + 4) * HD_ROUNDOFF * sum;
    }
}

const hd_op hd_op_moe_sum = {"moe_sum", sizeof(hd_moe_sum_args), describe, NULL, allow, NULL};
