#ifndef HD_OPS_CUDA_ATTN_KEYS_CUH
#define HD_OPS_CUDA_ATTN_KEYS_CUH

#include "key_planes.cuh"
#include "ops/attn_sparse.h"

/* The keys of a token, as the attention kernels for rows of 512 find them. */

typedef struct hd_attn_job {
    hd_attn_sparse_args a;
    hd_row_map          win, rows;
    bool                is_wide; /* vectors of keys are aligned */
} hd_attn_job;

/* The part of a block: keys [first, end) of a token's list, `heads` heads from h0 on. */
typedef struct hd_attn_task {
    int64_t t;
    int32_t h0, first, end;
    int32_t p, seq, n_win; /* position; window keys, which come first */
    int32_t used;          /* blocks that have keys                   */
} hd_attn_task;

/* The row of the key at place `at` of the list; negative: none. */
static __device__ __forceinline__ int32_t hd_attn_find_row(const hd_attn_job  *j,
                                                           const hd_attn_task *k, int32_t at)
{
    const hd_attn_sparse_args *const a = &j->a;
    if (at >= k->end) return -1;
    if (at < k->n_win) return (k->p + 1 - k->n_win + at) % a->win_cap;
    return a->k > 0 ? a->ids[k->t * a->k + at - k->n_win] : at - k->n_win;
}

/* Of the lane's own key, by its list place and its row. */
static __device__ __forceinline__ hd_key_place hd_attn_place_key(const hd_attn_job  *j,
                                                                 const hd_attn_task *k, int32_t at,
                                                                 int32_t row)
{
    if (row < 0) return {};
    bool const           is_win = at < k->n_win;
    hd_row_place const   place = hd_place_row(is_win ? &j->win : &j->rows, k->seq, row);
    const uint8_t *const pool = is_win ? j->a.win : j->a.rows;
    return {pool + place.data, pool + place.scales};
}

/* Brings keys nearer, into the second cache: one a thread, by its list place and its row. */
template <hd_row_format format>
static __device__ __forceinline__ void
hd_attn_fetch_key(const hd_attn_job *j, const hd_attn_task *k, int32_t at, int32_t row)
{
    hd_key_place const key = hd_attn_place_key(j, k, at, row);
    if (!key.data || !j->is_wide) return;
    hd_bulk_fetch(key.data, (uint32_t)hd_key_bytes<format>(&j->win));
    if (format == HD_ROW_FP8 || format == HD_ROW_NVFP4) hd_fetch_line(key.scales);
}

/* ---- on the host ---- */

/* The second half of a row holds the tail, which begins at a whole vector. */
static inline bool hd_attn_takes(const hd_row_layout *l)
{
    return hd_row_is_valid(l) && l->d == HD_KEY_WIDTH && l->format != HD_ROW_MXFP4 &&
           l->tail <= HD_KEY_WIDTH / 2 && l->tail % 32 == 0;
}

/* Whether all that is read of a pool's rows as vectors is aligned for them. */
static inline bool hd_attn_is_wide(const hd_row_map *m, const void *pool)
{
    return ((uintptr_t)pool | (uintptr_t)m->data_bytes | (uintptr_t)m->page_bytes |
            (uintptr_t)m->plain_at) %
               16 ==
           0;
}

static inline hd_attn_job hd_attn_job_of(const hd_attn_sparse_args *a)
{
    hd_attn_job j = {};
    j.a = *a;
    j.win = hd_row_map_of(&a->win_layout, a->win_cap);
    j.is_wide = hd_attn_is_wide(&j.win, a->win);
    if (a->group <= 0) return j;
    j.rows = hd_row_map_of(&a->row_layout, a->row_cap);
    j.is_wide = j.is_wide && hd_attn_is_wide(&j.rows, a->rows);
    return j;
}

#endif
