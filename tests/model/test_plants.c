/* Faults of kernels as users of other engines met them, planted into one step of a pass: a
 * comparison with the healthy pass names that step, and a trace the one that makes no numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../support/st_image.h"
#include "doctor/compare_parts.h"
#include "doctor/trace.h"
#include "doctor/trace_report.h"
#include "ops/attn_sparse.h"
#include "ops/cache_write.h"
#include "ops/compress_kv.h"
#include "ops/embed.h"
#include "ops/gemm.h"
#include "ops/grouped_gemm.h"
#include "ops/hc_head.h"
#include "ops/hc_post.h"
#include "ops/hc_pre.h"
#include "ops/index_score.h"
#include "ops/moe_sum.h"
#include "ops/quant_nvfp4.h"
#include "ops/rmsnorm.h"
#include "ops/rope_tail.h"
#include "ops/router.h"
#include "ops/swiglu.h"
#include "ops/topk.h"

#define MODEL "models/demo"

static const int32_t tokens[] = {0, 2042, 433, 77, 1012, 5};
#define N_TOKENS (int32_t)(sizeof tokens / sizeof tokens[0])

/* ---- a step that is not what it should be ---- */

typedef union any_args {
    unsigned char bytes[512];
    double        aligned;
} any_args;

/* Changes the arguments before the true kernel runs, or what it left. */
typedef void change_fn(void *args);

static struct {
    const hd_kernel *real;
    change_fn       *before, *after;
} planted;

static hd_status run_planted(const void *args, hd_stream *stream)
{
    any_args copy;
    assert_in_range(planted.real->op->args_bytes, 1, sizeof copy);
    memcpy(&copy, args, planted.real->op->args_bytes);
    if (planted.before) planted.before(&copy);
    hd_status const s = planted.real->run(&copy, stream);
    memcpy(&copy, args, planted.real->op->args_bytes);
    if (planted.after) planted.after(&copy);
    return s;
}

