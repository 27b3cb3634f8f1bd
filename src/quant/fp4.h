#ifndef HD_QUANT_FP4_H
#define HD_QUANT_FP4_H

#include "base/status.h"

HD_BEGIN_C

/* E2M1: sign (bit 3) and one of 0, 0.5, 1, 1.5, 2, 3, 4, 6.  Two codes a byte along k, the
 * low nibble is the even element. */
#define HD_E2M1_MAX 6.0
extern const float  hd_e2m1_table[16];
static inline float hd_e2m1_to_f32(unsigned code) { return hd_e2m1_table[code & 15]; }
/* Nearest, ties to the even code, saturating at 6, also for infinity; NaN, which the format
 * cannot hold, gives 6. */
uint8_t hd_e2m1_encode(double x);

/* ---- MXFP4: blocks of 32 with a power-of-two scale ------------------------------------- */
#define HD_MXFP4_BLOCK 32
/* Decodes elements [k0, k0 + n) of a row; k0 and n multiples of HD_MXFP4_BLOCK. */
void hd_mxfp4_decode(const uint8_t *codes, const uint8_t *scales, int32_t k0, int32_t n,
                     double *out);
/* Encodes a row of k elements: scale 2^ceil(log2(amax / 6)) of each block.  All finite input
 * gives finite codes; a block of zeros has scale 1, one with NaN or infinity the scale NaN. */
void hd_mxfp4_encode(const float *x, int32_t k, uint8_t *codes, uint8_t *scales);
/* The scale of such a block when the released indexer rounds: 2^ceil(log2(max(amax,
 * 6 * 2^-126) / 6)). */
double hd_mxfp4_scale(double amax);
/* Rounds a row in blocks of 32 with that scale.  y may be x; a block with NaN or infinity is copied
 * as it is. */
void hd_mxfp4_round(const float *x, float *y, int32_t k);

/* ---- NVFP4: blocks of 16 with an E4M3 scale, and one f32 scale for the tensor ------------- */
#define HD_NVFP4_BLOCK 16
void hd_nvfp4_decode(const uint8_t *codes, const uint8_t *scales, double scale, int32_t k0,
                     int32_t n, double *out);
/* The smallest f32 scale that lets a tensor of this largest magnitude fit: amax / (6 * 448),
 * rounded up; 0 only for 0. */
float hd_nvfp4_scale(float amax);
/* The E4M3 code of a block's own scale, for its largest magnitude; counts saturation. */
uint8_t hd_nvfp4_block_scale(double amax, double scale, int32_t *saturated);
/* Encodes a row of k elements with the tensor's scale > 0.
 * returns  blocks whose own scale was above 448 and saturated */
int32_t hd_nvfp4_encode(const float *x, int32_t k, float scale, uint8_t *codes, uint8_t *scales);
/* Rounds a row to what hd_nvfp4_encode can hold; y may be x; a block with NaN or infinity is
 * copied as it is.  returns saturated blocks */
int32_t hd_nvfp4_round(const float *x, float *y, int32_t k, float scale);

HD_END_C
#endif
