#ifndef HD_OPS_CUDA_VECTORS_CUH
#define HD_OPS_CUDA_VECTORS_CUH

#include <stdint.h>

/* Four floats at a time.  A pointer may be aligned to one float only and a row may have any
 * width, so every access says whether it may be one vector; the elements a thread gets, and
 * with them the order of its sums, do not depend on that. */

/* Whether all rows of `width` floats from p on may be read as vectors of four. */
static __device__ __forceinline__ bool hd_is_wide(const void *p, int64_t width)
{
    return ((uintptr_t)p & 15) == 0 && (width & 3) == 0;
}

/* p[0 .. 3], of which the first n exist; the others are 0. */
static __device__ __forceinline__ float4 hd_load4(const float *p, int64_t n, bool is_wide)
{
    if (is_wide) return *(const float4 *)p;
    float4 v = {p[0], 0, 0, 0};
    if (n > 1) v.y = p[1];
    if (n > 2) v.z = p[2];
    if (n > 3) v.w = p[3];
    return v;
}

static __device__ __forceinline__ void hd_store4(float *p, float4 v, int64_t n, bool is_wide)
{
    if (is_wide) {
        *(float4 *)p = v;
        return;
    }
    p[0] = v.x;
    if (n > 1) p[1] = v.y;
    if (n > 2) p[2] = v.z;
    if (n > 3) p[3] = v.w;
}

/* sum + a . b, in one order whatever the compiler thinks. */
static __device__ __forceinline__ float hd_dot4(float4 a, float4 b, float sum)
{
    sum = fmaf(a.x, b.x, sum);
    sum = fmaf(a.y, b.y, sum);
    sum = fmaf(a.z, b.z, sum);
    return fmaf(a.w, b.w, sum);
}

#endif
