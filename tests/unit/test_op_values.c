#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors.h"
#include "ops/add_streams.h"
#include "ops/attn_sparse.h"
#include "ops/compress_kv.h"
#include "ops/embed.h"
#include "ops/gemm.h"
#include "ops/grouped_gemm.h"
#include "ops/hc_head.h"
#include "ops/hc_post.h"
#include "ops/hc_pre.h"
#include "ops/head_rows.h"
#include "ops/index_score.h"
#include "ops/moe_sum.h"
#include "ops/quant_fp8.h"
#include "ops/quant_mxfp4.h"
#include "ops/rmsnorm_nvfp4.h"
#include "ops/router.h"
#include "ops/swiglu.h"
#include "ops/topk.h"

/* Known answers for the references, which everything else is compared with: values worked out
 * by hand, and roundings written by another program. */

static void assert_close(const float *got, const double *want, int32_t n, double tolerance)
{
    for (int32_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance))
            fail_msg("element %d is %.9g, not %.9g", i, (double)got[i], want[i]);
}

static void assert_ids(const int32_t *got, const int32_t *want, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (got[i] != want[i]) fail_msg("place %d is %d, not %d", i, got[i], want[i]);
}

/* ---- tokens, norms, positions ---- */

static void embeds_into_every_stream(void **state)
{
    uint16_t const table[] = {0x3F80, 0x4000, 0xC040, 0x0000}; /* 1, 2; -3, 0 */
    int32_t const  id[] = {1, 0};
    float          y[8];
    (void)state;
    hd_embed_args const a = {.table = table, .id = id, .y = y, .t = 2, .m = 2, .d = 2, .vocab = 2};
    assert_int_equal(hd_embed_ref(&a, NULL), HD_OK);
    assert_close(y, (const double[]){-3, 0, -3, 0, 1, 2, 1, 2}, 8, 0);
}

static void normalises(void **state)
{
    float const x[] = {3, 4, 0, 0}, w[] = {1, 2};
    float       y[4];
    (void)state;
    hd_rmsnorm_args a = {.x = x, .w = w, .y = y, .t = 2, .d = 2, .eps = 1e-6f, .has_w = true};
    hd_rmsnorm_ref(&a, NULL);
    double const r = 1 / sqrt(12.5 + 1e-6);
    assert_close(y, (const double[]){3 * r, 8 * r, 0, 0}, 4, 1e-7);
}

/* Rows of ones times the weight; the second scale lets 3 be the largest. */
static void rounds_what_it_normalises_for_each_reader(void **state)
{
    float const fits = 1 / 448.0f, half = 0.5f / 448;
    float       x[16], y[16], rounded[32];
    float const w[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, -6};
    int32_t     saturated[2];
    (void)state;
    for (int32_t i = 0; i < 16; i++) x[i] = 1;
    hd_rmsnorm_nvfp4_args const a = {.x = x,
                                     .w = w,
                                     .scale = {&fits, &half},
                                     .y = y,
                                     .rounded = rounded,
                                     .saturated = saturated,
                                     .t = 1,
                                     .d = 16,
                                     .c = 2,
                                     .eps = 1e-6f,
                                     .has_w = true};
    assert_int_equal(hd_rmsnorm_nvfp4_ref(&a, NULL), HD_OK);
    assert_close(y, (const double[]){0, 0.5, 1, 1.5, 2, 3, 4, -6}, 8, 1e-5);
    assert_close(rounded, (const double[]){0, 0.5, 1, 1.5, 2, 3, 4, -6}, 8, 1e-6);
    assert_close(rounded + 16, (const double[]){0, 0.5, 1, 1.5, 2, 3, 3, -3}, 8, 1e-6);
    assert_ids(saturated, (const int32_t[]){0, 1}, 2);
}

