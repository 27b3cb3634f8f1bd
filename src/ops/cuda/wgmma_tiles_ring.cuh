#ifndef HD_OPS_CUDA_WGMMA_TILES_RING_CUH
#define HD_OPS_CUDA_WGMMA_TILES_RING_CUH

#include "barrier_sm90.cuh"
#include "f16_planes.cuh"
#include "fp8_codes.cuh"
#include "quant/fp4.h"
#include "quant/matrix.h"
#include "quant/tiles.h"
#include "wgmma_asm.cuh"

/* What a block of wgmma_tiles_dot.cuh has in shared memory. */

#define HD_WT_MULTIPLIES         256 /* threads                          */
#define HD_WT_CONVERTS           128 /* threads                          */
#define HD_WT_PUBLISHES          128 /* threads: a warp does, of a whole warpgroup */
#define HD_WT_THREADS            (HD_WT_MULTIPLIES + HD_WT_CONVERTS + HD_WT_PUBLISHES)
#define HD_WT_MULTIPLY_REGISTERS 208
#define HD_WT_OTHER_REGISTERS    48
#define HD_WT_TOKENS             128 /* of a tile                             */
#define HD_WT_LINE               128 /* bytes of a token's columns in a plane */
#define HD_WT_STEPS              (HD_TILES_COLS / 16)

/* What a kernel is made for.
 * parts     of a warpgroup: 64 rows each
 * is_coded  whether activations are codes: f16 then, in one plane
 * tokens    of a tile: 128, or 64, whose chunks pass so fast that more of them must be on the way
 */
template <int format_, int parts_, bool is_coded_, int tokens_ = HD_WT_TOKENS> struct hd_wt_shape {
    static constexpr int  format = format_, parts = parts_, tokens = tokens_;
    static constexpr bool is_coded = is_coded_, is_nvfp4 = format == HD_FMT_NVFP4_TILES;
    static constexpr bool is_small = tokens < HD_WT_TOKENS;
    static constexpr int  tile_scales = is_nvfp4 ? 128 : 64; /* bytes of a tile */
    static constexpr int  lane_scales = is_nvfp4 ? 4 : 8;    /* those that a lane needs */
    static constexpr int  rows = parts * HD_WT_MULTIPLIES / 2;
    static constexpr int  sums = tokens / 2;    /* of a thread, in a part          */
    static constexpr int  peers = 2;            /* blocks with the same tokens     */
    static constexpr int  own = tokens / peers; /* tokens that a block converts, at most */
    static constexpr int  turns = own / (HD_WT_CONVERTS / 4);
    static constexpr int  planes = is_coded ? 1 : 3;               /* of activations */
    static constexpr int  slots = is_coded ? 8 : is_small ? 6 : 4; /* of chunks of the first */
    static constexpr int  others = is_coded ? 0 : 2;               /* of chunks of the others */
    static constexpr int  stages = is_small ? 8 : 4;               /* of weights */
    static constexpr int  x_stages = is_small   ? 6
                                     : is_coded ? 4
                                                : 3;          /* of what planes are made of */
    static constexpr int  x_units = is_coded ? 2 : turns * 4; /* of it, for a thread */
    static constexpr int  places = slots + others * (planes - 1);
};

/* A matrix, and up to HD_WT_TOKENS vectors. */
struct hd_wt_job {
    const uint8_t *w, *sf;
    float          scale;
    int32_t        row_tiles, k_tiles;
    int32_t        row0; /* of this block */
    int32_t        n_tokens;
    bool           is_wide;        /* whether all of x is aligned for vectors of 16 bytes */
    const uint8_t *x_codes, *x_sf; /* of all activations; their scales are an eighth as long */
    union {
        const float   *x[HD_WT_TOKENS]; /* of those behind n_tokens the first's, not used */
        const uint8_t *codes[HD_WT_TOKENS];
    };
    float  x_scale[HD_WT_TOKENS]; /* only of codes */
    float *y[HD_WT_TOKENS];
};

/* It begins at a multiple of 1024. */
template <typename shape> struct hd_wt_shared {
    uint8_t   planes[shape::places][shape::tokens * HD_WT_LINE];
    uint4     x[shape::x_stages][shape::x_units][HD_WT_CONVERTS];
    uint4     codes[shape::stages][shape::parts * HD_WT_MULTIPLIES];
    uint8_t   scales[shape::stages][shape::parts * HD_WT_MULTIPLIES * shape::lane_scales];
    uint32_t  x_sf[shape::is_coded ? shape::x_stages : 1][shape::is_coded ? HD_WT_CONVERTS : 1];
    uint64_t  made[shape::slots], full[shape::slots], empty[shape::slots];
    uint32_t  made_planes[shape::slots];            /* so many, and 256 where some is not 0 */
    float     has_more[shape::slots][shape::peers]; /* planes than the first; 1 or 0 */
    hd_wt_job job;

    /* Plane p of chunk c, whose first one is in a slot of the ring. */
    __device__ __forceinline__ uint8_t *plane(int32_t c, int slot, int p)
    {
        return planes[p == 0 ? slot : shape::slots + c % 2 * (shape::planes - 1) + p - 1];
    }
};
static_assert(sizeof(hd_wt_shared<hd_wt_shape<HD_FMT_MXFP4_TILES, 2, false>>) <= 227 * 1024,
              "fits a block's memory");

/* Which of the blocks with the same tokens this one is. */
template <typename shape> static __device__ __forceinline__ int hd_wt_peer(void)
{
    return (int)(blockIdx.x % shape::peers);
}

#endif
