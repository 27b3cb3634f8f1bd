#ifndef HD_OPS_REF_STREAM_MIX_H
#define HD_OPS_REF_STREAM_MIX_H

#include "base/status.h"

/* What hc_pre and hc_head share. */

HD_BEGIN_C

typedef struct hd_stream_mix {
    const float *s;  /* [m, d]   the streams of one token */
    const float *fn; /* [n, m*d] */
    int32_t      m, d;
    double       eps;
} hd_stream_mix;

double hd_sigmoid(double x);
/* z[i] = (fn[i] . flatten(s)) / sqrt(mean(s^2) + eps)   for i < n */
void hd_mix_streams(const hd_stream_mix *mix, int32_t n, double *z);
/* x[c] = sum_i weight[i] * s[i,c] */
void hd_weigh_streams(const hd_stream_mix *mix, const double *weight, float *x);

HD_END_C
#endif