/* Pairs are adjacent: half-split pairs would put 0.8415 at index 2. */
static void rotates_adjacent_pairs(void **state)
{
    float         x[] = {9, 1, 0, 0, 0};
    float const   freq[] = {1, 0.01f};
    int32_t const pos[] = {1};
    (void)state;
    hd_head_rows_args const a = {
        .x = x, .freq = freq, .pos = pos, .t = 1, .h = 1, .d = 5, .dr = 4, .group = 1};
    hd_head_rows_ref(&a, NULL);
    assert_close(x, (const double[]){9, 0.5403023, 0.8414710, 0, 0}, 5, 1e-6);
}

/* A compressed row has the position of its group's first token. */
static void rotates_groups_by_their_first_position(void **state)
{
    float         x[] = {1, 0}, y[] = {1, 0};
    float const   freq[] = {0.5f};
    int32_t const end[] = {11}, first[] = {8};
    (void)state;
    hd_head_rows_args a = {.freq = freq, .t = 1, .h = 1, .d = 2, .dr = 2};
    a.x = x, a.pos = end, a.group = 4;
    hd_head_rows_ref(&a, NULL);
    a.x = y, a.pos = first, a.group = 1;
    hd_head_rows_ref(&a, NULL);
    assert_memory_equal(x, y, sizeof x);
    assert_close(x, (const double[]){cos(4), sin(4)}, 2, 1e-6);
}

/* Norm, turn, transform and store follow each other: the pool has what is left in x. */
static void head_rows_take_all_steps(void **state)
{
    float         x[] = {3, 4, 3, 4}, pool[] = {-1, -1, -1, -1, -1, -1};
    float const   w[] = {1, 2}, freq[] = {0.5f};
    int32_t const pos[] = {4, 5}, seq[] = {0, 0};
    (void)state;
    hd_head_rows_args const a = {.x = x,
                                 .w = w,
                                 .freq = freq,
                                 .pos = pos,
                                 .seq = seq,
                                 .pool = (uint8_t *)pool,
                                 .t = 2,
                                 .h = 1,
                                 .d = 2,
                                 .dr = 2,
                                 .group = 2,
                                 .n_seq = 1,
                                 .cap = 3,
                                 .eps = 1e-6f,
                                 .has_norm = true,
                                 .has_w = true,
                                 .has_hadamard = true,
                                 .has_pool = true,
                                 .layout = {.format = HD_ROW_F32, .d = 2, .page = 1}};
    double const            r = 1 / sqrt(12.5 + 1e-6), c = cos(2), s = sin(2);
    double const            even = r * (3 * c - 8 * s), odd = r * (3 * s + 8 * c);
    double const            y[] = {(even + odd) / sqrt(2), (even - odd) / sqrt(2)};
    hd_head_rows_ref(&a, NULL);
    assert_close(x, (const double[]){y[0], y[1], y[0], y[1]}, 4, 1e-6); /* both from position 4 */
    assert_close(pool, (const double[]){-1, -1, -1, -1, y[0], y[1]}, 6, 1e-6); /* 5 ends a group */
}

/* ---- matrices ---- */

static void multiplies_groups_side_by_side(void **state)
{
    float const x[] = {1, 2, 3, 4}, w[] = {1, 0, 0, 1, 1, 1, 2, -1};
    float       y[4];
    (void)state;
    hd_gemm_args const a = {.x = x, .w = w, .y = y, .t = 1, .n = 2, .k = 2, .g = 2};
    hd_gemm_f32_ref(&a, NULL);
    assert_close(y, (const double[]){1, 2, 7, 2}, 4, 0);
}

/* Bytes 72 F1: 1, 6, 0.5, -6 after the scales 1 and 1/2048; the other 12 codes are 0. */
static void multiplies_nvfp4(void **state)
{
    uint8_t const w[8] = {0x72, 0xF1}, sf[1] = {0x38};
    float         x[16] = {1, 10, 100, 1000}, y[1];
    (void)state;
    hd_gemm_args a = {.x = x, .w = w, .sf = sf, .y = y, .t = 1, .n = 1, .k = 16, .g = 1};
    a.w_scale = 1.0f / 2048;
    hd_gemm_nvfp4_ref(&a, NULL);
    assert_close(y, (const double[]){(1 + 60 + 50 - 6000) / 2048.0}, 1, 1e-6);
}

