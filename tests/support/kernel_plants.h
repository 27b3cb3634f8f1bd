#ifndef TEST_KERNEL_PLANTS_H
#define TEST_KERNEL_PLANTS_H

#include "model/plan.h"

/* Faults of kernels as users of other engines met them, each for one step of a pass of
 * models/demo over these tokens, from an empty sequence and without the MTP block. */

HD_BEGIN_C

#define KERNEL_PLANT_TOKENS 6
extern const int32_t kernel_plant_tokens[KERNEL_PLANT_TOKENS];

/* Changes a copy of the arguments before the true kernel runs, or what it left. */
typedef void kernel_change_fn(void *args);

typedef struct kernel_plant {
    const char       *step;  /* where it is planted */
    const char       *named; /* the tensor that first differs */
    kernel_change_fn *before, *after;
} kernel_plant;

extern const kernel_plant kernel_plants[];
extern const int32_t      n_kernel_plants;

/* The true kernel with the fault. */
hd_status kernel_plant_run(const kernel_plant *p, const hd_kernel *real, const void *args,
                           hd_stream *stream);

HD_END_C
#endif
