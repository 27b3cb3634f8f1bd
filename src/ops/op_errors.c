#include "ops/op_errors.h"

#include <math.h>
#include <string.h>

double hd_magnitude(const float *v, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += fabs((double)v[i]);
    return sum;
}

bool hd_operand_is(const hd_operand *o, const char *name) { return strcmp(o->name, name) == 0; }

double hd_mix_error(const hd_stream_mix *x, int64_t i)
{
    int64_t const      n = (int64_t)x->m * x->d;
    const float *const fn = x->fn + i * n;
    double             dot = 0, square = 0;
    for (int64_t c = 0; c < n; c++) {
        dot += fabs((double)fn[c] * x->s[c]);
        square += (double)x->s[c] * x->s[c];
    }
    return 2 * hd_sum_error(n) * dot / sqrt(square / (double)n + x->eps);
}

double hd_mix_largest_error(const hd_stream_mix *x, int32_t first, int32_t n)
{
    double largest = 0;
    for (int32_t i = first; i < first + n; i++) largest = fmax(largest, hd_mix_error(x, i));
    return largest;
}

/* A sigmoid is at most 1, its slope at most 1/4. */
void hd_mix_allow(const hd_stream_mix *x, double gain, double *allowed)
{
    double const pre = hd_mix_largest_error(x, 0, x->m) * gain / 4 + 16 * HD_ROUNDOFF;
    for (int32_t c = 0; c < x->d; c++) {
        double sum = 0;
        for (int32_t i = 0; i < x->m; i++) sum += fabs((double)x->s[(int64_t)i * x->d + c]);
        allowed[c] = (pre + (x->m + 4) * HD_ROUNDOFF) * sum;
    }
}