static void multiplies_mxfp4_and_fp8(void **state)
{
    uint8_t     w4[16] = {0x21}, sf4[1] = {130}; /* 0.5 and 1, times 8 */
    uint8_t     w8[32] = {0x38, 0xC0};           /* 1 and -2          */
    float const sf8[1] = {0.25f};
    float       x[32] = {3, 5}, y[1];
    (void)state;
    hd_gemm_args a = {.x = x, .w = w4, .sf = sf4, .y = y, .t = 1, .n = 1, .k = 32, .g = 1};
    hd_gemm_mxfp4_ref(&a, NULL);
    assert_close(y, (const double[]){8 * (1.5 + 5)}, 1, 0);
    a.w = w8, a.sf = sf8;
    hd_gemm_fp8_ref(&a, NULL);
    assert_close(y, (const double[]){0.25 * (3 - 10)}, 1, 0);
}

/* Row 128 and column 128 take the next block's scale. */
static void fp8_scales_change_at_128(void **state)
{
    static uint8_t w[129 * 129];
    static float   x[129], y[129];
    float const    sf[] = {1, 10, 100, 1000};
    (void)state;
    memset(w, 0x38, sizeof w);
    x[127] = x[128] = 1;
    hd_gemm_args const a = {.x = x, .w = w, .sf = sf, .y = y, .t = 1, .n = 129, .k = 129, .g = 1};
    hd_gemm_fp8_ref(&a, NULL);
    assert_float_equal(y[127], 11, 0);
    assert_float_equal(y[128], 1100, 0);
}

/* Each expert has its own scale: gate and up of one checkpoint differ by up to ten. */
static void experts_keep_their_scales(void **state)
{
    uint8_t           w[8], sf[1] = {0x38};
    const void *const ws[] = {w, w}, *const sfs[] = {sf, sf};
    float const   scale[] = {0x1p-10f, 0x1p-12f};
    int32_t const ids[] = {1, 0};
    float         x[16] = {1}, y[2];
    (void)state;
    memset(w, 0x77, sizeof w);
    hd_grouped_gemm_args const a = {.x = x,
                                    .ids = ids,
                                    .w = ws,
                                    .sf = sfs,
                                    .w_scale = scale,
                                    .y = y,
                                    .t = 1,
                                    .s = 2,
                                    .xs = 1,
                                    .n = 1,
                                    .k = 16,
                                    .e = 2};
    hd_grouped_gemm_nvfp4_ref(&a, NULL);
    assert_close(y, (const double[]){0.00146484375, 0.005859375}, 2, 0);
}

static void slots_may_have_their_own_input(void **state)
{
    float const       w0[] = {1, 1}, w1[] = {2, 0}, x[] = {1, 2, 3, 4};
    const void *const w[] = {w0, w1};
    int32_t const     ids[] = {0, 1};
    float             y[2];
    (void)state;
    hd_grouped_gemm_args a = {.x = x, .ids = ids, .w = w, .y = y};
    a.t = 1, a.s = 2, a.xs = 2, a.n = 1, a.k = 2, a.e = 2;
    hd_grouped_gemm_f32_ref(&a, NULL);
    assert_close(y, (const double[]){3, 6}, 2, 0);
}

/* ---- experts ---- */

/* Two chosen experts with logits 0 and 2, factor 1.5: not 0.75 each. */
static void hashed_experts_have_weights(void **state)
{
    float const   logits[] = {0, 9, 2, 9};
    int32_t const table[] = {1, 3, 0, 2}, token[] = {1};
    int32_t       ids[2];
    float         w[2];
    (void)state;
    hd_router_args a = {.logits = logits, .table = table, .token = token, .ids = ids, .w = w};
    a.t = 1, a.s = 2, a.e = 4, a.vocab = 2, a.scale = 1.5f, a.is_hash = true;
    a.scoring = HD_ROUTER_SQRTSOFTPLUS;
    hd_router_ref(&a, NULL);
    assert_ids(ids, (const int32_t[]){2, 0}, 2);
    assert_close(w, (const double[]){0.954886, 0.545114}, 2, 1e-6);
}

