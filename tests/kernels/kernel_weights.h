#ifndef HD_KERNELS_KERNEL_WEIGHTS_H
#define HD_KERNELS_KERNEL_WEIGHTS_H

#include "cases.h"
#include "quant/matrix.h"

/* Weight matrices of all formats, for the cases of gemm and grouped_gemm, whose variant is the
 * hd_format. */

HD_BEGIN_C

/* Elements along k that cannot be split. */
int32_t test_weight_block(int32_t format);
/* Rounds dimensions up to what the format can hold; only tiles need it. */
void test_weight_round(int32_t format, int32_t *n, int32_t *k);

/* Fills the operand `w` or `sf`; the pattern of the case shapes f32 and bf16 weights, codes
 * and scales are always random. */
void test_fill_weights(const hd_operand *o, void *data, test_case *c);

/* Rows of activations as floats and as codes, as quant_nvfp4 leaves them. */
typedef struct test_coded {
    const float   *x;     /* [rows, k] filled; rounded by test_code_rows */
    const uint8_t *codes; /* [rows, k/2] made, like what follows         */
    const uint8_t *sf;
    const float   *scale;
    int64_t        rows, k;
} test_coded;

/* Rounds x and writes its codes, with scales that fit, that are too large and that saturate. */
void test_code_rows(const test_coded *r, test_case *c);

HD_END_C
#endif
