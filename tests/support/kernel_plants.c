#include "kernel_plants.h"

#include <assert.h>
#include <math.h>
#include <string.h>

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
#include "ops/rmsnorm_nvfp4.h"
#include "ops/router.h"
#include "ops/swiglu_nvfp4.h"
#include "ops/topk.h"

const int32_t kernel_plant_tokens[KERNEL_PLANT_TOKENS] = {0, 2042, 433, 77, 1012, 5};

/* Room for changed inputs. */
static float  room[1 << 18];
static float *copy_floats(const float *x, int64_t n)
{
    assert(n >= 0 && (size_t)n <= sizeof room / sizeof room[0]);
    memcpy(room, x, (size_t)n * sizeof *x);
    return room;
}

/* ---- the faults ---- */

static void skip_tail(void *args)
{
    hd_gemm_args *const a = args;
    int64_t const       k = (int64_t)a->g * a->k;
    float *const        x = copy_floats(a->x, a->t * k);
    for (int32_t t = 0; t < a->t; t++) memset(x + (t + 1) * k - 16, 0, 16 * sizeof *x);
    a->x = x;
}

static void swap_nibbles(void *args)
{
    hd_gemm_args *const  a = args;
    int64_t const        n = (int64_t)a->g * a->n * a->k / 2;
    uint8_t *const       w = (uint8_t *)room;
    const uint8_t *const from = a->w;
    assert(n >= 0 && (size_t)n <= sizeof room);
    for (int64_t i = 0; i < n; i++) w[i] = (uint8_t)(from[i] << 4 | from[i] >> 4);
    a->w = w;
}

static void shift_scales(void *args)
{
    hd_gemm_args *const a = args;
    a->sf = (const uint8_t *)a->sf + 1;
    a->n--; /* stays inside: the last row is left as it was */
}

static void stale_scale(void *args) { ((hd_gemm_args *)args)->w_scale *= 2; }

static void next_experts_scale(void *args)
{
    hd_grouped_gemm_args *const a = args;
    float *const                s = copy_floats(a->w_scale, a->e);
    for (int32_t e = 0; e < a->e; e++) s[e] = a->w_scale[(e + 1) % a->e];
    a->w_scale = s;
}

static void one_input_for_all_slots(void *args) { ((hd_grouped_gemm_args *)args)->xs = 1; }

static void drop_expert(void *args)
{
    hd_moe_sum_args *const a = args;
    float *const           w = copy_floats(a->w, (int64_t)a->t * a->s);
    for (int32_t t = 0; t < a->t; t++) w[t * a->s + a->s - 1] = 0;
    a->w = w;
}

static void no_weights(void *args)
{
    hd_moe_sum_args *const a = args;
    float *const           w = copy_floats(a->w, (int64_t)a->t * a->s);
    for (int32_t i = 0; i < a->t * a->s; i++) w[i] = 1.0f / (float)a->s;
    a->w = w;
}

static void no_bias(void *args)
{
    hd_router_args *const a = args;
    memset(room, 0, (size_t)a->e * sizeof *room);
    a->bias = room;
}

static void uniform_weights(void *args)
{
    const hd_router_args *const a = args;
    for (int32_t i = 0; i < a->t * a->s; i++) a->w[i] = a->scale / (float)a->s;
}

static void next_token(void *args)
{
    hd_router_args *const a = args;
    int32_t *const        id = (int32_t *)(void *)room;
    for (int32_t t = 0; t < a->t; t++) id[t] = (a->token[t] + 1) % a->vocab;
    a->token = id;
}

static void no_clamp(void *args) { ((hd_swiglu_nvfp4_args *)args)->limit = INFINITY; }

static void swap_gate_and_up(void *args)
{
    hd_swiglu_nvfp4_args *const a = args;
    const float *const          gate = a->gate;
    a->gate = a->up;
    a->up = gate;
}

static void transpose_streams(void *args)
{
    hd_hc_post_args *const a = args;
    for (int32_t t = 0; t < a->t; t++)
        for (int32_t i = 0; i < a->m; i++)
            for (int32_t j = 0; j < a->m; j++)
                room[(t * a->m + i) * a->m + j] = a->comb[(t * a->m + j) * a->m + i];
    a->comb = room;
}

static void one_iteration(void *args) { ((hd_hc_pre_args *)args)->iters = 1; }

static void no_base(void *args)
{
    hd_hc_head_args *const a = args;
    for (int32_t i = 0; i < a->m; i++) room[i] = 0;
    a->base = room;
}

static void next_position(void *args)
{
    hd_head_rows_args *const a = args;
    int32_t *const           pos = (int32_t *)(void *)room;
    for (int32_t t = 0; t < a->t; t++) pos[t] = a->pos[t] + 1;
    a->pos = pos;
}

static void not_turned_back(void *args) { ((hd_attn_sparse_args *)args)->dr = 0; }

static void other_frequencies(void *args)
{
    hd_head_rows_args *const a = args;
    for (int32_t i = 0; i < a->dr / 2; i++) room[i] = a->freq[i] * a->freq[i];
    a->freq = room;
}

static void next_heads_sink(void *args)
{
    hd_attn_sparse_args *const a = args;
    for (int32_t h = 0; h < a->h; h++) room[h] = a->sink[(h + 1) % a->h];
    a->sink = room;
}

static void no_sink(void *args)
{
    hd_attn_sparse_args *const a = args;
    for (int32_t h = 0; h < a->h; h++) room[h] = -1e9f;
    a->sink = room;
}

