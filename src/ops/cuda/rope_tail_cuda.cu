#include "ops/cuda/launch.cuh"
#include "ops/rope_tail.h"

/* Bound by bytes for many heads, by the sine of a large angle for few.
 * Grid: a thread for each token, run of HEADS heads and pair; neighbouring threads have
 * neighbouring pairs, and a thread's heads share one sine and cosine, and
 * are all loaded before one is stored. */

#define THREADS 128
#define HEADS   4

static __global__ void rotate_tails(hd_rope_tail_args const a)
{
    int32_t const pairs = a.dr / 2, runs = (a.h + HEADS - 1) / HEADS;
    int64_t const at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t const t = at / pairs / runs;
    if (t >= a.t) return;
    int32_t const i = (int32_t)(at % pairs), first = (int32_t)(at / pairs % runs) * HEADS;
    float *const  x = a.x + (t * a.h + first) * a.d + (a.d - a.dr) + 2 * i;
    float         even[HEADS], odd[HEADS], s, c;
    hd_release_next();
    float const freq = a.freq[i];
    hd_await_previous();
#pragma unroll
    for (int32_t h = 0; h < HEADS; h++) {
        if (first + h >= a.h) break;
        even[h] = x[(int64_t)h * a.d];
        odd[h] = x[(int64_t)h * a.d + 1];
    }
    int32_t const pos = a.pos[t];
    sincosf(__fmul_rn((float)(pos - pos % a.group), freq) * a.sign, &s, &c);
#pragma unroll
    for (int32_t h = 0; h < HEADS; h++) {
        if (first + h >= a.h) break;
        x[(int64_t)h * a.d] = even[h] * c - odd[h] * s;
        x[(int64_t)h * a.d + 1] = even[h] * s + odd[h] * c;
    }
}

bool hd_rope_tail_cuda_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_rope_tail_cuda(const void *args, hd_stream *stream)
{
    const hd_rope_tail_args *const a = (const hd_rope_tail_args *)args;
    int64_t const                  n = (int64_t)a->t * ((a->h + HEADS - 1) / HEADS) * (a->dr / 2);
    if (n == 0) return HD_OK;
    return hd_launch(rotate_tails, hd_blocks(n, THREADS), THREADS, 0, hd_cuda_stream(stream), *a);
}
