#ifndef HD_OPS_CUDA_MMA_BLOCK_SCALE_CUH
#define HD_OPS_CUDA_MMA_BLOCK_SCALE_CUH

#include <cuda_runtime.h>
#include <stdint.h>

/* The NVFP4 product of Blackwell's warps (sm_120a, sm_121a), and the same by any GPU's shuffles.
 *
 *   D [16, 8] += A [16, 64] B [64, 8]      four-bit codes, an E4M3 scale for each 16 along k
 *
 * Lane 4 g + q holds, eight codes a word, the lowest k in the lowest bits:
 *
 *   a[0] row g      k 8q .. 8q + 7         a[1] row g + 8, the same k
 *   a[2] row g      k 32 + 8q ..           a[3] row g + 8
 *   b[0] column g   k 8q ..                b[1] k 32 + 8q ..
 *   scale_a         the four scales of row g in even lanes, of row g + 8 in odd ones
 *   scale_b         the four scales of column g
 *   d[0], d[1]      row g, columns 2q and 2q + 1       d[2], d[3] row g + 8
 *
 * Scales have no sign; 0x7f is NaN.  The emulation is written from the description of the
 * instruction alone, so a kernel whose results are right under it holds its fragments as the
 * instruction wants them. */

struct hd_fp4_fragments {
    uint32_t a[4], b[2], scale_a, scale_b;
};

#if defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL)

static __device__ __forceinline__ void hd_mma_block_scale(float d[4], const hd_fp4_fragments &f)
{
    asm volatile("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X"
                 ".f32.e2m1.e2m1.f32.ue4m3 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3}, %10, {0, 0}, %11, {0, 0};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "r"(f.b[0]), "r"(f.b[1]),
                   "r"(f.scale_a), "r"(f.scale_b));
}

#else

static __device__ __forceinline__ float hd_ue4m3(uint32_t code)
{
    if ((code & 0x7f) == 0x7f) return __int_as_float(0x7fffffff);
    return __uint_as_float((code & 0x7f) << 20) * 0x1p120f;
}

/* Twice the value of the code in the low four bits. */
static __device__ __forceinline__ int32_t hd_twice_e2m1(uint32_t code)
{
    int32_t const magnitude = (int32_t)(0xc8643210u >> 4 * (code & 7)) & 15;
    return code & 8 ? -magnitude : magnitude;
}

static __device__ __forceinline__ int32_t hd_dot_codes(uint32_t x, uint32_t y)
{
    int32_t sum = 0;
    for (int i = 0; i < 8; i++, x >>= 4, y >>= 4) sum += hd_twice_e2m1(x) * hd_twice_e2m1(y);
    return sum;
}

static __device__ void hd_mma_block_scale(float d[4], const hd_fp4_fragments &f)
{
    int const lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    for (int half = 0; half < 2; half++)
        for (int side = 0; side < 2; side++) {
            int const      column = 2 * q + side;
            uint32_t const sa = __shfl_sync(~0u, f.scale_a, 4 * g + half);
            uint32_t const sb = __shfl_sync(~0u, f.scale_b, 4 * column);
            float          sum = 0;
            for (int block = 0; block < 4; block++) {
                int32_t dot = 0;
                for (int word = 2 * block; word < 2 * block + 2; word++) {
                    int const from = word % 4, upper = word / 4;
                    dot += hd_dot_codes(__shfl_sync(~0u, f.a[2 * upper + half], 4 * g + from),
                                        __shfl_sync(~0u, f.b[upper], 4 * column + from));
                }
                sum += (float)dot * 0.25f * hd_ue4m3(sa >> 8 * block) * hd_ue4m3(sb >> 8 * block);
            }
            d[2 * half + side] += sum;
        }
}

#endif

#endif
