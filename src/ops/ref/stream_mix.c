#include "ops/ref/stream_mix.h"

#include <math.h>

double hd_sigmoid(double x) { return 1 / (1 + exp(-x)); }

void hd_mix_streams(const hd_stream_mix *mix, int32_t n, double *z)
{
    int64_t const width = (int64_t)mix->m * mix->d;
    double        square = 0;
    for (int64_t c = 0; c < width; c++) square += (double)mix->s[c] * mix->s[c];
    double const r = 1 / sqrt(square / (double)width + mix->eps);
    for (int32_t i = 0; i < n; i++) {
        const float *const fn = mix->fn + i * width;
        double             lane[4] = {0};
        for (int64_t c = 0; c < width; c++) lane[c & 3] += (double)fn[c] * mix->s[c];
        z[i] = (lane[0] + lane[1] + lane[2] + lane[3]) * r;
    }
}

void hd_weigh_streams(const hd_stream_mix *mix, const double *weight, float *x)
{
    for (int32_t c = 0; c < mix->d; c++) {
        double sum = 0;
        for (int32_t i = 0; i < mix->m; i++) sum += weight[i] * mix->s[(int64_t)i * mix->d + c];
        x[c] = (float)sum;
    }
}
