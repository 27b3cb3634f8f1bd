#include "ops/compress_kv.h"
#include "ops/cuda/launch.cuh"

/* Bound by bytes of the ring where a group is complete; most tokens complete none.
 * Grid: a block for each token and CHANNELS channels.  LANES threads share the slots of a
 * channel and join their sums through shared memory, always in the same order.
 * Other blocks store the rows of other tokens at the same time, so a slot that is a token of this
 * call is read where that token's row comes from. */

#define CHANNELS 32
#define LANES    8

/* One channel of a token. */
typedef struct channel {
    int64_t ring;                  /* first element of the sequence's part of a ring */
    int64_t w;                     /* width of a ring row                            */
    int32_t t, seq;                /* the token and its sequence                     */
    int32_t c, group, first, last; /* channel; positions                             */
} channel;

static __device__ channel find_channel(const hd_compress_kv_args *a, int64_t t, int32_t c)
{
    channel ch;
    ch.w = a->overlap ? 2 * (int64_t)a->d : a->d;
    ch.t = (int32_t)t;
    ch.seq = a->seq[t];
    ch.ring = (int64_t)ch.seq * a->cap * ch.w;
    ch.c = c;
    ch.last = a->pos[t];
    ch.group = ch.last - a->r + 1;
    ch.first = a->overlap && ch.group >= a->r ? ch.group - a->r : ch.group;
    return ch;
}

/* Tokens of the group before go through the first half of the channels, the group's own
 * through the second. */
static __device__ int64_t column(const hd_compress_kv_args *a, const channel *ch, int32_t q)
{
    return a->overlap && q >= ch->group ? (int64_t)a->d + ch->c : ch->c;
}

/* Where the row of position q is: of a token of this call, or in the ring. */
static __device__ const float *find_row(const hd_compress_kv_args *a, const channel *ch, int32_t q,
                                        const float *x, const float *ring)
{
    int32_t const t = ch->t - (ch->last - q);
    if (t >= 0 && a->seq[t] == ch->seq && a->pos[t] == q) return x + t * ch->w;
    return ring + ch->ring + q % a->cap * ch->w;
}

static __device__ float slot_score(const hd_compress_kv_args *a, const channel *ch, int32_t q)
{
    int64_t const c = column(a, ch, q);
    return find_row(a, ch, q, a->x_gate, a->gate)[c] + a->ape[q % a->r * ch->w + c];
}

/* The token's row into the rings, as far as it is of the block's channels: by the first thread of
 * each, with overlap by the second too. */
static __device__ void store_channel(const hd_compress_kv_args *a, const channel *ch)
{
    int64_t const at = (int64_t)threadIdx.y * a->d + ch->c;
    int64_t const to = ch->ring + ch->last % a->cap * ch->w + at, from = ch->t * ch->w + at;
    if (threadIdx.y >= (a->overlap ? 2 : 1)) return;
    a->kv[to] = a->x_kv[from];
    a->gate[to] = a->x_gate[from];
}

/* Sum or maximum over the LANES threads of a channel; every one of them gets it. */
static __device__ float join(float x, bool is_max, float part[LANES][CHANNELS])
{
    int const c = (int)threadIdx.x, lane = (int)threadIdx.y;
    __syncthreads();
    part[lane][c] = x;
    __syncthreads();
    float all = part[0][c];
    for (int i = 1; i < LANES; i++) all = is_max ? fmaxf(all, part[i][c]) : all + part[i][c];
    return all;
}

/* All threads of the block come here, those beyond the last channel with the last one. */
static __device__ float pool_channel(const hd_compress_kv_args *a, const channel *ch,
                                     float part[LANES][CHANNELS])
{
    float largest = -INFINITY, sum = 0, pooled = 0;
    for (int32_t q = ch->first + (int32_t)threadIdx.y; q <= ch->last; q += LANES)
        largest = fmaxf(largest, slot_score(a, ch, q));
    largest = join(largest, true, part);
    for (int32_t q = ch->first + (int32_t)threadIdx.y; q <= ch->last; q += LANES) {
        float const e = expf(slot_score(a, ch, q) - largest);
        sum += e;
        pooled = fmaf(e, find_row(a, ch, q, a->x_kv, a->kv)[column(a, ch, q)], pooled);
    }
    sum = join(sum, false, part);
    return join(pooled, false, part) / sum;
}

static __global__ void compress_groups(hd_compress_kv_args const a)
{
    __shared__ float part[LANES][CHANNELS];
    int64_t const    t = blockIdx.x;
    int32_t const    c = (int32_t)(blockIdx.y * CHANNELS + threadIdx.x);
    hd_take_turn();
    channel const ch = find_channel(&a, t, min(c, a.d - 1));
    bool const    is_complete = (ch.last + 1) % a.r == 0;
    if (c < a.d) store_channel(&a, &ch);
    float const y = is_complete ? pool_channel(&a, &ch, part) : 0.0f;
    if (c < a.d && threadIdx.y == 0) a.y[t * a.d + c] = y;
}

bool hd_compress_kv_cuda_supports(const void *args)
{
    return hd_fits_grid_y(((const hd_compress_kv_args *)args)->d, CHANNELS);
}

hd_status hd_compress_kv_cuda(const void *args, hd_stream *stream)
{
    const hd_compress_kv_args *const a = (const hd_compress_kv_args *)args;
    if (a->t == 0 || a->d == 0) return HD_OK;
    dim3 const grid((unsigned)a->t, hd_blocks(a->d, CHANNELS)), block(CHANNELS, LANES);
    return hd_launch(compress_groups, grid, block, 0, hd_cuda_stream(stream), *a);
}
