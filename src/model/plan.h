#ifndef HD_MODEL_PLAN_H
#define HD_MODEL_PLAN_H

#include "base/memory.h"
#include "ops/op.h"

/* A forward pass as data: a flat list of kernel calls with bound arguments.
 *
 * The model code that fills a plan runs twice over the same arenas, first with base == NULL
 * (measure), then bound.  Running a plan allocates nothing, selects nothing and branches on
 * nothing; tracing, timing and comparing walk the same list. */

HD_BEGIN_C

#define HD_LAYER_NONE (-1) /* a step outside the layers    */
#define HD_LAYER_MTP  (-2) /* a step of the MTP block      */

typedef struct hd_step {
    const hd_kernel *kernel;
    const void      *args;  /* in the meta arena */
    const char      *label; /* static string, e.g. "attn_norm" */
    int32_t          layer;
} hd_step;

typedef struct hd_plan {
    hd_arena               *act;   /* activations: memory the kernels touch      */
    hd_arena               *meta;  /* host memory for steps and copies of args   */
    hd_step                *steps; /* [n] NULL while measuring                   */
    int32_t                 n, cap;
    const hd_kernel_choice *choice; /* borrowed: which kernels this plan may use */
    int32_t                 layer;  /* stamped on the steps added next   */
    hd_error                error;  /* sticky: the first failure wins, later adds do nothing */
} hd_plan;

/* Starts a plan of at most `cap` steps, taken from `meta` unless it measures. */
void hd_plan_begin(hd_plan *p, hd_arena *act, hd_arena *meta, int32_t cap,
                   const hd_kernel_choice *choice);

/* Appends one call, type-checked: HD_ADD(p, "attn_norm", rmsnorm, .x = ..., .t = ...) */
#define HD_ADD(plan, label, op, ...) \
    hd_plan_add((plan), (label), &hd_op_##op, &(hd_##op##_args){__VA_ARGS__})
void hd_plan_add(hd_plan *p, const char *label, const hd_op *op, const void *args);

/* Room for rows * cols f32 (or i32) in the act arena; NULL while measuring. */
void *hd_plan_room(hd_plan *p, int64_t rows, int64_t cols);

/* Called after each step; a failure ends the run with that status. */
typedef hd_status hd_step_fn(void *user, const hd_step *step, hd_error *err);
/* Runs all steps in order; the first failing kernel's step is named.
 * after    NULL for none */
hd_status hd_plan_run(const hd_plan *p, hd_stream *stream, hd_step_fn *after, void *user,
                      hd_error *err);

/* Writes "L03.q_a", "mtp.q_a" or "head" to out [cap]. */
void hd_step_name(const hd_step *s, char *out, size_t cap);

HD_END_C
#endif