/* The bias picks, but does not weigh; equal experts go to the lowest id. */
static void bias_only_picks(void **state)
{
    float const logits[] = {0, 0, 0, 0}, bias[] = {0, 0, 5, 0};
    int32_t     ids[2];
    float       w[2];
    (void)state;
    hd_router_args a = {.logits = logits, .bias = bias, .ids = ids, .w = w};
    a.t = 1, a.s = 2, a.e = 4, a.scale = 1, a.scoring = HD_ROUTER_SIGMOID;
    hd_router_ref(&a, NULL);
    assert_ids(ids, (const int32_t[]){0, 2}, 2);
    assert_close(w, (const double[]){0.5, 0.5}, 2, 0);
}

static void softmax_is_not_divided_again(void **state)
{
    float const logits[] = {0, 0, 0, 0}, bias[4] = {0};
    int32_t     ids[2];
    float       w[2];
    (void)state;
    hd_router_args a = {.logits = logits, .bias = bias, .ids = ids, .w = w};
    a.t = 1, a.s = 2, a.e = 4, a.scale = 1, a.scoring = HD_ROUTER_SOFTMAX;
    hd_router_ref(&a, NULL);
    assert_ids(ids, (const int32_t[]){0, 1}, 2);
    assert_close(w, (const double[]){0.25, 0.25}, 2, 0);
}

/* silu(1) = 0.731059; gate is clamped from above only, up from both sides. */
static void gates_and_clamps(void **state)
{
    float const gate[] = {1, 20, -20, 1}, up[] = {2, -20, 20, 1}, w[] = {0.5f, 1};
    float       y[4];
    (void)state;
    hd_swiglu_args const a = {
        .gate = gate, .up = up, .w = w, .y = y, .r = 2, .n = 2, .limit = 10, .has_w = true};
    hd_swiglu_ref(&a, NULL);
    double const silu10 = 10 / (1 + exp(-10)), silu_20 = -20 / (1 + exp(20));
    assert_close(y, (const double[]){0.7310586, -50 * silu10 / 10, 10 * silu_20, 0.7310586}, 4,
                 1e-5);
}

static void sums_experts(void **state)
{
    float const y[] = {1, 2, 10, 20}, w[] = {0.5f, 2}, shared[] = {100, 200};
    float       out[2];
    (void)state;
    hd_moe_sum_args a = {.y = y, .w = w, .shared = shared, .out = out, .t = 1, .s = 2, .d = 2};
    hd_moe_sum_ref(&a, NULL);
    assert_close(out, (const double[]){111, 222}, 2, 0);
    a.has_w = true;
    hd_moe_sum_ref(&a, NULL);
    assert_close(out, (const double[]){120.5, 241}, 2, 0);
}

/* ---- caches and attention ---- */

static hd_row_layout f32_rows(int32_t d)
{
    return (hd_row_layout){.format = HD_ROW_F32, .d = d, .page = 1};
}

static void writes_rings_and_groups(void **state)
{
    float         x[] = {1, 2, 3, 4};
    int32_t const pos[] = {4, 5, 6, 7}, seq[] = {0, 0, 0, 0};
    float         pool[3] = {-1, -1, -1};
    (void)state;
    hd_head_rows_args a = {.x = x, .pos = pos, .seq = seq, .pool = (uint8_t *)pool};
    a.t = 3, a.h = 1, a.d = 1, a.n_seq = 1, a.cap = 3, a.group = 1;
    a.has_pool = true, a.layout = f32_rows(1);
    hd_head_rows_ref(&a, NULL);
    assert_close(pool, (const double[]){3, 1, 2}, 3, 0);
    a.t = 4, a.group = 4; /* only position 7 completes a group: row 1 */
    hd_head_rows_ref(&a, NULL);
    assert_close(pool, (const double[]){3, 4, 2}, 3, 0);
    assert_close(x, (const double[]){1, 2, 3, 4}, 4, 0);
}

