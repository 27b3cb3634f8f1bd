#ifndef HD_QUANT_NVFP4_WEIGHTS_H
#define HD_QUANT_NVFP4_WEIGHTS_H

#include "base/status.h"

/* Weights to NVFP4, which is done once and well: unlike those of activations, the scale of a block
 * may be searched for, and is never 0, which would take 16 weights away.  A block of zeros has the
 * scale 1, as the exporters of this format write it. */

HD_BEGIN_C

typedef enum hd_block_scales {
    HD_SCALES_MAX, /* the block's largest weight becomes 6                       */
    HD_SCALES_MSE  /* the scale near that one which leaves the least square error */
} hd_block_scales;

/* The scale of a tensor whose largest magnitude is amax: amax / (6 * 448), nearest; 1 for 0, and
 * never so small that it is denormal.  amax is finite. */
float hd_nvfp4_tensor_scale(float amax);

/* Encodes a row of k finite weights, k a multiple of 16, with the tensor's scale.
 * codes    [k / 2]
 * scales   [k / 16] 0x01 .. 0x7E */
void hd_nvfp4_encode_weights(const float *x, int32_t k, float scale, hd_block_scales how,
                             uint8_t *codes, uint8_t *scales);

/* ---- MXFP4 as it is ----
 * A power of two for the tensor and one for each block say what MXFP4's scales said, so the codes
 * stay.  E4M3 has the powers 2^-9 .. 2^8: blocks up to 2^17 below the largest fit. */

/* The tensor's scale when the largest scale of a block that is not all 0 is 2^exponent. */
float hd_nvfp4_cast_scale(int exponent);
/* Casts a row of k elements, k a multiple of 32 and no scale NaN.  Of a block that does not fit
 * the weights are rounded to the smallest scale.
 * returns  blocks of 16 with a weight that changed */
int32_t hd_nvfp4_cast_mxfp4(const uint8_t *codes, const uint8_t *scales, int32_t k, float scale,
                            uint8_t *out_codes, uint8_t *out_scales);

HD_END_C
#endif
