#include "ops/moe_sum.h"

#include "base/team.h"
#include "ops/x86/vectors_avx2.h"

/* The slots in their order, then the shared expert, as the contract says. */
static void run_tokens(const void *args, int64_t begin, int64_t end)
{
    const hd_moe_sum_args *const a = args;
    for (int64_t t = begin; t < end; t++)
        for (int32_t c = 0; c < a->d; c += 8) {
            int32_t const n = a->d - c;
            __m256        sum = _mm256_setzero_ps();
            for (int32_t s = 0; s < a->s; s++) {
                int64_t const slot = t * a->s + s;
                __m256 const  w = _mm256_set1_ps(a->has_w ? a->w[slot] : 1);
                sum = _mm256_fmadd_ps(w, load_first(a->y + slot * a->d + c, n), sum);
            }
            sum = _mm256_add_ps(sum, load_first(a->shared + t * a->d + c, n));
            store_first(a->out + t * a->d + c, n, sum);
        }
}

bool hd_moe_sum_avx2_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_moe_sum_avx2(const void *args, hd_stream *stream)
{
    const hd_moe_sum_args *const a = args;
    hd_work const                work = {a->t, 1, (int64_t)a->s * a->d};
    hd_team_run(stream, &work, run_tokens, a);
    return HD_OK;
}
