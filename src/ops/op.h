#ifndef HD_OPS_OP_H
#define HD_OPS_OP_H

#include <stddef.h>

#include "base/cpu.h"
#include "base/device.h"
#include "base/status.h"

/* The registry of operations and kernels.
 *
 * An op is a contract: an args struct, documented in ops/<op>.h, and a description of its
 * operands.  Tests, tracing, dumps and byte counts read the description; nothing else in
 * the tree repeats the shapes.  A kernel is one implementation of an op; it exists when
 * ops/kernels.def lists it, and what is listed is tested.
 *
 * Dimension letters used in all op headers:
 *   t tokens    d model or head width   k reduction   n output   h heads   e experts
 *   s slots: experts used per token     m residual streams       g groups  r rows
 * Position `pos[t]` is the token's place in its sequence, `seq[t]` says which sequence's
 * part of a cache pool it uses, so one pass may hold tokens of several sequences.        */

HD_BEGIN_C

typedef enum hd_dtype { HD_F32, HD_BF16, HD_U8, HD_I32 } hd_dtype;
typedef enum hd_role { HD_IN, HD_OUT, HD_INOUT } hd_role;

#define HD_MAX_RANK     4
#define HD_MAX_OPERANDS 12

/* One tensor of an op, contiguous, outermost dimension first. */
typedef struct hd_operand {
    const char *name; /* field name in the args struct                                  */
    hd_role     role;
    hd_dtype    dtype;
    int32_t     rank;
    int64_t     shape[HD_MAX_RANK];
    size_t      slot; /* offsetof(args struct, the pointer)                             */
    int32_t     list; /* 0: the slot is the pointer; n: it points to n such pointers    */
} hd_operand;

/* On top of every limit: below this an f32 kernel may flush what a double reference keeps. */
#define HD_ABSOLUTE_SLACK 0x1p-136

/* One call, three times, for judging a kernel: args with the inputs as they were, with what the
 * reference left, with what the kernel left. */
typedef struct hd_op_runs {
    const void *in, *ref, *got;
} hd_op_runs;

typedef struct hd_op_verdict {
    double worst; /* largest error seen, as a fraction of what is allowed */
    char   why[256];
} hd_op_verdict;

typedef struct hd_op {
    const char *name;
    size_t      args_bytes;
    /* Fills `out` from the dimensions and flags in args, reads no pointer; returns the
     * number of operands. */
    int32_t (*describe)(const void *args, hd_operand out[HD_MAX_OPERANDS]);
    /* The limit of the contract that the dimensions and flags break, in its words, or NULL; reads
     * no pointer.  No function: there is none. */
    const char *(*breaks)(const void *args);
    /* Allowed absolute error of each element of row `row` of the f32 output `o`, derived from the
     * formula (op_errors.h), of whatever values; the same for every kernel: `got` is not read.
     * NULL: equal bits. */
    void (*allow)(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed);
    /* Judges row `row` of all outputs instead, by their outermost dimension, where more than one
     * answer is right; or NULL. */
    bool (*judge)(const hd_op_runs *r, int64_t row, hd_op_verdict *v);
} hd_op;

typedef struct hd_kernel {
    const hd_op *op;
    const char  *name;                  /* "rmsnorm_avx512" */
    uint32_t     isa;                   /* HD_ISA_ bit of its family */
    bool (*supports)(const void *args); /* dimensions only, no pointers */
    hd_status (*run)(const void *args, hd_stream *stream);
} hd_kernel;

#define OP(op) extern const hd_op hd_op_##op;
#define KERNEL(op, impl, isa)                                \
    bool      hd_##op##_##impl##_supports(const void *args); \
    hd_status hd_##op##_##impl(const void *args, hd_stream *stream);
#include "ops/kernels.def"
#undef OP
#undef KERNEL

/* Ops there are: one for each OP line. */
enum {
    HD_N_OPS = 0
#define OP(op) +1
#define KERNEL(op, impl, isa)
#include "ops/kernels.def"
#undef OP
#undef KERNEL
};

extern const hd_kernel    hd_kernels[];
extern const int32_t      hd_n_kernels;
extern const hd_op *const hd_ops[HD_N_OPS];
int32_t                   hd_op_place(const hd_op *op); /* in hd_ops */

/* The limit that `args` break, also that no dimension is negative; NULL: none.  While one is broken
 * describe() may not be asked. */
const char *hd_op_broken_limit(const hd_op *op, const void *args);
/* What kernels are chosen from: a table of them, and the families that may run each op. */
typedef struct hd_kernel_choice {
    const hd_kernel *kernels; /* [n] as hd_kernels; borrowed */
    int32_t          n;
    uint32_t         isa[HD_N_OPS]; /* by the op's place in hd_ops */
} hd_kernel_choice;

/* This build's kernels, the same families for every op. */
hd_kernel_choice hd_kernel_choice_of(uint32_t isa_mask);
/* The first kernel of `op` in table order whose family may run it and which supports `args`;
 * NULL when there is none, or when args break a limit of the op. */
const hd_kernel *hd_kernel_select(const hd_kernel_choice *c, const hd_op *op, const void *args);

/* Mask of the families that have a kernel in the table. */
uint32_t hd_kernel_families(void);

size_t  hd_dtype_bytes(hd_dtype t);
int64_t hd_operand_count(const hd_operand *o); /* elements of one tensor; lists not multiplied */
/* Number of rows (product of all dimensions but the last) and their width. */
int64_t hd_operand_rows(const hd_operand *o);
int64_t hd_operand_cols(const hd_operand *o);
/* The pointer that args holds for operand `o` (the list itself when o->list > 0). */
void *hd_operand_pointer(const void *args, const hd_operand *o);

/* Builders for describe(): out[n++] = HD_OPERAND(rmsnorm, x, HD_IN, HD_F32, t, d). */
#define HD_OPERAND(op, field, role, dtype, ...)                               \
    hd_operand_make(#field, (role), (dtype), offsetof(hd_##op##_args, field), \
                    (const int64_t[]){__VA_ARGS__},                           \
                    (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
hd_operand hd_operand_make(const char *name, hd_role role, hd_dtype dtype, size_t slot,
                           const int64_t *shape, int32_t rank);

HD_END_C
#endif
