#include "ops/topk.h"

/* Whether row a stands below row b: a lower score, NaN lowest; of equals the later row. */
static bool is_below(const float *score, int32_t a, int32_t b)
{
    bool const a_nan = score[a] != score[a], b_nan = score[b] != score[b];
    if (a_nan || b_nan) return a_nan == b_nan ? a > b : a_nan;
    return score[a] == score[b] ? a > b : score[a] < score[b];
}

/* Restores the heap property below place i: the lowest row is at the top. */
static void sift_down(const float *score, int32_t *heap, int32_t n, int32_t i)
{
    for (int32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && is_below(score, heap[child + 1], heap[child])) child++;
        if (!is_below(score, heap[child], heap[i])) return;
        int32_t const row = heap[i];
        heap[i] = heap[child];
        heap[child] = row;
    }
}

static void sort_rising(int32_t *ids, int32_t n)
{
    for (int32_t gap = n / 2; gap > 0; gap /= 2)
        for (int32_t i = gap; i < n; i++) {
            int32_t const row = ids[i];
            int32_t       j = i;
            for (; j >= gap && ids[j - gap] > row; j -= gap) ids[j] = ids[j - gap];
            ids[j] = row;
        }
}

/* ids holds rows 0 .. k-1 and becomes the k best of `visible` rows, rising. */
static void keep_best(const float *score, int32_t visible, int32_t *ids, int32_t k)
{
    for (int32_t i = k / 2 - 1; i >= 0; i--) sift_down(score, ids, k, i);
    for (int32_t row = k; row < visible; row++) {
        if (k == 0 || !is_below(score, ids[0], row)) continue;
        ids[0] = row;
        sift_down(score, ids, k, 0);
    }
    sort_rising(ids, k);
}

bool hd_topk_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_topk_ref(const void *args, hd_stream *stream)
{
    const hd_topk_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++) {
        int32_t const  visible = (a->pos[t] + 1) / a->group;
        int32_t *const ids = a->ids + (int64_t)t * a->k;
        int32_t        n = visible < a->k ? visible : a->k;
        for (int32_t i = 0; i < n; i++) ids[i] = i;
        if (visible > a->k) keep_best(a->score + (int64_t)t * a->n, visible, ids, a->k);
        for (; n < a->k; n++) ids[n] = -1;
    }
    return HD_OK;
}
