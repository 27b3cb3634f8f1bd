#ifndef HADAL_OPS_H
#define HADAL_OPS_H

/* hadal_ops.h: the operations of DeepSeek-V4 one by one, on the caller's own memory and stream.
 *
 * For another engine that wants a kernel and nothing else.  An op is named as in ops/kernels.def
 * ("gemm_nvfp4"); its arguments are the struct hd_<op>_args of ops/<op>.h, where the contract is:
 * shapes, layouts, numerics, limits (gemm_<format> in ops/gemm.h, grouped_gemm_<format> in
 * ops/grouped_gemm.h).  `make install` puts those headers in include/hadal, for -I.
 *
 * Nothing is kept between calls, nothing is allocated, no lock is taken: any thread may call, and
 * a launch on a stream that is being captured becomes part of the graph.  Pointers are read by the
 * kernel when it runs; they are on the device when the kernel's family is one of a GPU, and in
 * host memory otherwise.  hd_ops_choose reads dimensions and flags alone, so the pointers may be
 * filled in between it and hd_ops_launch. */

#include "hadal.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hd_operand; /* ops/op.h: name, role, type and shape of one pointer of the arguments */
struct hd_kernel;  /* a row of the table of kernels; lives as long as the program          */

/* Families of kernels, as bits (base/cpu.h: HD_ISA_), that this build has and this machine runs. */
uint32_t hd_ops_families(void);

int32_t     hd_ops_count(void);
const char *hd_ops_name(int32_t i); /* 0 <= i < hd_ops_count() */

/* The fastest kernel that takes these dimensions.
 * args_bytes  sizeof the struct, which must be this library's
 * isa         families to choose from; all of the host, or all of a GPU
 * returns     HD_ERR_INVALID for an unknown op, another size, families that are not there;
 *             HD_ERR_UNSUPPORTED when no kernel takes these dimensions, which it names         */
hd_status   hd_ops_choose(const struct hd_kernel **out, const char *op, const void *args,
                          size_t args_bytes, uint32_t isa, hd_error *err);
const char *hd_ops_kernel_name(const struct hd_kernel *k); /* "gemm_nvfp4_sm90" */

/* What `args` point to, from their dimensions: bytes to allocate, and what a kernel reads and
 * writes.  out has room for 12 (HD_MAX_OPERANDS); returns how many. */
int32_t hd_ops_describe(const struct hd_kernel *k, const void *args, struct hd_operand *out);

/* Runs a kernel that was chosen for arguments of these dimensions.
 * stream    a cudaStream_t for a GPU's kernel (NULL: the default one), after whose end results are
 *           there; on the host a team (base/team.h), or NULL for the calling thread, and results
 *           are there on return
 * returns   HD_ERR_INVALID naming a pointer that is NULL, HD_ERR_DEVICE when the launch fails   */
hd_status hd_ops_launch(const struct hd_kernel *k, const void *args, void *stream, hd_error *err);

#ifdef __cplusplus
}
#endif
#endif
