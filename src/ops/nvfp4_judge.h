#ifndef HD_OPS_NVFP4_JUDGE_H
#define HD_OPS_NVFP4_JUDGE_H

#include "ops/quant_nvfp4.h"

/* For the judges of ops that round what they made: it follows from the values at hand, which may
 * be some of several. */

HD_BEGIN_C

/* Whether row `row` of the outputs, s being 1, is what quant_nvfp4 makes of row `row` of x. */
bool hd_nvfp4_judge_row(const hd_quant_nvfp4_args *q, int64_t row, hd_op_verdict *v);

HD_END_C
#endif
