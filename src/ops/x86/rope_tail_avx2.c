#include "ops/rope_tail.h"

#include "base/team.h"
#include "ops/x86/turn_avx2.h"

static void run_tokens(const void *args, int64_t begin, int64_t end)
{
    const hd_rope_tail_args *const a = args;
    for (int64_t t = begin; t < end; t++) {
        turn by;
        make_turn((float)(a->pos[t] - a->pos[t] % a->group), a->freq, a->dr, a->sign, &by);
        for (int32_t h = 0; h < a->h; h++)
            apply_turn(&by, a->x + (t * a->h + h) * a->d + (a->d - a->dr), a->dr);
    }
}

bool hd_rope_tail_avx2_supports(const void *args)
{
    const hd_rope_tail_args *const a = args;
    return a->dr <= HD_MAX_TAIL;
}

hd_status hd_rope_tail_avx2(const void *args, hd_stream *stream)
{
    const hd_rope_tail_args *const a = args;
    hd_work const                  work = {a->t, 1, (int64_t)a->dr * (a->h + 32)};
    hd_team_run(stream, &work, run_tokens, a);
    return HD_OK;
}
