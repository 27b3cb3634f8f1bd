#include "ops/cuda/launch.cuh"
#include "ops/cuda/rows.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/index_score.h"

/* Bound by FLOPs: 2 * h * d for each row that a token sees.
 * Grid: a block for each token and ROWS rows.  Keys and heads meet in tiles of ROWS rows, HEADS
 * heads and DEPTH elements in shared memory (34 KiB); a thread forms the dot products of four
 * rows with four heads, lanes side by side hold the heads of one row and add them up. */

#define ROWS    64
#define HEADS   64
#define DEPTH   64
#define STRIDE  (DEPTH + 4) /* floats; rows of a tile then lie in different banks */
#define SIDE    16          /* threads along rows and along heads */
#define THREADS (SIDE * SIDE)
#define EACH    4
static_assert(ROWS == SIDE * EACH && HEADS == SIDE * EACH, "a thread has EACH of both");
static_assert(SIDE == 16, "half a warp adds up a row");

/* Where a block works: its token, the first head, row and element of the tile. */
typedef struct tile_at {
    int64_t t;
    int32_t h0, r0, c0;
} tile_at;

typedef struct tiles {
    float q[HEADS][STRIDE], key[ROWS][STRIDE];
} tiles;

/* Loads elements [c0, c0 + DEPTH) of heads from `h0` on and rows from `r0` on; 0 where there
 * are none. */
static __device__ void load_tiles(const hd_index_score_args *a, const hd_row_map *m, tile_at at,
                                  tiles *s)
{
    int64_t const t = at.t;
    int32_t const h0 = at.h0, r0 = at.r0, c0 = at.c0;
    int32_t const visible = min((a->pos[t] + 1) / a->group, a->cap), seq = a->seq[t];
    bool const    is_wide = hd_is_wide(a->q, a->d);
    for (int32_t i = (int32_t)threadIdx.x; i < HEADS * (DEPTH / 4); i += THREADS) {
        int32_t const row = i / (DEPTH / 4), c = c0 + i % (DEPTH / 4) * 4, h = h0 + row,
                      r = r0 + row;
        float4 q = {0, 0, 0, 0}, key = {0, 0, 0, 0};
        if (h < a->h && c < a->d) q = hd_load4(a->q + (t * a->h + h) * a->d + c, a->d - c, is_wide);
        if (r < visible && c < a->d) key = hd_read_row4(m, a->keys, hd_place_row(m, seq, r), c);
        *(float4 *)&s->q[row][c - c0] = q;
        *(float4 *)&s->key[row][c - c0] = key;
    }
}

/* Adds a tile's part to the dot products of a thread: dot[head][row]. */
static __device__ __forceinline__ void multiply_tiles(const tiles *s, int32_t row, int32_t head,
                                                      float dot[EACH][EACH])
{
    float part[EACH][EACH] = {};
#pragma unroll 4
    for (int32_t c = 0; c < DEPTH; c += 4) {
        float4 q[EACH], key[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            q[i] = *(const float4 *)&s->q[head + i * SIDE][c];
            key[i] = *(const float4 *)&s->key[row + i * SIDE][c];
        }
#pragma unroll
        for (int i = 0; i < EACH * EACH; i++)
            part[i / EACH][i % EACH] =
                hd_dot4(q[i / EACH], key[i % EACH], part[i / EACH][i % EACH]);
    }
#pragma unroll
    for (int i = 0; i < EACH * EACH; i++) dot[i / EACH][i % EACH] += part[i / EACH][i % EACH];
}

/* Adds the weighed dot products of this thread's heads to score[row]. */
static __device__ __forceinline__ void weigh_heads(const hd_index_score_args *a, int64_t t,
                                                   int32_t h0, float dot[EACH][EACH], float *score)
{
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int32_t const h = h0 + i * SIDE;
        float const   w = h < a->h ? a->wgt[t * a->h + h] * a->scale : 0;
#pragma unroll
        for (int r = 0; r < EACH; r++)
            if (dot[i][r] > 0 || dot[i][r] != dot[i][r]) score[r] = fmaf(w, dot[i][r], score[r]);
    }
}

/* Scores of a thread's rows from r0 on, over all heads. */
static __device__ void score_rows(const hd_index_score_args *a, const hd_row_map *m, int64_t t,
                                  int32_t r0, float score[EACH])
{
    __shared__ tiles s;
    int32_t const    head = (int32_t)threadIdx.x % SIDE, row = (int32_t)threadIdx.x / SIDE;
    for (int32_t h0 = 0; h0 < a->h; h0 += HEADS) {
        float dot[EACH][EACH] = {};
        for (int32_t c0 = 0; c0 < a->d; c0 += DEPTH) {
            __syncthreads();
            load_tiles(a, m, tile_at{t, h0, r0, c0}, &s);
            __syncthreads();
            multiply_tiles(&s, row, head, dot);
        }
        weigh_heads(a, t, h0 + head, dot, score);
    }
    for (int r = 0; r < EACH; r++)
        for (int o = SIDE / 2; o > 0; o >>= 1)
            score[r] += __shfl_xor_sync(0xffffffffu, score[r], o);
}

static __global__ void __launch_bounds__(THREADS)
    score_tokens(hd_index_score_args const a, hd_row_map const m)
{
    int64_t const t = blockIdx.x;
    int32_t const r0 = (int32_t)blockIdx.y * ROWS;
    hd_take_turn();
    int32_t const visible = min((a.pos[t] + 1) / a.group, a.cap);
    float         score[EACH] = {};
    if (r0 < visible) score_rows(&a, &m, t, r0, score);
    for (int i = 0; i < EACH; i++) {
        int32_t const r = r0 + (int32_t)threadIdx.x / SIDE + i * SIDE;
        if (threadIdx.x % SIDE == 0 && r < a.cap)
            a.score[t * a.cap + r] = r < visible ? score[i] : 0.0f;
    }
}

bool hd_index_score_cuda_supports(const void *args)
{
    const hd_index_score_args *const a = (const hd_index_score_args *)args;
    return hd_row_is_valid(&a->layout) && a->layout.d == a->d && hd_fits_grid_y(a->cap, ROWS);
}

hd_status hd_index_score_cuda(const void *args, hd_stream *stream)
{
    const hd_index_score_args *const a = (const hd_index_score_args *)args;
    hd_row_map const                 m = hd_row_map_of(&a->layout, a->cap);
    if (a->t == 0 || a->cap == 0) return HD_OK;
    dim3 const grid((unsigned)a->t, hd_blocks(a->cap, ROWS));
    return hd_launch(score_tokens, grid, THREADS, 0, hd_cuda_stream(stream), *a, m);
}
