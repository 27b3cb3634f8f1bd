#include "bench/bench_shapes.h"

#include <string.h>

/* ---- shapes of Flash ---- */

enum { D = 4096, HEADS = 64, HEAD = 512, EXPERTS = 256, USED = 6, INNER = 2048, STREAMS = 4 };

static hd_bench_case gemm(const char *label, const hd_op *op, int32_t t, int32_t n, int32_t k,
                          int32_t g)
{
    return (hd_bench_case){label, op, {.gemm = {.t = t, .n = n, .k = k, .g = g, .w_scale = 1}}};
}

static hd_bench_case experts(const char *label, const hd_op *op, int32_t t, int32_t xs, int32_t n,
                             int32_t k)
{
    hd_grouped_gemm_args const a = {.t = t, .s = USED, .xs = xs, .n = n, .k = k, .e = EXPERTS};
    return (hd_bench_case){label, op, {.grouped = a}};
}

/* Rows rounded to NVFP4, once or for each expert that they go to. */
static hd_bench_case rounding(const char *label, int32_t t, int32_t s, int32_t k)
{
    hd_quant_nvfp4_args const a = {
        .t = t, .s = s, .k = k, .e = EXPERTS, .has_ids = s > 1, .has_codes = true};
    return (hd_bench_case){label, &hd_op_quant_nvfp4, {.quant = a}};
}

/* A norm with the roundings of two products that read it. */
static hd_bench_case normed(const char *label, int32_t t, int32_t d)
{
    hd_rmsnorm_nvfp4_args const a = {
        .t = t, .d = d, .c = 2, .eps = 1e-6f, .has_w = true, .has_codes = true};
    return (hd_bench_case){label, &hd_op_rmsnorm_nvfp4, {.normed = a}};
}

/* The same of activations that are codes too. */
static hd_bench_case coded(hd_bench_case c)
{
    if (strncmp(c.op->name, "gemm", 4) == 0)
        c.args.gemm.has_codes = true;
    else
        c.args.grouped.has_codes = true;
    return c;
}

static hd_bench_case attention(const char *label, int32_t t, int32_t context, int32_t group,
                               int32_t k, hd_row_format format)
{
    bool const                has_tail = format == HD_ROW_FP8 || format == HD_ROW_NVFP4;
    hd_row_layout const       row = {format, HEAD, has_tail ? 64 : 0, 64};
    int32_t const             rows = k ? k : group ? context / group : 1; /* lists name 0 .. k-1 */
    hd_attn_sparse_args const a = {.t = t,
                                   .h = HEADS,
                                   .d = HEAD,
                                   .n_seq = t,
                                   .win_cap = 256,
                                   .row_cap = rows > 0 ? rows : 1,
                                   .window = 128,
                                   .group = group,
                                   .k = k,
                                   .dr = 64,
                                   .scale = 0.044f,
                                   .win_layout = row,
                                   .row_layout = row};
    return (hd_bench_case){label, &hd_op_attn_sparse, {.attn = a}};
}

/* The ops of four-bit matrices in the layout that the kernels of a place take. */
typedef struct four_bit {
    const hd_op *nvfp4, *mxfp4, *grouped_nvfp4, *grouped_mxfp4;
} four_bit;

static four_bit four_bit_of(uint32_t isa)
{
    if (isa & HD_ISA_SM90)
        return (four_bit){&hd_op_gemm_nvfp4_tiles, &hd_op_gemm_mxfp4_tiles,
                          &hd_op_grouped_gemm_nvfp4_tiles, &hd_op_grouped_gemm_mxfp4_tiles};
    return (four_bit){&hd_op_gemm_nvfp4, &hd_op_gemm_mxfp4, &hd_op_grouped_gemm_nvfp4,
                      &hd_op_grouped_gemm_mxfp4};
}

