#ifndef HD_QUANT_MATRIX_H
#define HD_QUANT_MATRIX_H

#include "base/status.h"

/* A weight matrix in memory, tagged with its layout: what weights/ makes and ops/ read. */

HD_BEGIN_C

typedef enum hd_format {
    HD_FMT_NONE,
    HD_FMT_F32,
    HD_FMT_BF16,
    HD_FMT_FP8,
    HD_FMT_MXFP4,
    HD_FMT_NVFP4,
    HD_FMT_MXFP4_TILES, /* the same, moved: quant/tiles.h */
    HD_FMT_NVFP4_TILES
} hd_format;
#define HD_N_FORMATS 8
const char *hd_format_name(hd_format f); /* "NVFP4" */

/* The format in which a matrix has the same values in rows; a format in rows itself. */
hd_format hd_format_in_rows(hd_format f);
/* The format of a four-bit matrix in tiles. */
hd_format hd_format_in_tiles(hd_format f);

typedef struct hd_matrix {
    hd_format   format;
    int32_t     n, k;         /* y[n] = W x[k]                                             */
    const void *w;            /* borrowed from the checkpoint's mapping or the weights arena;
                                 layouts in ops/gemm.h                                     */
    const void  *sf;          /* block scales, NULL for F32 and BF16                       */
    float        scale;       /* NVFP4: one for the tensor, a multiplier; 1 otherwise      */
    float        input_scale; /* NVFP4: activations' amax / (6 * 448); 0 when the file has none */
    const float *input_scale_at; /* [1] the same where kernels read it; NVFP4 only */
} hd_matrix;

/* The scales of n rows of k columns, as a matrix of f32 (FP8) or of bytes; 0 for F32 and BF16. */
int64_t hd_matrix_sf_rows(hd_format f, int64_t n);
int64_t hd_matrix_sf_cols(hd_format f, int32_t k);

/* Bytes at w and at sf. */
size_t hd_matrix_w_bytes(hd_format f, int32_t n, int32_t k);
size_t hd_matrix_sf_bytes(hd_format f, int32_t n, int32_t k);

HD_END_C
#endif
