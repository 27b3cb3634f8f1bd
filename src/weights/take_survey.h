#ifndef HD_WEIGHTS_TAKE_SURVEY_H
#define HD_WEIGHTS_TAKE_SURVEY_H

#include "weights/tensor_take.h"

/* What taking a tensor does beside loading: the tensors of one matrix are found in one place, and a
 * survey is told of what was found and of every fault.  For the files that take. */

HD_BEGIN_C

/* The siblings of one matrix; NULL where there is none. */
typedef struct hd_siblings {
    hd_tensor *weight, *packed;
    hd_tensor *scale; /* the one of "scale", "weight_scale", "weight_scale_inv" that exists */
    hd_tensor *scale_2, *global_scale, *input_scale, *input_global_scale;
} hd_siblings;

/* *s is whole also when it fails, as a survey goes on with it.
 * returns  HD_ERR_FORMAT when two of one kind are there */
hd_status hd_siblings_find(hd_taker *k, const char *name, hd_siblings *s);

/* Notes for a survey what the failure that follows is about; does nothing when loading. */
void hd_survey_blame(hd_taker *k, hd_fault_kind kind, const char *tensor, const char *suffix,
                     const char *file);
/* A survey tells the fault and goes on without the tensor: HD_OK, or HD_ERR_MEMORY. */
hd_status hd_survey_fault(hd_taker *k, hd_status s);
hd_status hd_survey_values(const hd_taker *k, hd_tensor *t, int32_t limit);
/* Tells a matrix that was taken, or, by `status`, the fault and its siblings one by one. */
hd_status hd_survey_matrix(hd_taker *k, const char *name, const hd_siblings *s, hd_status status,
                           hd_matrix *m);

HD_END_C
#endif
