#include <math.h>
#include <stdio.h>

#include "cases.h"
#include "ops/router.h"

static const struct {
    int32_t         t, s, e;
    hd_router_score scoring;
    bool            is_hash;
} shapes[] = {
    {1, 4, 16, HD_ROUTER_SQRTSOFTPLUS, false},  {33, 4, 16, HD_ROUTER_SQRTSOFTPLUS, false},
    {1, 6, 256, HD_ROUTER_SQRTSOFTPLUS, false}, {0, 2, 8, HD_ROUTER_SIGMOID, false},
    {5, 4, 16, HD_ROUTER_SQRTSOFTPLUS, true},   {3, 6, 256, HD_ROUTER_SQRTSOFTPLUS, true},
    {4, 8, 64, HD_ROUTER_SIGMOID, false},       {4, 8, 64, HD_ROUTER_SOFTMAX, false},
    {3, 3, 9, HD_ROUTER_SIGMOID, true},         {2, 5, 7, HD_ROUTER_SOFTMAX, true},
    {3, 1, 1, HD_ROUTER_SQRTSOFTPLUS, false},   {2, 64, 64, HD_ROUTER_SIGMOID, false},
    {2, 8, 1024, HD_ROUTER_SQRTSOFTPLUS, false}};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])
#define VOCAB    11

static void make(const test_case *c, void *args)
{
    hd_router_args *const a = args;
    int32_t const         i = c->index, e = 1 + i - N_SHAPES;
    if (i < N_SHAPES)
        *a = (hd_router_args){.t = shapes[i].t,
                              .s = shapes[i].s,
                              .e = shapes[i].e,
                              .scoring = shapes[i].scoring,
                              .is_hash = shapes[i].is_hash};
    else
        *a = (hd_router_args){.t = 3,
                              .s = e < 6 ? e : 6,
                              .e = e,
                              .scoring = (hd_router_score)(i % 3),
                              .is_hash = i % 4 == 0};
    a->vocab = VOCAB;
    a->has_pairs = i % 3 != 1;
    a->scale = i & 1 ? 1.5f : 1;
}

/* s different experts for each token id. */
static void fill_table(const hd_router_args *a, int32_t *table, test_case *c)
{
    for (int32_t v = 0; v < a->vocab; v++) {
        int32_t const first = test_below(&c->rng, a->e);
        for (int32_t s = 0; s < a->s; s++) table[v * a->s + s] = (first + s) % a->e;
    }
}

/* Logits of real routers, at most +-20: sums of scores stay far from underflow. */
static void fill(const void *args, const hd_operand *o, void *data, test_case *c)
{
    const hd_router_args *const a = args;
    if (test_is(o, "table"))
        fill_table(a, data, c);
    else if (test_is(o, "token"))
        for (int32_t t = 0; t < a->t; t++) ((int32_t *)data)[t] = test_below(&c->rng, a->vocab);
    else if (c->pattern == TEST_UNIFORM && test_is(o, "logits"))
        test_fill_range(o, data, c, -20, 20);
    else
        test_fill_floats(o, data, c);
}

const hd_cases hd_cases_router = {.n = N_SHAPES + 36,
                                  .patterns = 1U << TEST_UNIFORM | 1U << TEST_EQUAL |
                                              1U << TEST_ZERO | 1U << TEST_TIES,
                                  .rows = offsetof(hd_router_args, t),
                                  .make = make,
                                  .fill = fill};
