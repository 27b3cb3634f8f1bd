#ifndef HD_DOCTOR_COMPARE_PAIR_H
#define HD_DOCTOR_COMPARE_PAIR_H

#include "checkpoint/safetensors.h"

HD_BEGIN_C

/* Two tensors of one name, b being the reference.  Values that are NaN or infinite are counted
 * and left out of the sums. */
typedef struct hd_pair_stats {
    int64_t count;
    int64_t different, first_different; /* values that are not equal                */
    int64_t bad_a, bad_b;               /* that are not finite                      */
    double  error; /* |a - b| / |b|; infinite where b is 0 and a is not, or one side alone is not
                      finite; of whole numbers, which are ids, the share that differs          */
    double  cosine, ratio;    /* of both as vectors; |a| / |b|             */
    double  worst_a, worst_b; /* values furthest apart, at worst_at        */
    int64_t worst_at;
    double  row_error; /* of the row that is worst so measured: row worst_row */
    int64_t worst_row;
} hd_pair_stats;

/* a and b have the same number of elements; rows are those of b's last dimension.  F32, BF16, F16,
 * I32 and I64. */
hd_pair_stats hd_pair_compare(const hd_st_tensor *a, const hd_st_tensor *b);
bool          hd_pair_has_values(hd_st_dtype d);

/* Two tables of logits [t, vocab] as distributions. */
typedef struct hd_logit_stats {
    double  kl_mean, kl_max; /* of a from b: sum b log(b / a), in nats */
    int64_t kl_row;
    double  top1, top5; /* share of rows with one best id; mean share of b's five best in a's */
} hd_logit_stats;
hd_logit_stats hd_logits_compare(const hd_st_tensor *a, const hd_st_tensor *b);

HD_END_C
#endif
