#include "ops/cache_write.h"

#include "base/team.h"
#include "ops/x86/write_row_avx2.h"

static void run_tokens(const void *args, int64_t begin, int64_t end)
{
    const hd_cache_write_args *const a = args;
    for (int64_t t = begin; t < end; t++) {
        if ((a->pos[t] + 1) % a->group != 0) continue;
        int64_t const row = hd_row_of(&a->layout, a->seq[t], a->cap, a->pos[t] / a->group % a->cap);
        write_row(&a->layout, a->pool, row, a->x + t * a->d);
    }
}

bool hd_cache_write_avx2_supports(const void *args)
{
    const hd_cache_write_args *const a = args;
    return hd_row_is_valid(&a->layout) && a->layout.d == a->d;
}

hd_status hd_cache_write_avx2(const void *args, hd_stream *stream)
{
    const hd_cache_write_args *const a = args;
    hd_work const work = {a->t, 1, (int64_t)a->d / a->group * 2}; /* one of a group writes */
    hd_team_run(stream, &work, run_tokens, a);
    return HD_OK;
}
