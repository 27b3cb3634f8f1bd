#include "ops/cuda/launch.cuh"
#include "ops/hadamard.h"

/* Bound by bytes; log2(k) rounds of sums in between.
 * Grid: a block for each row, a thread for each pair of a round, up to MAX_THREADS.  The row
 * stands in shared memory: 16 KiB at most. */

#define MAX_THREADS 512

static __global__ void transform_rows(hd_hadamard_args const a)
{
    __shared__ float row[HD_HADAMARD_MAX];
    float *const     x = a.x + (int64_t)blockIdx.x * a.k;
    int32_t const    first = (int32_t)threadIdx.x, step = (int32_t)blockDim.x;
    hd_take_turn();
    for (int32_t i = first; i < a.k; i += step) row[i] = x[i];
    for (int32_t half = 1; half < a.k; half *= 2) {
        __syncthreads();
        for (int32_t i = first; i < a.k / 2; i += step) {
            int32_t const low = (i & ~(half - 1)) * 2 + (i & (half - 1));
            float const   p = row[low], q = row[low + half];
            row[low] = p + q;
            row[low + half] = p - q;
        }
    }
    __syncthreads();
    float const norm = 1.0f / sqrtf((float)a.k);
    for (int32_t i = first; i < a.k; i += step) x[i] = row[i] * norm;
}

bool hd_hadamard_cuda_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_hadamard_cuda(const void *args, hd_stream *stream)
{
    const hd_hadamard_args *const a = (const hd_hadamard_args *)args;
    if (a->t == 0) return HD_OK;
    unsigned const threads = hd_threads(a->k / 2, MAX_THREADS);
    return hd_launch(transform_rows, (unsigned)a->t, threads, 0, hd_cuda_stream(stream), *a);
}
