#include <math.h>

#include "cases.h"
#include "ops/quant_fp8.h"
#include "ops/quant_mxfp4.h"
#include "ops/quant_nvfp4.h"

/* ---- quant_fp8 ---- */

static const struct {
    int32_t t, k, block, tail;
} fp8[] = {{1, 256, 128, 0}, {33, 128, 64, 64}, {1, 4096, 128, 0}, {0, 128, 128, 0},
           {3, 512, 64, 64}, {2, 64, 64, 0},    {5, 96, 32, 0},    {2, 40, 8, 8},
           {4, 7, 128, 7},   {2, 384, 128, 0}};
#define N_FP8 (int32_t)(sizeof fp8 / sizeof fp8[0])

static void make_fp8(const test_case *c, void *args)
{
    hd_quant_fp8_args *const a = args;
    int32_t const            i = c->index, tail = 1 + i - N_FP8;
    if (i < N_FP8)
        *a = (hd_quant_fp8_args){
            .t = fp8[i].t, .k = fp8[i].k, .block = fp8[i].block, .tail = fp8[i].tail};
    else
        *a = (hd_quant_fp8_args){.t = 2, .k = 64 + tail, .block = 64, .tail = tail};
}

/* Values around the borders of the formats: midpoints of the codes at many scales. */
static void fill_near_ties(const hd_operand *o, void *data, test_case *c)
{
    int64_t const n = hd_operand_count(o);
    for (int64_t i = 0; i < n; i++) {
        float const nudge = (float)(test_below(&c->rng, 3) - 1) * 0x1p-23f;
        float const v = (float)test_below(&c->rng, 257) / 16 * (1 + nudge);
        ((float *)data)[i] = ldexpf(test_next(&c->rng) & 1 ? -v : v, c->index % 24 - 20);
    }
}

static void fill_x(const hd_operand *o, void *data, test_case *c)
{
    if (c->pattern == TEST_TIES)
        fill_near_ties(o, data, c);
    else
        test_fill_floats(o, data, c);
}

static void fill_row(const void *args, const hd_operand *o, void *data, test_case *c)
{
    (void)args;
    fill_x(o, data, c);
}

const hd_cases hd_cases_quant_fp8 = {.n = N_FP8 + 33,
                                     .patterns = TEST_ALL,
                                     .rows = offsetof(hd_quant_fp8_args, t),
                                     .make = make_fp8,
                                     .fill = fill_row,
                                     .alias = {{"x", "y"}}};

/* ---- quant_mxfp4 ---- */

static void make_mxfp4(const test_case *c, void *args)
{
    static const int32_t       t[] = {1, 33, 1, 0, 2, 3, 5}, k[] = {128, 128, 128, 32, 32, 96, 64};
    hd_quant_mxfp4_args *const a = args;
    int32_t const              i = c->index;
    *a = i < 7 ? (hd_quant_mxfp4_args){.t = t[i], .k = k[i]}
               : (hd_quant_mxfp4_args){.t = 2, .k = 32 * (i - 6)};
}

const hd_cases hd_cases_quant_mxfp4 = {.n = 7 + 24,
                                       .patterns = TEST_ALL,
                                       .rows = offsetof(hd_quant_mxfp4_args, t),
                                       .make = make_mxfp4,
                                       .fill = fill_row,
                                       .alias = {{"x", "y"}}};

/* ---- quant_nvfp4 ---- */

static const struct {
    int32_t t, s, k, e;
    bool    has_ids;
} nvfp4[] = {{1, 4, 256, 16, true},     {33, 4, 256, 16, true}, {1, 6, 4096, 8, true},
             {0, 2, 32, 4, true},       {3, 1, 128, 1, false},  {2, 3, 16, 3, true},
             {5, 1, 48, 2, false},      {4, 2, 80, 5, true},    {2, 1, 1040, 1, false},
             {3, 2, 2048, 4, true},     {2, 1, 2544, 1, false}, {520, 4, 48, 16, true},
             {172, 12, 2064, 16, true}, {515, 1, 80, 2, false}};
#define N_NVFP4 (int32_t)(sizeof nvfp4 / sizeof nvfp4[0])

static void make_nvfp4(const test_case *c, void *args)
{
    hd_quant_nvfp4_args *const a = args;
    int32_t const              i = c->index;
    if (i < N_NVFP4)
        *a = (hd_quant_nvfp4_args){.t = nvfp4[i].t,
                                   .s = nvfp4[i].s,
                                   .k = nvfp4[i].k,
                                   .e = nvfp4[i].e,
                                   .has_ids = nvfp4[i].has_ids};
    else
        *a = (hd_quant_nvfp4_args){.t = 2, .s = 1, .k = 16 * (1 + i - N_NVFP4), .e = 1};
    a->has_codes = i % 2 == 0;
}

/* Fitting, dynamic, saturating, far too large (blocks vanish) and denormal scales. */
static void fill_scales(const hd_operand *o, float *scale, test_case *c)
{
    static const float kinds[] = {1.0f / 2688, 0, 1e-7f, 1e6f, 1e-42f};
    for (int64_t i = 0; i < hd_operand_count(o); i++) {
        int64_t const kind = (i + c->index) % 5;
        scale[i] = kinds[kind] * (kind == 0 ? test_uniform(&c->rng, 0.5f, 2) : 1);
    }
}

static void fill_nvfp4(const void *args, const hd_operand *o, void *data, test_case *c)
{
    const hd_quant_nvfp4_args *const a = args;
    if (test_is(o, "x"))
        fill_x(o, data, c);
    else if (test_is(o, "scale"))
        fill_scales(o, data, c);
    else
        for (int64_t i = 0; i < hd_operand_count(o); i++)
            ((int32_t *)data)[i] = test_below(&c->rng, a->e);
}

const hd_cases hd_cases_quant_nvfp4 = {.n = N_NVFP4 + 24,
                                       .patterns = TEST_ALL,
                                       .rows = offsetof(hd_quant_nvfp4_args, t),
                                       .make = make_nvfp4,
                                       .fill = fill_nvfp4};
