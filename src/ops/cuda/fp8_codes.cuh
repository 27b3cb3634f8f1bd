#ifndef HD_OPS_CUDA_FP8_CODES_CUH
#define HD_OPS_CUDA_FP8_CODES_CUH

#include <stdint.h>

/* E4M3 codes as operands of products with f16. */

#define HD_FP8_F16_FACTOR 256.0f /* what a sum of decoded codes must be multiplied by */

/* Four codes to two registers of two f16 each, 2^-8 times their value, so that the format's own
 * denormals are f16's: codes 0 and 2, 1 and 3. */
static __device__ __forceinline__ void hd_decode_bytes(uint32_t w, uint32_t out[2])
{
    constexpr uint32_t magnitude = 0x3F803F80u, sign = 0x80008000u;
    out[0] = ((w << 7) & magnitude) | ((w << 8) & sign);
    out[1] = ((w >> 1) & magnitude) | (w & sign);
}

#endif
