#include "kernel_weights.h"
#include "ops/gemm.h"

static const struct {
    int32_t t, n, k, g;
} shapes[] = {
    {1, 256, 256, 1},  {33, 128, 256, 1}, {1, 512, 4096, 1},  {0, 16, 64, 1},     {2, 64, 128, 4},
    {5, 24, 96, 3},    {1, 300, 160, 1},  {3, 130, 256, 2},   {8, 1, 128, 1},     {64, 5, 64, 1},
    {2, 0, 32, 1},     {17, 9, 544, 1},   {130, 17, 128, 2},  {20, 300, 1152, 1}, {9, 40, 4224, 1},
    {16, 64, 7168, 1}, {7, 96, 2048, 2},  {16, 32, 5120, 1},  {1, 2200, 32, 1},   {5, 600, 32, 1},
    {70, 3, 128, 1},   {260, 2, 64, 1},   {12, 160, 1024, 1}, {1, 320, 1024, 2},  {1, 512, 4096, 1},
    {1, 96, 7168, 2},  {1, 224, 512, 3},  {1, 32, 320, 1},    {1, 64, 32768, 1},  {1, 96, 1024, 9},
    {1, 608, 64, 1},   {1, 64, 640, 9},   {1, 76800, 64, 1},  {1, 768, 64, 133}};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])

/* Behind all others, of bf16 and FP8: enough tiles that the GPU takes each of their sizes, and
 * blocks that share one. */
static const struct {
    int32_t t, n, k, g;
} large[] = {{66, 384, 64, 50},
             {66, 128, 64, 99},
             {66, 128, 64, 50},
             {66, 128, 192, 25},
             {3137, 3, 1024, 1}};
#define N_LARGE (int32_t)(sizeof large / sizeof large[0])
#define N_WIDE  17 /* n = 1 .. 17, t = 1 .. 9           */
#define N_DEEP  33 /* k = 1 .. 33 elements or blocks    */

static void make_tail(const test_case *c, hd_gemm_args *a)
{
    int32_t const i = c->index - N_SHAPES, block = test_weight_block(c->variant);
    int32_t const l = i - N_WIDE - N_DEEP;
    if (l >= 0)
        *a = (hd_gemm_args){.t = large[l].t, .n = large[l].n, .k = large[l].k, .g = large[l].g};
    else if (i < N_WIDE)
        *a = (hd_gemm_args){.t = 1 + i % 9, .n = 1 + i, .k = 64, .g = 1};
    else
        *a = (hd_gemm_args){.t = 1 + i % 3, .n = 4, .k = block * (1 + i - N_WIDE), .g = 1 + i % 2};
}

static void make(const test_case *c, void *args)
{
    hd_gemm_args *const a = args;
    int32_t const       i = c->index;
    if (i < N_SHAPES)
        *a = (hd_gemm_args){.t = shapes[i].t, .n = shapes[i].n, .k = shapes[i].k, .g = shapes[i].g};
    else
        make_tail(c, a);
    test_weight_round(c->variant, &a->n, &a->k);
    a->w_scale = i & 1 ? 0.0123f : 1.5f;
    a->has_codes = hd_format_in_rows((hd_format)c->variant) == HD_FMT_NVFP4 && i != 2 &&
                   i % 4 < 2; /* the demo has them */
}

static void fill(const void *args, const hd_operand *o, void *data, test_case *c)
{
    const hd_gemm_args *const a = args;
    if (test_is(o, "x"))
        test_fill_floats(o, data, c);
    else if (test_is(o, "x_scale")) /* the last operand of x */
        test_code_rows(
            &(test_coded){a->x, a->x_codes, a->x_sf, a->x_scale, a->t, (int64_t)a->g * a->k}, c);
    else if (!test_is(o, "x_codes") && !test_is(o, "x_sf"))
        test_fill_weights(o, data, c);
}

static bool is_large(int32_t i)
{
    if (i < N_SHAPES) return shapes[i].n * shapes[i].g > TEST_ROUND_ROWS;
    return i >= N_SHAPES + N_WIDE + N_DEEP;
}

#define CASES_AND(more, format_variant)                                                     \
    {                                                                                       \
        .n = N_SHAPES + N_WIDE + N_DEEP + (more), .variant = (format_variant),              \
        .patterns = TEST_ALL, .rows = offsetof(hd_gemm_args, t), .is_for_device = is_large, \
        .make = make, .fill = fill                                                          \
    }
#define CASES(format_variant) CASES_AND(0, format_variant)
const hd_cases hd_cases_gemm_f32 = CASES(HD_FMT_F32);
const hd_cases hd_cases_gemm_bf16 = CASES_AND(N_LARGE, HD_FMT_BF16);
const hd_cases hd_cases_gemm_fp8 = CASES_AND(N_LARGE, HD_FMT_FP8);
const hd_cases hd_cases_gemm_mxfp4 = CASES(HD_FMT_MXFP4);
const hd_cases hd_cases_gemm_nvfp4 = CASES(HD_FMT_NVFP4);
const hd_cases hd_cases_gemm_mxfp4_tiles = CASES(HD_FMT_MXFP4_TILES);
const hd_cases hd_cases_gemm_nvfp4_tiles = CASES(HD_FMT_NVFP4_TILES);
