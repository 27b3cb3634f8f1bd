#include "ops/quant_nvfp4.h"

#include <math.h>
#include <string.h>

#include "base/team.h"
#include "ops/x86/fp4_codes_avx2.h"
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

/* Where a block goes; codes and sf are NULL where nobody asked for them. */
typedef struct block_out {
    float   *y;
    uint8_t *codes, *sf;
} block_out;

static inline void pass_on(const float *x, const block_out *out)
{
    memcpy(out->y, x, HD_NVFP4_BLOCK * sizeof *x);
    if (!out->codes) return;
    memset(out->codes, 0, HD_NVFP4_BLOCK / 2);
    *out->sf = hd_e4m3_encode(NAN);
}

/* A block of 16; one with NaN or infinity is passed on. */
static void round_block(const float *x, const block_out *out, float scale, int32_t *saturated)
{
    __m256 const a = _mm256_loadu_ps(x), b = _mm256_loadu_ps(x + 8);
    if (!is_finite_block(a, b)) {
        pass_on(x, out);
        return;
    }
    float const      largest = largest_of_8(_mm256_max_ps(magnitude(a), magnitude(b)));
    uint8_t const    code = hd_nvfp4_block_scale(largest, scale, saturated);
    double const     s = (double)hd_e4m3_to_f32(code) * scale;
    code_scale const c = make_scale(s);
    bool const       is_zero = !(s > 0);
    __m256i const    low = is_zero ? _mm256_setzero_si256() : find_codes(&c, a);
    __m256i const    high = is_zero ? _mm256_setzero_si256() : find_codes(&c, b);
    __m256 const     zero = _mm256_setzero_ps();
    _mm256_storeu_ps(out->y, is_zero ? zero : code_values(&c, low, a));
    _mm256_storeu_ps(out->y + 8, is_zero ? zero : code_values(&c, high, b));
    if (!out->codes) return;
    store_codes(low, is_zero ? zero : a, high, is_zero ? zero : b, out->codes);
    *out->sf = code;
}

static void round_slot(const hd_quant_nvfp4_args *a, int64_t slot)
{
    const float *const x = a->x + slot / a->s * a->k;
    float const        fixed = a->scale[a->has_ids ? a->ids[slot] : 0];
    float const        scale = fixed > 0 ? fixed : dynamic_scale(x, a->k);
    int32_t *const     saturated = a->saturated + slot * HD_NVFP4_PARTS(a->k);
    for (int32_t i = 0; i < a->k; i += HD_NVFP4_BLOCK) {
        int64_t const at = slot * a->k + i;
        block_out     out = {a->y + at, NULL, NULL};
        if (a->has_codes) {
            out.codes = a->codes + at / 2;
            out.sf = a->sf + at / HD_NVFP4_BLOCK;
        }
        if (i % HD_NVFP4_PART == 0) saturated[i / HD_NVFP4_PART] = 0;
        round_block(x + i, &out, scale, &saturated[i / HD_NVFP4_PART]);
    }
    if (a->has_codes) a->g[slot] = scale;
}

/* Copies [begin, end) of all tokens together. */
static void run_copies(const void *args, int64_t begin, int64_t end)
{
    for (int64_t slot = begin; slot < end; slot++) round_slot(args, slot);
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
