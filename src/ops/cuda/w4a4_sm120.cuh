#ifndef HD_OPS_CUDA_W4A4_SM120_CUH
#define HD_OPS_CUDA_W4A4_SM120_CUH

#include "mma_block_scale.cuh"
#include "ops/cuda/launch.cuh"

/* NVFP4 weights times NVFP4 activations on the tensor cores of sm_120a: what its linear and its
 * grouped kernel share.
 *
 * Bound by the bytes of the weights up to about 64 columns, which are tokens; each byte of them
 * is read once for TILES * 8 columns.
 * Tile: a block has 16 rows of the matrix and all of k, its eight warps take steps of 64 along k
 * in turn, and their sums meet in shared memory in the order of the warps.  So an element of y
 * adds up in the same order whatever else is computed, and whoever is in the other columns.
 * Registers: 4 TILES sums, two sets of fragments of A; B comes from L1 each time.
 * Shared memory: WARPS * 16 * 8 TILES sums. */

#define HD_W4A4_WARPS   8
#define HD_W4A4_ROWS    16
#define HD_W4A4_STEP    64
#define HD_W4A4_TILES   8 /* most */
#define HD_W4A4_COLUMNS (8 * HD_W4A4_TILES)
static_assert(HD_W4A4_STEP == 4 * 16, "a word of scales is one step");

/* Rows of codes and their scales: of the weights, or of the activations. */
struct hd_fp4_rows {
    const uint8_t *codes; /* [rows, k/2]  */
    const uint8_t *sf;    /* [rows, k/16] */
    int32_t        k;
};

/* Bytes p[0 .. 3] of which n exist, the others 0; n <= 0 gives 0. */
static __device__ __forceinline__ uint32_t hd_word(const uint8_t *p, int32_t n)
{
    if (n >= 4 && ((uintptr_t)p & 3) == 0) return *(const uint32_t *)p;
    uint32_t w = 0;
    for (int i = 0; i < 4 && i < n; i++) w |= (uint32_t)p[i] << 8 * i;
    return w;
}

/* Eight codes of a row from k on; 0 behind its end and in a row that is not there. */
static __device__ __forceinline__ uint32_t hd_codes(const hd_fp4_rows &m, int64_t row, int32_t k)
{
    if (row < 0) return 0;
    return hd_word(m.codes + row * (m.k / 2) + k / 2, (m.k - k) / 2);
}

/* The four scales of a row from k on, likewise. */
static __device__ __forceinline__ uint32_t hd_scales(const hd_fp4_rows &m, int64_t row, int32_t k)
{
    if (row < 0) return 0;
    return hd_word(m.sf + row * (m.k / 16) + k / 16, (m.k - k) / 16);
}

/* The half of the fragments that belongs to rows row + 0 .. 15, of which n are there. */
static __device__ __forceinline__ void hd_load_a(hd_fp4_fragments *f, const hd_fp4_rows &m,
                                                 int64_t row, int64_t n, int32_t k)
{
    int const     lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    int64_t const low = row + g < n ? row + g : -1, high = row + g + 8 < n ? row + g + 8 : -1;
    f->a[0] = hd_codes(m, low, k + 8 * q);
    f->a[1] = hd_codes(m, high, k + 8 * q);
    f->a[2] = hd_codes(m, low, k + 32 + 8 * q);
    f->a[3] = hd_codes(m, high, k + 32 + 8 * q);
    f->scale_a = hd_scales(m, q & 1 ? high : low, k);
}

/* The half that belongs to the column of this lane, row `row` of the activations or -1. */
static __device__ __forceinline__ void hd_load_b(hd_fp4_fragments *f, const hd_fp4_rows &x,
                                                 int64_t row, int32_t k)
{
    int const q = threadIdx.x % 4;
    f->b[0] = hd_codes(x, row, k + 8 * q);
    f->b[1] = hd_codes(x, row, k + 32 + 8 * q);
    f->scale_b = hd_scales(x, row, k);
}

/* sums [HD_W4A4_WARPS][16][8 tiles] shared: this warp's part of 16 rows from `row` on, of n, times
 * the rows column[0 .. 8 tiles - 1] of x. */
template <int tiles>
static __device__ void hd_w4a4_part(const hd_fp4_rows &w, int64_t row, int64_t n,
                                    const hd_fp4_rows &x, const int32_t *column, float *sums)
{
    int const        warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    float            d[tiles][4] = {};
    hd_fp4_fragments now, next;
    int32_t          k = warp * HD_W4A4_STEP;
    hd_load_a(&next, w, row, n, k);
    for (; k < w.k; k += HD_W4A4_WARPS * HD_W4A4_STEP) {
        now = next;
        hd_load_a(&next, w, row, n, k + HD_W4A4_WARPS * HD_W4A4_STEP);
#pragma unroll
        for (int j = 0; j < tiles; j++) {
            hd_load_b(&now, x, column[8 * j + g], k);
            hd_mma_block_scale(d[j], now);
        }
    }
    float *const mine = sums + warp * HD_W4A4_ROWS * 8 * tiles;
#pragma unroll
    for (int j = 0; j < tiles; j++)
        for (int i = 0; i < 4; i++)
            mine[(g + i / 2 * 8) * 8 * tiles + 8 * j + 2 * q + i % 2] = d[j][i];
}

/* The sum of all warps for element i of [16][8 tiles]. */
template <int tiles> static __device__ __forceinline__ float hd_w4a4_sum(const float *sums, int i)
{
    float sum = 0;
    for (int warp = 0; warp < HD_W4A4_WARPS; warp++)
        sum += sums[warp * HD_W4A4_ROWS * 8 * tiles + i];
    return sum;
}

#endif