/* Equal gates make the mean; the first group of overlapping ones has no predecessor.  The first
 * token was kept by an earlier call. */
static void pools_groups(void **state)
{
    float const   x_kv[] = {2, 20, 3, 30, 4, 40}, x_gate[6] = {0};
    float         kv[8] = {1, 10, NAN, NAN, NAN, NAN, NAN, NAN}, gate[8] = {0}, ape[4] = {0}, y[3];
    int32_t const pos[] = {1, 2, 3}, seq[] = {0, 0, 0};
    (void)state;
    hd_compress_kv_args a = {.x_kv = x_kv, .x_gate = x_gate, .ape = ape, .pos = pos, .seq = seq};
    a.kv = kv, a.gate = gate, a.y = y;
    a.t = 3, a.d = 1, a.r = 2, a.n_seq = 1, a.cap = 4, a.overlap = true;
    hd_compress_kv_ref(&a, NULL);
    assert_close(y, (const double[]){15, 0, (1 + 2 + 30 + 40) / 4.0}, 3, 1e-6);
    assert_close(kv, (const double[]){1, 10, 2, 20, 3, 30, 4, 40}, 8, 0);
    ape[3] = 100; /* second half of the second token takes all the weight */
    hd_compress_kv_ref(&a, NULL);
    assert_close(y, (const double[]){20, 0, 40}, 3, 1e-6);
}

static void scores_visible_rows(void **state)
{
    float const   q[] = {1, 0, 0, 1}, wgt[] = {2, 3}, keys[] = {1, 1, -1, 1, NAN, NAN};
    int32_t const pos[] = {8}, seq[] = {0};
    float         score[3];
    (void)state;
    hd_index_score_args a = {.q = q, .wgt = wgt, .pos = pos, .seq = seq, .score = score};
    a.t = 1, a.h = 2, a.d = 2, a.n_seq = 1, a.cap = 3, a.group = 4, a.scale = 0.5f;
    a.keys = (const uint8_t *)keys, a.layout = f32_rows(2);
    hd_index_score_ref(&a, NULL);
    assert_close(score, (const double[]){2.5, 1.5, 0}, 3, 0);
}

/* 600 equal scores, 512 places: the lowest rows, every run. */
static void ties_go_to_the_lowest_row(void **state)
{
    static float   score[600];
    static int32_t ids[512];
    int32_t const  pos[] = {599};
    (void)state;
    for (int32_t i = 0; i < 600; i++) score[i] = i % 2 ? 0.0f : -0.0f;
    hd_topk_args const a = {
        .score = score, .pos = pos, .ids = ids, .t = 1, .n = 600, .k = 512, .group = 1};
    hd_topk_ref(&a, NULL);
    for (int32_t i = 0; i < 512; i++) assert_int_equal(ids[i], i);
}

static void takes_the_best_by_rising_row(void **state)
{
    float const   score[] = {1, NAN, 5, 3, 5, 99};
    int32_t const pos[] = {4, 1}; /* the second token sees two rows */
    int32_t       ids[6];
    (void)state;
    hd_topk_args a = {.score = score, .pos = pos, .ids = ids, .t = 1, .n = 6, .k = 3, .group = 1};
    hd_topk_ref(&a, NULL);
    assert_ids(ids, (const int32_t[]){2, 3, 4}, 3);
    a.pos = pos + 1;
    hd_topk_ref(&a, NULL);
    assert_ids(ids, (const int32_t[]){0, 1, -1}, 3);
}

static hd_attn_sparse_args small_attention(const float *q, const float *win, const float *sink,
                                           const int32_t *pos, float *y)
{
    static const int32_t seq[] = {0};
    hd_attn_sparse_args  a = {.q = q, .sink = sink, .pos = pos, .seq = seq, .y = y};
    a.t = 1, a.h = 1, a.d = 2, a.n_seq = 1, a.win_cap = 3, a.window = 2, a.scale = 1;
    a.win = (const uint8_t *)win, a.win_layout = f32_rows(2);
    return a;
}

