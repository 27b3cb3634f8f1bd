#include "ops/quant_mxfp4.h"

#include "base/team.h"
#include "ops/x86/rounding_avx2.h"
#include "quant/fp4.h"

static void run_rows(const void *args, int64_t begin, int64_t end)
{
    const hd_quant_mxfp4_args *const a = args;
    for (int64_t at = begin * a->k; at < end * a->k; at += HD_MXFP4_BLOCK) {
        const float *const x = a->x + at;
        float const        largest = finite_largest(x, HD_MXFP4_BLOCK);
        if (largest == largest)
            round_run(x, a->y + at, HD_MXFP4_BLOCK, (float)hd_mxfp4_scale(largest), 1, 0);
        else
            memmove(a->y + at, x, HD_MXFP4_BLOCK * sizeof *x);
    }
}

bool hd_quant_mxfp4_avx2_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_quant_mxfp4_avx2(const void *args, hd_stream *stream)
{
    const hd_quant_mxfp4_args *const a = args;
    hd_work const                    work = {a->t, 1, (int64_t)a->k * 2};
    hd_team_run(stream, &work, run_rows, a);
    return HD_OK;
}
