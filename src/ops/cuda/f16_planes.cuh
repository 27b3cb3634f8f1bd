#ifndef HD_OPS_CUDA_F16_PLANES_CUH
#define HD_OPS_CUDA_F16_PLANES_CUH

#include <cuda_fp16.h>
#include <stdint.h>

/* Activations for products with f16 operands and f32 sums: an f32 is split into two f16 (high, and
 * low times 2^11) after its row, or a run of it, was scaled by a power of two: 22 bits together. */

#define HD_LOW_PLANE (1.0f / 2048) /* what a sum with the low plane counts in */

/* The power of two that brings the largest magnitude to [1, 2), denormals as near as it gets;
 * 1 for a row with infinities, which stay what they are. */
static __device__ __forceinline__ float hd_row_unit(float amax)
{
    uint32_t const exponent = __float_as_uint(amax) >> 23;
    if (exponent == 255) return 1.0f;
    return __uint_as_float((exponent ? exponent : 1) << 23);
}

/* Elements [8 o, 8 o + 8) of a row; whole vectors where the row is aligned for them. */
static __device__ __forceinline__ void hd_read_eight(const float *x, int32_t o, bool aligned,
                                                     float v[8])
{
    if (aligned) {
        *(float4 *)v = *(const float4 *)(x + o * 8);
        *(float4 *)(v + 4) = *(const float4 *)(x + o * 8 + 4);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = x[o * 8 + i];
}

static __device__ __forceinline__ bool hd_is_aligned(const void *p)
{
    return ((uintptr_t)p & 15) == 0;
}

/* x is scaled.  Infinity is all in the high half: what is left of it would be NaN. */
static __device__ __forceinline__ void hd_split_f16(float x, __half *high, __half *low)
{
    *high = __float2half_rn(x);
    *low = __float2half_rn(isinf(x) ? 0.0f : (x - __half2float(*high)) * 2048.0f);
}

static __device__ __forceinline__ uint32_t hd_multiply_pair(uint32_t a, uint32_t b)
{
    uint32_t out;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}

/* c += A B for 16 x 16 of A and 16 x 8 of B. */
static __device__ __forceinline__ void hd_mma(float c[4], const uint32_t a[4], uint32_t b0,
                                              uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
