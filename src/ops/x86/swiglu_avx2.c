#include "ops/swiglu.h"

#include "base/team.h"
#include "ops/x86/vectors_avx2.h"

/* NaN passes both clamps: of a pair with NaN the second operand is taken. */
static inline __m256 gate_8(__m256 gate, __m256 up, __m256 limit)
{
    __m256 const g = _mm256_min_ps(limit, gate);
    __m256 const low = _mm256_xor_ps(limit, _mm256_set1_ps(-0.0f));
    __m256 const u = _mm256_max_ps(low, _mm256_min_ps(limit, up));
    __m256 const e = exp_of(_mm256_xor_ps(g, _mm256_set1_ps(-0.0f)));
    return _mm256_mul_ps(_mm256_div_ps(g, _mm256_add_ps(_mm256_set1_ps(1), e)), u);
}

static void run_rows(const void *args, int64_t begin, int64_t end)
{
    const hd_swiglu_args *const a = args;
    __m256 const                limit = _mm256_set1_ps(a->limit);
    for (int64_t r = begin; r < end; r++) {
        const float *const gate = hd_swiglu_gate(a, r), *const up = hd_swiglu_up(a, r);
        float *const y = a->y + r * a->n;
        __m256 const w = _mm256_set1_ps(a->has_w ? a->w[r] : 1);
        for (int32_t c = 0; c < a->n; c += 8) {
            int32_t const n = a->n - c;
            __m256 const  h = gate_8(load_first(gate + c, n), load_first(up + c, n), limit);
            store_first(y + c, n, _mm256_mul_ps(h, w));
        }
    }
}

bool hd_swiglu_avx2_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_swiglu_avx2(const void *args, hd_stream *stream)
{
    const hd_swiglu_args *const a = args;
    hd_work const               work = {a->r, 1, (int64_t)a->n * 4};
    hd_team_run(stream, &work, run_rows, a);
    return HD_OK;
}
