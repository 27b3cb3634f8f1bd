#include "ops/head_rows.h"

#include "base/team.h"
#include "ops/x86/hadamard_avx2.h"
#include "ops/x86/norm_avx2.h"
#include "ops/x86/turn_avx2.h"
#include "ops/x86/write_row_avx2.h"

static void store(const hd_head_rows_args *a, int64_t t, const float *x)
{
    if ((a->pos[t] + 1) % a->group != 0) return;
    write_row(&a->layout, a->pool,
              hd_row_of(&a->layout, a->seq[t], a->cap, a->pos[t] / a->group % a->cap), x);
}

/* Rows of heads; those of a token share its turn. */
static void run_rows(const void *args, int64_t begin, int64_t end)
{
    const hd_head_rows_args *const a = args;
    int64_t                        turned = -1;
    turn                           by;
    for (int64_t row = begin; row < end; row++) {
        float *const  x = a->x + row * a->d;
        int64_t const t = row / a->h;
        if (a->dr > 0 && t != turned)
            make_turn((float)(a->pos[t] - a->pos[t] % a->group), a->freq, a->dr, 1, &by);
        turned = t;
        if (a->has_norm) norm_row(x, a->has_w ? a->w : NULL, a->d, a->eps, x);
        if (a->dr > 0) apply_turn(&by, x + (a->d - a->dr), a->dr);
        if (a->has_hadamard) transform_row(x, a->d);
        if (a->has_pool) store(a, t, x);
    }
}

bool hd_head_rows_avx2_supports(const void *args)
{
    const hd_head_rows_args *const a = args;
    return a->dr <= HD_MAX_TAIL;
}

hd_status hd_head_rows_avx2(const void *args, hd_stream *stream)
{
    const hd_head_rows_args *const a = args;
    int64_t const                  cost = (int64_t)a->d * 4 + 32 * a->dr / (a->h > 0 ? a->h : 1);
    hd_work const                  work = {(int64_t)a->t * a->h, 1, cost};
    hd_team_run(stream, &work, run_rows, a);
    return HD_OK;
}