/* Room for changed inputs. */
static float  room[1 << 18];
static float *copy_floats(const float *x, int64_t n)
{
    assert_in_range(n, 0, sizeof room / sizeof room[0]);
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
    assert_in_range(n, 0, sizeof room);
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

static void no_clamp(void *args) { ((hd_swiglu_args *)args)->limit = INFINITY; }

static void swap_gate_and_up(void *args)
{
    hd_swiglu_args *const a = args;
    const float *const    gate = a->gate;
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
    hd_rope_tail_args *const a = args;
    int32_t *const           pos = (int32_t *)(void *)room;
    for (int32_t t = 0; t < a->t; t++) pos[t] = a->pos[t] + 1;
    a->pos = pos;
}

static void not_rotated_back(void *args) { ((hd_rope_tail_args *)args)->sign = 1; }

static void other_frequencies(void *args)
{
    hd_rope_tail_args *const a = args;
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

static void short_window(void *args) { ((hd_attn_sparse_args *)args)->window = N_TOKENS - 2; }

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
    a->kv = a->kv + a->d; /* the other half of each row */
    a->n_seq = 1;
    a->cap--;
}

static void write_next_row(void *args)
{
    hd_cache_write_args *const a = args;
    int32_t *const             pos = (int32_t *)(void *)room;
    for (int32_t t = 0; t < a->t; t++) pos[t] = a->pos[t] + 1;
    a->pos = pos;
}

static void no_norm_weight(void *args) { ((hd_rmsnorm_args *)args)->has_w = false; }

static void calibrated_too_small(void *args)
{
    hd_quant_nvfp4_args *const a = args;
    for (int32_t e = 0; e < a->e; e++) room[e] = a->scale[e] / 64;
    a->scale = room;
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

/* ---- one pass with a fault ---- */

typedef struct plant {
    const char *step;  /* where it is planted */
    const char *named; /* the tensor that first differs */
    change_fn  *before, *after;
} plant;

static const plant plants[] = {
    {"L02.q_b", "L02.q_b.y", skip_tail, NULL},
    {"L01.o_b", "L01.o_b.y", swap_nibbles, NULL},
    {"L04.kv", "L04.kv.y", shift_scales, NULL},
    {"L03.kv", "L03.kv.y", stale_scale, NULL},
    {"L02.w3", "L02.w3.y", next_experts_scale, NULL},
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
    {"L03.attn_unrope", "L03.attn_unrope.x", not_rotated_back, NULL},
    {"L02.kv_rope", "L02.kv_rope.x", other_frequencies, NULL},
    {"L03.attn", "L03.attn.y", next_heads_sink, NULL},
    {"L04.attn", "L04.attn.y", no_sink, NULL},
    {"L05.attn", "L05.attn.y", short_window, NULL},
    {"L00.attn", "L00.attn.y", next_row, NULL},
    {"L02.index_topk", "L02.index_topk.ids", NULL, no_compressed_rows},
    {"L04.comp_pool", "L04.comp_pool.y", no_overlap_offset, NULL},
    {"L01.kv_ring", "L01.attn.y", write_next_row, NULL},
    {"L02.attn_norm", "L02.attn_norm.y", no_norm_weight, NULL},
    {"L03.q_a_in", "L03.q_a_in.y", calibrated_too_small, NULL},
    {"embed", "embed.y", next_id, NULL},
    {"L02.index_score", "L02.index_score.score", negative_weights, NULL},
    {"head", "head.y", NULL, last_row_only},
};
#define N_PLANTS (int32_t)(sizeof plants / sizeof plants[0])

typedef struct fixture {
    temp_folder folder;
    char        dump[512]; /* of the healthy pass */
    hd_engine  *e;
} fixture;

static int open_all(void **state)
{
    static fixture   f;
    hd_error         err = {0};
    hd_trace_result  result;
    hd_options const o = {
        .model = MODEL, .max_tokens = N_TOKENS, .chunk = N_TOKENS, .isa = HD_ISA_REF};
    temp_folder_make(&f.folder);
    temp_folder_path(&f.folder, "healthy.safetensors", f.dump, sizeof f.dump);
    hd_trace_options const t = {f.dump, NULL};
    if (hd_engine_open(&f.e, &o, &err) != HD_OK) fail_msg("%s", err.message);
    assert_int_equal(hd_trace(f.e, tokens, N_TOKENS, &t, &result, &err), HD_OK);
    *state = &f;
    return 0;
}

static int close_all(void **state)
{
    fixture *const f = *state;
    hd_engine_close(f->e);
    temp_folder_remove(&f->folder);
    return 0;
}

/* The plan is the engine's and stays bound; a test may change its steps. */
static hd_step *find_step(const fixture *f, const char *name)
{
    hd_pass_walk const w = {.ids = tokens, .n = N_TOKENS};
    const hd_plan     *plan = NULL;
    char               label[96];
    assert_int_equal(hd_pass_walk_plan(f->e, &w, false, &plan, NULL), HD_OK);
    for (int32_t i = 0; i < plan->n; i++) {
        hd_step_name(&plan->steps[i], label, sizeof label);
        if (strcmp(label, name) == 0) return &plan->steps[i];
    }
    fail_msg("no step %s", name);
    return NULL;
}

/* The first tensor that is not the healthy one, and its cosine. */
static void compare(const fixture *f, char name[96], double *cosine)
{
    hd_error                 err = {0};
    hd_compare              *c = NULL;
    hd_compare_options const o = {
        .a = {MODEL, f->e}, .b = {f->dump, NULL}, .ids = tokens, .n = N_TOKENS, .tolerance = 1e-3};
    if (hd_compare_run(&c, &o, &err) != HD_OK) fail_msg("%s", err.message);
    snprintf(name, 96, "nothing");
    for (int32_t i = 0; i < c->n_pairs; i++) {
        if (c->pairs[i].stats.error <= o.tolerance) continue;
        snprintf(name, 96, "%s", c->sides[1].list[c->pairs[i].b].st.name);
        *cosine = c->pairs[i].stats.cosine;
        break;
    }
    hd_compare_close(c);
}

static void test_plants(void **state)
{
    const fixture *const f = *state;
    int32_t              wrong = 0, hidden = 0;
    for (int32_t i = 0; i < N_PLANTS; i++) {
        const plant *const p = &plants[i];
        hd_step *const     step = find_step(f, p->step);
        char               named[96];
        double             cosine = 0;
        planted.real = step->kernel;
        planted.before = p->before;
        planted.after = p->after;
        hd_kernel fake = *step->kernel;
        fake.run = run_planted;
        step->kernel = &fake;
        compare(f, named, &cosine);
        step->kernel = planted.real;
        if (strcmp(named, p->named) != 0) {
            print_error("planted at %s: %s differs first, wanted %s\n", p->step, named, p->named);
            wrong++;
        }
        hidden += cosine > 0.99;
    }
    assert_int_equal(wrong, 0);
    /* Whoever looks at the cosine alone misses those that change a magnitude or a few rows. */
    print_message("%d plants, a cosine above 0.99 hides %d\n", N_PLANTS, hidden);
    assert_true(hidden >= 3);
}

static void test_healthy(void **state)
{
    char   named[96];
    double cosine;
    compare(*state, named, &cosine);
    assert_string_equal(named, "nothing");
}

/* ---- what is no number ---- */

static void spill(void *args)
{
    const hd_gemm_args *const a = args;
    a->y[3 * a->n + 5] = NAN;
}

static void test_trace(void **state)
{
    const fixture *const          f = *state;
    hd_buffer                     out = {0};
    bool                          is_bad = false;
    hd_trace_report_options const o = {.ids = tokens, .n = N_TOKENS};
    hd_step *const                step = find_step(f, "L04.o_b");
    hd_kernel                     fake = *step->kernel;
    planted.real = step->kernel;
    planted.before = NULL;
    planted.after = spill;
    fake.run = run_planted;
    step->kernel = &fake;
    assert_int_equal(hd_trace_report(f->e, &o, &out, &is_bad, NULL), HD_OK);
    step->kernel = planted.real;
    assert_true(is_bad);
    assert_non_null(strstr(out.data, "step L04.o_b (gemm_nvfp4_ref): 1 of 1536 values of y are NaN "
                                     "or infinite, the first at [3, 5]; the steps before left "
                                     "none\n"));
    assert_null(strstr(out.data, "L04.hc_attn_post"));
    hd_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_healthy),
        cmocka_unit_test(test_plants),
        cmocka_unit_test(test_trace),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
