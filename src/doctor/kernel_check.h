#ifndef HD_DOCTOR_KERNEL_CHECK_H
#define HD_DOCTOR_KERNEL_CHECK_H

#include "model/plan.h"

/* Runs every kernel that could take a step on the very inputs of that step, beside a pass, and
 * holds it against the op's reference: a model's own shapes and values, where tests/kernels has
 * cases of its own; both hold kernels to the op's own limits (hd_op.allow).
 *
 * References run on the host.  On an accelerator they read copies of what a step touches, and what
 * its kernels leave is fetched; a step's own memory is never written. */

HD_BEGIN_C

typedef struct hd_kernel_result {
    const hd_kernel *kernel;
    int64_t          steps;      /* it ran on                                      */
    double           worst;      /* error, as a share of what the op allows        */
    char             at[96];     /* that step and operand                     */
    char             fault[256]; /* the first one; empty: none                */
} hd_kernel_result;

typedef struct hd_kernel_check {
    const hd_kernel  *kernels; /* [n] as hd_kernels: the last one of an op is its reference */
    hd_kernel_result *results; /* [n] of the pool */
    int32_t           n;
    uint32_t          isa;       /* families to try */
    hd_device        *device;    /* borrowed; NULL: the host */
    const hd_plan    *plan;      /* that runs now   */
    int32_t           next;      /* step of it      */
    hd_arena saved, wanted, got; /* bases owned: inputs before a step, outputs of two runs */
    hd_arena mirrors; /* base owned: on an accelerator the other inputs, and what the step left */
    hd_arena remote;  /* base owned: of the accelerator, what a kernel's run writes there */
    hd_arena limits;  /* base owned: what the op allows of the outputs */
    void    *saved_at[HD_MAX_OPERANDS]; /* of the next step; NULL: not saved */
    /* [largest of all ops] of the pool, as hd_op_runs; real: of the step itself.  The host reads
     * what all but remote_args point to. */
    void   *in_args, *ref_args, *got_args, *real_args, *remote_args;
    hd_pool pool;
} hd_kernel_check;

/* d        where the plans run; NULL: the host */
hd_status hd_kernel_check_open(hd_kernel_check *c, const hd_kernel *kernels, int32_t n,
                               uint32_t isa, hd_device *d, hd_error *err);
void      hd_kernel_check_close(hd_kernel_check *c);
/* Stands before each run of a plan. */
hd_status hd_kernel_check_begin(hd_kernel_check *c, const hd_plan *plan, hd_error *err);
/* For hd_plan_run, with the check as user. */
hd_status hd_kernel_check_step(void *check, const hd_step *step, hd_error *err);

HD_END_C
#endif
