#include "tcgen05_sm100.cuh"

/* gemm_nvfp4 from codes of activations on Blackwell's tensor cores: see w4a4_roles_sm100.cuh.
 *
 * Bound by the bytes of the weights, of which a block reads 128 rows once for up to 256 tokens.
 * Grid: rows in tiles of 128, groups, and tokens in tiles of `columns`.
 * Shared memory: four stages of 18 KiB of weights and as much of tokens as there are.
 * A block has all of k, so few rows leave processors idle; a sum has one order, by rising k. */

template <int columns>
static __global__ void __launch_bounds__(HD_TC_THREADS, HD_TC_BLOCKS)
    multiply_codes(hd_gemm_args const a)
{
    hd_tc_tail *const tail = hd_tc_tail_of<columns>();
    int32_t const     group = (int32_t)blockIdx.y, first = (int32_t)blockIdx.z * columns;
    hd_tc_job         job;
    hd_tc_open<columns>();
    hd_await_previous();
    hd_tc_gemm_job(&a, group, &job);
    hd_tc_place_job<columns>(&job);
    job.row0 = (int32_t)blockIdx.x * HD_TC_ROWS;
    job.used = min(a.t - first, columns);
    for (int32_t i = threadIdx.x; i < job.used; i += HD_TC_THREADS)
        tail->column[i] = hd_tc_gemm_column(&a, group, first + i);
    __syncthreads();
    hd_tc_run<columns>(job);
}

template <int columns> static hd_status launch(const hd_gemm_args *a, hd_stream *stream)
{
    size_t const bytes = hd_tc_shared_bytes<columns>();
    dim3 const   grid(hd_blocks(a->n, HD_TC_ROWS), (unsigned)a->g, hd_blocks(a->t, columns));
    if (!hd_allow_shared((const void *)multiply_codes<columns>, bytes)) return HD_ERR_DEVICE;
    return hd_launch(multiply_codes<columns>, grid, dim3(HD_TC_THREADS), bytes,
                     hd_cuda_stream(stream), *a);
}

bool hd_gemm_nvfp4_sm100_supports(const void *args)
{
    return hd_tc_gemm_fits((const hd_gemm_args *)args);
}

hd_status hd_gemm_nvfp4_sm100(const void *args, hd_stream *stream)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    if (a->t == 0 || a->n == 0 || a->g == 0) return HD_OK;
    switch (hd_tc_choose_columns(a->t)) {
    case 8: return launch<8>(a, stream);
    case 16: return launch<16>(a, stream);
    case 32: return launch<32>(a, stream);
    case 64: return launch<64>(a, stream);
    case 128: return launch<128>(a, stream);
    default: return launch<256>(a, stream);
    }
}
