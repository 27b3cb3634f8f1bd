#ifndef HD_BENCH_BENCH_OPERANDS_H
#define HD_BENCH_BENCH_OPERANDS_H

#include "bench/bench_place.h"
#include "ops/attn_sparse.h"
#include "ops/compress_kv.h"
#include "ops/gemm.h"
#include "ops/grouped_gemm.h"
#include "ops/hc_post.h"
#include "ops/hc_pre.h"
#include "ops/index_score.h"
#include "ops/rmsnorm_nvfp4.h"
#include "ops/router.h"
#include "ops/topk.h"

/* Operands of ops by what describe() says, so that a new kernel needs no line here. */

HD_BEGIN_C

typedef union hd_bench_args {
    hd_rmsnorm_args       rmsnorm;
    hd_quant_nvfp4_args   quant;
    hd_rmsnorm_nvfp4_args normed;
    hd_gemm_args          gemm;
    hd_grouped_gemm_args  grouped;
    hd_router_args        router;
    hd_hc_pre_args        hc_pre;
    hd_hc_post_args       hc_post;
    hd_index_score_args   index_score;
    hd_topk_args          topk;
    hd_attn_sparse_args   attn;
} hd_bench_args;

/* Valid values of an operand: scales around one, positions at the end of the context, experts
 * spread, list entries rising. */
typedef struct hd_bench_filler {
    int32_t     context;
    int32_t     set;  /* of operands: sets in a row choose other experts for a single token */
    const char *only; /* the operand to make; NULL: all */
    bool        has_bf16_x;
    bool        has_fit;   /* scales of a rounding: rows just fit, or some blocks do not */
    bool        has_fp4_q; /* the indexer's, rounded as the official model does */
    uint64_t    rng;
} hd_bench_filler;
void hd_bench_fill(const hd_operand *o, hd_bench_filler *f, void *data);

/* Makes the operands of args and points it at them; they live as long as p's memory. */
hd_status hd_bench_make_operands(hd_bench_place *p, const hd_op *op, hd_bench_args *args,
                                 hd_bench_filler *f, hd_error *err);

/* Bytes that a call reads and writes: of lists what random slots hit, of tables, pools and rings
 * the rows that it touches. */
double hd_bench_bytes(const hd_op *op, const void *args);
/* Multiplications and additions of a product; 0 of other ops. */
double hd_bench_operations(const hd_op *op, const void *args);
/* "4096 x 4096", "256 x 2048 x 4096" of a product, else the first output's. */
void hd_bench_shape(const hd_op *op, const void *args, char *out, size_t cap);

HD_END_C
#endif
