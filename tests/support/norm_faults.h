#ifndef HD_TESTS_NORM_FAULTS_H
#define HD_TESTS_NORM_FAULTS_H

#include "ops/rmsnorm.h"

/* Norms that are wrong in ways which a check of kernels must see. */

static bool takes_all(const void *args)
{
    (void)args;
    return true;
}

/* One element by less than any row would show. */
static hd_status round_badly(const void *args, hd_stream *stream)
{
    const hd_rmsnorm_args *const a = args;
    hd_status const              s = hd_rmsnorm_ref(args, stream);
    a->y[2 * a->d + 9] *= 1 + 1e-5f;
    return s;
}

static int n_calls;

/* Other values at each call. */
static hd_status drift(const void *args, hd_stream *stream)
{
    const hd_rmsnorm_args *const a = args;
    hd_status const              s = hd_rmsnorm_ref(args, stream);
    a->y[7] *= 1 + 1e-6f * (float)n_calls++;
    return s;
}

#endif
