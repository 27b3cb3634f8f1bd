#include "ops/hc_post.h"

#include <math.h>

#include "ops/op_errors.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_hc_post_args *const a = args;
    int32_t                      n = 0;
    out[n++] = HD_OPERAND(hc_post, y, HD_IN, HD_F32, a->t, a->d);
    out[n++] = HD_OPERAND(hc_post, post, HD_IN, HD_F32, a->t, a->m);
    out[n++] = HD_OPERAND(hc_post, comb, HD_IN, HD_F32, a->t, a->m, a->m);
    out[n++] = HD_OPERAND(hc_post, s, HD_INOUT, HD_F32, a->t, a->m, a->d);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_hc_post_args *const a = args;
    if (a->m < 1 || a->m > 8) return "1 <= m <= 8";
    return NULL;
}

/* Row t*m + j of s. */
static void allow(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    const hd_hc_post_args *const a = r->in;
    int64_t const                t = row / a->m, j = row % a->m;
    (void)o;
    for (int32_t c = 0; c < a->d; c++) {
        double sum = fabs((double)a->post[row] * a->y[t * a->d + c]);
        for (int32_t i = 0; i < a->m; i++)
            sum +=
                fabs((double)a->comb[(t * a->m + i) * a->m + j] * a->s[(t * a->m + i) * a->d + c]);
        allowed[c] = (a->m + 4) * HD_ROUNDOFF * sum;
    }
}

const hd_op hd_op_hc_post = {"hc_post", sizeof(hd_hc_post_args), describe, breaks, allow, NULL};
