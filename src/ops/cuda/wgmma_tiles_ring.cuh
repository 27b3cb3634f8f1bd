#ifndef HD_OPS_CUDA_WGMMA_TILES_RING_CUH
#define HD_OPS_CUDA_WGMMA_TILES_RING_CUH

#include "barrier_sm90.cuh"
#include "quant/matrix.h"
#include "quant/tiles.h"
#include "wgmma_asm.cuh"

/* What a block of wgmma_tiles_dot.cuh has in shared memory. */

#define HD_WT_PEERS      2   /* blocks with the same tokens      */
#define HD_WT_MULTIPLIES 256 /* threads                          */
#define HD_WT_CONVERTS   128 /* threads                          */
#define HD_WT_THREADS    (HD_WT_MULTIPLIES + HD_WT_CONVERTS)
#define HD_WT_TOKENS     128 /* of a tile                        */
#define HD_WT_PARTS      2   /* of a warpgroup: 64 rows each     */
#define HD_WT_ROWS       (HD_WT_PARTS * HD_WT_MULTIPLIES / 2)
#define HD_WT_SUMS       (HD_WT_TOKENS / 2)           /* of a thread, in a part       */
#define HD_WT_OWN        (HD_WT_TOKENS / HD_WT_PEERS) /* tokens that a block converts */
#define HD_WT_TURNS      (HD_WT_OWN / (HD_WT_CONVERTS / 4))
#define HD_WT_PLANES     3
#define HD_WT_LINE       128 /* bytes of a token's columns in a plane */
#define HD_WT_STEPS      (HD_TILES_COLS / 16)
#define HD_WT_STAGES     4 /* of weights         */
#define HD_WT_X_STAGES   2 /* of f32 activations */
#define HD_WT_SLOTS      3 /* of their planes    */

template <int format> struct hd_wt_tile {
    static constexpr bool is_nvfp4 = format == HD_FMT_NVFP4_TILES;
    static constexpr int  tile_scales = is_nvfp4 ? 128 : 64; /* bytes of a tile */
    static constexpr int  lane_scales = is_nvfp4 ? 4 : 8;    /* those that a lane needs */
};

/* A matrix, and up to HD_WT_TOKENS vectors. */
struct hd_wt_job {
    const uint8_t *w, *sf;
    float          scale;
    int32_t        row_tiles, k_tiles;
    int32_t        row0; /* of this block */
    int32_t        n_tokens;
    bool           is_wide; /* whether all of x is aligned for vectors of four              */
    const float   *x[HD_WT_TOKENS]; /* of those behind n_tokens the first's, which is not used */
    float         *y[HD_WT_TOKENS];
};

template <int format> struct hd_wt_shared {
    using tile = hd_wt_tile<format>;
    __align__(1024) uint8_t slots[HD_WT_SLOTS][HD_WT_PLANES][HD_WT_TOKENS * HD_WT_LINE];
    float4    x[HD_WT_X_STAGES][HD_WT_TURNS * 4][HD_WT_CONVERTS];
    uint4     codes[HD_WT_STAGES][HD_WT_PARTS * HD_WT_MULTIPLIES];
    uint8_t   scales[HD_WT_STAGES][HD_WT_PARTS * HD_WT_MULTIPLIES * tile::lane_scales];
    uint64_t  full[HD_WT_SLOTS], empty[HD_WT_SLOTS];
    float     has_more[HD_WT_SLOTS][HD_WT_PEERS]; /* planes than the first; 1 or 0 */
    hd_wt_job job;
};
static_assert(sizeof(hd_wt_shared<HD_FMT_MXFP4_TILES>) <= 227 * 1024, "fits a block's memory");

/* Which of the blocks with the same tokens this one is. */
static __device__ __forceinline__ int hd_wt_peer(void) { return (int)(blockIdx.x % HD_WT_PEERS); }

/* A slot of the ring and the parity of its barrier. */
struct hd_wt_turn {
    int      at;
    uint32_t parity;

    __device__ __forceinline__ void next(void)
    {
        if (++at == HD_WT_SLOTS) {
            at = 0;
            parity ^= 1;
        }
    }
};

#endif
