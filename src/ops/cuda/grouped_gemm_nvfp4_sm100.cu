#include "expert_units.cuh"
#include "tcgen05_sm100.cuh"

/* grouped_gemm_nvfp4 from codes of activations on Blackwell's tensor cores: see
 * w4a4_roles_sm100.cuh.  Grid: rows in tiles of 128, and as many units as there may be: an expert
 * and up to `columns` of its slots, which every block finds from the ids alone. */

static_assert(HD_TC_EXPERTS == HD_EXPERTS_MAX, "the expert of a unit is looked up");

/* The first warp lists the slots of a unit; returns their number to all. */
template <int columns>
static __device__ int32_t list_unit(const hd_grouped_gemm_args &a, int32_t e, int32_t pass)
{
    hd_tc_tail *const  tail = hd_tc_tail_of<columns>();
    __shared__ int32_t used, slots[columns];
    if (threadIdx.x < 32) {
        int32_t at = 0, n = 0;
        for (int32_t i = 0; i <= pass; i++) n = hd_list_slots(a, e, columns, &at, slots);
        __syncwarp();
        for (int32_t i = threadIdx.x; i < n; i += 32)
            tail->column[i] = hd_tc_grouped_column(&a, slots[i]);
        if (threadIdx.x == 0) used = n;
    }
    __syncthreads();
    return used;
}

template <int columns>
static __global__ void __launch_bounds__(HD_TC_THREADS, HD_TC_BLOCKS)
    multiply_units(hd_grouped_gemm_args const a)
{
    __shared__ int32_t first[HD_EXPERTS_MAX + 1];
    int32_t const      unit = (int32_t)blockIdx.y;
    hd_tc_job          job;
    hd_await_previous();
    hd_count_units(a, columns, first);
    if (unit >= first[a.e]) {
        hd_release_next();
        return;
    }
    int32_t const e = hd_expert_of(first, a.e, unit);
    hd_tc_open<columns>();
    hd_tc_grouped_job(&a, e, &job);
    hd_tc_place_job<columns>(&job);
    job.row0 = (int32_t)blockIdx.x * HD_TC_ROWS;
    job.used = list_unit<columns>(a, e, unit - first[e]);
    hd_tc_run<columns>(job);
}

template <int columns> static hd_status launch(const hd_grouped_gemm_args *a, hd_stream *stream)
{
    size_t const bytes = hd_tc_shared_bytes<columns>();
    dim3 const   grid(hd_blocks(a->n, HD_TC_ROWS), (unsigned)hd_tc_units(a));
    if (!hd_allow_shared((const void *)multiply_units<columns>, bytes)) return HD_ERR_DEVICE;
    return hd_launch(multiply_units<columns>, grid, dim3(HD_TC_THREADS), bytes,
                     hd_cuda_stream(stream), *a);
}

bool hd_grouped_gemm_nvfp4_sm100_supports(const void *args)
{
    return hd_tc_grouped_fits((const hd_grouped_gemm_args *)args);
}

hd_status hd_grouped_gemm_nvfp4_sm100(const void *args, hd_stream *stream)
{
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    if (a->t == 0 || a->s == 0 || a->n == 0) return HD_OK;
    switch (hd_tc_unit_columns(a)) {
    case 8: return launch<8>(a, stream);
    case 16: return launch<16>(a, stream);
    case 32: return launch<32>(a, stream);
    case 64: return launch<64>(a, stream);
    case 128: return launch<128>(a, stream);
    default: return launch<256>(a, stream);
    }
}
