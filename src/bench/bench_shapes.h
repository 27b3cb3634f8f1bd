#ifndef HD_BENCH_BENCH_SHAPES_H
#define HD_BENCH_BENCH_SHAPES_H

#include "bench/bench_operands.h"

/* The calls of DeepSeek-V4-Flash whose kernels are measured. */

HD_BEGIN_C

#define HD_BENCH_MAX_CASES 48

typedef struct hd_bench_case {
    const char   *label;
    const hd_op  *op;
    hd_bench_args args; /* dimensions; pointers are NULL */
} hd_bench_case;

/* All of them at o's tokens and context; returns how many. */
int32_t hd_bench_list(const hd_bench_options *o, hd_bench_case out[HD_BENCH_MAX_CASES]);
/* Products of square matrices in every format, for o's tokens. */
int32_t hd_bench_list_squares(const hd_bench_options *o, hd_bench_case out[HD_BENCH_MAX_CASES]);

HD_END_C
#endif