static void short_window(void *args)
{
    ((hd_attn_sparse_args *)args)->window = KERNEL_PLANT_TOKENS - 2;
}

static void next_row(void *args)
{
    hd_attn_sparse_args *const a = args;
    a->win += (size_t)a->d * sizeof(float); /* rows of f32 */
}

static void no_compressed_rows(void *args)
{
    const hd_topk_args *const a = args;
    for (int32_t i = 0; i < a->t * a->k; i++) a->ids[i] = -1;
}

static void no_overlap_offset(void *args)
{
    hd_compress_kv_args *const a = args;
    float *const               x = copy_floats(a->x_kv, (int64_t)a->t * 2 * a->d);
    for (int32_t i = 0; i < a->t * 2 * a->d; i++) /* the other half of each row */
        x[i] = a->x_kv[i / a->d % 2 ? i - a->d : i + a->d];
    a->x_kv = x;
}

static void store_next_row(void *args)
{
    hd_head_rows_args *const a = args;
    a->pool +=
        (size_t)a->d * sizeof(float); /* rows of f32, of a ring that is longer than the pass */
}

static void no_norm_weight(void *args) { ((hd_rmsnorm_nvfp4_args *)args)->has_w = false; }

static void calibrated_too_small(void *args)
{
    hd_rmsnorm_nvfp4_args *const a = args;
    room[0] = a->scale[0][0] / 64;
    a->scale[0] = room;
}

static void next_id(void *args)
{
    hd_embed_args *const a = args;
    int32_t *const       id = (int32_t *)(void *)room;
    for (int32_t t = 0; t < a->t; t++) id[t] = (a->id[t] + 1) % a->vocab;
    a->id = id;
}

static void negative_weights(void *args)
{
    hd_index_score_args *const a = args;
    float *const               w = copy_floats(a->wgt, (int64_t)a->t * a->h);
    for (int32_t i = 0; i < a->t * a->h; i++) w[i] = -w[i];
    a->wgt = w;
}

static void last_row_only(void *args)
{
    const hd_gemm_args *const a = args;
    memcpy(a->y + (int64_t)(a->t - 1) * a->n, a->y, (size_t)a->n * sizeof *a->y);
}

/* ---- where they are planted ---- */

const kernel_plant kernel_plants[] = {
    {"L02.q_b", "L02.q_b.y", skip_tail, NULL},
    {"L01.o_b", "L01.o_b.y", swap_nibbles, NULL},
    {"L04.kv", "L04.kv.y", shift_scales, NULL},
    {"L03.kv", "L03.kv.y", stale_scale, NULL},
    {"L02.w1_w3", "L02.w1_w3.y", next_experts_scale, NULL},
    {"L02.w2", "L02.w2.y", one_input_for_all_slots, NULL},
    {"L03.moe_sum", "L03.moe_sum.out", drop_expert, NULL},
    {"L04.moe_sum", "L04.moe_sum.out", no_weights, NULL},
    {"L03.router", "L03.router.ids", no_bias, NULL},
    {"L00.router", "L00.router.w", NULL, uniform_weights},
    {"L01.router", "L01.router.ids", next_token, NULL},
    {"L00.swiglu", "L00.swiglu.y", no_clamp, NULL},
    {"L01.shared_swiglu", "L01.shared_swiglu.y", swap_gate_and_up, NULL},
    {"L02.hc_attn_post", "L02.hc_attn_post.s", transpose_streams, NULL},
    {"L05.hc_ffn_pre", "L05.hc_ffn_pre.comb", one_iteration, NULL},
    {"hc_head", "hc_head.x", no_base, NULL},
    {"L01.q_rope", "L01.q_rope.x", next_position, NULL},
    {"L02.attn", "L02.attn.y", not_turned_back, NULL},
    {"L02.kv_rope", "L02.kv_rope.x", other_frequencies, NULL},
    {"L03.attn", "L03.attn.y", next_heads_sink, NULL},
    {"L04.attn", "L04.attn.y", no_sink, NULL},
    {"L05.attn", "L05.attn.y", short_window, NULL},
    {"L00.attn", "L00.attn.y", next_row, NULL},
    {"L02.index_topk", "L02.index_topk.ids", NULL, no_compressed_rows},
    {"L04.comp_pool", "L04.comp_pool.y", no_overlap_offset, NULL},
    {"L01.kv_rope", "L01.attn.y", store_next_row, NULL},
    {"L02.attn_norm", "L02.attn_norm.y", no_norm_weight, NULL},
    {"L03.attn_norm", "L03.attn_norm.rounded", calibrated_too_small, NULL},
    {"embed", "embed.y", next_id, NULL},
    {"L02.index_score", "L02.index_score.score", negative_weights, NULL},
    {"head", "head.y", NULL, last_row_only},
};
const int32_t n_kernel_plants = (int32_t)(sizeof kernel_plants / sizeof kernel_plants[0]);

typedef union any_args {
    unsigned char bytes[512];
    double        aligned;
} any_args;

hd_status kernel_plant_run(const kernel_plant *p, const hd_kernel *real, const void *args,
                           hd_stream *stream)
{
    any_args copy;
    assert(real->op->args_bytes <= sizeof copy);
    memcpy(&copy, args, real->op->args_bytes);
    if (p->before) p->before(&copy);
    hd_status const s = real->run(&copy, stream);
    memcpy(&copy, args, real->op->args_bytes);
    if (p->after) p->after(&copy);
    return s;
}
