#ifndef HD_KERNELS_KERNEL_HARNESS_H
#define HD_KERNELS_KERNEL_HARNESS_H

#include "base/memory.h"
#include "cases.h"

/* Runs one kernel on all cases of its op and compares it with the reference.  Works on any
 * kernel, listed or not, so that planted faults go through the same code. */

HD_BEGIN_C

typedef enum test_fault {
    FAULT_NONE,
    FAULT_UNSUPPORTED, /* refuses every case                                        */
    FAULT_STATUS,      /* returned an error                                         */
    FAULT_ACCESS,      /* touched memory outside its operands                       */
    FAULT_GUARD,       /* changed bytes beside an operand                           */
    FAULT_INPUT,       /* changed an input                                          */
    FAULT_UNWRITTEN,   /* left an output element as it was                          */
    FAULT_NONFINITE,   /* NaN or infinity where the reference has none, or missing  */
    FAULT_VALUE,       /* beyond the allowed error                                  */
    FAULT_REPEAT,      /* other bits for the same input                             */
    FAULT_PLACEMENT,   /* other bits at another alignment                           */
    FAULT_BATCH,       /* a row alone differs from the row in its batch             */
    FAULT_ALIAS,       /* other bits in place                                       */
    FAULT_GRAPH,       /* other bits when recorded and replayed                     */
    FAULT_THREADS      /* other bits when several threads share the work            */
} test_fault;
const char *test_fault_name(test_fault f);

typedef struct test_report {
    int64_t    cases; /* run, counting patterns       */
    double     worst; /* error / allowed, over all    */
    test_fault fault; /* the first one; ends the run  */
    char       message[640];
} test_report;

void test_kernel(const hd_kernel *k, const hd_kernel *ref, const hd_cases *cases, uint64_t seed,
                 test_report *out);

/* The reference of `op` in a list of kernels: its last one, in HD_ISA_REF; NULL: none. */
const hd_kernel *test_reference(const hd_kernel *kernels, int32_t n, const hd_op *op);

/* Prints one line for each op, mask and model shape: the kernel that would be chosen.  Only
 * masks inside `isa`, and for each op only those whose newest family has kernels of it; the choice
 * needs no machine that runs them. */
void test_dispatch_print(uint32_t isa, hd_buffer *out);
/* Compares with the file at `path` the lines for masks inside `isa`; prints what differs.
 * Returns whether all agree. */
bool test_dispatch_check(const char *path, uint32_t isa);

/* Runs every planted fault through test_kernel; returns the number of those not caught.
 * *n is their number. */
int32_t test_plants(uint64_t seed, int32_t *n);

/* Runs kernels for a GPU that no test has, emulated, sound and with faults; returns the number of
 * those that are not as they should be.  *n is their number. */
int32_t test_emulated(uint64_t seed, int32_t *n);

HD_END_C
#endif
