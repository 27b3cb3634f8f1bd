#include "kernel_weights.h"

#include <math.h>

#include "quant/bf16.h"
#include "quant/fp4.h"
#include "quant/fp8.h"
#include "quant/tiles.h"

int32_t test_weight_block(int32_t format)
{
    switch (format) {
    case HD_FMT_MXFP4_TILES:
    case HD_FMT_NVFP4_TILES: return HD_TILES_COLS;
    case HD_FMT_MXFP4: return HD_MXFP4_BLOCK;
    case HD_FMT_NVFP4: return HD_NVFP4_BLOCK;
    default: return 1;
    }
}

void test_weight_round(int32_t format, int32_t *n, int32_t *k)
{
    if (format != HD_FMT_MXFP4_TILES && format != HD_FMT_NVFP4_TILES) return;
    *n = (*n + HD_TILES_ROWS - 1) / HD_TILES_ROWS * HD_TILES_ROWS;
    *k = (*k + HD_TILES_COLS - 1) / HD_TILES_COLS * HD_TILES_COLS;
}

/* Values of one size, so that no lost block hides behind larger ones; one in 16 is any code
 * but NaN. */
static uint8_t random_e4m3(uint64_t *rng)
{
    uint8_t const any = (uint8_t)test_next(rng);
    if (test_below(rng, 16) == 0 && (any & 0x7F) != 0x7F) return any;
    return hd_e4m3_encode((double)test_uniform(rng, -448, 448));
}

/* Around 1; a case of ties also has the smallest scale, a denormal in f32. */
static uint8_t random_e8m0(test_case *c)
{
    int32_t const any = test_below(&c->rng, 64);
    return (uint8_t)(c->pattern == TEST_TIES && any < 8 ? 0 : 125 + any % 5);
}

static uint8_t random_byte(const hd_operand *o, test_case *c)
{
    bool const is_scale = test_is(o, "sf");
    if (is_scale && hd_format_in_rows((hd_format)c->variant) == HD_FMT_MXFP4) return random_e8m0(c);
    if (is_scale) return random_e4m3(&c->rng) & 0x7F;
    return c->variant == HD_FMT_FP8 ? random_e4m3(&c->rng) : (uint8_t)test_next(&c->rng);
}

static void fill_bytes(const hd_operand *o, uint8_t *data, test_case *c)
{
    for (int64_t i = 0; i < hd_operand_count(o); i++) data[i] = random_byte(o, c);
}

void test_fill_weights(const hd_operand *o, void *data, test_case *c)
{
    test_case kind = *c;
    if (kind.pattern == TEST_SPECIAL) kind.pattern = TEST_UNIFORM;
    if (o->dtype == HD_U8)
        fill_bytes(o, data, &kind);
    else if (test_is(o, "sf"))
        test_fill_range(o, data, &kind, 0.01f, 2);
    else
        test_fill_floats(o, data, &kind);
    c->rng = kind.rng;
}

static float finite_amax(const float *x, int64_t k)
{
    float amax = 0;
    for (int64_t i = 0; i < k; i++)
        if (isfinite(x[i]) && fabsf(x[i]) > amax) amax = fabsf(x[i]);
    return amax;
}

/* What the codes say; a NaN of a block's scale fills it. */
static void decode_codes(const test_coded *r, int64_t row, float *x)
{
    float const scale = r->scale[row];
    for (int64_t i = 0; i < r->k; i++) {
        uint8_t const pair = r->codes[(row * r->k + i) / 2];
        double const  s = (double)hd_e4m3_table[r->sf[(row * r->k + i) / HD_NVFP4_BLOCK]] * scale;
        x[i] = (float)(hd_e2m1_table[i & 1 ? pair >> 4 : pair & 15] * s);
    }
}

void test_code_rows(const test_coded *r, test_case *c)
{
    static const float kinds[] = {1, 1, 7, 0.01f};
    for (int64_t row = 0; row < r->rows; row++) {
        float *const x = (float *)(uintptr_t)r->x + row * r->k;
        float const  fit = hd_nvfp4_scale(finite_amax(x, r->k)) * kinds[test_below(&c->rng, 4)];
        float const  scale = fit > 0 && isfinite(fit) ? fit : 1;
        ((float *)(uintptr_t)r->scale)[row] = scale;
        hd_nvfp4_encode(x, (int32_t)r->k, scale, (uint8_t *)(uintptr_t)r->codes + row * r->k / 2,
                        (uint8_t *)(uintptr_t)r->sf + row * r->k / HD_NVFP4_BLOCK);
        decode_codes(r, row, x);
    }
}
