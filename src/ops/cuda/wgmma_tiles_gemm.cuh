#ifndef HD_OPS_CUDA_WGMMA_TILES_GEMM_CUH
#define HD_OPS_CUDA_WGMMA_TILES_GEMM_CUH

#include "ops/gemm.h"
#include "vectors.cuh"
#include "wgmma_dot.cuh"
#include "wgmma_tiles_dot.cuh"

/* gemm with four-bit weights in tiles for many tokens on Hopper: a block for
 * each tile of rows (x), of tokens (y) and group (z).  Which tile is taken
 * changes no bit. */

/* Notes the block's job. */
template <typename shape>
static __device__ __forceinline__ void hd_wt_gemm_job(const hd_gemm_args &a, hd_wt_job *j)
{
    int32_t const t0 = (int32_t)blockIdx.y * shape::tokens, q = (int32_t)blockIdx.z;
    int64_t const tile = (int64_t)q * (a.n / HD_TILES_ROWS) * (a.k / HD_TILES_COLS);
    if (threadIdx.x == 0) {
        j->w = (const uint8_t *)a.w + tile * HD_TILES_CODE_BYTES;
        j->sf = (const uint8_t *)a.sf + tile * shape::tile_scales;
        j->scale = hd_wt_factor<shape> * (shape::is_nvfp4 ? a.w_scale : 1.0f);
        j->row_tiles = a.n / HD_TILES_ROWS;
        j->k_tiles = a.k / HD_TILES_COLS;
        j->row0 = (int32_t)blockIdx.x * shape::rows;
        j->n_tokens = min(shape::tokens, a.t - t0);
        hd_wt_note_x<shape>(a, j);
    }
    for (int32_t i = (int32_t)threadIdx.x; i < shape::tokens; i += HD_WT_THREADS) {
        int64_t const t = t0 + i < a.t ? t0 + i : t0, row = t * a.g + q;
        if (shape::is_coded) {
            j->codes[i] = a.x_codes + row * (a.k / 2);
            j->x_scale[i] = a.x_scale[t];
        } else {
            j->x[i] = a.x + row * a.k;
        }
        j->y[i] = a.y + row * a.n;
    }
}

template <typename shape>
static __global__ void __launch_bounds__(HD_WT_THREADS, 1) hd_wt_gemm(hd_gemm_args const a)
{
    extern __shared__ __align__(1024) uint8_t shared[];
    auto *const                               s = (hd_wt_shared<shape> *)shared;
    hd_wt_gemm_job<shape>(a, &s->job);
    hd_wt_make(s);
}

#define HD_WT_PROCESSORS 132 /* of an H200; a choice of kernels must not depend on the GPU */
#define HD_WT_FEW_TOKENS 64  /* tiles of as many, where there are no more */

/* Blocks of a launch with tiles of `parts` parts. */
static inline int64_t hd_wt_gemm_blocks(const hd_gemm_args *a, int parts)
{
    return (int64_t)hd_blocks(a->n, parts * HD_WT_MULTIPLIES / 2) * hd_blocks(a->t, HD_WT_TOKENS) *
           a->g;
}

/* Whether tiles of twice the rows take less time, which the half as large ones
 * have 0.6 of. */
static inline bool hd_wt_is_large(const hd_gemm_args *a)
{
    return hd_blocks(hd_wt_gemm_blocks(a, 2), HD_WT_PROCESSORS) * 10 <=
           hd_blocks(hd_wt_gemm_blocks(a, 1), HD_WT_PROCESSORS) * 6;
}

/* Another kernel shares a tile's columns among blocks, where tiles are few and columns many; of
 * codes it reads the floats, whose planes are three.  From so many blocks on this one takes less
 * time: measured, with 2,048 to 8,192 columns. */
template <bool is_coded> static inline bool hd_wt_gemm_supports(const void *args)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    bool const                is_few = a->t <= HD_WT_FEW_TOKENS;
    int64_t const             least = is_coded ? (is_few ? 32 : 16) : is_few ? 64 : 40;
    return a->t > 16 && (hd_wt_gemm_blocks(a, 1) >= least || a->k < 1024) && a->k > 0 &&
           hd_fits_grid_y(a->t, HD_WT_TOKENS) && a->g <= 65535;
}

template <typename shape>
static inline hd_status hd_launch_wt_shape(const hd_gemm_args *a, hd_stream *stream)
{
    dim3 const grid(hd_blocks(a->n, shape::rows * shape::peers) * shape::peers,
                    hd_blocks(a->t, shape::tokens), (unsigned)a->g);
    return hd_wg_launch<hd_gemm_args>(hd_wt_gemm<shape>, *a, grid, shape::peers, HD_WT_THREADS,
                                      sizeof(hd_wt_shared<shape>), hd_cuda_stream(stream));
}

template <int format, bool is_coded>
static inline hd_status hd_launch_wt_gemm(const void *args, hd_stream *stream)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    if (a->n == 0 || a->g == 0) return HD_OK;
    if (a->t <= HD_WT_FEW_TOKENS)
        return hd_launch_wt_shape<hd_wt_shape<format, 1, is_coded, HD_WT_FEW_TOKENS>>(a, stream);
    return hd_wt_is_large(a) ? hd_launch_wt_shape<hd_wt_shape<format, 2, is_coded>>(a, stream)
                             : hd_launch_wt_shape<hd_wt_shape<format, 1, is_coded>>(a, stream);
}

#endif
