#ifndef HD_KERNELS_KERNEL_DEVICE_H
#define HD_KERNELS_KERNEL_DEVICE_H

#include "kernel_operands.h"

/* Runs kernels of an accelerator on operands of the host: everything between the closed pages
 * goes over, the kernel runs, everything comes back.  So guards, inputs and outputs are judged
 * as those of any other kernel. */

HD_BEGIN_C

typedef enum test_launch {
    TEST_LAUNCH_DIRECT,
    TEST_LAUNCH_GRAPH /* recorded, then replayed as a graph */
} test_launch;

/* Runs `k` with args, whose pointers lead into the buffers of `s`.  The accelerator stays open
 * and its memory is used again until test_device_close. */
hd_status test_device_run(const test_side *s, const hd_kernel *k, const void *args, test_launch how,
                          hd_error *err);
void      test_device_close(void);

HD_END_C
#endif
