#include "ops/hadamard.h"

#include <math.h>

#include "ops/op_errors.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_hadamard_args *const a = args;
    int32_t                       n = 0;
    out[n++] = HD_OPERAND(hadamard, x, HD_INOUT, HD_F32, a->t, a->k);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_hadamard_args *const a = args;
    if (a->k < 1 || a->k > 4096 || (a->k & (a->k - 1))) return "k a power of two, at most 4096";
    return NULL;
}

static void allow(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    const hd_hadamard_args *const a = r->in;
    double const                  sum = hd_magnitude(a->x + row * a->k, a->k) / sqrt((double)a->k);
    (void)o;
    for (int32_t i = 0; i < a->k; i++) allowed[i] = hd_sum_error(a->k) * sum;
}

const hd_op hd_op_hadamard = {"hadamard", sizeof(hd_hadamard_args), describe, breaks, allow, NULL};
