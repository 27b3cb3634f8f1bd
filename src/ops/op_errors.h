#ifndef HD_OPS_OP_ERRORS_H
#define HD_OPS_OP_ERRORS_H

#include "ops/op.h"

/* What the errors that ops allow (hd_op.allow) are derived from. */

HD_BEGIN_C

/* Unit roundoff of f32. */
#define HD_ROUNDOFF 0x1p-24
/* Relative error of a sum of k terms against the sum of their magnitudes: f32 in eight lanes
 * or more, and a few roundings to make the terms and to join the lanes. */
static inline double hd_sum_error(int64_t k) { return ((double)k / 8 + 16) * HD_ROUNDOFF; }
/* The sum of |v[i]|. */
double hd_magnitude(const float *v, int64_t n);
/* Whether `o` is the operand of this name. */
bool hd_operand_is(const hd_operand *o, const char *name);

/* One token of hc_pre or hc_head, which mix m streams alike. */
typedef struct hd_stream_mix {
    const float *s, *fn; /* [m, d], [.., m * d] */
    int32_t      m, d;
    double       eps;
} hd_stream_mix;
/* Error of z[i] in f32: that of its dot product over the root mean square. */
double hd_mix_error(const hd_stream_mix *x, int64_t i);
/* The largest of n of them. */
double hd_mix_largest_error(const hd_stream_mix *x, int32_t first, int32_t n);
/* Limits of the mixed row [d]; gain is the factor of z in the sigmoid. */
void hd_mix_allow(const hd_stream_mix *x, double gain, double *allowed);

HD_END_C
#endif
