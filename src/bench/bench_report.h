#ifndef HD_BENCH_BENCH_REPORT_H
#define HD_BENCH_BENCH_REPORT_H

#include "bench/bench.h"
#include "ops/op.h"

/* Making rows of a report, for those who measure. */

HD_BEGIN_C

/* What is known of a call before it is timed. */
hd_bench_row hd_bench_row_of(const char *label, const hd_kernel *k, const void *args,
                             int32_t tokens);
/* Adds a row; what follows from its time is filled in. */
void hd_bench_add(hd_bench_report *r, const hd_bench_row *row);
/* returns HD_ERR_MEMORY when a row had no room */
hd_status hd_bench_finish(const hd_bench_report *r, hd_error *err);

/* Whether a list "a,b" has the name; NULL has all. */
bool hd_bench_is_listed(const char *list, const char *name);
/* returns HD_ERR_INVALID for a word of the list that is none of the n names; `what` it should be */
hd_status hd_bench_check_list(const char *list, const char *const *names, int32_t n,
                              const char *what, hd_error *err);

HD_END_C
#endif
