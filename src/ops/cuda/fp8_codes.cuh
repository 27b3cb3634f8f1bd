#ifndef HD_OPS_CUDA_FP8_CODES_CUH
#define HD_OPS_CUDA_FP8_CODES_CUH

#include <stdint.h>

/* E4M3 codes as f16: weights, which are operands of products, and scales. */

#define HD_FP8_F16_FACTOR 256.0f /* what a sum of decoded codes must be multiplied by */

/* Four codes to two registers of two f16 each, 2^-8 times their value, so that the format's own
 * denormals are f16's: codes 0 and 2, 1 and 3. */
static __device__ __forceinline__ void hd_decode_bytes(uint32_t w, uint32_t out[2])
{
    constexpr uint32_t magnitude = 0x3F803F80u, sign = 0x80008000u;
    out[0] = ((w << 7) & magnitude) | ((w << 8) & sign);
    out[1] = ((w >> 1) & magnitude) | (w & sign);
}

/* Two codes, in the low bits, to two f16. */
static __device__ __forceinline__ uint32_t hd_e4m3_to_f16(uint32_t codes)
{
    uint32_t out;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(out) : "h"((uint16_t)codes));
    return out;
}

/* The same to two registers that hold each twice. */
static __device__ __forceinline__ void hd_e4m3_to_f16_pairs(uint32_t codes, uint32_t out[2])
{
    uint32_t const both = hd_e4m3_to_f16(codes);
    out[0] = __byte_perm(both, 0, 0x1010);
    out[1] = __byte_perm(both, 0, 0x3232);
}

#endif
