#include "ops/quant_nvfp4.h"

#include <math.h>

#include "base/team.h"
#include "ops/x86/rounding_avx2.h"
#include "quant/fp4.h"
#include "quant/fp8.h"

/* The scale that lets the row's largest finite magnitude just fit. */
static float dynamic_scale(const float *x, int32_t k)
{
    __m256 largest = _mm256_setzero_ps();
    for (int32_t i = 0; i < k; i += 8) {
        __m256 const a = magnitude(_mm256_loadu_ps(x + i));
        __m256 const is_finite = _mm256_cmp_ps(a, _mm256_set1_ps(INFINITY), _CMP_LT_OQ);
        largest = _mm256_max_ps(largest, _mm256_and_ps(a, is_finite));
    }
    float const scale = hd_nvfp4_scale(largest_of_8(largest));
    return scale > 0 ? scale : 1;
}

/* What a magnitude must exceed, as f32, to be at or above four midpoints between codes times s.
 * The product is exact in double; x / s rounded to double lies on the same side of a midpoint,
 * because 24 bits of x and 31 of the product tell them apart long before.  Where a tie goes
 * up, to an even code, equality is enough. */
static inline __m128 find_borders(__m256d midpoints, __m256d ties_up, __m256d s)
{
    __m256d const exact = _mm256_mul_pd(midpoints, s);
    __m128 const  nearest = _mm256_cvtpd_ps(exact);
    __m256d const back = _mm256_cvtps_pd(nearest);
    __m256d const equal = _mm256_and_pd(_mm256_cmp_pd(back, exact, _CMP_EQ_OQ), ties_up);
    __m256d const above = _mm256_or_pd(_mm256_cmp_pd(back, exact, _CMP_GT_OQ), equal);
    __m128 const  one_less = _mm_shuffle_ps(_mm_castpd_ps(_mm256_castpd256_pd128(above)),
                                            _mm_castpd_ps(_mm256_extractf128_pd(above, 1)), 0x88);
    return _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(nearest), _mm_castps_si128(one_less)));
}

/* The codes of a block as f32 values, and where one ends and the next begins. */
typedef struct code_scale {
    __m256 value;
    float  border[8]; /* the last is none */
} code_scale;

static inline code_scale make_scale(double scale)
{
    code_scale    c;
    __m256d const s = _mm256_set1_pd(scale);
    __m256d const up = _mm256_castsi256_pd(_mm256_setr_epi64x(0, -1, 0, -1));
    __m256d const low = _mm256_setr_pd(0, 0.5, 1, 1.5), high = _mm256_setr_pd(2, 3, 4, 6);
    _mm_storeu_ps(c.border, find_borders(_mm256_setr_pd(0.25, 0.75, 1.25, 1.75), up, s));
    _mm_storeu_ps(c.border + 4, find_borders(_mm256_setr_pd(2.5, 3.5, 5, 6), up, s));
    c.value = _mm256_set_m128(_mm256_cvtpd_ps(_mm256_mul_pd(high, s)),
                              _mm256_cvtpd_ps(_mm256_mul_pd(low, s)));
    return c;
}

static inline __m256 round_8(const code_scale *c, __m256 x)
{
    __m256 const a = magnitude(x);
    __m256i      code = _mm256_setzero_si256();
    for (int i = 0; i < 7; i++) {
        __m256 const is_above = _mm256_cmp_ps(a, _mm256_broadcast_ss(&c->border[i]), _CMP_GT_OQ);
        code = _mm256_sub_epi32(code, _mm256_castps_si256(is_above));
    }
    __m256 const sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
    return _mm256_or_ps(_mm256_permutevar8x32_ps(c->value, code), sign);
}

/* A block of 16; one with NaN or infinity is passed on. */
static void round_block(const float *x, float *y, float scale, int32_t *saturated)
{
    __m256 const a = _mm256_loadu_ps(x), b = _mm256_loadu_ps(x + 8), inf = _mm256_set1_ps(INFINITY);
    __m256 const largest = _mm256_max_ps(magnitude(a), magnitude(b));
    __m256 const wrong = _mm256_or_ps(_mm256_cmp_ps(magnitude(a), inf, _CMP_NLT_UQ),
                                      _mm256_cmp_ps(magnitude(b), inf, _CMP_NLT_UQ));
    if (_mm256_movemask_ps(wrong)) {
        _mm256_storeu_ps(y, a);
        _mm256_storeu_ps(y + 8, b);
        return;
    }
    uint8_t const    code = hd_nvfp4_block_scale(largest_of_8(largest), scale, saturated);
    double const     s = (double)hd_e4m3_to_f32(code) * scale;
    code_scale const c = make_scale(s);
    bool const       is_zero = !(s > 0);
    _mm256_storeu_ps(y, is_zero ? _mm256_setzero_ps() : round_8(&c, a));
    _mm256_storeu_ps(y + 8, is_zero ? _mm256_setzero_ps() : round_8(&c, b));
}

/* Copies [begin, end) of all tokens together. */
static void run_copies(const void *args, int64_t begin, int64_t end)
{
    const hd_quant_nvfp4_args *const a = args;
    for (int64_t slot = begin; slot < end; slot++) {
        const float *const x = a->x + slot / a->s * a->k;
        float const        fixed = a->scale[a->has_ids ? a->ids[slot] : 0];
        float const        scale = fixed > 0 ? fixed : dynamic_scale(x, a->k);
        int32_t            saturated = 0;
        for (int32_t i = 0; i < a->k; i += HD_NVFP4_BLOCK)
            round_block(x + i, a->y + slot * a->k + i, scale, &saturated);
        a->saturated[slot] = saturated;
    }
}

bool hd_quant_nvfp4_avx2_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_quant_nvfp4_avx2(const void *args, hd_stream *stream)
{
    const hd_quant_nvfp4_args *const a = args;
    hd_work const work = {(int64_t)a->t * a->s, 1, (int64_t)a->k * 8}; /* mostly block scales */
    hd_team_run(stream, &work, run_copies, a);
    return HD_OK;
}
