#ifndef HD_OPS_MATRIX_OPERANDS_H
#define HD_OPS_MATRIX_OPERANDS_H

#include "ops/op.h"
#include "quant/matrix.h"

HD_BEGIN_C

/* For describe(): the operands `w` and `sf` of a matrix [n, k] of a format, whose pointers are at
 * byte `slot` of the args. */
hd_operand hd_matrix_w_operand(hd_format f, size_t slot, int64_t n, int32_t k);
/* Only for formats with block scales. */
hd_operand hd_matrix_sf_operand(hd_format f, size_t slot, int64_t n, int32_t k);

HD_END_C
#endif
