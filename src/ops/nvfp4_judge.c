#include "ops/nvfp4_judge.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "quant/fp4.h"

static bool reject(hd_op_verdict *v, const char *what, int64_t at, double got)
{
    snprintf(v->why, sizeof v->why, "%s at %" PRId64 ", %.9g", what, at, got);
    return false;
}

static float scale_of(const hd_quant_nvfp4_args *q, int64_t row)
{
    const float *const y = q->x + row * q->k;
    float const        fixed = q->scale[q->has_ids ? q->ids[row] : 0];
    float              amax = 0;
    if (fixed > 0) return fixed;
    for (int32_t i = 0; i < q->k; i++)
        if (isfinite(y[i]) && fabsf(y[i]) > amax) amax = fabsf(y[i]);
    return amax > 0 ? hd_nvfp4_scale(amax) : 1;
}

/* A NaN that is passed on may have any payload. */
static bool are_equal(const float *a, const float *b, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

static bool judge_block(const hd_quant_nvfp4_args *q, int64_t row, int32_t block, float scale,
                        int32_t *saturated)
{
    int64_t const at = row * (q->k / HD_NVFP4_BLOCK) + block;
    float const  *y = q->x + at * HD_NVFP4_BLOCK;
    float         rounded[HD_NVFP4_BLOCK];
    uint8_t       codes[HD_NVFP4_BLOCK / 2], sf;
    *saturated += hd_nvfp4_round(y, rounded, HD_NVFP4_BLOCK, scale);
    if (!are_equal(rounded, q->y + at * HD_NVFP4_BLOCK, HD_NVFP4_BLOCK)) return false;
    if (!q->has_codes) return true;
    hd_nvfp4_encode(y, HD_NVFP4_BLOCK, scale, codes, &sf);
    return sf == q->sf[at] && memcmp(codes, q->codes + at * HD_NVFP4_BLOCK / 2, sizeof codes) == 0;
}

bool hd_nvfp4_judge_row(const hd_quant_nvfp4_args *q, int64_t row, hd_op_verdict *v)
{
    int32_t const blocks = q->k / HD_NVFP4_BLOCK, each = HD_NVFP4_PART / HD_NVFP4_BLOCK;
    float const   scale = scale_of(q, row);
    int32_t       saturated = 0;
    for (int32_t b = 0; b < blocks; b++) {
        if (!judge_block(q, row, b, scale, &saturated))
            return reject(v, "not what the rounding of y is, block", b, (double)scale);
        if ((b + 1) % each != 0 && b + 1 < blocks) continue;
        if (q->saturated[row * HD_NVFP4_PARTS(q->k) + b / each] != saturated)
            return reject(v, "saturated blocks up to block", b, saturated);
        saturated = 0;
    }
    return !q->has_codes || q->g[row] == scale || reject(v, "wrong g of row", row, (double)scale);
}
