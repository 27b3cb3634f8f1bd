#ifndef HD_KERNELS_KERNEL_ROWS_H
#define HD_KERNELS_KERNEL_ROWS_H

#include "cases.h"
#include "kv/row.h"

/* Cache pools for cases: every op that reads or writes rows is tried in every format. */

HD_BEGIN_C

/* A layout of about d elements a row: MXFP4 rounds d up to whole blocks, FP8 and NVFP4 keep in
 * bf16 what is no whole block, and 64 more of wide rows, as models do. */
hd_row_layout test_row_layout(hd_row_format format, int32_t d, int32_t page);
/* Bytes that are NaN in every format, padding included. */
void test_fill_pool_nan(const hd_operand *o, void *pool);
/* Writes values of the pattern to a row. */
void test_fill_row(const hd_row_layout *l, void *pool, int64_t row, test_case *c);

HD_END_C
#endif
