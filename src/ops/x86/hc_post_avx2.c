#include "ops/hc_post.h"

#include "base/team.h"
#include "ops/hc_pre.h"
#include "ops/x86/vectors_avx2.h"

/* Eight columns of all streams of a token. */
static inline void mix_columns(const hd_hc_post_args *a, int64_t t, int32_t c)
{
    int32_t const      n = a->d - c;
    const float *const post = a->post + t * a->m, *const comb = a->comb + t * a->m * a->m;
    float *const s = a->s + t * a->m * a->d + c;
    __m256 const y = load_first(a->y + t * a->d + c, n);
    __m256       old[HD_HC_MAX_STREAMS];
    for (int32_t i = 0; i < a->m; i++) old[i] = load_first(s + (int64_t)i * a->d, n);
    for (int32_t j = 0; j < a->m; j++) {
        __m256 sum = _mm256_mul_ps(_mm256_set1_ps(post[j]), y);
        for (int32_t i = 0; i < a->m; i++)
            sum = _mm256_fmadd_ps(_mm256_set1_ps(comb[i * a->m + j]), old[i], sum);
        store_first(s + (int64_t)j * a->d, n, sum);
    }
}

static void run_tokens(const void *args, int64_t begin, int64_t end)
{
    const hd_hc_post_args *const a = args;
    for (int64_t t = begin; t < end; t++)
        for (int32_t c = 0; c < a->d; c += 8) mix_columns(a, t, c);
}

bool hd_hc_post_avx2_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_hc_post_avx2(const void *args, hd_stream *stream)
{
    const hd_hc_post_args *const a = args;
    hd_work const                work = {a->t, 1, (int64_t)a->m * a->d * 2};
    hd_team_run(stream, &work, run_tokens, a);
    return HD_OK;
}
