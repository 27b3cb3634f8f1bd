#include "ops/hc_pre.h"

#include <math.h>

#include "ops/ref/stream_mix.h"

static void softmax_rows(double *c, int32_t m, double eps)
{
    for (int32_t i = 0; i < m; i++) {
        double *const row = c + i * m;
        double        largest = row[0], sum = 0;
        for (int32_t j = 1; j < m; j++)
            if (row[j] > largest) largest = row[j];
        for (int32_t j = 0; j < m; j++) sum += row[j] = exp(row[j] - largest);
        for (int32_t j = 0; j < m; j++) row[j] = row[j] / sum + eps;
    }
}

/* Divides by the sums over i (stride m, step 1) or over j (stride 1, step m). */
static void divide_by_sums(double *c, int32_t m, int32_t stride, int32_t step, double eps)
{
    for (int32_t i = 0; i < m; i++) {
        double sum = eps;
        for (int32_t j = 0; j < m; j++) sum += c[i * step + j * stride];
        for (int32_t j = 0; j < m; j++) c[i * step + j * stride] /= sum;
    }
}

/* Sinkhorn: towards rows and columns that sum to one. */
static void balance(double *c, int32_t m, int32_t iters, double eps)
{
    softmax_rows(c, m, eps);
    divide_by_sums(c, m, m, 1, eps);
    for (int32_t i = 1; i < iters; i++) {
        divide_by_sums(c, m, 1, m, eps);
        divide_by_sums(c, m, m, 1, eps);
    }
}

bool hd_hc_pre_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_hc_pre_ref(const void *args, hd_stream *stream)
{
    const hd_hc_pre_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++) {
        int32_t const m = a->m;
        double        z[(2 + HD_HC_MAX_STREAMS) * HD_HC_MAX_STREAMS],
            comb[HD_HC_MAX_STREAMS * HD_HC_MAX_STREAMS];
        const float *const  s = a->s + (int64_t)t * m * a->d;
        hd_stream_mix const mix = {s, a->fn, m, a->d, a->eps};
        hd_mix_streams(&mix, (2 + m) * m, z);
        for (int32_t i = 0; i < m; i++) {
            z[i] = hd_sigmoid(z[i] * a->scale[0] + a->base[i]) + a->hc_eps;
            a->post[(int64_t)t * m + i] =
                (float)(2 * hd_sigmoid(z[m + i] * a->scale[1] + a->base[m + i]));
        }
        hd_weigh_streams(&mix, z, a->x + (int64_t)t * a->d);
        for (int32_t i = 0; i < m * m; i++)
            comb[i] = z[2 * m + i] * a->scale[2] + a->base[2 * m + i];
        balance(comb, m, a->iters, a->hc_eps);
        for (int32_t i = 0; i < m * m; i++) a->comb[(int64_t)t * m * m + i] = (float)comb[i];
    }
    return HD_OK;
}