/* A query of zeros weighs its keys equally, and the sink as one more key of value 0. */
static void attends_to_the_window_and_the_sink(void **state)
{
    float const   q[] = {0, 0}, win[] = {3, 6, NAN, NAN, 9, 12}, sink[] = {0};
    int32_t const pos[] = {3}; /* window: positions 2, 3 in rows 2, 0 */
    float         y[2];
    (void)state;
    hd_attn_sparse_args a = small_attention(q, win, sink, pos, y);
    hd_attn_sparse_ref(&a, NULL);
    assert_close(y, (const double[]){4, 6}, 2, 1e-6);
}

/* One token, a sink far below: the attention is the key itself, whatever its position. */
static void one_key_gives_itself(void **state)
{
    float const   q[] = {1, 2}, win[] = {5, 7, NAN, NAN, NAN, NAN}, sink[] = {-1e9f};
    int32_t const pos[] = {0};
    float         y[2];
    (void)state;
    hd_attn_sparse_args a = small_attention(q, win, sink, pos, y);
    hd_attn_sparse_ref(&a, NULL);
    assert_close(y, (const double[]){5, 7}, 2, 0);
}

/* The same at position 1: the key comes back by its own turn. */
static void outputs_are_turned_back(void **state)
{
    float const   q[] = {1, 2}, win[] = {NAN, NAN, 5, 7, NAN, NAN}, sink[] = {-1e9f};
    float const   freq[] = {0.5f};
    int32_t const pos[] = {1};
    float         y[2];
    (void)state;
    hd_attn_sparse_args a = small_attention(q, win, sink, pos, y);
    a.window = 1, a.freq = freq, a.dr = 2;
    hd_attn_sparse_ref(&a, NULL);
    double const c = cos(0.5), s = sin(0.5);
    assert_close(y, (const double[]){5 * c + 7 * s, 7 * c - 5 * s}, 2, 1e-6);
}

static void attends_to_listed_rows(void **state)
{
    float const   q[] = {0, 0}, win[] = {3, 6, NAN, NAN, 9, 12}, sink[] = {0};
    float const   rows[] = {NAN, NAN, 4, 2};
    int32_t const pos[] = {3}, ids[] = {-1, 1, -1};
    float         y[2];
    (void)state;
    hd_attn_sparse_args a = small_attention(q, win, sink, pos, y);
    a.rows = (const uint8_t *)rows, a.row_layout = f32_rows(2);
    a.ids = ids, a.k = 3, a.group = 2, a.row_cap = 2;
    hd_attn_sparse_ref(&a, NULL);
    assert_close(y, (const double[]){4, 5}, 2, 1e-6);
}

/* ---- residual streams ---- */

/* comb is summed over its first index; the transposed sum would give 12 and 34. */
static void puts_back_by_columns(void **state)
{
    float const y[] = {100}, post[] = {1, 2}, comb[] = {1, 2, 3, 4};
    float       s[] = {10, 1};
    (void)state;
    hd_hc_post_args const a = {.y = y, .post = post, .comb = comb, .s = s, .t = 1, .m = 2, .d = 1};
    hd_hc_post_ref(&a, NULL);
    assert_close(s, (const double[]){100 + 10 + 3, 200 + 20 + 4}, 2, 0);
}

/* With fn zero only the bases count: sigmoid 0.5, and a uniform comb stays uniform. */
static void mixes_streams(void **state)
{
    float const s[] = {2, 4}, fn[16] = {0}, base[8] = {0}, scale[] = {1, 1, 1};
    float       x[1], post[2], comb[4];
    (void)state;
    hd_hc_pre_args a = {.s = s, .fn = fn, .base = base, .scale = scale};
    a.x = x, a.post = post, a.comb = comb, a.t = 1, a.m = 2, a.d = 1, a.iters = 20;
    a.eps = 1e-6f, a.hc_eps = 1e-6f;
    hd_hc_pre_ref(&a, NULL);
    assert_close(x, (const double[]){3}, 1, 1e-5);
    assert_close(post, (const double[]){1, 1}, 2, 0);
    assert_close(comb, (const double[]){0.5, 0.5, 0.5, 0.5}, 4, 1e-5);
}

