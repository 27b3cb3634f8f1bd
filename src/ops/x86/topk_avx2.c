#include "ops/topk.h"

#include "base/team.h"
#include "ops/x86/vectors_avx2.h"

/* Scores become whole numbers in the same order; the k-th highest of them is found bit by bit, by
 * counting how many are at least as high, so no list is kept in order on the way. */

/* Of rows [row, row + 8), those before `end`. */
static __m256i keys_at(const float *score, int32_t row, int32_t end)
{
    if (row + 8 <= end) return to_keys(_mm256_loadu_ps(score + row));
    return _mm256_blendv_epi8(_mm256_set1_epi32(INT32_MIN),
                              to_keys(load_first(score + row, end - row)), first_lanes(end - row));
}

/* Rows whose key is above a given one. */
static int32_t count_above(const float *score, int32_t end, int32_t key)
{
    __m256i const least = _mm256_set1_epi32(key);
    __m256i       count = _mm256_setzero_si256();
    for (int32_t row = 0; row < end; row += 8)
        count = _mm256_sub_epi32(count, _mm256_cmpgt_epi32(keys_at(score, row, end), least));
    int32_t lanes[8], sum = 0;
    _mm256_storeu_si256((__m256i *)(void *)lanes, count);
    for (int i = 0; i < 8; i++) sum += lanes[i];
    return sum;
}

/* The highest key that at least k rows reach; *above is how many are higher.  Ends early at a key
 * below it that exactly k rows exceed. */
static int32_t find_key(const float *score, int32_t end, int32_t k, int32_t *above)
{
    int32_t key = INT32_MIN;
    for (uint32_t bit = UINT32_C(1) << 31; bit; bit >>= 1) {
        int32_t const next = (int32_t)((uint32_t)key + bit);
        int32_t const n = count_above(score, end, next - 1);
        if (n >= k) key = next;
        if (n == k) {
            *above = k;
            return key - 1;
        }
    }
    *above = key == INT32_MAX ? 0 : count_above(score, end, key);
    return key;
}

/* Lists the k best of `end` rows, more than k. */
static void list_best(const float *score, int32_t end, int32_t k, int32_t *ids)
{
    int32_t       above, n = 0;
    int32_t const key = find_key(score, end, k, &above);
    int32_t       equals = k - above;
    __m256i const keys = _mm256_set1_epi32(key);
    for (int32_t row = 0; n < k; row += 8) {
        __m256i const v = keys_at(score, row, end);
        __m256i const higher = _mm256_cmpgt_epi32(v, keys), same = _mm256_cmpeq_epi32(v, keys);
        uint32_t      is_same = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(same));
        uint32_t      taken = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(higher));
        for (; is_same && equals > 0; equals--, is_same &= is_same - 1) taken |= is_same & -is_same;
        for (; taken; taken &= taken - 1) ids[n++] = row + __builtin_ctz(taken);
    }
}

static void run_tokens(const void *args, int64_t begin, int64_t end)
{
    const hd_topk_args *const a = args;
    for (int64_t t = begin; t < end; t++) {
        int32_t const  visible = (a->pos[t] + 1) / a->group;
        int32_t *const ids = a->ids + t * a->k;
        int32_t        n = visible < a->k ? visible : a->k;
        if (visible > a->k && a->k > 0)
            list_best(a->score + t * a->n, visible, a->k, ids);
        else
            for (int32_t i = 0; i < n; i++) ids[i] = i;
        for (; n < a->k; n++) ids[n] = -1;
    }
}

bool hd_topk_avx2_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_topk_avx2(const void *args, hd_stream *stream)
{
    const hd_topk_args *const a = args;
    hd_work const             work = {a->t, 1, (int64_t)a->n * 16};
    hd_team_run(stream, &work, run_tokens, a);
    return HD_OK;
}
