#include "kernel_weights.h"
#include "ops/grouped_gemm.h"

static const struct {
    int32_t t, s, n, k, e;
    bool    own; /* each slot has its own input */
} shapes[] = {
    {1, 4, 128, 256, 16, false},
    {33, 4, 128, 256, 16, false},
    {1, 6, 64, 4096, 8, false},
    {0, 2, 16, 64, 4, true},
    {3, 4, 256, 128, 16, true},
    {5, 1, 24, 96, 3, false},
    {4, 3, 130, 160, 5, true},
    {9, 2, 7, 64, 1, false},
    {40, 2, 8, 32, 2, true},
    {2, 6, 0, 32, 6, false},
    {70, 3, 20, 128, 2, true},
    {150, 2, 320, 64, 2, false},
    {9, 6, 24, 64, 2, true},
    {140, 2, 9, 128, 1, false},
    {1, 7, 96, 2048, 4, false},
    {1, 6, 32, 64, 600, true},
    {1, 7, 96, 2048, 4, false},
    {1, 7, 96, 2048, 5, true},
    {1, 133, 768, 64, 3, false},
    {3, 6, 64, 512, 7, true},
    {1, 133, 768, 64, 3, true},
    /* more slots of an expert than a tile has tokens, three tiles of rows; many experts */
    {200, 2, 288, 192, 2, false},
    {700, 3, 32, 64, 900, false},
    {200, 2, 288, 192, 2, true},
    {700, 3, 32, 64, 900, true}};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])
#define N_LARGE  4 /* the last of them */
#define N_WIDE   17
#define N_DEEP   17

static void make_tail(const test_case *c, hd_grouped_gemm_args *a)
{
    int32_t const i = c->index - N_SHAPES, block = test_weight_block(c->variant);
    if (i < N_WIDE)
        *a = (hd_grouped_gemm_args){.t = 1 + i % 4, .s = 2, .n = 1 + i, .k = 64, .e = 4};
    else
        *a = (hd_grouped_gemm_args){
            .t = 2, .s = 1 + i % 3, .n = 4, .k = block * (1 + i - N_WIDE), .e = 3};
    a->xs = i & 1 ? a->s : 1;
}

static void make_shape(int32_t i, hd_grouped_gemm_args *a)
{
    *a = (hd_grouped_gemm_args){.t = shapes[i].t,
                                .s = shapes[i].s,
                                .xs = shapes[i].own ? shapes[i].s : 1,
                                .n = shapes[i].n,
                                .k = shapes[i].k,
                                .e = shapes[i].e};
}

static void make(const test_case *c, void *args)
{
    hd_grouped_gemm_args *const a = args;
    int32_t const               i = c->index;
    if (i >= N_SHAPES)
        make_tail(c, a);
    else
        make_shape(i, a);
    a->has_codes = hd_format_in_rows((hd_format)c->variant) == HD_FMT_NVFP4 && i != 2 &&
                   i % 4 < 2; /* the demo has them */
    test_weight_round(c->variant, &a->n, &a->k);
}

/* Experts by chance: some get several tokens, some none. */
static void fill(const void *args, const hd_operand *o, void *data, test_case *c)
{
    const hd_grouped_gemm_args *const a = args;
    if (test_is(o, "x"))
        test_fill_floats(o, data, c);
    else if (test_is(o, "w_scale"))
        test_fill_range(o, data, c, 0.001f, 2);
    else if (test_is(o, "x_scale")) /* the last operand of x */
        test_code_rows(
            &(test_coded){a->x, a->x_codes, a->x_sf, a->x_scale, (int64_t)a->t * a->xs, a->k}, c);
    else if (test_is(o, "w") || test_is(o, "sf"))
        test_fill_weights(o, data, c);
    else if (test_is(o, "ids"))
        for (int64_t i = 0; i < hd_operand_count(o); i++)
            ((int32_t *)data)[i] = test_below(&c->rng, a->e);
}

static bool is_large(int32_t i)
{
    if (i >= N_SHAPES) return false;
    return i >= N_SHAPES - N_LARGE || shapes[i].n * shapes[i].s > TEST_ROUND_ROWS;
}

#define CASES(format_variant)                                                               \
    {                                                                                       \
        .n = N_SHAPES + N_WIDE + N_DEEP, .variant = (format_variant), .patterns = TEST_ALL, \
        .rows = offsetof(hd_grouped_gemm_args, t), .is_for_device = is_large, .make = make, \
        .fill = fill                                                                        \
    }
const hd_cases hd_cases_grouped_gemm_f32 = CASES(HD_FMT_F32);
const hd_cases hd_cases_grouped_gemm_bf16 = CASES(HD_FMT_BF16);
const hd_cases hd_cases_grouped_gemm_fp8 = CASES(HD_FMT_FP8);
const hd_cases hd_cases_grouped_gemm_mxfp4 = CASES(HD_FMT_MXFP4);
const hd_cases hd_cases_grouped_gemm_nvfp4 = CASES(HD_FMT_NVFP4);
const hd_cases hd_cases_grouped_gemm_mxfp4_tiles = CASES(HD_FMT_MXFP4_TILES);
const hd_cases hd_cases_grouped_gemm_nvfp4_tiles = CASES(HD_FMT_NVFP4_TILES);