/* comb[i,j] comes from z[2m + i*m + j]: a large base at (0,1) leads to the permutation that
 * sends stream 0 to 1, and so 1 to 0. */
static void comb_keeps_its_orientation(void **state)
{
    float const s[] = {1, 1}, fn[16] = {0}, base[8] = {0, 0, 0, 0, 0, 4, 0, 0};
    float const scale[] = {1, 1, 1};
    float       x[1], post[2], comb[4];
    (void)state;
    hd_hc_pre_args a = {.s = s, .fn = fn, .base = base, .scale = scale};
    a.x = x, a.post = post, a.comb = comb, a.t = 1, a.m = 2, a.d = 1, a.iters = 1;
    a.eps = 1e-6f, a.hc_eps = 0;
    hd_hc_pre_ref(&a, NULL);
    double const p = 1 / (1 + exp(4)), q = 1 - p; /* softmax of the first row */
    assert_close(comb,
                 (const double[]){p / (p + 0.5), q / (q + 0.5), 0.5 / (p + 0.5), 0.5 / (q + 0.5)},
                 4, 1e-6);
}

static void mixes_streams_for_the_head(void **state)
{
    float const s[] = {2, 4}, fn[] = {1, 0, 0, 0}, base[2] = {0}, scale[] = {1};
    float       x[1];
    (void)state;
    hd_hc_head_args a = {.s = s, .fn = fn, .base = base, .scale = scale, .x = x};
    a.t = 1, a.m = 2, a.d = 1, a.eps = 0, a.hc_eps = 0;
    hd_hc_head_ref(&a, NULL);
    double const z = 2 / sqrt(10);
    assert_close(x, (const double[]){2 / (1 + exp(-z)) + 2}, 1, 1e-6);
}

static void adds_to_every_stream(void **state)
{
    float const x[] = {1, 2};
    float       s[] = {10, 20, 30, 40};
    (void)state;
    hd_add_streams_args const a = {.x = x, .s = s, .t = 1, .m = 2, .d = 2};
    hd_add_streams_ref(&a, NULL);
    assert_close(s, (const double[]){11, 22, 31, 42}, 4, 0);
}

/* ---- roundings ---- */

/* A row of zeros beside a normal one, dynamic, static, and with a scale that is a denormal. */
static void rows_of_zeros_stay_zeros(void **state)
{
    float x[32] = {0}, y[32];
    float scale[] = {0, 0.0125f, 1e-42f};
    (void)state;
    for (int32_t i = 16; i < 32; i++) x[i] = (float)i;
    for (int32_t i = 0; i < 3; i++) {
        int32_t                   saturated[2] = {-1, -1};
        hd_quant_nvfp4_args const a = {.x = x,
                                       .scale = scale + i,
                                       .y = y,
                                       .saturated = saturated,
                                       .t = 2,
                                       .s = 1,
                                       .k = 16,
                                       .e = 1};
        hd_quant_nvfp4_ref(&a, NULL);
        for (int32_t c = 0; c < 16; c++) assert_true(y[c] == 0);
        for (int32_t c = 16; c < 32; c++) assert_true(isfinite(y[c]));
        assert_int_equal(saturated[0], 0);
        assert_int_equal(saturated[1], i == 2);
    }
}

static float *load(const hd_st_file *f, const char *name, int32_t *t, int32_t *k)
{
    const hd_st_tensor *const tensor = hd_st_find(f, name);
    if (!tensor || tensor->rank != 2) fail_msg("no tensor %s", name);
    float *const copy = malloc(tensor->bytes);
    memcpy(copy, tensor->data, tensor->bytes);
    *t = (int32_t)tensor->shape[0];
    *k = (int32_t)tensor->shape[1];
    return copy;
}

/* Equal bits, except that a zero may have either sign. */
static void assert_rounded(const hd_st_file *f, const char *name, const float *y)
{
    int32_t      t, k;
    float *const want = load(f, name, &t, &k);
    for (int32_t i = 0; i < t * k; i++)
        if (y[i] != want[i])
            fail_msg("%s[%d,%d] is %a, not %a", name, i / k, i % k, (double)y[i], (double)want[i]);
    free(want);
}

