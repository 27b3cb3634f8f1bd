#include "ops/rmsnorm.h"

#include <math.h>

#include "base/team.h"
#include "ops/x86/vectors_avx2.h"

/* Squares in double: a row may be as large as f32 allows. */
static double square_sum(const float *x, int32_t d)
{
    __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
    double  part[4];
    for (int32_t c = 0; c < d; c += 8) {
        __m256 const  v = load_first(x + c, d - c);
        __m256d const a = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
        __m256d const b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        low = _mm256_fmadd_pd(a, a, low);
        high = _mm256_fmadd_pd(b, b, high);
    }
    _mm256_storeu_pd(part, _mm256_add_pd(low, high));
    return part[0] + part[1] + part[2] + part[3];
}

static void run_rows(const void *args, int64_t begin, int64_t end)
{
    const hd_rmsnorm_args *const a = args;
    for (int64_t t = begin; t < end; t++) {
        const float *const x = a->x + t * a->d;
        double const       r = 1 / sqrt(square_sum(x, a->d) / a->d + a->eps);
        __m256d const      factor = _mm256_set1_pd(r);
        for (int32_t c = 0; c < a->d; c += 8) {
            __m256 const  v = load_first(x + c, a->d - c);
            __m256d const low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
            __m256d const high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
            __m256 const  y = _mm256_set_m128(_mm256_cvtpd_ps(_mm256_mul_pd(high, factor)),
                                              _mm256_cvtpd_ps(_mm256_mul_pd(low, factor)));
            __m256 const  w = a->has_w ? load_first(a->w + c, a->d - c) : _mm256_set1_ps(1);
            store_first(a->y + t * a->d + c, a->d - c, _mm256_mul_ps(y, w));
        }
    }
}

bool hd_rmsnorm_avx2_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_rmsnorm_avx2(const void *args, hd_stream *stream)
{
    const hd_rmsnorm_args *const a = args;
    hd_work const                work = {a->t, 1, a->d};
    hd_team_run(stream, &work, run_rows, a);
    return HD_OK;
}
