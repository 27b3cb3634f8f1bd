#include "ops/head_rows.h"

#include <math.h>

static void normalise(const hd_head_rows_args *a, double *x)
{
    double sum = 0;
    for (int32_t c = 0; c < a->d; c++) sum += x[c] * x[c];
    double const r = 1 / sqrt(sum / a->d + a->eps);
    for (int32_t c = 0; c < a->d; c++) x[c] *= r * (a->has_w ? a->w[c] : 1.0f);
}

static void turn(const hd_head_rows_args *a, int32_t t, double *tail)
{
    float const position = (float)(a->pos[t] - a->pos[t] % a->group);
    for (int32_t i = 0; i < a->dr / 2; i++) {
        double const angle = (double)(position * a->freq[i]), c = cos(angle), s = sin(angle),
                     even = tail[2 * i], odd = tail[2 * i + 1];
        tail[2 * i] = even * c - odd * s;
        tail[2 * i + 1] = even * s + odd * c;
    }
}

static bool is_odd(int32_t bits) { return __builtin_popcount((unsigned)bits) & 1; }

static void transform(const hd_head_rows_args *a, double *x)
{
    double const norm = 1 / sqrt(a->d);
    double       y[HD_ROW_MAX];
    for (int32_t j = 0; j < a->d; j++) {
        y[j] = 0;
        for (int32_t i = 0; i < a->d; i++) y[j] += is_odd(i & j) ? -x[i] : x[i];
    }
    for (int32_t j = 0; j < a->d; j++) x[j] = y[j] * norm;
}

static void store(const hd_head_rows_args *a, int32_t t, const float *x)
{
    if ((a->pos[t] + 1) % a->group != 0) return;
    hd_row_write(&a->layout, a->pool,
                 hd_row_of(&a->layout, a->seq[t], a->cap, a->pos[t] / a->group % a->cap), x);
}

bool hd_head_rows_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_head_rows_ref(const void *args, hd_stream *stream)
{
    const hd_head_rows_args *const a = args;
    (void)stream;
    for (int64_t row = 0; row < (int64_t)a->t * a->h; row++) {
        float *const  x = a->x + row * a->d;
        int32_t const t = (int32_t)(row / a->h);
        double        v[HD_ROW_MAX];
        for (int32_t c = 0; c < a->d; c++) v[c] = x[c];
        if (a->has_norm) normalise(a, v);
        turn(a, t, v + (a->d - a->dr));
        if (a->has_hadamard) transform(a, v);
        for (int32_t c = 0; c < a->d; c++) x[c] = (float)v[c];
        if (a->has_pool) store(a, t, x);
    }
    return HD_OK;
}