/* Values of the released code's own roundings; the file tells blocks of 64 and 128 apart. */
static void rounds_as_released(void **state)
{
    hd_st_file f = {0};
    hd_error   err = {0};
    int32_t    t, k;
    (void)state;
    if (hd_st_open(&f, "tests/golden/rounding.w8.safetensors", &err) != HD_OK)
        fail_msg("%s", err.message);
    float *const x = load(&f, "x", &t, &k), *const y = load(&f, "x", &t, &k);
    hd_quant_fp8_args fp8 = {.x = x, .y = y, .t = t, .k = k, .block = 64};
    hd_quant_fp8_ref(&fp8, NULL);
    assert_rounded(&f, "e4m3.64", y);
    fp8.block = 128;
    hd_quant_fp8_ref(&fp8, NULL);
    assert_rounded(&f, "e4m3.128", y);
    hd_quant_mxfp4_args const mxfp4 = {.x = x, .y = y, .t = t, .k = k};
    hd_quant_mxfp4_ref(&mxfp4, NULL);
    assert_rounded(&f, "e2m1.32", y);
    free(x);
    free(y);
    hd_st_close(&f);
}

static void transforms_as_released(void **state)
{
    hd_st_file f = {0};
    int32_t    t, k;
    (void)state;
    assert_int_equal(hd_st_open(&f, "tests/golden/rounding.w8.safetensors", NULL), HD_OK);
    float *const            x = load(&f, "hadamard.x", &t, &k);
    int32_t *const          pos = calloc((size_t)t, sizeof *pos);
    hd_head_rows_args const a = {
        .x = x, .pos = pos, .t = t, .h = 1, .d = k, .group = 1, .has_hadamard = true};
    hd_head_rows_ref(&a, NULL);
    assert_rounded(&f, "hadamard.y", x);
    free(pos);
    free(x);
    hd_st_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeds_into_every_stream),
        cmocka_unit_test(normalises),
        cmocka_unit_test(rounds_what_it_normalises_for_each_reader),
        cmocka_unit_test(rotates_adjacent_pairs),
        cmocka_unit_test(rotates_groups_by_their_first_position),
        cmocka_unit_test(head_rows_take_all_steps),
        cmocka_unit_test(multiplies_groups_side_by_side),
        cmocka_unit_test(multiplies_nvfp4),
        cmocka_unit_test(multiplies_mxfp4_and_fp8),
        cmocka_unit_test(fp8_scales_change_at_128),
        cmocka_unit_test(experts_keep_their_scales),
        cmocka_unit_test(slots_may_have_their_own_input),
        cmocka_unit_test(hashed_experts_have_weights),
        cmocka_unit_test(bias_only_picks),
        cmocka_unit_test(softmax_is_not_divided_again),
        cmocka_unit_test(gates_and_clamps),
        cmocka_unit_test(sums_experts),
        cmocka_unit_test(writes_rings_and_groups),
        cmocka_unit_test(pools_groups),
        cmocka_unit_test(scores_visible_rows),
        cmocka_unit_test(ties_go_to_the_lowest_row),
        cmocka_unit_test(takes_the_best_by_rising_row),
        cmocka_unit_test(attends_to_the_window_and_the_sink),
        cmocka_unit_test(one_key_gives_itself),
        cmocka_unit_test(outputs_are_turned_back),
        cmocka_unit_test(attends_to_listed_rows),
        cmocka_unit_test(puts_back_by_columns),
        cmocka_unit_test(mixes_streams),
        cmocka_unit_test(comb_keeps_its_orientation),
        cmocka_unit_test(mixes_streams_for_the_head),
        cmocka_unit_test(adds_to_every_stream),
        cmocka_unit_test(rows_of_zeros_stay_zeros),
        cmocka_unit_test(rounds_as_released),
        cmocka_unit_test(transforms_as_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