int32_t hd_bench_list(const hd_bench_options *o, hd_bench_case out[HD_BENCH_MAX_CASES])
{
    int32_t const       t = o->tokens, rows = o->context / 4;
    hd_row_layout const index = {HD_ROW_MXFP4, 128, 0, 64};
    four_bit const      four = four_bit_of(o->isa);
    int32_t             n = 0;
    out[n++] = (hd_bench_case){
        "norm", &hd_op_rmsnorm, {.rmsnorm = {.t = t, .d = D, .eps = 1e-6f, .has_w = true}}};
    out[n++] = normed("q_a, kv", t, D);
    out[n++] = normed("q_b, index_q", t, 1024);
    out[n++] = rounding("q_a", t, 1, D);
    out[n++] = rounding("o_a", t, 1, HEADS * HEAD);
    out[n++] = rounding("w1", t, USED, D);
    out[n++] = (hd_bench_case){
        "hc_pre",
        &hd_op_hc_pre,
        {.hc_pre = {.t = t, .m = STREAMS, .d = D, .iters = 20, .eps = 1e-6f, .hc_eps = 1e-6f}}};
    out[n++] =
        (hd_bench_case){"hc_post", &hd_op_hc_post, {.hc_post = {.t = t, .m = STREAMS, .d = D}}};
    out[n++] = gemm("square", four.nvfp4, t, D, D, 1);
    out[n++] = coded(gemm("square w4a4", four.nvfp4, t, D, D, 1));
    out[n++] = gemm("square", four.mxfp4, t, D, D, 1);
    out[n++] = gemm("square", &hd_op_gemm_fp8, t, D, D, 1);
    out[n++] = gemm("square", &hd_op_gemm_bf16, t, D, D, 1);
    out[n++] = gemm("q_a", &hd_op_gemm_fp8, t, 1024, D, 1);
    out[n++] = gemm("q_a", four.nvfp4, t, 1024, D, 1);
    out[n++] = gemm("q_b", &hd_op_gemm_fp8, t, HEADS * HEAD, 1024, 1);
    out[n++] = gemm("q_b", four.nvfp4, t, HEADS * HEAD, 1024, 1);
    out[n++] = gemm("o_a", four.nvfp4, t, 1024, HEADS * HEAD / 8, 8);
    out[n++] = gemm("o_b", four.nvfp4, t, D, 8192, 1);
    out[n++] = gemm("gate", &hd_op_gemm_bf16, t, EXPERTS, D, 1);
    out[n++] = gemm("large", four.nvfp4, t, 16384, 7168, 1);
    out[n++] = coded(gemm("large w4a4", four.nvfp4, t, 16384, 7168, 1));
    out[n++] = gemm("large", four.mxfp4, t, 16384, 7168, 1);
    out[n++] =
        (hd_bench_case){"router",
                        &hd_op_router,
                        {.router = {.t = t, .s = USED, .e = EXPERTS, .vocab = 1, .scale = 1.5f}}};
    out[n++] = experts("w1", four.grouped_nvfp4, t, 1, INNER, D);
    out[n++] = experts("w2", four.grouped_nvfp4, t, USED, D, INNER);
    out[n++] = coded(experts("w1 w4a4", four.grouped_nvfp4, t, USED, INNER, D));
    out[n++] = coded(experts("w2 w4a4", four.grouped_nvfp4, t, USED, D, INNER));
    out[n++] = experts("w1", four.grouped_mxfp4, t, 1, INNER, D);
    out[n++] = experts("w2", four.grouped_mxfp4, t, USED, D, INNER);
    out[n++] = (hd_bench_case){"index_score",
                               &hd_op_index_score,
                               {.index_score = {.t = t,
                                                .h = 64,
                                                .d = 128,
                                                .n_seq = t,
                                                .cap = rows,
                                                .group = 4,
                                                .scale = 0.01f,
                                                .layout = index}}};
    out[n++] =
        (hd_bench_case){"topk", &hd_op_topk, {.topk = {.t = t, .n = rows, .k = 512, .group = 4}}};
    out[n++] = attention("attn csa", t, o->context, 4, 512, HD_ROW_FP8);
    out[n++] = attention("attn hca", t, o->context, 128, 0, HD_ROW_FP8);
    out[n++] = attention("attn window", t, o->context, 0, 0, HD_ROW_FP8);
    out[n++] = attention("attn csa f32", t, o->context, 4, 512, HD_ROW_F32);
    out[n++] = attention("attn csa bf16", t, o->context, 4, 512, HD_ROW_BF16);
    out[n++] = attention("attn csa nvfp4", t, o->context, 4, 512, HD_ROW_NVFP4);
    return n;
}

int32_t hd_bench_list_squares(const hd_bench_options *o, hd_bench_case out[HD_BENCH_MAX_CASES])
{
    int32_t const  t = o->tokens;
    four_bit const four = four_bit_of(o->isa);
    int32_t        n = 0;
    out[n++] = gemm("nvfp4", four.nvfp4, t, D, D, 1);
    out[n++] = coded(gemm("w4a4", four.nvfp4, t, D, D, 1));
    out[n++] = gemm("mxfp4", four.mxfp4, t, D, D, 1);
    out[n++] = gemm("fp8", &hd_op_gemm_fp8, t, D, D, 1);
    out[n++] = gemm("bf16", &hd_op_gemm_bf16, t, D, D, 1);
    return n;
}
