#include "ops/cuda/launch.cuh"
#include "ops/cuda/swiglu.cuh"
#include "ops/swiglu.h"

/* Bound by bytes: two reads and a write for each element, one exponential.
 * Grid: a block for each row and run of THREADS elements, one thread for each. */

#define THREADS 256

static __global__ void gate_rows(hd_swiglu_args const a)
{
    int32_t const i = (int32_t)(blockIdx.y * THREADS + threadIdx.x);
    if (i >= a.n) return;
    hd_take_turn();
    int64_t const at = (int64_t)blockIdx.x * a.n + i, pair = at + (int64_t)blockIdx.x * a.n;
    float const   gate = a.is_paired ? a.gate_up[pair] : a.gate[at];
    float const   up = a.is_paired ? a.gate_up[pair + a.n] : a.up[at];
    a.y[at] = hd_gate_by(gate, up, a.limit) * (a.has_w ? a.w[blockIdx.x] : 1.0f);
}

bool hd_swiglu_cuda_supports(const void *args)
{
    return hd_fits_grid_y(((const hd_swiglu_args *)args)->n, THREADS);
}

hd_status hd_swiglu_cuda(const void *args, hd_stream *stream)
{
    const hd_swiglu_args *const a = (const hd_swiglu_args *)args;
    if (a->r == 0 || a->n == 0) return HD_OK;
    dim3 const grid((unsigned)a->r, hd_blocks(a->n, THREADS));
    return hd_launch(gate_rows, grid, THREADS, 0, hd_cuda_stream(stream), *a);
}
