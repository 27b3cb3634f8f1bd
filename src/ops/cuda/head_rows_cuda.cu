#include "ops/cuda/launch.cuh"
#include "ops/cuda/rows.cuh"
#include "ops/cuda/turn.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/head_rows.h"

/* Bound by latency for a few rows, by bytes for many.
 * Grid: a block for each row, a thread for four neighbours and for one pair of the tail, whose sine
 * is made while the row is on its way.  A row stays in registers; what a step must see of other
 * threads goes through shared memory. */

#define MAX_VECTORS (HD_ROW_MAX / 4)
#define OF_WARP     128 /* elements */

/* A block's row, and its own four elements. */
typedef struct block_row {
    float4 row[MAX_VECTORS];
    float  scratch[32];
} block_row;

static __device__ __forceinline__ void normalise(const hd_head_rows_args &a, float4 w, float4 *v,
                                                 block_row *s)
{
    float const sum = hd_block_sum(hd_dot4(*v, *v, 0), s->scratch);
    float const r = 1.0f / sqrtf(sum / (float)a.d + a.eps);
    *v = {v->x * r * w.x, v->y * r * w.y, v->z * r * w.z, v->w * r * w.w};
}

/* Pairs may begin anywhere in a thread's four elements. */
static __device__ __forceinline__ void turn_tail(const hd_head_rows_args &a, hd_turn by, float4 *v,
                                                 block_row *s)
{
    int32_t const i = (int32_t)threadIdx.x;
    float *const  pair = (float *)s->row + (a.d - a.dr) + 2 * i;
    if (4 * i < a.d) s->row[i] = *v;
    __syncthreads();
    if (2 * i < a.dr) {
        float2 const turned = hd_turned(pair[0], pair[1], by);
        pair[0] = turned.x;
        pair[1] = turned.y;
    }
    __syncthreads();
    if (4 * i < a.d) *v = s->row[i];
}

/* The rounds among a warp's elements; those from d on are 0 and stay by themselves. */
static __device__ __forceinline__ void transform_warp(float v[4], int32_t d)
{
    int const lane = (int)threadIdx.x % 32;
    if (d > 1) {
        float const a = v[0], c = v[2];
        v[0] = a + v[1];
        v[1] = a - v[1];
        v[2] = c + v[3];
        v[3] = c - v[3];
    }
    if (d > 2) {
        float const a = v[0], b = v[1];
        v[0] = a + v[2];
        v[1] = b + v[3];
        v[2] = a - v[2];
        v[3] = b - v[3];
    }
    for (int o = 1; o < 32 && 4 * o < d; o *= 2)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float const other = __shfl_xor_sync(0xffffffffu, v[i], o);
            v[i] = lane & o ? other - v[i] : v[i] + other;
        }
}

/* The other rounds; v is this thread's part of the row. */
static __device__ __forceinline__ void transform_block(float v[4], int32_t d, block_row *s)
{
    float *const  one = (float *)s->row;
    int32_t const first = (int32_t)threadIdx.x, step = (int32_t)blockDim.x;
    if (4 * first < d) s->row[first] = {v[0], v[1], v[2], v[3]};
    for (int32_t half = OF_WARP; half < d; half *= 2) {
        __syncthreads();
        for (int32_t i = first; i < d / 2; i += step) {
            int32_t const low = (i & ~(half - 1)) * 2 + (i & (half - 1));
            float const   p = one[low], q = one[low + half];
            one[low] = p + q;
            one[low + half] = p - q;
        }
    }
    __syncthreads();
    if (4 * first >= d) return;
    float4 const out = s->row[first];
    v[0] = out.x;
    v[1] = out.y;
    v[2] = out.z;
    v[3] = out.w;
}

static __device__ __forceinline__ void transform(int32_t d, float4 *x, block_row *s)
{
    float       v[4] = {x->x, x->y, x->z, x->w};
    float const norm = 1.0f / sqrtf((float)d);
    transform_warp(v, d);
    if (d > OF_WARP) {
        __syncthreads(); /* all have read what the turn left */
        transform_block(v, d, s);
    }
    *x = {v[0] * norm, v[1] * norm, v[2] * norm, v[3] * norm};
}

/* To the pool, a run of elements a warp. */
static __device__ __forceinline__ void store_row(const hd_head_rows_args &a, const hd_row_map &m,
                                                 hd_row_place at, float4 v, block_row *s)
{
    int32_t const i = (int32_t)threadIdx.x;
    __syncthreads();
    if (4 * i < a.d) s->row[i] = v;
    __syncthreads();
    for (int32_t run = i / 32; run * HD_ROW_RUN < a.d; run += (int32_t)blockDim.x / 32)
        hd_write_row_run(&m, a.pool, at, (const float *)s->row, run);
}

static __global__ void prepare_rows(const __grid_constant__ hd_head_rows_args a,
                                    const __grid_constant__ hd_row_map        m)
{
    __shared__ block_row s;
    int32_t const        t = (int32_t)(blockIdx.x / (unsigned)a.h);
    int32_t const        i = (int32_t)threadIdx.x, left = a.d - 4 * i;
    float *const         x = a.x + (int64_t)blockIdx.x * a.d + 4 * i;
    bool const           is_wide = hd_is_wide(a.x, a.d), has_pair = 2 * i < a.dr;
    hd_release_next();
    float4 const w = a.has_w && left > 0 ? hd_load4(a.w + 4 * i, left, hd_is_wide(a.w, a.d))
                                         : float4{1, 1, 1, 1};
    float const  freq = has_pair ? a.freq[i] : 0;
    hd_await_previous();
    float4        v = left > 0 ? hd_load4(x, left, is_wide) : float4{0, 0, 0, 0};
    int32_t const pos = a.pos[t], seq = a.has_pool ? a.seq[t] : 0;
    hd_turn const by = has_pair ? hd_turn_of(pos - pos % a.group, freq) : hd_turn{1, 0};
    if (a.has_norm) normalise(a, w, &v, &s);
    if (a.dr > 0) turn_tail(a, by, &v, &s);
    if (a.has_hadamard) transform(a.d, &v, &s);
    if (left > 0) hd_store4(x, v, left, is_wide);
    if (a.has_pool && (pos + 1) % a.group == 0)
        store_row(a, m, hd_place_row(&m, seq, pos / a.group % a.cap), v, &s);
}

bool hd_head_rows_cuda_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_head_rows_cuda(const void *args, hd_stream *stream)
{
    const hd_head_rows_args *const a = (const hd_head_rows_args *)args;
    int64_t const                  rows = (int64_t)a->t * a->h;
    int32_t const                  vectors = (a->d + 3) / 4, pairs = a->dr / 2;
    unsigned const                 threads = hd_threads(max(vectors, pairs), HD_ROW_MAX / 2);
    if (rows == 0) return HD_OK;
    hd_row_map const m = a->has_pool ? hd_row_map_of(&a->layout, a->cap) : hd_row_map{};
    return hd_launch(prepare_rows, (unsigned)rows, threads, 0, hd_cuda_stream(stream), *a, m);
}
