#include "ops/index_score.h"

#include <stdalign.h>

#include "base/team.h"
#include "ops/x86/read_row_avx2.h"

#define HEADS_AT_ONCE 8

/* The products of a key with heads h .. h+7 of a token; heads that do not exist give 0. */
static inline __m256 multiply_heads(const hd_index_score_args *a, const float *q, int32_t h,
                                    const float *key)
{
    int32_t const n = a->h - h < HEADS_AT_ONCE ? a->h - h : HEADS_AT_ONCE;
    __m256        sum[HEADS_AT_ONCE];
    for (int i = 0; i < HEADS_AT_ONCE; i++) sum[i] = _mm256_setzero_ps();
    for (int32_t c = 0; c < a->d; c += 8) {
        __m256 const k = load_first(key + c, a->d - c);
        for (int i = 0; i < n; i++)
            sum[i] =
                _mm256_fmadd_ps(load_first(q + (int64_t)(h + i) * a->d + c, a->d - c), k, sum[i]);
    }
    return add_lanes_of_8(sum);
}

/* Whole vectors and all eight heads: the shape of every model. */
static inline __m256 multiply_whole(const hd_index_score_args *a, const float *q, int32_t h,
                                    const float *key)
{
    __m256 sum[HEADS_AT_ONCE];
    for (int i = 0; i < HEADS_AT_ONCE; i++) sum[i] = _mm256_setzero_ps();
    q += (int64_t)h * a->d;
    for (int32_t c = 0; c < a->d; c += 8) {
        __m256 const k = _mm256_loadu_ps(key + c);
#pragma GCC unroll 8
        for (int i = 0; i < HEADS_AT_ONCE; i++)
            sum[i] = _mm256_fmadd_ps(_mm256_loadu_ps(q + i * a->d + c), k, sum[i]);
    }
    return add_lanes_of_8(sum);
}

/* What is not above 0 does not count, whatever its weight; NaN does. */
static float score_key(const hd_index_score_args *a, int32_t t, const float *key)
{
    const float *const q = a->q + (int64_t)t * a->h * a->d, *const w = a->wgt + (int64_t)t * a->h;
    bool const is_whole = a->d % 8 == 0;
    __m256     score = _mm256_setzero_ps();
    for (int32_t h = 0; h < a->h; h += HEADS_AT_ONCE) {
        __m256 const dot = is_whole && a->h - h >= HEADS_AT_ONCE ? multiply_whole(a, q, h, key)
                                                                 : multiply_heads(a, q, h, key);
        __m256 const counts = _mm256_cmp_ps(dot, _mm256_setzero_ps(), _CMP_NLE_UQ);
        __m256 const weight = load_first(w + h, a->h - h);
        score = _mm256_add_ps(score, _mm256_and_ps(counts, _mm256_mul_ps(dot, weight)));
    }
    return add_lanes(score) * a->scale;
}

/* Rows [begin, end) of the scores of all tokens together. */
static void run_rows(const void *args, int64_t begin, int64_t end)
{
    const hd_index_score_args *const a = args;
    alignas(32) float                buffer[HD_ROW_MAX];
    for (int64_t at = begin; at < end; at++) {
        int32_t const t = (int32_t)(at / a->cap), r = (int32_t)(at % a->cap);
        a->score[at] = 0;
        if (r >= (a->pos[t] + 1) / a->group) continue;
        int64_t const row = hd_row_of(&a->layout, a->seq[t], a->cap, r);
        a->score[at] = score_key(a, t, read_row(&a->layout, a->keys, row, buffer));
    }
}

bool hd_index_score_avx2_supports(const void *args)
{
    const hd_index_score_args *const a = args;
    return hd_row_is_valid(&a->layout) && a->layout.d == a->d;
}

hd_status hd_index_score_avx2(const void *args, hd_stream *stream)
{
    const hd_index_score_args *const a = args;
    hd_work const                    work = {(int64_t)a->t * a->cap, 16, (int64_t)a->h * a->d};
    hd_team_run(stream, &work, run_rows, a);
    return HD_OK;
}
