#include "ops/quant_fp8.h"

#include "base/team.h"
#include "ops/x86/rounding_avx2.h"
#include "quant/bf16.h"
#include "quant/fp8.h"

static void round_row(const hd_quant_fp8_args *a, const float *x, float *y)
{
    int32_t c = 0;
    for (; c < a->k - a->tail; c += a->block) {
        float const largest = finite_largest(x + c, a->block);
        if (largest == largest)
            round_run(x + c, y + c, a->block, (float)hd_fp8_scale(largest), 3, -6);
        else
            memmove(y + c, x + c, (size_t)a->block * sizeof *y);
    }
    for (; c < a->k; c++) y[c] = hd_bf16_to_f32(hd_f32_to_bf16(x[c]));
}

static void run_rows(const void *args, int64_t begin, int64_t end)
{
    const hd_quant_fp8_args *const a = args;
    for (int64_t t = begin; t < end; t++) round_row(a, a->x + t * a->k, a->y + t * a->k);
}

bool hd_quant_fp8_avx2_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_quant_fp8_avx2(const void *args, hd_stream *stream)
{
    const hd_quant_fp8_args *const a = args;
    hd_work const                  work = {a->t, 1, (int64_t)a->k * 2};
    hd_team_run(stream, &work, run_rows, a);
    return HD_OK;
}
