#include "ops/hc_head.h"

#include "base/team.h"
#include "ops/hc_pre.h"
#include "ops/x86/streams_avx2.h"

static stream_rows rows_of(const hd_hc_head_args *a)
{
    return (stream_rows){a->s, a->fn, a->x, a->t, a->m, a->d, a->m};
}

static void run_tokens(const void *args, int64_t begin, int64_t end)
{
    const hd_hc_head_args *const a = args;
    stream_rows const            r = rows_of(a);
    for (int32_t t = (int32_t)begin; t < (int32_t)end; t++) {
        const float *const z = a->x + (int64_t)t * a->d;
        double const       rms = inverse_rms(&r, t, a->eps);
        float              weight[HD_HC_MAX_STREAMS];
        for (int32_t i = 0; i < a->m; i++)
            weight[i] = (float)(sigmoid(z[i] * rms * a->scale[0] + a->base[i]) + a->hc_eps);
        weigh_streams(&r, t, weight);
    }
}

bool hd_hc_head_avx2_supports(const void *args)
{
    const hd_hc_head_args *const a = args;
    return a->d >= a->m;
}

hd_status hd_hc_head_avx2(const void *args, hd_stream *stream)
{
    const hd_hc_head_args *const a = args;
    stream_rows const            r = rows_of(a);
    hd_work const                work = {a->t, 1, (int64_t)a->m * a->d / 4 + 1000};
    HD_TRY(multiply_streams(&r, stream));
    hd_team_run(stream, &work, run_tokens, a);
    return HD_OK;
}
