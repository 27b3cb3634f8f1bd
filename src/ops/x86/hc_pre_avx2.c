#include "ops/hc_pre.h"

#include "base/team.h"
#include "ops/x86/streams_avx2.h"

static stream_rows rows_of(const hd_hc_pre_args *a)
{
    return (stream_rows){a->s, a->fn, a->x, a->t, a->m, a->d, (2 + a->m) * a->m};
}

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
        double const share = 1 / sum;
        for (int32_t j = 0; j < m; j++) c[i * step + j * stride] *= share;
    }
}

/* Sinkhorn: towards rows and columns that sum to one.  In double: it is the same few numbers
 * twenty times over. */
static void balance(double *c, int32_t m, int32_t iters, double eps)
{
    softmax_rows(c, m, eps);
    divide_by_sums(c, m, m, 1, eps);
    for (int32_t i = 1; i < iters; i++) {
        divide_by_sums(c, m, 1, m, eps);
        divide_by_sums(c, m, m, 1, eps);
    }
}

static void finish_token(const hd_hc_pre_args *a, const stream_rows *r, int32_t t)
{
    int32_t const      m = a->m;
    const float *const z = a->x + (int64_t)t * a->d;
    double const       rms = inverse_rms(r, t, a->eps);
    float              pre[HD_HC_MAX_STREAMS];
    double             comb[HD_HC_MAX_STREAMS * HD_HC_MAX_STREAMS];
    for (int32_t i = 0; i < m; i++) {
        double const gate = sigmoid(z[m + i] * rms * a->scale[1] + a->base[m + i]);
        pre[i] = (float)(sigmoid(z[i] * rms * a->scale[0] + a->base[i]) + a->hc_eps);
        a->post[(int64_t)t * m + i] = (float)(2 * gate);
    }
    for (int32_t i = 0; i < m * m; i++)
        comb[i] = z[2 * m + i] * rms * a->scale[2] + a->base[2 * m + i];
    balance(comb, m, a->iters, a->hc_eps);
    for (int32_t i = 0; i < m * m; i++) a->comb[(int64_t)t * m * m + i] = (float)comb[i];
    weigh_streams(r, t, pre);
}

static void run_tokens(const void *args, int64_t begin, int64_t end)
{
    const hd_hc_pre_args *const a = args;
    stream_rows const           r = rows_of(a);
    for (int64_t t = begin; t < end; t++) finish_token(a, &r, (int32_t)t);
}

bool hd_hc_pre_avx2_supports(const void *args)
{
    const hd_hc_pre_args *const a = args;
    return a->d >= (2 + a->m) * a->m;
}

hd_status hd_hc_pre_avx2(const void *args, hd_stream *stream)
{
    const hd_hc_pre_args *const a = args;
    stream_rows const           r = rows_of(a);
    hd_work const               work = {a->t, 1, (int64_t)a->m * a->d / 4 + 8000};
    HD_TRY(multiply_streams(&r, stream));
    hd_team_run(stream, &work, run_tokens, a);
    return HD_OK;
}
