#include "cases.h"
#include "ops/embed.h"

static const struct {
    int32_t t, m, d, vocab;
} shapes[] = {{1, 4, 256, 64}, {40, 4, 256, 64}, {1, 4, 4096, 16}, {0, 4, 64, 8},
              {3, 1, 64, 8},   {5, 2, 48, 1},    {2, 8, 100, 7}};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])

static void make(const test_case *c, void *args)
{
    hd_embed_args *const a = args;
    if (c->index < N_SHAPES)
        *a = (hd_embed_args){.t = shapes[c->index].t,
                             .m = shapes[c->index].m,
                             .d = shapes[c->index].d,
                             .vocab = shapes[c->index].vocab};
    else
        *a = (hd_embed_args){.t = 3, .m = 2, .d = 1 + c->index - N_SHAPES, .vocab = 5};
    a->is_f32 = c->index & 1;
}

static void fill(const void *args, const hd_operand *o, void *data, test_case *c)
{
    const hd_embed_args *const a = args;
    if (!test_is(o, "id")) {
        test_fill_floats(o, data, c);
        return;
    }
    int32_t *const id = data;
    for (int32_t i = 0; i < a->t; i++) id[i] = test_below(&c->rng, a->vocab);
    if (a->t > 1) id[0] = a->vocab - 1;
}

const hd_cases hd_cases_embed = {.n = N_SHAPES + 33,
                                 .patterns = TEST_ALL,
                                 .rows = offsetof(hd_embed_args, t),
                                 .make = make,
                                 .fill = fill};
