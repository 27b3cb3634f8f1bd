#include "ops/router.h"

#include <math.h>

#include "base/team.h"
#include "ops/x86/vectors_avx2.h"

#define ROOM HD_ROUTER_MAX_EXPERTS

/* ln(1 + u) for u in 0 .. 1, to some units in the last place of the result, however small: with
 * z = u / (2 + u) it is 2 artanh z, whose series in z^2 <= 1/9 ends at z^15 with 2^-27. */
static inline __m256 log1p_of(__m256 u)
{
    __m256 const z = _mm256_div_ps(u, _mm256_add_ps(_mm256_set1_ps(2), u));
    __m256 const zz = _mm256_mul_ps(z, z);
    __m256       sum = _mm256_set1_ps(1.0f / 15);
    for (int i = 13; i > 0; i -= 2) sum = _mm256_fmadd_ps(sum, zz, _mm256_set1_ps(1.0f / (float)i));
    return _mm256_mul_ps(_mm256_add_ps(z, z), sum);
}

static inline __m256 score_of(hd_router_score scoring, __m256 x, __m256 largest)
{
    __m256 const one = _mm256_set1_ps(1), zero = _mm256_setzero_ps();
    if (scoring == HD_ROUTER_SOFTMAX) return exp_of(_mm256_sub_ps(x, largest));
    if (scoring == HD_ROUTER_SIGMOID)
        return _mm256_div_ps(one, _mm256_add_ps(one, exp_of(_mm256_sub_ps(zero, x))));
    __m256 const below = exp_of(_mm256_or_ps(x, _mm256_set1_ps(-0.0f)));
    return _mm256_sqrt_ps(_mm256_add_ps(log1p_of(below), _mm256_max_ps(zero, x)));
}

/* Elements of a row in vectors; the last one is padded with what loses against all. */
static inline __m256 load_padded(const float *x, int32_t n)
{
    __m256 const low = _mm256_set1_ps(-INFINITY);
    return n >= 8 ? _mm256_loadu_ps(x)
                  : _mm256_blendv_ps(low, load_first(x, n), _mm256_castsi256_ps(first_lanes(n)));
}

/* Scores of all experts; softmax is divided here. */
static void compute_scores(const hd_router_args *a, const float *logits, float *score)
{
    __m256 largest = _mm256_set1_ps(-INFINITY), sum = _mm256_setzero_ps();
    for (int32_t e = 0; a->scoring == HD_ROUTER_SOFTMAX && e < a->e; e += 8)
        largest = _mm256_max_ps(largest, load_padded(logits + e, a->e - e));
    largest = _mm256_set1_ps(largest_of_8(largest));
    for (int32_t e = 0; e < a->e; e += 8) {
        __m256 const s = score_of(a->scoring, load_padded(logits + e, a->e - e), largest);
        sum = _mm256_add_ps(sum, s);
        _mm256_storeu_ps(score + e, s);
    }
    if (a->scoring != HD_ROUTER_SOFTMAX) return;
    __m256 const all = _mm256_set1_ps(add_lanes(sum));
    for (int32_t e = 0; e < a->e; e += 8)
        _mm256_storeu_ps(score + e, _mm256_div_ps(_mm256_loadu_ps(score + e), all));
}

/* The first of n keys, whole vectors of them, that is the largest. */
static int32_t find_largest(const int32_t *key, int32_t n)
{
    __m256i best = _mm256_set1_epi32(INT32_MIN);
    for (int32_t e = 0; e < n; e += 8)
        best = _mm256_max_epi32(best, _mm256_loadu_si256((const __m256i *)(const void *)(key + e)));
    for (int by = 1; by < 8; by *= 2) {
        __m256i const to =
            _mm256_xor_si256(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(by));
        best = _mm256_max_epi32(best, _mm256_permutevar8x32_epi32(best, to));
    }
    for (int32_t e = 0;; e += 8) {
        __m256i const is_it =
            _mm256_cmpeq_epi32(best, _mm256_loadu_si256((const __m256i *)(const void *)(key + e)));
        int const mask = _mm256_movemask_ps(_mm256_castsi256_ps(is_it));
        if (mask) return e + __builtin_ctz((unsigned)mask);
    }
}

/* The s largest of score + bias, ties to the lowest id.  NaN comes behind all numbers, and behind
 * it what fills the last vector up and what was taken. */
static void pick_experts(const hd_router_args *a, const float *score, int32_t *ids)
{
    int32_t       key[ROOM + 8];
    __m256i const last = _mm256_set1_epi32(INT32_MIN);
    for (int32_t e = 0; e < a->e; e += 8) {
        __m256 const x =
            _mm256_add_ps(_mm256_loadu_ps(score + e), load_first(a->bias + e, a->e - e));
        __m256i const k = _mm256_max_epi32(to_keys(x), _mm256_set1_epi32(INT32_MIN + 1));
        _mm256_storeu_si256((__m256i *)(void *)(key + e),
                            _mm256_blendv_epi8(last, k, first_lanes(a->e - e)));
    }
    for (int32_t s = 0; s < a->s; s++) {
        ids[s] = find_largest(key, a->e);
        key[ids[s]] = INT32_MIN;
    }
}

/* By falling score, ties by rising id; insertion, for a handful of experts. */
static void sort_by_score(int32_t *ids, int32_t n, const float *score)
{
    for (int32_t i = 1; i < n; i++)
        for (int32_t j = i; j > 0; j--) {
            int32_t const before = ids[j - 1], here = ids[j];
            if (score[before] > score[here] || (score[before] == score[here] && before <= here))
                break;
            ids[j - 1] = here;
            ids[j] = before;
        }
}

static void write_pairs(const hd_router_args *a, const int32_t *ids, int32_t *pairs)
{
    for (int32_t s = 0; s < a->s; s++) {
        pairs[2 * s] = ids[s];
        pairs[2 * s + 1] = ids[s] + a->e;
    }
}

static void route(const hd_router_args *a, int64_t t)
{
    float          score[ROOM + 8], sum = 0;
    int32_t *const ids = a->ids + t * a->s;
    compute_scores(a, a->logits + t * a->e, score);
    if (a->is_hash)
        memcpy(ids, a->table + (int64_t)a->token[t] * a->s, (size_t)a->s * sizeof *ids);
    else
        pick_experts(a, score, ids);
    sort_by_score(ids, a->s, score);
    for (int32_t s = 0; s < a->s; s++) sum += score[ids[s]];
    if (a->scoring == HD_ROUTER_SOFTMAX) sum = 1;
    for (int32_t s = 0; s < a->s; s++) a->w[t * a->s + s] = score[ids[s]] / sum * a->scale;
    if (a->has_pairs) write_pairs(a, ids, a->pairs + 2 * t * a->s);
}

static void run_tokens(const void *args, int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t++) route(args, t);
}

bool hd_router_avx2_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_router_avx2(const void *args, hd_stream *stream)
{
    const hd_router_args *const a = args;
    hd_work const               work = {a->t, 1, (int64_t)a->e * (8 + a->s)};
    hd_team_run(stream, &work, run_tokens, a);
    return HD_OK;
}
