#include "ops/rmsnorm.h"

#include "base/team.h"
#include "ops/x86/norm_avx2.h"

static void run_rows(const void *args, int64_t begin, int64_t end)
{
    const hd_rmsnorm_args *const a = args;
    for (int64_t t = begin; t < end; t++)
        norm_row(a->x + t * a->d, a->has_w ? a->w : NULL, a->d, a->eps, a->y + t * a->d);
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
